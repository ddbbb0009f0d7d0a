/**
 * Functions for a model's decisions about new facts and related memories. The functions build the prompt, parse the decisions and turn them
 * into mutations. All functions are pure. A prompt names memories by temporary ids, never by record ids.
 *
 * ```ts
 * import { Reconciliation } from "effect-memory"
 *
 * const answer = "{\"memory\": [{\"event\": \"ADD\", \"text\": \"Ada lives in Lisbon\"}]}"
 * const events = Reconciliation.parseDecision(answer, 0).map(({ event }) => event)
 *
 * events // => ["ADD"]
 * ```
 */
export { applyEvents, buildDecisionPrompt, Decision, parseDecision } from "./pipeline/Reconciliation.ts"
export type { Target } from "./pipeline/Reconciliation.ts"
