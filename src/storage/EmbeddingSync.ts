/**
 * Embeds the texts of records, and stores the vectors by model and text hash. A record without a vector is still found by its words, for
 * example after its embedding failed. `missing` embeds such records later. `recall` embeds the text of a query and searches.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import { sha256 } from "../domain/Digest.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import type { Embedding as Query, MemoryQuery, SearchResult } from "../domain/MemoryFilter.ts"
import { embeddingText, type MemoryRecord } from "../domain/MemoryRecord.ts"
import * as Embedder from "../host/Embedder.ts"
import type * as MemoryStore from "./MemoryStore.ts"

/** Vectors by the text that was embedded. */
export type VectorsByText = ReadonlyMap<string, Float32Array>

/**
 * Keeps the vectors of a store up to date with an embedder. `active` is true if the embedder has dimensions and the store keeps vectors.
 * Otherwise, `of`, `keep` and `missing` do nothing and do not fail.
 */
export interface EmbeddingSync {
  readonly active: boolean
  /** Embeds each text once, and returns the vectors. Returns an empty map if `active` is false. */
  readonly of: (
    texts: Iterable<string>,
    purpose: Embedder.Purpose
  ) => Effect.Effect<VectorsByText, MemoryError.MemoryError>
  /** Makes the vector part of a query from its text. Fails with `unsupported` if `active` is false. */
  readonly query: (text: string) => Effect.Effect<Query, MemoryError.MemoryError>
  /** Stores the vectors of records for the tenant. Embeds the texts that `known` lacks, and returns the number of these texts. */
  readonly keep: (
    tenant: string,
    records: ReadonlyArray<MemoryRecord>,
    purpose: Embedder.Purpose,
    known?: VectorsByText
  ) => Effect.Effect<number, MemoryError.MemoryError>
  /**
   * Embeds, for every tenant, the texts for which the store has no vector. Skips texts that the embedder refuses, but fails if it refuses
   * the first three or all. Returns the number of vectors made.
   */
  readonly missing: Effect.Effect<number, MemoryError.MemoryError>
}

/** Makes the `EmbeddingSync` of a store and an embedder. */
export const make = (store: MemoryStore.Service, embedder: Embedder.Service): EmbeddingSync => {
  const vectors = embedder.dimensions > 0 ? store.vectors : Option.none<MemoryStore.Vectors>()

  const embed = (texts: ReadonlyArray<string>, purpose: Embedder.Purpose) =>
    texts.length === 0
      ? Effect.succeed<VectorsByText>(new Map())
      : Effect.map(embedBy(embedder, texts, purpose), (made): VectorsByText =>
        new Map(texts.map((text, i) => [text, made[i]!]))) // an embedder returns one vector per text

  if (Option.isNone(vectors)) {
    const none = Effect.succeed(0)
    return {
      active: false,
      of: () => Effect.succeed(new Map()),
      query: () =>
        Effect.fail(
          embedder.dimensions > 0
            ? MemoryError.make("unsupported", { op: "recall", message: `${store.name} holds no vectors` })
            : MemoryError.make("unsupported", {
              op: "recall",
              message: Embedder.missing
            })
        ),
      keep: () => none,
      missing: none
    }
  }
  const { attach, pending } = vectors.value

  return {
    active: true,
    of: (texts, purpose) => embed(Array.from(new Set(texts)), purpose),
    query: queryBy(embedder),
    keep: (tenant, records, purpose, known = new Map()) =>
      Effect.gen(function*() {
        const texts = Array.from(new Set(records.map(embeddingText)))
        const made = yield* embed(texts.filter((text) => !known.has(text)), purpose)
        if (texts.length === 0) return 0
        yield* attach(tenant, embedder.model, texts.map((text) => [sha256(text), known.get(text) ?? made.get(text)!]))
        return made.size
      }),
    missing: Effect.suspend(() => {
      let made = 0
      const refused: Array<MemoryError.MemoryError> = []
      /**
       * Embeds a batch of texts, and stores the vectors. If the embedder refuses the batch, each half is embedded separately. So a bad text
       * does not stop the others. Fails if three texts are refused before any text is embedded.
       */
      const each = (
        tenant: string,
        texts: ReadonlyArray<MemoryStore.Unembedded>
      ): Effect.Effect<void, MemoryError.MemoryError> =>
        embed(texts.map(({ text }) => text), "add").pipe(
          Effect.flatMap((found) =>
            attach(tenant, embedder.model, texts.map(({ hash, text }) => [hash, found.get(text)!]))
          ),
          Effect.tap(() => Effect.sync(() => void (made += texts.length))),
          MemoryError.catchReason("model", (error) => {
            const middle = texts.length >> 1
            if (middle > 0) {
              return Effect.zipRight(each(tenant, texts.slice(0, middle)), each(tenant, texts.slice(middle)))
            }
            return refused.push(error) >= 3 && made === 0 ? error : Effect.logWarning("a text has no vector", error)
          })
        )
      /** Embeds the pending texts of a tenant in batches. Puts each text into only one batch, even if the embedder refuses the text. */
      const embedPending = (tenant: string) =>
        Effect.gen(function*() {
          const tried = new Set<string>()
          for (;;) {
            const given = yield* pending(tenant, embedder.model, batch + refused.length)
            const texts = given.filter(({ hash }) => !tried.has(hash)).slice(0, batch)
            if (texts.length === 0) return
            for (const { hash } of texts) tried.add(hash)
            yield* each(tenant, texts)
          }
        })
      return store.tenants.pipe(
        Effect.flatMap(Effect.forEach(embedPending, { discard: true })),
        Effect.flatMap(() => made === 0 && refused[0] !== undefined ? refused[0] : Effect.succeed(made))
      )
    })
  }
}

