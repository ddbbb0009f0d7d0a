/** A question by its words and, where there is something to embed with, by its meaning. */
import * as Effect from "effect/Effect"
import type * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryQuery, SearchResult } from "../domain/MemoryFilter.ts"
import type * as Embedder from "../host/Embedder.ts"
import * as Embedding from "../storage/Embedding.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Embeds extends Pick<Embedding.Embedding, "active" | "query"> {}

export const by = (embedder: Embedder.Service): Embeds => ({
  active: embedder.dimensions > 0,
  query: Embedding.queryBy(embedder)
})

/** Lexical, and the failure told, where the text cannot be embedded; fails only where the vector was all that was asked for. */
export const recall = (
  embedding: Embeds,
  query: MemoryQuery,
  search: (query: MemoryQuery) => Io<SearchResult>
): Io<SearchResult> =>
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
