/** A Searcher over records that are stored elsewhere and whose bodies are read last, compared with an in-memory index. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import { type MemoryRecord, textHash } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import * as Searcher from "../../src/ranking/internal/Searcher.ts"
import * as MemoryIndex from "../../src/ranking/MemoryIndex.ts"
import type { Fact, Retrieval } from "../../src/ranking/Retrieval.ts"
import { Embeddings } from "../../src/ranking/VectorIndex.ts"
import { times } from "../vault/Program.ts"
import { model, queryOf, random, recordOf, vectorOf, viewers, worlds } from "./random.ts"
import { id, record } from "./world.ts"

const analyzer = Analyzer.make()
const kinds = MemoryKind.Kinds.defaultValue()
/** Returns a `Retrieval` that answers as a database does: by Effects, with facts without bodies, which are read later by id. */
const remote = (index: MemoryIndex.MemoryIndex, embeddings: Embeddings): Retrieval => ({
  page: (...args) => Effect.sync(() => index.page(...args)),
  match: (...args) =>
    Effect.sync(() => {
      const matches = index.match(...args)
      return { ...matches, candidates: matches.candidates.map((one) => ({ ...one, fact: bodiless(one.fact) })) }
    }),
  read: (_, ids) =>
    Effect.sync(() =>
      ids.map((id) => Option.map(Option.fromNullable(index.get(id)), (record) => ({ record, forgotten: false })))
    ),
  vectors: {
    near: (...args) =>
      Effect.sync(() => {
        const near = index.near(...args)
        return { ...near, hits: near.hits.map(({ cosine, fact }) => ({ cosine, fact: bodiless(fact) })) }
      }),
    read: (_, model, hashes) =>
      Effect.sync(() => hashes.map((hash) => Option.fromNullable(embeddings.get(model, hash))))
  }
})
const bodiless = (fact: Fact): Fact => ({
  id: fact.id,
  hash: fact.hash,
  recency: fact.recency,
  validAt: fact.validAt,
  kind: fact.kind,
  importance: fact.importance,
  confidence: fact.confidence,
  trust: fact.trust,
  actor: fact.actor,
  scope: fact.scope,
  session: fact.session,
  sequence: fact.sequence,
  length: fact.length,
  emotion: fact.emotion
})

const queries = times(400, 2_000)

describe("Searcher over an index without bodies", () => {
  for (const { repeating, seed, size } of worlds) {
    it.effect(`${queries} random queries give the results of an in-memory index (${size} records, share of copies: ${repeating})`, () =>
      Effect.gen(function*() {
        const any = random(seed)
        const { below, next, of } = any
        const embeddings = new Embeddings()
        const index = MemoryIndex.make({ analyzer, kinds, embeddings })
        const far = remote(index, embeddings)
        const records = new Map<number, MemoryRecord>()
        const set = (n: number) => {
          const made = recordOf(any, n, Array.from(records.values()), repeating)
          records.set(n, made)
          index.add(made)
          if (next() < 0.8) embeddings.set(model, textHash(made), Float32Array.from(vectorOf(any)))
        }
        for (let n = 0; n < size; n++) set(n)
        const seen = { hits: 0, folded: 0, left: 0, dear: 0, awaiting: 0, reasons: new Set<string | undefined>() }
        for (let n = 0; n < queries; n++) {
          if (n % 20 === 0) {
            yield* Effect.promise(() => new Promise((done) => setImmediate(done))) // lets the worker answer the test runner
            const gone = below(size)
            index.remove(id(`${gone}`))
            records.delete(gone)
            set(below(size))
          }
          const viewer = of(viewers)
          const now = below(60)
          const query = queryOf(any)
          const about = `${n}: ${JSON.stringify([viewer, query, now])}`
          const expected = index.search(viewer, query, now)
          const found = yield* Searcher.run(() => Searcher.search(far, { analyzer, kinds }, viewer, query, now))
          assert.deepStrictEqual(found, expected, about)
          seen.hits += expected.hits.length
          seen.folded += expected.leftOut.folded
          seen.left += expected.leftOut.limit
          seen.dear += expected.leftOut.budget
          seen.awaiting += expected.awaiting ?? 0
          const one = id(`${below(size)}`)
          const why = index.whyNot(viewer, one, query, now)
          seen.reasons.add(why)
          const plan = () => Searcher.whyNot(far, { analyzer, kinds }, viewer, one, query, now)
          assert.strictEqual(yield* Searcher.run(plan), why, about)
          if (n % 3 === 2) {
            const page = index.list(viewer, query, now)
            assert.deepStrictEqual(yield* Searcher.run(() => Searcher.list(far, viewer, query, now)), page, about)
            const rest = { ...query, after: page?.next }
            const further = index.list(viewer, rest, now)
            assert.deepStrictEqual(yield* Searcher.run(() => Searcher.list(far, viewer, rest, now)), further, about)
          }
        }
        // fails if a change of the worlds makes one of the cases rare
        assert.isAbove(seen.hits, queries)
        for (const count of [seen.left, seen.dear, seen.awaiting]) assert.isAbove(count, queries / 10)
        if (repeating > 0) assert.isAbove(seen.folded, queries / 10)
        assert.isAtLeast(seen.reasons.size, 14, Array.from(seen.reasons).join(" "))
      }))
  }
})