/** Embeds the text of a search. */
export const queryBy = (embedder: Embedder.Service) => (text: string): Effect.Effect<Query, MemoryError.MemoryError> =>
  Effect.map(embedBy(embedder, [text.normalize("NFC")], "search"), ([vector]) => queryOf(embedder, vector!)) // one vector per text

/** Embeds texts. A crash of the embedder is a failure with reason `model`. */
const embedBy = (embedder: Embedder.Service, texts: ReadonlyArray<string>, purpose: Embedder.Purpose) =>
  MemoryError.contain("Embedder.embed", "model")(Effect.suspend(() => embedder.embed(texts, purpose)))

/** Makes the vector part of a query, with the calibration of the embedder that made the vector. */
export const queryOf = (
  { calibration: { floor, weight } = {}, model }: Embedder.Service,
  vector: Float32Array
): Query => ({
  model,
  vector: Array.from(vector),
  ...(floor !== undefined && { floor }),
  ...(weight !== undefined && { weight })
})

/** Largest number of texts in one batch of `missing`. If a batch fails, the vectors of earlier batches are kept. */
const batch = 256

/** The part of an `EmbeddingSync` that `recall` needs. */
export interface QueryEmbedder extends Pick<EmbeddingSync, "active" | "query"> {}

/** Makes a `QueryEmbedder` of an embedder. */
export const embedderOf = (embedder: Embedder.Service): QueryEmbedder => ({
  active: embedder.dimensions > 0,
  query: queryBy(embedder)
})

/**
 * Embeds the text of a query if the query needs a vector, then searches. If the embedding fails, searches by words only. The error is then
 * in the `failures` of the result. In mode `vector`, fails with this error instead.
 */
export const recall = (
  embedding: QueryEmbedder,
  query: MemoryQuery,
  search: (query: MemoryQuery) => Effect.Effect<SearchResult, MemoryError.MemoryError>
): Effect.Effect<SearchResult, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { embedding: given, mode, text } = Predicate.isRecord(query) ? query : {} // `search` fails for a query that is no object
    const isByVector = mode === undefined ? embedding.active : mode === "vector" || mode === "hybrid"
    if (typeof text !== "string" || given !== undefined || !isByVector) return yield* search(query)
    const made = yield* Effect.either(embedding.query(text))
    if (made._tag === "Right") return yield* search({ ...query, embedding: made.right })
    if (mode === "vector") return yield* made.left
    const found = yield* search({ ...query, mode: "lexical" })
    return { ...found, failures: [...found.failures, { leg: "vector", error: made.left }] }
  })
