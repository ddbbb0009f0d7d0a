/**
 * Beliefs: what is held to be true, how surely, and why that changed; with hindsight on tasks, and counterfactuals. Confidence is
 * the record's. The belief itself keeps an audit of its changes, each with its reason. A superseded belief is history: it is kept
 * and shown, and no longer changes.
 */
export { BeliefMemory, confidenceOf, layer, levelOf } from "./kinds/BeliefMemory.ts"
export type {
  Because,
  Belief,
  BeliefQuery,
  Corrected,
  Counterfactual,
  Hindsight,
  Service,
  Statistics
} from "./kinds/BeliefMemory.ts"
