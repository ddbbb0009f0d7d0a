/**
 * Splits text into terms: runs of Unicode letters and numbers with their marks, lower-cased, accents folded (`Café` → `cafe`).
 *
 * ```ts
 * import { Tokenizer } from "effect-memory"
 *
 * Tokenizer.tokenise("The Café in 東京") // => ["cafe", "東京", "東", "京"]
 * ```
 */
export { tokenise } from "./ranking/Tokenizer.ts"
export type { Options, Tokenizer } from "./ranking/Tokenizer.ts"
