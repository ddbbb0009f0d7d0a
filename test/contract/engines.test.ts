/** Engines that are broken in one way each: the laws of a store catch them through the store that is made of them. */
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

/** What is found is changed before anything is decided. */
const finding = (change: (found: Found) => Partial<Found>): Breaks => (engine) => ({
  transact: (tenant, needs, decide) => engine.transact(tenant, needs, (found) => decide({ ...found, ...change(found) }))
})
/** What was decided is changed before it is written. */
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
  "of a dedupe key nobody is found": finding(() => ({ holders: new Map() })),
  "of a dedupe key the newest is found": finding(({ holders }) => ({
    holders: mapped(holders, (records) => records.toReversed())
  })),
  "of a dedupe key one record is found": finding(({ holders }) => ({
    holders: mapped(holders, (records) => records.slice(0, 1))
  })),
  "tombstones are not found": finding(({ rows }) => ({
    rows: new Map(Array.from(rows).filter(([, { forgotten }]) => !forgotten))
  })),
  "earlier revisions are not found": finding(({ revisions }) => ({
    revisions: mapped(revisions, (rows) => rows.slice(0, 1))
  })),
  "a transaction has the time of the store's beginning": finding(() => ({ now: 0 })),
  "a transaction reads before it locks": (engine) => ({
    transact: (tenant, needs, decide) =>
      Effect.gen(function*() {
        let stale: Found | undefined
        // decides with what was there before, and says so to nobody
        yield* engine.transact(tenant, needs, (found) => {
          stale = found
          return Either.right({ writes: [], answer: undefined })
        })
        yield* Effect.yieldNow()
        return yield* engine.transact(tenant, needs, (found) => decide(stale ?? found))
      })
  }),
  "a refusal is an answer": (engine) => ({
    transact: (tenant, needs, decide) =>
      Effect.catchAll(engine.transact(tenant, needs, decide), (error) => Effect.die(error))
  }),
  "writes are applied in reverse": writing((writes) => writes.toReversed()),
  "the last write is lost": writing((writes) => writes.length > 1 ? writes.slice(0, -1) : writes),
  "what is erased stays": writing((writes) => writes.filter(({ next }) => next !== undefined)),
  "what is erased leaves a tombstone": (engine) => ({
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
  "tombstones are not read": (engine) => ({
    read: (tenant, ids) =>
      Effect.map(engine.read(tenant, ids), (rows) => rows.map(Option.filter(({ forgotten }) => !forgotten)))
  }),
  "rows are read in any order": (engine) => ({
    read: (tenant, ids) => Effect.map(engine.read(tenant, ids), (rows) => rows.toReversed())
  }),
  "rows of all tenants are one tenant's": (engine) => ({
    read: (_, ids) => engine.read("default", ids)
  }),
  "revisions come oldest first": (engine) => ({
    revisions: (tenant, id, limit) => Effect.map(engine.revisions(tenant, id, limit), (rows) => rows.toReversed())
  }),
  "only the newest revision is read": (engine) => ({ revisions: (tenant, id) => engine.revisions(tenant, id, 1) }),
  "tombstones are never due": (engine) => ({
    due: (after, limit) =>
      Effect.flatMap(
        engine.due(after, limit),
        (rows) =>
          Effect.filter(rows, ({ id, tenant }) =>
            Effect.map(engine.read(tenant, [id]), ([row]) =>
              row !== undefined && Option.isSome(row) && !row.value.forgotten))
      )
  }),
  "tombstones are due at once": (engine) => ({
    due: (after, limit) => Effect.map(engine.due(after, limit), (rows) => rows.map((row) => ({ ...row, at: 0 })))
  }),
  "what expires is never due": (engine) => ({
    due: (after, limit) =>
      Effect.flatMap(
        engine.due(after, limit),
        (rows) =>
          Effect.filter(rows, ({ id, tenant }) =>
            Effect.map(engine.read(tenant, [id]), ([row]) =>
              row !== undefined && Option.isSome(row) && row.value.forgotten))
      )
  }),
  "nobody refers to anybody": () => ({ referring: () => Effect.succeed([]) }),
  "names are everybody's": (engine) => ({
    named: (sight, asked, names) => engine.named({ ...sight, visibility: { _tag: "Everyone" } }, asked, names)
  }),
  "whoever refers is in sight": (engine) => ({
    referring: (sight, asked, keys) => engine.referring({ ...sight, visibility: { _tag: "Everyone" } }, asked, keys)
  }),
  "who has expired is still referred to by name": (engine) => ({
    named: (sight, asked, names) => engine.named({ ...sight, now: -Infinity }, asked, names)
  }),
  "who is closed still refers": (engine) => ({
    referring: (sight, asked, keys) => engine.referring(sight, { ...asked, passes: () => true }, keys)
  }),
  "a page leaves out the first record after its position": (engine) => ({
    page: (sight, asked, after, limit) =>
      Effect.map(engine.page(sight, asked, after, limit), (page) => after === undefined ? page : page.slice(1))
  }),
  "a page passes over the filter": (engine) => ({
    page: (sight, asked, after, limit) => engine.page(sight, { ...asked, filter: {}, passes: () => true }, after, limit)
  }),
  "a page has what is not true any more": (engine) => ({
    page: (sight, { at: _, ...asked }, after, limit) => engine.page(sight, asked, after, limit)
  }),
  "a page is oldest first": (engine) => ({
    page: (...asked) => Effect.map(engine.page(...asked), (records) => records.toReversed())
  }),
  "a page has what is out of sight": (engine) => ({
    page: (sight, ...asked) => engine.page({ ...sight, visibility: { _tag: "Everyone" } }, ...asked)
  }),
  "a page has what has expired": (engine) => ({
    page: (sight, ...asked) => engine.page({ ...sight, now: -Infinity }, ...asked)
  }),
  "the trash has the records that are there": (engine) => ({
    page: (sight, asked, ...rest) =>
      engine.page(sight, { ...asked, filter: { ...asked.filter, forgotten: false } }, ...rest)
  }),
  "what is out of sight matches": (engine) => ({
    match: (sight, ...asked) => engine.match({ ...sight, visibility: { _tag: "Everyone" } }, ...asked)
  }),
  "what has expired matches": (engine) => ({
    match: (sight, ...asked) => engine.match({ ...sight, now: -Infinity }, ...asked)
  }),
  "what the filter keeps out matches": (engine) => ({
    match: (sight, asked, question) => engine.match(sight, { ...asked, filter: {}, passes: () => true }, question)
  }),
  "matches of another tenant are found": (engine) => ({
    match: (sight, ...asked) => engine.match({ ...sight, tenant: "default" }, ...asked)
  }),
  "the worst matches come first": (engine) => ({
    match: (...asked) =>
      Effect.map(engine.match(...asked), (found) => ({ ...found, candidates: found.candidates.toReversed() }))
  }),
  "the best match is lost": (engine) => ({
    match: (...asked) =>
      Effect.map(engine.match(...asked), (found) => ({ ...found, candidates: found.candidates.slice(1) }))
  }),
  "matches below the least score are found": (engine) => ({
    match: (sight, asked, question) => engine.match(sight, asked, { ...question, minScore: 0 })
  }),
  "a match is ranked by its words alone": (engine) => ({
    match: (sight, asked, question) => engine.match(sight, asked, { ...question, ranker: undefined })
  }),
  "weights count for nothing": (engine) => ({
    match: (sight, asked, question) => engine.match(sight, asked, { ...question, score: undefined })
  }),
  "nobody is scored who was asked about": (engine) => ({
    match: (sight, asked, question) => engine.match(sight, asked, { ...question, also: [] })
  }),
  "the number of matches is that of a page": (engine) => ({
    match: (...asked) =>
      Effect.map(
        engine.match(...asked),
        (found) => ({ ...found, count: Math.min(found.count, found.candidates.length) })
      )
  }),
  "the furthest vectors come first": (engine) => ({
    vectors: engine.vectors && {
      ...engine.vectors,
      near: (...asked) =>
        Effect.map(engine.vectors!.near(...asked), (near) => ({ ...near, hits: near.hits.toReversed() }))
    }
  }),
  "vectors out of sight are near": (engine) => ({
    vectors: engine.vectors && {
      ...engine.vectors,
      near: (sight, ...asked) => engine.vectors!.near({ ...sight, visibility: { _tag: "Everyone" } }, ...asked)
    }
  }),
  "nobody awaits a vector": (engine) => ({
    vectors: engine.vectors && {
      ...engine.vectors,
      near: (...asked) => Effect.map(engine.vectors!.near(...asked), (near) => ({ ...near, awaiting: 0 }))
    }
  }),
  "changes do not say what was there before": (engine) => ({
    changes: (tenant, heard) =>
      engine.changes(tenant, (event, now) => heard("issue" in event ? event : { ...event, before: undefined }, now))
  }),
  "changes of one tenant are told to all": (engine) => ({
    changes: (_, heard) => engine.changes("default", heard)
  }),
  "pending texts are those of nobody": (engine) => ({
    vectors: engine.vectors && { ...engine.vectors, pending: () => Effect.succeed([]) }
  }),
  "vectors of another model are given": (engine) => ({
    vectors: engine.vectors && {
      ...engine.vectors,
      read: (tenant, _, hashes) => engine.vectors!.read(tenant, "other", hashes) // the engine in memory has them
    }
  })
}

/** The laws that are expected to catch an engine are tried first: most mutants die within a second. */
const expected: Readonly<Record<string, ReadonlyArray<Law>>> = {
  "of a dedupe key nobody is found": Identity.laws,
  "of a dedupe key the newest is found": [...Identity.laws, ...Batches.laws],
  "of a dedupe key one record is found": [...Identity.laws, ...Batches.laws],
  "tombstones are not found": Forgetting.laws,
  "earlier revisions are not found": Forgetting.laws,
  "a transaction has the time of the store's beginning": Time.laws,
  "a transaction reads before it locks": Concurrency.laws,
  "a refusal is an answer": Refusals.laws,
  "writes are applied in reverse": Batches.laws,
  "the last write is lost": Batches.laws,
  "what is erased stays": Forgetting.laws,
  "what is erased leaves a tombstone": Forgetting.laws,
  "tombstones are not read": [...Trashing.laws, ...Forgetting.laws],
  "rows of all tenants are one tenant's": Visibility.laws,
  "tombstones are never due": Trashing.laws,
  "tombstones are due at once": Trashing.laws,
  "what expires is never due": Time.laws,
  "nobody refers to anybody": Links.laws,
  "who is closed still refers": Links.laws,
  "names are everybody's": Links.laws,
  "whoever refers is in sight": Links.laws,
  "who has expired is still referred to by name": Links.laws,
  ...Object.fromEntries([
    "a page leaves out the first record after its position",
    "a page passes over the filter",
    "a page is oldest first",
    "the worst matches come first",
    "the best match is lost",
    "matches below the least score are found",
    "weights count for nothing",
    "the number of matches is that of a page"
  ].map((name) => [name, [...Retrieval.laws, ...Relevance.laws]])),
  ...Object.fromEntries([
    "a page has what is out of sight",
    "what is out of sight matches",
    "matches of another tenant are found"
  ].map((name) => [name, [...Visibility.laws, ...Relevance.laws]])),
  "the trash has the records that are there": Trashing.laws,
  "the furthest vectors come first": Vectors.laws,
  "vectors out of sight are near": Vectors.laws,
  "nobody awaits a vector": Vectors.laws,
  "changes do not say what was there before": ChangeFeed.laws,
  "changes of one tenant are told to all": ChangeFeed.laws,
  "pending texts are those of nobody": Vectors.laws
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

describe("mutants of an engine are caught by the laws of a store", () => {
  for (const [name, breaks] of Object.entries(mutants)) {
    it.effect(name, (test) =>
      Effect.gen(function*() {
        const caught = yield* killer(name, breaks)
        assert.isDefined(caught, "survived")
        yield* Effect.promise(() => test.annotate(caught!, "killed by"))
      }), 600_000)
  }
})
