/**
 * Limits the number of records of each kind to the kind's cap. If a kind has more records, the least important ones are forgotten. Among
 * equally important records, those with the earliest last change are forgotten first. `enforce` applies the caps once; `layer` applies them
 * every hour while the store is in use.
 *
 * The caps are those of the provided `MemoryKind.Kinds`. Each scope is counted separately: a broader scope does not count the records of
 * narrower ones. Records of a kind without a cap are never forgotten. Some records are neither counted nor forgotten: expired ones, those
 * that are no longer valid, and those of instruction files.
 *
 * The store's option `trash` says how long a forgotten record can be restored.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../domain/MemoryError.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { MemoryMutation } from "../domain/MemoryMutation.ts"
import { byRecency, isExpired, type MemoryRecord } from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import * as Validation from "../domain/Validation.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as EventLoop from "../host/EventLoop.ts"
import { MemoryStore, type Service } from "../storage/MemoryStore.ts"
import * as MemoryEvents from "./MemoryEvents.ts"

/** Options of `enforce`. */
export interface Options {
  /** Whether `enforce` only computes its result, and neither forgets records nor publishes events. Default false. */
  readonly dryRun?: boolean | undefined
}

/**
 * Forgets the records beyond the caps, in one batch, and returns them. The records can be restored until the store empties its trash. With
 * `dryRun`, the records are only returned. If one of the records changes before the batch is applied, everything is read and decided again.
 * Fails with `invalid_draft` if a cap is neither a whole number above 0 nor `Infinity`. Publishes `memory_retired` for each record if
 * `MemoryEvents` is provided. Cost: all records of a kind are read if one scope has more rows of the kind than the cap, even if some rows
 * are expired or no longer valid. A federation cannot count records, so all records of each kind with a cap are read.
 */
export const enforce = (
  system: Viewer.System,
  { dryRun = false }: Options = {}
): Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError, MemoryStore> =>
  Effect.gen(function*() {
    const store = yield* MemoryStore
    const caps = capsOf(yield* MemoryKind.registered)
    yield* Validation.refuseOptions(
      "Retention.enforce",
      Array.from(caps).flatMap(([kind, cap]) =>
        cap === Infinity ? [] : Validation.countIssues(`cap of the kind ${JSON.stringify(kind)}`, cap, 1)
      )
    )
    if (caps.size === 0) return []
    const kinds = yield* kindsOver(store, system, caps)
    if (kinds.length === 0) return []
    const pages = Stream.mapChunksEffect(store.stream(system, { kinds, limit: 1_000 }), paused)
    const records = yield* Stream.runCollect(pages)
    const now = yield* Clock.currentTimeMillis
    const excess = beyond(Array.from(records).filter(counts(now)), caps)
    if (!dryRun && excess.length > 0) {
      yield* store.apply(
        system,
        excess.map(({ id, revision }): MemoryMutation => ({ _tag: "Forget", id, ifRevision: revision }))
      )
    }
    return excess
  }).pipe(
    Effect.retry({ while: ({ reason }) => reason === "conflict" }),
    Effect.tap((excess) => dryRun ? Effect.void : retired(system, excess)),
    Effect.withSpan("Retention.enforce", { attributes: { dryRun } })
  )

const paused = <A>(page: A): Effect.Effect<A> => Effect.as(EventLoop.pause, page)

/**
 * Returns the kinds with more rows than their cap in some scope, rows that `counts` leaves out included. Returns every kind with a cap if
 * the store cannot count records.
 */
const kindsOver = (
  { reader }: Service,
  system: Viewer.System,
  caps: ReadonlyMap<string, number>
): Effect.Effect<ReadonlyArray<string>, MemoryError> =>
  Option.isNone(reader)
    ? Effect.succeed(Array.from(caps.keys()))
    : Effect.map(
      reader.value.overCap(Viewer.tenantOf(system), caps),
      (groups) => Array.from(new Set(groups.map(([, kind]) => kind)))
    )

/** Selects the records beyond the cap of their kind, for each scope separately. Pure. */
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

/**
 * Enforces the caps of every tenant in the background. The first round runs when the layer is built, further rounds hourly while the store
 * is in use. A tenant's failure is logged, does not concern other tenants, and is tried again an hour later.
 */
export const layer: Layer.Layer<never, never, MemoryStore> = Layer.scopedDiscard(
  Effect.gen(function*() {
    const store = yield* MemoryStore
    const failed = (error: MemoryError) =>
      Effect.as(Effect.logWarning(`${store.name}: some tenant may hold more of a kind than its cap`, error), false)
    /** Enforces the caps of a tenant. Returns true if no record exceeded them, and false also after a failure. */
    const isWithin = (tenant: string) =>
      enforce(Viewer.system(tenant)).pipe(Effect.map(({ length }) => length === 0), Effect.catchAll(failed))
    const round: Effect.Effect<never, never, MemoryStore> = Effect.gen(function*() {
      const before = yield* store.activity.since(-1)
      const isQuiet = yield* store.tenants.pipe(
        Effect.flatMap(Effect.forEach(isWithin)),
        Effect.map((all) => all.every(Boolean)),
        Effect.catchAll(failed)
      )
      // The next round waits until the number of store calls differs from `known`. If this round forgot nothing and did not fail, `known`
      // includes the round's own calls. So these calls alone do not cause another round.
      const known = isQuiet ? yield* store.activity.since(-1) : before
      yield* store.activity.since(known)
      yield* Effect.sleep("1 hour")
      return yield* Effect.suspend(() => round)
    })
    yield* Effect.forkScoped(round)
  })
)

/** Publishes `memory_retired` for each record, if `MemoryEvents` is provided. */
const retired = (system: Viewer.System, records: ReadonlyArray<MemoryRecord>): Effect.Effect<void> =>
  Effect.gen(function*() {
    const events = yield* Effect.serviceOption(MemoryEvents.MemoryEvents)
    if (Option.isSome(events)) yield* MemoryEvents.makePublisher(events.value.publish).retired(system, records)
  })

const capsOf = (kinds: ReadonlyMap<string, MemoryKind.MemoryKind>): ReadonlyMap<string, number> =>
  new Map(Array.from(kinds.values()).flatMap(({ cap, name }) => cap === undefined ? [] : [[name, cap]]))

/** Whether a record counts towards its kind's cap. Expired records, records no longer valid and instructions do not count. */
const counts = (now: number) => (record: MemoryRecord): boolean =>
  !isExpired(record, now) && !(record.invalidAt !== undefined && record.invalidAt <= now) &&
  record.source.origin !== "instructions"

const leastFirst = (a: MemoryRecord, b: MemoryRecord): number => a.importance - b.importance || byRecency(b, a)
