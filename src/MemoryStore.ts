/**
 * The store of records. Other services read and write records through this service.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryStore, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 * const program = Effect.gen(function*() {
 *   const store = yield* MemoryStore.MemoryStore
 *   yield* store.put(ada, [{ scope: { userId: "ada" }, kind: "user", body: "Drinks tea, never coffee." }])
 *   const { hits } = yield* store.search(ada, { text: "coffee?" })
 *   return hits.map(({ record }) => record.body)
 * })
 * const found = await program.pipe(Effect.provide(MemoryStore.layerInMemory), Effect.runPromise)
 *
 * found // => ["Drinks tea, never coffee."]
 * ```
 */
export type { TenantEmbeddings } from "./ranking/VectorIndex.ts"
export type { ChangeFeed } from "./storage/ChangeFeed.ts"
export type { Reader } from "./storage/internal/EngineContract.ts"
export type { Linked, Neighbours } from "./storage/Links.ts"
export {
  changeFeed,
  layerInMemory,
  layerInMemoryWith,
  make,
  MemoryStore,
  reindex,
  vectorsInMemory
} from "./storage/MemoryStore.ts"
export type {
  Capabilities,
  IfRevision,
  Ingest,
  Lifetime,
  Primitives,
  Provenance,
  Put,
  PutOptions,
  Service,
  Stored,
  Unembedded,
  Uses,
  VectorBackend,
  Vectors,
  Write
} from "./storage/MemoryStore.ts"
export type { Activity } from "./storage/MemoryStore/internal/makeStore.ts"
