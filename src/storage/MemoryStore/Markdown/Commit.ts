/** Commits batches. First plans the files of a batch. Then appends the batch to the history. Finally replaces the files. */
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

/** A batch of changed records. `plans` are its planned files. Most of the other fields tell whether batches can be written together. */
export interface Prepared {
  readonly plans: ReadonlyArray<WritePlan.WritePlan>
  readonly ids: ReadonlySet<MemoryId>
  /** Dedupe keys of the records to write. */
  readonly keys: ReadonlySet<string>
  /** Files to write or remove. */
  readonly paths: ReadonlySet<string>
  readonly tenant: string
  /** Total length of the files to write, in characters. */
  readonly size: number
  /** Whether the batch only purges records. Such a batch can be written even on a full disk. */
  readonly isPurge: boolean
  /** Whether the batch purges a record. Such a batch is written alone, not together with other batches. */
  readonly isSeparate: boolean
}

/** Largest number of records that are planned before the event loop gets a turn. Planning one record takes about 0.1 ms. */
const plansPerPause = 32

/** Outcomes of the batches that were passed to `write`, in the same order. */
export type Outcomes = ReadonlyArray<Either.Either<void, MemoryError.MemoryError>>

/** Plans and writes batches. */
export interface Commit {
  readonly prepare: (tenant: string, writes: ReadonlyArray<Write>) => Io<Prepared>
  /**
   * Writes batches as a group, and returns the outcome of each. No two may share a record or a file. If the append to the history fails,
   * all fail, except a purge on a full disk. If the files of a batch cannot be written, only that batch fails. The others may fail, too, if
   * it cannot be rolled back. A batch with a file that was edited since planning fails with `lost`. Its caller then plans anew.
   */
  readonly write: (batches: ReadonlyArray<Prepared>) => Effect.Effect<Outcomes>
}

/** The parts of a vault that commits use. */
export interface Dependencies extends WritePlan.Dependencies {
  readonly guard: Io<void>
  readonly isOurs: Io<boolean>
  readonly rollBack: (batch: Batch, before: WritePlan.Before) => Io<void>
  /** Whether every failed batch was rolled back. */
  readonly isClean: () => boolean
  /** Overwrites the history lines of the records that a batch purged. */
  readonly erasePurged: (batch: Batch, isPurge: boolean) => Io<void>
  /** Called once the files of a batch are written, or left to the lock's new holder. A purge on a full disk has no `batch`. */
  readonly written: (batch: Batch | undefined) => void
  /** Deletes the snapshot. */
  readonly removeSnapshot: Io<void>
}

