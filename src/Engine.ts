/**
 * The contract of every store's backend (`internal/EngineContract.ts`), and an engine over `Primitives`: rows that can be read,
 * scanned and committed, and nothing else. Such an engine looks things up in an index of the tenant: the backend's own, one made of
 * a scan and kept current by our commits, or, where others write as well, one that is scanned for each call. Write an `Engine` of your own
 * for a database that looks things up itself; for others `Primitives` are enough.
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
