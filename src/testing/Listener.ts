/**
 * Collects the changes that a store publishes. `listen` does not wait for a fixed time, but writes marker records. The arrival of a marker
 * shows that the stream of changes is open, and that it has delivered all earlier changes.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { StoreChange } from "../domain/MemoryMutation.ts"
import type { MemoryScope } from "../domain/MemoryScope.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { Service } from "../storage/MemoryStore.ts"
import { draft, id } from "./Sample.ts"

/** Returns the changes that arrived since the last run of this effect. The first run returns the changes since `listen`. */
export type Received = Effect.Effect<ReadonlyArray<StoreChange>, MemoryError>

/**
 * Starts to collect the changes that the viewer sees. Each run of the returned effect returns the changes collected since the last run.
 *
 * `listen` writes a marker record again and again until the stream delivers the marker. Each run of the returned effect writes the marker
 * once more, and waits for its arrival. A marker that has arrived is purged. Markers are written to the store `through` (default `store`)
 * into `scope`, which the viewer must see. A record whose body has only digits counts as a marker.
 */
export const listen = (
  store: Service,
  viewer: Viewer.Any,
  scope: MemoryScope = "global",
  through: Service = store
): Effect.Effect<Received, MemoryError, Scope.Scope> =>
  Effect.gen(function*() {
    const received = yield* Queue.unbounded<StoreChange>()
    yield* Effect.forkScoped(Stream.runForEach(store.changes(viewer), (change) => Queue.offer(received, change)))
    const writer = Viewer.system(viewer.tenant)
    const mark = id(`mark ${markerIds.size}`)
    let marks = 0
    const write = Effect.suspend(() => through.put(writer, [draft(String(++marks), { id: mark, scope })]))
    const erase = through.forget(writer, [mark], { purge: true })

    const until: Received = Effect.gen(function*() {
      const changes: Array<StoreChange> = []
      for (;;) {
        const change = yield* Queue.take(received)
        if (isMarker(change) && change.record.id === mark && change.record.body === String(marks)) return changes
        if (!isMarker(change) && !(change._tag === "Forgotten" && markerIds.has(change.id))) changes.push({ ...change })
      }
    })
    markerIds.add(mark)
    for (let tries = 0; (yield* Queue.size(received)) === 0; tries++) {
      assert.isBelow(tries, 10_000, "nothing was heard")
      yield* write
      yield* Effect.yieldNow()
    }
    yield* until
    yield* erase
    return Effect.zipRight(write, until).pipe(Effect.zipLeft(erase))
  })

/**
 * Ids of the marker records of all listeners. The arrival of a marker shows a listener that all earlier changes have arrived. No listener
 * returns the changes of markers.
 */
const markerIds = new Set<string>()

const isMarker = (change: StoreChange): change is StoreChange & { readonly _tag: "Written" } =>
  change._tag === "Written" && /^\d+$/.test(change.record.body)
