/**
 * Commits batches: plans the files of each, appends all to the history, which is the acknowledgement, and then replaces the
 * files. For the holder of the lock.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { Write } from "../../MemoryStore.ts"
import { isFull } from "./Disk.ts"
import type { Batch, Part } from "./History.ts"
import type { Lock } from "./Lock.ts"
import * as Plan from "./Plan.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** A batch that is ready to be written. */
export interface Prepared {
  readonly plans: ReadonlyArray<Plan.Plan>
  readonly ids: ReadonlySet<MemoryId>
  /** Dedupe keys of the records that it writes. */
  readonly keys: ReadonlySet<string>
  /** Files that it writes or removes. */
  readonly paths: ReadonlySet<string>
  readonly tenant: string
  /** Whether it does nothing but purge, so that a full disk takes it. */
  readonly isPurge: boolean
  /** Whether it erases anything, and is written by itself. */
  readonly isAlone: boolean
}

/** Records that are planned between two turns of the event loop, a tenth of a millisecond each. */
const plansPerTurn = 128

/** Files before a batch, by path. */
export type Before = ReadonlyMap<string, Uint8Array | string | null>

export interface Commit {
  readonly prepare: (tenant: string, writes: ReadonlyArray<Write>) => Io<Prepared>
  /** Writes batches that are about different records and files. How each went: none counts where the history takes none. */
  readonly write: (
    batches: ReadonlyArray<Prepared>
  ) => Effect.Effect<ReadonlyArray<Either.Either<void, MemoryError.MemoryError>>>
}

export interface Circumstances extends Plan.Circumstances {
  readonly guard: Io<void>
  readonly isOurs: Io<boolean>
  readonly takeBack: (batch: Batch, before: Before) => Io<void>
  /** Overwrites what a batch purged. */
  readonly cleaned: (batch: Batch, isPurge: boolean) => Io<void>
  /** Told of a batch whose files are written; `undefined`: it has no line in the history. */
  readonly written: (batch: Batch | undefined) => void
  /** Removes the snapshot. */
  readonly removeSnapshot: Io<void>
}

