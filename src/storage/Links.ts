/**
 * Who speaks of whom in one tenant: links that a record has, and `[[names]]` in its text.
 *
 * What a name stands for depends on the viewer: it is kept as it was written, and resolved among what the viewer sees.
 *
 * ```text
 * id           of a record
 * /a/Name      the file of that path
 * ./ and ../   a path from the speaker's folder; so, at first, is the target of a markdown link
 * a/b/Name     the file of that path, else a file whose path ends so, else what is called Name
 * Name         a summary, a file's name, the id that a record had elsewhere; else an alias (`metadata.aliases` of a file),
 *              or a name that its file had (`metadata.formerNames`)
 * ```
 *
 * Of several with one name: those of the speaker's scope; among them the nearest path (the speaker's own folder, then the
 * fewest folders, the fewest characters, by name); records without a path come after, the newest first, then by id. The
 * speaker is never meant. Properties of a file (`metadata`) speak as its text does.
 */
import * as Schema from "effect/Schema"
import { MemoryId } from "../domain/MemoryId.ts"
import { byRecency, type MemoryRecord } from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import type { Json } from "../domain/Payload.ts"
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

/** The records of a tenant by the names that they answer to, and by what they refer to: how an engine in memory answers. */
export interface Links {
  /** The record of an id is now this one; `undefined`: there is none. Cost: its text. */
  readonly set: (id: MemoryId, record: MemoryRecord | undefined) => void
  /** Returns the records that answer to any of the names. */
  readonly named: (names: Iterable<string>) => ReadonlyArray<MemoryRecord>
  /** Returns the records that refer to any of the names or ids. */
  readonly referring: (keys: Iterable<string>) => ReadonlyArray<MemoryRecord>
  /** Returns the neighbours of a record among the records that `sees` lets pass. Cost: its own ends, and all that share a name with one. */
  readonly seen: (sees: (record: MemoryRecord) => boolean) => (id: MemoryId) => Neighbours
}

/** What a viewer sees of the records around one: enough to say its neighbours. */
export interface Surroundings {
  /** Records that refer to it by a name or its id. */
  readonly referring: ReadonlyArray<MemoryRecord>
  /** Those of `namesAround` that are records. */
  readonly named: ReadonlyArray<MemoryRecord>
  /** Those of `idsAround` that are records. */
  readonly byId: ReadonlyMap<MemoryId, MemoryRecord>
}

/** A name in a record's text, the likeliest meaning first. */
interface Mention {
  readonly id: MemoryId | undefined
  readonly names: ReadonlyArray<string>
}
/** What a record is called and what it refers to. */
interface Node {
  readonly record: MemoryRecord
  /** Its aliases are not among them. */
  readonly own: ReadonlySet<string>
  readonly names: ReadonlyArray<string>
  readonly mentions: ReadonlyArray<Mention>
}

export const make = (): Links => {
  const nodes = new Map<MemoryId, Node>()
  const bearers = new Map<string, Set<MemoryId>>()
  const referrers = new Map<string, Set<MemoryId>>()

  const each = ({ names, record }: Node, on: typeof add | typeof remove) => {
    for (const name of names) on(bearers, name, record.id)
    for (const key of refersTo(record)) on(referrers, key, record.id)
  }
  const found = (by: ReadonlyMap<string, ReadonlySet<MemoryId>>, keys: Iterable<string>) => {
    const ids = new Set<MemoryId>()
    for (const key of keys) for (const id of by.get(key) ?? []) ids.add(id)
    return Array.from(ids).flatMap((id) => nodes.get(id)?.record ?? [])
  }

  const links: Links = {
    set(id, record) {
      const last = nodes.get(id)
      if (last) each(last, remove)
      nodes.delete(id)
      if (record === undefined) return
      const node = nodeOf(record)
      nodes.set(id, node)
      each(node, add)
    },
    named: (names) => found(bearers, names),
    referring: (keys) => found(referrers, keys),
    seen: (sees) => (id) => {
      const record = nodes.get(id)?.record
      if (record === undefined || !sees(record)) return { to: [], from: [] }
      const referring = links.referring(keysFor(record)).filter(sees)
      const byId = idsAround(record, referring).flatMap((id) => nodes.get(id)?.record ?? []).filter(sees)
      return neighboursOf(record, {
        referring,
        named: links.named(namesAround(record, referring)).filter(sees),
        byId: new Map(byId.map((record) => [record.id, record]))
      })
    }
  }
  return links
}

/** Names that the record answers to: its own, then its aliases. Cost, once for each record: its text. */
export const answersTo = (record: MemoryRecord): ReadonlyArray<string> => nodeOf(record).names

/** Names and ids that the record's links and text refer to. Cost, once for each record: its text. */
export const refersTo = (record: MemoryRecord): ReadonlyArray<string> =>
  Array.from(new Set([...record.links.map(({ to }) => to), ...nodeOf(record).mentions.flatMap(keysOf)]))

/** Keys by which others refer to the record. */
export const keysFor = (record: MemoryRecord): ReadonlyArray<string> => [record.id, ...nodeOf(record).names]

