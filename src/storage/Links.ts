/**
 * Who speaks of whom in one tenant: links that a record has, and `[[names]]` in its text.
 *
 * What a name stands for depends on who asks: it is kept as it was written, and resolved among what he sees. A record is
 * meant by its id, else by its summary, else, of a file's record, by its path without `.md` or the id it had elsewhere. Of
 * several: of the same scope, then the newest, then by id; never the one that speaks.
 */
import * as Schema from "effect/Schema"
import { MemoryId } from "../domain/MemoryId.ts"
import { byRecency, type MemoryRecord } from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import * as Wikilink from "../domain/Wikilink.ts"

/** The other end of a link. */
export interface Linked {
  readonly id: MemoryId
  /** The link's own, or `wikilink`. */
  readonly type: string
  /** 0..1; of a wikilink 1. */
  readonly weight: number
}

export interface Neighbours {
  /** As the record says them: its links, then the names in its text; of each id and type the first. */
  readonly to: ReadonlyArray<Linked>
  /** Of the newest record that says one first. */
  readonly from: ReadonlyArray<Linked>
}

export interface Links {
  /** The record of an id is now this one; `undefined`: there is none. Cost: its text. */
  readonly set: (id: MemoryId, record: MemoryRecord | undefined) => void
  /** For whoever sees what `sees` says. Cost of each: the record's own ends, and all that share a name with one. */
  readonly seen: (sees: (record: MemoryRecord) => boolean) => (id: MemoryId) => Neighbours
}

/** A name in a record's text. */
interface Mention {
  readonly by: MemoryId
  readonly id: MemoryId | undefined
  readonly names: ReadonlyArray<string>
}
interface Node {
  readonly record: MemoryRecord
  readonly names: ReadonlyArray<string>
  readonly mentions: ReadonlyArray<Mention>
}

export const make = (): Links => {
  const nodes = new Map<MemoryId, Node>()
  const named = new Map<string, Set<MemoryId>>()
  const mentioned = new Map<string, Set<Mention>>()
  const linked = new Map<MemoryId, Set<MemoryId>>()

  const each = ({ mentions, names, record }: Node, on: typeof add | typeof remove) => {
    for (const name of names) on(named, name, record.id)
    for (const mention of mentions) for (const key of keysOf(mention)) on(mentioned, key, mention)
    for (const { to } of record.links) on(linked, to, record.id)
  }

  return {
    set(id, record) {
      const last = nodes.get(id)
      if (last) each(last, remove)
      nodes.delete(id)
      if (record === undefined) return
      const node = { record, names: namesOf(record), mentions: mentionsOf(record) }
      nodes.set(id, node)
      each(node, add)
    },
    seen(sees) {
      const nodeOf = (id: MemoryId): Node | undefined => {
        const node = nodes.get(id)
        return node && sees(node.record) ? node : undefined
      }
      const bearers = new Map<string, (by: MemoryRecord) => MemoryId | undefined>()
      const bearer = (name: string, by: MemoryRecord) => {
        const known = bearers.get(name) ??
          chooser(Array.from(named.get(name) ?? []).flatMap((id) => nodeOf(id)?.record ?? []))
        bearers.set(name, known)
        return known(by)
      }
      const meant = ({ id, names }: Mention, by: MemoryRecord): MemoryId | undefined => {
        if (id !== undefined && nodeOf(id)) return id
        for (const name of names) {
          const found = bearer(name, by)
          if (found !== undefined) return found
        }
        return undefined
      }
      const wikilink = (id: MemoryId | undefined): ReadonlyArray<Linked> =>
        id === undefined ? [] : [{ id, type: "wikilink", weight: 1 }]

      return (id) => {
        const node = nodeOf(id)
        if (node === undefined) return { to: [], from: [] }
        const to = [
          ...node.record.links.flatMap(({ to, type, weight }) => nodeOf(to) ? [{ id: to, type, weight }] : []),
          ...node.mentions.flatMap((mention) => wikilink(meant(mention, node.record)))
        ]
        const linkers = Array.from(linked.get(id) ?? []).flatMap((by) => nodeOf(by)?.record ?? [])
        const mentions = [id, ...node.names].flatMap((key) => Array.from(mentioned.get(key) ?? []))
        const from = [
          ...linkers.flatMap((by) => by.links.flatMap((link) => link.to === id ? [{ ...link, by }] : [])),
          ...mentions.flatMap((mention) => {
            const by = nodeOf(mention.by)?.record
            return by && meant(mention, by) === id ? [{ by, type: "wikilink", weight: 1 }] : []
          })
        ].sort((a, b) => byRecency(a.by, b.by)).map(({ by, type, weight }) => ({ id: by.id, type, weight }))
        return { to: distinct(id, to), from: distinct(id, from) }
      }
    }
  }
}

/** Which of them is meant by a name, depending on who speaks. */
const chooser = (records: ReadonlyArray<MemoryRecord>): (by: MemoryRecord) => MemoryId | undefined => {
  const sorted = records.slice().sort(byRecency)
  const byScope = new Map<string, Array<MemoryRecord>>()
  for (const record of sorted) {
    const key = MemoryScope.key(record.scope)
    const others = byScope.get(key)
    if (others) others.push(record)
    else byScope.set(key, [record])
  }
  return (by) => {
    const isOther = ({ id }: MemoryRecord) => id !== by.id // the first or the second
    return (byScope.get(MemoryScope.key(by.scope))?.find(isOther) ?? sorted.find(isOther))?.id
  }
}

const namesOf = ({ source: { origin, reference }, summary }: MemoryRecord): ReadonlyArray<string> => {
  const path = origin === "file" && reference !== undefined ? Wikilink.namesOf(reference).slice(0, 1) : []
  return Array.from(new Set([Wikilink.nameOf(summary), ...path])).filter((name) => name !== "")
}

/** Of the body, and of `metadata.links`, where Deuz's callers keep them. */
const mentionsOf = ({ body, id: by, metadata }: MemoryRecord): ReadonlyArray<Mention> => {
  const links = metadata["links"]
  const texts = [body, ...(Array.isArray(links) ? links : []).filter((text) => typeof text === "string")]
  return texts.flatMap(Wikilink.parse).slice(0, Wikilink.maxTargets).map(({ target }) => ({
    by,
    id: isId(target) ? target : undefined,
    names: Wikilink.namesOf(target)
  }))
}
const isId = Schema.is(MemoryId)

const keysOf = ({ id, names }: Mention): ReadonlyArray<string> => id === undefined ? names : [id, ...names]

/** A record is no neighbour of its own. */
const distinct = (self: MemoryId, all: ReadonlyArray<Linked>): ReadonlyArray<Linked> => {
  const found = new Map<string, Linked>()
  for (const one of all) {
    const key = `${one.id} ${one.type}`
    if (one.id !== self && !found.has(key)) found.set(key, one)
  }
  return Array.from(found.values())
}

const add = <K, V>(map: Map<K, Set<V>>, key: K, value: V): void => {
  const values = map.get(key)
  if (values) values.add(value)
  else map.set(key, new Set([value]))
}
const remove = <K, V>(map: Map<K, Set<V>>, key: K, value: V): void => {
  const values = map.get(key)
  values?.delete(value)
  if (values?.size === 0) map.delete(key)
}
