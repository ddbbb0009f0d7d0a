/** The place where `EpisodicMemory` stores and finds episodes and reflections: a `MemoryStore` or an adapter. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../../domain/MemoryError.ts"
import { Limit, type MemoryFilter, type SearchResult } from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import * as MemoryKind from "../../domain/MemoryKind.ts"
import { deriveSummary } from "../../domain/MemoryRecord.ts"
import type { Episode, Reflection } from "../../domain/Payload.ts"
import { check, invalid } from "../../domain/Validation.ts"
import * as Viewer from "../../domain/Viewer.ts"
import * as Embedder from "../../host/Embedder.ts"
import * as Redaction from "../../host/Redaction.ts"
import * as EmbeddingSync from "../../storage/EmbeddingSync.ts"
import { MemoryStore } from "../../storage/MemoryStore.ts"
import * as TypedMemory from "../TypedMemory.ts"

/** A query for episodes. Only episodes that meet all conditions count towards `limit`. */
export interface RecallQuery {
  /** Id of the person with whom the agent talked, that is, the `actorId` of an episode's scope. Default: any person. */
  readonly sourceEntity?: string | undefined
  /**
   * Words, at least one of which must occur in the summary, the body or a tag of an episode. The default summary is the beginning of the
   * episode's context. Default: any episode.
   */
  readonly context?: string | undefined
  /** Largest number of episodes, 1..1,000, default 20. */
  readonly limit?: number | undefined
  readonly minImportance?: number | undefined
  /** Range of the episodes' times, epoch milliseconds: `from` inclusive, `until` exclusive. */
  readonly timeRange?: { readonly from?: number | undefined; readonly until?: number | undefined } | undefined
  /** Types of the episodes. An episode without a type counts as a `chat_message`. Default: all types. */
  readonly type?: string | ReadonlyArray<string> | undefined
  /** Range of the emotion's valence, −1..1, both ends inclusive. */
  readonly valenceRange?: readonly [min: number, max: number] | undefined
}

/** Options of a search for episodes by meaning. */
export interface SemanticRecallOptions {
  /** Largest number of episodes, 1..1,000, default 5. */
  readonly topK?: number | undefined
  readonly minScore?: number | undefined
  readonly minImportance?: number | undefined
  readonly sourceEntity?: string | undefined
  readonly type?: string | ReadonlyArray<string> | undefined
}

/** A query for episodes. With `events: true` and no `type`, the query selects only episodes whose type is not `chat_message`. */
export interface EpisodeQuery extends RecallQuery {
  readonly events?: boolean | undefined
}

