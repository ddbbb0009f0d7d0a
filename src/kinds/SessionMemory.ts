/**
 * Learnings: what an agent learned in a work session. A session is an Effect resource. It ends when its Effect scope closes, or when `end`
 * succeeds. Only `end` stores a summary of the session.
 *
 * A learning is stored as soon as it is recorded. Its `MemoryScope` has the ids of the viewer and of the session. A viewer with reach
 * `exact` sees only sessions that were started with the same ids, running or ended. If such a viewer has a session id, only that session is
 * visible. If such a viewer has no ids, no session is visible.
 *
 * A session keeps a number of its last learnings of each type. If a program also provides `Retention`, the cap of the kind `learning`
 * applies, too: 100 learnings of one session, of all types together. To keep more, register the kind with a higher cap: `MemoryKind.layer`.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { byRecency, deriveSummary, type MemoryRecord, recencyOf } from "../domain/MemoryRecord.ts"
import { Global, MemoryScope, notNarrower, same } from "../domain/MemoryScope.ts"
import type * as Payload from "../domain/Payload.ts"
import { check } from "../domain/Validation.ts"
import * as Viewer from "../domain/Viewer.ts"
import { MemoryStore } from "../storage/MemoryStore.ts"
import { type Found, make as typed, type Typed } from "./TypedMemory.ts"

/** The `data` of a learning. */
export type Learning = Payload.Learning

/**
 * A session. Recording fails with `unsupported` once the session has ended, and with `invalid_draft` if a text is blank. Only `context` may
 * be blank.
 */
export interface Session {
  readonly id: string
  /** The most confident learnings of the last 10 sessions: at most 20, each with a confidence of 0.5 or more. */
  readonly loaded: ReadonlyArray<Typed<Learning>>
  /** Records a learning. `confidence` is 0..1, default 0.5. A session keeps its last 500 learnings of the type `learning`. */
  readonly recordLearning: (
    pattern: string,
    options?: { readonly context?: string | undefined; readonly confidence?: number | undefined }
  ) => Effect.Effect<Typed<Learning>, MemoryError.MemoryError>
  /** Records the approach to a task. A session keeps its last 200 tasks. */
  readonly recordTask: (
    approach: string,
    options?: {
      readonly context?: string | undefined
      /** Number or name of the task in an issue tracker. */
      readonly issue?: string | undefined
      readonly challenges?: ReadonlyArray<string> | undefined
      /** Duration in whole milliseconds. */
      readonly durationMs?: number | undefined
    }
  ) => Effect.Effect<Typed<Learning>, MemoryError.MemoryError>
  /** Stores an error with its solution. `filePattern` describes the files concerned. A session keeps its last 200 errors. */
  readonly recordError: (
    error: string,
    solution: string,
    options?: { readonly filePattern?: string | undefined }
  ) => Effect.Effect<Typed<Learning>, MemoryError.MemoryError>
  /** Ends the session, and stores a summary with the session's duration. Only the last 50 summaries of a session id are kept. */
  readonly end: (summary: string) => Effect.Effect<Typed<Learning>, MemoryError.MemoryError>
}

