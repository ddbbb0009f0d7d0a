/** Facts that consist of subject, predicate and object. Facts stored as plain sentences have the same kind, `semantic`. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import * as Payload from "../domain/Payload.ts"
import type * as Viewer from "../domain/Viewer.ts"
import type { MemoryStore } from "../storage/MemoryStore.ts"
import { type DraftOf, type Found, make as typed, type Typed, withNameAsSummary } from "./TypedMemory.ts"

/** The `data` of a fact. */
export type Fact = Payload.Fact

/**
 * Option of a query: `asOf` is the time at which the returned facts must be valid, in epoch milliseconds. Default now, or any time for the
 * viewer `System`.
 */
export type AsOf = Pick<MemoryFilter, "asOf">

/** Operations of `SemanticMemory`. */
export interface Service {
  /**
   * Stores a fact, which is valid from `validAt` (default now) to `invalidAt`. The summary defaults to subject, predicate and object. A
   * draft without an id is not stored if a fact of its scope has the same summary, body and `data`, and has not ended. That fact is
   * returned.
   */
  readonly storeFact: (viewer: Viewer.Any, fact: DraftOf<Fact>) => Effect.Effect<Typed<Fact>, MemoryError.MemoryError>
  /** Returns the facts valid at `asOf` whose domain is exactly `domain`, newest first. Cost: reads all facts that the viewer sees. */
  readonly queryByDomain: (
    viewer: Viewer.Any,
    domain: string,
    when?: AsOf
  ) => Effect.Effect<ReadonlyArray<Typed<Fact>>, MemoryError.MemoryError>
  /** Returns the facts valid at `asOf` whose subject is exactly `subject`, newest first. Cost: reads all facts that the viewer sees. */
  readonly queryBySubject: (
    viewer: Viewer.Any,
    subject: string,
    when?: AsOf
  ) => Effect.Effect<ReadonlyArray<Typed<Fact>>, MemoryError.MemoryError>
  /** Finds facts, best first. Default `limit` 20. */
  readonly searchFacts: (
    viewer: Viewer.Any,
    text: string,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Found<Fact>>, MemoryError.MemoryError>
  /**
   * Ends the validity of a fact now, but keeps the fact. Does nothing if the validity has already ended. Fails with `not_found` if there is
   * no fact with the id.
   */
  readonly invalidateFact: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<void, MemoryError.MemoryError>
}

/** Tag of the service for facts. */
export class SemanticMemory extends Context.Tag("@memory/SemanticMemory")<SemanticMemory, Service>() {}

/** Makes the service over the `MemoryStore` in the context. */
export const make: Effect.Effect<Service, never, MemoryStore> = Effect.gen(function*() {
  const facts = yield* typed({ ...MemoryKind.semantic, schema: Payload.Fact })

  const by = (op: string, viewer: Viewer.Any, path: string, is: string, when: AsOf = {}) =>
    facts.all(viewer, { asOf: when.asOf, where: { ...isFact, [path]: { eq: is } } }).pipe(
      Effect.withSpan(`SemanticMemory.${op}`)
    )

  return {
    storeFact: (viewer, fact) => {
      const { object, predicate, subject } = fact.data
      return Effect.withSpan(
        facts.put(viewer, withNameAsSummary(`${subject} ${predicate} ${object}`, fact)),
        "SemanticMemory.storeFact"
      )
    },
    queryByDomain: (viewer, domain, when) => by("queryByDomain", viewer, "data.domain", domain, when),
    queryBySubject: (viewer, subject, when) => by("queryBySubject", viewer, "data.subject", subject, when),
    searchFacts: (viewer, text, limit) =>
      Effect.withSpan(facts.search(viewer, { text, where: isFact, limit }), "SemanticMemory.searchFacts"),
    invalidateFact: (viewer, id) =>
      Effect.gen(function*() {
        const found = yield* facts.get(viewer, id).pipe(
          MemoryError.catchReason("corrupt", () => Effect.succeedNone) // a record that does not decode is a plain sentence
        )
        if (Option.isNone(found)) {
          return yield* MemoryError.make("not_found", { op: "invalidateFact", id, message: "there is no such fact" })
        }
        const { invalidAt, revision } = found.value.record
        const now = yield* Clock.currentTimeMillis
        if (invalidAt !== undefined && invalidAt <= now) return
        yield* facts.update(viewer, id, { invalidAt: now }, { ifRevision: revision })
      }).pipe(
        MemoryError.retryOnConflict,
        Effect.withSpan("SemanticMemory.invalidateFact")
      )
  }
})

/** Provides `SemanticMemory` over a `MemoryStore`. */
export const layer: Layer.Layer<SemanticMemory, never, MemoryStore> = Layer.effect(SemanticMemory, make)

/** Selects facts with subject, predicate and object. Facts stored as plain sentences lack these fields. */
const isFact: NonNullable<MemoryFilter["where"]> = {
  "data.subject": { exists: true },
  "data.predicate": { exists: true },
  "data.object": { exists: true }
}
