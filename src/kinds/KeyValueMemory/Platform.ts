/** To and from `KeyValueStore` of `@effect/platform`. */
import { type PlatformError, SystemError } from "@effect/platform/Error"
import * as KeyValueStore from "@effect/platform/KeyValueStore"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as MemoryError from "../../domain/MemoryError.ts"
import type * as Viewer from "../../domain/Viewer.ts"
import type { Entry, Service } from "../KeyValueMemory.ts"

/** For one viewer. Bytes are kept as base64; a value that is no text is read as its JSON. */
export const toKeyValueStore = (memory: Service, viewer: Viewer.Any): KeyValueStore.KeyValueStore =>
  KeyValueStore.makeStringOnly({
    get: (key) =>
      platform(
        "get",
        Effect.map(
          memory.get(viewer, key),
          Option.map((value) => typeof value === "string" ? value : JSON.stringify(value))
        )
      ),
    set: (key, value) => platform("set", memory.set(viewer, key, value)),
    remove: (key) => platform("remove", Effect.asVoid(memory.delete(viewer, key))),
    clear: platform("clear", Effect.asVoid(memory.clear(viewer))),
    size: platform("size", memory.size(viewer))
  })

/** The texts under these keys, as one write; how many were there. Platform's store can't be asked which keys it has. */
export const copyKeyValueStore = (
  memory: Service,
  viewer: Viewer.Any,
  keys: ReadonlyArray<string>
): Effect.Effect<number, MemoryError.MemoryError, KeyValueStore.KeyValueStore> =>
  Effect.gen(function*() {
    const store = yield* KeyValueStore.KeyValueStore
    const entries = yield* Effect.forEach(keys, (key) =>
      Effect.map(store.get(key), Option.map((value): Entry => ({ key, value })))).pipe(
        Effect.map((found) =>
          found.flatMap(Option.toArray)
        ),
        Effect.mapError((cause) =>
          MemoryError.make("io", { op: "copyKeyValueStore", message: "its store can't be read", cause })
        )
      )
    yield* memory.batchWrite(viewer, entries)
    return entries.length
  })

const platform = <A>(
  method: string,
  self: Effect.Effect<A, MemoryError.MemoryError>
): Effect.Effect<A, PlatformError> =>
  Effect.mapError(
    self,
    (cause) =>
      new SystemError({ reason: "Unknown", module: "KeyValueStore", method, description: cause.message, cause })
  )
