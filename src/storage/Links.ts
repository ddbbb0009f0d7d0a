/**
 * Finds which records of a tenant refer to which: by the links that a record has, and by `[[names]]` in its text.
 *
 * The meaning of a name depends on the viewer: a name is kept as it was written, and resolved among what the viewer sees.
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
 * A name that several records have means one of the speaker's scope; among those the one with the nearest path (the speaker's
 * own folder, then the fewest folders, the fewest characters, by name). Records without a path come after, the newest first,
 * then by id. The speaker is never meant. Properties of a file (`metadata`) speak as its text does.
 */
import type { MemoryId } from "../domain/MemoryId.ts"
import { byRecency, type MemoryRecord } from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import * as Wikilink from "../domain/Wikilink.ts"
import {
  aliasesOf,
  folderOf,
  hashesReferredTo,
  KeyIndex,
  keysOf,
  type Mention,
  mentionsOf,
  nameHashesOf,
  namesOf,
  pathOf,
  wholeNameOf
} from "./internal/RecordNames.ts"

/** The metadata key of the names that a renamed file had: see `internal/Names.ts`. */
export { formerNames } from "./internal/RecordNames.ts"

/** The other end of a link. */
export interface Linked {
  readonly id: MemoryId
  /** Type of the link, or `wikilink`. */
  readonly type: string
  /** Weight of the link, 0..1; that of a wikilink is 1. */
  readonly weight: number
}

/** The records that one record refers to, and those that refer to it. */
export interface Neighbours {
  /** Ends of its links, then of the names in its text, in the record's order; of each id and type the first counts. */
  readonly to: ReadonlyArray<Linked>
  /** Records that refer to it, the newest first. */
  readonly from: ReadonlyArray<Linked>
}

type Sees = (record: MemoryRecord) => boolean

/** The records of a tenant by the names that they answer to, and by what they refer to: how an engine in memory answers. */
export interface Index {
  /** Adds a record, and returns the work that took, in units of a `Pacer`. */
  readonly add: (record: MemoryRecord) => number
  /** Removes a record that was added. */
  readonly remove: (record: MemoryRecord) => void
  /** Returns the records that answer to any of the names and that `sees` lets pass. Cost: all that have one of the names. */
  readonly named: (names: Iterable<string>, sees: Sees) => ReadonlyArray<MemoryRecord>
  /** Returns the records that refer to any of the names or ids and that `sees` lets pass. Cost: all that refer to one of them. */
  readonly referring: (keys: Iterable<string>, sees: Sees) => ReadonlyArray<MemoryRecord>
}

/** An index that keeps the records by id as well. */
export interface Links {
  /** Sets the record of an id; `undefined` removes it. Cost: its text. */
  readonly set: (id: MemoryId, record: MemoryRecord | undefined) => void
  /** Returns the neighbours of a record among the records that `sees` lets pass. Cost: its own ends, and all that share a name with one. */
  readonly seen: (sees: Sees) => (id: MemoryId) => Neighbours
}

/** The records around one that a viewer sees: enough to find its neighbours. */
export interface Surroundings {
  /** Records that refer to the record by a name or its id. */
  readonly referring: ReadonlyArray<MemoryRecord>
  /** Records that answer to one of `namesAround`. */
  readonly named: ReadonlyArray<MemoryRecord>
  /** Records with one of `idsAround`, by their id. */
  readonly byId: ReadonlyMap<MemoryId, MemoryRecord>
}

/** The names of a record, and the names that it refers to. */
interface Node {
  readonly record: MemoryRecord
  /** Names without its aliases. */
  readonly own: ReadonlySet<string>
  readonly names: ReadonlyArray<string>
  readonly mentions: ReadonlyArray<Mention>
}

/**
 * Makes an index of names. It knows the hashes of names alone, which are read off most records without making the names; a
 * record is read when its hash is asked for.
 */
