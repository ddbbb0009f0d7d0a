/**
 * Cosine similarity of vectors. The module `VectorIndex` of `effect-memory/ranking` also has an index for exact vector search, made by
 * `make`. An index is mutable, and has the vectors of one model in typed arrays. A search returns at most `limit` ids, best first. Ids with
 * equal cosines are by default in the order in which they were added. Scores are bit-identical on every machine.
 *
 * ```ts
 * import { VectorIndex } from "effect-memory/ranking"
 *
 * const index = VectorIndex.make<string>(2)
 * index.add("east", Float32Array.of(1, 0))
 * index.add("north", Float32Array.of(0, 1))
 * const hits = index.search(Float32Array.of(3, 4), 10)
 *
 * hits // => [{ id: "north", score: 0.8 }, { id: "east", score: 0.6 }]
 * ```
 */
export { cosineSimilarity } from "./ranking/VectorIndex.ts"
export type { Embeddings } from "./ranking/VectorIndex.ts"
