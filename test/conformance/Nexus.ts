/** nexus-agents' memories over our kinds: promises, its names, ids and shapes. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { type MemoryId, stableId } from "../../src/domain/MemoryId.ts"
import { importanceOf } from "../../src/domain/MemoryRecord.ts"
import { definedFields } from "../../src/domain/Payload.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as AdaptiveMemory from "../../src/kinds/AdaptiveMemory.ts"
import * as BeliefMemory from "../../src/kinds/BeliefMemory.ts"
import * as GraphMemory from "../../src/kinds/GraphMemory.ts"
import * as SemanticMemory from "../../src/kinds/SemanticMemory.ts"
import * as SessionMemory from "../../src/kinds/SessionMemory.ts"
import * as TaskMemory from "../../src/kinds/TaskMemory.ts"
import type { Typed } from "../../src/kinds/TypedMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { rejection, type Run, running } from "./running.ts"

export const viewer = Viewer.make({ userId: "ada" })
const scope = { userId: "ada" }

/** All kinds over one store. */
export const layer = Layer.mergeAll(
  AdaptiveMemory.layer,
  BeliefMemory.layer,
  GraphMemory.layer,
  SemanticMemory.layer,
  SessionMemory.layer,
  TaskMemory.layer
)
export type Kinds = Layer.Layer.Success<typeof layer> | MemoryStore.MemoryStore

/** A promise that is rejected for this reason. */
export const refused = (reason: string, call: () => Promise<unknown>) =>
  Effect.map(rejection(call), (cause) => assert.deepInclude(cause, { reason }))

/** Laws of one of its memories, made anew over a new store for each. */
export const laws =
  <A>(name: string, make: Effect.Effect<(run: Run) => A, never, Kinds>) =>
  (title: string, check: (memory: A, store: MemoryStore.Service) => Effect.Effect<void, unknown>) =>
    it.effect(`${name}: ${title}`, () =>
      Effect.gen(function*() {
        yield* TestClock.setTime(1_000_000)
        yield* check((yield* make)(yield* running()), yield* MemoryStore.MemoryStore)
      }).pipe(Effect.provide(Layer.provideMerge(layer, MemoryStore.layerInMemory))))

export interface Episode {
  readonly taskId?: string
  readonly taskDescription: string
  readonly taskType: string
  readonly outcome: string
  readonly success: boolean
  readonly timestamp?: number
}

export const toEpisodicMemory = Effect.map(TaskMemory.TaskMemory, (memory) => (run: Run) => {
  const toEpisode = ({ data: { task }, record }: Typed<TaskMemory.TaskEpisode>): Episode => ({
    taskId: task.taskId,
    taskDescription: task.action,
    taskType: task.taskType ?? "",
    outcome: record.body,
    success: task.outcome === "success",
    timestamp: record.validAt
  })
  return {
    recordEpisode: ({ outcome, success, taskDescription, taskId = "", taskType, timestamp }: Episode): Promise<void> =>
      run(Effect.asVoid(memory.recordEpisode(viewer, {
        scope,
        body: outcome,
        validAt: timestamp,
        data: { task: { taskId, taskType, action: taskDescription, outcome: success ? "success" : "failure" } }
      }))),
    queryEpisodes: (query: TaskMemory.EpisodeQuery): Promise<ReadonlyArray<Episode>> =>
      run(Effect.map(memory.queryEpisodes(viewer, query), (all) => all.map(toEpisode))),
    getSimilarEpisodes: (task: string, limit: number): Promise<ReadonlyArray<Episode>> =>
      run(Effect.map(memory.getSimilarEpisodes(viewer, task, limit), (all) => all.map(toEpisode))),
    getRecentFailures: (): Promise<ReadonlyArray<Episode>> =>
      run(Effect.map(memory.getRecentFailures(viewer), (all) => all.map(toEpisode)))
  }
})

export interface SemanticFact {
  readonly factId: string
  readonly domain: string
  readonly subject: string
  readonly predicate: string
  readonly object: string
  readonly confidence: number
  readonly validUntil?: number
}