/** Makes the `Commit` of a vault, which plans and writes its batches. */
export const make = (dependencies: Dependencies): Commit => {
  const { erasePurged, fs, guard, history, isClean, isOurs, removeSnapshot, rollBack, state, written } = dependencies
  /** Replaces and removes files as planned. An edited file stays, and becomes the next revision, unless the plan purges its record. */
  const writeFiles = (plans: ReadonlyArray<WritePlan.WritePlan>): Io<void> =>
    Effect.gen(function*() {
      for (const { before, content, entry, removed, parts } of plans) {
        const isPurge = parts.at(-1)?.record === null
        // a purge removes even files that were edited
        const changed = isPurge ? [] : yield* WritePlan.changedSince(fs, before)
        if (entry !== undefined && content !== undefined && !changed.includes(entry.path)) {
          yield* fs.write(entry.path, content, { force: false, isFenced: true })
        }
        for (const old of removed) if (!changed.includes(old)) yield* fs.remove(old, { force: false, isFenced: true })
      }
    })
  const beforeOf = (plans: ReadonlyArray<WritePlan.WritePlan>): WritePlan.Before =>
    new Map(plans.flatMap(({ before }) => before))
  const updateState = (plans: ReadonlyArray<WritePlan.WritePlan>) => {
    for (const { entry, removed } of plans) {
      for (const path of removed) state.set(path, undefined)
      if (entry) state.set(entry.path, entry)
    }
  }
  /** Purges records on a full disk. Removes their files, and erases their lines in the history. Appends nothing to the history. */
  const purgeInPlace = ({ ids, plans, tenant }: Prepared): Io<void> =>
    Effect.gen(function*() {
      const since = history.generation()
      const lines = yield* history.linesOf(Array.from(ids, (id) => ({ tenant, id, offset: Infinity })))
      yield* Effect.zipRight(writeFiles(plans), history.erase(lines, since)).pipe(
        Effect.tapError(() => Effect.option(WritePlan.rollBack(fs, [], beforeOf(plans))))
      )
      updateState(plans)
      written(undefined)
      yield* Effect.zipRight(removeSnapshot, WritePlan.removeDamaged(fs, ids))
    })
  /** Replaces the files of a batch that is already in the history. */
  const applyBatch = (plans: ReadonlyArray<WritePlan.WritePlan>, batch: Batch): Io<void> =>
    Effect.gen(function*() {
      const view = writeFiles(plans)
      yield* view.pipe(
        // writes fail if another process took over the lock by mistake. They are repeated if this process has the lock again
        Effect.catchAll((error) =>
          Effect.flatMap(isOurs, (ours) => ours ? Effect.zipRight(fs.createStaging, view) : Effect.fail(error))
        ),
        Effect.catchAll((error) =>
          Effect.flatMap(Effect.option(isOurs), (ours) =>
            Option.contains(ours, false)
              ? Effect.void // the batch is in the history, so the process that now holds the lock writes its files
              : Effect.zipRight(Effect.option(rollBack(batch, beforeOf(plans))), error))
        )
      )
      written(batch)
      updateState(plans)
      yield* erasePurged(batch, WritePlan.isPurge(plans))
    })
  /** Appends batches to the history as one batch, and then writes their files. */
  const writeTogether = (batches: ReadonlyArray<Prepared>): Effect.Effect<Outcomes, MemoryError.MemoryError> =>
    Effect.gen(function*() {
      const plans = batches.flatMap(({ plans }) => plans)
      const appended = yield* Effect.either(history.append(plans.flatMap(({ parts }) => parts)))
      if (Either.isLeft(appended)) {
        const [first] = batches
        const isGivenUp = batches.length === 1 && first?.isPurge === true && isFull(appended.left)
        return isGivenUp ? [yield* Effect.either(purgeInPlace(first))] : batches.map(() => Either.left(appended.left))
      }
      const done = yield* Effect.either(applyBatch(plans, appended.right))
      if (Either.isRight(done) || batches.length === 1 || !isClean()) return batches.map(() => done)
      // the files of at least one batch could not be written, so all batches were rolled back. Now each batch is written by itself
      const writeSeparately = (one: Prepared) =>
        Effect.forEach(one.plans, (plan) => WritePlan.replanned(fs, plan)).pipe(
          Effect.flatMap((plans) => writeUnchanged([{ ...one, plans }])),
          Effect.map(([outcome = done]) => outcome),
          Effect.catchAll((error) => Effect.succeed(Either.left(error))) // only this batch fails: earlier batches are already written
        )
      return yield* Effect.forEach(batches, (one) => isClean() ? writeSeparately(one) : Effect.succeed(done))
    })
  /** Writes the batches whose files are unchanged since planning. The other batches fail with `lost`. */
  const writeUnchanged = (batches: ReadonlyArray<Prepared>): Effect.Effect<Outcomes, MemoryError.MemoryError> =>
    Effect.gen(function*() {
      yield* guard
      const isStale: Array<boolean> = []
      for (const { plans } of batches) {
        isStale.push((yield* WritePlan.changedSince(fs, beforeOf(plans))).length > 0)
      }
      const others = batches.filter((_, n) => isStale[n] === false)
      const outcomes = (others.length === 0 ? [] : yield* writeTogether(others)).values()
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
        const paced = EventLoop.pacer(plansPerPause)
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
          isSeparate: writes.some(({ next }) => next === undefined)
        }
      }),
    write: (batches) =>
      writeUnchanged(batches).pipe(
        Effect.catchAll((error) => Effect.succeed(batches.map(() => Either.left(error)))),
        Effect.uninterruptible
      )
  }
}

/**
 * The queue of this process's writers. A writer is an effect that reads records and commits one batch. One fiber, the leader, takes the
 * vault's lock, and lets the queued writers run one after the other, each in its own fiber. The leader writes several batches together,
 * with one append and one fsync (group commit). When the queue is empty, the leader writes the last batches and releases the lock.
 *
 * A committed batch is written even if its writer is interrupted, since the leader runs in a fiber of its own. Writers run, commit, get
 * their outcomes and publish changes in the order of the queue.
 */
export interface Writers {
  /** Runs an effect under the vault's lock. First, earlier commits are written, and the writes of other processes are read. */
  readonly exclusive: <A>(self: Io<A>) => Io<A>
  /** Runs a writer in its turn. `about` has the records and dedupe keys that the writer reads. The writer may call `commit` once. */
  readonly enqueue: <A>(tenant: string, about: About, self: Io<A>) => Io<A>
  /** Commits the batch of the running writer in a group with others. Waits until the batch is on disk. The next writer starts meanwhile. */
  readonly commit: (prepare: Io<Prepared>) => Io<void>
  /** Writes the batches of earlier writers. Fails with `lost` if one of them fails. The running writer then runs again. */
  readonly writePending: Io<void>
}

