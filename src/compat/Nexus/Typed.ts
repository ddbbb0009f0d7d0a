/** The typed memories of nexus-agents: identity, episodes, facts, procedures, resources and the knowledge vault. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { importanceOf, MemoryRecord } from "../../domain/MemoryRecord.ts"
import { definedFields } from "../../domain/Payload.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type * as CoreMemory from "../../kinds/CoreMemory.ts"
import type * as KnowledgeVault from "../../kinds/KnowledgeVault.ts"
import * as ProceduralMemory from "../../kinds/ProceduralMemory.ts"
import type * as ResourceMemory from "../../kinds/ResourceMemory.ts"
import type * as SemanticMemory from "../../kinds/SemanticMemory.ts"
import type * as TaskMemory from "../../kinds/TaskMemory.ts"
import type { Typed } from "../../kinds/TypedMemory.ts"
import type { Run } from "../Promises.ts"
import { idOf } from "./Names.ts"

/** A level of importance. The levels have these numbers: `critical` 1, `high` .75, `medium` .5, `low` .25. */
export type MemoryImportance = keyof typeof importanceOf

/** The identity of an agent, with its system prompt. */
export interface CoreMemoryData extends CoreMemory.Identity {
  readonly systemPrompt?: string | undefined
}

/** The memory of an agent's identity. Viewers that see the scope `{ agentId }` share one identity. Any other viewer has its own. */
export interface ICoreMemory {
  getIdentity(): Promise<CoreMemoryData | null>
  /** Replaces the whole identity. If `systemPrompt` is absent, the stored system prompt is kept. */
  setIdentity(identity: CoreMemoryData): Promise<void>
  /** Returns the constraints of the identity. The list is empty if there is no identity. */
  getConstraints(): Promise<ReadonlyArray<string>>
  /** Replaces the constraints. Rejects with `not_found` if there is no identity. */
  updateConstraints(constraints: ReadonlyArray<string>): Promise<void>
}

/** Makes the memory of an identity for one viewer. */
export const toCoreMemory = (memory: CoreMemory.Service, viewer: Viewer.Any, run: Run): ICoreMemory => ({
  getIdentity: () =>
    run(
      Effect.map(memory.getIdentity(viewer), (found) =>
        Option.getOrNull(Option.map(found, ({ data, record }) => ({ ...data, systemPrompt: record.body }))))
    ),
  setIdentity: ({ systemPrompt, ...identity }) =>
    run(Effect.asVoid(memory.setIdentity(viewer, identity, systemPrompt))),
  getConstraints: () => run(memory.getConstraints(viewer)),
  updateConstraints: (constraints) => run(Effect.asVoid(memory.updateConstraints(viewer, constraints)))
})

/** A task that was attempted, and its outcome. */
export interface Episode {
  readonly taskId?: string | undefined
  readonly taskDescription: string
  readonly taskType: string
  readonly outcome: string
  readonly success: boolean
  /** Time of the episode, epoch milliseconds. Default now. A time of 0 means 1970, not a missing time. */
  readonly timestamp?: number | undefined
}

/** Conditions of a query for episodes. A time of 0 means 1970, not a missing time; a limit of 0 is rejected. */
export type EpisodeQuery = TaskMemory.EpisodeQuery

/** The memory of task episodes. */
export interface IEpisodicMemory {
  recordEpisode(episode: Episode): Promise<void>
  /** Returns matching episodes, latest first. `limit`: 1..1,000, default 20. */
  queryEpisodes(query: EpisodeQuery): Promise<ReadonlyArray<Episode>>
  /** Finds episodes that share a word with the task, best first. `limit`: default 20. */
  getSimilarEpisodes(taskDescription: string, limit?: number): Promise<ReadonlyArray<Episode>>
  /** Returns the episodes of failed tasks, latest first. `limit`: default 10. */
  getRecentFailures(limit?: number): Promise<ReadonlyArray<Episode>>
}

/** Makes the memory of task episodes for one viewer. */
export const toEpisodicMemory = (memory: TaskMemory.Service, viewer: Viewer.Any, run: Run): IEpisodicMemory => {
  const toEpisode = ({ data: { task }, record }: Typed<TaskMemory.TaskEpisode>): Episode => ({
    taskId: task.taskId,
    taskDescription: task.action,
    taskType: task.taskType ?? "",
    outcome: record.body,
    success: task.outcome === "success",
    timestamp: record.validAt
  })
  const episodes = <E>(self: Effect.Effect<ReadonlyArray<Typed<TaskMemory.TaskEpisode>>, E>) =>
    run(Effect.map(self, (all) => all.map(toEpisode)))
  return {
    recordEpisode: ({ outcome, success, taskDescription, taskId = "", taskType, timestamp }) =>
      run(Effect.asVoid(memory.recordEpisode(viewer, {
        scope: Viewer.scopeOf(viewer),
        body: outcome,
        validAt: timestamp,
        data: { task: { taskId, taskType, action: taskDescription, outcome: success ? "success" : "failure" } }
      }))),
    queryEpisodes: (query) => episodes(memory.queryEpisodes(viewer, query)),
    getSimilarEpisodes: (task, limit) => episodes(memory.getSimilarEpisodes(viewer, task, limit)),
    getRecentFailures: (limit) => episodes(memory.getRecentFailures(viewer, limit))
  }
}

