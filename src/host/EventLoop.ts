/**
 * Keeps long work from blocking the event loop: no step of this library should block it for more than 50 ms.
 *
 * `Effect.yieldNow` lets other fibers run, but neither timers nor sockets, since fibers resume in microtasks.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DefaultServices from "effect/DefaultServices"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import type { Steps } from "../ranking/internal/IndexCodec.ts"

export { atOnce, type Steps } from "../ranking/internal/IndexCodec.ts"

/**
 * Waits for the next turn of the event loop. Under a `TestClock` it returns at once. It is no timer: a timer takes a millisecond, and
 * timers of several fibers, each due when the step of another ends, keep the loop from its sockets.
 */
export const turn: Effect.Effect<void> = Effect.clockWith((clock) =>
  clock === liveClock && typeof setImmediate === "function" ? immediate : clock.sleep(Duration.zero)
)

const liveClock = Context.get(DefaultServices.liveServices, Clock.Clock)

const immediate = Effect.async<void>((resume) => {
  const handle = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(handle))
})

/** Sleeps by the machine's clock, even under a `TestClock`, to wait for a server or another process. */
export const sleepLive = (time: Duration.DurationInput): Effect.Effect<void> =>
  Effect.withClock(Effect.sleep(time), machineClock)

const machineClock = Clock.make()

/**
 * Pauses long work: call it after each step with the size of that step. The unit is one character that was parsed or cut
 * into words, which takes 0.1 µs for English and 2 µs for Chinese.
 */
export interface Pacer {
  (work: number): Effect.Effect<void>
}

/** Makes a pacer that waits for a turn of the event loop after every `budget` units. Default 8,192. */
export const pacer = (budget = 8_192): Pacer => {
  let done = 0
  return (work) =>
    Effect.suspend(() => {
      done += work
      if (done < budget) return Effect.void
      done = 0
      return turn
    })
}

/**
 * Makes a function that runs the steps of concurrent fibers one after the other, and pauses between them as `pacer` does.
 * `work` returns the size of a finished step.
 */
export const inTurn: Effect.Effect<<A>(step: () => A, work: (done: A) => number) => Effect.Effect<A>> = Effect.map(
  Effect.makeSemaphore(1),
  (semaphore) => {
    const pause = pacer()
    return (step, work) => semaphore.withPermits(1)(Effect.tap(Effect.sync(step), (done) => pause(work(done))))
  }
)

/**
 * Makes a function that runs effects one after the other, in the order of arrival. One that is interrupted while it waits gives
 * its place up. Cost where none runs: a tenth of a semaphore's.
 */
export const makeSerialQueue = (): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> => {
  let last: Deferred.Deferred<void> | undefined
  return (self) =>
    Effect.uninterruptibleMask((restore) => {
      const before = last
      const own = last = Deferred.unsafeMake<void>(FiberId.none)
      const leave = Effect.sync(() => {
        if (last === own) last = undefined
        Deferred.unsafeDone(own, Effect.void)
      })
      const run = Effect.flatMap(Effect.exit(restore(self)), (exit) => Effect.zipRight(leave, exit))
      if (before === undefined) return run
      const passedOn = Effect.forkDaemon(Effect.zipRight(Deferred.await(before), leave))
      return Effect.matchCauseEffect(restore(Deferred.await(before)), {
        onFailure: (cause) => Effect.zipRight(passedOn, Effect.failCause(cause)),
        onSuccess: () => run
      })
    })
}

/** Runs steps, with a turn of the event loop between two, until `isLast` returns true. */
export const steps = (isLast: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => isLast() ? Effect.void : Effect.zipRight(turn, steps(isLast)))

/**
 * Calls a function with each value, and waits for a turn of the event loop after every `stretch` units of work, and at the end of more
 * than a quarter of it. `work` returns the units of one value; default 1. An iterator that is live, as that of a map, has one value read ahead over a pause.
 */
export const forEach = <A>(
  values: Iterable<A>,
  stretch: number,
  call: (value: A) => void,
  work: (value: A) => number = () => 1
): Effect.Effect<void> =>
  Effect.suspend(() => {
    const iterator = values[Symbol.iterator]()
    let next = iterator.next()
    const some = (): Effect.Effect<void> => {
      let done = 0
      for (; next.done !== true && done < stretch; next = iterator.next()) {
        call(next.value)
        done += work(next.value)
      }
      return next.done !== true ? Effect.flatMap(turn, some) : isLong(done, stretch) ? turn : Effect.void
    }
    return some()
  })

/** Runs work, with a turn of the event loop after every `stretch` units, and as `forEach` at the end. Default 16,384: about 2 ms. */
export const paced = <A>(begin: () => Steps<A>, stretch = atATime): Effect.Effect<A> =>
  Effect.suspend(() => {
    const steps = begin()
    const some = (): Effect.Effect<A> => {
      for (let work = 0; work < stretch;) {
        const { done, value } = steps.next()
        if (done === true) return isLong(work, stretch) ? Effect.as(turn, value) : Effect.succeed(value)
        work += value
      }
      return Effect.flatMap(turn, some)
    }
    return some()
  })