export const toSemanticMemory = Effect.map(SemanticMemory.SemanticMemory, (memory) => (run: Run) => {
  const toFact = ({ data, record }: Typed<SemanticMemory.Fact>) => ({ ...data, validUntil: record.invalidAt })
  return {
    storeFact: ({ confidence, factId, validUntil, ...data }: SemanticFact) =>
      run(Effect.asVoid(memory.storeFact(viewer, {
        ...definedFields({ invalidAt: validUntil }),
        ...{ id: stableId(factId), scope, body: "", confidence, data }
      }))),
    queryByDomain: (domain: string, asOf?: number) =>
      run(Effect.map(memory.queryByDomain(viewer, domain, { asOf }), (all) => all.map(toFact))),
    queryBySubject: (subject: string) =>
      run(Effect.map(memory.queryBySubject(viewer, subject), (all) => all.map(toFact))),
    searchFacts: (text: string) => run(Effect.map(memory.searchFacts(viewer, text), (all) => all.map(toFact))),
    invalidateFact: (factId: string) => run(memory.invalidateFact(viewer, stableId(factId)))
  }
})

export interface Relationship {
  readonly source: string
  readonly target: string
  readonly type: string
  readonly weight?: number
}

export const toGraphMemory = Effect.map(GraphMemory.GraphMemory, (memory) => (run: Run) => {
  const names = (all: ReadonlyArray<Typed<GraphMemory.Entity>>) => all.map(({ data }) => data.name)
  return {
    addEntity: (name: string) =>
      run(Effect.asVoid(memory.addEntity(viewer, {
        ...{ id: stableId(name), scope, body: "", data: { name, type: "thing" } }
      }))),
    addRelationship: ({ source, target, type, weight = 1 }: Relationship) =>
      run(memory.relate(viewer, { from: stableId(source), to: stableId(target), type, weight })),
    removeRelationship: ({ source, target, type }: Relationship) =>
      run(memory.unrelate(viewer, { from: stableId(source), to: stableId(target), type })),
    getRelationships: (name: string, options?: GraphMemory.Traversal) =>
      run(memory.relationships(viewer, stableId(name), options)),
    getRelatedEntities: (name: string, type?: string) =>
      run(Effect.map(
        memory.traverse(viewer, stableId(name), { maxDepth: 1, ...(type !== undefined && { types: [type] }) }),
        names
      )),
    traverse: (name: string, options?: GraphMemory.Traversal) =>
      run(Effect.map(memory.traverse(viewer, stableId(name), options), names)),
    findPath: (from: string, to: string, options?: GraphMemory.PathSearch) =>
      run(
        Effect.map(memory.findPath(viewer, stableId(from), stableId(to), options), (found) =>
          Option.getOrNull(Option.map(found, (path) => path.map(({ type }) => type))))
      ),
    queryByPath: (name: string, path: ReadonlyArray<string>) =>
      run(Effect.map(memory.queryByPath(viewer, stableId(name), path), names))
  }
})

export type Level = keyof typeof importanceOf

export const toAdaptiveMemory = Effect.map(AdaptiveMemory.AdaptiveMemory, (memory) => (run: Run) => ({
  retrieve: (query: string, options: Omit<AdaptiveMemory.PriorityQuery, "text"> = {}) =>
    run(
      Effect.map(memory.retrieve(viewer, { ...options, text: query }), (all) =>
        all.map(({ components, record, score }) => ({ text: record.body, score, components })))
    ),
  touch: (id: MemoryId) => run(memory.touch(viewer, id))
}))

/** One session at a time, as nexus-agents has it; `end` closes the scope that ours is a resource of. */
export const toSessionMemory = Effect.map(SessionMemory.SessionMemory, (memory) => (run: Run) => {
  let running: { readonly session: SessionMemory.Session; readonly scope: Scope.CloseableScope } | undefined
  const current = (): SessionMemory.Session => {
    if (running === undefined) throw new Error("no session")
    return running.session
  }
  return {
    startSession: async (id: string) => {
      if (running !== undefined) throw new Error("a session is running")
      const scope = await run(Scope.make())
      const session = await run(Scope.extend(memory.start(viewer, id), scope))
      running = { session, scope }
      return session.loaded.map(({ data, record }) => ({
        pattern: record.summary,
        confidence: record.confidence,
        ...data
      }))
    },
    recordLearning: async ({ confidence, context, pattern }: {
      readonly pattern: string
      readonly context?: string
      readonly confidence: number
    }) => {
      await run(current().recordLearning(pattern, { context, confidence }))
    },
    recordTask: async ({ approach, ...options }: {
      readonly approach: string
      readonly issue?: string
      readonly challenges?: ReadonlyArray<string>
      readonly durationMs?: number
    }) => (await run(current().recordTask(approach, options))).data,
    recordError: async ({ error, filePattern, solution }: {
      readonly error: string
      readonly solution: string
      readonly filePattern?: string
    }) => (await run(current().recordError(error, solution, { filePattern }))).data,
    endSession: async (summary: string) => {
      const { data, record } = await run(current().end(summary))
      await run(Scope.close(running!.scope, Exit.void)) // `current` found it
      running = undefined
      return { summary: record.body, durationMs: data.durationMs }
    },
    searchLearnings: async (text: string) =>
      (await run(memory.search(viewer, text))).map(({ record }) => record.summary),
    getRecentErrorSolutions: async () =>
      (await run(memory.getRecentErrorSolutions(viewer))).map(({ data }) => data.solution)
  }
})

