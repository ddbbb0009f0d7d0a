/**
 * Beliefs are statements that an agent takes to be true. A belief is a record with a confidence and an audit. The audit contains the
 * changes of the belief, each with its reason. A belief is closed when another belief supersedes it, or when its validity ends. A closed
 * belief can be read, but not changed. The service also stores hindsights (the outcome of a task, with the beliefs that it corrects) and
 * counterfactuals (hypotheses).
 *
 * ```ts
 * import { Effect } from "effect"
 * import { BeliefMemory, MemoryStore, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 * const program = Effect.gen(function*() {
 *   const beliefs = yield* BeliefMemory.BeliefMemory
 *   const data = { subject: "deploys", predicate: "fail on", object: "Fridays", sourceType: "observation" as const }
 *   const { record: { confidence, id } } = yield* beliefs.retain(ada, { scope: { userId: "ada" }, body: "", data })
 *   const raised = yield* beliefs.reinforce(ada, id, 0.5, { reason: "it happened again" })
 *   return [confidence, raised.record.confidence]
 * })
 * const confidences = await program.pipe(
 *   Effect.provide(BeliefMemory.layer),
 *   Effect.provide(MemoryStore.layerInMemory),
 *   Effect.runPromise
 * )
 *
 * confidences // => [0.6, 0.8]
 * ```
 */
export { BeliefMemory, confidenceOf, layer, levelOf } from "./kinds/BeliefMemory.ts"
export type {
  Because,
  Belief,
  BeliefPatch,
  BeliefQuery,
  Corrected,
  Counterfactual,
  Hindsight,
  Service,
  Statistics
} from "./kinds/BeliefMemory.ts"
