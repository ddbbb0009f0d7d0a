/**
 * Extracts facts from a conversation. `buildExtractionPrompt` builds a prompt that asks a model for facts. `parseFacts` parses the answer
 * of the model. Both functions are pure; `MemoryPipeline` calls the model.
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
