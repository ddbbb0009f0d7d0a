/** Episodes about tasks: what was tried, and with what outcome. Their kind is `episodic`, like that of the episodes of conversations. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../domain/MemoryError.ts"
import { Limit, type MemoryFilter } from "../domain/MemoryFilter.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { importanceOf, Millis } from "../domain/MemoryRecord.ts"
import * as Payload from "../domain/Payload.ts"
import { check } from "../domain/Validation.ts"
import type * as Viewer from "../domain/Viewer.ts"
import type { MemoryStore } from "../storage/MemoryStore.ts"
import { type DraftOf, type Found, make as typed, type Typed, withNameAsSummary } from "./TypedMemory.ts"

/** Schema of the `data` of a task episode. */
export const TaskEpisode = Schema.Struct({ ...Payload.Episode.fields, task: Payload.Task })
/** The `data` of a task episode. */
export interface TaskEpisode extends Schema.Schema.Type<typeof TaskEpisode> {}

/** Schema of a query for task episodes. */
export const EpisodeQuery = Schema.Struct({
  /** Range of the episodes' `validAt`, epoch milliseconds: from `since` to `until`, both inclusive. */
  since: Schema.optional(Millis),
  until: Schema.optional(Millis),
  taskId: Schema.optional(Schema.String),
  taskType: Schema.optional(Schema.String),
  /** Outcome: `true` for success, `false` for failure or partial success. Default: any. */
  success: Schema.optional(Schema.Boolean),
  /** Largest number of episodes, 1..1,000. Default 20. */
  limit: Schema.optional(Limit)
})
/** Conditions on task episodes; all of them must be met. */
export interface EpisodeQuery extends Schema.Schema.Type<typeof EpisodeQuery> {}

/** Operations of `TaskMemory`. */
export interface Service {
  /** Stores an episode. Default `validAt`: now. Default summary: the task's action. Default importance: high for a failure, else medium. */
  readonly recordEpisode: (
    viewer: Viewer.Any,
    episode: DraftOf<TaskEpisode>
  ) => Effect.Effect<Typed<TaskEpisode>, MemoryError>
  /** Returns matching episodes, latest `validAt` first. Cost: reads all task episodes that the viewer sees. */
  readonly queryEpisodes: (
    viewer: Viewer.Any,
    query: EpisodeQuery
  ) => Effect.Effect<ReadonlyArray<Typed<TaskEpisode>>, MemoryError>
  /** Finds episodes by the words of the task, best first. Default `limit` 20. */
  readonly getSimilarEpisodes: (
    viewer: Viewer.Any,
    task: string,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Found<TaskEpisode>>, MemoryError>
  /** Returns the episodes with the outcome `failure`, latest `validAt` first. Default `limit` 10. */
  readonly getRecentFailures: (
    viewer: Viewer.Any,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Typed<TaskEpisode>>, MemoryError>
}

/** Tag of the service for task episodes. */
export class TaskMemory extends Context.Tag("@memory/TaskMemory")<TaskMemory, Service>() {}

type Where = NonNullable<MemoryFilter["where"]>

/** Makes the service over the `MemoryStore` in the context. */
export const make: Effect.Effect<Service, never, MemoryStore> = Effect.gen(function*() {
  const episodes = yield* typed({ ...MemoryKind.episodic, schema: TaskEpisode })

  const query = (op: string, viewer: Viewer.Any, episodeQuery: EpisodeQuery, outcome: Where[string] | undefined) =>
    Effect.gen(function*() {
      const { limit = 20, since, taskId, taskType, until } = yield* check(op, EpisodeQuery, episodeQuery)
      const where: Where = {
        ...isTask,
        ...(taskId !== undefined && { "data.task.taskId": { eq: taskId } }),
        ...(taskType !== undefined && { "data.task.taskType": { eq: taskType } }),
        ...(outcome !== undefined && { "data.task.outcome": outcome })
      }
      const after = until === undefined || until === Number.MAX_SAFE_INTEGER ? undefined : until + 1
      const validAt = { from: since, until: after }
      const all = yield* episodes.all(viewer, { where, validAt })
      return all.toSorted(latestFirst).slice(0, limit)
    }).pipe(Effect.withSpan(`TaskMemory.${op}`))

  return {
    recordEpisode: (viewer, episode) =>
      episodes.put(viewer, {
        ...withNameAsSummary(episode.data?.task?.action, episode),
        importance: episode.importance ?? importanceOf[episode.data?.task?.outcome === "failure" ? "high" : "medium"]
      }).pipe(Effect.withSpan("TaskMemory.recordEpisode")),
    queryEpisodes: (viewer, episodeQuery) =>
      query(
        "queryEpisodes",
        viewer,
        episodeQuery,
        episodeQuery.success === undefined
          ? undefined
          : episodeQuery.success
          ? { eq: "success" }
          : { in: ["failure", "partial"] }
      ),
    getSimilarEpisodes: (viewer, task, limit) =>
      episodes.search(viewer, { text: task, where: isTask, limit }).pipe(
        Effect.withSpan("TaskMemory.getSimilarEpisodes")
      ),
    getRecentFailures: (viewer, limit = 10) => query("getRecentFailures", viewer, { limit }, { eq: "failure" })
  }
})

/** Provides `TaskMemory` over a `MemoryStore`. */
export const layer: Layer.Layer<TaskMemory, never, MemoryStore> = Layer.effect(TaskMemory, make)

const isTask: Where = { "data.task": { exists: true } }

/** Orders episodes by `validAt`, latest first. Episodes of equal time keep their order, which is newest first. */
const latestFirst = (a: Typed<unknown>, b: Typed<unknown>): number => b.record.validAt - a.record.validAt
