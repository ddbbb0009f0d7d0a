/**
 * Splits long synchronous work into steps. The event loop runs in the pauses between the steps. No step should block the event loop for
 * more than 50 ms.
 *
 * A pause lasts until the next iteration of the event loop, so that timers and sockets can run. `Effect.yieldNow` lets only other fibers
 * run, since fibers resume in microtasks.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DefaultServices from "effect/DefaultServices"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import { atOnce, type Steps } from "../ranking/internal/IndexCodec.ts"

export { atOnce, type Steps } from "../ranking/internal/IndexCodec.ts"

/**
 * Pauses until the next iteration of the event loop. Returns at once under a `TestClock`. Uses `setImmediate` if the runtime has it and the
 * clock is Effect's live clock, otherwise `sleep(0)` of the clock. A `sleep(0)` takes a millisecond. Many such pauses may delay sockets,
 * since all due timers run before sockets.
 */
export const pause: Effect.Effect<void> = Effect.clockWith((clock) =>
  clock === liveClock && typeof setImmediate === "function" ? immediate : clock.sleep(Duration.zero)
)

const liveClock = Context.get(DefaultServices.liveServices, Clock.Clock)

const immediate = Effect.async<void>((resume) => {
  const handle = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(handle))
})

/** Limit on the work of one iteration of the event loop. Needs `setImmediate`. */
export interface IterationBudget {
  /** Adds `work` to the work done in this iteration. */
  readonly spend: (work: number) => void
  /**
   * Whether the budget of this iteration is used up. Without `clock`, only the work counts. With `clock`, time counts, too: the limit is
   * 4 ms from the first call with `clock` in this iteration. The clock is read only once per sixteenth of the allowed work.
   */
  readonly isSpent: (clock?: Clock.Clock) => boolean
  /** Resets the work and the time to 0. Each iteration starts with such a reset. */
  readonly renew: () => void
}

/** Makes a budget of at most `most` units of work and 4 ms for each iteration of the event loop. */
export const makeIterationBudget = (most: number): IterationBudget => {
  let done = 0
  let isDue: IsDue | undefined
  let isWatched = false
  const renew = () => {
    done = 0
    isDue = undefined
  }
  const watch = () => {
    if (isWatched) return
    isWatched = true
    setImmediate(() => {
      isWatched = false
      renew()
    })
  }
  return {
    spend(work) {
      watch()
      done += work
    },
    isSpent(clock) {
      if (clock === undefined) return done >= most
      watch()
      isDue ??= stepEnd(clock, most)
      return isDue(done)
    },
    renew
  }
}

/** Sleeps in real time, even under a `TestClock`. Meant for code that waits for a server or another process. */
export const sleepLive = (time: Duration.DurationInput): Effect.Effect<void> =>
  Effect.withClock(Effect.sleep(time), machineClock)

const machineClock = Clock.make()

/**
 * Pauses long work from time to time. The caller runs the pacer after each step, with the amount of work of the step. The pacer pauses if
 * enough work was done since the last pause. A unit of work takes about 0.1 µs, as one
 * character of English text does. A character of Chinese takes up to 2 µs.
 */
export interface Pacer {
  (work: number): Effect.Effect<void>
}

/** Makes a pacer that pauses after `budget` units of work (default 8,192) or after 4 ms, whichever comes first. */
export const pacer = (budget = 8_192): Pacer => {
  let done = 0
  let isDue: IsDue | undefined
  return (work) =>
    Effect.clockWith((clock) => {
      isDue ??= stepEnd(clock, budget)
      done += work
      if (!isDue(done)) return Effect.void
      done = 0
      isDue = undefined
      return pause
    })
}

/** Whether the current step of long work should end. `work` is the work done in the step, in units of about 0.1 µs. */
export type IsDue = (work: number) => boolean

/**
 * Starts a step, and returns a function that says whether the step should end. A step ends after `stretch` units of work or after 4 ms,
 * whichever comes first. The time limit helps if a unit of work takes longer than usual, for example on a slow machine. The clock is read
 * once per sixteenth of `stretch`.
 */
