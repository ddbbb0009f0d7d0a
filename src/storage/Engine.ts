/**
 * The contract of whatever holds the records: `MemoryStore.make(name, engine)` derives the one `Service` from it.
 *
 * The library decides, the engine fetches. Every decision is a pure function that the engine calls with the rows it has read,
 * as often as it needs: a conflict is retried inside the engine. An engine therefore knows neither viewers nor kinds nor the
 * analyzer. Bodies are read last, and only of what is shown.
 *
 * Laws, held by the contract suite on every engine:
 * - Rows out of sight cost nothing and influence nothing.
 * - Each method reads no more than the bound in its comment; an engine that counts its reads proves it.
 * - The library adds no waiting between tenants. An engine may have a single writer: the vault, SQLite.
 */
import type * as Effect from "effect/Effect"
import type * as Either from "effect/Either"
import type * as Option from "effect/Option"
import type * as Stream from "effect/Stream"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import type { MemoryScope } from "../domain/MemoryScope.ts"
import type { Sight } from "../domain/Visibility.ts"
import type { Asked, Matches, Near, Position, Question } from "../ranking/Retrieval.ts"
import type { Capabilities, Stored, Uses } from "./MemoryStore.ts"
import type { Unembedded } from "./Vectors.ts"

/** A row together with everything it can be found by. The library makes it, so all engines agree on terms and names. */
export interface Entry {
  readonly stored: Stored
  /** Twice the occurrences of a term, plus 1 where the term is a whole tag. */
  readonly terms: ReadonlyMap<string, number>
  /** Number of terms. */
  readonly length: number
  /** `MemoryRecord.textHash`: the key of its vectors. */
  readonly hash: string
  /** Names the record answers to, and names or ids that its text and links refer to. */
  readonly names: ReadonlyArray<string>
  readonly refersTo: ReadonlyArray<string>
}

/** What a batch depends on, known before anything is read. All of it is locked, absent rows included. */
export interface Needs {
  readonly ids: ReadonlyArray<MemoryId>
  readonly dedupeKeys: ReadonlyArray<string>
  /** Ids whose kept revisions are read too: `Restore`. */
  readonly revisions: ReadonlyArray<MemoryId>
}
export interface Found {
  readonly rows: ReadonlyMap<MemoryId, Stored>
  /** Per dedupe key the oldest live records, one more than `Needs.ids` has entries, since the batch may remove some itself. */
  readonly holders: ReadonlyMap<string, ReadonlyArray<MemoryRecord>>
  readonly revisions: ReadonlyMap<MemoryId, ReadonlyArray<Stored>>
}
export interface Write {
  readonly id: MemoryId
  /** `undefined` erases the row, its revisions, postings and uses, and vectors that no other row of the tenant has. */
  readonly next: Entry | undefined
}
export interface Decision<out A> {
  /** Applied in order. Empty: nothing is committed (a refusal, or a batch that is only planned). */
  readonly writes: ReadonlyArray<Write>
  readonly answer: A
}

/** A change with enough of the row before and after to say who may hear of it. */
export interface Change {
  readonly id: MemoryId
  readonly before: { readonly scope: MemoryScope; readonly expiresAt: number | undefined } | undefined
  readonly after: MemoryRecord | undefined
  readonly by: "here" | "there"
}

export interface Engine {
  readonly capabilities: Pick<Capabilities, "writable" | "durable" | "shared" | "history">
  /** Fingerprint of the analyzer that made the postings; `undefined` for an empty store. `make` refuses another one and names `reindex`. */
  readonly analyzer: Effect.Effect<string | undefined, MemoryError>
  readonly reindex: (
    analyzer: string,
    entryOf: (stored: Stored) => Entry
  ) => Effect.Effect<void, MemoryError>

  /** Rows by id, tombstones included. Bound: the rows. */
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<Stored>>, MemoryError>
  /** Revisions of a row, newest first. Bound: `limit`. */
  readonly revisions: (
    tenant: string,
    id: MemoryId,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Stored>, MemoryError>
  /** Reads, decides and commits in one transaction. A `Left` writes nothing. Bound: what is needed and what is written. */
  readonly transact: <A>(
    tenant: string,
    needs: Needs,
    decide: (found: Found) => Either.Either<Decision<A>, MemoryError>
  ) => Effect.Effect<A, MemoryError>

  /** Up to `limit` records that pass, after a position. Bound: the rows between them that pushdown could not exclude. */
  readonly page: (
    sight: Sight,
    asked: Asked,
    after: Position | undefined,
    limit: number
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  readonly match: (sight: Sight, asked: Asked, question: Question) => Effect.Effect<Matches, MemoryError>
  /** Records that refer to any of these ids or names. Bound: those records. */
  readonly referring: (
    sight: Sight,
    asked: Asked,
    keys: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  /** Records that answer to any of these names. Bound: those records. */
  readonly named: (
    sight: Sight,
    asked: Asked,
    names: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>

  /** Expired rows and tombstones past their retention, of any tenant, longest due first. Bound: `limit`. */
  readonly due: (
    now: number,
    limit: number
  ) => Effect.Effect<ReadonlyArray<readonly [tenant: string, id: MemoryId, revision: number]>, MemoryError>
  /** Scopes that hold more live rows of a kind than its cap. Bound: those groups. */
  readonly overCap: (
    tenant: string,
    caps: ReadonlyMap<string, number>
  ) => Effect.Effect<ReadonlyArray<readonly [scope: string, kind: string]>, MemoryError>
  readonly tenants: Stream.Stream<string, MemoryError>
  /** Tenants that have a row of exactly this scope; how the outbox finds its work. Bound: those tenants. */
  readonly tenantsWith: (scope: MemoryScope) => Stream.Stream<string, MemoryError>

  /** Changes from subscription on; those of other processes too, where `shared`. */
  readonly changes: (tenant: string) => Stream.Stream<Change | MemoryError, MemoryError>
  /** Default: a table in this process. */
  readonly uses?: EngineUses | undefined
  readonly vectors?: EngineVectors | undefined
}

export interface EngineUses {
  readonly touch: (tenant: string, ids: ReadonlyArray<MemoryId>, now: number) => Effect.Effect<void, MemoryError>
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Uses>, MemoryError>
}

/** Vectors by tenant, model and hash of the text: what one tenant embedded tells nothing to another. */
export interface EngineVectors {
  /** Dimensions of the tenant's vectors of this model. */
  readonly dimensions: (tenant: string, model: string) => Effect.Effect<number | undefined, MemoryError>
  /** Texts without a vector, each once, internal rows excluded. Bound: `limit`. */
  readonly pending: (
    tenant: string,
    model: string,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Unembedded>, MemoryError>
  /** A hash that has a vector keeps it. `conflict` where others came first with other dimensions. */
  readonly attach: (
    tenant: string,
    model: string,
    vectors: ReadonlyArray<readonly [hash: string, vector: Float32Array]>
  ) => Effect.Effect<void, MemoryError>
  readonly read: (
    tenant: string,
    model: string,
    hashes: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<Option.Option<Float32Array>>, MemoryError>
  readonly near: (
    sight: Sight,
    asked: Asked,
    model: string,
    vector: Float32Array,
    depth: number
  ) => Effect.Effect<Near, MemoryError>
}
