/** Commits batches: plans their files, appends them to the history, which is the acknowledgement, and then replaces the files. */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { Write } from "../../MemoryStore.ts"
import type { Batch } from "./History.ts"
import { isLost, type Lock, lost } from "./Lock.ts"
import { isFull } from "./VaultFileSystem.ts"
import * as WritePlan from "./WritePlan.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** A batch that is ready to be written. */
export interface Prepared {
  readonly plans: ReadonlyArray<WritePlan.WritePlan>
  readonly ids: ReadonlySet<MemoryId>
  /** Dedupe keys of the records that it writes. */
  readonly keys: ReadonlySet<string>
  /** Files that it writes or removes. */
  readonly paths: ReadonlySet<string>
  readonly tenant: string
  /** Characters of the files that it writes. */
  readonly size: number
  /** Whether it does nothing but purge, so that a full disk takes it. */
  readonly isPurge: boolean
  /** Whether it erases anything, and is written by itself. */
  readonly isAlone: boolean
}

/** Records that are planned between two turns of the event loop, a tenth of a millisecond each. */
const plansPerTurn = 32

/** Outcome of each batch, in their order. */
export type Outcomes = ReadonlyArray<Either.Either<void, MemoryError.MemoryError>>

/** Plans batches, and writes them. */
export interface Commit {
  readonly prepare: (tenant: string, writes: ReadonlyArray<Write>) => Io<Prepared>
  /**
   * Writes batches that are about different records and files, together. How each went: all fail where the history does not take
   * them; one that cannot write its files fails alone; one of whose files a hand has changed since it was planned fails as a
   * lost lock does.
   */
  readonly write: (batches: ReadonlyArray<Prepared>) => Effect.Effect<Outcomes>
}

/** Parts of a vault that a commit works with. */
export interface Dependencies extends WritePlan.Dependencies {
  readonly guard: Io<void>
  readonly isOurs: Io<boolean>
  readonly rollBack: (batch: Batch, before: WritePlan.Before) => Io<void>
  /** Whether everything that failed was taken back. */
  readonly isClean: () => boolean
  /** Overwrites what a batch purged. */
  readonly cleaned: (batch: Batch, isPurge: boolean) => Io<void>
  /** Told of a batch whose files are written; `undefined`: it has no line in the history. */
  readonly written: (batch: Batch | undefined) => void
  /** Removes the snapshot. */
  readonly removeSnapshot: Io<void>
}