/** The records and dedupe keys that a writer reads. Waiting batches that change one of them are written before the writer starts. */
export interface About {
  readonly ids: ReadonlyArray<MemoryId>
  readonly dedupeKeys: ReadonlyArray<string>
}

/** A queued or running writer. */
interface QueuedWriter {
  /** The records and dedupe keys that the writer reads. `undefined` if it may read any; the writer then has the lock for itself. */
  readonly about: (About & { readonly tenant: string }) | undefined
  /** Done when the writer may start. Fails if the lock could not be taken, or if `catchUp` failed with an error other than `lost`. */
  readonly begun: Deferred.Deferred<void, MemoryError.MemoryError>
  /** Done when the next writer may start. */
  readonly released: Deferred.Deferred<void>
  readonly finished: Deferred.Deferred<void>
  /** Done when the lock under which the writer ran is released. The writer's caller waits for this. `undefined` if no wait is needed. */
  unlocked?: Deferred.Deferred<void> | undefined
}

/** A committed batch that is not written yet. */
interface Waiting {
  readonly batch: Prepared
  readonly writer: QueuedWriter
  readonly outcome: Deferred.Deferred<void, MemoryError.MemoryError>
}

/** Approximate limits of a group of batches: its records, and the characters in its files. A larger group would block other writers. */
const maxRecords = 256
const maxCharacters = 524_288
/** Number of writers after which the lock is left free for a while. Another process, which retries every 5 ms, can then take it. */
const maxWriters = 128
/** Milliseconds for which the lock stays free after `maxWriters` writers. */
const yieldMillis = 8

/** Number of characters in planned files after which the leader lets the event loop run. Each writer counts as 4,096 further characters. */
const charactersPerPause = 65_536

/**
 * Makes the queue of writers, and starts its leader. The leader is a fiber that runs as long as the process, and waits while the queue is
 * empty. The leader runs in the context of this effect, not in that of the first writer.
 */