/** Stores and finds episodes and reflections. */
export interface Source {
  readonly saveEpisode: (
    viewer: Viewer.Any,
    draft: TypedMemory.DraftOf<Episode>
  ) => Effect.Effect<TypedMemory.Typed<Episode>, MemoryError>
  /** Returns matching episodes, newest first. */
  readonly episodes: (
    viewer: Viewer.Any,
    query: EpisodeQuery
  ) => Effect.Effect<ReadonlyArray<TypedMemory.Typed<Episode>>, MemoryError>
  /** Finds episodes by meaning, best first. */
  readonly semantic: (
    viewer: Viewer.Any,
    text: string,
    options: SemanticRecallOptions
  ) => Effect.Effect<Semantic, MemoryError>
  readonly getByIds: (
    viewer: Viewer.Any,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<TypedMemory.Typed<Episode>>, MemoryError>
  readonly saveReflection: (
    viewer: Viewer.Any,
    draft: TypedMemory.DraftOf<Reflection>
  ) => Effect.Effect<TypedMemory.Typed<Reflection>, MemoryError>
  /** Returns reflections, newest first. */
  readonly reflections: (
    viewer: Viewer.Any,
    limit: number
  ) => Effect.Effect<ReadonlyArray<TypedMemory.Typed<Reflection>>, MemoryError>
}

/** The results of a search by meaning, and the parts of the search that failed. */
export interface Semantic {
  readonly found: ReadonlyArray<TypedMemory.Found<Episode>>
  readonly failures: SearchResult["failures"]
}

/** Type of a chat message. An episode without a type counts as a chat message. */
export const talk = "chat_message"

/** A query reads at most this many episodes, those stored or changed last. `Retention` keeps at most this many episodes in a scope. */
export const window = 1_000

/** Makes a source over the `MemoryStore` in the context. Embeds episodes if the context has an `Embedder`. */
export const fromStore: Effect.Effect<Source, never, MemoryStore> = Effect.gen(function*() {
  const store = yield* MemoryStore
  const episodes = yield* TypedMemory.make(MemoryKind.episodic)
  const reflections = yield* TypedMemory.make(MemoryKind.reflection)
  const redaction = yield* Redaction.over(store)
  const embedder = yield* Effect.serviceOption(Embedder.Embedder)
  const embedding = Option.map(
    embedder,
    (embedder) => EmbeddingSync.make(store, Redaction.embedder(redaction, embedder))
  ).pipe(
    Option.filter(({ active }) => active)
  )

  const semantic = (viewer: Viewer.Any, text: string, options: SemanticRecallOptions) =>
    Effect.gen(function*() {
      const { minScore, topK = 5, ...rest } = options
      const query = { ...(yield* filterOf("semanticRecall", rest)), text, minScore, limit: topK }
      const isEmbedded = Option.isSome(embedding) && typeof text === "string" // the search refuses a text that is no string
      const made = isEmbedded ? yield* Effect.either(embedding.value.query(text)) : undefined
      const found = yield* episodes.search(viewer, {
        ...query,
        ...(made?._tag === "Right" && { embedding: made.right })
      })
      return { found, failures: made?._tag === "Left" ? [{ leg: "vector", error: made.left }] : [] }
    })

  return {
    saveEpisode: (viewer, draft) =>
      Effect.tap(
        episodes.put(viewer, named(draft)),
        ({ record }) =>
          Option.isNone(embedding) ? Effect.void : Effect.catchAll(
            embedding.value.keep(Viewer.tenantOf(viewer), [record], "add"),
            (error) => Effect.logWarning("an episode has no vector yet", error)
          )
      ),
    episodes: (viewer, { context, limit = 20, ...query }) =>
      Effect.gen(function*() {
        yield* check("recall", LimitArgs, { limit })
        const filter = { ...(yield* filterOf("recall", query)), limit: window }
        const all = context === undefined || context === ""
          ? yield* episodes.list(viewer, filter)
          : yield* episodes.search(viewer, { ...filter, text: context, mode: "lexical", weights: byTimeAlone })
        return newest(all, limit)
      }),
    semantic,
    getByIds: (viewer, ids) =>
      Effect.map(Effect.forEach(ids, (id) => episodes.get(viewer, id)), (all) => all.flatMap(Option.toArray)),
    saveReflection: reflections.put,
    reflections: (viewer, limit) =>
      check("getReflections", LimitArgs, { limit }).pipe(
        Effect.zipRight(reflections.list(viewer, { limit: window, where: ofTurns })),
        Effect.map((all) => newest(all, limit))
      )
  }
})

const LimitArgs = Schema.Struct({ limit: Limit })

/** Condition that excludes the hindsights and counterfactuals, which `BeliefMemory` also stores as reflections. */
const ofTurns = { "data.beliefMemory": { exists: false } }

/**
 * Weights that order matches by the time of their last change. `ranker: 0` excludes messages without the query's words, such as those near
 * a match.
 */
const byTimeAlone = { lexical: 0, conversation: 0, ranker: 0, recency: 1 }

const typesOf = (type: RecallQuery["type"] = []): ReadonlyArray<string> => typeof type === "string" ? [type] : type

/** Whether the types of a query include `chat_message`. An episode without a type counts as a chat message. */
export const asksForTalk = (type: RecallQuery["type"]): boolean => typesOf(type).includes(talk)

/**
 * Makes the filter for a query, without the query's words and limit. Fails with `invalid_draft` if `type` is an empty list or
 * `valenceRange` exceeds −1..1.
 */
export const filterOf = (
  op: string,
  { events, minImportance, sourceEntity, timeRange, type, valenceRange }: Omit<EpisodeQuery, "context" | "limit">
): Effect.Effect<Pick<MemoryFilter, "minImportance" | "validAt" | "where">, MemoryError> => {
  const [first, ...rest] = typesOf(type)
  if (type !== undefined && first === undefined) return invalid(op, "type: at least one is to be named")
  if (valenceRange?.every((bound) => bound >= -1 && bound <= 1) === false) {
    return invalid(op, "valenceRange: expected two numbers between -1 and 1")
  }
  return Effect.succeed({
    minImportance,
    validAt: timeRange,
    where: {
      ...(sourceEntity !== undefined && { "scope.actorId": { eq: sourceEntity.normalize("NFC") } }),
      ...(events === true && { "data.type": { ne: talk } }),
      ...(first !== undefined && { "data.type": { in: [first, ...rest], orAbsent: asksForTalk(type) } }),
      ...(valenceRange !== undefined && { "data.emotion.V": { between: [valenceRange[0], valenceRange[1]] } })
    }
  })
}

/** Returns at most `limit` records: latest `validAt` first, then greatest id first. */
export const newest = <A extends TypedMemory.Typed<unknown>>(all: ReadonlyArray<A>, limit: number): ReadonlyArray<A> =>
  all.slice().sort(({ record: a }, { record: b }) => b.validAt - a.validAt || (a.id < b.id ? 1 : -1)).slice(0, limit)

/**
 * Sets a missing type. Sets a missing summary to the beginning of the context. If context and body are blank, the summary is the type. If
 * only the context is blank, the summary stays missing. Data that is not an object stays unchanged, and the Schema refuses it.
 */
export const named = (draft: TypedMemory.DraftOf<Episode>): TypedMemory.DraftOf<Episode> => {
  if (!Predicate.isRecord(draft.data)) return draft
  const { context = "", type = talk } = draft.data
  const unsaid = deriveSummary(draft.body) === "" ? deriveSummary(type) || talk : undefined
  const summary = draft.summary ?? (deriveSummary(context) || unsaid)
  return { ...draft, summary, data: { ...draft.data, type } }
}
