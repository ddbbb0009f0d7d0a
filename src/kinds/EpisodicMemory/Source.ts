/** Where episodes and reflections are: in a store, or with somebody's adapter. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../../domain/MemoryError.ts"
import { Limit, type MemoryFilter, type SearchResult } from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import * as MemoryKind from "../../domain/MemoryKind.ts"
import { deriveSummary } from "../../domain/MemoryRecord.ts"
import type { Episode, Reflection } from "../../domain/Payload.ts"
import * as Viewer from "../../domain/Viewer.ts"
import * as Embedder from "../../host/Embedder.ts"
import { check, invalid } from "../../storage/Check.ts"
import * as Embedding from "../../storage/Embedding.ts"
import { MemoryStore } from "../../storage/MemoryStore.ts"
import * as TypedMemory from "../TypedMemory.ts"

/** Every field is honoured in the store, before the limit. */
export interface RecallQuery {
  readonly sourceEntity?: string | undefined
  /** Words, any of them, of what was said or what it was about. */
  readonly context?: string | undefined
  /** 1..1,000, default 20. */
  readonly limit?: number | undefined
  readonly minImportance?: number | undefined
  /** Epoch ms, from `from`, before `until`. */
  readonly timeRange?: { readonly from?: number | undefined; readonly until?: number | undefined } | undefined
  readonly type?: string | ReadonlyArray<string> | undefined
  /** −1..1, inclusive. */
  readonly valenceRange?: readonly [min: number, max: number] | undefined
}

export interface SemanticRecallOptions {
  /** 1..1,000, default 5. */
  readonly topK?: number | undefined
  readonly minScore?: number | undefined
  readonly minImportance?: number | undefined
  readonly sourceEntity?: string | undefined
}

/** What is no talk is an event. */
export interface EpisodeQuery extends RecallQuery {
  readonly events?: boolean | undefined
}

type Io<A> = Effect.Effect<A, MemoryError>

export interface Source {
  readonly saveEpisode: (viewer: Viewer.Any, draft: TypedMemory.DraftOf<Episode>) => Io<TypedMemory.Typed<Episode>>
  /** Newest first. */
  readonly episodes: (viewer: Viewer.Any, query: EpisodeQuery) => Io<ReadonlyArray<TypedMemory.Typed<Episode>>>
  /** Best first. */
  readonly semantic: (viewer: Viewer.Any, text: string, options: SemanticRecallOptions) => Io<Semantic>
  readonly getByIds: (
    viewer: Viewer.Any,
    ids: ReadonlyArray<MemoryId>
  ) => Io<ReadonlyArray<TypedMemory.Typed<Episode>>>
  readonly saveReflection: (
    viewer: Viewer.Any,
    draft: TypedMemory.DraftOf<Reflection>
  ) => Io<TypedMemory.Typed<Reflection>>
  /** Newest first. */
  readonly reflections: (viewer: Viewer.Any, limit: number) => Io<ReadonlyArray<TypedMemory.Typed<Reflection>>>
}

export interface Semantic {
  readonly found: ReadonlyArray<TypedMemory.Found<Episode>>
  readonly failures: SearchResult["failures"]
}

/** What an episode is that says no type. */
export const talk = "chat_message"

/** Looked through for the newest: as many as a store is to hold of a scope's episodes. */
export const window = 1_000

export const fromStore: Effect.Effect<Source, never, MemoryStore> = Effect.gen(function*() {
  const store = yield* MemoryStore
  const episodes = yield* TypedMemory.make(MemoryKind.episodic)
  const reflections = yield* TypedMemory.make(MemoryKind.reflection)
  const embedder = yield* Effect.serviceOption(Embedder.Embedder)
  const embedding = Option.map(embedder, (embedder) => Embedding.make(store, embedder)).pipe(
    Option.filter(({ active }) => active)
  )

  const semantic = (viewer: Viewer.Any, text: string, options: SemanticRecallOptions) =>
    Effect.gen(function*() {
      const { minScore, topK = 5, ...rest } = options
      const query = { ...(yield* filterOf("semanticRecall", rest)), text, minScore, limit: topK }
      const made = Option.isSome(embedding) ? yield* Effect.either(embedding.value.query(text)) : undefined
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
        yield* check("recall", Asked, { limit })
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
      check("getReflections", Asked, { limit }).pipe(
        Effect.zipRight(reflections.list(viewer, { limit: window })),
        Effect.map((all) => newest(all, limit))
      )
  }
})

const Asked = Schema.Struct({ limit: Limit })

const byTimeAlone = { lexical: 0, conversation: 0, recency: 1 }

/** All that a query says but words and limit. */
export const filterOf = (
  op: string,
  { events, minImportance, sourceEntity, timeRange, type, valenceRange }: Omit<EpisodeQuery, "context" | "limit">
): Effect.Effect<Pick<MemoryFilter, "minImportance" | "validAt" | "where">, MemoryError> => {
  const [first, ...rest] = type === undefined || typeof type === "string" ? [type] : type
  if (type !== undefined && first === undefined) return invalid(op, "type: at least one is to be named")
  return Effect.succeed({
    minImportance,
    validAt: timeRange,
    where: {
      ...(sourceEntity !== undefined && { "scope.actorId": { eq: sourceEntity.normalize("NFC") } }),
      ...(events === true && { "data.type": { ne: talk } }),
      ...(first !== undefined && { "data.type": { in: [first, ...rest.filter((one) => one !== undefined)] } }),
      ...(valenceRange !== undefined && { "data.emotion.V": { between: [valenceRange[0], valenceRange[1]] } })
    }
  })
}

/** Newest first, of equals the last that was written; what is given stays in its order. */
export const newest = <A extends TypedMemory.Typed<unknown>>(all: ReadonlyArray<A>, limit: number): ReadonlyArray<A> =>
  all.slice().sort(({ record: a }, { record: b }) => b.validAt - a.validAt || (a.id < b.id ? 1 : -1)).slice(0, limit)

/** With its type, and called what it is about; an event of which nothing is said, what it is. */
export const named = (draft: TypedMemory.DraftOf<Episode>): TypedMemory.DraftOf<Episode> => {
  const { context = "", type = talk } = draft.data
  const unsaid = draft.body.trim() === "" ? deriveSummary(type) || talk : undefined
  const summary = draft.summary ?? (deriveSummary(context) || unsaid)
  return { ...draft, summary, data: { ...draft.data, type } }
}
