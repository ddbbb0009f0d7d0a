/**
 * Episodes (chat messages and events, with the emotions felt) and reflections. A harness calls `beforeTurn` before each turn of a chat, to
 * find the episodes that matter for the reply. After the turn, it calls `afterTurn` to store the turn as a new episode.
 *
 * The time of an episode is its `validAt`. The counterpart of an episode is the person with whom the agent talked: the `actorId` of the
 * episode's scope. "Newest first" means the latest `validAt` first, and at equal times the greatest id first.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as MemoryError from "../domain/MemoryError.ts"
import type { SearchResult } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import { Unit } from "../domain/MemoryRecord.ts"
import { type Message, stripMetaTags } from "../domain/Message.ts"
import type * as Payload from "../domain/Payload.ts"
import * as PromptText from "../domain/PromptText.ts"
import * as Validation from "../domain/Validation.ts"
import { invalid } from "../domain/Validation.ts"
import * as Viewer from "../domain/Viewer.ts"
import { saysTheSame } from "../ranking/NearDuplicate.ts"
import type { MemoryStore } from "../storage/MemoryStore.ts"
import * as Adapter from "./EpisodicMemory/Adapter.ts"
import * as Source from "./EpisodicMemory/Source.ts"
import type { DraftOf, Found, Typed } from "./TypedMemory.ts"

/** The `data` of an episode. */
export type Episode = Payload.Episode
/** The `data` of a reflection. */
export type Reflection = Payload.Reflection

/** The interface of an adapter, and the type of its queries. The caller provides the adapter, and the adapter stores the episodes. */
export type { MemoryAdapter, SeedQuery } from "./EpisodicMemory/Adapter.ts"
/** The queries of `recall` and `semanticRecall`. */
export type { RecallQuery, SemanticRecallOptions } from "./EpisodicMemory/Source.ts"

/** Schema of the limit of one query of `beforeTurn`, 0..1,000. A query with limit 0 is not run. */
const QueryLimit = Schema.Int.pipe(Schema.between(0, 1_000))

/** Schema of the limits of `beforeTurn`: the largest numbers of results, and the minimum importance of an episode. */
export const RecallLimits = Schema.Struct({
  episodicLimit: QueryLimit.pipe(Schema.optionalWith({ default: () => 5 })),
  semanticLimit: QueryLimit.pipe(Schema.optionalWith({ default: () => 3 })),
  reflectionLimit: QueryLimit.pipe(Schema.optionalWith({ default: () => 3 })),
  minImportance: Unit.pipe(Schema.optionalWith({ default: () => 0 }))
})

/** Schema of the options of `beforeTurn`: the limits, and the types of the episodes to return. Default: all types. */
export const RecallConfig = Schema.Struct({
  ...RecallLimits.fields,
  types: Schema.optional(Schema.NonEmptyArray(Schema.String))
})

/** The memories that `beforeTurn` returns. */
export interface Recalled {
  /** Chat messages and events, newest first. Each group gets half of `episodicLimit`, or more if the other group is small. */
  readonly episodic: ReadonlyArray<Typed<Episode>>
  /** Episodes found by meaning, best first. Episodes in `episodic`, and near copies of them, are left out. */
  readonly semantic: ReadonlyArray<Found<Episode>>
  /** Reflections, newest first. */
  readonly reflections: ReadonlyArray<Typed<Reflection>>
  /** The memories as text for a model, escaped, in at most four sections; `""` if there are no memories. */
  readonly block: string
  /** Failures of single queries; `leg` is the query's name, or `vector` if the embedder failed. All other results are still returned. */
  readonly failures: SearchResult["failures"]
}

