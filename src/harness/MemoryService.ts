/**
 * Memory as one service. A harness (the program that runs an agent) provides the service, and the agent's code calls it. Every operation
 * for a viewer requires `CurrentViewer`. So code that names no viewer does not compile. The services below this one, such as `MemoryStore`,
 * take the viewer as their first argument instead.
 */
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryFilter, MemoryQuery, Page, SearchResult } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { Applied, MemoryMutation, Provenance } from "../domain/MemoryMutation.ts"
import type { Draft, MemoryRecord, Origin, Patch } from "../domain/MemoryRecord.ts"
import type { Message } from "../domain/Message.ts"
import * as Validation from "../domain/Validation.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as Completion from "../host/Completion.ts"
import * as Embedder from "../host/Embedder.ts"
import type { MemoryTool } from "../host/MemoryTool.ts"
import * as Redaction from "../host/Redaction.ts"
import * as SecureRandom from "../host/SecureRandom.ts"
import type * as MemoryPipeline from "../pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as Injection from "./Injection.ts"
import * as MemoryEvents from "./MemoryEvents.ts"
import { MemoryManager } from "./MemoryManager.ts"
import * as MemorySpec from "./MemorySpec.ts"
import type * as PromptBlock from "./PromptBlock.ts"
import * as RateLimit from "./RateLimit.ts"
import * as WritePolicy from "./WritePolicy.ts"

/** The viewer on whose behalf the code acts. `as` provides it. */
export class CurrentViewer extends Context.Tag("@memory/CurrentViewer")<CurrentViewer, Viewer.Viewer>() {}

/** Runs an effect on behalf of a viewer. */
export const as =
  (viewer: Viewer.Viewer) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, Exclude<R, CurrentViewer>> =>
    Effect.provideService(self, CurrentViewer, viewer)

/** An operation on behalf of the current viewer. */
export interface Operation<out A> extends Effect.Effect<A, MemoryError.MemoryError, CurrentViewer> {}
/** An operation that never fails. A failure is published as an event. The result is then a substitute such as "(memory unavailable)". */
export interface BestEffort<out A> extends Effect.Effect<A, never, CurrentViewer> {}

/** Option of writes: whether to compute the vector of the written record at once. */
export interface Embed {
  /**
   * Whether to compute the record's vector at once. Otherwise `embedMissing` computes the vector later. If embedding fails, the record has
   * no vector, and an event is published. A missing `Embedder` is published only the first time. Default false.
   */
  readonly embed?: boolean | undefined
}
/** Options of `put`. A write of origin `agent` or `pipeline` counts as a model's write. The spec's `sharedWrites` restricts it. */
export interface PutOptions extends MemoryStore.PutOptions, Embed {}
/** Option of writes: where the change comes from. */
export interface OriginOptions {
  /**
   * Origin of the change. `agent` and `pipeline` stand for a model; the spec's `sharedWrites` restricts only these two. Default `user`,
   * which also stands for the harness's own code.
   */
  readonly origin?: Origin | undefined
}
/** Options of `forget`. `purge` erases the record beyond recovery; by default the record can be restored. */
export interface ForgetOptions extends OriginOptions {
  readonly purge?: boolean | undefined
}

/** Operations of `MemoryService`. Each acts on behalf of the current viewer, unless its comment says otherwise. */
export interface Service {
  /** The spec that the layer was built with. */
  readonly spec: MemorySpec.MemorySpec

