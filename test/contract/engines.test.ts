/** Tests the laws of the contract themselves: stores on engines that are each broken in one way, which some law must detect. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as TestContext from "effect/TestContext"
import type { Engine, Found, Write } from "../../src/storage/Engine.ts"
import type { Law } from "../../src/testing/Law.ts"
import * as Batches from "../../src/testing/laws/Batches.ts"
import * as ChangeFeed from "../../src/testing/laws/ChangeFeed.ts"
import * as Concurrency from "../../src/testing/laws/Concurrency.ts"
import * as Forgetting from "../../src/testing/laws/Forgetting.ts"
import * as Identity from "../../src/testing/laws/Identity.ts"
import * as Links from "../../src/testing/laws/Links.ts"
import * as Refusals from "../../src/testing/laws/Refusals.ts"
import * as Relevance from "../../src/testing/laws/Relevance.ts"
import * as Retrieval from "../../src/testing/laws/Retrieval.ts"
import * as Time from "../../src/testing/laws/Time.ts"
import * as Trashing from "../../src/testing/laws/Trash.ts"
import * as Vectors from "../../src/testing/laws/Vectors.ts"
import * as Visibility from "../../src/testing/laws/Visibility.ts"
import * as MemoryStoreContract from "../../src/testing/MemoryStoreContract.ts"
import { layerOf } from "../storage/engines.ts"

type Breaks = (engine: Engine) => Partial<Engine>

/** Breaks an engine by changing what `transact` has found (rows, revisions, current time) before `decide` gets it. */
const finding = (change: (found: Found) => Partial<Found>): Breaks => (engine) => ({
  transact: (tenant, needs, decide) => engine.transact(tenant, needs, (found) => decide({ ...found, ...change(found) }))
})
/** Breaks an engine by changing the decided writes before the engine applies them. */
const writing = (change: (writes: ReadonlyArray<Write>) => ReadonlyArray<Write>): Breaks => (engine) => ({
  transact: (tenant, needs, decide) =>
    engine.transact(
      tenant,
      needs,
      (found) => Either.map(decide(found), (decision) => ({ ...decision, writes: change(decision.writes) }))
    )
})
const mapped = <K, A, B>(map: ReadonlyMap<K, A>, f: (value: A) => B): ReadonlyMap<K, B> =>
  new Map(Array.from(map, ([key, value]) => [key, f(value)]))

