/**
 * Wrapped engines for tests. They record calls and check their bounds, delay transactions, count inexactly, or have an index to rebuild.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import { type Engine, makeTenantLocks } from "../../src/storage/Engine.ts"
import * as MemoryEngine from "../../src/storage/internal/MemoryEngine.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"

/** An empty engine in memory. */
export const inMemory: Effect.Effect<Engine> = Effect.gen(function*() {
  return MemoryEngine.make({ kinds: yield* MemoryKind.registered, analyzer: yield* Analyzer.Analyzer })
})

/** A store on a wrapped in-memory engine. Each build makes a new engine. */
export const layerOf = (wrap: (engine: Engine) => Engine): Layer.Layer<MemoryStore.MemoryStore> =>
  Layer.scoped(
    MemoryStore.MemoryStore,
    Effect.flatMap(inMemory, (engine) => MemoryStore.make("engine", wrap(engine))).pipe(
      Effect.tap(MemoryStore.maintain),
      Effect.orDie // the in-memory engine does not fail
    )
  )

/** A call of an engine: the operation, the number of rows asked for, and the number of rows returned. */
export interface Call {
  readonly op: string
  readonly asked: number
  readonly given: number
}

/** Records each call of the methods listed here in `calls`. Dies if the engine returns more than the bound of its contract. */
export const counting = (engine: Engine, calls: Array<Call>): Engine => {
  const note = (op: string, asked: number, given: number) => {
    calls.push({ op, asked, given })
    assert.isAtMost(given, asked, op)
  }
  const noted = <A, E>(op: string, asked: number, self: Effect.Effect<ReadonlyArray<A>, E>) =>
    Effect.tap(self, ({ length }) => Effect.sync(() => note(op, asked, length)))
  const { vectors } = engine
  return {
    ...engine,
    read: (tenant, ids) => noted("read", ids.length, engine.read(tenant, ids)),
    revisions: (tenant, id, limit) => noted("revisions", limit, engine.revisions(tenant, id, limit)),
    transact: (tenant, needs, decide) =>
      engine.transact(tenant, needs, (found) => {
        note("transact", needs.ids.length, found.rows.size)
        for (const id of found.rows.keys()) assert.include(needs.ids, id)
        for (const id of found.revisions.keys()) assert.include(needs.revisions, id)
        for (const [key, holders] of found.byDedupeKey) {
          assert.include(needs.dedupeKeys, key)
          assert.isAtMost(holders.length, needs.ids.length + 1)
        }
        return decide(found)
      }),
    due: (after, limit) => noted("due", limit, engine.due(after, limit)),
    named: (access, asked, names) => noted("named", Infinity, engine.named(access, asked, names)),
    referring: (access, asked, keys) => noted("referring", Infinity, engine.referring(access, asked, keys)),
    page: (access, asked, after, limit) => noted("page", limit, engine.page(access, asked, after, limit)),
    match: (access, asked, question) =>
      Effect.tap(
        engine.match(access, asked, question),
        ({ candidates }) =>
          Effect.sync(() => note("match", question.depth + question.includeIds.length, candidates.length))
      ),
    overCap: (tenant, caps) => noted("overCap", Infinity, engine.overCap(tenant, caps)),
    vectors: vectors && {
      ...vectors,
      near: (access, asked, model, vector, depth) =>
        Effect.tap(
          vectors.near(access, asked, model, vector, depth),
          ({ hits }) => Effect.sync(() => note("near", depth, hits.length))
        ),
      pending: (tenant, model, limit) => noted("pending", limit, vectors.pending(tenant, model, limit)),
      read: (tenant, model, hashes) => noted("vectors", hashes.length, vectors.read(tenant, model, hashes))
    }
  }
}

/** Delays each transaction by 10 ms. Transactions of one tenant run one after the other. */
export const slow = (engine: Engine): Engine => {
  const locks = makeTenantLocks()
  return {
    ...engine,
    transact: (tenant, needs, decide) =>
      locks.withLock(tenant)(Effect.delay(engine.transact(tenant, needs, decide), "10 millis"))
  }
}

/**
 * Makes an engine that counts at most `depth` matches by words, and reports the count as inexact if there are more. It reports every search
 * by vector as inexact. Engines that prune postings or search vectors approximately do the same.
 */
export const inexact = (engine: Engine): Engine => ({
  ...engine,
  match: (access, asked, question) =>
    Effect.map(engine.match(access, asked, question), (matches) => ({
      ...matches,
      count: Math.min(matches.count, question.depth),
      exact: matches.count <= question.depth
    })),
  vectors: engine.vectors && {
    ...engine.vectors,
    near: (...asked) => Effect.map(engine.vectors!.near(...asked), (near) => ({ ...near, exact: false }))
  }
})

/** Makes an engine that keeps in `made` the fingerprint of the analyzer that made its terms, as an engine with a persistent index does. */
export const indexed = (engine: Engine, made: { analyzer: string | undefined; entries: number }): Engine => ({
  ...engine,
  analyzer: Effect.sync(() => made.analyzer),
  reindex: (analyzer, entryOf) =>
    Effect.gen(function*() {
      yield* Stream.runForEach(engine.tenants, (tenant) =>
        Effect.gen(function*() {
          const page = yield* engine.page(
            { tenant, visibility: { _tag: "All" }, now: -Infinity },
            { filter: {}, passes: () => true },
            undefined,
            1_000
          )
          const rows = yield* engine.read(tenant, page.map(({ id }) => id))
          made.entries += rows.flatMap((row) => Option.isSome(row) ? [entryOf(row.value).length] : []).length
        }))
      made.analyzer = analyzer
    })
})
