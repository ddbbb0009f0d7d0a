/** The belief memory of nexus-agents. A belief is a statement with a confidence. Every change of a belief has a reason. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryId } from "../../domain/MemoryId.ts"
import { definedFields } from "../../domain/Payload.ts"
import type * as Payload from "../../domain/Payload.ts"
import * as Viewer from "../../domain/Viewer.ts"
import * as BeliefMemory from "../../kinds/BeliefMemory.ts"
import type { Typed } from "../../kinds/TypedMemory.ts"
import type { Run } from "../Promises.ts"

/** A level of confidence. `confidenceOf` maps each level to a number, for example `high` to .9 and `medium` to .6. */
export type BeliefConfidence = BeliefMemory.Level

/** A belief to store. */
export interface Belief extends Omit<BeliefMemory.Belief, "audit"> {
  readonly confidence: BeliefConfidence
}

/** A stored belief. `confidence` is the level that is nearest to the stored number. */
export interface RetainedBelief extends Belief {
  readonly beliefId: MemoryId
  readonly version: number
  readonly superseded: boolean
  readonly supersededBy: MemoryId | undefined
}

/** Conditions of a query for beliefs. `minConfidence` is a number, not a level. `confidenceOf` has the number of each level. */
export type BeliefQuery = BeliefMemory.BeliefQuery
/** Counts of the beliefs that the viewer sees. */
export type BeliefMemoryStats = BeliefMemory.Statistics
/** The outcome of a task, the beliefs that the agent had before the task, and the beliefs that the outcome corrects. */
export type HindsightRecord = Omit<BeliefMemory.Hindsight, "trigger" | "beliefMemory">
/** A hypothesis with its predictions and, once known, the actual outcome. */
export interface Counterfactual extends BeliefMemory.Counterfactual {
  readonly counterfactualId: MemoryId
}

/** The memory of beliefs. A method that changes a belief rejects with `read_only` if the belief is no longer valid. */
export interface IBeliefMemory {
  retain(belief: Belief): Promise<RetainedBelief>
  /** Returns a belief, even if another belief has superseded it; `null` if there is no such belief. */
  recall(id: MemoryId): Promise<RetainedBelief | null>
  /** Returns matching beliefs, by default the most certain first. */
  query(query: BeliefQuery): Promise<ReadonlyArray<RetainedBelief>>
  /** Returns the valid belief with this subject and predicate; `null` if there is none. If there are several: the one changed last. */
  recallCurrent(subject: string, predicate: string): Promise<RetainedBelief | null>
  /** Returns all beliefs with this subject and predicate, including superseded beliefs, newest first. */
  recallHistory(subject: string, predicate: string): Promise<ReadonlyArray<RetainedBelief>>
  /** Replaces the belief's object (the third part of subject, predicate, object). */
  revise(id: MemoryId, object: string, reason: string): Promise<RetainedBelief>
  /** Stores the belief `by` in place of the belief `id`. The old belief is kept, and is marked as superseded. */
  supersede(id: MemoryId, by: Belief, reason: string): Promise<RetainedBelief>
  /** Raises the confidence by half of its distance to 1. */
  reinforce(id: MemoryId, reason: string): Promise<RetainedBelief>
  /** Halves the confidence. */
  weaken(id: MemoryId, reason: string): Promise<RetainedBelief>
  /** Stores the outcome of a task. The same batch weakens the beliefs that the outcome corrects. Returns the weakened beliefs. */
  applyHindsight(hindsight: HindsightRecord): Promise<ReadonlyArray<RetainedBelief>>
  getHindsightRecords(taskId: string): Promise<ReadonlyArray<BeliefMemory.Hindsight>>
  /** Stores a hypothesis, with the ids of the beliefs that match the hypothesis best. */
  createCounterfactual(hypothesis: string, taskContext?: string): Promise<Counterfactual>
  /** Stores the actual outcome of a hypothesis. */
  validateCounterfactual(id: MemoryId, actual: ReadonlyArray<string>): Promise<BeliefMemory.Counterfactual>
  /** Returns the stored revisions of a belief, including the current one: at most 20, newest first. */
  getRevisions(id: MemoryId): Promise<ReadonlyArray<RetainedBelief>>
  /** Returns the changes of a belief with their reasons, oldest first. */
  getUpdateHistory(id: MemoryId): Promise<ReadonlyArray<Payload.Audited>>
  getStats(): Promise<BeliefMemoryStats>
  /** Forgets the beliefs that were superseded before `olderThan`, in epoch milliseconds. Returns the number of these beliefs. */
  pruneSuperseded(olderThan: number): Promise<number>
}

