/** Searches that evaluate only some of their matches, compared with searches that evaluate each of them. */
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { matches as matching, type MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import { type MemoryRecord, textHash } from "../../src/domain/MemoryRecord.ts"
import type { Json } from "../../src/domain/Payload.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import { read } from "../../src/ranking/Bm25.ts"
import { Matcher } from "../../src/ranking/internal/Matcher.ts"
import { RecordFact } from "../../src/ranking/internal/Outline.ts"
import * as Searcher from "../../src/ranking/internal/Searcher.ts"
import * as MemoryIndex from "../../src/ranking/MemoryIndex.ts"
import type { Retrieval } from "../../src/ranking/Retrieval.ts"
import { times } from "../vault/Program.ts"
import { queryOf, random, recordOf, viewers, worlds } from "./random.ts"
import { found as foundBy, id, record } from "./world.ts"

const analyzer = Analyzer.make()
const options = { analyzer, kinds: MemoryKind.Kinds.defaultValue() }

/**
 * Makes an index whose `looks` counts how often a record is read: to filter it, or to make its `Fact`. `examined` is the option of
 * `Matcher`.
 */
const make = (examined?: number) => {
  const index = {
    looks: 0,
    add(one: MemoryRecord) {
      matcher.remove(one.id)
      const { body, summary, summaryDerived, tags } = one
      const tokens = read({ body, summary, summaryDerived, tags }, analyzer.index)
      matcher.add(matcher.index.add(one.scope, tokens, one.expiresAt ?? Infinity), one)
    },
    remove: (one: MemoryRecord["id"]) => matcher.remove(one),
    search: (viewer: Viewer.Any, query: MemoryQuery, now: number) =>
      Searcher.runSynchronously(Searcher.search(retrieval, options, viewer, query, now)),
    list: (viewer: Viewer.Any, query: MemoryQuery, now: number) =>
      Searcher.runSynchronously(Searcher.list(retrieval, viewer, query, now))
  }
  const matcher = new Matcher<MemoryRecord>({
    tokenizer: analyzer.index,
    factOf(one, length) {
      index.looks++
      return new RecordFact(one, length)
    },
    passes(compiled, one) {
      index.looks++
      return compiled.passes(one)
    },
    textOf: (one) => one,
    hasMetadata: true,
    examined
  })
  const retrieval: Retrieval = {
    page: (...args) => Either.right(matcher.page(...args)),
    match: (...args) => Either.right(matcher.match(...args)),
    read: (_, ids) =>
      Either.right(
        ids.map((one) => Option.map(Option.fromNullable(matcher.get(one)), (record) => ({ record, forgotten: false })))
      )
  }
  return index
}

const queries = times(400, 4_000)

describe("search that evaluates few of its matches", () => {
  for (const { repeating, seed, size } of worlds) {
    it(`hits and scores equal those of a search that evaluates every match (${size} records)`, () => {
      const any = random(100 + seed)
      const { below, of } = any
      const [few, all] = [make(0), make(Infinity)]
      const records = new Map<number, MemoryRecord>()
      const set = (n: number) => {
        const made = recordOf(any, n, Array.from(records.values()), repeating)
        records.set(n, made)
        few.add(made)
        all.add(made)
      }
      for (let n = 0; n < size; n++) set(n)
      let inexact = 0
      for (let n = 0; n < queries; n++) {
        if (n % 20 === 0) {
          const gone = below(size)
          few.remove(id(`${gone}`))
          all.remove(id(`${gone}`))
          records.delete(gone)
          set(below(size))
        }
        const viewer = of(viewers)
        const now = below(60)
        const { embedding: _, ...query } = queryOf(any)
        const about = `${n}: ${JSON.stringify([viewer, query, now])}`
        const { leftOut: { exact, limit, ...leftOut }, ...found } = few.search(viewer, query, now)
        const { leftOut: { limit: whole, ...others }, ...expected } = all.search(viewer, query, now)
        assert.deepStrictEqual({ ...found, leftOut }, { ...expected, leftOut: others }, about)
        assert.isAtMost(limit, whole, about)
        if (exact === undefined) assert.strictEqual(limit, whole, about)
        else {
          inexact++
          assert.isAbove(limit, 0, about)
        }
        assert.deepStrictEqual(few.list(viewer, query, now), all.list(viewer, query, now), about)
      }
      assert.isAbove(inexact, 0)
    })
  }

  const everyone = Viewer.everyone()
  const many = Array.from({ length: 6_000 }, (_, n) =>
    record(`${n}`, {
      body: `tea ${"and ".repeat(n % 7)} cup${(n * 7919) % 1_000} of${n}`,
      kind: n % 3 === 0 ? "user" : "note",
      tags: [`t${n % 4}`],
      importance: ((n * 31) % 100) / 100,
      data: { room: n % 10 },
      metadata: { colour: n % 3 === 0 ? "red" : "blue", shelf: n % 7, ...(n % 11 === 0 && { since: ["then"] }) },
      createdAt: 60_000 * n
    }))
  const [index, whole] = [make(), make(Infinity)]
  for (const one of many) {
    index.add(one)
    whole.add(one)
  }
  const now = 60_000 * many.length
  const looksOf = (query: MemoryQuery) => {
    index.looks = 0
    const result = index.search(everyone, { text: "tea", ...query }, now)
    return { ...result, looks: index.looks }
  }

  const conditions: ReadonlyArray<NonNullable<MemoryQuery["where"]>> = [
    { "metadata.colour": { eq: "red" } },
    { "metadata.colour": { ne: "red" }, "metadata.shelf": { lt: 3 } },
    { "metadata.since": { exists: true } },
    { "metadata.since.0": { eq: "then" } },
    { "metadata.shelf": { in: [1, 2], orAbsent: true }, "data.room": { eq: 4 } },
    { "metadata.toString": { exists: true } }
  ]

  it("a search with a metadata filter gives the same records as filtering the hits of a search without the filter", () => {
    for (const where of conditions) {
      const isMeant = matching({ where }, undefined)
      for (const weights of [undefined, { recency: 1, importance: 0.5 }]) {
        const query = { text: "tea", fold: false, weights }
        const all = index.search(everyone, { ...query, limit: many.length }, now).hits.filter(({ record }) =>
          isMeant(record)
        )
        const { hits } = index.search(everyone, { ...query, where, limit: 30 }, now)
        const ids = all.slice(0, 30).map(({ record }) => record.id)
        assert.deepStrictEqual(hits.map(({ record }) => record.id), ids, JSON.stringify(where))
      }
    }
  })

  it("a search with a metadata filter reads fewer than 60 records even if 2,000 records pass the filter", () => {
    for (const text of ["tea", "cup7 cup8 cup9"]) {
      const { hits, looks } = looksOf({ text, where: { "metadata.colour": { eq: "red" } } })
      assert.isAbove(hits.length, 2)
      // only the candidates that `match` returns, and records whose metadata is in no metadata group, are read
      assert.isBelow(looks, 60)
    }
  })

  it("a metadata filter distinguishes values such as the number 1 and the string 1", () => {
    const values: ReadonlyArray<Json> = ["1", 1, true, "true", null, "null", "", 0, -0, "x".repeat(65), [1], { a: 1 }]
    const index = MemoryIndex.make()
    const records = Array.from({ length: 4_000 }, (_, n) => {
      const value = n < 2_500 ? values[n % values.length]! : `${n}` // more values than there are groups
      return record(`m${n}`, {
        body: "tea",
        metadata: n % 13 === 0 ? {} : { value, [`f${n % 3}`]: n % 2 },
        createdAt: n
      })
    })
    for (const one of records) index.add(one)
    const scalars = values.filter((value) => typeof value !== "object")
    const wheres: ReadonlyArray<NonNullable<MemoryQuery["where"]>> = [
      ...scalars.map((value) => ({ "metadata.value": { eq: value } })),
      { "metadata.value": { exists: false } },
      { "metadata.value": { gte: "2" } },
      { "metadata.value": { between: [0, 1] }, "metadata.f1": { eq: 1 } },
      { "metadata.value.a": { eq: 1 } }
    ]
    for (const where of wheres) {
      const isMeant = matching({ where }, undefined)
      const expected = records.filter(isMeant).map(({ id }) => id).reverse()
      const { hits, leftOut } = index.search(everyone, { text: "tea", fold: false, where, limit: 100 }, now)
      assert.deepStrictEqual(hits.map(({ record }) => record.id), expected.slice(0, 100), JSON.stringify(where))
      if (leftOut.exact === undefined) assert.strictEqual(hits.length + leftOut.limit, expected.length)
      const listed = index.list(everyone, { where, limit: 1_000 }, now)
      assert.deepStrictEqual(listed?.items.map(({ id }) => id), expected.slice(0, 1_000), JSON.stringify(where))
    }
  })

  it("hits equal those of a search that evaluates every match, even if thousands have equal scores", () => {
    const any = random(7)
    const { below, maybe, next, of } = any
    let inexact = 0
    for (let n = 0; n < times(150, 1_500); n++) {
      const { embedding: _, ids: __, text: ___, ...rest } = queryOf(any)
      const query = {
        ...rest,
        text: maybe(0.9, () => of(["tea", "tea cup1", "cup2 cup3 cup4", "tea of77 cup500"])),
        tags: maybe(0.2, () => [`T${below(4)}`]),
        minImportance: maybe(0.3, next),
        where: maybe(0.3, () => of([{ "data.room": { lt: below(11) } }, ...conditions]))
      }
      const at = now + of([0, 30, 300]) * 86_400_000
      const about = `${n}: ${JSON.stringify([query, at])}`
      const { leftOut: { exact, limit, ...leftOut }, ...found } = index.search(everyone, query, at)
      const { leftOut: { limit: most, ...others }, ...expected } = whole.search(everyone, query, at)
      assert.deepStrictEqual({ ...found, leftOut }, { ...expected, leftOut: others }, about)
      assert.isAtMost(limit, most, about)
      if (exact === undefined) assert.strictEqual(limit, most, about)
      else inexact++
    }
    assert.isAbove(inexact, 10)
  })

  it("hits and scores equal those of a plain scan, and so do counts unless marked as inexact, even with thousands of matches", () => {
    const any = random(11)
    const { below, maybe, next, of } = any
    const index = make()
    const records = new Map<number, MemoryRecord>()
    const set = (n: number) => {
      const { scope, source: { origin, trust }, ...made } = recordOf(any, n, Array.from(records.values()), 0.1)
      const [plain, ada] = [{ ...made, source: { origin, trust } }, { userId: "ada" }]
      // records without session and speaker, so that words alone rank them
      const one = record(`${n}`, { ...plain, scope: scope !== "global" && scope.actorId !== undefined ? ada : scope })
      records.set(n, one)
      index.add(one)
    }
    for (let n = 0; n < 4_500; n++) set(n)
    let left = 0
    for (let n = 0; n < times(50, 500); n++) {
      for (let i = 0; i < 5; i++) {
        const gone = below(4_500)
        index.remove(id(`${gone}`))
        records.delete(gone)
        set(below(4_500))
      }
      const { kinds, minScore, tags, text } = queryOf(any)
      const query = {
        text: text ?? "tea",
        kinds: kinds ?? maybe(0.2, () => ["note"]),
        tags: tags ?? maybe(0.1, () => ["tea"]),
        asOf: maybe(0.2, () => below(60)),
        ...(next() < 0.7
          ? { minScore: maybe(0.2, () => minScore) }
          : { weights: { recency: next(), importance: next() } }),
        fold: maybe(0.5, () => false),
        limit: 1 + below(next() < 0.6 ? 4 : 30)
      }
      const viewer = next() < 0.5 ? Viewer.system() : of(viewers)
      const now = below(60)
      const { hits, leftOut } = index.search(viewer, query, now)
      const expected = foundBy(records.values(), viewer, query, now, true)
      const about = `${n}: ${JSON.stringify([viewer, query, now])}`
      assert.deepStrictEqual(hits.map((hit) => [hit.record.id, hit.score]), expected.hits.map((hit) => [...hit]), about)
      const { exact, limit, ...others } = leftOut
      assert.deepStrictEqual(others, { budget: expected.budget, folded: expected.folded }, about)
      if (exact === false) assert.isAtMost(limit, expected.limit, about)
      else assert.strictEqual(limit, expected.limit, about)
      if (exact === undefined && limit > 2_000) left++
    }
    assert.isAbove(left, 10)
  })

  it("a search filtered by kind, tag, trust or `asOf` reads fewer than 100 matches, and its count of matches is exact", () => {
    for (
      const query of [{ kinds: ["note"] }, { tags: ["T1", "t2"] }, { maxTrust: 1 as const }, { asOf: 60_000 * 3_000 }]
    ) {
      const { leftOut, looks } = looksOf(query)
      assert.isBelow(looks, 100)
      assert.deepStrictEqual(leftOut, whole.search(everyone, { text: "tea", ...query }, now).leftOut)
      assert.isAbove(leftOut.limit, 1_000)
    }
  })

  it("a search with `minImportance` or a data filter reads fewer than 1,500 of 6,000 matches, and reports an inexact count", () => {
    for (
      const query of [
        { where: { "data.room": { eq: 3 } } },
        { minImportance: 0.5 },
        { minImportance: 0.5, minScore: 0.5 },
        { where: { "data.room": { eq: 3 } }, weights: { recency: 1 } },
        { minScore: 0.2, weights: { recency: 1, importance: 0.5 } }
      ]
    ) {
      const { hits, leftOut, looks } = looksOf(query)
      assert.lengthOf(hits, 20)
      assert.isBelow(looks, 1_500, JSON.stringify(query))
      assert.isFalse(leftOut.exact)
      assert.isAbove(leftOut.limit, 0)
    }
    const { leftOut, looks } = looksOf({ weights: { recency: 1, importance: 0.5 } })
    assert.isBelow(looks, 400) // most matches are scored from columns, without reading their records
    assert.deepStrictEqual(leftOut, { limit: many.length - 20, budget: 0, folded: 0 })
  })

  it("the count of matches is exact if few records match, or if few matches pass the filter", () => {
    const few = { text: "cup7", minImportance: 0.5 }
    assert.deepStrictEqual(looksOf(few).leftOut, whole.search(everyone, few, now).leftOut)
    assert.notProperty(looksOf({ text: "cup7", minImportance: 0.5 }).leftOut, "exact")
    const { hits, leftOut } = looksOf({ ids: [id("5"), id("77")] })
    assert.deepStrictEqual([hits.length, leftOut], [2, { limit: 0, budget: 0, folded: 0 }])
  })

  it("`list` of a kind without records is empty and evaluates no record", () => {
    index.looks = 0
    assert.deepStrictEqual(index.list(everyone, { kinds: ["working"] }, now), { items: [] })
    assert.strictEqual(index.looks, 0)
  })
})

describe("hybrid search that evaluates few of its matches", () => {
  it("a hybrid search that returns 20 of 8,220 matches reports a `leftOut.limit` above 0", () => {
    const index = MemoryIndex.make({ analyzer })
    const near = (n: number, body: string) => record(`near ${n}`, { body, data: { room: 1 } })
    const filler = (name: string, n: number) => Array.from({ length: 60 }, (_, i) => `${name}${n}x${i}`).join(" ")
    for (let n = 0; n < 8_000; n++) {
      index.add(record(`${n}`, { body: `tea plain number${n} word${n}`, data: { room: 1 } }))
    }
    for (let n = 0; n < 100; n++) index.add(record(`same ${n}`, { body: "tea tea tea", data: { room: 1 } }))
    const vectors = Array.from({ length: 120 }, (_, n) => {
      const one = near(n, n < 80 ? `tea ${filler("common", 0)}` : `tea ${filler("uniq", n)}`)
      index.add(one)
      return [textHash(one), Float32Array.of(1, n < 80 ? 0 : n / 200)] as const
    })
    for (const [hash, vector] of vectors) index.attach("m", hash, vector)
    const query = {
      text: "tea",
      embedding: { model: "m", vector: [1, 0] },
      where: { "data.room": { eq: 1 } },
      limit: 20
    }
    const { hits, leftOut } = index.search(Viewer.everyone(), query, 0)
    assert.lengthOf(hits, 20)
    assert.isAbove(leftOut.limit, 0)
  })
})