/** Makes the commits of a vault. */
export const make = (dependencies: Dependencies): Commit => {
  const { cleaned, fs, guard, history, isClean, isOurs, state, removeSnapshot, rollBack, written } = dependencies

  /** Replaces the files of plans, but for those that a hand changed meanwhile: what these say is the next revision. */
  const shown = (plans: ReadonlyArray<WritePlan.WritePlan>): Io<void> =>
    Effect.gen(function*() {
      for (const { before, content, entry, gone, parts } of plans) {
        const isPurge = parts.at(-1)?.record === null
        // a purged file goes, whatever it says now
        const changed = isPurge ? [] : yield* WritePlan.changedSince(fs, before)
        if (entry !== undefined && content !== undefined && !changed.includes(entry.path)) {
          yield* fs.write(entry.path, content, { force: false, isFenced: true })
        }
        for (const old of gone) if (!changed.includes(old)) yield* fs.remove(old, { force: false, isFenced: true })
      }
    })
  const beforeOf = (plans: ReadonlyArray<WritePlan.WritePlan>): WritePlan.Before =>
    new Map(plans.flatMap(({ before }) => before))
  const noted = (plans: ReadonlyArray<WritePlan.WritePlan>) => {
    for (const { entry, gone } of plans) {
      for (const path of gone) state.set(path, undefined)
      if (entry) state.set(entry.path, entry)
    }
  }
  /** A full disk has no room for a line, and gives up the files and the lines that are there. */
  const erased = ({ ids, plans, tenant }: Prepared): Io<void> =>
    Effect.gen(function*() {
      const places = Array.from(ids).flatMap((id) => history.places(tenant, id))
      yield* Effect.zipRight(shown(plans), history.erase(places)).pipe(
        Effect.tapError(() => Effect.option(WritePlan.rollBack(fs, [], beforeOf(plans))))
      )
      noted(plans)
      written(undefined)
      yield* removeSnapshot
    })
  /** Replaces the files of a batch that the history has. */
  const followed = (plans: ReadonlyArray<WritePlan.WritePlan>, batch: Batch): Io<void> =>
    Effect.gen(function*() {
      const view = shown(plans)
      yield* view.pipe(
        // whoever took the lock from us by mistake has ended our turn, too: it is ours again
        Effect.catchAll((error) =>
          Effect.flatMap(isOurs, (ours) => ours ? Effect.zipRight(fs.begin, view) : Effect.fail(error))
        ),
        Effect.catchAll((error) =>
          Effect.flatMap(Effect.option(isOurs), (ours) =>
            Option.contains(ours, false)
              ? Effect.void // the history has it: whoever has the lock writes the files
              : Effect.zipRight(Effect.option(rollBack(batch, beforeOf(plans))), error))
        )
      )
      written(batch)
      noted(plans)
      yield* cleaned(batch, WritePlan.isPurge(plans))
    })
  /** Writes batches as one of the history's. */
  const asOne = (batches: ReadonlyArray<Prepared>): Effect.Effect<Outcomes, MemoryError.MemoryError> =>
    Effect.gen(function*() {
      const plans = batches.flatMap(({ plans }) => plans)
      const appended = yield* Effect.either(history.append(plans.flatMap(({ parts }) => parts)))
      if (Either.isLeft(appended)) {
        const [first] = batches
        const isGivenUp = batches.length === 1 && first?.isPurge === true && isFull(appended.left)
        return isGivenUp ? [yield* Effect.either(erased(first))] : batches.map(() => Either.left(appended.left))
      }
      const done = yield* Effect.either(followed(plans, appended.right))
      if (Either.isRight(done) || batches.length === 1 || !isClean()) return batches.map(() => done)
      // one of them cannot write its files: all were taken back, and each is written by itself
      const byItself = (one: Prepared) =>
        Effect.forEach(one.plans, (plan) => WritePlan.replanned(fs, plan)).pipe(
          Effect.flatMap((plans) => fresh([{ ...one, plans }])),
          Effect.map(([outcome = done]) => outcome),
          Effect.catchAll((error) => Effect.succeed(Either.left(error))) // those before it are written
        )
      return yield* Effect.forEach(batches, (one) => isClean() ? byItself(one) : Effect.succeed(done))
    })
  /** Writes the batches whose files are as they were when they were planned. */
  const fresh = (batches: ReadonlyArray<Prepared>): Effect.Effect<Outcomes, MemoryError.MemoryError> =>
    Effect.gen(function*() {
      yield* guard
      const isStale: Array<boolean> = []
      for (const { plans } of batches) {
        isStale.push((yield* WritePlan.changedSince(fs, beforeOf(plans))).length > 0)
      }
      const others = batches.filter((_, n) => isStale[n] === false)
      const outcomes = (others.length === 0 ? [] : yield* asOne(others)).values()
      return isStale.map((isStale) => isStale ? Either.left(lost) : outcomes.next().value ?? Either.left(lost))
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
          Effect.zipLeft(WritePlan.make(dependencies, tenant, id, ofOne), paced(1)))
        return {
          tenant,
          plans,
          ids: new Set(byId.keys()),
          keys: new Set(writes.flatMap(({ next }) =>
            next?.dedupeKey ?? []
          )),
          paths: new Set(plans.flatMap(({ before }) => before.map(([path]) => path))),
          size: plans.reduce((sum, { content = "" }) => sum + content.length, 0),
          isPurge: writes.every(({ next }) => next === undefined),
          isAlone: writes.some(({ next }) => next === undefined)
        }
      }),
    write: (batches) =>
      fresh(batches).pipe(
        Effect.catchAll((error) => Effect.succeed(batches.map(() => Either.left(error)))),
        Effect.uninterruptible
      )
  }
}

/**
 * The writers of this process, in line, and the one fiber that leads them. The leader takes the lock, lets the writers in one
 * after the other, each in a fiber of its own, and writes what they commit: one append and one wait for the disk for all
 * that commit before the line is empty. Then it leaves the lock.
 *
 * A writer that is interrupted takes nothing with it: the leader is no caller's fiber, and what became of a batch is kept for
 * the writer that committed it. Writers come, commit, hear of it and publish it in one and the same order.
 */