it("a search folds 300 equal records into one hit, and still returns the only other match", () => {
  const index = MemoryIndex.make({ analyzer, kinds })
  for (let n = 0; n < 300; n++) {
    index.add(record(`same ${n}`, { summary: "Drinks green tea", body: "Drinks green tea" }))
  }
  index.add(record("other", { body: "tea is sold at the harbour, on the long pier behind the station" }))
  for (const limit of [2, 5, 20]) {
    const { hits, leftOut } = index.search(Viewer.system(), { text: "green tea", limit }, 0)
    assert.deepStrictEqual([hits.length, leftOut.folded], [2, 299])
  }
})

it("a record whose score equals `minScore` is a hit, and `whyNot` returns no reason for the record", () => {
  const index = MemoryIndex.make({ analyzer, kinds })
  for (
    const [name, body] of [["one", "green tea"], ["two", "tea at the harbour"], ["three", "a boat and tea, then bread"]]
  ) {
    index.add(record(name!, { summary: body!, body: body! }))
  }
  const query = { text: "green tea" }
  const { hits } = index.search(Viewer.system(), query, 0)
  assert.lengthOf(hits, 3)
  for (const [n, { record, score }] of hits.entries()) {
    const exactly = { ...query, minScore: score }
    assert.lengthOf(index.search(Viewer.system(), exactly, 0).hits, n + 1)
    assert.isUndefined(index.whyNot(Viewer.system(), record.id, exactly, 0))
  }
})

describe("hybrid search, and search among copies", () => {
  /** Makes an index in which each record has the given vector. */
  const indexOf = (all: ReadonlyArray<readonly [made: MemoryRecord, vector: ReadonlyArray<number>]>) => {
    const embeddings = new Embeddings()
    const index = MemoryIndex.make({ analyzer, kinds, embeddings })
    for (const [made, vector] of all) {
      embeddings.set(model, textHash(made), Float32Array.from(vector))
      index.add(made)
    }
    return index
  }
  const embedding = { model, vector: [1, 0] }
  const at = (n: number, body: string) => record(`at ${n}`, { summary: body, body, createdAt: n, updatedAt: n })

  it("the explanation contains the cosine even for a record that was found only by its words", () => {
    const near = Array.from({ length: 150 }, (_, n) => [at(n, `note number${n}`), [1, n / 1_000]] as const)
    const index = indexOf([...near, [at(1_000, "a harbour"), [3, 4]]])
    const query: MemoryQuery = { text: "harbour", embedding, explain: true, limit: 150 }
    const found = index.search(Viewer.system(), { ...query, limit: 10 }, 0).hits
      .find(({ record }) => record.body === "a harbour")
    assert.closeTo(found?.explanation?.["cosine"] ?? 0, 0.6, 1e-6)
  })

  it("the share of words and the share of vectors in the explanation of a hit add up to the score", () => {
    const index = indexOf([[at(1, "a harbour"), [3, 4]], [at(2, "tea"), [1, 0]], [at(3, "tea at the harbour"), [4, 3]]])
    const { hits } = index.search(Viewer.system(), { text: "harbour", embedding, explain: true }, 0)
    assert.lengthOf(hits, 3)
    for (const { explanation, score } of hits) {
      assert.closeTo(explanation!["lexical"]! + explanation!["vector"]!, score, 1e-9)
    }
  })

  it("a search with limit 5 among 400 records with equal scores returns the five newest, newest first", () => {
    const times = Array.from({ length: 400 }, (_, n) => (n * 7) % 400)
    const index = indexOf(times.map((n) => [at(n, `note number${n}`), [1, 0]] as const))
    for (const mode of ["vector", "hybrid"] as const) {
      const { hits } = index.search(Viewer.system(), { text: "harbour", embedding, mode, limit: 5 }, 0)
      assert.deepStrictEqual(hits.map(({ record }) => record.createdAt), [399, 398, 397, 396, 395])
    }
  })

  it.effect("a search with limit 10 returns ten different texts, each of which has 50 copies, after at most three calls of `match`", () =>
    Effect.gen(function*() {
      const copies = 50
      const texts = Array.from({ length: 40 }, (_, n) => `harbour ${"ship ".repeat(n)}`)
      const embeddings = new Embeddings()
      const index = MemoryIndex.make({ analyzer, kinds, embeddings })
      for (let n = 0; n < copies * texts.length; n++) {
        const body = texts[n % texts.length]!
        index.add(record(`at ${n}`, { summary: "note", body, createdAt: n, updatedAt: n }))
      }
      const far = remote(index, embeddings)
      let rounds = 0
      const counting: Retrieval = {
        ...far,
        match: (...args) => Effect.zipRight(Effect.sync(() => rounds++), far.match(...args))
      }
      for (const weights of [undefined, { recency: 0.3, importance: 0.3 }]) {
        rounds = 0
        const query = { text: "harbour", weights, limit: 10 }
        const { hits, leftOut } = yield* Searcher.run(() =>
          Searcher.search(counting, { analyzer, kinds }, Viewer.system(), query, 0)
        )
        const newest = texts.map((_, n) => (copies - 1) * texts.length + n)
        assert.sameMembers(hits.map(({ record }) => record.createdAt), newest.slice(0, 10))
        assert.strictEqual(hits.length + leftOut.folded + leftOut.limit, copies * texts.length)
        assert.isAtMost(rounds, 3)
      }
    }))
})
