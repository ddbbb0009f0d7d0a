import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { absences, Cursor, type MemoryFilter, type MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import { hashOf, type MemoryRecord, Tag } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { bm25, buildDoc } from "../../src/ranking/Bm25.ts"
import { InvertedIndex } from "../../src/ranking/internal/InvertedIndex.ts"
import * as MemoryIndex from "../../src/ranking/MemoryIndex.ts"
import { make as tokenizer, tokenise } from "../../src/ranking/Tokenizer.ts"
import { CountedEmbeddings } from "./vectors.ts"
import { id, naughty, record } from "./world.ts"

setFlagsFromString("--expose-gc")
const collect: () => void = runInNewContext("gc")
const room = () => {
  collect()
  collect() // a second time, since the first run only queues buffers for freeing
  const { arrayBuffers, heapUsed } = process.memoryUsage()
  return arrayBuffers + heapUsed
}

const ada = Viewer.make({ userId: "ada" })
const system = Viewer.system()

const indexOf = (...records: ReadonlyArray<MemoryRecord>) => {
  const index = MemoryIndex.make()
  for (const one of records) index.add(one)
  return index
}
/** Makes an index of records with these summaries. */
const named = (...names: ReadonlyArray<string>) => indexOf(...names.map((name) => record(name)))
const found = (index: MemoryIndex.MemoryIndex, query: MemoryQuery, viewer: Viewer.Any = ada, now = 0) =>
  index.search(viewer, query, now).hits.map((hit) => hit.record.summary)

describe("MemoryIndex", () => {
  it("a vector search finds the right records, even if records change while vectors are prepared in steps", () => {
    const vectors = Array.from({ length: 40 }, (_, n) => new Float32Array([n + 1, 40 - n]))
    const filled = () => {
      const index = indexOf(...vectors.map((_, n) => record(`${n}`, { body: `body ${n}` })))
      vectors.forEach((vector, n) => index.attach("m", hashOf(index.get(id(`${n}`))!), vector))
      return index
    }
    const near = (index: MemoryIndex.MemoryIndex) => {
      const query: MemoryQuery = { text: "", mode: "vector", limit: 50, embedding: { model: "m", vector: [3, 1] } }
      return index.search(system, query, 0).hits.map(({ record }) => record.summary)
    }
    const change = (index: MemoryIndex.MemoryIndex) => {
      for (const n of [0, 20, 39]) index.remove(id(`${n}`))
      for (const n of [1, 38]) index.add(record(`${n}`, { body: `other ${n}` }))
      index.add(record("new", { body: "new" }))
      for (const n of [1, 38, "new"]) {
        index.attach("m", hashOf(index.get(id(`${n}`))!), new Float32Array([1, n === 1 ? 1 : 9]))
      }
    }
    const plain = filled()
    change(plain)
    const expected = near(plain)
    assert.lengthOf(expected, 38)
    for (let at = 0; at < 12; at++) {
      const index = filled()
      const steps = index.preparing("m")
      for (let step = 0; step < 5 * at; step++) assert.isFalse(steps.next().done)
      change(index)
      const others = index.preparing("m") // another caller takes steps in between
      while (others.next().done !== true) steps.next()
      assert.isTrue(steps.next().done)
      assert.deepStrictEqual(near(index), expected)
    }
    assert.isTrue(plain.preparing("of another").next().done)
  })

  it("`isPrepared` is true once all vectors are prepared, and false after another vector is attached", () => {
    const index = MemoryIndex.make()
    const records = Array.from({ length: 3 }, (_, n) => record(`${n}`, { body: `body ${n}` }))
    for (const record of records) index.add(record)
    const attach = (n: number) => index.attach("m", hashOf(records[n]!), new Float32Array([1, 2]))
    const prepare = () => {
      const steps = index.preparing("m")
      while (steps.next().done !== true);
    }
    assert.isTrue(index.isPrepared("m"))
    attach(0)
    assert.isFalse(index.isPrepared("m"))
    prepare()
    assert.isTrue(index.isPrepared("m"))
    attach(1)
    const steps = index.preparing("m")
    for (let step = 0; step < 2; step++) steps.next()
    attach(2)
    while (steps.next().done !== true);
    assert.isFalse(index.isPrepared("m"))
    prepare()
    assert.isTrue(index.isPrepared("m"))
  })

  it("each step of `preparing` looks up at most one vector, even if many vectors were added before", () => {
    const embeddings = new CountedEmbeddings()
    const index = MemoryIndex.make({ embeddings })
    const records = Array.from({ length: 40 }, (_, n) => record(`${n}`, { body: `body ${n}` }))
    for (const record of records) index.add(record)
    const attach = (from: number, to: number) => {
      for (const record of records.slice(from, to)) index.attach("m", hashOf(record), new Float32Array([1, 2]))
    }
    const lookedUp = () => {
      let count = 0
      for (const _ of index.preparing("m")) {
        assert.isAtMost(embeddings.looked, 1)
        count += embeddings.looked
        embeddings.looked = 0
      }
      assert.strictEqual(embeddings.looked, 0)
      return count
    }
    attach(0, 1)
    assert.strictEqual(lookedUp(), 40)
    attach(1, 40)
    assert.strictEqual(lookedUp(), 39)
    assert.strictEqual(lookedUp(), 0)
  })

  it("`add` replaces the record of the same id; `remove` returns true only for an existing record", () => {
    const index = indexOf(record("a", { body: "tea" }))
    index.add(record("a", { body: "coffee", scope: "global" }))
    assert.strictEqual(index.size, 1)
    assert.deepStrictEqual(found(index, { text: "tea" }), [])
    assert.deepStrictEqual(found(index, { text: "coffee" }), ["a"])
    assert.strictEqual(index.get(id("a"))?.body, "coffee")
    assert.isTrue(index.remove(id("a")))
    assert.isFalse(index.remove(id("a")))
    assert.isUndefined(index.get(id("a")))
    assert.deepStrictEqual(found(index, { text: "coffee" }), [])
    assert.strictEqual(index.size, 0)
  })

  it("search ignores case and accents, and finds words in Cyrillic, Thai and Korean, and one Han character inside a longer text", () => {
    const index = named("東京に行く", "喝绿茶", "Café crème", "ดื่มชา", "любит чай", "서울에서")
    const cases = {
      京: "東京に行く",
      茶: "喝绿茶",
      CAFE: "Café crème",
      "creme\u0301": "Café crème",
      ชา: "ดื่มชา",
      ЧАЙ: "любит чай",
      서울: "서울에서"
    }
    for (const [text, summary] of Object.entries(cases)) assert.deepStrictEqual(found(index, { text }), [summary], text)
  })

  it("scores are fractions of the best score; a search without `text` returns all records, newest first; a `text` without terms finds none", () => {
    const index = indexOf(
      record("tea", { createdAt: 1 }),
      record("tea and milk", { createdAt: 2 }),
      record("rum", { createdAt: 3 })
    )
    const { hits } = index.search(ada, { text: "tea" }, 9)
    const raw = bm25("tea", ["tea", "tea and milk", "rum"].map((body) => buildDoc(body, { summary: body, body: "" })))
    assert.deepStrictEqual(hits.map(({ score }) => score), raw.map(({ score }) => score / raw[0]!.score))
    assert.deepStrictEqual(index.search(ada, {}, 9).hits.map((hit) => [hit.record.summary, hit.score]), [
      ["rum", 1],
      ["tea and milk", 1],
      ["tea", 1]
    ])
    for (const text of ["", " ", "the", "x", "\ud800", "?"]) assert.deepStrictEqual(found(index, { text }), [], text)
  })

  it("hits with equal scores are ordered newest first, then by id", () => {
    const names = ["tea a1", "tea b1", "tea c1", "tea d1"]
    const index = indexOf(...names.map((name, n) => record(name, { createdAt: n < 3 ? 5 : 6 })))
    const rest = names.slice(0, 3).sort((a, b) => id(a) < id(b) ? -1 : 1)
    assert.deepStrictEqual(found(index, { text: "tea" }), ["tea d1", ...rest])
    assert.deepStrictEqual(found(index, {}), ["tea d1", ...rest])
    index.add(record("tea a1", { createdAt: 5, updatedAt: 7 }))
    assert.strictEqual(found(index, { text: "tea" })[0], "tea a1")
  })

  it("an expired record is found only by System, and does not count in the BM25 statistics of other viewers", () => {
    const index = indexOf(
      record("tea", { expiresAt: 10 }),
      record("tea with milk"),
      record("tea with rum", { expiresAt: 20 })
    )
    const scores = (viewer: Viewer.Any, now: number) => index.search(viewer, { text: "tea milk" }, now).hits.length
    assert.deepStrictEqual([scores(ada, 9), scores(ada, 10), scores(ada, 20), scores(ada, 0)], [3, 2, 1, 3])
    assert.strictEqual(scores(system, 20), 3)
    assert.deepStrictEqual(
      index.search(ada, { text: "tea milk", explain: true }, 20),
      named("tea with milk").search(ada, { text: "tea milk", explain: true }, 20)
    )
    assert.strictEqual(index.whyNot(ada, id("tea"), {}, 10), "expired")
    assert.isUndefined(index.whyNot(system, id("tea"), {}, 10))
  })

  it("`restore` returns false for bytes of another format or tokenizer, or if a record in the bytes no longer exists", () => {
    const records = [record("tea"), record("coffee")]
    const encoded = () => indexOf(...records).encode().slice()
    const refuses = (bytes: Uint8Array, index = MemoryIndex.make(), known = records) => {
      assert.isFalse(index.restore(bytes, (id) => known.find((one) => one.id === id)))
      assert.strictEqual(index.size, 0)
      for (const one of records) index.add(one)
      assert.deepStrictEqual(found(index, { text: "tea" }), ["tea"])
    }
    const other = encoded()
    other[0]! += 1
    const swapped = encoded()
    swapped.subarray(0, 4).reverse()
    for (const bytes of [other, swapped, new Uint8Array(), encoded().slice(0, 7)]) refuses(bytes)
    for (const options of [{ stem: true }, { stopwords: "wide" }, { stopwords: "none" }] as const) {
      refuses(encoded(), MemoryIndex.make({ tokenizer: tokenizer(options) }))
    }
    refuses(encoded(), MemoryIndex.make(), records.slice(1))
    const restored = MemoryIndex.make()
    assert.isTrue(restored.restore(encoded(), (id) => records.find((one) => one.id === id)))
    assert.deepStrictEqual(found(restored, { text: "tea" }), ["tea"])
  })

  it("encoding and restoring an index take more steps if its records are in more scopes", () => {
    const count = 5_000
    const stepsOf = (scopeOf: (n: number) => MemoryRecord["scope"]) => {
      const records = Array.from({ length: count }, (_, n) => record(`${n}`, { scope: scopeOf(n) }))
      const index = indexOf(...records)
      const known = new Map(records.map((one) => [one.id, one]))
      const restored = MemoryIndex.make()
      const counted = <A>(steps: MemoryIndex.Steps<A>) => {
        for (let taken = 0;; taken++) {
          const { done, value } = steps.next()
          if (done === true) return { taken, value }
        }
      }
      const encoding = counted(index.encoding())
      const restoring = counted(restored.restoring(encoding.value, (id) => known.get(id)))
      assert.isTrue(restoring.value)
      const text = { text: `${count - 1}` }
      assert.deepStrictEqual(restored.search(system, text, 0), index.search(system, text, 0))
      return [encoding.taken, restoring.taken] as const
    }
    const [encoding, restoring] = stepsOf((n) => ({ userId: `user-${n}`, sessionId: `session-${n}` }))
    const [encodingOne, restoringOne] = stepsOf(() => ({ userId: "ada" }))
    assert.isAtLeast(encoding - encodingOne, count / 1_024)
    assert.isAtLeast(restoring - restoringOne, Math.floor(count / 256))
  })

  it("the encoded bytes contain the index as it was when encoding began, despite later changes", () => {
    /** Makes a record with so many words that an index of 40 such records is encoded in several steps. */
    const made = (n: number, fields: Partial<MemoryRecord> = {}) =>
      record(`${n}`, {
        scope: { userId: `user-${n % 3}` },
        body: Array.from({ length: 150 }, (_, k) => `word${n * 100 + k}`).join(" "),
        createdAt: (n * 7) % 40,
        ...fields
      })
    const answers = (index: MemoryIndex.MemoryIndex, known: ReadonlyMap<string, MemoryRecord>) => [
      index.size,
      ...Array.from({ length: 50 }, (_, n) => found(index, { text: `word${n * 100} word${n * 100 + 120}` }, system)),
      index.list(system, { limit: 100 }, 0)?.items.map(({ summary }) => summary),
      known.size
    ]
    let index = MemoryIndex.make()
    const records = new Map<string, MemoryRecord>()
    const set = (one: MemoryRecord) => {
      index.add(one)
      records.set(one.id, one)
    }
    for (let n = 0; n < 40; n++) set(made(n))
    for (let round = 0; round < 3; round++) {
      const [before, expected] = [new Map(records), answers(index, records)]
      const encoding = index.encoding()
      let steps = 0
      for (let next = encoding.next();; next = encoding.next()) {
        if (next.done === true) {
          const restored = MemoryIndex.make()
          assert.isTrue(restored.restore(next.value, (id) => before.get(id)))
          assert.deepStrictEqual(answers(restored, before), expected)
          break
        }
        set(made(50 + 10 * round + steps))
        set(made(steps, { body: `changed word${round} word${steps}` }))
        const gone = id(`${39 - 10 * round - steps++}`)
        index.remove(gone)
        records.delete(gone)
      }
      assert.isAtLeast(steps, 6)
      const now = answers(index, records)
      const copy = MemoryIndex.make()
      const restoring = copy.restoring(index.encode(), (id) => records.get(id))
      assert.strictEqual(Array.from(restoring).every((work) => work >= 0), true)
      assert.deepStrictEqual(answers(copy, records), now)
      index = copy
    }
  })

  it("encoded bytes contain no word and no scope of a removed record, even if the index was restored before the removal", () => {
    const first = indexOf(record("tea"), record("secretly", { scope: { userId: "secretive" } }))
    const restored = MemoryIndex.make()
    const all = [record("tea"), record("secretly", { scope: { userId: "secretive" } })]
    assert.isTrue(restored.restore(first.encode(), (id) => all.find((one) => one.id === id)))
    for (const index of [first, restored]) {
      assert.include(Buffer.from(index.encode()).toString("latin1"), "secret")
      assert.isTrue(index.remove(id("secretly")))
      assert.notInclude(Buffer.from(index.encode()).toString("latin1"), "secret")
      const again = MemoryIndex.make()
      assert.isTrue(again.restore(index.encode(), (id) => all.find((one) => one.id === id)))
      assert.deepStrictEqual(found(again, { text: "tea" }), ["tea"])
    }
  })

  it("a filter excludes records before the limit is applied, and does not change the BM25 statistics", () => {
    const index = indexOf(
      ...Array.from({ length: 50 }, (_, n) => record(`tea ${n}`, { kind: "user" })),
      record("tea, but with a great many other words")
    )
    assert.deepStrictEqual(found(index, { text: "tea", kinds: ["note"], limit: 1 }), [
      "tea, but with a great many other words"
    ])
    const bm25Of = (query: MemoryQuery) =>
      index.search(ada, { ...query, text: "tea", limit: 100, explain: true }, 0).hits.at(-1)!.explanation!["bm25"]
    assert.strictEqual(bm25Of({ kinds: ["note"] }), bm25Of({}))
  })

  it("the scope of a query restricts the hits, and never adds a hit that the viewer does not see", () => {
    const index = indexOf(
      record("g", { scope: "global" }),
      record("a"),
      record("s", { scope: { userId: "ada", sessionId: "s" } }),
      record("b", { scope: { userId: "bob" } })
    )
    const within = Viewer.make({ userId: "ada", reach: "within" })
    assert.sameMembers(found(index, { scope: { userId: "ada" } }, within), ["a", "s"])
    assert.deepStrictEqual(found(index, { scope: { sessionId: "s" } }, within), ["s"])
    assert.deepStrictEqual(found(index, { scope: { userId: "bob" } }, within), [])
    assert.deepStrictEqual(found(index, { scope: "global" }), ["g"])
    assert.sameMembers(found(index, {}, system), ["g", "a", "s", "b"])
  })

  it("`leftOut` counts the hits beyond the limit and the hits beyond the budget", () => {
    const index = indexOf(
      ...Array.from({ length: 25 }, (_, n) => record("tea", { id: id(`${n}`), body: String(n).padStart(37, "x") }))
    )
    const left = (query: MemoryQuery) => index.search(ada, { text: "tea", ...query }, 0).leftOut
    assert.deepStrictEqual(left({}), { limit: 5, budget: 0, folded: 0 })
    assert.deepStrictEqual(left({ limit: 10, budget: 35 }), { limit: 15, budget: 7, folded: 0 })
    assert.deepStrictEqual(left({ limit: 10, budget: 9 }), { limit: 15, budget: 10, folded: 0 })
    assert.deepStrictEqual(left({ limit: 10, budget: 100 }), { limit: 15, budget: 0, folded: 0 })
    assert.deepStrictEqual(left({ limit: 1_000 }), { limit: 0, budget: 0, folded: 0 })
  })

  it("a search by text returns only one of several near-duplicates of the same kind and data", () => {
    const index = indexOf(
      record("green tea", { id: id("a"), tags: ["tea"] }),
      record("Green tea!", { id: id("b") }),
      record("green tea", { id: id("c"), data: { at: 1 } }),
      record("green tea", { id: id("d"), kind: "user" }),
      record("green tea 2", { id: id("e") })
    )
    const { hits, leftOut } = index.search(ada, { text: "tea" }, 0)
    assert.sameMembers(hits.map(({ record }) => record.id), ["a", "c", "d", "e"].map(id))
    assert.deepStrictEqual(leftOut, { limit: 0, budget: 0, folded: 1 })
    assert.strictEqual(index.whyNot(ada, id("b"), { text: "tea" }, 0), "folded")
    assert.strictEqual(index.whyNot(ada, id("b"), { text: "tea", limit: 1 }, 0), "folded")
    assert.lengthOf(index.search(ada, {}, 0).hits, 5)
    assert.isUndefined(index.whyNot(ada, id("b"), {}, 0))
  })

  it("an explanation's `term:` and `tag:` parts sum to `bm25`, `rank:` parts to `relevance`; `lexical`, `recency`, `importance` sum to the score", () => {
    const index = indexOf(
      record("green tea", { tags: ["tea"], importance: 1, createdAt: 0 }),
      record("black tea", { tags: ["tea time"], importance: 0.2, createdAt: 9e9 }),
      record("water")
    )
    const query = { text: "green tea tea", explain: true, weights: { recency: 1, importance: 0.5 } }
    const { hits } = index.search(ada, query, 9e9)
    assert.lengthOf(hits, 2)
    for (const { explanation = {}, score } of hits) {
      const sum = (keys: (key: string) => boolean) =>
        Object.entries(explanation).reduce((sum, [key, part]) => keys(key) ? sum + part : sum, 0)
      assert.closeTo(sum((key) => /^(term|tag):/.test(key)), explanation["bm25"]!, 1e-12)
      assert.closeTo(sum((key) => key.startsWith("rank:")), explanation["relevance"]!, 1e-12)
      assert.closeTo(sum((key) => ["lexical", "recency", "importance"].includes(key)), score, 1e-12)
    }
    const green = hits.find((hit) => hit.record.summary === "green tea")?.explanation
    assert.sameMembers(Object.keys(green!), [
      "bm25",
      "relevance",
      "lexical",
      "recency",
      "importance",
      "term:green",
      "term:tea",
      "tag:tea",
      "rank:words"
    ])
    assert.deepEqual([green!["relevance"], green!["tag:tea"]], [1, 1])
    assert.isUndefined(index.search(ada, { text: "tea" }, 0).hits[0]?.explanation)
    assert.deepEqual(index.search(ada, { explain: true }, 0).hits[0]?.explanation, { relevance: 1, lexical: 1 })
  })

  it("the recency of a `user` record is 1 after 30 days by default, but 0.5 if MemoryIndex.make gets an empty map of kinds", () => {
    const index = MemoryIndex.make({ kinds: new Map() })
    index.add(record("old", { kind: "user", createdAt: 0, importance: 1 }))
    const month = 30 * 24 * 3_600_000
    const weights = { lexical: 0, recency: 1 }
    assert.closeTo(index.search(ada, { weights }, month).hits[0]!.score, 0.5, 1e-12)
    assert.strictEqual(indexOf(index.get(id("old"))!).search(ada, { weights }, month).hits[0]!.score, 1)
  })

  it("records and queries are split into terms by the tokenizer passed to MemoryIndex.make", () => {
    const index = MemoryIndex.make({ tokenizer: tokenizer({ stem: true }) })
    index.add(record("running"))
    assert.deepStrictEqual(found(index, { text: "runs" }), ["running"])
  })

  it("the index keeps a record if the tokenizer throws while `add` replaces the record", () => {
    const index = MemoryIndex.make({
      tokenizer: (text) => {
        if (text === "bad") throw new Error("bad")
        return tokenise(text)
      }
    })
    index.add(record("a", { body: "tea" }))
    assert.throws(() => index.add(record("a", { body: "bad" })), "bad")
    assert.deepStrictEqual(found(index, { text: "tea" }), ["a"])
    assert.throws(() => index.search(ada, { text: "bad" }, 0), "bad")
    assert.deepStrictEqual(found(index, { text: "tea" }), ["a"])
  })

  it("every string of the Big List of Naughty Strings that has a term is indexed and found", () => {
    const tags = (text: string) => Schema.is(Tag)(text) ? [text] : []
    const index = indexOf(
      ...naughty.map((body, n) => record(`${n}`, { summaryDerived: true, body, tags: tags(body) }))
    )
    const docs = naughty.map((body) => buildDoc(body, { summary: "", body, tags: tags(body) }))
    for (const text of naughty) {
      const { hits, leftOut } = index.search(ada, { text, limit: 1_000, explain: true }, 0)
      assert.strictEqual(hits.length + leftOut.folded, bm25(text, docs).length)
      const plain = (text: string) => tokenise(text).join(" ")
      if (tokenise(text).length > 0) assert.include(hits.map((hit) => plain(hit.record.body)), plain(text))
      for (const { explanation = {}, score } of hits) {
        assert.isTrue(score > 0 && score <= 1 && Object.values(explanation).every(Number.isFinite))
      }
    }
  })

  it("a record is found by one word of a query of more than a million characters", () => {
    const index = named("tea", "coffee")
    const words = Array.from({ length: 100_000 }, (_, n) => `w${n}`).join(" ")
    assert.deepStrictEqual(found(index, { text: `${words} tea ${"x".repeat(1_000_000)}` }), ["tea"])
  })
})

describe("MemoryIndex.list", () => {
  const index = indexOf(...Array.from({ length: 9 }, (_, n) => record(`${n}`, { createdAt: Math.floor(n / 3) })))

  it("a cursor is accepted with any limit, but only for the same viewer and filter", () => {
    const first = index.list(ada, { limit: 2 }, 0)!
    const rest = index.list(Viewer.make({ userId: "ada" }), { limit: 1_000, after: first.next }, 0)!
    assert.lengthOf(new Set([...first.items, ...rest.items]), 9)
    assert.isUndefined(rest.next)
    const strangers: ReadonlyArray<readonly [Viewer.Any, MemoryFilter]> = [
      [Viewer.make({ userId: "bob" }), {}],
      [Viewer.make({ userId: "ada", reach: "within" }), {}],
      [Viewer.make({ userId: "ada", tenant: "elsewhere" }), {}],
      [Viewer.make({ agentId: "ada" }), {}],
      [system, {}],
      [ada, { kinds: ["note"] }],
      [ada, { asOf: 0 }]
    ]
    for (const [viewer, filter] of strangers) {
      assert.isUndefined(index.list(viewer, { ...filter, after: first.next }, 0))
    }
    const garbage = [
      ...naughty,
      `${first.next}-`,
      `${first.next}0`,
      first.next!.slice(0, -1),
      first.next!.replace(/^./, "1"),
      "0-".repeat(1e5)
    ]
    for (const text of garbage) assert.isUndefined(index.list(ada, { after: Cursor.make(text) }, 0), text.slice(0, 50))
  })

  it("a cursor does not depend on records that the viewer does not see", () => {
    const more = indexOf(...Array.from({ length: 9 }, (_, n) => record(`${n}`, { createdAt: Math.floor(n / 3) })))
    for (let n = 0; n < 9; n++) more.add(record(`hidden ${n}`, { createdAt: n, scope: { userId: "bob" } }))
    for (const limit of [1, 2, 8, 9]) {
      assert.strictEqual(more.list(ada, { limit }, 0)!.next, index.list(ada, { limit }, 0)!.next)
    }
  })

  it("the order of a list is the same if the index also has many records that the viewer does not see", () => {
    const crowd = indexOf(...Array.from({ length: 9 }, (_, n) => record(`${n}`, { createdAt: Math.floor(n / 3) })))
    for (let n = 0; n < 200; n++) crowd.add(record(`crowd ${n}`, { createdAt: n % 7, scope: { userId: "bob" } }))
    const ids = (index: MemoryIndex.MemoryIndex) => index.list(ada, {}, 0)!.items.map(({ id }) => id)
    assert.deepStrictEqual(ids(crowd), ids(index))
  })
})

describe("MemoryIndex.whyNot", () => {
  it("`whyNot` returns the first reason that excludes the record, in a fixed order of reasons", () => {
    const index = indexOf(
      record("tea", { createdAt: 2 }),
      record("tea and milk", { createdAt: 1, expiresAt: 9, invalidAt: 8 }),
      record("foreign tea", { scope: { userId: "bob" } })
    )
    const why = (name: string, query: MemoryQuery, now = 0) => index.whyNot(ada, id(name), query, now)
    assert.isUndefined(why("tea", { text: "tea" }))
    assert.strictEqual(why("foreign tea", { text: "tea" }), "absent")
    assert.strictEqual(why("nobody", {}), "absent")
    assert.strictEqual(why("tea and milk", {}, 9), "expired")
    assert.strictEqual(why("tea and milk", {}, 8), "not_valid_then")
    assert.isUndefined(why("tea and milk", { asOf: 7 }, 8))
    assert.strictEqual(why("tea", { text: "coffee", kinds: ["user"] }), "kind")
    assert.strictEqual(why("tea", { text: "coffee" }), "no_match")
    assert.strictEqual(why("tea", { text: "the" }), "no_match")
    assert.strictEqual(why("tea and milk", { text: "tea", minScore: 1, limit: 1 }), "below_min_score")
    assert.strictEqual(why("tea and milk", { text: "tea", limit: 1, budget: 1 }), "beyond_limit")
    assert.strictEqual(why("tea and milk", { text: "tea", budget: 1 }), "beyond_budget")
    assert.strictEqual(why("tea and milk", { limit: 1 }), "beyond_limit")
  })

  it("a record that is valid now but not at `asOf` gets the reason `not_valid_then`, and the reason's text omits the word 'now'", () => {
    const index = indexOf(record("tea", { invalidAt: 8 }))
    assert.strictEqual(index.whyNot(ada, id("tea"), { asOf: 8 }, 7), "not_valid_then")
    assert.notMatch(absences.not_valid_then, /\bnow\b/)
  })
})

describe("InvertedIndex", () => {
  it("a compaction drops the words and scopes of removed records, and does not change answers", () => {
    const index = new InvertedIndex()
    const docs = Array.from(
      { length: 100 },
      (_, n) => index.add({ userId: `u${n}` }, { texts: [["tea", `w${n}`]], tags: ["tea"] }, Infinity)
    )
    for (const doc of docs) if (doc % 10 !== 3) index.remove(doc)
    const { index: copy, oldDocs: kept } = index.compacted()
    assert.deepStrictEqual(Array.from(kept), [3, 13, 23, 33, 43, 53, 63, 73, 83, 93])
    assert.deepStrictEqual([copy.docs, copy.live], [10, 10])
    const scores = (of: InvertedIndex, term: string) => {
      of.match(of.view(Viewer.accessFilterOf(system, 0)), [term])
      const live = Array.from(of.matches.data.subarray(0, of.matched)).filter((doc) => of.until.data[doc]! > 0)
      const found = live.map((doc) => of.scores.data[doc]!)
      of.clear()
      return found
    }
    for (const term of ["tea", "w3", "w13"]) assert.deepStrictEqual(scores(copy, term), scores(index, term))
    assert.lengthOf(scores(copy, "tea"), 10)
    assert.lengthOf(scores(copy, "w3"), 1)
    assert.lengthOf(scores(copy, "w4"), 0)
    assert.strictEqual(
      copy.view(Viewer.accessFilterOf(Viewer.make({ userId: "u4", reach: "within" }), 0)).scopes?.length,
      0
    )
    assert.strictEqual(copy.view(Viewer.accessFilterOf(Viewer.make({ userId: "u3" }), 0)).count, 1)
  })

  it("the memory of an index grows by less than 5 MB if its ten records are replaced thousands of times", () => {
    const index = MemoryIndex.make()
    const body = Array.from({ length: 60 }, (_, n) => `w${n}`).join(" ")
    const replace = (times: number) => {
      for (let n = 0; n < times; n++) index.add(record(`${n % 10}`, { body: `tea ${body}`, scope: { runId: `${n}` } }))
    }
    replace(5_000)
    const before = room()
    replace(40_000)
    assert.isBelow(room() - before, 5_000_000) // it would be 68 MB if the postings were kept
    assert.strictEqual(index.size, 10)
    assert.strictEqual(index.search(system, { text: "tea" }, 0).hits.length, 10)
  })

  it("the text of a replaced record can be garbage-collected", () => {
    const index = MemoryIndex.make()
    const before = room()
    for (let n = 0; n < 500; n++) {
      const word = `extraordinary${n}`
      index.add(record("a", { body: `${"Tea ".repeat(15_000)}${word}` }))
      assert.lengthOf(index.search(ada, { text: word }, 0).hits, 1)
    }
    assert.isBelow(room() - before, 5_000_000) // it would be 30 MB if the text were kept
  })
})
