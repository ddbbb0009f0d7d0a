/**
 * The contract of every store's backend (`internal/EngineContract.ts`), and an engine over `Primitives`: rows that can be read,
 * scanned and committed, and nothing else. Such an engine looks things up in an index of the tenant: the backend's own, one made of
 * a scan and kept current by our commits, or, where others write as well, one that is scanned for each call.
 */
export type { Asking, Clues, Feature, Ranked, Ranker } from "./ranking/internal/Ranker.ts"
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
export type { Sidecar } from "./storage/Vectors.ts"