export const make = (circumstances: Circumstances): Commit => {
  const { cleaned, disk, guard, history, isOurs, mirror, removeSnapshot, takeBack, written } = circumstances

  const shown = ({ gone, path }: Part, content: string | undefined) =>
    Effect.gen(function*() {
      if (path !== null && content !== undefined) {
        yield* disk.write(path, content, { force: false, isFenced: true })
      }
      for (const old of gone) yield* disk.remove(old, { force: false, isFenced: true })
    })
  const viewOf = ({ plans }: Prepared): Io<void> =>
    Effect.forEach(plans, ({ content, parts }) => shown(parts.at(-1)!, content), { discard: true }) // one part at least
  const beforeOf = ({ plans }: Prepared): Before => new Map(plans.flatMap(({ before }) => before))
  const noted = ({ plans }: Prepared) => {
    for (const { entry, gone } of plans) {
      for (const path of gone) mirror.set(path, undefined)
      if (entry) mirror.set(entry.path, entry)
    }
  }

  /** A full disk has no room for a line, and gives up the files and the lines that are there. */
  const erased = (batch: Prepared): Io<void> =>
    Effect.gen(function*() {
      const { ids, tenant } = batch
      const places = Array.from(ids).flatMap((id) => history.places(tenant, id))
      yield* Effect.zipRight(viewOf(batch), history.erase(places)).pipe(
        Effect.tapError(() => Effect.option(Plan.takeBack(disk, [], beforeOf(batch))))
      )
      noted(batch)
      written(undefined)
      yield* removeSnapshot
    })
  /** Replaces the files of a batch that the history has. */
  const followed = (prepared: Prepared, batch: Batch): Io<void> =>
    Effect.gen(function*() {
      const view = viewOf(prepared)
      yield* view.pipe(
        // whoever took the lock from us by mistake has ended our turn, too: it is ours again
        Effect.catchAll((error) =>
          Effect.flatMap(isOurs, (ours) => ours ? Effect.zipRight(disk.begin, view) : Effect.fail(error))
        ),
        Effect.catchAll((error) =>
          Effect.flatMap(isOurs, (ours) =>
            ours
              ? Effect.zipRight(Effect.option(takeBack(batch, beforeOf(prepared))), error)
              : Effect.void) // the history has it: whoever has the lock writes the files
        )
      )
      written(batch)
      noted(prepared)
      yield* cleaned(batch, Plan.isPurge(prepared.plans))
    })

  return {
    prepare: (tenant, writes) =>
      Effect.gen(function*() {
        const byId = new Map<MemoryId, Array<Write>>()
        for (const write of writes) {
          const known = byId.get(write.id)
          if (known === undefined) byId.set(write.id, [write])
          else known.push(write)
        }
        const paced = EventLoop.pacer(plansPerTurn)
        const plans = yield* Effect.forEach(byId, ([id, ofOne]) =>
          Effect.zipLeft(Plan.make(circumstances, tenant, id, ofOne), paced(1)))
        return {
          tenant,
          plans,
          ids: new Set(byId.keys()),
          keys: new Set(writes.flatMap(({ next }) =>
            next?.dedupeKey ?? []
          )),
          paths: new Set(plans.flatMap(({ before }) => before.map(([path]) => path))),
          isPurge: writes.every(({ next }) => next === undefined),
          isAlone: writes.some(({ next }) => next === undefined)
        }
      }),
    write: (batches) =>
      Effect.gen(function*() {
        yield* guard
        const [first] = batches
        const appended = yield* Effect.either(
          history.appendAll(batches.map(({ plans }) => plans.flatMap(({ parts }) => parts)))
        )
        if (Either.isLeft(appended)) {
          const isGivenUp = batches.length === 1 && first?.isPurge === true && isFull(appended.left)
          return isGivenUp ? [yield* Effect.either(erased(first))] : batches.map(() => Either.left(appended.left))
        }
        return yield* Effect.forEach(
          batches,
          (prepared, n) => Effect.either(followed(prepared, appended.right[n]!)) // as many as were appended
        )
      }).pipe(
        Effect.catchAll((error) => Effect.succeed(batches.map(() => Either.left(error)))),
        Effect.uninterruptible
      )
  }
}

/**
 * The writers of this process, who take turns. One turn at a time runs, in the order in which they came, and the lock of the
 * vault is held for all that follow one another.
 *
 * A turn that commits lets those run that waited meanwhile, and then the first of them writes what all of them commit: one
 * append, one wait for the disk. Nothing of it is seen before it is on disk, so a turn that is about a record or a key of
 * what waits has that written first. Each goes on, in its order, when all is written, or fails if that failed.
 */
export interface Writers {
  /** Runs by itself, when all that waits for the disk is written. */
  readonly alone: <A>(self: Io<A>) => Io<A>
  /** Runs a turn about these records and keys. */
  readonly inTurn: <A>(tenant: string, about: About, self: Io<A>) => Io<A>
  /** Within a turn: commits, together with others. */
  readonly commit: (tenant: string, prepare: Io<Prepared>) => Io<void>
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
  readonly batch: Prepared
  outcome: Either.Either<void, MemoryError.MemoryError> | undefined
}

/** Records that are written at once, about: more would hold the lock for long. */
const most = 1_024
/** Turns that follow one another, after which the lock is left for a moment to processes that wait for it. */
const inARow = 16
/** Milliseconds of that moment. A process that waits looks every five. */
const moment = 8

export const makeWriters = (
  lock: Lock,
  { caughtUp, isLost, write }: {
    /** Brings the holder of the lock up to date. */
    readonly caughtUp: Io<void>
    readonly write: Commit["write"]
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
