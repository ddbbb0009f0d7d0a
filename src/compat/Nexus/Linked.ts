/** Four memories of nexus-agents: the graph of entities, retrieval by priority, linked notes (A-MEM), and sessions. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import { definedFields } from "../../domain/Payload.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type * as AdaptiveMemory from "../../kinds/AdaptiveMemory.ts"
import type * as AgenticMemory from "../../kinds/AgenticMemory.ts"
import type * as GraphMemory from "../../kinds/GraphMemory.ts"
import type * as SessionMemory from "../../kinds/SessionMemory.ts"
import type { Typed } from "../../kinds/TypedMemory.ts"
import type { Run } from "../Promises.ts"
import { idOf } from "./Names.ts"

/** A node of the graph. */
export interface Entity {
  /** The caller's own id, any text. A `Relationship` refers to the entity by this id. */
  readonly id: string
  /** Name of the entity. Default: its id. */
  readonly name?: string | undefined
  /** Type of the entity. Default `thing`. */
  readonly type?: string | undefined
  readonly properties?: GraphMemory.Entity["properties"]
}

/** A typed connection from one entity to another. `source` and `target` are the ids of the two entities. */
export interface Relationship {
  readonly source: string
  readonly target: string
  readonly type: string
  /** Strength, 0..1. Default 1. */
  readonly weight?: number | undefined
}

/** The memory of entities and their relationships. A method that finds entities returns names, not ids. */
export interface IGraphMemory {
  addEntity(entity: string | Entity): Promise<void>
  /**
   * Adds a relationship, or sets the weight of an existing relationship with the same source, target and type. Rejects with `not_found` if
   * one of the two entities does not exist.
   */
  addRelationship(relationship: Relationship): Promise<void>
  /** Removes a relationship. Returns whether it existed. */
  removeRelationship(relationship: Relationship): Promise<boolean>
  /** Returns the relationships of an entity, greatest weight first. Their `from` and `to` are record ids, not the caller's ids. */
  getRelationships(
    id: string,
    options?: Omit<GraphMemory.Traversal, "maxDepth">
  ): Promise<ReadonlyArray<GraphMemory.Relationship>>
  /** Returns at most 100 direct neighbours of entity `id`, in either direction. With `type`, follows only relationships of this type. */
  getRelatedEntities(id: string, type?: string): Promise<ReadonlyArray<string>>
  /** Returns the entities reachable over at most `maxDepth` relationships (1..5, default 2), nearest first. */
  traverse(id: string, options?: GraphMemory.Traversal): Promise<ReadonlyArray<string>>
  /**
   * Returns the types of the relationships on a shortest path. By default, relationships are followed in either direction. Returns `null`
   * if there is no path. Rejects with `unsupported` if the search stops at `maxVisits`.
   */
  findPath(from: string, to: string, options?: GraphMemory.PathSearch): Promise<ReadonlyArray<string> | null>
  /** Follows relationships from source to target. Step n follows the n-th of `types`. Returns the entities that the last step reaches. */
  queryByPath(id: string, types: ReadonlyArray<string>): Promise<ReadonlyArray<string>>
}

/** Makes the graph for one viewer. */
export const toGraphMemory = (memory: GraphMemory.Service, viewer: Viewer.Any, run: Run): IGraphMemory => {
  const at = (id: string) => idOf("entity", viewer, id)
  const names = <E>(self: Effect.Effect<ReadonlyArray<Typed<GraphMemory.Entity>>, E>) =>
    run(Effect.map(self, (all) => all.map(({ data }) => data.name)))
  return {
    addEntity: (entity) => {
      const { id, name = id, properties, type = "thing" } = typeof entity === "string" ? { id: entity } : entity
      const data = { name, type, ...definedFields({ properties }) }
      return run(Effect.asVoid(memory.addEntity(viewer, { id: at(id), scope: Viewer.scopeOf(viewer), body: "", data })))
    },
    addRelationship: ({ source, target, type, weight = 1 }) =>
      run(memory.relate(viewer, { from: at(source), to: at(target), type, weight })),
    removeRelationship: ({ source, target, type }) =>
      run(memory.unrelate(viewer, { from: at(source), to: at(target), type })),
    getRelationships: (id, options) => run(memory.relationships(viewer, at(id), options)),
    getRelatedEntities: (id, type) =>
      names(memory.traverse(viewer, at(id), { maxDepth: 1, ...(type !== undefined && { types: [type] }) })),
    traverse: (id, options) => names(memory.traverse(viewer, at(id), options)),
    findPath: (from, to, options) =>
      run(
        Effect.map(memory.findPath(viewer, at(from), at(to), options), (found) =>
          Option.getOrNull(Option.map(found, (path) => path.map(({ type }) => type))))
      ),
    queryByPath: (id, types) => names(memory.queryByPath(viewer, at(id), types))
  }
}