/** A fact as subject, predicate and object, such as "Ada", "lives in", "Bern". */
export interface SemanticFact {
  /** The caller's own id, any text. */
  readonly factId: string
  readonly domain: string
  readonly subject: string
  readonly predicate: string
  readonly object: string
  /** Confidence, 0..1. */
  readonly confidence: number
  /** Time at which the validity of the fact ends, epoch milliseconds. Default: no end. */
  readonly validUntil?: number | undefined
}

/** A stored fact, with the id of its record. */
export interface StoredFact extends Omit<SemanticFact, "factId" | "domain" | "confidence"> {
  readonly id: MemoryId
  readonly domain: string | undefined
  readonly confidence: number | undefined
}

/** The memory of facts. */
export interface ISemanticMemory {
  storeFact(fact: SemanticFact): Promise<void>
  /** Returns all facts of a domain that are valid at `asOf`, epoch milliseconds. Default of `asOf`: now. */
  queryByDomain(domain: string, asOf?: number): Promise<ReadonlyArray<StoredFact>>
  /** Returns all facts about a subject that are valid now. */
  queryBySubject(subject: string): Promise<ReadonlyArray<StoredFact>>
  /** Finds at most 20 facts by words, best first. */
  searchFacts(text: string): Promise<ReadonlyArray<StoredFact>>
  /** Ends the validity of a fact now. Queries with an earlier `asOf` still find it. Rejects with `not_found` if no such fact exists. */
  invalidateFact(factId: string): Promise<void>
}

/** Makes the memory of facts for one viewer. */
export const toSemanticMemory = (memory: SemanticMemory.Service, viewer: Viewer.Any, run: Run): ISemanticMemory => {
  const facts = <E>(self: Effect.Effect<ReadonlyArray<Typed<SemanticMemory.Fact>>, E>) =>
    run(Effect.map(self, (all) => all.map(toFact)))
  const toFact = ({ data, record: { confidence, id, invalidAt } }: Typed<SemanticMemory.Fact>): StoredFact => ({
    ...{ domain: data.domain, subject: data.subject, predicate: data.predicate, object: data.object },
    ...{ id, confidence, validUntil: invalidAt }
  })
  return {
    storeFact: ({ confidence, factId, validUntil, ...data }) =>
      run(Effect.asVoid(memory.storeFact(viewer, {
        ...definedFields({ invalidAt: validUntil }),
        ...{ id: idOf("fact", viewer, factId), scope: Viewer.scopeOf(viewer), body: "", confidence, data }
      }))),
    queryByDomain: (domain, asOf) => facts(memory.queryByDomain(viewer, domain, { asOf })),
    queryBySubject: (subject) => facts(memory.queryBySubject(viewer, subject)),
    searchFacts: (text) => facts(memory.searchFacts(viewer, text)),
    invalidateFact: (factId) => run(Effect.asVoid(memory.invalidateFact(viewer, idOf("fact", viewer, factId))))
  }
}

/** A procedure: steps by which something is done. */
export interface Procedure extends Omit<ProceduralMemory.Procedure, "triggers" | "successes" | "executions"> {
  /** The caller's own id, any text. */
  readonly procedureId: string
  readonly description: string
  /** Phrases. `findProcedures(context)` returns the procedure if `context` contains one of these phrases. */
  readonly triggerConditions: ReadonlyArray<string>
}

/** A stored procedure. `id` is the id of its record. `successRate` is the share of successful executions, 0..1. */
export interface StoredProcedure extends Omit<Procedure, "procedureId"> {
  readonly id: MemoryId
  readonly successRate: number
  readonly executionCount: number
}

/** The memory of procedures. */
export interface IProceduralMemory {
  /** Stores a procedure. Its numbers of executions and successes start at 0. */
  storeProcedure(procedure: Procedure): Promise<void>
  /** Returns the procedures with a trigger phrase that occurs in `context`, highest success rate first. */
  findProcedures(context: string): Promise<ReadonlyArray<StoredProcedure>>
  /** Counts one execution, and one success if `success` is true. Concurrent calls are all counted. */
  updateSuccessRate(procedureId: string, success: boolean): Promise<void>
}

/** Makes the memory of procedures for one viewer. */
export const toProceduralMemory = (
  memory: ProceduralMemory.Service,
  viewer: Viewer.Any,
  run: Run
): IProceduralMemory => ({
  storeProcedure: ({ description, procedureId, triggerConditions, ...data }) =>
    run(Effect.asVoid(memory.storeProcedure(viewer, {
      ...{ id: idOf("procedure", viewer, procedureId), scope: Viewer.scopeOf(viewer), body: description },
      data: { ...data, triggers: triggerConditions, successes: 0, executions: 0 }
    }))),
  findProcedures: (context) =>
    run(
      Effect.map(memory.findProcedures(viewer, context), (all) =>
        all.map(({ data: { executions, name, steps, successes, triggers }, record }) => ({
          ...{ id: record.id, name, steps, description: record.body, triggerConditions: triggers },
          ...{ successRate: ProceduralMemory.successRate({ successes, executions }), executionCount: executions }
        })))
    ),
  updateSuccessRate: (procedureId, success) =>
    run(Effect.asVoid(memory.recordExecution(viewer, idOf("procedure", viewer, procedureId), success)))
})

