/**
 * Extracts the names of a record, and its references to other records. Reads the record's summary, text, path and properties. The module
 * `Links` then finds the records with these names.
 */
import * as Schema from "effect/Schema"
import { MemoryId } from "../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import type { Json } from "../../domain/Payload.ts"
import * as Wikilink from "../../domain/Wikilink.ts"

/**
 * A reference in a record's text to another record. `id` is set if the reference has the form of an id. The reference may mean any of
 * `names`; the most likely name is first.
 */
export interface Mention {
  readonly id: MemoryId | undefined
  readonly names: ReadonlyArray<string>
}
/** Returns the path of a record that is a Markdown file; `undefined` for other records. */
export const pathOf = ({ source: { origin, reference } }: MemoryRecord): string | undefined =>
  origin === "file" && reference !== undefined && /\.md$/i.test(reference) ? reference : undefined

/** Returns the folder of a Markdown file's record, normalised by `Wikilink.nameOf`; `undefined` for other records. */
export const folderOf = (record: MemoryRecord): string | undefined => {
  const path = pathOf(record)
  return path === undefined ? undefined : Wikilink.nameOf(path.slice(0, Math.max(0, path.lastIndexOf("/"))))
}

/** Returns the full path of a Markdown file's record, normalised by `Wikilink.namesOf`; `undefined` for other records. */
export const wholeNameOf = (record: MemoryRecord): string | undefined => {
  const path = pathOf(record)
  return path === undefined ? undefined : Wikilink.namesOf(path)[0]
}

/**
 * Returns the names of a record. Its summary is a name. A Markdown file `a/b/c.md` also has the names `/a/b/c`, `a/b/c`, `b/c` and `c`. Any
 * other record of origin `file` has its whole `reference` as a name, for example an id in another system.
 */