/** Conditions and weights of `retrieve`. `halfLife` replaces the `recencyDecay` of nexus-agents. `minScore` is inclusive. */
export type RetrievalOptions = Omit<AdaptiveMemory.PriorityQuery, "text">

/** A memory with its priority, 0..1, and the components of the priority. */
export interface MemoryItem {
  readonly id: MemoryId
  readonly text: string
  readonly score: number
  readonly components: AdaptiveMemory.Priority
}

/** Retrieval by priority, the weighted mean of recency, importance and relevance. */
export interface IAdaptiveMemory {
  /** Returns the memories of any kind that meet the conditions, best first. `limit`: default 20. */
  retrieve(query: string, options?: RetrievalOptions): Promise<ReadonlyArray<MemoryItem>>
  /** Returns one memory with its priority. The component `relevance` depends on `query`, and is 1 without a query. */
  getPriorityScore(id: MemoryId, query?: string): Promise<MemoryItem>
  /** Sets the time of the last use of a memory to the current time. */
  touch(id: MemoryId): Promise<void>
}

/** Makes the retrieval by priority for one viewer. */
export const toAdaptiveMemory = (memory: AdaptiveMemory.Service, viewer: Viewer.Any, run: Run): IAdaptiveMemory => {
  const toItem = ({ components, record, score }: AdaptiveMemory.Prioritised): MemoryItem => ({
    ...{ id: record.id, text: record.body, score, components }
  })
  return {
    retrieve: (query, options = {}) =>
      run(Effect.map(memory.retrieve(viewer, { ...options, text: query }), (all) => all.map(toItem))),
    getPriorityScore: (id, query) =>
      run(Effect.map(memory.getPriorityScore(viewer, id, definedFields({ text: query })), toItem)),
    touch: (id) => run(memory.touch(viewer, id))
  }
}

/** A stored note and the attributes that were extracted from its text. */
export interface StoredNote {
  readonly id: MemoryId
  readonly text: string
  readonly keywords: ReadonlyArray<string>
  readonly semanticTags: ReadonlyArray<string>
  readonly entities: ReadonlyArray<string>
}

/** The memory of linked notes. */
export interface IAgenticMemory {
  /** Stores a note with its attributes. Returns suggestions: links of the note, and changes of older notes. No suggestion is applied. */
  storeWithAttributes(text: string): Promise<
    StoredNote & {
      readonly linkSuggestions: ReadonlyArray<AgenticMemory.LinkSuggestion>
      readonly evolution: ReadonlyArray<AgenticMemory.Evolution>
    }
  >
  /** Suggests notes to which this note could be linked, best first. */
  suggestLinks(id: MemoryId): Promise<ReadonlyArray<AgenticMemory.LinkSuggestion>>
  /**
   * Adds links, in both directions, between this note and each suggested note of similarity 0.7 or more. Returns these links, including
   * those that existed already.
   */
  linkRelatedMemories(id: MemoryId): Promise<ReadonlyArray<AgenticMemory.LinkSuggestion>>
  /**
   * Returns notes that share values of `attribute` with this note, most shared values first. Compares this note with at most 400 others.
   */
  findBySharedAttributes(
    id: MemoryId,
    attribute: "keywords" | "semanticTags" | "entities"
  ): Promise<ReadonlyArray<StoredNote>>
  /** Extracts the attributes of a note from its text again, and stores them. */
  refreshAttributes(id: MemoryId): Promise<StoredNote>
}

/** Makes the memory of linked notes for one viewer. */
export const toAgenticMemory = (memory: AgenticMemory.Service, viewer: Viewer.Any, run: Run): IAgenticMemory => {
  const toNote = (
    { data: { entities, keywords }, record: { body, id, tags } }: Typed<AgenticMemory.Note>
  ): StoredNote => ({
    ...{ id, text: body, keywords: keywords ?? [], semanticTags: tags, entities: entities ?? [] }
  })
  return {
    storeWithAttributes: (text) =>
      run(Effect.map(
        memory.store(viewer, { scope: Viewer.scopeOf(viewer), body: text }),
        (stored) => ({ ...toNote(stored), linkSuggestions: stored.suggestions, evolution: stored.evolution })
      )),
    suggestLinks: (id) => run(memory.suggestLinks(viewer, id)),
    linkRelatedMemories: (id) =>
      run(Effect.flatMap(memory.suggestLinks(viewer, id), (suggestions) => memory.link(viewer, id, suggestions))),
    findBySharedAttributes: (id, attribute) =>
      run(Effect.map(
        memory.findByShared(viewer, id, attribute === "semanticTags" ? "tags" : attribute),
        (all) => all.map(toNote)
      )),
    refreshAttributes: (id) => run(Effect.map(memory.refreshAttributes(viewer, id), toNote))
  }
}

