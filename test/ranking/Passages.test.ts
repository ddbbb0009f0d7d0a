import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import type { MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as PromptBlock from "../../src/harness/PromptBlock.ts"
import * as Bm25 from "../../src/ranking/Bm25.ts"
import { passagesOf } from "../../src/ranking/internal/Passages.ts"
import * as MemoryIndex from "../../src/ranking/MemoryIndex.ts"
import { layerInMemory, MemoryStore } from "../../src/storage/MemoryStore.ts"
import { ada, draft, found } from "../../src/testing/Sample.ts"
import * as World from "./world.ts"

const filler = (words: string, n: number) => Array.from({ length: n }, (_, i) => `${words} ${i % 7}.`).join(" ")
const needle = "The kiosk at the north gate sells rhubarb cordial on Thursdays."
const chapter = [
  filler("The council minutes go on about drains and lamps", 60),
  needle,
  filler("A second report counts the benches in each park", 60)
].join("\n\n")

const indexed = (bodies: ReadonlyArray<string>) => {
  const index = MemoryIndex.make()
  for (const [n, body] of bodies.entries()) {
    index.add(World.record(String(n), { body, summary: body.slice(0, 40), summaryDerived: true }))
  }
  return (query: MemoryQuery) => index.search(Viewer.everyone(), query, 0)
}

describe("passagesOf", () => {
  it("passages have at most 600 characters each, and only white space of the body is outside of passages", () => {
    const pieces = FastCheck.constantFrom(
      "word ",
      "A sentence ends. ",
      "\n\n",
      "\n",
      "x".repeat(700),
      "東京。",
      "😀",
      "  ",
      "e.g. (this!) "
    )
    FastCheck.assert(
      FastCheck.property(FastCheck.array(pieces, { maxLength: 200 }), (parts) => {
        const body = parts.join("")
        const passages = passagesOf(body)
        let at = 0
        for (const { end, start } of passages) {
          assert.strictEqual(body.slice(at, start).trim(), "")
          assert.isAbove(end, start)
          assert.isAtMost(end - start, 600)
          assert.isTrue(body.slice(start, end).isWellFormed())
          at = end
        }
        assert.strictEqual(body.slice(at).trim(), "")
      }),
      { seed: 1, numRuns: 300 }
    )
  })

  it("a passage ends with a paragraph if possible, else with a sentence, else with a word", () => {
    const texts = (body: string) => passagesOf(body).map(({ end, start }) => body.slice(start, end))
    const [first, second] = ["a".repeat(300), "b".repeat(500)]
    assert.deepStrictEqual(texts(`${first}\n\n${second}`), [first, second])
    assert.isTrue(texts(filler("Some words", 200)).slice(0, -1).every((text) => text.endsWith(".")))
    assert.isTrue(texts("word ".repeat(400)).every((text) => /^word.*word$/.test(text)))
    assert.deepStrictEqual(texts("short"), ["short"])
    assert.deepStrictEqual(texts(" \n "), [])
  })
})

describe("search of a long record", () => {
  it("a long record ranks above short records if its best passage has more words of the query", () => {
    const notes = Array.from({ length: 300 }, (_, n) => `The kiosk number ${n} sells papers.`)
    const search = indexed([...notes, chapter])
    const query = { text: "Where is rhubarb cordial sold, at which kiosk gate?", limit: 3 }
    assert.strictEqual(search(query).hits[0]?.record.body, chapter)
    const plain = indexed([...notes, chapter, `${needle} And more.`])
    assert.strictEqual(plain(query).hits[0]?.record.body, `${needle} And more.`)
  })

  it("the hit of a long record contains the passage with the words of the query, and the passage's offset", () => {
    const [hit] = indexed([chapter])({ text: "rhubarb cordial" }).hits
    assert.include(hit?.passage?.text, needle)
    const { start, text } = hit!.passage!
    assert.strictEqual(chapter.slice(start, start + text.length), text)
    assert.isAtMost(text.length, 600)
  })

  it("a hit has no passage if the query has no text or the record is short", () => {
    const search = indexed([chapter, needle])
    assert.isTrue(search({}).hits.every(({ passage }) => passage === undefined))
    const short = search({ text: "rhubarb" }).hits.find(({ record: { body } }) => body === needle)
    assert.isUndefined(short?.passage)
  })

  it("the shares of the ranker's features in an explanation add up to the relevance of the hit", () => {
    const { hits } = indexed([chapter, needle])({ text: "rhubarb cordial", explain: true })
    assert.lengthOf(hits, 2)
    for (const { explanation } of hits) {
      const shares = Object.entries(explanation!).filter(([key]) => key.startsWith("rank:"))
      assert.closeTo(shares.reduce((sum, [, share]) => sum + share, 0), explanation!["relevance"]!, 1e-9)
    }
  })

  it("a search with weight 0 for `ranker` scores a long record by all its words, and still returns a passage", () => {
    const bodies = [chapter, needle, ...Array.from({ length: 20 }, (_, n) => `The kiosk number ${n} sells cordial.`)]
    const text = "kiosk rhubarb cordial"
    const { hits } = indexed(bodies)({ text, weights: { ranker: 0 }, limit: 30 })
    const docs = bodies.map((body) => Bm25.buildDoc(body, { summary: "", summaryDerived: true, body }))
    const scores = (all: ReadonlyArray<readonly [string, number]>) =>
      Object.fromEntries(all.map(([body, score]) => [body, (score / all[0]![1]).toFixed(9)]))
    assert.deepStrictEqual(
      scores(hits.map(({ record, score }) => [record.body, score])),
      scores(Bm25.bm25(text, docs).map(({ id, score }) => [id, score]))
    )
    assert.include(hits.find(({ record }) => record.body === chapter)?.passage?.text, needle)
  })

  it.effect("a prompt block shows only a passage of a long record's body; the rest of the body does not count against the budget", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore
      yield* store.put(ada, [draft(chapter, { summary: "Council reports" }), draft("A kiosk.")])
      const result = yield* store.search(ada, { text: "rhubarb cordial kiosk", budget: 400 })
      assert.lengthOf(result.hits, 2)
      const { text } = PromptBlock.render(result)
      assert.include(text, needle)
      assert.match(text, /part="\d+-\d+ of \d+"/)
      assert.include(text, "Council reports")
      assert.isBelow(text.length, 1_500)
    }).pipe(Effect.provide(layerInMemory)))

  it.effect("search finds an updated long record by the new words in its passages, and no longer by the removed words", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore
      const [put] = yield* store.put(ada, [draft(chapter)])
      assert.lengthOf(yield* found(store, ada, { text: "rhubarb" }), 1)
      yield* store.update(ada, put!.record.id, { body: chapter.replace("rhubarb", "elder") })
      assert.lengthOf(yield* found(store, ada, { text: "rhubarb" }), 0)
      const { hits: [hit] } = yield* store.search(ada, { text: "elder" })
      assert.include(hit?.passage?.text, "elder cordial")
    }).pipe(Effect.provide(layerInMemory)))
})
