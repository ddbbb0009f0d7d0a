/** Searches by the words of a question and, if there is a model to embed it with, by its meaning. */
import * as Effect from "effect/Effect"
import type * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryQuery, SearchResult } from "../domain/MemoryFilter.ts"
import type * as Embedder from "../host/Embedder.ts"
import * as Embedding from "../storage/Embedding.ts"

/** The part of an embedding that a recall needs. */
export interface Embeds extends Pick<Embedding.Embedding, "active" | "query"> {}

/** Embeds questions with an embedder. */
export const by = (embedder: Embedder.Service): Embeds => ({
  active: embedder.dimensions > 0,
  query: Embedding.queryBy(embedder)
})

/**
 * Embeds the text and searches. If the text cannot be embedded the search is lexical, and its `failures` say so; it fails only
 * in the mode `vector`.
 */
export const recall = (
  embedding: Embeds,
  query: MemoryQuery,
  search: (query: MemoryQuery) => Effect.Effect<SearchResult, MemoryError.MemoryError>
): Effect.Effect<SearchResult, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { embedding: given, mode, text } = query
    const asIs = text === undefined || given !== undefined || mode === "lexical"
    if (asIs || (mode === undefined && !embedding.active)) return yield* search(query)
    const made = yield* Effect.either(embedding.query(text))
    if (made._tag === "Right") return yield* search({ ...query, embedding: made.right })
    if (mode === "vector") return yield* made.left
    const found = yield* search({ ...query, mode: "lexical" })
    return { ...found, failures: [...found.failures, { leg: "vector", error: made.left }] }
  })
