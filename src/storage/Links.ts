/**
 * Resolves the references between the records of a tenant. A record refers to others by its `links`, and by names in its text: `[[Name]]`
 * or `[text](Name.md)`. The properties of a file (`metadata`), and the `metadata.links` of any other record, count as text, too. A record
 * never refers to itself.
 *
 * Names are stored as written. Each read looks for the named records among those that the viewer sees. The forms of names are:
 *
 * ```text
 * id           of a record
 * /a/Name      the file of that path
 * ./ and ../   a path from the folder of the file with the link; in a Markdown link, a/b/Name and Name are first tried as such a path
 * a/b/Name     the file with that path, else a file whose path ends with it, else a record named Name
 * Name         a record with this summary, file name, or id in another system; else a record with this alias (`metadata.aliases` of a
 *              file), or whose file had this name before (`metadata.formerNames`)
 * ```
 *
 * A name that begins with `/`, `./` or `../` and leads to no file is looked up without this beginning, like a/b/Name or Name.
 *
 * If several records match, a record in the scope of the referring record is preferred. Then the criteria are, in order: the same folder,
 * the fewest folders in the path, the shortest path, the path that sorts first. Records without a path come last.
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

/** The metadata key of the earlier names of a renamed file: see `internal/RecordNames.ts`. */
export { formerNames } from "./internal/RecordNames.ts"

/** The record at the other end of a link. */
export interface Linked {
  readonly id: MemoryId
  readonly type: string
  /** Weight of the link, 0..1; 1 for a wikilink. */
  readonly weight: number
}

/** The records that a record refers to (`to`), and the records that refer to that record (`from`). */
export interface Neighbours {
  /**
   * Records to which this record refers. The targets of its `links` come first, then those of the names in its text, in written order. A
   * target with the same id and type as an earlier one is left out.
   */
  readonly to: ReadonlyArray<Linked>
  /** Records that refer to this record, newest first. */
  readonly from: ReadonlyArray<Linked>
}

type Sees = (record: MemoryRecord) => boolean

/** An index of a tenant's records by their own names, and by the names and ids that they refer to. */
export interface Index {
  /** Adds a record. Returns an estimate of the work done, in units of 0.1 µs (the units of a `Pacer`). */
  readonly add: (record: MemoryRecord) => number
  /** Removes a record that was added. */
  readonly remove: (record: MemoryRecord) => void
  /** Returns the records that have any of the names and pass `sees`. Cost: one step per record with such a name. */
  readonly named: (names: Iterable<string>, sees: Sees) => ReadonlyArray<MemoryRecord>
  /** Returns the records that refer to any of the keys (names or ids) and pass `sees`. Cost: one step per referring record. */
  readonly referring: (keys: Iterable<string>, sees: Sees) => ReadonlyArray<MemoryRecord>
}

/** Keeps records by id and in an `Index`, and finds the records to which each record is linked. */
export interface Links {
  /** Sets the record of an id; `undefined` removes it. Cost: proportional to the length of the record's text. */
  readonly set: (id: MemoryId, record: MemoryRecord | undefined) => void
  /**
   * Returns a function that finds the records to which a record links, and the records that link to it. Considers only records that pass
   * `sees`. If no two records share a name, the cost is proportional to the number of these links.
   */
  readonly seen: (sees: Sees) => (id: MemoryId) => Neighbours
}

/** The records from which the neighbours of a record are computed. All these records are visible to the viewer. */
export interface Surroundings {
  /** Records that refer to the record by its id or by one of its names. */
  readonly referring: ReadonlyArray<MemoryRecord>
  /** Records that have one of the names that `namesAround` returns. */
  readonly named: ReadonlyArray<MemoryRecord>
  /** The records with the ids that `idsAround` returns, by id. */
  readonly byId: ReadonlyMap<MemoryId, MemoryRecord>
}

/** A record with its names, and the references in its text. */
interface Node {
  readonly record: MemoryRecord
  /** The record's names except its aliases. */
  readonly own: ReadonlySet<string>
  readonly names: ReadonlyArray<string>
  readonly mentions: ReadonlyArray<Mention>
}

/**
 * Makes an empty index. Its keys are hashes of names, since most hashes can be computed without first building the normalised name.
 * Different names can have the same hash, so a lookup also compares the names.
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

/** Makes an empty index that also keeps the records by id. */
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

/** Returns all names of the record, its aliases last. Parses the text of each record object only once. */
export const answersTo = (record: MemoryRecord): ReadonlyArray<string> => nodeOf(record).names

/** Returns the names and ids to which the record refers in links and text. The text of a record object is parsed only once. */
export const refersTo = (record: MemoryRecord): ReadonlyArray<string> =>
  Array.from(new Set([...record.links.map(({ to }) => to), ...nodeOf(record).mentions.flatMap(keysOf)]))

