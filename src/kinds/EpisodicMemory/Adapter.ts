/**
 * Converts an adapter into a source of episodes, and the service `EpisodicMemory` into an adapter. An adapter is an object of the caller;
 * its methods return promises.
 *
 * Episodes and reflections of an adapter are plain objects. Their schemas are `SeedEpisode` and `SeedReflection`.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Emotion from "../../domain/Emotion.ts"
import * as MemoryError from "../../domain/MemoryError.ts"
import { matches, type MemoryFilter } from "../../domain/MemoryFilter.ts"
import * as MemoryId from "../../domain/MemoryId.ts"
import { deriveSummary, MemoryRecord } from "../../domain/MemoryRecord.ts"
import { fields, Global, type Ids, key, type MemoryScope, normalise } from "../../domain/MemoryScope.ts"
import * as Payload from "../../domain/Payload.ts"
import * as Validation from "../../domain/Validation.ts"
import { invalid } from "../../domain/Validation.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { tokenise } from "../../ranking/Tokenizer.ts"
import type { Service } from "../EpisodicMemory.ts"
import type { DraftOf, Typed } from "../TypedMemory.ts"
import {
  asksForTalk,
  filterOf,
  named,
  newest,
  type RecallQuery,
  type SemanticRecallOptions,
  type Source,
  window
} from "./Source.ts"

const maybe = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { nullable: true })
const Felt = Schema.Struct({ V: maybe(Schema.Number), A: maybe(Schema.Number), D: maybe(Schema.Number) })
const common = {
  id: Schema.String,
  timestamp: Schema.Number,
  sourceEntity: maybe(Schema.String),
  emotionSnapshot: maybe(Felt)
}
/** Schema of an episode as adapters store and return it. */
const SeedEpisode = Schema.Struct({
  ...common,
  type: maybe(Schema.String),
  context: maybe(Schema.String),
  content: maybe(Schema.String),
  appraisal: maybe(Emotion.AppraisalWire),
  intensity: maybe(Schema.Number),
  importance: maybe(Schema.Number)
})
/** Schema of a reflection as adapters store and return it. */
const SeedReflection = Schema.Struct({ ...common, content: Schema.String, trigger: Schema.String })

/** A query for an adapter. Its time range is a pair of times in epoch milliseconds, both inclusive. */
export interface SeedQuery extends Omit<RecallQuery, "timeRange"> {
  readonly timeRange?: readonly [from: number, to: number] | undefined
}

/** An object of the caller that stores episodes and reflections. Only `saveEpisode` and `recall` are required. */
export interface MemoryAdapter {
  saveEpisode(episode: object): Promise<void>
  recall(query: SeedQuery): Promise<ReadonlyArray<object>>
  semanticRecall?(text: string, options?: SemanticRecallOptions): Promise<ReadonlyArray<object>>
  getByIds?(ids: ReadonlyArray<string>): Promise<ReadonlyArray<object>>
  saveReflection?(reflection: object): Promise<void>
  getReflections?(sourceEntity?: string): Promise<ReadonlyArray<object>>
}