export const makeIndex = (): Index => {
  const bearers = new KeyIndex<MemoryRecord>()
  const referrers = new KeyIndex<MemoryRecord>()

  const found = (by: KeyIndex<MemoryRecord>, keys: Iterable<string>, sees: Sees, keysOf: typeof answersTo) => {
    const records = new Set<MemoryRecord>()
    for (const key of keys) {
      for (const record of by.get(Wikilink.hash(key))) {
        if (!records.has(record) && sees(record) && keysOf(record).includes(key)) records.add(record)
      }
    }
    return Array.from(records)
  }
  return {
    add(record) {
      for (const hash of nameHashesOf(record)) bearers.add(hash, record)
      const refers = hashesReferredTo(record)
      for (const hash of refers) referrers.add(hash, record)
      const length = record.summary.length + record.body.length
      return refers.length === 0 ? length >> 4 : (length >> 1) + 32 * refers.length
    },
    remove(record) {
      for (const hash of nameHashesOf(record)) bearers.remove(hash, record)
      for (const hash of hashesReferredTo(record)) referrers.remove(hash, record)
    },
    named: (names, sees) => found(bearers, names, sees, answersTo),
    referring: (keys, sees) => found(referrers, keys, sees, refersTo)
  }
}

/** Makes an index of names without records, which keeps them by id as well. */
export const make = (): Links => {
  const records = new Map<MemoryId, MemoryRecord>()
  const index = makeIndex()
  return {
    set(id, record) {
      const last = records.get(id)
      if (last) index.remove(last)
      records.delete(id)
      if (record === undefined) return
      records.set(id, record)
      index.add(record)
    },
    seen: (sees) => (id) => {
      const record = records.get(id)
      if (record === undefined || !sees(record)) return { to: [], from: [] }
      const referring = index.referring(keysFor(record), sees)
      const byId = idsAround(record, referring).flatMap((id) => records.get(id) ?? []).filter(sees)
      return neighboursOf(record, {
        referring,
        named: index.named(namesAround(record, referring), sees),
        byId: new Map(byId.map((record) => [record.id, record]))
      })
    }
  }
}

/** Returns the names that the record answers to: its own, then its aliases. Cost, once for each record: its text. */
export const answersTo = (record: MemoryRecord): ReadonlyArray<string> => nodeOf(record).names

/** Returns the names and ids that the record's links and text refer to. Cost, once for each record: its text. */
export const refersTo = (record: MemoryRecord): ReadonlyArray<string> =>
  Array.from(new Set([...record.links.map(({ to }) => to), ...nodeOf(record).mentions.flatMap(keysOf)]))

/** Returns the keys by which other records refer to the record: its id and its names. */
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

/** Returns the mentions of a record that have one of these keys. */
const mentionsOfKeys = (by: MemoryRecord, keys: ReadonlySet<string>): ReadonlyArray<Mention> =>
  nodeOf(by).mentions.filter((mention) => keysOf(mention).some((key) => keys.has(key)))

/** Returns the mentions that decide which records are neighbours of one: its own, and those that may mean it. */
const mentionsAround = (record: MemoryRecord, referring: ReadonlyArray<MemoryRecord>): ReadonlyArray<Mention> => {
  const keys = new Set(keysFor(record))
  return [...nodeOf(record).mentions, ...referring.flatMap((by) => mentionsOfKeys(by, keys))]
}

const nodes = new WeakMap<MemoryRecord, Node>()

/** Returns the names and mentions of a record; its text is read once. */
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

/** Chooses among the records with a name, depending on the speaker: those whose own name it is, then those with the alias. */
const chooser = (name: string, nodes: ReadonlyArray<Node>): Chooser => {
  const own = nodes.filter((node) => node.own.has(name))
  // files of exactly this path come before those whose path ends so
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

/** Chooses among records by scope, then by path, then by age. */
const among = (records: ReadonlyArray<MemoryRecord>): Chooser => {
  const sorted = records.slice().sort(byPath)
  const places = new Map<string, Array<MemoryRecord>>() // keys: a scope, or a scope and a folder
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

const placeOf = (scope: string, folder: string): string => `${scope}\u0000${folder}` // no scope and no path has a NUL

/** Orders by path, the shortest first; records without a path come after, newest first. */
const byPath = (a: MemoryRecord, b: MemoryRecord): number => {
  const [one, two] = [pathOf(a), pathOf(b)]
  if (one === undefined || two === undefined) {
    return one === two ? byRecency(a, b) : one === undefined ? 1 : -1
  }
  const folders = one.split("/").length - two.split("/").length
  return folders || one.length - two.length || (one < two ? -1 : one > two ? 1 : byRecency(a, b))
}

/** Drops a record's links to itself, and keeps the first of each id and type. */
const distinct = (self: MemoryId, all: ReadonlyArray<Linked>): ReadonlyArray<Linked> => {
  const found = new Map<string, Linked>()
  for (const one of all) {
    const key = `${one.id} ${one.type}`
    if (one.id !== self && !found.has(key)) found.set(key, one)
  }
  return Array.from(found.values())
}
