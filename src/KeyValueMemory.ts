/**
 * Values by key in a namespace, as in a Map, but stored. A layer is for one namespace; the viewer decides whose values are read and
 * written. Each key is one record in exactly the viewer's scope, neither a broader nor a narrower one. A string is stored as the record's
 * body, any other value in its `data`. Keys are redacted, so keys that differ only in a redacted secret are the same key. If a person
 * changes the key in a Markdown file, the record is no entry until the key is corrected.
 *
 * ```ts
 * import { Effect, Option } from "effect"
 * import { KeyValueMemory, MemoryStore, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 * const program = Effect.gen(function*() {
 *   const { get, set } = yield* KeyValueMemory.KeyValueMemory
 *   yield* set(ada, "editor", { tabs: 2 })
 *   return yield* get(ada, "editor")
 * }).pipe(Effect.provide(KeyValueMemory.layer("settings")), Effect.provide(MemoryStore.layerInMemory))
 *
 * await Effect.runPromise(program) // => Option.some({ tabs: 2 })
 * ```
 */
export {
  copyBackend,
  copyKeyValueStore,
  KeyValueMemory,
  layer,
  layerKeyValueStore,
  make,
  toBackend,
  toKeyValueStore
} from "./kinds/KeyValueMemory.ts"
export type { Entry, MemoryBackend, Metadata, Selection, Service } from "./kinds/KeyValueMemory.ts"