/** Runs an Effect as a promise: `Effect.runPromise`, or `runPromise` of a runtime. */
export type Run = <A>(self: Effect.Effect<A, MemoryError.MemoryError>) => Promise<A>

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Makes a source of episodes from an adapter. */
export const toSource = (adapter: MemoryAdapter): Source => {
  const ask = <A>(op: string, call: (() => Promise<A>) | undefined): Io<A> =>
    call === undefined
      ? MemoryError.make("unsupported", { op, message: `the adapter has no ${op}` })
      : Effect.tryPromise({
        try: call,
        catch: (cause) =>
          cause instanceof MemoryError.MemoryError
            ? cause
            : MemoryError.make("io", { op, message: `the adapter's ${op} failed`, cause })
      })

  /**
   * Decodes the objects that the adapter returned, and filters the records. An adapter may return objects with any `sourceEntity`, so
   * objects with a `sourceEntity` that the viewer does not see are left out.
   */
  const seen = <A>(
    op: string,
    viewer: Viewer.Any,
    rows: Io<ReadonlyArray<object>>,
    read: (row: object, now: number) => Io<Typed<A>>,
    filter: MemoryFilter = {}
  ) =>
    Effect.gen(function*() {
      const answer = yield* rows
      if (!Array.isArray(answer)) {
        return yield* MemoryError.make("io", { op, message: `the adapter's ${op} gave no list` })
      }
      const now = yield* Clock.currentTimeMillis // read after the answer and only once, so that every record is valid at this time
      const all = yield* Effect.forEach(answer, (row: object) => read(row, now))
      const passes = matches(filter, now)
      return all.filter(({ record }) => Viewer.sees(viewer, record.scope) && passes(record))
    }).pipe(Effect.withSpan(`MemoryAdapter.${op}`))
  const episodes = (op: string, viewer: Viewer.Any, rows: Io<ReadonlyArray<object>>, filter?: MemoryFilter) =>
    seen(
      op,
      viewer,
      rows,
      (row, now) =>
        Effect.flatMap(
          parse(op, SeedEpisode, row),
          (seed) => typed(op, "episodic", { ...named(episodeOf(seed, viewer, now)), id: recordId(viewer, seed.id) })
        ),
      filter
    )

  return {
    saveEpisode: (viewer, draft) =>
      Effect.gen(function*() {
        const reference = draft.source?.reference // the adapter's id of the episode, if there is one
        const id = reference === undefined ? draft.id : recordId(viewer, reference)
        const saved = yield* written("saveEpisode", "episodic", viewer, { ...named(draft), id })
        yield* ask("saveEpisode", () => adapter.saveEpisode(toEpisode(saved)))
        return saved
      }),
    episodes: (viewer, { context, limit = 20, ...query }) =>
      Effect.gen(function*() {
        const filter = yield* filterOf("recall", query)
        const { events: _, timeRange, ...rest } = withoutTalkTypes(query)
        const seedQuery: SeedQuery = {
          ...Payload.definedFields({ ...rest, context, sourceEntity: query.sourceEntity ?? actorOf(viewer) }),
          ...(timeRange && {
            timeRange: [timeRange.from ?? 0, (timeRange.until ?? Number.MAX_SAFE_INTEGER) - 1] as const
          }),
          limit: window
        }
        const all = yield* episodes("recall", viewer, ask("recall", () => adapter.recall(seedQuery)), filter)
        return newest(all.filter(({ record }) => speaksOf(context, record)), limit)
      }),
    semantic: (viewer, text, { topK = 5, ...options }) =>
      Effect.gen(function*() {
        const { semanticRecall } = adapter
        const filter = yield* filterOf("semanticRecall", options)
        const rows = ask(
          "semanticRecall",
          semanticRecall &&
            (() =>
              semanticRecall.call(adapter, text, Payload.definedFields({ ...withoutTalkTypes(options), topK: window })))
        )
        const found = (yield* episodes("semanticRecall", viewer, rows, filter)).slice(0, topK)
        return { found: found.map((one, i) => ({ ...one, score: 1 - i / found.length })), failures: [] } // scores are made from the ranks
      }),
    getByIds: (viewer, ids) =>
      Effect.gen(function*() {
        const { getByIds } = adapter
        const rows = ask("getByIds", getByIds && (() => getByIds.call(adapter, ids)))
        const found = new Map((yield* episodes("getByIds", viewer, rows)).map((one) => [one.record.id, one]))
        if (!ids.every((id) => found.has(id))) {
          // the adapter does not know derived ids, so its episodes are read to compare them
          const query = Payload.definedFields({ sourceEntity: actorOf(viewer), limit: window })
          const all = yield* episodes("recall", viewer, ask("recall", () => adapter.recall(query))).pipe(
            Effect.tapError((error) => Effect.logWarning("episodes with derived ids were not looked for", error)),
            Effect.catchAll((error) => found.size === 0 ? error : Effect.succeed([]))
          )
          for (const one of all) found.set(one.record.id, one)
        }
        return ids.flatMap((id) => found.get(id) ?? [])
      }),
    saveReflection: (viewer, draft) =>
      Effect.gen(function*() {
        const { saveReflection } = adapter
        const saved = yield* written("saveReflection", "reflection", viewer, draft)
        yield* ask("saveReflection", saveReflection && (() => saveReflection.call(adapter, toReflection(saved))))
        return saved
      }),
    reflections: (viewer, limit) => {
      const { getReflections } = adapter
      const rows = ask("getReflections", getReflections && (() => getReflections.call(adapter)))
      return Effect.map(
        seen(
          "getReflections",
          viewer,
          rows,
          (row, now) =>
            Effect.flatMap(
              parse("getReflections", SeedReflection, row),
              (seed) => typed("getReflections", "reflection", reflectionOf(seed, viewer, now))
            )
        ),
        (all) => newest(all, limit)
      )
    }
  }
}

