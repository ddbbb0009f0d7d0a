/** The columns, the order of time and the scopes of the slots of an index: a slot is the number of one of its records. */
import type { MemoryId } from "../../domain/MemoryId.ts"
import { type MemoryRecord, recencyOf } from "../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../domain/MemoryScope.ts"
import * as Visibility from "../../domain/Visibility.ts"
import type { Position } from "../Retrieval.ts"

/** A typed array that grows as it is written to. A number that was never set is 0. */
export class GrowableArray<A extends Int32Array | Float64Array> {
  /** Replaced when the column grows: read it anew after `set`. */
  data: A
  readonly #make: (length: number) => A

  constructor(make: (length: number) => A, data = make(64)) {
    this.#make = make
    this.data = data
  }

  set(at: number, value: number): void {
    if (at >= this.data.length) {
      const grown = this.#make(Math.max(at + 1, this.data.length * 2))
      grown.set(this.data)
      this.data = grown
    }
    this.data[at] = value
  }
}

export const int32 = (data?: Int32Array): GrowableArray<Int32Array> =>
  new GrowableArray((length) => new Int32Array(length), data)
export const float64 = (): GrowableArray<Float64Array> => new GrowableArray((length) => new Float64Array(length))

/** The slots of an index in the order of their records' time. A slot stays in it when its record is removed. */
export class RecencyIndex {
  readonly #recency = float64()
  readonly #ids: Array<MemoryId> = []
  /** Oldest first: what comes is mostly newest, and is added at the end. */
  readonly #slots: Array<number> = []
  #isSorted = true

  add(slot: number, record: MemoryRecord): void {
    const last = this.#slots.at(-1)
    this.#recency.set(slot, recencyOf(record))
    this.#ids[slot] = record.id
    this.#slots.push(slot)
    this.#isSorted &&= last === undefined || this.newestFirst(slot, last) < 0
  }

  readonly newestFirst = (a: number, b: number): number =>
    this.#recency.data[b]! - this.#recency.data[a]! || (this.#ids[a]! < this.#ids[b]! ? -1 : 1)

  /** Every slot, oldest first, dead ones included. Sorts where something came out of order since. */
  all(): ReadonlyArray<number> {
    if (!this.#isSorted) this.#slots.sort((a, b) => this.newestFirst(b, a))
    this.#isSorted = true
    return this.#slots
  }

  /** Returns how many of some slots, given oldest first, come after a position in the order of a page: newest first. */
  after(slots: ReadonlyArray<number>, { id, recency }: Position): number {
    let low = 0
    let high = slots.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const newer = this.#recency.data[slots[middle]!]! - recency
      if (newer < 0 || (newer === 0 && this.#ids[slots[middle]!]! > id)) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** The scopes of an index by number, so that each slot needs only a number, and what a viewer sees is a set of numbers. */
export class ScopeIndex {
  readonly all: Array<MemoryScope.MemoryScope> = []
  readonly #numbers = new Map<string, number>()
  /** The scopes that have an id, by the key of that id alone: `userId=ada`. */
  readonly #having = new Map<string, Array<number>>()

  /** Returns the number of a scope, counted from 0; equal scopes have the same. */
  numberOf(scope: MemoryScope.MemoryScope): number {
    const key = MemoryScope.key(scope)
    const known = this.#numbers.get(key)
    if (known !== undefined) return known
    const number = this.all.push(scope) - 1
    this.#numbers.set(key, number)
    if (scope === MemoryScope.Global) return number
    for (const id of idsOf(scope)) {
      const having = this.#having.get(id)
      if (having) having.push(number)
      else this.#having.set(id, [number])
    }
    return number
  }

  /**
   * Returns the scopes in sight; `undefined` stands for all of them. Cost: of exact scopes a look-up each, whatever the number
   * of scopes; of those within some ids, the scopes that have the rarest of these.
   */
  seenBy(visibility: Visibility.Visibility): ReadonlyArray<number> | undefined {
    switch (visibility._tag) {
      case "All":
        return undefined
      case "Everyone":
        return this.#numbers.has(internal) ? this.#included(visibility, this.all.keys()) : undefined
      case "Scopes":
        return visibility.keys.flatMap((key) => this.#numbers.get(key) ?? [])
      case "Within": {
        const ids = idsOf(visibility.ids)
        const having = ids.map((id) => this.#having.get(id) ?? [])
        const fewest = having.reduce((least, scopes) => scopes.length < least.length ? scopes : least)
        return ids.length === 1 ? fewest : this.#included(visibility, fewest)
      }
    }
  }

  #included(visibility: Visibility.Visibility, numbers: Iterable<number>): ReadonlyArray<number> {
    const includes = Visibility.includes(visibility)
    return Array.from(numbers).filter((number) => includes(this.all[number]!))
  }
}

const internal = MemoryScope.key(MemoryScope.Internal)

const idsOf = (ids: MemoryScope.Ids): ReadonlyArray<string> =>
  MemoryScope.fields.flatMap((field) => ids[field] === undefined ? [] : [MemoryScope.key({ [field]: ids[field] })])
