/**
 * Kinds of memory. The kind of a record defines how the record is validated, deduplicated and ranked. The `cap` of a kind limits the number
 * of its records, if the program provides `Retention`. `layer` registers your own kinds.
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
