/**
 * Splits text into terms. A term is a run of Unicode letters, digits and combining marks, in lower case and without accents (`Café` →
 * `cafe`). Stopwords and single ASCII characters are left out. Scripts without spaces, such as Chinese, are split into words. Each Han or
 * Hangul character of a longer word is a further term.
 *
 * ```ts
 * import { Tokenizer } from "effect-memory"
 *
 * Tokenizer.tokenise("The Café in 東京") // => ["cafe", "東京", "東", "京"]
 * ```
 */
export { tokenise } from "./ranking/Tokenizer.ts"
export type { Options, Tokenizer } from "./ranking/Tokenizer.ts"
