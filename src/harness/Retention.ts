/**
 * Keeps the number of records of a kind within the kind's cap. If there are more, forgets the least important ones and, among equally
 * important ones, the oldest. `layer` does so every hour; `enforce` does so once.
 *
 * The caps are those of the provided `MemoryKind.Kinds`, and apply to each scope separately (a broader scope does not count the records of
 * narrower ones). Records of a kind without a cap are never forgotten. Records that have expired, records that are no longer valid, and
 * records of instruction files are neither counted nor forgotten.
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
import * as Viewer from "../domain/Viewer.ts"
import * as EventLoop from "../host/EventLoop.ts"
import { MemoryStore, type Service } from "../storage/MemoryStore.ts"
import * as MemoryEvents from "./MemoryEvents.ts"

/** Options of `enforce`. */
export interface Options {
  /** Whether only to compute the result, without forgetting or publishing anything. Default false. */
  readonly dryRun?: boolean | undefined
}

/**
 * Forgets the records beyond the caps and returns them; with `dryRun`, returns those that it would forget. All of them are forgotten in one
 * batch, and can be restored until the store empties its trash. If one of them is changed before the batch is applied, everything is read
 * and decided again. Publishes `memory_retired` for each record if `MemoryEvents` is provided. Cost: reads all records of each kind that
 * exceeds its cap in some scope of the tenant. A federation cannot count records: there, reads all records of each kind that has a cap.
 */
export const enforce = (
  system: Viewer.System,
  { dryRun = false }: Options = {}
): Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError, MemoryStore> =>
  Effect.gen(function*() {
    const store = yield* MemoryStore
    const caps = capsOf(yield* MemoryKind.Kinds)
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

/** Returns the kinds that exceed their cap in some scope or, if the store cannot count records, every kind that has a cap. */
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
 * Enforces the caps for every tenant in the background: when the layer is built, and then hourly as long as the store is in use. A failure
 * is logged. An hour later, the layer tries again.
 */
export const layer: Layer.Layer<never, never, MemoryStore> = Layer.scopedDiscard(
  Effect.gen(function*() {
    const store = yield* MemoryStore
    const all = Effect.flatMap(
      store.tenants,
      Effect.reduce(0, (sum, tenant) => Effect.map(enforce(Viewer.system(tenant)), ({ length }) => sum + length))
    )
    const round: Effect.Effect<never, never, MemoryStore> = Effect.gen(function*() {
      const before = yield* store.activity.since(-1)
      const isQuiet = yield* all.pipe(
        Effect.map((retired) => retired === 0),
        Effect.catchAll((error) =>
          Effect.as(Effect.logWarning(`${store.name}: some tenant may hold more of a kind than its cap`, error), false)
        )
      )
      // The reads of a round count as activity of the store. If the round forgot no record, its reads must not start the next round:
      // `known` then includes these reads, so that the next round waits for activity after them.
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

/** Whether the record counts towards its kind's cap: it has not expired, has not ceased to be valid, and is not of an instruction file. */
const counts = (now: number) => (record: MemoryRecord): boolean =>
  !isExpired(record, now) && !(record.invalidAt !== undefined && record.invalidAt <= now) &&
  record.source.origin !== "instructions"

const leastFirst = (a: MemoryRecord, b: MemoryRecord): number => a.importance - b.importance || byRecency(b, a)
