/** Seed 0's Promise-based object, as a source of ours, and our service as such an object. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../domain/MemoryError.ts"
import { matches } from "../../domain/MemoryFilter.ts"
import * as MemoryId from "../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { tokenise } from "../../ranking/Tokenizer.ts"
import type { Service } from "../EpisodicMemory.ts"
import type { DraftOf, Typed } from "../TypedMemory.ts"
import { filterOf, named, newest, type RecallQuery, type SemanticRecallOptions, type Source, window } from "./Source.ts"

import {
  defined,
  episodeOf,
  foreign,
  parse,
  reflectionOf,
  SeedEpisode,
  SeedReflection,
  toEpisode,
  toReflection,
  typed
} from "./Wire.ts"

/** The seed says its range of time as a pair, both inclusive. */
export interface SeedQuery extends Omit<RecallQuery, "timeRange"> {
  readonly timeRange?: readonly [from: number, to: number] | undefined
}

/** Seed 0's Promise-based object; two methods are required. */
export interface MemoryAdapter {
  saveEpisode(episode: object): Promise<void>
  recall(query: SeedQuery): Promise<ReadonlyArray<object>>
  semanticRecall?(text: string, options?: SemanticRecallOptions): Promise<ReadonlyArray<object>>
  getByIds?(ids: ReadonlyArray<string>): Promise<ReadonlyArray<object>>
  saveReflection?(reflection: object): Promise<void>
  getReflections?(sourceEntity?: string): Promise<ReadonlyArray<object>>
}

export type Run = <A>(self: Effect.Effect<A, MemoryError.MemoryError>) => Promise<A>

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

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

  /** What the adapter has, as far as the viewer sees it; it may hand out anybody's. */
  const seen = <A>(
    op: string,
    viewer: Viewer.Any,
    rows: Io<ReadonlyArray<object>>,
    read: (row: object) => Io<Typed<A>>
  ) =>
    Effect.map(
      Effect.flatMap(rows, (rows) =>
        Array.isArray(rows)
          ? Effect.forEach(rows, read)
          : MemoryError.make("io", { op, message: `the adapter's ${op} gave no list` })),
      (all) => all.filter(({ record }) => Viewer.sees(viewer, record.scope))
    ).pipe(Effect.withSpan(`MemoryAdapter.${op}`))
  const episodes = (op: string, viewer: Viewer.Any, rows: Io<ReadonlyArray<object>>) =>
    seen(
      op,
      viewer,
      rows,
      (row) =>
        Effect.flatMap(
          parse(op, SeedEpisode, row),
          (seed) =>
            Effect.flatMap(Clock.currentTimeMillis, (now) => typed(op, "episodic", named(episodeOf(seed, viewer, now))))
        )
    )

  return {
    saveEpisode: (viewer, draft) =>
      Effect.gen(function*() {
        const saved = yield* written("saveEpisode", "episodic", viewer, named(draft))
        yield* ask("saveEpisode", () => adapter.saveEpisode(toEpisode(saved)))
        return saved
      }),
    episodes: (viewer, { context, limit = 20, ...query }) =>
      Effect.gen(function*() {
        const now = yield* Clock.currentTimeMillis
        const passes = matches(yield* filterOf("recall", query), now)
        const { events: _, timeRange, ...rest } = query
        const asked: SeedQuery = {
          ...defined({ ...rest, context, sourceEntity: query.sourceEntity ?? actorOf(viewer) }),
          ...(timeRange && {
            timeRange: [timeRange.from ?? 0, (timeRange.until ?? Number.MAX_SAFE_INTEGER) - 1] as const
          }),
          limit: window
        }
        const all = yield* episodes("recall", viewer, ask("recall", () => adapter.recall(asked)))
        return newest(all.filter((one) => passes(one.record) && speaksOf(context, one.record)), limit)
      }),
    semantic: (viewer, text, { topK = 5, ...options }) =>
      Effect.gen(function*() {
        const { semanticRecall } = adapter
        const now = yield* Clock.currentTimeMillis
        const passes = matches(yield* filterOf("semanticRecall", options), now)
        const rows = ask(
          "semanticRecall",
          semanticRecall && (() => semanticRecall.call(adapter, text, defined({ ...options, topK: window })))
        )
        const all = yield* episodes("semanticRecall", viewer, rows)
        const found = all.filter(({ record }) => passes(record)).slice(0, topK)
        return { found: found.map((one, i) => ({ ...one, score: 1 - i / found.length })), failures: [] } // the seed says no score
      }),
    getByIds: (viewer, ids) => {
      const { getByIds } = adapter
      return episodes("getByIds", viewer, ask("getByIds", getByIds && (() => getByIds.call(adapter, ids))))
    },
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
          (row) =>
            Effect.flatMap(parse("getReflections", SeedReflection, row), (seed) =>
              Effect.flatMap(
                Clock.currentTimeMillis,
                (now) => typed("getReflections", "reflection", reflectionOf(seed, viewer, now))
              ))
        ),
        (all) => newest(all, limit)
      )
    }
  }
}

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
          ...(limit !== undefined && { limit: limit === 0 ? window : Math.min(limit, window) }), // 0 is the seed's "all"
          ...(timeRange && { timeRange: between(...timeRange) })
        }),
        (all) => all.map(toEpisode)
      )),
    semanticRecall: (text, options) =>
      run(Effect.map(memory.semanticRecall(viewer, text, options), (all) => all.map(toEpisode))),
    getByIds: (ids) => {
      const isOurs = Schema.is(MemoryId.MemoryId)
      const known = ids.flatMap((id) => [foreign(viewer, id), ...(isOurs(id) ? [id] : [])])
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

/** Both inclusive, and any number: the seed's may be infinite, and parts of milliseconds. */
const between = (from: number, until: number): RecallQuery["timeRange"] => ({
  from: Math.min(Math.max(0, Math.ceil(from)), Number.MAX_SAFE_INTEGER),
  until: until >= Number.MAX_SAFE_INTEGER ? undefined : Math.max(0, Math.floor(until) + 1)
})

const actorOf = (viewer: Viewer.Any) => Viewer.isSystem(viewer) ? undefined : viewer.actorId

const written = <A extends object>(op: string, kind: string, viewer: Viewer.Any, draft: DraftOf<A>) =>
  Effect.gen(function*() {
    if (!Viewer.sees(viewer, draft.scope)) {
      return yield* MemoryError.make("invalid_scope", { op, message: "the viewer does not see that scope" })
    }
    const id = draft.id ?? (yield* MemoryId.ulid)
    return yield* typed(op, kind, { ...draft, id, validAt: draft.validAt ?? (yield* Clock.currentTimeMillis) })
  })

const speaksOf = (context: string | undefined, { body, summary }: MemoryRecord): boolean => {
  if (context === undefined || context === "") return true
  const words = new Set(tokenise(context))
  return tokenise(`${summary}\n${body}`).some((word) => words.has(word))
}