/** Returns the names on which the neighbours of a record depend. `referring` are those of its surroundings. */
export const namesAround = (record: MemoryRecord, referring: ReadonlyArray<MemoryRecord>): ReadonlyArray<string> =>
  Array.from(new Set(mentionsAround(record, referring).flatMap(({ names }) => names)))

/** Returns the ids on which the neighbours of a record depend. */
export const idsAround = (record: MemoryRecord, referring: ReadonlyArray<MemoryRecord>): ReadonlyArray<MemoryId> => [
  ...new Set([
    ...record.links.map(({ to }) => to),
    ...mentionsAround(record, referring).flatMap(({ id }) => id ?? [])
  ])
]

/** Returns the neighbours of a record among its surroundings, all of which the viewer sees. Pure. */
export const neighboursOf = (record: MemoryRecord, { byId, named, referring }: Surroundings): Neighbours => {
  const bearers = new Map<string, Array<Node>>()
  for (const node of named.map(nodeOf)) {
    for (const name of node.names) {
      const others = bearers.get(name)
      if (others) others.push(node)
      else bearers.set(name, [node])
    }
  }
  const choosers = new Map<string, Chooser>()
  const bearer = (name: string, by: MemoryRecord) => {
    const known = choosers.get(name) ?? chooser(name, bearers.get(name) ?? [])
    choosers.set(name, known)
    return known(by)
  }
  const meant = ({ id, names }: Mention, by: MemoryRecord): MemoryId | undefined => {
    if (id !== undefined && byId.has(id)) return id
    for (const name of names) {
      const found = bearer(name, by)
      if (found !== undefined) return found
    }
    return undefined
  }
  const wikilink = { type: "wikilink", weight: 1 }
  const keys = new Set(keysFor(record))
  const to = [
    ...record.links.flatMap(({ to, type, weight }) => byId.has(to) ? [{ id: to, type, weight }] : []),
    ...nodeOf(record).mentions.flatMap((mention) => {
      const id = meant(mention, record)
      return id === undefined ? [] : [{ id, ...wikilink }]
    })
  ]
  const from = referring.toSorted(byRecency).flatMap((by) => [
    ...by.links.flatMap((link) => link.to === record.id ? [{ ...link, id: by.id }] : []),
    ...mentionsOfKeys(by, keys).flatMap((mention) =>
      meant(mention, by) === record.id ? [{ id: by.id, ...wikilink }] : []
    )
  ]).map(({ id, type, weight }) => ({ id, type, weight }))
  return { to: distinct(record.id, to), from: distinct(record.id, from) }
}

/** Mentions of records that have one of these keys. */
const mentionsOfKeys = (by: MemoryRecord, keys: ReadonlySet<string>): ReadonlyArray<Mention> =>
  nodeOf(by).mentions.filter((mention) => keysOf(mention).some((key) => keys.has(key)))

/** The mentions that decide who the neighbours of a record are: its own, and those that may mean it. */
const mentionsAround = (record: MemoryRecord, referring: ReadonlyArray<MemoryRecord>): ReadonlyArray<Mention> => {
  const keys = new Set(keysFor(record))
  return [...nodeOf(record).mentions, ...referring.flatMap((by) => mentionsOfKeys(by, keys))]
}

const nodes = new WeakMap<MemoryRecord, Node>()

/** Reads a record's text once. */
const nodeOf = (record: MemoryRecord): Node => {
  const known = nodes.get(record)
  if (known) return known
  const own = new Set(namesOf(record))
  const node = {
    record,
    own,
    names: Array.from(new Set([...own, ...aliasesOf(record)])),
    mentions: mentionsOf(record)
  }
  nodes.set(record, node)
  return node
}

type Chooser = (by: MemoryRecord) => MemoryId | undefined

/** Chooses among the bearers of a name, depending on who speaks: those whose own name it is, then those with the alias. */
const chooser = (name: string, nodes: ReadonlyArray<Node>): Chooser => {
  const own = nodes.filter((node) => node.own.has(name))
  // the file of exactly this path, before those whose path ends so
  const whole = name.includes("/") ? own.filter(({ record }) => wholeNameOf(record) === name) : []
  const choosers = [whole, own, nodes].filter((some, i, all) => some.length > 0 && some.length !== all[i - 1]?.length)
    .map((some) => among(some.map(({ record }) => record)))
  return (by) => {
    for (const choose of choosers) {
      const found = choose(by)
      if (found !== undefined) return found
    }
    return undefined
  }
}

/** Chooses by scope, then by path, then by age. */
const among = (records: ReadonlyArray<MemoryRecord>): Chooser => {
  const sorted = records.slice().sort(byPath)
  const places = new Map<string, Array<MemoryRecord>>() // by scope, by scope and folder
  const put = (key: string, record: MemoryRecord) => {
    const others = places.get(key)
    if (others) others.push(record)
    else places.set(key, [record])
  }
  for (const record of sorted) {
    const scope = MemoryScope.key(record.scope)
    put(scope, record)
    const folder = folderOf(record)
    if (folder !== undefined) {
      put(placeOf(scope, folder), record)
      put(placeOf("", folder), record)
    }
  }
  return (by) => {
    const isOther = ({ id }: MemoryRecord) => id !== by.id // the first or the second
    const scope = MemoryScope.key(by.scope)
    const folder = folderOf(by)
    const keys = [...(folder === undefined ? [] : [placeOf(scope, folder)]), scope]
    for (const key of keys) {
      const found = places.get(key)?.find(isOther)
      if (found) return found.id
    }
    const near = folder === undefined ? undefined : places.get(placeOf("", folder))?.find(isOther)
    return (near ?? sorted.find(isOther))?.id
  }
}

