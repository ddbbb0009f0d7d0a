/**
 * Events about memory operations. A harness (the program that runs an agent) can show, log and count the events. A listener that lags
 * behind misses the oldest events.
 *
 * Events carry ids, scopes, kinds, scores, counts, names of tools and plugins, reasons of refusals, and errors. They carry no text of a
 * record or a search, except with `MemoryEvents.layer({ texts: true })`: then, summaries of records and words of searches, too.
 *
 * Effect metrics count operations such as searches and writes, even without a listener. docs/observability.md lists the metrics.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as PubSub from "effect/PubSub"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Struct from "effect/Struct"
import { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryQuery, SearchResult } from "../domain/MemoryFilter.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { Applied } from "../domain/MemoryMutation.ts"
import { type MemoryRecord, Millis, Summary, Unit } from "../domain/MemoryRecord.ts"
import { MemoryScope } from "../domain/MemoryScope.ts"
import { tokensIn } from "../domain/PromptText.ts"
import * as Validation from "../domain/Validation.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { ToolCall } from "../host/HarnessPlugin.ts"
import * as Redaction from "../host/Redaction.ts"
import type { Put } from "../storage/MemoryStore.ts"

const common = { viewer: Schema.Union(Viewer.System, Viewer.Stored), at: Millis }
const entry = { id: MemoryId, scope: MemoryScope, kind: MemoryKind.Name, summary: Schema.optional(Summary) }

/** Schema of an event. */
export const MemoryEvent = Schema.Union(
  Schema.TaggedStruct("memory_written", {
    ...common,
    ...entry,
    outcome: Schema.Literal("created", "updated", "duplicate")
  }),
  Schema.TaggedStruct("memory_recalled", {
    ...common,
    /** Text of the search, or null if the search has no text. Present only with the option `texts`. */
    query: Schema.optional(Schema.NullOr(Schema.String)),
    hits: Schema.Array(Schema.Struct({ id: MemoryId, scope: MemoryScope, score: Unit })),
    /** Number of records that were found but not returned, by reason. Absent in events of earlier versions. */
    leftOut: Schema.optional(Schema.Struct({ limit: Schema.Int, budget: Schema.Int, folded: Schema.Int }))
  }),
  Schema.TaggedStruct("memory_forgotten", { ...common, id: MemoryId, purged: Schema.Boolean }),
  /** A record was forgotten because the number of records of its kind exceeded the cap of the kind. See `Retention`. */
  Schema.TaggedStruct("memory_retired", { ...common, ...entry }),
  Schema.TaggedStruct("memory_denied", {
    ...common,
    tool: Schema.String,
    plugin: Schema.String,
    reason: Schema.String
  }),
  Schema.TaggedStruct("memory_write_failed", { ...common, error: MemoryError }),
  /** A part of memory failed, such as a retriever of a search or a background extraction. All other work went on without it. */
  Schema.TaggedStruct("memory_degraded", { ...common, part: Schema.String, error: MemoryError }),
  /**
   * `Redaction` removed `count` secrets from the texts of one call. The viewer is `System` if the texts were sent to a model or are
   * instruction files.
   */
  Schema.TaggedStruct("memory_redacted", { ...common, count: Schema.Int }),
  /** A part of memory, such as `injection`, was skipped because the call named no viewer. */
  Schema.TaggedStruct("memory_viewer_missing", { viewer: Schema.Null, at: Millis, part: Schema.String })
)
/** An event of memory. */
export type MemoryEvent = typeof MemoryEvent.Type

/** Operations of `MemoryEvents`. */
export interface Service {
  /** Publishes an event. Never waits for a listener. */
  readonly publish: (event: MemoryEvent) => Effect.Effect<void>
  /** Events of every viewer, from the moment the stream is run. Only for the harness: an agent must not see events of other viewers. */
  readonly stream: Stream.Stream<MemoryEvent>
}

/** Tag of the service for events. */
export class MemoryEvents extends Context.Tag("@memory/MemoryEvents")<MemoryEvents, Service>() {}

/** Options of the service. */
export interface Options {
  /** Number of events kept for a slow listener, at least 1. If more events wait, the listener misses the oldest. Default 1,024. */
  readonly capacity?: number | undefined
  /** Whether events carry summaries and the words of searches. Default false. */
  readonly texts?: boolean | undefined
}

