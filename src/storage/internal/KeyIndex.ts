/**
 * Objects by 32-bit keys, several to a key: what looks something up by the hash of a text, and then looks at the text itself.
 * A key with one object holds just that. The keys are spread over many maps, so that no map that grows stops the event loop.
 */
export class KeyIndex<V extends object> {
  readonly #maps: Array<Map<number, V | Set<V>> | undefined> = []

  /** Cost: constant. */
  add(key: number, value: V): void {
    const map = this.#maps[key & mask] ??= new Map()
    const held = map.get(key)
    if (held instanceof Set) held.add(value)
    else map.set(key, held === undefined || held === value ? value : new Set([held, value]))
  }

  /** Cost: constant. */
  remove(key: number, value: V): void {
    const map = this.#maps[key & mask]
    const held = map?.get(key)
    if (held === value) map?.delete(key)
    else if (held instanceof Set && held.delete(value) && held.size === 0) map?.delete(key)
  }

  /** Returns the objects of a key, in the order in which they came. Good until the next change. */
  get(key: number): Iterable<V> {
    const held = this.#maps[key & mask]?.get(key)
    return held === undefined ? [] : held instanceof Set ? held : [held]
  }
}

const mask = 255
