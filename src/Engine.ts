/**
 * An engine is the backend of a store (contract: `storage/internal/EngineContract.ts`). `fromRows` makes one from `Primitives`: a
 * backend that can only read rows by id, scan them and commit writes. That engine answers every other call from an index of the
 * tenant: the backend's own; or one that is built by a scan and updated by our commits; or, if other processes write to the same rows,
 * one that is built anew for each call. Implement `Engine` for a database with queries of its own, `Primitives` for any other.
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
  Asked,
  Candidate,
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