export interface Writers {
  /** Runs with the lock held, brought up to date, after all that committed before was written. */
  readonly alone: <A>(self: Io<A>) => Io<A>
  /** Runs a turn about these records and keys. It may `commit` once. */
  readonly inTurn: <A>(tenant: string, about: About, self: Io<A>) => Io<A>
  /** Commits within a turn, together with others, and waits until it is on disk. The turn is the next writer's from then on. */
  readonly commit: (prepare: Io<Prepared>) => Io<void>
  /** Writes, within a turn, what others committed. Fails as a lost lock does where that failed: the turn begins again then. */
  readonly settle: Io<void>
}

/** Records and keys that a turn reads, and so must not find half written. */
export interface About {
  readonly ids: ReadonlyArray<MemoryId>
  readonly dedupeKeys: ReadonlyArray<string>
}

/** A writer in line, or at work. */
interface Turn {
  /** `undefined`: it is about everything, and has the lock for itself. */
  readonly about: (About & { readonly tenant: string }) | undefined
  /** Done when it is let in; fails where the lock could not be had. */
  readonly begun: Deferred.Deferred<void, MemoryError.MemoryError>
  /** Done when the next writer may be let in. */
  readonly given: Deferred.Deferred<void>
  /** Done when nothing more comes of it. */
  readonly over: Deferred.Deferred<void>
  /** Done when the lock under which it wrote is left; `undefined`: it wrote nothing, and waits for nothing. */
  left?: Deferred.Deferred<void> | undefined
}

/** A batch that waits to be written. */
interface Waiting {
  readonly batch: Prepared
  readonly turn: Turn
  readonly outcome: Deferred.Deferred<void, MemoryError.MemoryError>
}

/** Records, and characters of their files, that are written at once, about: more would hold the lock, and the event loop, for long. */
const most = 256
const mostCharacters = 524_288
/** Turns after which the lock is left for a moment to other processes. A process that waits looks every five milliseconds. */
const inARow = 128
/** Milliseconds of that moment. */
const moment = 8

/** Characters of files after whose planning the event loop turns; each writer counts for 4,096 beside its own. */
const charactersPerTurn = 65_536

/**
 * Makes the writers. Their leader is one fiber for all time, which waits while nobody writes: it runs with what is in force here,
 * and not with what is where the first of them writes.
 */
