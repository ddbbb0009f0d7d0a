/**
 * Tools that a model may call, as data. Adapters convert the tools for @effect/ai, for MCP, and for APIs that use JSON Schema.
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { MemoryTool } from "effect-memory"
 *
 * const double = MemoryTool.make({
 *   name: "double",
 *   description: "Doubles a number.",
 *   input: Schema.Struct({ n: Schema.Number }),
 *   output: Schema.Number,
 *   writes: false,
 *   handler: ({ n }) => Effect.succeed(n * 2)
 * })
 * const { text } = await Effect.runPromise(double.call({ n: 21 }))
 *
 * text // => "42"
 * ```
 */
export { jsonSchemaOf, make } from "./host/MemoryTool.ts"
export type { Failure, Hints, MemoryTool } from "./host/MemoryTool.ts"
