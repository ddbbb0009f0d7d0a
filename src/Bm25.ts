/**
 * Ranks texts by the words that they share with a query. The score is Okapi BM25 (Robertson & Zaragoza, 2009). A query word that
 * equals a tag of the text adds 1 to the score.
 *
 * ```ts
 * import { Bm25 } from "effect-memory"
 *
 * const docs = [
 *   Bm25.buildDoc("tea", { summary: "", body: "Drinks tea in the morning." }),
 *   Bm25.buildDoc("cake", { summary: "", body: "Eats cake with tea, and more cake." })
 * ]
 * const ids = Bm25.bm25("cake or tea", docs).map(({ id }) => id)
 *
 * ids // => ["cake", "tea"]
 * ```
 */
export { bm25, buildDoc } from "./ranking/Bm25.ts"
export type { Doc, Fields, Scored } from "./ranking/Bm25.ts"
