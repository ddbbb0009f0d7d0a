/**
 * What is looked up in the rows of a catalog: made when it is first asked for, with pauses for the event loop, and kept current
 * from then on. A row that changes while it is made is changed in it once all others are in it. Several may wait for it at once;
 * each of them goes on with it, so that none depends on another that is interrupted.
 */
import * as Effect from "effect/Effect"
import * as EventLoop from "../../host/EventLoop.ts"
import type { Stored } from "./EngineContract.ts"

export interface Options<A> {
  /** Makes an index without rows. */
  readonly make: () => A
  /** Adds a row, and returns the work that took, in units of a `Pacer`. */
  readonly add: (index: A, row: Stored) => number
  /** Takes away a row that was added. */
  readonly remove: (index: A, row: Stored) => void
  /** The rows that there are, no tombstones. */
  readonly rows: () => ReadonlyArray<Stored>
}

interface Making<A> {
  readonly index: A
  readonly rows: ReadonlyArray<Stored>
  /** Number of the rows that were added. */
  added: number
  readonly changes: Array<readonly [before: Stored | undefined, after: Stored | undefined]>
  /** Number of the changes that were made. */
  changed: number
}

export class LazyIndex<A> {
  readonly #options: Options<A>
  #index: A | undefined
  #making: Making<A> | undefined

  constructor(options: Options<A>) {
    this.#options = options
  }

  /** The row `after` has taken the place of the row `before`. Cost: nothing before the index was asked for. */
  set(before: Stored | undefined, after: Stored | undefined): void {
    if (this.#index !== undefined) this.#change(this.#index, before, after)
    else this.#making?.changes.push([before, after])
  }

  /** The index, if it was made already. */
  get known(): A | undefined {
    return this.#index
  }

  /** The index, made at once where there is none. Cost: the rows. */
  get current(): A {
    while (this.#index === undefined) this.#step()
    return this.#index
  }

  /** The index, made with pauses where there is none. */
  readonly prepared: Effect.Effect<A> = Effect.suspend(() =>
    this.#index !== undefined
      ? Effect.succeed(this.#index)
      : Effect.map(EventLoop.steps(() => this.#index !== undefined || this.#step()), () => this.current)
  )

  /** Adds some rows; returns whether none is left. */
  #step(): boolean {
    const { add, make, rows } = this.#options
    const making = this.#making ??= { index: make(), rows: rows(), added: 0, changes: [], changed: 0 }
    let work = 0
    while (work < stretch && making.added < making.rows.length) {
      work += perRow + add(making.index, making.rows[making.added++]!)
    }
    while (work < stretch && making.changed < making.changes.length) {
      const [before, after] = making.changes[making.changed++]!
      work += perRow + this.#change(making.index, before, after)
    }
    if (making.added < making.rows.length || making.changed < making.changes.length) return false
    this.#index = making.index
    this.#making = undefined
    return true
  }

  #change(index: A, before: Stored | undefined, after: Stored | undefined): number {
    if (before !== undefined) this.#options.remove(index, before)
    return after === undefined ? 0 : this.#options.add(index, after)
  }
}

/** Work between two pauses, in units of a `Pacer`: about 15 ms. */
const stretch = 131_072

/** What a row costs beside what is read of it. */
const perRow = 8
