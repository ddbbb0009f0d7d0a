/**
 * A map with string keys that grows in small steps. A plain `Map` copies all its entries at once when it is full. This takes 10 ms for
 * 65,536 entries. Once a `LargeMap` has more than 4,096 entries, it distributes its entries among 64 maps, by a hash of the key, even if it
 * shrinks later. Iteration is then not in the order of insertion. An iterator must be used up before the map is changed. Otherwise, the
 * iterator may miss the change.
 */
export class LargeMap<K extends string, V> {
  #parts: ReadonlyArray<Map<K, V>> = [new Map()]
  #size = 0

  get size(): number {
    return this.#size
  }

  get(key: K): V | undefined {
    return this.#part(key).get(key)
  }

  has(key: K): boolean {
    return this.#part(key).has(key)
  }

  set(key: K, value: V): this {
    const part = this.#part(key)
    const before = part.size
    part.set(key, value)
    if (part.size > before && ++this.#size > largest && this.#parts.length === 1) this.#divide(part)
    return this
  }

  delete(key: K): boolean {
    const isThere = this.#part(key).delete(key)
    if (isThere) this.#size--
    return isThere
  }

  *keys(): Generator<K, undefined> {
    for (const part of this.#parts) yield* part.keys()
  }

  *values(): Generator<V, undefined> {
    for (const part of this.#parts) yield* part.values()
  }

  *[Symbol.iterator](): Generator<[K, V], undefined> {
    for (const part of this.#parts) yield* part
  }

  #part(key: K): Map<K, V> {
    return this.#parts.length === 1 ? this.#parts[0]! : this.#parts[partOf(key)]! // `partOf` returns an index of `#parts`
  }

  #divide(all: ReadonlyMap<K, V>): void {
    this.#parts = Array.from({ length: count }, () => new Map<K, V>())
    for (const [key, value] of all) this.#part(key).set(key, value)
  }
}

/** Number of entries above which a `LargeMap` divides its single `Map`, once and for all. */
const largest = 4_096
/** Number of maps among which the entries of a larger map are distributed. Must be a power of two. */
const count = 64

/** Returns the index of the map that contains a key: a hash (FNV-1a) of the last sixteen characters of the key. */
const partOf = (key: string): number => {
  let hash = 0x811c9dc5
  for (let i = Math.max(0, key.length - 16); i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  return (hash ^ (hash >>> 15)) & (count - 1)
}