/** Whether what was done since the last pause deserves one of its own, lest several such pieces of work in a row become one. */
const isLong = (work: number, stretch: number): boolean => work < Infinity && 4 * work > stretch

/** Options of a `LazyIndex`. */
export interface LazyOptions<Row, A> {
  /** Makes an index without rows. */
  readonly make: () => A
  /** Adds a row. Returns its work, in units of a `Pacer`. */
  readonly add: (index: A, row: Row) => number
  /** Removes a row that was added. */
  readonly remove: (index: A, row: Row) => void
  /** Returns the current rows, without tombstones. The iterator may come to rows that are set meanwhile, or not. */
  readonly rows: () => Iterable<Row>
}

interface Making<Row, A> {
  readonly index: A
  /** The rows that are still to be read, until they are all in `parts`. */
  unread: Iterator<Row> | undefined
  /** The rows that were read and not yet added; once all are read, the next one is the last of the last part. */
  readonly parts: Array<Array<Row>>
  /** Rows that were set or replaced while the others were read: those of them that are current are among the changes. */
  touched: ReadonlySet<Row | undefined>
  /** Changes since the rows were read; until then, since the first of them was. */
  changes: Array<readonly [before: Row | undefined, after: Row | undefined]>
  /** Number of the changes that were applied. */
  changed: number
}

/**
 * An index over the rows of a table, built with pauses on first use and kept current from then on. Changes that arrive while it
 * is built are applied after the rows. Several fibers may wait for it at once; each of them continues the build, so none depends
 * on another that is interrupted.
 */
export class LazyIndex<in out Row, in out A> {
  readonly #options: LazyOptions<Row, A>
  #index: A | undefined
  #making: Making<Row, A> | undefined

  constructor(options: LazyOptions<Row, A>) {
    this.#options = options
  }

  /** Replaces the row `before` by the row `after`. Costs nothing before first use. */
  set(before: Row | undefined, after: Row | undefined): void {
    if (this.#index !== undefined) this.#change(this.#index, before, after)
    else this.#making?.changes.push([before, after])
  }

  /** The index, if it is built. */
  get known(): A | undefined {
    return this.#index
  }

  /** Returns the index; builds it without pauses if there is none, at the cost of all rows. */
  build(): A {
    while (this.#index === undefined) this.#step()
    return this.#index
  }

  /** Returns the index; builds it with pauses if there is none. */
  readonly prepared: Effect.Effect<A> = Effect.suspend(() =>
    this.#index !== undefined
      ? Effect.succeed(this.#index)
      : Effect.map(steps(() => this.#index !== undefined || this.#step()), () => this.build())
  )

  /** Reads or adds some rows; returns whether the index is complete. */
  #step(): boolean {
    const { add, make, rows } = this.#options
    const making = this.#making ??= {
      index: make(),
      unread: rows()[Symbol.iterator](),
      parts: [],
      touched: new Set(),
      changes: [],
      changed: 0
    }
    let work = 0
    while (work < atATime && making.unread !== undefined) work += readSome(making)
    while (work < atATime && making.unread === undefined && making.parts.length > 0) {
      const part = making.parts.at(-1)! // there is one
      const row = part.pop()
      if (part.length === 0) making.parts.pop()
      if (row !== undefined) work += making.touched.has(row) ? 1 : perRow + add(making.index, row)
    }
    while (work < atATime && making.parts.length === 0 && making.changed < making.changes.length) {
      const [before, after] = making.changes[making.changed++]!
      work += perRow + this.#change(making.index, before, after)
    }
    if (making.unread !== undefined || making.parts.length > 0 || making.changed < making.changes.length) return false
    this.#index = making.index
    this.#making = undefined
    return true
  }

  #change(index: A, before: Row | undefined, after: Row | undefined): number {
    if (before !== undefined) this.#options.remove(index, before)
    return after === undefined ? 0 : this.#options.add(index, after)
  }
}

/** Reads some rows, and returns the work that took. After the last it accounts for what was set since the first. */
const readSome = <Row, A>(making: Making<Row, A>): number => {
  const part: Array<Row> = []
  while (making.unread !== undefined && part.length < partSize) {
    const { done, value } = making.unread.next()
    if (done === true) making.unread = undefined
    else part.push(value)
  }
  making.parts.push(part.reverse())
  if (making.unread === undefined) {
    const current = new Set<Row>()
    for (const [before, after] of making.changes) {
      if (before !== undefined) current.delete(before)
      if (after !== undefined) current.add(after)
    }
    making.touched = new Set(making.changes.flat())
    making.changes = Array.from(current, (row) => [undefined, row])
    making.parts.reverse()
  }
  return partSize
}

/** Most rows of a part. */
const partSize = 4_096

/** Work between two pauses, in units of a `Pacer`: about 2 ms. */
const atATime = 16_384

/** Work of a row besides reading its text, in units of a `Pacer`. */
const perRow = 8
