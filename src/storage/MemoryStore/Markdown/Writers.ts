/**
 * The writers of this process, who take turns. One turn at a time runs, in the order in which they came, and the lock of the
 * vault is held for all that follow one another.
 *
 * A turn that commits lets those run that waited meanwhile, and then the first of them writes what all of them commit: one
 * append, one wait for the disk. Nothing of it is seen before it is on disk, so a turn that is about a record or a key of
 * what waits has that written first. Each goes on, in its order, when all is written, or fails if that failed.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type * as Commit from "./Commit.ts"
import type { Lock } from "./Lock.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Writers {
  /** Runs by itself, when all that waits for the disk is written. */
  readonly alone: <A>(self: Io<A>) => Io<A>
  /** Runs a turn about these records and keys. */
  readonly inTurn: <A>(tenant: string, about: About, self: Io<A>) => Io<A>
  /** Within a turn: commits, together with others. */
  readonly commit: (tenant: string, prepare: Io<Commit.Prepared>) => Io<void>
  /** Within a turn: writes what waits for the disk. Those who committed it are told how that went. */
  readonly flush: Effect.Effect<void>
}

export interface About {
  readonly ids: ReadonlyArray<MemoryId>
  readonly dedupeKeys: ReadonlyArray<string>
}

/** A batch that waits to be written, and how that went. */
interface Waiting {
  readonly tenant: string
  readonly batch: Commit.Prepared
  outcome: Either.Either<void, MemoryError.MemoryError> | undefined
}

/** Records that are written at once, about: more would hold the lock for long. */
const most = 1_024
/** Turns that follow one another, after which the lock is left for a moment to processes that wait for it. */
const inARow = 16
/** Milliseconds of that moment. A process that waits looks every five. */
const moment = 8

export const make = (
  lock: Lock,
  { caughtUp, isLost, write }: {
    /** Brings the holder of the lock up to date. */
    readonly caughtUp: Io<void>
    readonly write: Commit.Commit["write"]
    readonly isLost: (error: MemoryError.MemoryError) => boolean
  }
): Writers => {
  const { give, isAwaited, take } = makeBaton()
  let waiting: Array<Waiting> = []
  /** The lock while it is held, for so many turns that have begun. `isLost`: another process took it. */
  let held: { readonly scope: Scope.CloseableScope; turns: number; isLost: boolean } | undefined
  let row = 0

  const flush: Writers["flush"] = Effect.suspend(() => {
    const written = waiting
    waiting = []
    if (written.length === 0) return Effect.void
    return Effect.map(write(written.map(({ batch }) => batch)), (outcomes) => {
      for (const [n, one] of written.entries()) one.outcome = outcomes[n]
      if (held !== undefined && outcomes.some((one) => Either.isLeft(one) && isLost(one.left))) held.isLost = true
    })
  })
  const isTouched = (tenant: string, { dedupeKeys, ids }: About): boolean =>
    waiting.some((one) =>
      one.tenant === tenant &&
      (ids.some((id) => one.batch.ids.has(id)) || dedupeKeys.some((key) => one.batch.keys.has(key)))
    )
  const size = () => waiting.reduce((sum, { batch }) => sum + batch.ids.size, 0)

  const leave = Effect.suspend(() => {
    if (held === undefined || --held.turns > 0) return give
    const { scope } = held
    held = undefined
    return Effect.zipRight(Scope.close(scope, Exit.void), give)
  })
  /** Leaves the lock to processes that wait for it, where turn after turn would never do so. */
  const rest = Effect.suspend(() => {
    row = isAwaited() ? row + 1 : 0
    if (row < inARow) return Effect.void
    row = 0
    return EventLoop.sleepOutside(moment)
  })
  /** Takes the baton, and the lock where no turn before has it. */
  const enter = (restore: <A, E>(self: Effect.Effect<A, E>) => Effect.Effect<A, E>): Io<void> =>
    Effect.gen(function*() {
      yield* restore(take)
      while (held?.isLost === true) yield* Effect.zipRight(give, restore(take)) // until its turns are over
      if (held !== undefined) {
        held.turns++
        return
      }
      const scope = yield* Scope.make()
      yield* Effect.zipRight(rest, lock.hold(restore)).pipe(
        Scope.extend(scope),
        Effect.onError(() => Effect.zipRight(Scope.close(scope, Exit.void), give))
      )
      held = { scope, turns: 1, isLost: false }
      yield* Effect.onError(restore(caughtUp), () => leave)
    })
  const turn = <A>(before: Io<void>, self: Io<A>): Io<A> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(enter(restore), () =>
        restore(Effect.zipRight(before, self)).pipe(
          Effect.tapError((error) =>
            Effect.sync(() => {
              if (held !== undefined && isLost(error)) held.isLost = true
            })
          ),
          Effect.ensuring(leave)
        ))
    ).pipe(Effect.retry({ while: isLost })) // and again, from the start

  return {
    flush,
    alone: (self) =>
      turn(
        Effect.suspend(() => {
          const isFirst = held?.turns === 1
          return Effect.zipRight(flush, isFirst ? Effect.void : caughtUp)
        }),
        self
      ),
    inTurn: (tenant, about, self) =>
      turn(
        Effect.suspend(() => isTouched(tenant, about) || size() >= most ? flush : Effect.void),
        self
      ),
    commit: (tenant, prepare) =>
      Effect.gen(function*() {
        let batch = yield* prepare
        const isOfOthers = (one: Waiting) =>
          Array.from(one.batch.paths).some((path) => batch.paths.has(path)) ||
          (one.tenant === tenant && Array.from(one.batch.ids).some((id) => batch.ids.has(id)))
        if (waiting.length > 0 && (batch.isAlone || waiting.some(isOfOthers))) {
          yield* flush
          batch = yield* prepare // what was written may be what this batch is about
        }
        const one: Waiting = { tenant, batch, outcome: undefined }
        waiting.push(one)
        if (!batch.isAlone && isAwaited()) yield* Effect.zipRight(give, take)
        if (one.outcome === undefined) yield* flush
        return yield* one.outcome ?? Effect.dieMessage("a batch was not written")
      })
  }
}

/** What one fiber at a time has. It goes from one to the next in the order in which they asked, and nobody gets in between. */
const makeBaton = () => {
  let isTaken = false
  const asking = new Set<() => void>()
  const give = Effect.sync(() => {
    const [next] = asking
    if (next === undefined) {
      isTaken = false
      return
    }
    asking.delete(next)
    next()
  })
  const take = Effect.async<void>((resume) => {
    if (!isTaken) {
      isTaken = true
      return resume(Effect.void)
    }
    const next = () => resume(Effect.void)
    asking.add(next)
    return Effect.suspend(() => asking.delete(next) ? Effect.void : give) // it was given, and is not wanted any more
  })
  return { give, take, isAwaited: () => asking.size > 0 }
}
