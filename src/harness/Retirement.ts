/** Kinds kept within their caps, and whoever listens told what went: see `Retention`. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as Retention from "../kinds/Retention.ts"
import { MemoryStore } from "../storage/MemoryStore.ts"
import { MemoryEvents } from "./MemoryEvents.ts"

/** Each that went is an event `memory_retired`, where there is `MemoryEvents`; with `dryRun` none is. */
export const enforce = (
  system: Viewer.System,
  options: Retention.Options = {}
): Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError, MemoryStore> =>
  Effect.gen(function*() {
    const gone = yield* Retention.enforce(system, options)
    const events = yield* Effect.serviceOption(MemoryEvents)
    if (Option.isNone(events) || options.dryRun === true) return gone
    const at = yield* Clock.currentTimeMillis
    for (const { id, kind, scope, summary } of gone) {
      yield* events.value.publish({ _tag: "memory_retired", viewer: system, at, id, scope, kind, summary })
    }
    return gone
  })

/** Of every tenant, when the layer is built and then by the hour. A failure is logged, and the next hour tries again. */
export const layer: Layer.Layer<never, never, MemoryStore> = Layer.scopedDiscard(
  Effect.gen(function*() {
    const store = yield* MemoryStore
    const tenant = (tenant: string) => enforce(Viewer.system(tenant))
    yield* Effect.flatMap(store.tenants, (tenants) => Effect.forEach(tenants, tenant, { discard: true })).pipe(
      Effect.catchAll((error) => Effect.logWarning(`${store.name}: no kind was kept within its cap`, error)),
      Effect.repeat(Schedule.spaced("1 hour")),
      Effect.forkScoped
    )
  })
)