/** Makes the service. The stream of events ends when the Effect scope closes. */
export const make = ({ capacity = 1_024, texts = false }: Options = {}): Effect.Effect<Service, never, Scope.Scope> =>
  Effect.gen(function*() {
    yield* Effect.orDie(Validation.refuseOptions("MemoryEvents.make", Validation.countIssues("capacity", capacity, 1)))
    const events = yield* Effect.acquireRelease(PubSub.sliding<MemoryEvent>(capacity), PubSub.shutdown)
    const publish: Service["publish"] = (event) =>
      Effect.asVoid(PubSub.publish(events, texts ? event : withoutTexts(event)))
    yield* publishReports(yield* Redaction.Redaction, publish)
    return { publish, stream: Stream.fromPubSub(events) }
  })

/**
 * Publishes a `memory_redacted` event for each report of `redaction`, until the Effect scope closes. Two calls with the same `publish`
 * publish each report only once. @internal
 */
export const publishReports = (
  redaction: Redaction.Service | undefined,
  publish: Service["publish"]
): Effect.Effect<void, never, Scope.Scope> =>
  redaction === undefined ? Effect.void : redaction.listen(
    ({ count, viewer }) =>
      Effect.flatMap(Clock.currentTimeMillis, (at) => publish({ _tag: "memory_redacted", viewer, at, count })),
    publish
  )

/** Removes the texts of an event. `publish` applies this function to every event, unless the option `texts` is set. */
const withoutTexts = (event: MemoryEvent): MemoryEvent => {
  switch (event._tag) {
    case "memory_written":
      return Struct.omit(event, "summary")
    case "memory_retired":
      return Struct.omit(event, "summary")
    case "memory_recalled":
      return Struct.omit(event, "query")
    default:
      return event
  }
}

/** Provides `MemoryEvents`. */
export const layer = (options?: Options): Layer.Layer<MemoryEvents> => Layer.scoped(MemoryEvents, make(options))

/* The rest of this module builds and publishes the events of the whole harness. */

/** A change of one record, from which an event is built. @internal */
export interface Change extends Pick<Applied, "id" | "outcome" | "record"> {
  /** Whether a forgotten record was also purged. Default false. */
  readonly purged?: boolean | undefined
}

/** Builds events and publishes them. @internal */
export interface EventPublisher {
  /** Publishes `memory_written` or `memory_forgotten` for each change, except for changes with the outcome `absent`. */
  readonly changed: (viewer: Viewer.Any, changes: ReadonlyArray<Change>) => Effect.Effect<void>
  /** Runs a write. Then passes its changes to `changed`, or publishes `memory_write_failed` if the write failed. */
  readonly write: <A>(
    viewer: Viewer.Any,
    write: Effect.Effect<A, MemoryError>,
    changesOf: (result: A) => ReadonlyArray<Change>
  ) => Effect.Effect<A, MemoryError>
  /** Runs a search, then publishes `memory_recalled`. A failed search publishes no event, but counts in the metric `memory_failures`. */
  readonly recall: (
    viewer: Viewer.Viewer,
    query: MemoryQuery,
    search: Effect.Effect<SearchResult, MemoryError>
  ) => Effect.Effect<SearchResult, MemoryError>
  /** Adds the length of a part of a prompt, in tokens of four characters, to the metric `memory_tokens_injected`. */
  readonly injected: (part: "index" | "context" | "instructions", text: string) => Effect.Effect<void>
  /** Publishes `memory_retired` for each record. */
  readonly retired: (system: Viewer.System, records: ReadonlyArray<MemoryRecord>) => Effect.Effect<void>
  /** Publishes `memory_denied`, which says that a plugin refused a tool call. */
  readonly denied: (call: ToolCall, plugin: string, reason: string) => Effect.Effect<void>
  /** Publishes `memory_degraded` and logs a warning: `part` failed, and all other work went on without it. */
  readonly degraded: (viewer: Viewer.Viewer, part: string) => (error: MemoryError) => Effect.Effect<void>
  /** Publishes `memory_viewer_missing` and logs a warning: `part` was skipped, since a call named no viewer. */
  readonly viewerMissing: (part: string) => Effect.Effect<void>
}

/** Returns one change for each result of `put`. @internal */
export const changesOf = (puts: ReadonlyArray<Put>): ReadonlyArray<Change> =>
  puts.map(({ outcome, record }) => ({ id: record.id, outcome, record }))