const mutants: Readonly<Record<string, Breaks>> = {
  "`transact` finds no record by its dedupe key": finding(() => ({ byDedupeKey: new Map() })),
  "`transact` finds the records with a dedupe key newest first": finding(({ byDedupeKey: holders }) => ({
    byDedupeKey: mapped(holders, (records) => records.toReversed())
  })),
  "`transact` finds only one record by a dedupe key": finding(({ byDedupeKey: holders }) => ({
    byDedupeKey: mapped(holders, (records) => records.slice(0, 1))
  })),
  "`transact` finds no tombstones": finding(({ rows }) => ({
    rows: new Map(Array.from(rows).filter(([, { forgotten }]) => !forgotten))
  })),
  "`transact` finds only the newest revision": finding(({ revisions }) => ({
    revisions: mapped(revisions, (rows) => rows.slice(0, 1))
  })),
  "`transact` gives 0 as the current time": finding(() => ({ now: 0 })),
  "`transact` reads before it locks": (engine) => ({
    transact: (tenant, needs, decide) =>
      Effect.gen(function*() {
        let stale: Found | undefined
        // decides on an earlier state, and does not report a conflict
        yield* engine.transact(tenant, needs, (found) => {
          stale = found
          return Either.right({ writes: [], answer: undefined })
        })
        yield* Effect.yieldNow()
        return yield* engine.transact(tenant, needs, (found) => decide(stale ?? found))
      })
  }),
  "`transact` dies if the decision is a `Left`": (engine) => ({
    transact: (tenant, needs, decide) =>
      Effect.catchAll(engine.transact(tenant, needs, decide), (error) => Effect.die(error))
  }),
  "`transact` applies writes in reverse order": writing((writes) => writes.toReversed()),
  "`transact` loses the last of several writes": writing((writes) => writes.length > 1 ? writes.slice(0, -1) : writes),
  "`transact` ignores erasures": writing((writes) => writes.filter(({ next }) => next !== undefined)),
  "`transact` leaves a tombstone for an erased record": (engine) => ({
    transact: (tenant, needs, decide) =>
      engine.transact(tenant, needs, (found) =>
        Either.map(decide(found), (decision) => ({
          ...decision,
          writes: decision.writes.map(({ id, next }) => {
            const row = found.rows.get(id)
            return next === undefined && row
              ? {
                id,
                next: {
                  stored: { ...row, forgotten: true },
                  terms: new Map(),
                  length: 0,
                  hash: "",
                  names: [],
                  refersTo: []
                }
              }
              : { id, next }
          })
        })))
  }),
  "`read` omits tombstones": (engine) => ({
    read: (tenant, ids) =>
      Effect.map(engine.read(tenant, ids), (rows) => rows.map(Option.filter(({ forgotten }) => !forgotten)))
  }),
  "`read` returns rows in reverse order": (engine) => ({
    read: (tenant, ids) => Effect.map(engine.read(tenant, ids), (rows) => rows.toReversed())
  }),
  "`read` ignores the tenant": (engine) => ({
    read: (_, ids) => engine.read("default", ids)
  }),
  "`revisions` returns the oldest first": (engine) => ({
    revisions: (tenant, id, limit) => Effect.map(engine.revisions(tenant, id, limit), (rows) => rows.toReversed())
  }),
  "`revisions` returns only the newest": (engine) => ({ revisions: (tenant, id) => engine.revisions(tenant, id, 1) }),
  "`due` never returns tombstones": (engine) => ({
    due: (after, limit) =>
      Effect.flatMap(
        engine.due(after, limit),
        (rows) =>
          Effect.filter(rows, ({ id, tenant }) =>
            Effect.map(engine.read(tenant, [id]), ([row]) =>
              row !== undefined && Option.isSome(row) && !row.value.forgotten))
      )
  }),
  "`due` gives 0 as the time of every row": (engine) => ({
    due: (after, limit) => Effect.map(engine.due(after, limit), (rows) => rows.map((row) => ({ ...row, at: 0 })))
  }),
  "`due` never returns records that expire": (engine) => ({
    due: (after, limit) =>
      Effect.flatMap(
        engine.due(after, limit),
        (rows) =>
          Effect.filter(rows, ({ id, tenant }) =>
            Effect.map(engine.read(tenant, [id]), ([row]) =>
              row !== undefined && Option.isSome(row) && row.value.forgotten))
      )
  }),
  "`referring` returns nothing": () => ({ referring: () => Effect.succeed([]) }),
  "`named` skips the viewer check": (engine) => ({
    named: (access, compiled, names) => engine.named({ ...access, visibility: { _tag: "Everyone" } }, compiled, names)
  }),
  "`referring` skips the viewer check": (engine) => ({
    referring: (access, compiled, keys) =>
      engine.referring({ ...access, visibility: { _tag: "Everyone" } }, compiled, keys)
  }),
  "`named` returns expired records": (engine) => ({
    named: (access, compiled, names) => engine.named({ ...access, now: -Infinity }, compiled, names)
  }),
  "`referring` returns records whose `invalidAt` is past": (engine) => ({
    referring: (access, compiled, keys) => engine.referring(access, { ...compiled, passes: () => true }, keys)
  }),
  "`page` omits the first record after the given position": (engine) => ({
    page: (access, compiled, after, limit) =>
      Effect.map(engine.page(access, compiled, after, limit), (page) => after === undefined ? page : page.slice(1))
  }),
  "`page` ignores the filter": (engine) => ({
    page: (access, compiled, after, limit) =>
      engine.page(access, { ...compiled, filter: {}, passes: () => true }, after, limit)
  }),
  "`page` ignores the valid time": (engine) => ({
    page: (access, { at: _, ...compiled }, after, limit) => engine.page(access, compiled, after, limit)
  }),
  "`page` returns the oldest record first": (engine) => ({
    page: (...args) => Effect.map(engine.page(...args), (records) => records.toReversed())
  }),
  "`page` skips the viewer check": (engine) => ({
    page: (access, ...args) => engine.page({ ...access, visibility: { _tag: "Everyone" } }, ...args)
  }),
  "`page` returns expired records": (engine) => ({
    page: (access, ...args) => engine.page({ ...access, now: -Infinity }, ...args)
  }),
  "`page` returns live records instead of forgotten ones": (engine) => ({
    page: (access, compiled, ...rest) =>
      engine.page(access, { ...compiled, filter: { ...compiled.filter, forgotten: false } }, ...rest)
  }),
  "`match` skips the viewer check": (engine) => ({
    match: (access, ...args) => engine.match({ ...access, visibility: { _tag: "Everyone" } }, ...args)
  }),
  "`match` returns expired records": (engine) => ({
    match: (access, ...args) => engine.match({ ...access, now: -Infinity }, ...args)
  }),
  "`match` ignores the filter": (engine) => ({
    match: (access, compiled, question) =>
      engine.match(access, { ...compiled, filter: {}, passes: () => true }, question)
  }),
  "`match` ignores the tenant": (engine) => ({
    match: (access, ...args) => engine.match({ ...access, tenant: "default" }, ...args)
  }),
  "`match` returns the worst candidate first": (engine) => ({
    match: (...args) =>
      Effect.map(engine.match(...args), (found) => ({ ...found, candidates: found.candidates.toReversed() }))
  }),
  "`match` omits the best candidate": (engine) => ({
    match: (...args) =>
      Effect.map(engine.match(...args), (found) => ({ ...found, candidates: found.candidates.slice(1) }))
  }),
  "`match` ignores `minScore`": (engine) => ({
    match: (access, compiled, question) => engine.match(access, compiled, { ...question, minScore: 0 })
  }),
  "`match` ignores the ranker": (engine) => ({
    match: (access, compiled, question) => engine.match(access, compiled, { ...question, ranker: undefined })
  }),
  "`match` ignores the weights": (engine) => ({
    match: (access, compiled, question) => engine.match(access, compiled, { ...question, score: undefined })
  }),
  "`match` does not score the records about which it was asked": (engine) => ({
    match: (access, compiled, question) => engine.match(access, compiled, { ...question, includeIds: [] })
  }),
  "`match` counts only the candidates that it returns": (engine) => ({
    match: (...args) =>
      Effect.map(
        engine.match(...args),
        (found) => ({ ...found, count: Math.min(found.count, found.candidates.length) })
      )
  }),
  "vectors.near returns the furthest record first": (engine) => ({
    vectors: engine.vectors && {
      ...engine.vectors,
      near: (...args) =>
        Effect.map(engine.vectors!.near(...args), (near) => ({ ...near, hits: near.hits.toReversed() }))
    }
  }),
  "vectors.near skips the viewer check": (engine) => ({
    vectors: engine.vectors && {
      ...engine.vectors,
      near: (access, ...args) => engine.vectors!.near({ ...access, visibility: { _tag: "Everyone" } }, ...args)
    }
  }),
  "vectors.near gives 0 as the number of records without a vector": (engine) => ({
    vectors: engine.vectors && {
      ...engine.vectors,
      near: (...args) => Effect.map(engine.vectors!.near(...args), (near) => ({ ...near, awaiting: 0 }))
    }
  }),
  "`changes` omits the row before the change": (engine) => ({
    changes: (tenant, heard) =>
      engine.changes(tenant, (event, now) => heard("issue" in event ? event : { ...event, before: undefined }, now))
  }),
  "`changes` ignores the tenant": (engine) => ({
    changes: (_, heard) => engine.changes("default", heard)
  }),
  "vectors.pending returns nothing": (engine) => ({
    vectors: engine.vectors && { ...engine.vectors, pending: () => Effect.succeed([]) }
  }),
  "vectors.read returns the vectors of another model": (engine) => ({
    vectors: engine.vectors && {
      ...engine.vectors,
      read: (tenant, _, hashes) => engine.vectors!.read(tenant, "other", hashes) // the in-memory engine has vectors
    }
  })
}