  /** Stores a record. */
  readonly put: (draft: Draft, options?: PutOptions) => Operation<MemoryStore.Put>
  /** Returns the record with this id, or `None` if the viewer sees no such record. */
  readonly get: (id: MemoryId) => Operation<Option.Option<MemoryRecord>>
  /** Finds records by words, by the vector in the query, or by both, best first. Unlike `recall`, does not embed the query's text. */
  readonly search: (query: MemoryQuery) => Operation<SearchResult>
  /** Returns a page of records, newest first. With `forgotten: true`, the page has only forgotten records that the store can restore. */
  readonly list: (filter: MemoryFilter) => Operation<Page<MemoryRecord>>
  /** Changes a record. */
  readonly update: (
    id: MemoryId,
    patch: Patch,
    options?: MemoryStore.IfRevision & Embed & OriginOptions
  ) => Operation<MemoryRecord>
  /**
   * Forgets a record. Returns whether it existed. The record can be restored until a compaction of the store erases it. `purge` erases it
   * at once.
   */
  readonly forget: (id: MemoryId, options?: ForgetOptions) => Operation<boolean>
  /**
   * Forgets all records that match the filter, and returns their number. The filter's `limit` and `after` are ignored. Records that the
   * viewer may not forget stay: instructions and, under `globalWrites: deny`, Global records.
   *
   * With `purge`, the matching records are erased beyond recovery. Matching records in the trash (forgotten but still restorable) are
   * erased, too, but not counted. If the filter has `forgotten: true`, only records in the trash match. If the filter has no condition
   * other than `scope`, a purge also erases the viewer's threads and waiting messages.
   */
  readonly forgetAll: (filter: MemoryFilter, options?: { readonly purge?: boolean | undefined }) => Operation<number>
  /** Returns the newest revisions of a record, newest first. Default limit 20. */
  readonly history: (id: MemoryId, limit?: number) => Operation<ReadonlyArray<MemoryRecord>>
  /**
   * Returns the records that are linked with a record, in either direction. A link is stored in `links`, or written as `[[name]]` in a
   * text. Both records must be visible to the viewer and valid now.
   */
  readonly links: (id: MemoryId) => Operation<MemoryStore.Neighbours>
  /** Applies all mutations or none. The spec's `sharedWrites` restricts a batch with origin `agent` or `pipeline`. */
  readonly apply: (
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: Provenance
  ) => Operation<ReadonlyArray<Applied>>

  /**
   * Extracts memories from messages, and stores the memories. Needs a `Completion`, except with the option `customExtract` or
   * `infer: false`. If the `Completion` is missing, fails with `unsupported`.
   */
  readonly remember: (
    messages: ReadonlyArray<Message>,
    options: MemoryPipeline.Options
  ) => Operation<MemoryPipeline.Receipt>
  /** Returns the changes that `remember` would make, without making them. */
  readonly plan: (
    messages: ReadonlyArray<Message>,
    options: MemoryPipeline.Options
  ) => Operation<MemoryPipeline.Receipt>
  /**
   * Finds records by words and meaning, best first. If there is neither an `Embedder` nor a vector in the query, only words count, and mode
   * `vector` fails with `unsupported`.
   */
  readonly recall: (query: MemoryQuery) => Operation<SearchResult>
  /**
   * Reverts the writes of a receipt, all or none. Fails with `not_owned` if the receipt belongs to another viewer or was altered, and with
   * `conflict` if a record was changed after the writes.
   */
  readonly undo: (receipt: MemoryPipeline.Receipt) => Operation<void>
  /** Computes missing vectors of all viewers' records. Returns their number. Without an `Embedder`, logs a warning and returns 0. */
  readonly embedMissing: Effect.Effect<number, MemoryError.MemoryError>

  /** Renders the memory index for the system prompt: summaries and ids of records, at most 30 by default. */
  readonly index: BestEffort<PromptBlock.PromptBlock>
  /**
   * Renders records that relate to the last user message, at most 5 by default. Append the block to that message for one model call, and do
   * not store the block. The block is empty if nothing is found, if the search fails, or, by default, if the last message is not from a
   * user. A `MemoryManager` may have other settings in its option `injection`.
   */
  readonly context: (turn: ReadonlyArray<Message>) => BestEffort<PromptBlock.PromptBlock>
  /**
   * Renders the instruction files for the system prompt. Returns `""` without `InstructionFiles`. Also stores the files, as `turnStart`
   * does.
   */
  readonly instructions: BestEffort<string>

