/**
 * The subpath `effect-memory/ranking`: search and ranking as a library. It has analyzers, indexes, scores, fusion of rankings, and a search
 * for near-duplicates. `MemoryIndex` is an index of `MemoryRecord`s; most other modules work on plain texts and numbers.
 */
/** Analyzers: pairs of tokenizers, one for the texts of records and one for the texts of queries. */
export * as Analyzer from "./ranking/Analyzer.ts"
/** Lexical relevance by Okapi BM25. */
export * as Bm25 from "./ranking/Bm25.ts"
/** Combines several rankings into one. */
export * as Fusion from "./ranking/Fusion.ts"
/** A mutable search index of one tenant's records. */
export * as MemoryIndex from "./ranking/MemoryIndex.ts"
/** Finds near-duplicate texts. */
export * as NearDuplicate from "./ranking/NearDuplicate.ts"
/** Scores hits by relevance, recency, importance, confidence and emotion. */
export * as Scorer from "./ranking/Scorer.ts"
/** Splits text into terms. */
export * as Tokenizer from "./ranking/Tokenizer.ts"
/** Exact vector search by cosine. */
export * as VectorIndex from "./ranking/VectorIndex.ts"
