/**
 * Memory as one service, which a harness provides and an agent's code calls. The operations require `CurrentViewer` in the context, so code
 * must say for whom it acts, or it does not compile. Lower-level services, such as `MemoryStore`, take the viewer as first argument of
 * their methods instead.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryService, MemoryStore, Viewer } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const memory = yield* MemoryService.MemoryService
 *   yield* memory.put({ scope: { userId: "ada" }, kind: "user", body: "Drinks tea, never coffee." })
 *   const { hits } = yield* memory.search({ text: "coffee?" })
 *   return hits.map(({ record }) => record.body)
 * }).pipe(MemoryService.as(Viewer.make({ userId: "ada" })))
 * const found = await Effect.runPromise(
 *   Effect.provide(program, MemoryService.layer()).pipe(Effect.provide(MemoryStore.layerInMemory))
 * )
 *
 * found // => ["Drinks tea, never coffee."]
 * ```
 */
export { as, CurrentViewer, layer, layerTest, MemoryService, renderMemoryIndex } from "./harness/MemoryService.ts"
export type {
  BestEffort,
  Embed,
  ForgetOptions,
  Operation,
  OriginOptions,
  PutOptions,
  Service,
  TestOptions
} from "./harness/MemoryService.ts"