  /**
   * Begins a turn of the viewer, and notifies the plugins. Also stores the instruction files if they are not yet stored for the tenant. The
   * write limit counts the writing tool calls since the last `turnStart`.
   */
  readonly turnStart: BestEffort<void>
  /**
   * Notifies the plugins that the turn has ended. With a `MemoryManager`, also stores the messages; the trigger decides when memories are
   * extracted. The name of the session is the viewer's `sessionId`, else its `runId`, else `default`.
   */
  readonly turnEnd: (messages: ReadonlyArray<Message>) => Operation<void>
  /**
   * Notifies plugins and extraction triggers that the session has ended. Run this effect in a finalizer of each session. The layer outlives
   * sessions, and does not notice their end.
   */
  readonly sessionEnd: BestEffort<void>

  /**
   * Extracts memories from all waiting messages of all viewers. Acts on behalf of the viewer who sent each message. Does nothing without a
   * `MemoryManager`.
   */
  readonly flush: Effect.Effect<void, MemoryError.MemoryError>

  /** Wraps a tool of `viewer` so that plugins and the write limit can refuse its calls. A refusal publishes a `memory_denied` event. */
  readonly guard: (viewer: Viewer.Viewer, tool: MemoryTool) => MemoryTool

  /**
   * Reports that `part` was skipped because a call named no viewer. Publishes `memory_viewer_missing` and logs a warning. For adapters
   * whose types cannot require a viewer, such as the adapter of @effect/ai models.
   */
  readonly viewerMissing: (part: string) => Effect.Effect<void>

  /** All events, whichever viewer caused them. For the harness. */
  readonly events: Stream.Stream<MemoryEvents.MemoryEvent>
}

/** Tag of the service. */
export class MemoryService extends Context.Tag("@memory/MemoryService")<MemoryService, Service>() {}