export const namesOf = (record: MemoryRecord): ReadonlyArray<string> => {
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

/** Largest number of path segments in a name that is a suffix of a path. The whole path is a name, however long it is. */
const maxParts = 8

/** Metadata key of the earlier names of a renamed file. Links to these names still find the file. */
export const formerNames = "formerNames"

/** Largest number of aliases and former names that are read from a file; further ones are ignored. */
const maxAliases = 64

/** Returns the names in a file's properties: its aliases and former names. */
export const aliasesOf = ({ metadata, source: { origin } }: MemoryRecord): ReadonlyArray<string> =>
  origin === "file"
    ? [metadata["aliases"], metadata["alias"], metadata[formerNames]].flat().slice(0, maxAliases)
      .flatMap((alias) =>
        typeof alias === "string" || typeof alias === "number" ? [Wikilink.nameOf(String(alias))] : []
      )
      .filter((name) => name !== "")
    : []

/**
 * Returns the references in a record's body and metadata. If the record was read from a note, all metadata may contain references, since
 * they are the note's properties. Otherwise only `metadata.links` is searched. Callers of Deuz, another memory library, store links there.
 */
export const mentionsOf = (record: MemoryRecord): ReadonlyArray<Mention> => {
  const { body, metadata, source: { origin } } = record
  const properties = origin === "file" ? metadata : metadata["links"]
  const texts = properties === undefined ? [body] : [body, ...textsOf(properties)]
  if (!texts.some(Wikilink.mayHaveLink)) return none // the usual case: there is no link
  const folder = folderOf(record)
  return texts.flatMap(Wikilink.parse).slice(0, Wikilink.maxTargets).map((link) => mentionOf(link, folder))
}

/** Converts a link to a reference. `folder` is the folder of the file that contains the link. */
const mentionOf = ({ heading, markdown, target }: Wikilink.Wikilink, folder: string | undefined): Mention => {
  const names = [
    // a caret may be a part of a record's summary instead of the start of a block, so both readings of the link are names
    ...(heading?.startsWith("^") ? [Wikilink.nameOf(`${target}${heading}`)] : []),
    ...(target.startsWith("/") ? Wikilink.namesOf(target).slice(0, 1) : pathsFrom(folder, target, markdown === true)),
    ...Wikilink.namesOf(target.replace(/^(?:\.{0,2}\/)+/, ""))
  ]
  return {
    id: isId(target) ? target : undefined,
    names: Array.from(new Set(names)).filter((name) => name !== "")
  }
}

/** Returns the strings in a JSON value, also in nested lists and objects, but not the keys of objects. */
const textsOf = (json: Json): ReadonlyArray<string> =>
  typeof json === "string"
    ? [json]
    : typeof json === "object" && json !== null
    ? Object.values(json).flatMap(textsOf)
    : []

/**
 * Resolves a link's target relative to `folder`, the folder of the file with the link. Returns a list with the path found. The list is
 * empty if the target is not relative, or leads out of the vault (the root folder).
 */
const pathsFrom = (folder: string | undefined, target: string, markdown: boolean): ReadonlyArray<string> => {
  if (folder === undefined || !(markdown || /^\.{1,2}\//.test(target))) return []
  const parts = folder === "" ? [] : folder.split("/")
  for (const part of Wikilink.nameOf(target.replace(/\.md$/i, "")).split("/")) {
    if (part === "..") {
      if (parts.pop() === undefined) return []
    } else if (part !== "." && part !== "") parts.push(part)
  }
  return parts.length === 0 ? [] : [parts.length === 1 ? `/${parts[0]}` : parts.join("/")] // a name without "/" would mean any folder
}

const isId = (text: string): text is MemoryId => text.length === 26 && isUlid(text)
const isUlid = Schema.is(MemoryId)

/** Returns the keys of a reference: its names, preceded by its id if the reference has the form of an id. */
export const keysOf = ({ id, names }: Mention): ReadonlyArray<string> => id === undefined ? names : [id, ...names]

/** Returns the hashes of a record's names, possibly repeated. Only files have other names than the summary. */
export const nameHashesOf = (record: MemoryRecord): ReadonlyArray<number> =>
  record.source.origin === "file"
    ? [...namesOf(record), ...aliasesOf(record)].map(Wikilink.hash)
    : [Wikilink.hashOfName(record.summary)]

/** Returns the hashes of the names and ids to which a record refers. Some hashes may be repeated or superfluous. */
export const hashesReferredTo = (record: MemoryRecord): ReadonlyArray<number> => {
  const { body, links, metadata, source: { origin } } = record
  const isPlain = origin !== "file" && metadata["links"] === undefined
  if (!isPlain) return [...links.map(({ to }) => to), ...mentionsOf(record).flatMap(keysOf)].map(Wikilink.hash)
  const found = Wikilink.parse(body) // returns at most `maxTargets` links
  if (links.length + found.length === 0) return none
  const hashes = links.map(({ to }) => Wikilink.hash(to))
  for (const link of found) {
    const { heading, target } = link
    if (heading?.startsWith("^") === true || target.includes("/") || /\.md$/i.test(target)) {
      for (const key of keysOf(mentionOf(link, undefined))) hashes.push(Wikilink.hash(key))
    } else {
      hashes.push(Wikilink.hashOfName(target))
      if (isId(target)) hashes.push(Wikilink.hash(target))
    }
  }
  return hashes
}
const none: ReadonlyArray<never> = []

/**
 * A map from 32-bit hashes (the keys) to objects. A key can have several objects. Different texts can have the same hash, so callers must
 * also compare the texts. A large map is split into many tables, because growing one large table would block the event loop. New keys are
 * first added to a buffer. They move to their table when a key of that table is read or removed.
 */
export class KeyIndex<V extends object> {
  #parts: Array<Part<V> | undefined> = [undefined]
  /** Upper bound of the number of keys. Used only until the keys are split over many tables. */
  #size = 0

  /** Adds an object under a key. Cost: constant on average. */
  add(key: number, value: V): void {
    const parts = this.#parts
    const part = parts[key & (parts.length - 1)] ??= new Part()
    part.add(key, value)
    if (parts.length === 1 && ++this.#size > maxKeysPerPart) this.#spread(part)
  }

  /** Removes an object from a key. Cost: proportional to the number of keys that are buffered for the same table. */
  remove(key: number, value: V): void {
    const table = this.#tableOf(key)
    const entry = table?.get(key)
    const isLast = entry instanceof Set ? entry.delete(value) && entry.size === 0 : entry === value
    if (!isLast) return
    table?.delete(key)
    this.#size--
  }

  /**
   * Returns the objects of a key, in insertion order. The result is valid until the next change. Cost: the number of objects returned, plus
   * the number of keys that are buffered for the same table.
   */
  get(key: number): Iterable<V> {
    const entry = this.#tableOf(key)?.get(key)
    return entry === undefined ? [] : entry instanceof Set ? entry : [entry]
  }

  #tableOf(key: number): Table<V> | undefined {
    return this.#parts[key & (this.#parts.length - 1)]?.table()
  }

  #spread(all: Part<V>): void {
    const parts = Array.from({ length: spread }, () => new Part<V>())
    for (const [key, entry] of all.table().all()) {
      for (const value of entry instanceof Set ? entry : [entry]) parts[key & (spread - 1)]!.add(key, value)
    }
    this.#parts = parts
  }
}

/** A part of a split map. New keys are in a buffer first, and later in the table. A small map has a single part. */
class Part<V extends object> {
  readonly #table = new Table<V>()
  #keys = new Int32Array(4)
  #values = Array<V>(4)
  #count = 0

  add(key: number, value: V): void {
    const at = this.#count++
    if (at === this.#keys.length) this.#grow()
    this.#keys[at] = key
    this.#values[at] = value
  }

  table(): Table<V> {
    const table = this.#table
    const count = this.#count
    if (count === 0) return table
    const [keys, values] = [this.#keys, this.#values]
    this.#keys = new Int32Array(4)
    this.#values = Array<V>(4)
    this.#count = 0
    table.reserve(count)
    for (let i = 0; i < count; i++) {
      const [key, value] = [keys[i]!, values[i]!]
      const entry = table.get(key)
      if (entry instanceof Set) entry.add(value)
      else if (entry === undefined) table.set(key, value)
      else if (entry !== value) table.set(key, new Set([entry, value]))
    }
    return table
  }

  /** Doubles the size of the buffer. Takes half the time of arrays that grow by `push`. */
  #grow(): void {
    const length = 2 * this.#keys.length
    const [keys, values] = [new Int32Array(length), Array<V>(length)]
    keys.set(this.#keys)
    for (let i = 0; i < this.#values.length; i++) values[i] = this.#values[i]!
    this.#keys = keys
    this.#values = values
  }
}

/** Number of keys above which the keys are split into parts. */
const maxKeysPerPart = 8_192
/** Number of parts into which the keys are split, a power of two. */
const spread = 256

/** A hash table with open addressing. */
class Table<V extends object> {
  #keys = new Int32Array(4)
  #values: Array<V | Set<V> | undefined> = [undefined, undefined, undefined, undefined]
  #size = 0
  /** 32 minus the binary logarithm of the number of slots. */
  #shift = 30

  get(key: number): V | Set<V> | undefined {
    return this.#values[this.#slotOf(key)]
  }

  set(key: number, value: V | Set<V>): void {
    const at = this.#slotOf(key)
    const isNew = this.#values[at] === undefined
    this.#keys[at] = key
    this.#values[at] = value
    if (isNew && 4 * ++this.#size > 3 * this.#keys.length) this.#grow(2 * this.#keys.length)
  }

  /** Grows the table if there is no room for `more` further keys. */
  reserve(more: number): void {
    let length = this.#keys.length
    while (4 * (this.#size + more) > 3 * length) length *= 2
    if (length > this.#keys.length) this.#grow(length)
  }

  /**
   * Removes a key that exists. A lookup ends at the first free slot. So a later entry is moved into the freed slot if its lookup would
   * otherwise fail.
   */
  delete(key: number): void {
    const [keys, values] = [this.#keys, this.#values]
    const mask = keys.length - 1
    let free = this.#slotOf(key)
    for (let at = (free + 1) & mask; values[at] !== undefined; at = (at + 1) & mask) {
      const home = this.#homeOf(keys[at]!)
      if (((at - home) & mask) < ((at - free) & mask)) continue // the entry stays, since its lookup starts after the free slot
      keys[free] = keys[at]!
      values[free] = values[at]
      free = at
    }
    values[free] = undefined
    this.#size--
  }

  *all(): Iterable<readonly [key: number, value: V | Set<V>]> {
    for (const [at, value] of this.#values.entries()) if (value !== undefined) yield [this.#keys[at]!, value]
  }

  #homeOf(key: number): number {
    return Math.imul(key, golden) >>> this.#shift
  }

  /** Returns the slot of a key. If the table lacks the key, returns the free slot where the key belongs. */
  #slotOf(key: number): number {
    const [keys, values] = [this.#keys, this.#values]
    const mask = keys.length - 1
    let at = this.#homeOf(key)
    while (values[at] !== undefined && keys[at] !== key) at = (at + 1) & mask
    return at
  }

  #grow(length: number): void {
    const [keys, values] = [this.#keys, this.#values]
    this.#keys = new Int32Array(length)
    this.#values = Array<V | Set<V> | undefined>(length).fill(undefined)
    this.#shift = Math.clz32(length) + 1
    for (let i = 0; i < keys.length; i++) {
      const value = values[i]
      if (value === undefined) continue
      const at = this.#slotOf(keys[i]!)
      this.#keys[at] = keys[i]!
      this.#values[at] = value
    }
  }
}

/** A prime near 2 ** 32 divided by the golden ratio. Multiplying keys by this number spreads them evenly over all slots. */
const golden = 0x9e3779b1