export const makeWriters = (
  lock: Lock,
  { catchUp, write }: {
    /** Updates the vault's state with the writes of other processes; called with the lock held. */
    readonly catchUp: Io<void>
    /** Writes batches of which no two have a record or a file in common. */
    readonly write: (batches: ReadonlyArray<Prepared>) => Effect.Effect<Outcomes>
  }
): Effect.Effect<Writers> =>
  Effect.suspend(() => {
    const paced = EventLoop.pacer(charactersPerPause)
    const queue: Array<QueuedWriter> = []
    let current: QueuedWriter | undefined
    let waiting: Array<Waiting> = []
    /** Completed when a writer is queued; `undefined` while the queue is being served. */
    let idle: Deferred.Deferred<void> | undefined
    /** Whether a batch failed. If so, the vault's state is updated before the next writer starts. */
    let isBehind = false
    /** Number of writers served since the lock was last left free for `yieldMillis`. */
    let writersServed = 0
    /** Done when the lock that is held now is released. */
    let unlocked: Deferred.Deferred<void> | undefined

    const flush: Effect.Effect<void> = Effect.gen(function*() {
      const batches = waiting
      waiting = []
      if (batches.length === 0) return
      const written = yield* Effect.exit(write(batches.map(({ batch }) => batch)))
      for (const [n, { outcome, writer }] of batches.entries()) {
        const result = Exit.flatMap(written, (outcomes) => outcomeOf(outcomes[n]))
        if (Exit.isFailure(result)) isBehind = true
        Deferred.unsafeDone(outcome, result)
        yield* Deferred.await(writer.finished) // changes are published in the order of the commits
      }
    }).pipe(Effect.uninterruptible)
    const writePending = Effect.zipRight(flush, Effect.suspend(() => isBehind ? lost : Effect.void))

    const mustBeWritten = ({ about }: QueuedWriter): boolean =>
      waiting.reduce((sum, { batch }) => sum + batch.ids.size, 0) >= maxRecords ||
      waiting.reduce((sum, { batch }) => sum + batch.size, 0) >= maxCharacters ||
      waiting.some(({ batch }) =>
        batch.isSeparate || about?.tenant === batch.tenant &&
          (about.ids.some((id) => batch.ids.has(id)) || about.dedupeKeys.some((key) => batch.keys.has(key)))
      )
    /** Serves the queue while the lock is held. */
    const session: Io<void> = Effect.gen(function*() {
      yield* catchUp
      isBehind = false
      let last: QueuedWriter | undefined
      while (writersServed < maxWriters) {
        if (queue[0] !== undefined && mustBeWritten(queue[0])) yield* flush
        const [next] = queue // read after the flush, since writers may have left the queue meanwhile
        if (next === undefined || isBehind) break
        if (last !== undefined && (last.about === undefined || next.about === undefined)) break
        queue.shift()
        writersServed++
        last = current = next
        if (next.about === undefined) next.unlocked = unlocked
        Deferred.unsafeDone(next.begun, Effect.void)
        yield* Deferred.await(next.released)
        yield* paced(4_096 + (waiting.at(-1)?.batch.size ?? 0))
      }
      yield* flush
    })
    /** Serves the queue whenever it is not empty. */
    const lead = Effect.gen(function*() {
      for (;;) {
        if (queue.length === 0) {
          idle = signal()
          yield* Deferred.await(idle)
          continue
        }
        if (writersServed >= maxWriters) {
          writersServed = 0
          yield* EventLoop.sleepLive(yieldMillis)
        }
        const [first, ...others] = queue
        let isHeld = false
        const leaving = unlocked = signal()
        const held = Effect.zipRight(Effect.sync(() => isHeld = true), session)
        const done = yield* Effect.exit(lock.withLock(held, () => queue.length > 0))
        Deferred.unsafeDone(leaving, Effect.void)
        if (Exit.isSuccess(done) || isLostIn(done.cause)) continue
        // every writer that was queued before the attempt fails if the lock was not taken; otherwise only the first fails
        for (const writer of isHeld ? [first] : [first, ...others]) {
          const at = writer === undefined ? -1 : queue.indexOf(writer)
          if (writer === undefined || at < 0) continue
          queue.splice(at, 1)
          Deferred.unsafeDone(writer.begun, done)
        }
      }
    })

    const enqueued = <A>(about: QueuedWriter["about"], self: Io<A>): Io<A> => {
      const once = Effect.uninterruptibleMask((restore) => {
        const one: QueuedWriter = { about, begun: signal(), released: signal(), finished: signal() }
        queue.push(one)
        if (idle !== undefined) Deferred.unsafeDone(idle, Effect.void)
        idle = undefined
        const leave = Effect.suspend(() => {
          const at = queue.indexOf(one)
          if (at >= 0) queue.splice(at, 1)
          Deferred.unsafeDone(one.released, Effect.void)
          Deferred.unsafeDone(one.finished, Effect.void)
          return one.unlocked === undefined ? Effect.void : Deferred.await(one.unlocked)
        })
        const served = restore(Effect.zipRight(Deferred.await(one.begun), self))
        return Effect.flatMap(Effect.exit(served), (exit) => Effect.zipRight(leave, exit))
      })
      return Effect.catchAll(once, (error) => isLost(error) ? enqueued(about, self) : Effect.fail(error)) // the writer runs again
    }

    const writers: Writers = {
      writePending,
      exclusive: (self) => enqueued(undefined, self),
      enqueue: (tenant, { dedupeKeys, ids }, self) => enqueued({ tenant, ids, dedupeKeys }, self),
      commit: (prepare) =>
        Effect.gen(function*() {
          const writer = current
          if (writer === undefined) return yield* Effect.dieMessage("a commit outside of a turn")
          let batch = yield* prepare
          if (waiting.length > 0 && (batch.isSeparate || waiting.some((one) => isShared(one.batch, batch)))) {
            yield* writePending
            batch = yield* prepare // the batch is planned again, since `writePending` may have written the same files
          }
          const outcome = signal<MemoryError.MemoryError>()
          writer.unlocked = unlocked
          waiting.push({ batch, writer, outcome })
          Deferred.unsafeDone(writer.released, Effect.void)
          yield* Deferred.await(outcome)
        }).pipe(Effect.uninterruptible)
    }
    return Effect.as(Effect.forkDaemon(lead), writers)
  })

const signal = <E = never>() => Deferred.unsafeMake<void, E>(FiberId.none)

const outcomeOf = (outcome: Outcomes[number] | undefined): Exit.Exit<void, MemoryError.MemoryError> =>
  outcome === undefined || Either.isRight(outcome) ? Exit.void : Exit.fail(outcome.left)

/** Whether two batches have a record or a file in common. */
const isShared = (one: Prepared, other: Prepared): boolean =>
  meets(one.paths, other.paths) || (one.tenant === other.tenant && meets(one.ids, other.ids))
const meets = <A>(some: ReadonlySet<A>, others: ReadonlySet<A>): boolean => {
  for (const one of some) if (others.has(one)) return true
  return false
}

const isLostIn = (cause: Cause.Cause<MemoryError.MemoryError>) => Option.exists(Cause.failureOption(cause), isLost)