export type BeliefId = MemoryId
export const beliefId = (name: string): BeliefId => stableId(name)

export interface Belief {
  readonly subject: string
  readonly predicate: string
  readonly object: string
  readonly confidence: BeliefMemory.Level
  readonly sourceType: BeliefMemory.Belief["sourceType"]
  readonly domain?: string
}

export const toBeliefMemory = Effect.map(BeliefMemory.BeliefMemory, (memory) => (run: Run) => {
  const toBelief = ({ data: { audit: _, ...data }, record }: Typed<BeliefMemory.Belief>) => ({
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
  const changed = <A extends BeliefMemory.Belief>(self: Effect.Effect<Typed<A>, unknown>) =>
    run(Effect.map(self, toBelief))
  const query = (asked: BeliefMemory.BeliefQuery) =>
    run(Effect.map(memory.query(viewer, asked), (all) => all.map(toBelief)))
  return {
    retain: (belief: Belief) => changed(memory.retain(viewer, toDraft(belief))),
    recall: (id: MemoryId) =>
      run(Effect.map(memory.recall(viewer, id), (found) => Option.getOrNull(Option.map(found, toBelief)))),
    query,
    recallCurrent: async (subject: string, predicate: string) =>
      (await query({ subject, predicate, orderBy: "updatedAt", limit: 1 }))[0] ?? null,
    recallHistory: (subject: string, predicate: string) =>
      query({ subject, predicate, includeSuperseded: true, orderBy: "createdAt" }),
    revise: (id: MemoryId, object: string, reason: string) =>
      changed(memory.revise(viewer, id, { object }, { reason })),
    supersede: (id: MemoryId, by: Belief, reason: string) =>
      changed(memory.supersede(viewer, id, toDraft(by), { reason })),
    reinforce: (id: MemoryId, reason: string) => changed(memory.reinforce(viewer, id, 0.5, { reason })),
    weaken: (id: MemoryId, reason: string) => changed(memory.weaken(viewer, id, 0.5, { reason })),
    applyHindsight: (data: Omit<BeliefMemory.Hindsight, "trigger" | "beliefMemory">) =>
      run(
        Effect.map(memory.applyHindsight(viewer, { scope, body: "", data }), ({ corrected }) => corrected.map(toBelief))
      ),
    getHindsightRecords: (taskId: string) =>
      run(Effect.map(memory.hindsights(viewer, taskId), (all) => all.map(({ data }) => data))),
    createCounterfactual: (hypothesis: string, taskContext?: string) =>
      run(Effect.map(
        memory.createCounterfactual(viewer, { scope, body: hypothesis, data: definedFields({ taskId: taskContext }) }),
        ({ data, record }) => ({ ...data, counterfactualId: record.id })
      )),
    validateCounterfactual: (id: MemoryId, actual: ReadonlyArray<string>) =>
      run(Effect.map(memory.validateCounterfactual(viewer, id, actual), ({ data }) => data)),
    getRevisions: (id: MemoryId) => run(Effect.map(memory.history(viewer, id), (all) => all.map(toBelief))),
    getUpdateHistory: (id: MemoryId) => run(memory.audit(viewer, id)),
    getStats: () => run(memory.statistics(viewer)),
    pruneSuperseded: (olderThan: number) => run(memory.pruneSuperseded(viewer, olderThan))
  }
})
