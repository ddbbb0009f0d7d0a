/**
 * Commits batches: plans the files of each, appends all to the history, which is the acknowledgement, and then replaces the
 * files. For the holder of the lock.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { Write } from "../../MemoryStore.ts"
import { isFull } from "./Disk.ts"
import type { Batch, Part } from "./History.ts"
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
