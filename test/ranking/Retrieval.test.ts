import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryFilter } from "../../src/domain/MemoryFilter.ts"
import * as MemoryFilters from "../../src/domain/MemoryFilter.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import { type MemoryRecord, textHash } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { accessFilterOf } from "../../src/domain/Viewer.ts"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import * as Ranker from "../../src/ranking/internal/Ranker.ts"
import * as Searcher from "../../src/ranking/internal/Searcher.ts"
import * as MemoryIndex from "../../src/ranking/MemoryIndex.ts"
import type { CompiledFilter, Question, Retrieval } from "../../src/ranking/Retrieval.ts"
import { id, record } from "./world.ts"

const ada = Viewer.make({ userId: "ada" })
const compiled = (filter: MemoryFilter = {}): CompiledFilter => ({
  filter,
  at: 0,
  passes: MemoryFilters.matches(filter, 0)
})
const question = (fields: Partial<Question>): Question => ({
  terms: ["tea"],
  minScore: 0,
  depth: 10,
  includeIds: [],
  ...fields
})
const indexOf = (...records: ReadonlyArray<MemoryRecord>) => {
  const index = MemoryIndex.make()
  for (const one of records) index.add(one)
  return index
}
const access = accessFilterOf(ada, 0)
const turn = (sequence: number) => ({ origin: "user" as const, trust: 1 as const, session: "s", sequence })

describe("MemoryIndex.match", () => {
  const records = [
    record("best", { body: "tea tea tea", createdAt: 1 }),
    record("second", { body: "tea and milk", createdAt: 2 }),
    record("third", { body: "tea and milk and sugar and lemon", createdAt: 3 }),
    record("other", { body: "coffee", createdAt: 4 }),
    record("user", { body: "tea", kind: "user", createdAt: 5 }),
    record("bob", { body: "tea", scope: { userId: "bob" }, createdAt: 6 })
  ]
  const names = (index: MemoryIndex.MemoryIndex, filter: MemoryFilter, fields: Partial<Question>) =>
    index.match(access, compiled(filter), question(fields)).candidates.map(({ fact }) => fact.record!.summary)

  it("`match` takes term statistics from all visible records, but hits only from records that pass the filter", () => {
    const { best, candidates, count, documentFrequencies, documents, exact } = indexOf(...records)
      .match(access, compiled({ kinds: ["note"] }), question({ terms: ["tea", "nowhere", "milk"], depth: 2 }))
    assert.deepStrictEqual([documents, documentFrequencies, count, exact], [5, [4, 0, 2], 3, true])
    assert.lengthOf(candidates, 2)
    assert.strictEqual(candidates[0]!.lexical, best)
    assert.strictEqual(candidates[0]!.score, 1)
    assert.strictEqual(candidates[1]!.score, candidates[1]!.lexical / best)
  })

  it("`match` also returns each record of `includeIds`, once, if the record is visible and passes the filter", () => {
    const index = indexOf(...records)
    const also = ["third", "other", "best", "third", "user", "bob", "nobody"].map(id)
    assert.deepStrictEqual(names(index, { kinds: ["note"] }, { includeIds: also, depth: 1 }), [
      "best",
      "third",
      "other"
    ])
    const { candidates } = index.match(access, compiled(), question({ includeIds: also, depth: 1, minScore: 1 }))
    const last = candidates.at(-2)!
    assert.deepStrictEqual([last.fact.id, last.lexical, last.score], [id("other"), 0, 0])
  })

  it("a custom score receives the frequency of each query term in the record", () => {
    const counts = new Map<string, ReadonlyArray<number>>()
    const score: Question["score"] = (fact, relevance, frequencies) => {
      counts.set(fact.record!.summary, frequencies())
      return relevance
    }
    const index = indexOf(...records, record("again", { body: "milk", createdAt: 7 }))
    index.remove(id("second"))
    index.match(access, compiled(), question({ terms: ["milk", "tea", "nowhere"], score }))
    assert.deepStrictEqual(counts.get("best"), [0, 3, 0])
    assert.deepStrictEqual(counts.get("third"), [1, 1, 0])
    assert.deepStrictEqual(counts.get("again"), [1, 0, 0])
    assert.isFalse(counts.has("other"))
  })

  it("a ranker or a custom score is applied before the `depth` best candidates are selected", () => {
    const lone = Array.from({ length: 5 }, (_, n) => record(`lone ${n}`, { body: "tea tea" }))
    const turns = [0, 1, 2].map((n) =>
      record(`turn ${n}`, { body: "tea and a lot besides, as people talk", source: turn(n) })
    )
    const index = indexOf(...lone, ...turns)
    const ranked = Ranker.questionRanker("tea", ada, 0, { conversation: 1, ranker: 1 }, false)
    const byNeighbours = { ...ranked, rank: ({ neighbours }: Ranker.Signals) => neighbours }
    assert.deepStrictEqual(names(index, {}, { depth: 1, ranker: { isTimely: false, read: () => byNeighbours } }), [
      "turn 1"
    ])
    assert.notDeepEqual(names(index, {}, { depth: 1 }), ["turn 1"])
    const score: Question["score"] = (fact) => fact.record!.summary === "turn 2" ? 1 : 0
    assert.deepStrictEqual(names(index, {}, { depth: 1, score }), ["turn 2"])
  })

  it("a custom score that throws does not change later answers", () => {
    const index = indexOf(...records)
    const before = index.match(access, compiled(), question({}))
    const score = () => {
      throw new Error("bad")
    }
    assert.throws(() => index.match(access, compiled(), question({ score })), "bad")
    assert.deepStrictEqual(index.match(access, compiled(), question({})), before)
  })
})