const make = (
  input: MemorySpec.Input
): Effect.Effect<Service, MemoryError.MemoryError, MemoryStore.MemoryStore | Scope.Scope> =>
  Effect.gen(function*() {
    const spec = yield* Effect.try({ try: () => MemorySpec.make(input), catch: unspecified })
    const store = yield* MemoryStore.MemoryStore
    const redaction = yield* Redaction.required("MemoryService.layer", store)
    const listeners = yield* Effect.serviceOption(MemoryEvents.MemoryEvents)
    const events = yield* Option.match(listeners, { onNone: () => MemoryEvents.make(), onSome: Effect.succeed })
    yield* MemoryEvents.publishReports(redaction, events.publish)
    const manager = Option.filter(yield* Effect.serviceOption(MemoryManager), () => spec.enabled)
    const plugins = yield* RateLimit.withProvided(spec.writesPerTurn)
    const publisher = MemoryEvents.makePublisher(events.publish)
    const { degraded } = publisher
    const policy = { rules: spec, events: publisher }
    const harness = WritePolicy.make(store, policy)
    const model = WritePolicy.make(store, { ...policy, origin: "agent" })
    /** Returns the store with the write rules for a model or for the harness, depending on the origin. */
    const storeOf = (origin: Origin = "user") => origin === "agent" || origin === "pipeline" ? model : harness
    const remembering = yield* WritePolicy.makeRemembering(policy)
    const prompt = yield* Injection.makeContext(
      spec,
      Option.match(manager, {
        onNone: () => Injection.make(remembering.recall),
        onSome: ({ inject }) => inject
      }),
      publisher
    )
    yield* Effect.logDebug("memory service", {
      store: store.name,
      ...remembering.found,
      instructionFiles: prompt.hasFiles,
      manager: Option.isSome(manager),
      events: Option.isSome(listeners),
      plugins: plugins.map(({ id }) => id)
    })

    const guard = WritePolicy.makeToolGuard(plugins, publisher)
    const bestEffort = <A>(name: string, f: (viewer: Viewer.Viewer) => Effect.Effect<A>) =>
      Effect.flatMap(CurrentViewer, f).pipe(Effect.withSpan(`MemoryService.${name}`))
    const operation = <A, E>(name: string, f: (viewer: Viewer.Viewer) => Effect.Effect<A, E>) =>
      Effect.flatMap(CurrentViewer, (viewer) => Viewer.required(name, viewer, f)).pipe(
        Effect.withSpan(`MemoryService.${name}`, { captureStackTrace: false })
      )

    const managed = (
      ask: (manager: Context.Tag.Service<MemoryManager>) => Effect.Effect<void, MemoryError.MemoryError>
    ) => Option.match(manager, { onNone: () => Effect.void, onSome: ask })

    const embedded = (viewer: Viewer.Viewer, wanted: boolean, record: MemoryRecord) =>
      wanted ? remembering.embed(viewer, [record]) : Effect.void

    return {
      spec,
      put: (draft, { embed = false, ...options } = {}) =>
        operation("put", (viewer) =>
          storeOf(options.origin).put(viewer, [draft], options).pipe(
            Effect.map(([put]) => put!), // one result per draft
            Effect.tap(({ outcome, record }) => embedded(viewer, embed && outcome !== "duplicate", record))
          )),
      update: (id, patch, { embed = false, ifRevision, origin } = {}) =>
        operation("update", (viewer) =>
          Effect.tap(
            storeOf(origin).update(viewer, id, patch, { ifRevision }),
            (record) => embedded(viewer, embed, record)
          )),
      forget: (id, { origin, purge } = {}) =>
        operation("forget", (viewer) =>
          Effect.map(storeOf(origin).forget(viewer, [id], { purge }), ([there]) => there === true)),
      forgetAll: (filter, options) =>
        operation("forgetAll", (viewer) =>
          WritePolicy.forgetAll(store, policy, viewer, filter, options)),
      apply: (mutations, provenance) =>
        operation("apply", (viewer) => storeOf(provenance?.origin).apply(viewer, mutations, provenance)),
      get: (id) => operation("get", (viewer) => Effect.map(store.get(viewer, [id]), ([found]) => found!)), // one result per id
      list: (filter) => operation("list", (viewer) => store.list(viewer, filter)),
      history: (id, limit) => operation("history", (viewer) => store.history(viewer, id, limit)),
      links: (id) => operation("links", (viewer) => store.links(viewer, id)),
      search: (query) => operation("search", (viewer) => publisher.recall(viewer, query, store.search(viewer, query))),
      remember: (turns, options) => operation("remember", (viewer) => remembering.remember(viewer, turns, options)),
      plan: (turns, options) => operation("plan", (viewer) => remembering.plan(viewer, turns, options)),
      recall: (query) => operation("recall", (viewer) => remembering.recall(viewer, query)),
      undo: (receipt) => operation("undo", (viewer) => remembering.undo(viewer, receipt)),
      embedMissing: Effect.withSpan(remembering.embedMissing, "MemoryService.embedMissing"),
      index: bestEffort("index", prompt.index),
      context: (turn) => bestEffort("context", (viewer) => prompt.context(viewer, turn)),
      instructions: bestEffort("instructions", prompt.instructions),
      turnStart: bestEffort(
        "turnStart",
        (viewer) => Effect.zipRight(guard.signal({ _tag: "turn_start", viewer }), prompt.seed(viewer))
      ),
      turnEnd: (messages) =>
        operation("turnEnd", (viewer) =>
          Effect.zipRight(
            guard.signal({ _tag: "turn_end", viewer }),
            managed(({ addMessages }) => addMessages(viewer, sessionOf(viewer), messages))
          )),
      sessionEnd: bestEffort("sessionEnd", (viewer) =>
        Effect.zipRight(
          guard.signal({ _tag: "session_end", viewer }),
          Effect.catchAll(
            managed(({ sessionEnd }) => sessionEnd(viewer, sessionOf(viewer))),
            degraded(viewer, "extraction")
          )
        )),
      flush: Effect.withSpan(managed(({ flush }) => flush), "MemoryService.flush"),
      guard: guard.tool,
      viewerMissing: publisher.viewerMissing,
      events: events.stream
    }
  })

