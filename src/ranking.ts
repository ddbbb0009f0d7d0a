/**
 * The subpath `effect-memory/ranking`: search and ranking as a library of its own, with analyzers, an index by words and by vectors,
 * scores, fusion and near-duplicates. `MemoryIndex` holds `MemoryRecord`s; the other modules take plain texts and numbers.
 */
/** The tokenizers of stored texts and of queries. */
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
