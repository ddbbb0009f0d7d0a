/**
 * Extraction of facts from a conversation: builds the prompt that asks a model for facts, parses the list that it answers with, and limits
 * the size of both. The functions are pure; the pipeline makes the model call.
 *
 * ```ts
 * import { Extraction } from "effect-memory"
 *
 * const facts = Extraction.parseFacts("Here you are: {\"facts\": [\"Ada lives in Lisbon\"]}").map(({ text }) => text)
 *
 * facts // => ["Ada lives in Lisbon"]
 * ```
 */
export { buildExtractionPrompt, Fact, parseFacts } from "./pipeline/Extraction.ts"
export type { WordsOf } from "./pipeline/Extraction.ts"