/**
 * Provides the service over a store. Uses `Completion`, `Embedder`, `MemoryManager`, `InstructionFiles`, `MemoryEvents` and `Plugins` if
 * they are provided. Fails with `invalid_draft` if the spec is invalid. Fails with `unsupported` if the store was not built with the
 * provided `Redaction`.
 */
export const layer = (
  spec: MemorySpec.Input = {}
): Layer.Layer<MemoryService, MemoryError.MemoryError, MemoryStore.MemoryStore> =>
  Layer.scoped(MemoryService, make(spec))

/** Options of `layerTest`. */
export interface TestOptions {
  /**
   * Initial time, ISO 8601 or epoch milliseconds. The time advances with the ambient clock, such as a `TestClock`. Default: the time of the
   * ambient clock.
   */
  readonly now?: string | number | undefined
  /** Seed of random ids. Default `"memory"`. */
  readonly seed?: string | number | undefined
  /** Answers of the model, in order: a string as it is, a `MemoryError` as a failure, any other value as JSON. Default: no answers. */
  readonly script?: Iterable<unknown> | undefined
  readonly spec?: MemorySpec.Input | undefined
}

/**
 * Provides the service for tests: with an in-memory store, seeded ids, a scripted model, and an embedder that works by hashing. With a
 * `TestClock`, the same calls always return the same ids and times.
 */
export const layerTest = ({ now, script = [], seed = "memory", spec }: TestOptions = {}): Layer.Layer<
  MemoryService | MemoryStore.MemoryStore | MemoryEvents.MemoryEvents
> =>
  layer(spec).pipe(
    Layer.provide([Completion.layerScripted(script), Embedder.layerHash()]),
    Layer.provideMerge(Layer.merge(MemoryStore.layerInMemory, MemoryEvents.layer())),
    Layer.provideMerge(Layer.unwrapEffect(Effect.sync(() => Layer.setRandom(Random.make(seed))))),
    Layer.provideMerge(SecureRandom.layerSeeded(seed)),
    Layer.provideMerge(now === undefined ? Layer.empty : offsetClock(now)),
    Layer.orDie // an invalid spec is a mistake in the test
  )

/** Renders the memory index. Never fails. An error is published and logged, and the text then says "(memory unavailable)". */
export const renderMemoryIndex: Effect.Effect<string, never, MemoryService | CurrentViewer> = Effect.flatMap(
  MemoryService,
  ({ index }) => Effect.map(index, ({ text }) => text)
)

const sessionOf = ({ runId, sessionId }: Viewer.Viewer): string => sessionId ?? runId ?? "default"

const unspecified = (cause: unknown) => {
  const issues = Validation.linesOf(cause, "not a MemorySpec")
  return MemoryError.make("invalid_draft", { op: "layer", message: issues.join("; "), detail: { issues }, cause })
}

/** Shifts the ambient clock so that it shows `now` at the moment the layer is built. */
const offsetClock = (now: string | number): Layer.Layer<never> =>
  Layer.unwrapEffect(
    Effect.clockWith((clock) =>
      Effect.sync(() => {
        const ahead = (typeof now === "number" ? now : Date.parse(now)) - clock.unsafeCurrentTimeMillis()
        const nanos = BigInt(ahead) * 1_000_000n
        const shifted: Partial<Clock.Clock> = {
          unsafeCurrentTimeMillis: () => clock.unsafeCurrentTimeMillis() + ahead,
          unsafeCurrentTimeNanos: () => clock.unsafeCurrentTimeNanos() + nanos,
          currentTimeMillis: Effect.map(clock.currentTimeMillis, (millis) => millis + ahead),
          currentTimeNanos: Effect.map(clock.currentTimeNanos, (at) => at + nanos)
        }
        return Layer.setClock<Clock.Clock>(Object.assign(Object.create(clock), shifted))
      })
    )
  )