const stepEnd = (clock: Clock.Clock, stretch: number): IsDue => {
  const end = clock.unsafeCurrentTimeMillis() + 4
  let nextLook = stretch / 16
  return (work) => {
    if (work >= stretch) return true
    if (work < nextLook) return false
    if (clock.unsafeCurrentTimeMillis() > end) return true
    nextLook = work + stretch / 16
    return false
  }
}

/**
 * Makes a function that runs synchronous steps of concurrent fibers one at a time. A `pacer` pauses between the steps, since many fibers
 * together could block the event loop. `work` computes the amount of work of a step from the step's result.
 */
export const serialSteps: Effect.Effect<<A>(step: () => A, work: (done: A) => number) => Effect.Effect<A>> = Effect.map(
  Effect.makeSemaphore(1),
  (semaphore) => {
    const pause = pacer()
    return (step, work) => semaphore.withPermits(1)(Effect.tap(Effect.sync(step), (done) => pause(work(done))))
  }
)

/**
 * Makes a queue: a function that runs effects one at a time, in order of arrival. An effect can be interrupted while it waits, and then
 * leaves the queue. If the queue is empty, an effect starts ten times as fast as with a semaphore.
 */
export const makeSerialQueue = (): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> => {
  let last: Deferred.Deferred<void> | undefined
  return (self) =>
    Effect.uninterruptibleMask((restore) => {
      const before = last
      const mine = last = Deferred.unsafeMake<void>(FiberId.none)
      const leave = Effect.sync(() => {
        if (last === mine) last = undefined
        Deferred.unsafeDone(mine, Effect.void)
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

/**
 * Calls `call` with each value. Pauses after `stretch` units of work or after 4 ms, whichever comes first. Pauses at the end, too, if more
 * than a quarter of `stretch` was done since the last pause. Never pauses if `stretch` is `Infinity`. `work` returns the units of work of a
 * value; default 1. The next value is read before each pause. `call` gets it even if it is deleted from `values` during the pause.
 */
export const forEach = <A>(
  values: Iterable<A>,
  stretch: number,
  call: (value: A) => void,
  work: (value: A) => number = () => 1
): Effect.Effect<void> =>
  Effect.clockWith((clock) => {
    const iterator = values[Symbol.iterator]()
    let next = iterator.next()
    const some = (): Effect.Effect<void> => {
      const isDue = stepEnd(clock, stretch)
      let done = 0
      for (; next.done !== true && !isDue(done); next = iterator.next()) {
        call(next.value)
        done += work(next.value)
      }
      return next.done !== true ? Effect.flatMap(pause, some) : isLong(done, stretch) ? pause : Effect.void
    }
    return some()
  })

/** Runs a generator with the same pauses as `forEach`, and returns its result. The default `stretch` takes about 2 ms. */
export const paced = <A>(begin: () => Steps<A>, stretch = 16_384): Effect.Effect<A> =>
  Effect.clockWith((clock) => {
    const steps = begin()
    const some = (): Effect.Effect<A> => {
      const isDue = stepEnd(clock, stretch)
      for (let work = 0; !isDue(work);) {
        const { done, value } = steps.next()
        if (done === true) return isLong(work, stretch) ? Effect.as(pause, value) : Effect.succeed(value)
        work += value
      }
      return Effect.flatMap(pause, some)
    }
    return some()
  })

/**
 * Whether to pause at the end of the work. True if more than a quarter of `stretch` was done since the last pause. Without such a pause,
 * many short calls in a row could block the event loop.
 */
const isLong = (work: number, stretch: number): boolean => work < Infinity && 4 * work > stretch

/** Options of a `LazyIndex`. */
export interface LazyOptions<Row, A> {
  /** Makes an empty index. */
  readonly make: () => A
  /** Adds a row. Returns the work done, in units of a `Pacer`. */
  readonly add: (index: A, row: Row) => number
  /** Removes a row that was added. */
  readonly remove: (index: A, row: Row) => void
  /** Returns the current rows, without tombstones (rows of forgotten records). Rows that are added during the iteration may be missing. */
  readonly rows: () => Iterable<Row>
}

interface Making<Row, A> {
  readonly index: A
  /** Rows that are not read yet; `undefined` once all rows are read. */
  unread: Iterator<Row> | undefined
  /**
   * Rows that are read but not yet added, in parts. Rows are added only once all rows are read. Each part is reversed, and finally the list
   * of parts, too. So the next row to add is the last row of the last part.
   */
  readonly parts: Array<Array<Row>>
  /** Rows that `set` received during reading. The build skips them in `parts`, since `changes` adds the current rows. */
  touched: ReadonlySet<Row | undefined>
  /**
   * Calls of `set` since reading began, each a pair of an old and a new row. Once all rows are read, these calls are replaced by additions:
   * one for each new row that is still current. Later calls are appended.
   */
  changes: Array<readonly [before: Row | undefined, after: Row | undefined]>
  /** Number of changes that have been applied. */
  changed: number
}

/**
 * An index over the rows of a table. The index is built when it is first used, and then kept up to date. Changes during the build are
 * applied once all rows are added. All fibers that wait for the index share the work of the build. So the build goes on even if one of
 * these fibers is interrupted.
 */
export class LazyIndex<in out Row, in out A> {
  readonly #options: LazyOptions<Row, A>
  #index: A | undefined
  #making: Making<Row, A> | undefined

  constructor(options: LazyOptions<Row, A>) {
    this.#options = options
  }

  /** Replaces the row `before` by the row `after`. `undefined` means no row. Does nothing before the first use of the index. */
  set(before: Row | undefined, after: Row | undefined): void {
    if (this.#index !== undefined) this.#change(this.#index, before, after)
    else this.#making?.changes.push([before, after])
  }

  /** The index if it has been built, else `undefined`. */
  get known(): A | undefined {
    return this.#index
  }

  /** Returns the index. Builds it if necessary, without pauses; this blocks the event loop. */
  build(): A {
    return this.#index ?? atOnce(this.#building())
  }

  /** Builds the index in steps. Continues the build if another caller has begun it. */
  *#building(): Steps<A> {
    while (this.#index === undefined) yield this.#step()
    return this.#index
  }

  /** Returns the index. Builds it if necessary, with pauses. */
  readonly prepared: Effect.Effect<A> = Effect.suspend(() =>
    this.#index !== undefined ? Effect.succeed(this.#index) : paced(() => this.#building())
  )

  /** Does one step of the build, and returns the work done, in units of a `Pacer`. */
  #step(): number {
    const { add, make, rows } = this.#options
    const making = this.#making ??= {
      index: make(),
      unread: rows()[Symbol.iterator](),
      parts: [],
      touched: new Set(),
      changes: [],
      changed: 0
    }
    if (making.unread !== undefined) return readSome(making)
    const part = making.parts.at(-1)
    if (part !== undefined) {
      let work = 0
      while (part.length > 0 && work < perYield) {
        const row = part.pop()!
        work += making.touched.has(row) ? 1 : perRow + add(making.index, row)
      }
      if (part.length === 0) making.parts.pop()
      return work
    }
    if (making.changed < making.changes.length) {
      const [before, after] = making.changes[making.changed++]!
      return perRow + this.#change(making.index, before, after)
    }
    this.#index = making.index
    this.#making = undefined
    return 0
  }

  #change(index: A, before: Row | undefined, after: Row | undefined): number {
    if (before !== undefined) this.#options.remove(index, before)
    return after === undefined ? 0 : this.#options.add(index, after)
  }
}

/** Reads up to `partSize` rows. Always returns `partSize` as the work. Prepares `touched` and `changes` once all rows are read. */
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

/** Largest number of rows that one step reads. */
const partSize = 4_096

/** Work after which a step stops adding rows, in units of a `Pacer`. One row per step would make the build a tenth slower. */
const perYield = 512

/** Work of adding or changing a row, in units of a `Pacer`, apart from the work that `add` returns. */
const perRow = 8
