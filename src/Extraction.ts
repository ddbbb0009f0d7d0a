/**
 * Conversation to facts: the prompt that asks for them, the list that a model answers with, and how much of either counts. Pure but
 * for the model, and the model is asked elsewhere.
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
