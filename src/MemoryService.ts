/**
 * Memory as one service. A harness (the program that runs an agent) provides the service, and the agent's code calls it. Each operation for
 * a viewer requires `CurrentViewer`, so the compiler makes sure that the code says for whom it acts. Lower-level services, such as
 * `MemoryStore`, take the viewer as the first argument instead.
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