/** Makes an adapter from the service, for one viewer. */
export const fromService = (memory: Service, viewer: Viewer.Any, run: Run): Required<MemoryAdapter> => {
  const now = Clock.currentTimeMillis
  return {
    saveEpisode: (row) =>
      run(Effect.gen(function*() {
        const seed = yield* parse("saveEpisode", SeedEpisode, row)
        yield* memory.saveEpisode(viewer, episodeOf(seed, viewer, yield* now))
      })),
    recall: ({ limit, timeRange, ...query }) =>
      run(Effect.map(
        memory.recall(viewer, {
          ...query,
          ...(limit !== undefined && { limit: limit === 0 ? window : Math.min(limit, window) }), // 0 means no limit
          ...(timeRange && { timeRange: between(...timeRange) })
        }),
        (all) => all.map(toEpisode)
      )),
    semanticRecall: (text, options) =>
      run(Effect.map(memory.semanticRecall(viewer, text, options), (all) => all.map(toEpisode))),
    getByIds: (ids) => {
      const known = ids.flatMap((id) => [foreign(viewer, id), ...(isRecordId(id) ? [id] : [])])
      return run(Effect.map(memory.getByIds(viewer, known), (all) => all.map(toEpisode)))
    },
    saveReflection: (row) =>
      run(Effect.gen(function*() {
        const seed = yield* parse("saveReflection", SeedReflection, row)
        yield* memory.saveReflection(viewer, reflectionOf(seed, viewer, yield* now))
      })),
    getReflections: (sourceEntity) =>
      run(
        Effect.map(memory.getReflections(viewer, window), (all) =>
          all.map(toReflection).filter((one) => sourceEntity === undefined || one.sourceEntity === sourceEntity))
      )
  }
}

/** Converts a time range of an adapter to that of `RecallQuery`. Both arguments are inclusive, and may be infinite or fractional. */
const between = (from: number, until: number): RecallQuery["timeRange"] => ({
  from: Math.min(Math.max(0, Math.ceil(from)), Number.MAX_SAFE_INTEGER),
  until: until >= Number.MAX_SAFE_INTEGER ? undefined : Math.max(0, Math.floor(until) + 1)
})

/**
 * Removes the types from a query for chat messages. An episode without a type is also a chat message, but an adapter would not find it by
 * type. The results of the adapter are filtered by type afterwards.
 */
const withoutTalkTypes = <Q extends Pick<RecallQuery, "type">>(query: Q): Q =>
  asksForTalk(query.type) ? { ...query, type: undefined } : query

const actorOf = (viewer: Viewer.Any) => Viewer.isSystem(viewer) ? undefined : viewer.actorId

/** Makes a record from a draft, for an adapter to store. Fails with `invalid_scope` if the viewer does not see the draft's scope. */
const written = <A extends object>(op: string, kind: string, viewer: Viewer.Any, draft: DraftOf<A>) =>
  Effect.gen(function*() {
    if (!Viewer.sees(viewer, draft.scope)) {
      return yield* MemoryError.make("invalid_scope", { op, message: "the viewer does not see that scope" })
    }
    const id = draft.id ?? (yield* MemoryId.ulid)
    return yield* typed(op, kind, { ...draft, id, validAt: draft.validAt ?? (yield* Clock.currentTimeMillis) })
  })

/** Whether the record has a word of `context` in its summary or body. True if `context` is absent or empty. */
const speaksOf = (context: string | undefined, { body, summary }: MemoryRecord): boolean => {
  if (context === undefined || context === "") return true
  const words = new Set(tokenise(context))
  return tokenise(`${summary}\n${body}`).some((word) => words.has(word))
}

/** Decodes an object of an adapter or of a caller. Fails with `invalid_draft` if the schema rejects the object. */
const parse = <A, I>(op: string, schema: Schema.Schema<A, I>, row: object): Io<A> =>
  Effect.mapError(
    Schema.decodeUnknown(schema, { errors: "all" })(row),
    (error) => invalid(op, ...Validation.lines(error))
  )

/** Derives a record id from the viewer and the adapter's id. If an episode is saved again, the new record thus replaces the old one. */
const foreign = (viewer: Viewer.Any, id: string): MemoryId.MemoryId =>
  MemoryId.foreign("molroo", JSON.stringify([key(scopeOf(viewer, undefined)), id]))

/** Returns the record id of an adapter's episode. An id with the form of a record id, such as an id from `written`, stays the same. */
const recordId = (viewer: Viewer.Any, id: string): MemoryId.MemoryId => isRecordId(id) ? id : foreign(viewer, id)

const isRecordId = Schema.is(MemoryId.MemoryId)

type SeedEpisode = typeof SeedEpisode.Type
type SeedReflection = typeof SeedReflection.Type