const placeOf = (scope: string, folder: string): string => `${scope}\u0000${folder}` // in no scope and in no path

/** Path of a record that a file's name gave its name to. */
const pathOf = ({ source: { origin, reference } }: MemoryRecord): string | undefined =>
  origin === "file" && reference !== undefined && /\.md$/i.test(reference) ? reference : undefined

const folderOf = (record: MemoryRecord): string | undefined => {
  const path = pathOf(record)
  return path === undefined ? undefined : Wikilink.nameOf(path.slice(0, Math.max(0, path.lastIndexOf("/"))))
}

const wholeNameOf = (record: MemoryRecord): string | undefined => {
  const path = pathOf(record)
  return path === undefined ? undefined : Wikilink.namesOf(path)[0]
}

/** Orders by path, the shortest first; records without a path come after, newest first. */
const byPath = (a: MemoryRecord, b: MemoryRecord): number => {
  const [one, two] = [pathOf(a), pathOf(b)]
  if (one === undefined || two === undefined) {
    return one === two ? byRecency(a, b) : one === undefined ? 1 : -1
  }
  const folders = one.split("/").length - two.split("/").length
  return folders || one.length - two.length || (one < two ? -1 : one > two ? 1 : byRecency(a, b))
}

/** A file's record is also meant by its path, by every end of it, and by the id that it had elsewhere. */
const namesOf = (record: MemoryRecord): ReadonlyArray<string> => {
  const { source: { origin, reference }, summary } = record
  const whole = wholeNameOf(record)
  const parts = whole?.split("/") ?? []
  return [
    Wikilink.nameOf(summary),
    ...(whole === undefined && origin === "file" && reference !== undefined
      ? Wikilink.namesOf(reference).slice(0, 1)
      : []),
    ...parts.slice(-maxParts).map((_, i, last) => last.slice(i).join("/")),
    ...(whole === undefined ? [] : [whole, `/${whole}`])
  ].filter((name) => name !== "")
}

/** Folders of a path that are names of their own, at most. */
const maxParts = 8

/** Metadata of a file that was renamed: a list of what it was called, so that links with an earlier name still lead to it. */
export const formerNames = "formerNames"

/** Longest list of aliases that counts. */
const maxAliases = 64

const aliasesOf = ({ metadata, source: { origin } }: MemoryRecord): ReadonlyArray<string> =>
  origin === "file"
    ? [metadata["aliases"], metadata["alias"], metadata[formerNames]].flat().slice(0, maxAliases)
      .flatMap((alias) =>
        typeof alias === "string" || typeof alias === "number" ? [Wikilink.nameOf(String(alias))] : []
      )
      .filter((name) => name !== "")
    : []

/** Finds the names in the body and in a file's properties; of other records in `metadata.links`, where Deuz keeps them. */
const mentionsOf = (record: MemoryRecord): ReadonlyArray<Mention> => {
  const { body, metadata, source: { origin } } = record
  const texts = [body, ...(origin === "file" ? textsOf(metadata) : textsOf(metadata["links"] ?? []))]
  const folder = folderOf(record)
  return texts.flatMap(Wikilink.parse).slice(0, Wikilink.maxTargets).map(({ heading, markdown, target }) => {
    const names = [
      ...(heading?.startsWith("^") ? [Wikilink.nameOf(`${target}${heading}`)] : []), // a summary may have a ^
      ...(target.startsWith("/") ? Wikilink.namesOf(target).slice(0, 1) : pathsFrom(folder, target, markdown === true)),
      ...Wikilink.namesOf(target.replace(/^(?:\.{0,2}\/)+/, ""))
    ]
    return {
      id: isId(target) ? target : undefined,
      names: Array.from(new Set(names)).filter((name) => name !== "")
    }
  })
}

/** Every text in a list or an object. */
const textsOf = (json: Json): ReadonlyArray<string> =>
  typeof json === "string"
    ? [json]
    : typeof json === "object" && json !== null
    ? Object.values(json).flatMap(textsOf)
    : []

/** The path that a target means from the folder of a file. Empty where it says none, or leads out of the vault. */
const pathsFrom = (folder: string | undefined, target: string, markdown: boolean): ReadonlyArray<string> => {
  if (folder === undefined || !(markdown || /^\.{1,2}\//.test(target))) return []
  const parts = folder === "" ? [] : folder.split("/")
  for (const part of Wikilink.nameOf(target.replace(/\.md$/i, "")).split("/")) {
    if (part === "..") {
      if (parts.pop() === undefined) return []
    } else if (part !== "." && part !== "") parts.push(part)
  }
  return parts.length === 0 ? [] : [parts.join("/")]
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
