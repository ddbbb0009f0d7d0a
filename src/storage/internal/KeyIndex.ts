/**
 * Looks objects up by 32-bit keys: by the hash of a text, before the text itself is compared. Several objects may have a key.
 *
 * The keys of many objects are spread over many hash tables, so that none that grows holds the event loop. A table is an array
 * of keys and one of objects; a key lies at the place that its hash names, or at the first free place behind that.
 */

/** Objects by 32-bit keys, several to a key. A key with one object holds just that. */
export class KeyIndex<V extends object> {
  #tables: Array<Table<V> | undefined> = [undefined]
  /** Number of keys while there is one table. */
  #size = 0

  /** Adds an object under a key. Cost: constant. */
  add(key: number, value: V): void {
    const tables = this.#tables
    const table = tables[key & (tables.length - 1)] ??= new Table()
    const held = table.get(key)
    if (held instanceof Set) held.add(value)
    else if (held === undefined) {
      table.set(key, value)
      if (tables.length === 1 && ++this.#size > most) this.#spread()
    } else if (held !== value) table.set(key, new Set([held, value]))
  }

  /** Removes an object from a key. Cost: constant. */
  remove(key: number, value: V): void {
    const table = this.#tables[key & (this.#tables.length - 1)]
    const held = table?.get(key)
    const isLast = held instanceof Set ? held.delete(value) && held.size === 0 : held === value
    if (!isLast) return
    table?.delete(key)
    this.#size--
  }

  /** Returns the objects of a key, in the order in which they came. The answer is good until the next change. */
  get(key: number): Iterable<V> {
    const held = this.#tables[key & (this.#tables.length - 1)]?.get(key)
    return held === undefined ? [] : held instanceof Set ? held : [held]
  }

  #spread(): void {
    const tables = Array.from({ length: parts }, () => new Table<V>())
    for (const [key, value] of this.#tables[0]?.all() ?? []) tables[key & (parts - 1)]!.set(key, value)
    this.#tables = tables
  }
}

/** Number of keys beyond which they are spread over so many tables. A power of two. */
const most = 8_192
const parts = 256

/** A hash table with open addressing. */
class Table<V extends object> {
  #keys = new Int32Array(4)
  #values: Array<V | Set<V> | undefined> = [undefined, undefined, undefined, undefined]
  #size = 0
  /** 32 less the logarithm of the number of places. */
  #shift = 30

  get(key: number): V | Set<V> | undefined {
    return this.#values[this.#placeOf(key)]
  }

  set(key: number, value: V | Set<V>): void {
    const at = this.#placeOf(key)
    const isNew = this.#values[at] === undefined
    this.#keys[at] = key
    this.#values[at] = value
    if (isNew && 4 * ++this.#size > 3 * this.#keys.length) this.#grow()
  }

  /** Removes a key that is there, and moves those behind that would not be found any more. */
  delete(key: number): void {
    const [keys, values] = [this.#keys, this.#values]
    const mask = keys.length - 1
    let free = this.#placeOf(key)
    for (let at = (free + 1) & mask; values[at] !== undefined; at = (at + 1) & mask) {
      const home = this.#homeOf(keys[at]!)
      if (((at - home) & mask) < ((at - free) & mask)) continue // it lies between its home and the free place
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

  /** Returns the place of a key, or a free one for it. */
  #placeOf(key: number): number {
    const [keys, values] = [this.#keys, this.#values]
    const mask = keys.length - 1
    let at = this.#homeOf(key)
    while (values[at] !== undefined && keys[at] !== key) at = (at + 1) & mask
    return at
  }

  #grow(): void {
    const [keys, values] = [this.#keys, this.#values]
    this.#keys = new Int32Array(2 * keys.length)
    this.#values = new Array<undefined>(2 * keys.length).fill(undefined)
    this.#shift--
    for (let i = 0; i < keys.length; i++) {
      const value = values[i]
      if (value === undefined) continue
      const at = this.#placeOf(keys[i]!)
      this.#keys[at] = keys[i]!
      this.#values[at] = value
    }
  }
}

/** 2 ** 32 over the golden ratio: its products spread keys over all places. */
const golden = 0x9e3779b1