const counter = (name: string, description: string) => Metric.counter(name, { description, incremental: true })

const recalls = counter("memory_recalls", "Searches that were answered")
const recallHits = counter("memory_recall_hits", "Records that searches gave")
const recallsEmpty = counter("memory_recalls_empty", "Searches that gave nothing")
const writes = counter("memory_writes", "Records that were created, updated or forgotten")
const duplicates = counter("memory_duplicates", "Drafts that were there already")
const denials = counter("memory_denials", "Calls of tools that a plugin denied, by plugin")
const failures = counter("memory_failures", "Operations and best efforts that failed, by part")
const tokensInjected = counter("memory_tokens_injected", "Tokens that prompts were given, by part")

/** Makes a publisher of events. The time of an event is the time at which it is published. @internal */
export const makePublisher = (publish: Service["publish"]): EventPublisher => {
  const now = <A, E>(use: (at: number) => Effect.Effect<A, E>) => Effect.flatMap(Clock.currentTimeMillis, use)

  const changed: EventPublisher["changed"] = (viewer, changes) =>
    now((at) =>
      Effect.forEach(changes, ({ id, outcome, purged = false, record }) => {
        if (outcome === "forgotten") return publish({ _tag: "memory_forgotten", viewer, at, id, purged })
        if (outcome === "absent" || record === undefined) return Effect.void
        const { kind, scope, summary } = record
        return publish({ _tag: "memory_written", viewer, at, id, scope, kind, summary, outcome })
      }, { discard: true })
    ).pipe(Effect.zipRight(counted(changes)))

  const counted = (changes: ReadonlyArray<Change>) => {
    const there = changes.filter(({ outcome }) => outcome !== "absent")
    const repeated = there.filter(({ outcome }) => outcome === "duplicate").length
    return Effect.zipRight(
      Metric.incrementBy(writes, there.length - repeated),
      Metric.incrementBy(duplicates, repeated)
    )
  }

  const failed = (part: string) => Metric.increment(Metric.tagged(failures, "part", part))

  return {
    changed,
    write: (viewer, write, changesOf) =>
      write.pipe(
        Effect.tapError((error) =>
          Effect.zipRight(
            failed("write"),
            now((at) => publish({ _tag: "memory_write_failed", viewer, at, error }))
          )
        ),
        Effect.tap((result) => changed(viewer, changesOf(result)))
      ),
    recall: (viewer, query, search) =>
      search.pipe(
        Effect.tapError(() => failed("recall")),
        Effect.tap(({ hits, leftOut }) =>
          Effect.zipRight(
            Effect.all([
              Metric.increment(recalls),
              hits.length === 0 ? Metric.increment(recallsEmpty) : Metric.incrementBy(recallHits, hits.length)
            ]),
            now((at) =>
              publish({
                _tag: "memory_recalled",
                viewer,
                at,
                query: query.text ?? null,
                hits: hits.map(({ record: { id, scope }, score }) => ({ id, scope, score })),
                leftOut
              })
            )
          )
        )
      ),
    injected: (part, text) =>
      text === ""
        ? Effect.void
        : Metric.incrementBy(Metric.tagged(tokensInjected, "part", part), tokensIn(text.length)),
    retired: (system, records) =>
      now((at) =>
        Effect.forEach(
          records,
          ({ id, kind, scope, summary }) =>
            publish({ _tag: "memory_retired", viewer: system, at, id, scope, kind, summary }),
          { discard: true }
        )
      ),
    denied: ({ tool, viewer }, plugin, reason) =>
      Effect.zipRight(
        Metric.increment(Metric.tagged(denials, "plugin", plugin)),
        now((at) => publish({ _tag: "memory_denied", viewer, at, tool, plugin, reason }))
      ),
    degraded: (viewer, part) => (error) =>
      Effect.zipRight(
        Effect.zipRight(Effect.logWarning(`memory: no ${part}`, error), failed(part)),
        now((at) => publish({ _tag: "memory_degraded", viewer, at, part, error }))
      ),
    viewerMissing: (part) =>
      Effect.zipRight(
        Effect.logWarning(`memory: no ${part}, since the call names no viewer: run it within MemoryService.as`),
        now((at) => publish({ _tag: "memory_viewer_missing", viewer: null, at, part }))
      )
  }
}