/** A lesson that was learned in a session. */
export interface SessionLearning {
  readonly pattern: string
  readonly context?: string | undefined
  /** Confidence, 0..1. */
  readonly confidence: number
}

/** The approach that was taken to a task. */
export interface SessionTask {
  readonly approach: string
  readonly issue?: string | undefined
  readonly challenges?: ReadonlyArray<string> | undefined
  /** Duration in whole milliseconds. */
  readonly durationMs?: number | undefined
}

/** An error with its solution. */
export interface SessionError {
  readonly error: string
  readonly solution: string
  readonly filePattern?: string | undefined
}

/** The memory of sessions. One session runs at a time. Without a running session, `record…` and `endSession` reject with `unsupported`. */
export interface ISessionMemory {
  /**
   * Starts a session. Returns the most confident learnings of the last 10 sessions. Rejects with `unsupported` while a session is running,
   * and with `invalid_scope` if the viewer has another session id.
   */
  startSession(sessionId: string): Promise<ReadonlyArray<SessionLearning>>
  recordLearning(learning: SessionLearning): Promise<void>
  recordTask(task: SessionTask): Promise<SessionMemory.Learning>
  recordError(error: SessionError): Promise<SessionMemory.Learning>
  /** Ends the session with a summary. Returns the summary and the duration of the session. */
  endSession(summary: string): Promise<{ readonly summary: string; readonly durationMs: number | undefined }>
  /**
   * Finds at most 10 learnings, tasks, errors and summaries with any of the words, best first. Those of the running session are included.
   */
  searchLearnings(text: string): Promise<ReadonlyArray<string>>
  /** Returns the solutions of the last 10 recorded errors, newest first. */
  getRecentErrorSolutions(): Promise<ReadonlyArray<string | undefined>>
}

/** Makes the memory of sessions for one viewer. */
export const toSessionMemory = (memory: SessionMemory.Service, viewer: Viewer.Viewer, run: Run): ISessionMemory => {
  /** The running session and the Effect scope in which it lives; `"starting"` while it starts, and `undefined` if there is no session. */
  let running:
    | { readonly session: SessionMemory.Session; readonly scope: Scope.CloseableScope }
    | "starting"
    | undefined
  const refused = (message: string) => MemoryError.make("unsupported", { op: "session", message })
  const current = Effect.suspend(() =>
    running === undefined || running === "starting" ? refused("no session is running") : Effect.succeed(running)
  )
  const stopped = Effect.sync(() => {
    running = undefined
  })
  const start = (sessionId: string) =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const session = yield* Scope.extend(memory.start(viewer, sessionId), scope).pipe(
        Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
      )
      running = { session, scope }
      return session.loaded.map(({ data, record }) => ({
        ...data,
        ...{ pattern: record.summary, confidence: record.confidence ?? 0.5 }
      }))
    }).pipe(Effect.onError(() => stopped))
  return {
    startSession: (sessionId) =>
      run(Effect.suspend(() => {
        if (running !== undefined) return refused("a session is running")
        running = "starting"
        return start(sessionId)
      })),
    recordLearning: ({ confidence, context, pattern }) =>
      run(Effect.asVoid(
        Effect.flatMap(current, ({ session }) => session.recordLearning(pattern, { context, confidence }))
      )),
    recordTask: ({ approach, ...options }) =>
      run(Effect.map(
        Effect.flatMap(current, ({ session }) => session.recordTask(approach, options)),
        ({ data }) => data
      )),
    recordError: ({ error, filePattern, solution }) =>
      run(Effect.map(
        Effect.flatMap(current, ({ session }) => session.recordError(error, solution, { filePattern })),
        ({ data }) => data
      )),
    endSession: (summary) =>
      run(Effect.gen(function*() {
        const { scope, session } = yield* current
        const { data, record } = yield* session.end(summary)
        yield* stopped
        yield* Scope.close(scope, Exit.void)
        return { summary: record.body, durationMs: data.durationMs }
      })),
    searchLearnings: (text) =>
      run(Effect.map(memory.search(viewer, text), (all) => all.map(({ record }) => record.summary))),
    getRecentErrorSolutions: () =>
      run(Effect.map(memory.getRecentErrorSolutions(viewer), (all) => all.map(({ data }) => data.solution)))
  }
}
