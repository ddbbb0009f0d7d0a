/** Kinds kept within their caps, and whoever listens told what went: see `Retention`. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
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

/**
 * Keeps every tenant within its caps: enforces them when the layer is built, and then hourly while the store is in use.
 * A failure is logged, and the next hour tries again.
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
          Effect.as(Effect.logWarning(`${store.name}: no kind was kept within its cap`, error), false)
        )
      )
      // its own calls alone must not start another round, unless they changed something
      const known = isQuiet ? yield* store.activity.since(-1) : before
      yield* store.activity.since(known)
      yield* Effect.sleep("1 hour")
      return yield* Effect.suspend(() => round)
    })
    yield* Effect.forkScoped(round)
  })
)