/** The records that `afterTurn` stores for a turn of the chat. */
export interface Turn {
  readonly episode: DraftOf<Episode>
  readonly reflection?: DraftOf<Reflection> | undefined
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Operations of `EpisodicMemory`. */
export interface Service {
  /** Stores an episode. Its type defaults to `chat_message`; its summary defaults to its context. */
  readonly saveEpisode: (
    viewer: Viewer.Any,
    episode: DraftOf<Episode>
  ) => Effect.Effect<Typed<Episode>, MemoryError.MemoryError>
  /**
   * Returns matching episodes, the latest `validAt` first. A `MemoryStore` considers only the 1,000 matching episodes stored or changed
   * last. If the query has a `context`, a `MemoryStore` returns only one of several episodes with equal `data` and nearly the same text.
   */
  readonly recall: (
    viewer: Viewer.Any,
    query: Source.RecallQuery
  ) => Effect.Effect<ReadonlyArray<Typed<Episode>>, MemoryError.MemoryError>
  /** Finds episodes by meaning, best first. If the embedder fails, finds them by words only, and logs a warning. */
  readonly semanticRecall: (
    viewer: Viewer.Any,
    text: string,
    options?: Source.SemanticRecallOptions
  ) => Effect.Effect<ReadonlyArray<Found<Episode>>, MemoryError.MemoryError>
  /** Returns the episodes with these ids, in the order of the ids. Skips ids of episodes that the viewer does not see. */
  readonly getByIds: (
    viewer: Viewer.Any,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Typed<Episode>>, MemoryError.MemoryError>
  /** Stores a reflection. */
  readonly saveReflection: (
    viewer: Viewer.Any,
    reflection: DraftOf<Reflection>
  ) => Effect.Effect<Typed<Reflection>, MemoryError.MemoryError>
  /** Returns reflections, newest first. Default `limit` 20. */
  readonly getReflections: (
    viewer: Viewer.Any,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Typed<Reflection>>, MemoryError.MemoryError>
  /**
   * Returns the memories that matter for the reply to a message. Before the search, waits until all turns that this viewer passed to
   * `afterTurn` are stored. Fails if all searches fail. Only memories that the viewer sees are found. With reach `exact`, the counterpart
   * of an episode must be the viewer's `actorId`, or absent. The types in `config` apply to all searches for episodes.
   */
  readonly beforeTurn: (
    viewer: Viewer.Any,
    message: Message,
    config?: typeof RecallConfig.Encoded
  ) => Effect.Effect<Recalled, MemoryError.MemoryError>
  /**
   * Stores the turn in a fiber of its own, and does not wait for this fiber. The layer waits for the fiber when the layer's Effect scope
   * closes. A failure is logged and added to `failures`.
   */
  readonly afterTurn: (viewer: Viewer.Any, turn: Turn) => Effect.Effect<void>
  /** Failures of `afterTurn` since the layer was built, oldest first. */
  readonly failures: Effect.Effect<ReadonlyArray<MemoryError.MemoryError>>
}

/** Tag of the service for episodes and reflections. */
export class EpisodicMemory extends Context.Tag("@memory/EpisodicMemory")<EpisodicMemory, Service>() {}

/** Provides episodes over a `MemoryStore`. Without an `Embedder`, `semanticRecall` finds episodes by words only. */
export const layer: Layer.Layer<EpisodicMemory, never, MemoryStore> = Layer.scoped(
  EpisodicMemory,
  Effect.flatMap(Source.fromStore, (source) => makeService(source))
)

/**
 * Provides a service without memories, for a harness that stores the history itself. Searches find nothing, and `afterTurn` stores nothing.
 * `saveEpisode` and `saveReflection` fail with `unsupported`.
 */
export const layerExternal: Layer.Layer<EpisodicMemory> = Layer.succeed(EpisodicMemory, {
  saveEpisode: () => external("saveEpisode"),
  recall: () => Effect.succeed([]),
  semanticRecall: () => Effect.succeed([]),
  getByIds: () => Effect.succeed([]),
  saveReflection: () => external("saveReflection"),
  getReflections: () => Effect.succeed([]),
  beforeTurn: () => Effect.succeed({ episodic: [], semantic: [], reflections: [], block: "", failures: [] }),
  afterTurn: () => Effect.void,
  failures: Effect.succeed([])
})

/**
 * Provides episodes over an adapter, which stores the episodes. An operation fails with `unsupported` if the adapter lacks the method for
 * it. `beforeTurn` skips queries for which there is no method. `afterTurn` does not fail: it adds the error to `failures`. The adapter's
 * results are filtered again, by query (except by `minScore`) and viewer. Numbers out of range in the results are clamped, but a negative
 * time becomes now.
 *
 * An episode's record id is the adapter's id if that is a ULID; otherwise it is derived from the adapter's id and the viewer. For an id
 * that the adapter's `getByIds` does not find, `getByIds` asks the adapter's `recall` for 1,000 episodes of the viewer, and looks there.
 */
export const layerAdapter = (adapter: Adapter.MemoryAdapter): Layer.Layer<EpisodicMemory> =>
  Layer.scoped(EpisodicMemory, makeService(Adapter.toSource(adapter)))

/**
 * Makes a `MemoryAdapter` for one viewer: `toAdapter(viewer, Effect.runPromise)`. An agent with many counterparts needs a viewer with the
 * agent's `agentId` and the reach `within`.
 *
 * The adapter corrects values that the service would reject, since callers of an adapter ignore rejected promises. Importance, intensity,
 * emotion and appraisal are clamped to their ranges. A future or negative time becomes now. In a query, `timeRange` is clamped, and a
 * `limit` of 0 or above 1,000 means 1,000. Any other number out of range rejects the query.
 */
export const toAdapter = (
  viewer: Viewer.Any,
  run: Adapter.Run
): Effect.Effect<Required<Adapter.MemoryAdapter>, never, EpisodicMemory> =>
  Effect.map(EpisodicMemory, (memory) => Adapter.fromService(memory, viewer, run))

/** The memories that `buildMemoryBlock` renders. */
export interface Sections {
  readonly episodic: ReadonlyArray<Typed<Episode>>
  readonly semantic: ReadonlyArray<Typed<Episode>>
  readonly reflections: ReadonlyArray<Typed<Reflection>>
}

/**
 * Renders recalled memories as text for a model, escaped and between `<memory>` tags. There are at most four sections, with one line for
 * each memory. Returns `""` if there are no memories. A text of more than 1,000 UTF-16 units is cut, and ends with `…`.
 *
 * ```text
 * <memory>
 * Recent conversations:
 * - [2026-01-01T00:00:00.000Z] ada: the lake — Ada: I swam. (V:0.40 A:0.00 importance:0.60)
 *
 * Recent events:
 * - [2026-01-01T00:00:00.000Z] [gift] ada: a mug (importance:0.50)
 *
 * Related past experiences:
 * - [2025-06-01T00:00:00.000Z] ada: Ada: I like lakes. (importance:0.50)
 *
 * Your recent self-reflections:
 * - I am fond of her.
 * </memory>
 * ```
 */
export const buildMemoryBlock = ({ episodic, reflections, semantic }: Sections): string => {
  const sections = [
    section("Recent conversations:", episodic.filter((episode) => !isEvent(episode)).map(episodeLine)),
    section("Recent events:", episodic.filter(isEvent).map(episodeLine)),
    section("Related past experiences:", semantic.map(episodeLine)),
    section("Your recent self-reflections:", reflections.map(({ record }) => `- ${text(record.body)}`))
  ].filter((section) => section !== "")
  return sections.length === 0 ? "" : [PromptText.open, sections.join("\n\n"), PromptText.close].join("\n")
}

/** Makes the service over a source of episodes. When the Effect scope closes, waits until all turns are stored. */
const makeService = (source: Source.Source): Effect.Effect<Service, never, Scope.Scope> =>
  Effect.gen(function*() {
    const saving = yield* FiberSet.make<void>()
    yield* Effect.addFinalizer(() => Fiber.awaitAll(saving))
    const viewers = new Map<Fiber.RuntimeFiber<unknown, unknown>, Viewer.Any>()
    const failed = yield* Ref.make<ReadonlyArray<MemoryError.MemoryError>>([])

    /** Waits until all turns that this viewer has passed to `afterTurn` are stored or have failed. */
    const settled = (viewer: Viewer.Any) =>
      Fiber.awaitAll(Array.from(viewers).flatMap(([fiber, of]) => Viewer.equals(viewer, of) ? [fiber] : []))

    const save = <A>(what: string, self: Effect.Effect<A, MemoryError.MemoryError>): Effect.Effect<void> =>
      Effect.catchAll(Effect.asVoid(self), (error) =>
        Effect.zipRight(
          Ref.update(failed, (all) => [...all, error]),
          Effect.logError(`${what} was not saved`, error)
        ))

    return {
      saveEpisode: (viewer, draft) => span("saveEpisode", source.saveEpisode(viewer, draft)),
      recall: (viewer, query) => span("recall", source.episodes(viewer, query)),
      semanticRecall: (viewer, text, options = {}) =>
        span(
          "semanticRecall",
          source.semantic(viewer, text, options).pipe(
            Effect.tap(({ failures }) =>
              failures.length > 0 ? Effect.logWarning("recalled by words alone", failures) : Effect.void
            ),
            Effect.map(({ found }) => found)
          )
        ),
      getByIds: (viewer, ids) => span("getByIds", source.getByIds(viewer, ids)),
      saveReflection: (viewer, draft) => span("saveReflection", source.saveReflection(viewer, draft)),
      getReflections: (viewer, limit = 20) => span("getReflections", source.reflections(viewer, limit)),
      beforeTurn: (viewer, message, config = {}) =>
        span(
          "beforeTurn",
          Effect.flatMap(
            decoded(config),
            (config) => Effect.zipRight(settled(viewer), recall(source, viewer, message, config))
          )
        ),
      afterTurn: (viewer, { episode, reflection }) =>
        Effect.gen(function*() {
          const now = yield* Clock.currentTimeMillis
          const before = settled(viewer)
          const fiber = yield* FiberSet.run(
            saving,
            before.pipe(
              Effect.zipRight(save("an episode", source.saveEpisode(viewer, { validAt: now, ...episode }))),
              Effect.zipRight(
                reflection === undefined
                  ? Effect.void
                  : save("a reflection", source.saveReflection(viewer, { validAt: now, ...reflection }))
              ),
              Effect.tapDefect((cause) => Effect.logError("a turn was not saved", cause)),
              Effect.withSpan("EpisodicMemory.save")
            )
          )
          viewers.set(fiber, viewer)
          fiber.addObserver(() => viewers.delete(fiber))
        }).pipe(Effect.uninterruptible, Effect.withSpan("EpisodicMemory.afterTurn")),
      failures: Ref.get(failed)
    }
  })

const span = <A, E>(name: string, self: Effect.Effect<A, E>) => Effect.withSpan(self, `EpisodicMemory.${name}`)

const decoded = (config: typeof RecallConfig.Encoded) =>
  Effect.mapError(
    Schema.decode(RecallConfig, { errors: "all" })(config),
    (error) => invalid("beforeTurn", ...Validation.lines(error))
  )

/**
 * Runs the queries of `beforeTurn`. A query is skipped if its limit is 0, or if `types` excludes all types of the query. Failed queries are
 * listed in `failures`, except those that failed with `unsupported`. Fails if all queries that were run fail.
 */
const recall = (
  source: Source.Source,
  viewer: Viewer.Any,
  { content }: Message,
  { episodicLimit, minImportance, reflectionLimit, semanticLimit, types }: typeof RecallConfig.Type
) =>
  Effect.gen(function*() {
    const events = types?.filter((type) => type !== Source.talk)
    const isOn = {
      conversation: episodicLimit > 0 && (types === undefined || types.includes(Source.talk)),
      events: episodicLimit > 0 && events?.length !== 0,
      semantic: semanticLimit > 0,
      reflections: reflectionLimit > 0
    }
    const runQuery = <A>(name: keyof typeof isOn, ask: Io<A>, none: A) =>
      Effect.either(isOn[name] ? ask : Effect.succeed(none))
    const limits = { limit: episodicLimit, minImportance }
    const topK = Math.min(1_000, semanticLimit + episodicLimit)
    const semanticQuery = source.semantic(viewer, stripMetaTags(content), { topK, minImportance, type: types })
    const answers = yield* Effect.all({
      conversation: runQuery("conversation", source.episodes(viewer, { ...limits, type: Source.talk }), []),
      events: runQuery("events", source.episodes(viewer, { ...limits, events: true, type: events }), []),
      semantic: runQuery("semantic", semanticQuery, { found: [], failures: [] }),
      reflections: runQuery("reflections", source.reflections(viewer, reflectionLimit), [])
    }, { concurrency: "unbounded" })

    const failures = Object.entries<Either.Either<unknown, MemoryError.MemoryError>>(answers).flatMap(([leg, result]) =>
      Either.isLeft(result) ? [{ leg, error: result.left }] : []
    )
    const [first] = failures
    if (first && failures.length === Object.values(isOn).filter(Boolean).length) return yield* first.error

    const { found, failures: within } = Either.getOrElse(
      answers.semantic,
      (): Source.Semantic => ({ found: [], failures: [] })
    )
    const episodic = shared(episodicLimit, orNone(answers.conversation), orNone(answers.events))
    const recalled = {
      episodic,
      semantic: withoutRepeats(found, episodic).slice(0, semanticLimit),
      reflections: orNone(answers.reflections)
    }
    return {
      ...recalled,
      block: buildMemoryBlock(recalled),
      // `unsupported` is left out: it means only that the adapter lacks the method for a query
      failures: [...failures.filter(({ error }) => error.reason !== "unsupported"), ...within]
    } satisfies Recalled
  })

const orNone = <A>(answer: Either.Either<ReadonlyArray<A>, MemoryError.MemoryError>): ReadonlyArray<A> =>
  Either.getOrElse(answer, (): ReadonlyArray<A> => [])

/** Merges chat messages and events, newest first. Each group gets half of the limit, or more if the other group is small. */
const shared = (
  limit: number,
  talk: ReadonlyArray<Typed<Episode>>,
  events: ReadonlyArray<Typed<Episode>>
): ReadonlyArray<Typed<Episode>> => {
  const messages = talk.slice(0, Math.max(Math.ceil(limit / 2), limit - events.length))
  return Source.newest([...messages, ...events.slice(0, limit - messages.length)], limit)
}

/** Removes from `found` the episodes in `episodic`, and near copies of them. */
const withoutRepeats = (found: ReadonlyArray<Found<Episode>>, episodic: ReadonlyArray<Typed<Episode>>) =>
  found.filter(({ record }) => !episodic.some((one) => one.record.id === record.id || saysTheSame(one.record, record)))

const isEvent = ({ data: { type = Source.talk } }: Typed<Episode>): boolean => type !== Source.talk

const section = (heading: string, lines: ReadonlyArray<string>): string =>
  lines.length === 0 ? "" : [heading, ...lines].join("\n")

const episodeLine = (episode: Typed<Episode>): string => {
  const { data: { context = "", emotion, type }, record: { body, importance, scope, validAt } } = episode
  const entity = scope === "global" ? "unknown" : scope.actorId ?? "unknown"
  const about = [body.startsWith(context) ? "" : context, body].filter((part) => part.trim() !== "").join(" — ")
  const felt = emotion === undefined ? "" : `V:${emotion.V.toFixed(2)} A:${emotion.A.toFixed(2)} `
  return [
    `- [${new Date(Math.min(validAt, latest)).toISOString()}]`,
    ...(isEvent(episode) ? [`[${text(type ?? "")}]`] : []),
    `${text(entity)}:`,
    text(about) || "no context",
    `(${felt}importance:${importance.toFixed(2)})`
  ].join(" ")
}

/** Returns the text on one line, escaped. A text of more than 1,000 UTF-16 units is cut to 1,000. */
const text = (all: string): string => PromptText.line(all.length > 1_000 ? `${all.slice(0, 999).toWellFormed()}…` : all)

/** The greatest time of a JavaScript `Date`, epoch milliseconds. */
const latest = 8.64e15

const external = (op: string) =>
  MemoryError.make("unsupported", { op, message: "the harness keeps the history: there is nothing to save to" })