/** Makes the memory of beliefs for one viewer. */
export const toBeliefMemory = (memory: BeliefMemory.Service, viewer: Viewer.Any, run: Run): IBeliefMemory => {
  const scope = Viewer.scopeOf(viewer)
  const toBelief = ({ data: { audit: _, ...data }, record }: Typed<BeliefMemory.Belief>): RetainedBelief => ({
    ...data,
    beliefId: record.id,
    confidence: BeliefMemory.levelOf(record.confidence ?? BeliefMemory.confidenceOf.medium),
    version: record.revision,
    superseded: record.supersededBy !== undefined,
    supersededBy: record.supersededBy
  })
  const toDraft = ({ confidence, ...data }: Belief) => ({
    ...{ scope, body: "", confidence: BeliefMemory.confidenceOf[confidence], data }
  })
  const one = <E>(self: Effect.Effect<Typed<BeliefMemory.Belief>, E>) => run(Effect.map(self, toBelief))
  const all = <E>(self: Effect.Effect<ReadonlyArray<Typed<BeliefMemory.Belief>>, E>) =>
    run(Effect.map(self, (all) => all.map(toBelief)))
  const query = (asked: BeliefQuery) => all(memory.query(viewer, asked))
  return {
    retain: (belief) => one(memory.retain(viewer, toDraft(belief))),
    recall: (id) =>
      run(Effect.map(memory.recall(viewer, id), (found) => Option.getOrNull(Option.map(found, toBelief)))),
    query,
    recallCurrent: async (subject, predicate) =>
      (await query({ subject, predicate, orderBy: "updatedAt", limit: 1 }))[0] ?? null,
    recallHistory: (subject, predicate) => query({ subject, predicate, includeSuperseded: true, orderBy: "createdAt" }),
    revise: (id, object, reason) => one(memory.revise(viewer, id, { object }, { reason })),
    supersede: (id, by, reason) => one(memory.supersede(viewer, id, toDraft(by), { reason })),
    reinforce: (id, reason) => one(memory.reinforce(viewer, id, 0.5, { reason })),
    weaken: (id, reason) => one(memory.weaken(viewer, id, 0.5, { reason })),
    applyHindsight: (data) =>
      all(Effect.map(memory.applyHindsight(viewer, { scope, body: "", data }), ({ corrected }) => corrected)),
    getHindsightRecords: (taskId) =>
      run(Effect.map(memory.hindsights(viewer, taskId), (all) => all.map(({ data }) => data))),
    createCounterfactual: (hypothesis, taskContext) =>
      run(Effect.map(
        memory.createCounterfactual(viewer, { scope, body: hypothesis, data: definedFields({ taskId: taskContext }) }),
        ({ data, record }) => ({ ...data, counterfactualId: record.id })
      )),
    validateCounterfactual: (id, actual) =>
      run(Effect.map(memory.validateCounterfactual(viewer, id, actual), ({ data }) => data)),
    getRevisions: (id) => all(memory.history(viewer, id)),
    getUpdateHistory: (id) => run(memory.audit(viewer, id)),
    getStats: () => run(memory.statistics(viewer)),
    pruneSuperseded: (olderThan) => run(memory.pruneSuperseded(viewer, olderThan))
  }
}
