/**
 * A service for the records of one kind, with typed `data`. Most kinds of this library use this service; your own kinds can use it, too.
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { MemoryKind, MemoryStore, TypedMemory, Viewer } from "effect-memory"
 *
 * const Recipe = MemoryKind.make({ name: "recipe", schema: Schema.Struct({ minutes: Schema.Int }) })
 * const program = Effect.gen(function*() {
 *   const recipes = yield* TypedMemory.make(Recipe)
 *   const ada = Viewer.make({ userId: "ada" })
 *   yield* recipes.put(ada, { scope: { userId: "ada" }, body: "Scones with jam.", data: { minutes: 25 } })
 *   return (yield* recipes.search(ada, { text: "scones" })).map(({ data }) => data.minutes)
 * })
 * const minutes = await program.pipe(Effect.provide(MemoryStore.layerInMemory), Effect.runPromise)
 *
 * minutes // => [25]
 * ```
 */
export { make } from "./kinds/TypedMemory.ts"
export type { DraftOf, Found, PatchOf, Typed, TypedMemory, WithoutKinds } from "./kinds/TypedMemory.ts"