describe("Searcher", () => {
  const options = { analyzer: Analyzer.plain, kinds: MemoryKind.Kinds.defaultValue() }
  const over = (index: MemoryIndex.MemoryIndex, changes: Partial<Retrieval> = {}): Retrieval => ({
    page: (...args) => Effect.sync(() => index.page(...args)),
    match: (...args) => Effect.sync(() => index.match(...args)),
    read: (_, ids) =>
      Effect.sync(() =>
        ids.map((id) => Option.map(Option.fromNullable(index.get(id)), (record) => ({ record, forgotten: false })))
      ),
    vectors: {
      near: (...args) => Effect.sync(() => index.near(...args)),
      read: (_, __, hashes) => Effect.sync(() => hashes.map(() => Option.none()))
    },
    ...changes
  })
  const search = (retrieval: Retrieval, query: MemoryFilters.MemoryQuery) =>
    Searcher.run(() => Searcher.search(retrieval, options, ada, query, 0))
  const records = ["a", "b", "c"].map((name, n) => record(name, { body: `tea ${name.repeat(4)}`, createdAt: n }))

  it.effect("leftOut.exact is false if the search by words or the search by vectors is inexact, and absent otherwise", () =>
    Effect.gen(function*() {
      const index = indexOf(...records)
      const embedding = { model: "m", vector: [1, 0] }
      index.attach("m", textHash(records[0]!), Float32Array.of(1, 0))
      const match: Retrieval["match"] = (...args) => Effect.sync(() => ({ ...index.match(...args), exact: false }))
      const near = (...args: Parameters<typeof index.near>) =>
        Effect.sync(() => ({ ...index.near(...args), exact: false }))
      const vectors = { ...over(index).vectors!, near }
      assert.notProperty((yield* search(over(index), { text: "tea", embedding })).leftOut, "exact")
      assert.isFalse((yield* search(over(index, { match }), { text: "tea" })).leftOut.exact)
      assert.isFalse((yield* search(over(index, { match }), { text: "tea", embedding })).leftOut.exact)
      assert.isFalse((yield* search(over(index, { vectors }), { text: "tea", embedding })).leftOut.exact)
      assert.isFalse((yield* search(over(index, { vectors }), { embedding, mode: "vector" })).leftOut.exact)
    }))

  it.effect("a ranked record is no hit if it is forgotten, invisible or filtered out when its body is read", () =>
    Effect.gen(function*() {
      const index = indexOf(...records)
      const match: Retrieval["match"] = (...args) =>
        Effect.sync(() => {
          const matches = index.match(...args)
          const candidates = matches.candidates.map((one) => {
            const { hash, id, kind, recency } = one.fact
            return { ...one, fact: { ...one.fact, id, hash, kind, recency, record: undefined } }
          })
          return { ...matches, candidates } as typeof matches // the copied facts lack the getters of facts, which these tests do not read
        })
      const found = (change: (record: MemoryRecord) => { record: MemoryRecord; forgotten: boolean } | undefined) =>
        Effect.map(
          search(
            over(index, {
              match,
              read: (_, ids) =>
                Effect.sync(() =>
                  ids.map((one) =>
                    Option.fromNullable(one === id("b") ? change(index.get(one)!) : row(index.get(one)!))
                  )
                )
            }),
            { text: "tea", kinds: ["note"] }
          ),
          ({ hits, leftOut }) => [hits.map(({ record }) => record.summary).sort().join(""), leftOut.limit]
        )
      const row = (record: MemoryRecord) => ({ record, forgotten: false })
      const b = (fields: Partial<MemoryRecord>) => row(record("b", { body: "tea", ...fields }))
      assert.deepStrictEqual(yield* found(row), ["abc", 0])
      assert.deepStrictEqual(yield* found(() => undefined), ["ac", 0])
      assert.deepStrictEqual(yield* found((record) => ({ record, forgotten: true })), ["ac", 0])
      assert.deepStrictEqual(yield* found(() => b({ scope: { userId: "bob" } })), ["ac", 0])
      assert.deepStrictEqual(yield* found(() => b({ kind: "user" })), ["ac", 0])
      assert.deepStrictEqual(yield* found(() => b({ expiresAt: 0 })), ["ac", 0])
    }))

  it.effect("`search` reads one body per hit, and a few more bodies if near-duplicates are folded into a hit", () =>
    Effect.gen(function*() {
      const many = Array.from({ length: 200 }, (_, n) => record(`${n}`, { body: `tea w${n % 100}`, createdAt: n }))
      const index = indexOf(
        ...many.map((one) => record(one.summary, { ...one, summary: `s${Number(one.summary) % 100}` }))
      )
      const reads: Array<number> = []
      const bare: Retrieval["match"] = (...args) =>
        Effect.sync(() => {
          const matches = index.match(...args)
          const candidates = matches.candidates.map((one) => {
            const { hash, id, kind, recency } = one.fact
            return { ...one, fact: { ...one.fact, id, hash, kind, recency, record: undefined } }
          })
          return { ...matches, candidates } as typeof matches // the copied facts lack the getters of facts, which these tests do not read
        })
      const retrieval = over(index, {
        match: bare,
        read: (_, ids) => {
          reads.push(ids.length)
          return Effect.sync(() => ids.map((id) => Option.some({ record: index.get(id)!, forgotten: false })))
        }
      })
      const { hits } = yield* search(retrieval, { text: "tea", limit: 20 })
      assert.lengthOf(hits, 20)
      assert.deepStrictEqual(reads, [20])
      reads.length = 0
      const all = yield* search(retrieval, { text: "tea w1", limit: 2 })
      assert.lengthOf(all.hits, 2)
      assert.strictEqual(all.leftOut.folded, 1)
      assert.deepStrictEqual(reads, [2, 4])
    }))

  it.effect("a store that cannot search by vectors is searched by words, even if the query has a vector", () =>
    Effect.gen(function*() {
      const index = indexOf(...records)
      const query = { text: "tea", embedding: { model: "m", vector: [1, 0] } }
      const { awaiting, hits } = yield* search(over(index, { vectors: undefined }), query)
      assert.isUndefined(awaiting)
      assert.lengthOf(hits, 3)
    }))
})
