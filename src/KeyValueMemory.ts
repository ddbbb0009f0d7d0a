/**
 * Stores values by key, like a persistent `Map`. A layer serves one namespace. The viewer decides whose values are read and written. Each
 * value is one record, in exactly the scope of the viewer. A string is stored in the body of the record. Any other value, or a string too
 * long for a body, is stored in the field `data`. If a redaction is provided, keys that differ only in a secret are the same key. A
 * person may edit the Markdown file of a record. If the key in the file is changed, the value cannot be read until the key is corrected.
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