/** A reference to something outside of memory, such as a file. */
export interface ResourceReference extends ResourceMemory.Resource {
  /** The caller's own id, any text. */
  readonly resourceId: string
  readonly name: string
}

/** The memory of resources. */
export interface IResourceMemory {
  store(resource: ResourceReference): Promise<void>
  /** Returns all resources of a type, newest first. */
  findByType(type: ResourceReference["type"]): Promise<ReadonlyArray<ResourceMemory.Resource>>
  /** Returns all resources whose location contains `location`, newest first. */
  findByLocation(location: string): Promise<ReadonlyArray<ResourceMemory.Resource>>
  /** Sets the time of the last use of a resource to the current time. */
  updateLastAccessed(resourceId: string): Promise<void>
  /** Finds resources by words, best first. `limit`: default 20. */
  search(text: string, limit?: number): Promise<ReadonlyArray<ResourceMemory.Resource>>
}

/** Makes the memory of resources for one viewer. */
export const toResourceMemory = (memory: ResourceMemory.Service, viewer: Viewer.Any, run: Run): IResourceMemory => {
  const resources = <E>(self: Effect.Effect<ReadonlyArray<Typed<ResourceMemory.Resource>>, E>) =>
    run(Effect.map(self, (all) => all.map(({ data }) => data)))
  return {
    store: ({ name, resourceId, ...data }) =>
      run(Effect.asVoid(memory.store(viewer, {
        ...{ id: idOf("resource", viewer, resourceId), scope: Viewer.scopeOf(viewer), summary: name, body: "", data }
      }))),
    findByType: (type) => resources(memory.findByType(viewer, type)),
    findByLocation: (location) => resources(memory.findByLocation(viewer, location)),
    updateLastAccessed: (resourceId) => run(memory.touch(viewer, idOf("resource", viewer, resourceId))),
    search: (text, limit) => resources(memory.search(viewer, text, limit))
  }
}

/** An entry to store in the knowledge vault. */
export interface VaultEntry extends KnowledgeVault.VaultEntry {
  /** The caller's own id, any text. */
  readonly vaultId: string
  readonly content: string
  readonly tags?: ReadonlyArray<string> | undefined
  /** Importance, 0..1. `importanceOf` has the number of each level of importance. Default .5. */
  readonly importance?: number | undefined
}

/** A stored entry of the knowledge vault, with the id of its record. */
export interface StoredVaultEntry extends Omit<VaultEntry, "vaultId"> {
  readonly id: MemoryId
}

/** The knowledge vault: a memory of insights, decisions and patterns. */
export interface IKnowledgeVault {
  store(entry: VaultEntry): Promise<void>
  /** Returns all entries of a category, newest first. */
  findByCategory(category: VaultEntry["category"]): Promise<ReadonlyArray<StoredVaultEntry>>
  /** Returns all entries whose importance is at least `minImportance`, 0..1, newest first. */
  findByImportance(minImportance: number): Promise<ReadonlyArray<StoredVaultEntry>>
  /** Finds entries by words, best first. Archived entries are included. `limit`: default 20. */
  search(text: string, limit?: number): Promise<ReadonlyArray<StoredVaultEntry>>
  /** Sets the category of an entry to `archive`. */
  archive(vaultId: string): Promise<void>
}

/** Makes the knowledge vault for one viewer. */
export const toKnowledgeVault = (memory: KnowledgeVault.Service, viewer: Viewer.Any, run: Run): IKnowledgeVault => {
  const toEntry = (
    data: KnowledgeVault.VaultEntry,
    { body, id, importance, tags }: MemoryRecord
  ): StoredVaultEntry => ({
    ...{ id, category: data.category, title: data.title, content: body, importance, tags }
  })
  const entries = <E>(self: Effect.Effect<ReadonlyArray<Typed<KnowledgeVault.VaultEntry>>, E>) =>
    run(Effect.map(self, (all) => all.map(({ data, record }) => toEntry(data, record))))
  return {
    store: ({ content, importance, tags, vaultId, ...data }) =>
      run(Effect.asVoid(memory.store(viewer, {
        ...definedFields({ importance, tags }),
        ...{ id: idOf("vault", viewer, vaultId), scope: Viewer.scopeOf(viewer), body: content, data }
      }))),
    findByCategory: (category) => entries(memory.findByCategory(viewer, category)),
    findByImportance: (minImportance) => entries(memory.findByImportance(viewer, minImportance)),
    search: (text, limit) => entries(memory.search(viewer, text, limit)),
    archive: (vaultId) => run(Effect.asVoid(memory.archive(viewer, idOf("vault", viewer, vaultId))))
  }
}