export const makeWriters = (
  lock: Lock,
  { caughtUp, write }: {
    /** Brings the holder of the lock up to date. */
    readonly caughtUp: Io<void>
    /** Writes batches that are about different records and files. */
    readonly write: (batches: ReadonlyArray<Prepared>) => Effect.Effect<Outcomes>
  }
): Effect.Effect<Writers> =>
  Effect.suspend(() => {
    const paced = EventLoop.pacer(charactersPerTurn)
    const line: Array<Turn> = []
    let current: Turn | undefined
    let waiting: Array<Waiting> = []
    /** Done when somebody writes; `undefined`: the leader is at work. */
    let idle: Deferred.Deferred<void> | undefined
    /** Whether a batch failed, so that the next turn has to be brought up to date before it begins. */
    let isBehind = false
    /** Turns since other processes had their moment. */
    let row = 0
    /** Done when the lock that is held now is left. */
    let left: Deferred.Deferred<void> | undefined

    const flush: Effect.Effect<void> = Effect.gen(function*() {
      const batches = waiting
      waiting = []
      if (batches.length === 0) return
      const written = yield* Effect.exit(write(batches.map(({ batch }) => batch)))
      for (const [n, { outcome, turn }] of batches.entries()) {
        const result = Exit.flatMap(written, (outcomes) => outcomeOf(outcomes[n]))
        if (Exit.isFailure(result)) isBehind = true
        Deferred.unsafeDone(outcome, result)
        yield* Deferred.await(turn.over) // its news are heard in the order of the commits
      }
    }).pipe(Effect.uninterruptible)
    const settle = Effect.zipRight(flush, Effect.suspend(() => isBehind ? lost : Effect.void))

    const mustBeWritten = ({ about }: Turn): boolean =>
      waiting.reduce((sum, { batch }) => sum + batch.ids.size, 0) >= most ||
      waiting.reduce((sum, { batch }) => sum + batch.size, 0) >= mostCharacters ||
      waiting.some(({ batch }) =>
        batch.isAlone || about?.tenant === batch.tenant &&
          (about.ids.some((id) => batch.ids.has(id)) || about.dedupeKeys.some((key) => batch.keys.has(key)))
      )
    /** Serves the line while the lock is held. */
    const session: Io<void> = Effect.gen(function*() {
      yield* caughtUp
      isBehind = false
      let last: Turn | undefined
      while (row < inARow) {
        if (line[0] !== undefined && mustBeWritten(line[0])) yield* flush
        const [next] = line // others may have given up meanwhile
        if (next === undefined || isBehind) break
        if (last !== undefined && (last.about === undefined || next.about === undefined)) break
        line.shift()
        row++
        last = current = next
        if (next.about === undefined) next.left = left
        Deferred.unsafeDone(next.begun, Effect.void)
        yield* Deferred.await(next.given)
        yield* paced(4_096 + (waiting.at(-1)?.batch.size ?? 0))
      }
      yield* flush
    })
    /** Serves the line whenever it is not empty. */
    const lead = Effect.gen(function*() {
      for (;;) {
        if (line.length === 0) {
          idle = signal()
          yield* Deferred.await(idle)
          continue
        }
        if (row >= inARow) {
          row = 0
          yield* EventLoop.sleepLive(moment)
        }
        const [first, ...others] = line
        let isHeld = false
        const leaving = left = signal()
        const held = Effect.zipRight(Effect.sync(() => isHeld = true), session)
        const done = yield* Effect.exit(lock.withLock(held, () => line.length > 0))
        Deferred.unsafeDone(leaving, Effect.void)
        if (Exit.isSuccess(done) || isLostIn(done.cause)) continue
        for (const turn of isHeld ? [first] : [first, ...others]) { // a lock that nobody gets is waited for once
          const at = turn === undefined ? -1 : line.indexOf(turn)
          if (turn === undefined || at < 0) continue
          line.splice(at, 1)
          Deferred.unsafeDone(turn.begun, done)
        }
      }
    })

    const turn = <A>(about: Turn["about"], self: Io<A>): Io<A> => {
      const once = Effect.uninterruptibleMask((restore) => {
        const one: Turn = { about, begun: signal(), given: signal(), over: signal() }
        line.push(one)
        if (idle !== undefined) Deferred.unsafeDone(idle, Effect.void)
        idle = undefined
        const over = Effect.suspend(() => {
          const at = line.indexOf(one)
          if (at >= 0) line.splice(at, 1)
          Deferred.unsafeDone(one.given, Effect.void)
          Deferred.unsafeDone(one.over, Effect.void)
          return one.left === undefined ? Effect.void : Deferred.await(one.left)
        })
        const served = restore(Effect.zipRight(Deferred.await(one.begun), self))
        return Effect.flatMap(Effect.exit(served), (exit) => Effect.zipRight(over, exit))
      })
      return Effect.catchAll(once, (error) => isLost(error) ? turn(about, self) : Effect.fail(error)) // it begins again
    }

    const writers: Writers = {
      settle,
      alone: (self) => turn(undefined, self),
      inTurn: (tenant, { dedupeKeys, ids }, self) => turn({ tenant, ids, dedupeKeys }, self),
      commit: (prepare) =>
        Effect.gen(function*() {
          const turn = current
          if (turn === undefined) return yield* Effect.dieMessage("a commit outside of a turn")
          let batch = yield* prepare
          if (waiting.length > 0 && (batch.isAlone || waiting.some((one) => isShared(one.batch, batch)))) {
            yield* settle
            batch = yield* prepare // this batch may be about what was written
          }
          const outcome = signal<MemoryError.MemoryError>()
          turn.left = left
          waiting.push({ batch, turn, outcome })
          Deferred.unsafeDone(turn.given, Effect.void)
          yield* Deferred.await(outcome)
        }).pipe(Effect.uninterruptible)
    }
    return Effect.as(Effect.forkDaemon(lead), writers)
  })

const signal = <E = never>() => Deferred.unsafeMake<void, E>(FiberId.none)

const outcomeOf = (outcome: Outcomes[number] | undefined): Exit.Exit<void, MemoryError.MemoryError> =>
  outcome === undefined || Either.isRight(outcome) ? Exit.void : Exit.fail(outcome.left)

/** Whether two batches are about one record or one file. */
const isShared = (one: Prepared, other: Prepared): boolean =>
  meets(one.paths, other.paths) || (one.tenant === other.tenant && meets(one.ids, other.ids))
const meets = <A>(some: ReadonlySet<A>, others: ReadonlySet<A>): boolean => {
  for (const one of some) if (others.has(one)) return true
  return false
}

const isLostIn = (cause: Cause.Cause<MemoryError.MemoryError>) => Option.exists(Cause.failureOption(cause), isLost)
