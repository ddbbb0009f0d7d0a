/**
 * `Engine` is the contract between a store and its backend. `fromRows` makes an engine from `Primitives`, which are functions that read,
 * scan and commit rows. Such an engine answers queries from indexes in memory, one per tenant. The backend may provide these indexes.
 * Otherwise, the engine builds each index by a scan: once, with an update at each commit, or anew at each call if other processes also
 * write to the backend. Implement `Engine` for a database that has its own indexes, and `Primitives` for any other backend.
 *
 * ```ts
 * import { Effect, Option, Stream } from "effect"
 * import { Engine, MemoryStore, Viewer } from "effect-memory"
 *
 * const rows = new Map<string, Engine.Stored>()
 * const program = Effect.gen(function*() {
 *   const engine = yield* Engine.fromRows("map", {
 *     read: (_tenant, ids) => Effect.sync(() => ids.map((id) => Option.fromNullable(rows.get(id)))),
 *     tenants: Effect.succeed(["default"]),
 *     scan: () => Stream.suspend(() => Stream.fromIterable(rows.values())),
 *     commit: (_tenant, writes) =>
 *       Effect.sync(() => writes.forEach(({ id, next }) => next ? rows.set(id, next) : rows.delete(id)))
 *   })
 *   const store = yield* MemoryStore.make("map", engine)
 *   const ada = Viewer.make({ userId: "ada" })
 *   yield* store.put(ada, [{ scope: { userId: "ada" }, kind: "user", body: "Drinks tea." }])
 *   return (yield* store.search(ada, { text: "tea" })).hits.map(({ record }) => record.body)
 * })
 * const found = await Effect.runPromise(program)
 *
 * found // => ["Drinks tea."]
 * ```
 */
export type { Feature, LazyRanker, QuestionRanker, Ranker, Signals } from "./ranking/internal/Ranker.ts"
export type { Span, Times } from "./ranking/internal/TimeExpression.ts"
export type {
  Candidate,
  CompiledFilter,
  Fact,
  Matches,
  Near,
  Position,
  Question,
  Retrieval,
  Shares
} from "./ranking/Retrieval.ts"
export { fromRows, makeTenantLocks } from "./storage/Engine.ts"
export type { Primitives, RowWrite, TenantLocks } from "./storage/Engine.ts"
export type {
  Capabilities,
  Change,
  Changed,
  Decide,
  Decision,
  Due,
  Engine,
  EngineUses,
  EngineVectors,
  Entry,
  Event,
  Found,
  Ingest,
  Mark,
  Needs,
  Stored,
  Unembedded,
  Usage,
  Uses,
  Write
} from "./storage/internal/EngineContract.ts"
export type { Lifetime } from "./storage/Revision.ts"
export type { VectorBackend } from "./storage/Vectors.ts"
