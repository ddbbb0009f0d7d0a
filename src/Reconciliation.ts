/**
 * Reads a model's decisions about new facts and related memories, attributes them to the facts that they are about, and turns them
 * into mutations. Pure. The model sees temporary ids only.
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
