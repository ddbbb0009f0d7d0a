/**
 * Values by key in a namespace: a Map that outlives the process. A layer serves one namespace; the viewer says whose values are read and
 * written. A key is one record in exactly the viewer's scope, neither a broader nor a narrower one. A string is stored as the record's
 * body, any other value as its `data`. Keys are redacted, so keys that differ only in a redacted secret are the same key. If a person edits
 * the key in a Markdown file, the record is no entry until the key is corrected.
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