/** Laws by broken engine, for most engines. An engine is expected to fail one of its laws. To save time, these laws are tried first. */
const expected: Readonly<Record<string, ReadonlyArray<Law>>> = {
  "`transact` finds no record by its dedupe key": Identity.laws,
  "`transact` finds the records with a dedupe key newest first": [...Identity.laws, ...Batches.laws],
  "`transact` finds only one record by a dedupe key": [...Identity.laws, ...Batches.laws],
  "`transact` finds no tombstones": Forgetting.laws,
  "`transact` finds only the newest revision": Forgetting.laws,
  "`transact` gives 0 as the current time": Time.laws,
  "`transact` reads before it locks": Concurrency.laws,
  "`transact` dies if the decision is a `Left`": Refusals.laws,
  "`transact` applies writes in reverse order": Batches.laws,
  "`transact` loses the last of several writes": Batches.laws,
  "`transact` ignores erasures": Forgetting.laws,
  "`transact` leaves a tombstone for an erased record": Forgetting.laws,
  "`read` omits tombstones": [...Trashing.laws, ...Forgetting.laws],
  "`read` ignores the tenant": Visibility.laws,
  "`due` never returns tombstones": Trashing.laws,
  "`due` gives 0 as the time of every row": Trashing.laws,
  "`due` never returns records that expire": Time.laws,
  "`referring` returns nothing": Links.laws,
  "`referring` returns records whose `invalidAt` is past": Links.laws,
  "`named` skips the viewer check": Links.laws,
  "`referring` skips the viewer check": Links.laws,
  "`named` returns expired records": Links.laws,
  ...Object.fromEntries([
    "`page` omits the first record after the given position",
    "`page` ignores the filter",
    "`page` returns the oldest record first",
    "`match` returns the worst candidate first",
    "`match` omits the best candidate",
    "`match` ignores `minScore`",
    "`match` ignores the weights",
    "`match` counts only the candidates that it returns"
  ].map((name) => [name, [...Retrieval.laws, ...Relevance.laws]])),
  ...Object.fromEntries([
    "`page` skips the viewer check",
    "`match` skips the viewer check",
    "`match` ignores the tenant"
  ].map((name) => [name, [...Visibility.laws, ...Relevance.laws]])),
  "`page` returns live records instead of forgotten ones": Trashing.laws,
  "vectors.near returns the furthest record first": Vectors.laws,
  "vectors.near skips the viewer check": Vectors.laws,
  "vectors.near gives 0 as the number of records without a vector": Vectors.laws,
  "`changes` omits the row before the change": ChangeFeed.laws,
  "`changes` ignores the tenant": ChangeFeed.laws,
  "vectors.pending returns nothing": Vectors.laws
}

/** Returns the first law that the engine breaks. */
const killer = (name: string, breaks: Breaks) =>
  Effect.gen(function*() {
    const layer = layerOf((engine) => ({ ...engine, ...breaks(engine) }))
    for (const law of [...expected[name] ?? [], ...MemoryStoreContract.laws]) {
      const exit = yield* MemoryStoreContract.check(law, layer).pipe(
        Effect.scoped,
        Effect.provide(TestContext.TestContext),
        Effect.exit
      )
      if (Exit.isFailure(exit)) return law.title
    }
    return undefined
  })

describe("the laws of MemoryStore fail for a store over an engine whose method", () => {
  for (const [name, breaks] of Object.entries(mutants)) {
    it.effect(name, (test) =>
      Effect.gen(function*() {
        const caught = yield* killer(name, breaks)
        assert.isDefined(caught, "survived")
        yield* Effect.promise(() => test.annotate(caught!, "killed by"))
      }), 600_000)
  }
})
