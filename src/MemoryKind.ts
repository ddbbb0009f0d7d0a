/**
 * Kinds of memory. A kind defines how its records are validated, deduplicated and ranked, and how many are kept. `layer` adds kinds.
 *
 * ```ts
 * import { Layer, Schema } from "effect"
 * import { MemoryKind, MemoryStore } from "effect-memory"
 *
 * const Recipe = MemoryKind.make({ name: "recipe", schema: Schema.Struct({ minutes: Schema.Int }), cap: 100 })
 *
 * export const Store = MemoryStore.layerInMemory.pipe(Layer.provide(MemoryKind.layer(Recipe)))
 *
 * Recipe.importance // => 0.5
 * ```
 */
export { Kinds, layer, make } from "./domain/MemoryKind.ts"
export type { MemoryKind, Options } from "./domain/MemoryKind.ts"