/** Returns the keys by which other records refer to the record: its id and its names. */
export const keysFor = (record: MemoryRecord): ReadonlyArray<string> => [record.id, ...nodeOf(record).names]

/** Returns the names to look up before a call of `neighboursOf`. `referring` has the records that refer to the record. */
export const namesAround = (record: MemoryRecord, referring: ReadonlyArray<MemoryRecord>): ReadonlyArray<string> =>
  Array.from(new Set(mentionsAround(record, referring).flatMap(({ names }) => names)))

/** Returns the ids to look up before a call of `neighboursOf`. `referring` has the records that refer to the record. */
export const idsAround = (record: MemoryRecord, referring: ReadonlyArray<MemoryRecord>): ReadonlyArray<MemoryId> => [
  ...new Set([
    ...record.links.map(({ to }) => to),
    ...mentionsAround(record, referring).flatMap(({ id }) => id ?? [])
  ])
]

/** Computes the neighbours of a record from its surroundings. A pure function. */
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

/** Returns those references in the text of `by` that use one of the keys (ids or names). */
const mentionsOfKeys = (by: MemoryRecord, keys: ReadonlySet<string>): ReadonlyArray<Mention> =>
  nodeOf(by).mentions.filter((mention) => keysOf(mention).some((key) => keys.has(key)))

/** Returns the references in the record's text, and those in the texts of `referring` that use the record's id or one of its names. */
const mentionsAround = (record: MemoryRecord, referring: ReadonlyArray<MemoryRecord>): ReadonlyArray<Mention> => {
  const keys = new Set(keysFor(record))
  return [...nodeOf(record).mentions, ...referring.flatMap((by) => mentionsOfKeys(by, keys))]
}

const nodes = new WeakMap<MemoryRecord, Node>()

/** Returns the names and references of a record. The result is cached, so that the text of a record object is parsed only once. */
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

/** Makes a function that finds the record that `name` means in the text of `by`. A record with this name precedes one with this alias. */
const chooser = (name: string, nodes: ReadonlyArray<Node>): Chooser => {
  const own = nodes.filter((node) => node.own.has(name))
  // files whose whole path is the name are tried before files whose path only ends with the name
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

/**
 * Makes a function that chooses the record in `records` to which the record `by` refers. The criteria are, in order: the same scope as
 * `by`, the same folder as `by`, and the order of `byPath`.
 */
const among = (records: ReadonlyArray<MemoryRecord>): Chooser => {
  const sorted = records.slice().sort(byPath)
  const byScopeOrFolder = new Map<string, Array<MemoryRecord>>() // the key is a scope or a result of `folderKey`
  const put = (key: string, record: MemoryRecord) => {
    const others = byScopeOrFolder.get(key)
    if (others) others.push(record)
    else byScopeOrFolder.set(key, [record])
  }
  for (const record of sorted) {
    const scope = MemoryScope.key(record.scope)
    put(scope, record)
    const folder = folderOf(record)
    if (folder !== undefined) {
      put(folderKey(scope, folder), record)
      put(folderKey("", folder), record)
    }
  }
  return (by) => {
    const isOther = ({ id }: MemoryRecord) => id !== by.id // a record never refers to itself
    const scope = MemoryScope.key(by.scope)
    const folder = folderOf(by)
    const keys = [...(folder === undefined ? [] : [folderKey(scope, folder)]), scope]
    for (const key of keys) {
      const found = byScopeOrFolder.get(key)?.find(isOther)
      if (found) return found.id
    }
    const near = folder === undefined ? undefined : byScopeOrFolder.get(folderKey("", folder))?.find(isOther)
    return (near ?? sorted.find(isOther))?.id
  }
}

const folderKey = (scope: string, folder: string): string => `${scope}\u0000${folder}` // NUL occurs only in the scope `Internal`

/** Orders records by path: fewest folders first, then the shortest path. A record without a path comes last. */
const byPath = (a: MemoryRecord, b: MemoryRecord): number => {
  const [one, two] = [pathOf(a), pathOf(b)]
  if (one === undefined || two === undefined) {
    return one === two ? byRecency(a, b) : one === undefined ? 1 : -1
  }
  const folders = one.split("/").length - two.split("/").length
  return folders || one.length - two.length || (one < two ? -1 : one > two ? 1 : byRecency(a, b))
}

/** Removes links of the record `self` to itself, and repeated links with the same target and type. */
const distinct = (self: MemoryId, all: ReadonlyArray<Linked>): ReadonlyArray<Linked> => {
  const found = new Map<string, Linked>()
  for (const one of all) {
    const key = `${one.id} ${one.type}`
    if (one.id !== self && !found.has(key)) found.set(key, one)
  }
  return Array.from(found.values())
}
