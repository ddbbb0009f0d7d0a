/**
 * What goes when a kind is over its cap: the least important, then the oldest; never of a kind without one.
 *
 * The policy is the `cap` of the kinds in force where it runs, each per exact scope. What has expired or is no longer true,
 * and what an instructions file says, neither counts nor goes.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../domain/MemoryError.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { MemoryMutation } from "../domain/MemoryMutation.ts"
import { byRecency, isExpired, type MemoryRecord } from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import type * as Viewer from "../domain/Viewer.ts"
import { MemoryStore } from "../storage/MemoryStore.ts"

export interface Options {
  /** Nothing is changed. Default false. */
  readonly dryRun?: boolean | undefined
}

/**
 * Those that went, or with `dryRun` would: all of them forgotten in one batch, so that they can be restored until the
 * store's trash is over. Of what changes meanwhile it is decided anew. Cost: all records of the tenant whose kind has a cap.
 */
export const enforce = (
  system: Viewer.System,
  { dryRun = false }: Options = {}
): Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError, MemoryStore> =>
  Effect.gen(function*() {
    const store = yield* MemoryStore
    const caps = capsOf(yield* MemoryKind.Kinds)
    if (caps.size === 0) return []
    const records = yield* Stream.runCollect(store.stream(system, { kinds: Array.from(caps.keys()), limit: 1_000 }))
    const now = yield* Clock.currentTimeMillis
    const gone = beyond(Array.from(records).filter(counts(now)), caps)
    if (!dryRun && gone.length > 0) {
      yield* store.apply(
        system,
        gone.map(({ id, revision }): MemoryMutation => ({ _tag: "Forget", id, ifRevision: revision }))
      )
    }
    return gone
  }).pipe(
    Effect.retry({ while: ({ reason }) => reason === "conflict" }),
    Effect.withSpan("Retention.enforce", { attributes: { dryRun } })
  )

/** By kind and exact scope, what is more than its cap. Pure. */
export const beyond = (
  records: ReadonlyArray<MemoryRecord>,
  caps: ReadonlyMap<string, number>
): ReadonlyArray<MemoryRecord> =>
  Object.values(Arr.groupBy(records, ({ kind, scope }) => JSON.stringify([kind, MemoryScope.key(scope)]))).flatMap(
    (group) => {
      const over = group.length - (caps.get(group[0].kind) ?? Infinity)
      return over > 0 ? group.toSorted(leastFirst).slice(0, over) : []
    }
  )

const capsOf = (kinds: ReadonlyMap<string, MemoryKind.MemoryKind>): ReadonlyMap<string, number> =>
  new Map(Array.from(kinds.values()).flatMap(({ cap, name }) => cap === undefined ? [] : [[name, cap]]))

const counts = (now: number) => (record: MemoryRecord): boolean =>
  !isExpired(record, now) && !(record.invalidAt !== undefined && record.invalidAt <= now) &&
  record.source.origin !== "instructions"

const leastFirst = (a: MemoryRecord, b: MemoryRecord): number => a.importance - b.importance || byRecency(b, a)