const episodeOf = (seed: SeedEpisode, viewer: Viewer.Any, now: number): DraftOf<Payload.Episode> => ({
  id: foreign(viewer, seed.id),
  ...commonOf(seed, viewer, now),
  body: seed.content ?? seed.context ?? "",
  importance: unit(seed.importance, 0.5),
  data: Payload.definedFields({
    type: seed.type,
    context: seed.content === undefined || seed.context === seed.content ? undefined : seed.context,
    emotion: seed.emotionSnapshot && Emotion.clampVAD(seed.emotionSnapshot),
    appraisal: seed.appraisal,
    intensity: seed.intensity === undefined ? undefined : unit(seed.intensity, 0)
  })
})

/**
 * Makes a draft from an adapter's reflection. Two reflections may have the same id. So the record id also depends on `sourceEntity` and
 * text.
 */
const reflectionOf = (seed: SeedReflection, viewer: Viewer.Any, now: number): DraftOf<Payload.Reflection> => ({
  id: foreign(viewer, JSON.stringify([seed.id, seed.sourceEntity, seed.content])),
  ...commonOf(seed, viewer, now),
  body: seed.content,
  metadata: Payload.definedFields({ sourceEntity: seed.sourceEntity }),
  data: Payload.definedFields({
    trigger: seed.trigger,
    emotion: seed.emotionSnapshot && Emotion.clampVAD(seed.emotionSnapshot)
  })
})

const commonOf = (seed: SeedEpisode | SeedReflection, viewer: Viewer.Any, now: number) => ({
  scope: scopeOf(viewer, seed.sourceEntity),
  validAt: seed.timestamp >= 0 ? Math.min(Math.floor(seed.timestamp), now) : now,
  source: { reference: seed.id }
})

const scopeOf = (viewer: Viewer.Any, sourceEntity: string | undefined): MemoryScope => {
  const ids: Ids = Viewer.isSystem(viewer) ? {} : viewer
  const own = sourceEntity === ids.agentId ? undefined : sourceEntity // the agent itself is not stored as the actor
  const scope = Payload.definedFields({
    ...Object.fromEntries(fields.map((field) => [field, ids[field]])),
    actorId: own
  })
  return Object.keys(scope).length === 0 ? Global : normalise(scope)
}

/** Makes a record from a draft, but does not store it. The origin is `import`, the trust level 2, and `createdAt` equals `validAt`. */
const typed = <A extends object>(op: string, kind: string, draft: DraftOf<A>): Io<Typed<A>> =>
  Effect.try({
    try: () => {
      const { body, id, importance = 0.5, metadata = {}, scope, source, validAt = 0, ...rest } = draft
      const data = Schema.decodeUnknownSync(Payload.JsonObject)(Payload.definedFields(draft.data))
      const summary = draft.summary ?? (deriveSummary(body) || kind)
      const record = {
        ...rest,
        ...{
          id: id!,
          kind,
          scope,
          summary,
          body,
          importance,
          data,
          metadata,
          validAt,
          createdAt: validAt,
          revision: 1
        },
        ...{ tags: draft.tags ?? [], links: draft.links ?? [] },
        source: { origin: "import" as const, trust: 2 as const, ...source }
      }
      return { record: new MemoryRecord(record), data: draft.data }
    },
    catch: (cause) =>
      MemoryError.make("invalid_draft", { op, message: "not an episode", detail: { issues: [String(cause)] } })
  })

const toEpisode = ({ data, record }: Typed<Payload.Episode>) =>
  Payload.definedFields({
    id: record.source.reference ?? record.id,
    timestamp: record.validAt,
    sourceEntity: record.scope === Global ? undefined : record.scope.actorId,
    type: data.type,
    context: data.context ?? record.body,
    content: record.body,
    appraisal: data.appraisal && Schema.encodeSync(Emotion.AppraisalWire)(data.appraisal),
    emotionSnapshot: data.emotion ?? Emotion.neutral,
    intensity: data.intensity,
    importance: record.importance
  })

const toReflection = ({ data, record }: Typed<Payload.Reflection>) => {
  const storedEntity = record.metadata["sourceEntity"]
  const entity = typeof storedEntity === "string"
    ? storedEntity
    : record.scope === Global
    ? undefined
    : record.scope.actorId
  return {
    id: record.source.reference ?? record.id,
    timestamp: record.validAt,
    ...(entity !== undefined && { sourceEntity: entity }),
    content: record.body,
    trigger: data.trigger,
    emotionSnapshot: data.emotion ?? Emotion.neutral
  }
}

const unit = (value: number | undefined, otherwise: number): number =>
  value === undefined || Number.isNaN(value) ? otherwise : Math.min(1, Math.max(0, value))
