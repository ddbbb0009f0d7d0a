/**
 * Parses a model's decisions about new facts and related memories, assigns each decision to its fact, and turns the decisions into
 * mutations. All functions are pure. The prompt that asks for decisions names memories by temporary ids, never by their record ids.
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