/** Operations of `SessionMemory`. */
export interface Service {
  /**
   * Starts a session. Several sessions may run at once. Sessions share their learnings if their ids and their viewers' ids are equal.
   * Fails with `invalid_scope` if the viewer has a session id other than `sessionId`. Cost: reads all learnings that the viewer sees.
   */
  readonly start: (
    viewer: Viewer.Viewer,
    sessionId: string
  ) => Effect.Effect<Session, MemoryError.MemoryError, Scope.Scope>
  /** Finds learnings, including those of running sessions, best first. Default `limit` 10. */
  readonly search: (
    viewer: Viewer.Any,
    text: string,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Found<Learning>>, MemoryError.MemoryError>
  /** Returns errors with their solutions, newest first. Default `limit` 10. */
  readonly getRecentErrorSolutions: (
    viewer: Viewer.Any,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Typed<Learning>>, MemoryError.MemoryError>
  /** Returns the summaries with which sessions were ended, newest first. Default `limit` 10. */
  readonly getRecentSummaries: (
    viewer: Viewer.Any,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Typed<Learning>>, MemoryError.MemoryError>
}

/** Tag of the service for sessions. */
export class SessionMemory extends Context.Tag("@memory/SessionMemory")<SessionMemory, Service>() {}

/**
 * Largest number of learnings of one session, by type. After each recording, the session reads its stored learnings of the type, including
 * those of other processes, and forgets the oldest beyond this number. `Retention` keeps fewer: the cap of the kind `learning` is 100 for
 * all types of one session together.
 */
export const caps: Readonly<Record<Learning["type"], number>> = { learning: 500, task: 200, error: 200, summary: 50 }

const Text = Schema.String.pipe(Schema.pattern(/\S/, { message: () => "expected some text" }))
const Texts = Schema.Struct({
  text: Text,
  context: Schema.optional(Schema.String),
  issue: Schema.optional(Text),
  challenges: Schema.optional(Schema.Array(Text)),
  solution: Schema.optional(Text),
  filePattern: Schema.optional(Text)
})
const Scoped = Schema.Struct({ scope: MemoryScope })

/** Makes the service over the `MemoryStore` in the context. */
export const make: Effect.Effect<Service, never, MemoryStore> = Effect.gen(function*() {
  const store = yield* MemoryStore
  const learnings = yield* typed(MemoryKind.learning)

  /** Returns all learnings of the sessions that the viewer sees, newest first. */
  const learningsOf = (viewer: Viewer.Any) => {
    const { filter, reader } = sessionReader(viewer)
    return Effect.map(
      Stream.runCollect(store.stream(reader, { ...filter, kinds: [learnings.kind.name], limit: 1_000 })),
      (all): ReadonlyArray<MemoryRecord> => Array.from(all)
    )
  }

  const recent = (op: string, viewer: Viewer.Any, type: Learning["type"], limit: number) =>
    Viewer.required(op, viewer, (viewer) => {
      const { filter, reader } = sessionReader(viewer)
      return learnings.list(reader, { where: { ...filter.where, "data.type": { eq: type } }, limit })
    }).pipe(Effect.withSpan(`SessionMemory.${op}`))

  /** Forgets the oldest learnings of this type and of exactly this scope, if more than `caps[type]` are stored. Keeps `last`. */
  const forgetExcess = (viewer: Viewer.Any, scope: MemoryScope, type: Learning["type"], last: MemoryRecord) =>
    Effect.gen(function*() {
      const { items } = yield* store.list(viewer, {
        kinds: [learnings.kind.name],
        scope,
        where: { ...notNarrower(scope), "data.type": { eq: type } },
        limit: 1_000
      })
      const older = items.filter(({ id }) => id !== last.id).sort(lastRecordedFirst)
      yield* store.forget(viewer, older.slice(caps[type] - 1).map(({ id }) => id))
    })

  const start = (viewer: Viewer.Viewer, sessionId: string) =>
    Effect.gen(function*() {
      if (!Viewer.isAny(viewer)) return yield* Viewer.notViewer("start")
      const { scope } = yield* check("start", Scoped, { scope: { ...Viewer.idsOf(viewer), sessionId } })
      if (viewer.sessionId !== undefined && !same(viewer.sessionId, sessionId)) {
        const message = "a viewer starts only the session that it names"
        return yield* MemoryError.make("invalid_scope", { op: "start", message })
      }
      const startedAt = yield* Clock.currentTimeMillis
      const own = Viewer.narrowed(viewer, { sessionId })
      const { reader } = sessionReader(viewer)
      const known = yield* learningsOf(viewer)
      const loaded = yield* Effect.forEach(mostConfident(known), ({ id }) => learnings.get(reader, id))
      const hasEnded = yield* Ref.make(false)
      // the `record…` methods and `end` of a session run one at a time
      const exclusively = (yield* Effect.makeSemaphore(1)).withPermits(1)
      yield* Effect.addFinalizer(() => Ref.set(hasEnded, true))

      const record = (text: string, data: Learning, confidence?: number) =>
        exclusively(recorded(text, data, confidence)).pipe(
          Effect.uninterruptible,
          Effect.withSpan("SessionMemory.record", { attributes: { type: data.type } })
        )
      const recorded = (text: string, data: Learning, confidence?: number) =>
        Effect.gen(function*() {
          const op = `record_${data.type}`
          if (yield* Ref.get(hasEnded)) {
            return yield* MemoryError.make("unsupported", { op, message: "the session has ended" })
          }
          const { context, filePattern, issue, solution } = data
          const { challenges = [] } = yield* check(op, Texts, { ...data, text })
          const rest = [issue, context, ...challenges, solution, filePattern].filter((part) => part !== undefined)
          const made = yield* learnings.put(own, {
            scope,
            body: [text, ...rest].join("\n\n"),
            data,
            confidence,
            summary: rest.length === 0 ? undefined : deriveSummary(text)
          })
          yield* forgetExcess(own, scope, data.type, made.record)
          return made
        })

      return {
        id: sessionId,
        loaded: loaded.flatMap(Option.toArray),
        recordLearning: (pattern, { confidence = 0.5, context } = {}) =>
          record(pattern, { type: "learning", context }, confidence),
        recordTask: (approach, { challenges, context, durationMs, issue } = {}) =>
          record(approach, { type: "task", context, issue, challenges, durationMs }),
        recordError: (error, solution, { filePattern } = {}) => record(error, { type: "error", solution, filePattern }),
        end: (summary) =>
          exclusively(Effect.gen(function*() {
            const durationMs = Math.max(0, (yield* Clock.currentTimeMillis) - startedAt) // the clock may have been set back
            const made = yield* recorded(summary, { type: "summary", durationMs })
            yield* Ref.set(hasEnded, true)
            return made
          })).pipe(Effect.uninterruptible, Effect.withSpan("SessionMemory.end"))
      } satisfies Session
    }).pipe(Effect.withSpan("SessionMemory.start"))

  return {
    start,
    search: (viewer, text, limit = 10) => {
      const searched = Viewer.required("search", viewer, (viewer) => {
        const { filter, reader } = sessionReader(viewer)
        return learnings.search(reader, { ...filter, text, limit })
      })
      return Effect.withSpan(searched, "SessionMemory.search")
    },
    getRecentErrorSolutions: (viewer, limit = 10) => recent("getRecentErrorSolutions", viewer, "error", limit),
    getRecentSummaries: (viewer, limit = 10) => recent("getRecentSummaries", viewer, "summary", limit)
  }
})

/** Provides `SessionMemory` over a `MemoryStore`. */
export const layer: Layer.Layer<SessionMemory, never, MemoryStore> = Layer.effect(SessionMemory, make)

/**
 * Returns a viewer and a filter for reading learnings. If `viewer` has ids and reach `exact`, the two together select the records in its
 * scope and in its sessions, and leave out scopes with further ids. Any other viewer is returned unchanged, with an empty filter.
 */
const sessionReader = (
  viewer: Viewer.Any
): { readonly reader: Viewer.Any; readonly filter: Pick<MemoryFilter, "where"> } => {
  if (Viewer.isSystem(viewer) || viewer.reach !== "exact" || hasNoIds(viewer)) return { reader: viewer, filter: {} }
  const ids = Viewer.idsOf(viewer)
  return {
    reader: Viewer.make({ ...ids, tenant: viewer.tenant, reach: "within" }),
    filter: { where: notNarrower({ sessionId: "any", ...ids }) } // the value "any" is not compared: every session id passes
  }
}

const hasNoIds = (viewer: Viewer.Any): boolean => Viewer.scopeOf(viewer) === Global

const sessionOf = ({ scope }: MemoryRecord): string | undefined => scope === Global ? undefined : scope.sessionId

/** Selects the learnings that a new session loads (`Session.loaded`). The records must be ordered newest first. */
const mostConfident = (records: ReadonlyArray<MemoryRecord>): ReadonlyArray<MemoryRecord> => {
  const last = new Set(Array.from(new Set(records.map(sessionOf))).slice(0, 10))
  return records
    .filter((record) => (record.confidence ?? 0) >= 0.5 && last.has(sessionOf(record)))
    .sort((a, b) => b.confidence! - a.confidence! || byRecency(a, b)) // the filter leaves only records with a confidence
    .slice(0, 20)
}

/** Orders learnings: last stored first. Of learnings of the same millisecond, the one with the greater id was stored later. */
const lastRecordedFirst = (a: MemoryRecord, b: MemoryRecord): number =>
  recencyOf(b) - recencyOf(a) || (a.id < b.id ? 1 : -1)
