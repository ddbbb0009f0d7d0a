/**
 * Copies one store into another, for example a folder of Markdown files into a database. By default, all tenants are copied. Records are
 * copied with their revisions, vectors and use counts. Tombstones of forgotten records and internal rows are copied, too.
 *
 * ```ts
 * import { Context, Effect, Layer } from "effect"
 * import { Copy, MemoryStore, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 *
 * const program = Effect.gen(function*() {
 *   const from = Context.get(yield* Layer.build(MemoryStore.layerInMemoryWith({})), MemoryStore.MemoryStore)
 *   const to = Context.get(yield* Layer.build(MemoryStore.layerInMemoryWith({})), MemoryStore.MemoryStore)
 *   const [put] = yield* from.put(ada, [{ scope: { userId: "ada" }, kind: "user", body: "Drinks tea." }])
 *   yield* from.update(ada, put!.record.id, { body: "Drinks tea, never coffee." })
 *
 *   const { records, revisions, verified } = yield* Copy.copy(from, to)
 *   return { records, revisions, verified, writtenAgain: (yield* Copy.copy(from, to)).written }
 * }).pipe(Effect.scoped)
 *
 * const report = await program.pipe(Effect.runPromise)
 *
 * report // => { records: 1, revisions: 2, verified: true, writtenAgain: 0 }
 * ```
 */
export { copy } from "./transfer/Copy.ts"
export type { Counts, Options, Progress, Report } from "./transfer/Copy.ts"
