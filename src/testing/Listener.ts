/**
 * Collects the changes that a store publishes. `listen` writes a marker record and waits until the marker arrives as a change. Then the
 * stream of changes is open, and all earlier changes have arrived.
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

/** Returns the changes since the last run of this effect. The first run returns the changes since `listen`. */
export type Received = Effect.Effect<ReadonlyArray<StoreChange>, MemoryError>

/**
 * Starts to collect the changes that the viewer sees. Each run of the returned effect returns the changes since the last run.
 *
 * `listen` writes a marker record again and again until the marker arrives as a change. Each run of the returned effect also writes the
 * marker and waits for it. Then the marker is purged. Markers are written to the store `through` (default `store`). The viewer must see
 * their `scope`. A record counts as a marker if its body has only digits.
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

/** Ids of the marker records of all listeners. No listener returns the changes of these records. */
const markerIds = new Set<string>()

const isMarker = (change: StoreChange): change is StoreChange & { readonly _tag: "Written" } =>
  change._tag === "Written" && /^\d+$/.test(change.record.body)
