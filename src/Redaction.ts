/**
 * Replaces secrets in texts before the texts are stored or sent to a model. `layer` replaces keys, tokens and card numbers. With the option
 * `emails`, `layer` also replaces e-mail addresses. `layerWith` redacts with a function of your own. Provide one redaction layer to all
 * layers of memory together, as in the example. By default, nothing is redacted.
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { MemoryService, MemoryStore, Redaction, Viewer } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const memory = yield* MemoryService.MemoryService
 *   const { record } = yield* memory.put({ scope: { userId: "ada" }, kind: "user", body: "My key is sk-abcdef0123456789." })
 *   return record.body
 * })
 *
 * const Memory = MemoryService.layer().pipe(
 *   Layer.provide(MemoryStore.layerInMemory),
 *   Layer.provide(Redaction.layer({ emails: true }))
 * )
 *
 * const kept = await program.pipe(MemoryService.as(Viewer.make({ userId: "ada" })), Effect.provide(Memory), Effect.runPromise)
 *
 * kept // => "My key is (redacted key)."
 * ```
 */
export { byPatterns, layer, layerWith, Redaction } from "./host/Redaction.ts"
export type { Report, Service } from "./host/Redaction.ts"
export type { Options, Redacted } from "./host/Redaction/Patterns.ts"
