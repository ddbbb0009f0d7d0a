import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { bm25, buildDoc } from "../../src/ranking/Bm25.ts"
import { make } from "../../src/ranking/Tokenizer.ts"

const doc = (body: string, tags: ReadonlyArray<string> = []) => buildDoc(body, { summary: "", body, tags })
const ids = (query: string, ...docs: ReadonlyArray<ReturnType<typeof doc>>) => bm25(query, docs).map(({ id }) => id)
import { naughty } from "./world.ts"

describe("buildDoc", () => {
  it("the terms of summary, body and tags are counted together", () => {
    const { length, tags, terms } = buildDoc(1, { summary: "Green tea", body: "tea", tags: ["Tea", "two words"] })
    assert.deepStrictEqual(Array.from(terms), [["green", 1], ["tea", 3], ["two", 1], ["words", 1]])
    assert.strictEqual(length, 6)
    assert.deepStrictEqual(Array.from(tags), ["tea"])
  })

  it("a derived summary, which repeats the start of the body, is not counted", () => {
    const fields = { summary: "Green tea…", body: "Green tea" }
    assert.strictEqual(buildDoc(1, { ...fields, summaryDerived: true }).length, 2)
    assert.strictEqual(buildDoc(1, { ...fields, summaryDerived: false }).length, 4)
  })

  it("`buildDoc` returns in `tags` the tags that are single words, in any script, without stopwords", () => {
    const { tags } = buildDoc(1, {
      summary: "",
      body: "",
      tags: ["TypeScript", "Café", "東京", "茶", "e-mail us", "the"]
    })
    assert.deepStrictEqual(Array.from(tags), ["typescript", "cafe", "東京", "茶"])
  })
})

describe("bm25", () => {
  it("`bm25` computes the scores by the BM25 formula", () => {
    const docs = [doc("tea tea milk"), doc("tea"), doc("black coffee")]
    const idf = Math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    const score = (tf: number, length: number) => idf * tf * 2.5 / (tf + 1.5 * (0.25 + 0.75 * length / 2))
    const [first, second, ...rest] = bm25("tea", docs)
    assert.deepStrictEqual([first!.id, second!.id, rest], ["tea", "tea tea milk", []])
    assert.closeTo(first!.score, score(1, 1), 1e-12)
    assert.closeTo(second!.score, score(2, 3), 1e-12)
  })

  it("each query term that equals a whole tag adds 1 to the score", () => {
    const plain = bm25("hot tea", [doc("tea hot")])[0]!.score
    const [tagged] = bm25("hot tea", [doc("", ["hot", "Tea"])])
    assert.closeTo(tagged!.score, plain + 2, 1e-12)
    assert.closeTo(bm25("hot tea", [doc("", ["hot tea"])])[0]!.score, plain, 1e-12)
  })

  it("the score grows with the count and the rarity of the term, and falls with the document's length", () => {
    assert.deepStrictEqual(ids("tea", doc("tea milk"), doc("tea tea")), ["tea tea", "tea milk"])
    assert.deepStrictEqual(ids("tea rum", doc("tea x1"), doc("rum x2"), doc("tea x3")), ["rum x2", "tea x1", "tea x3"])
    assert.deepStrictEqual(ids("tea", doc("tea and milk"), doc("tea")), ["tea", "tea and milk"])
  })

  it("`bm25` with a tokenizer that keeps single letters finds a document of single letters, although its `length` is 0", () => {
    const letters = (text: string) => text.split(" ")
    const docs = ["x", "y", "x y"].map((body) => buildDoc(body, { summary: "", body, summaryDerived: true }, letters))
    assert.deepStrictEqual(docs.map(({ length }) => length), [0, 0, 0])
    const found = bm25("x", docs, letters)
    assert.deepStrictEqual(found.map(({ id }) => id), ["x", "x y"])
    assert.isTrue(found.every(({ score }) => score > 0 && Number.isFinite(score)))
  })

  it("documents with equal scores keep their order", () => {
    assert.deepStrictEqual(ids("tea", doc("tea b"), doc("tea a"), doc("tea c")), ["tea b", "tea a", "tea c"])
  })

  it("a repeated term of the query counts once", () => {
    const docs = [doc("tea"), doc("milk tea")]
    assert.deepStrictEqual(bm25("tea tea TEA", docs), bm25("tea", docs))
  })

  it("the result is empty if no document contains a term of the query", () => {
    assert.deepStrictEqual(bm25("tea", []), [])
    for (const query of ["", "the", "?!", "x", "coffee"]) assert.deepStrictEqual(bm25(query, [doc("tea")]), [])
    assert.deepStrictEqual(bm25("tea", [doc(""), doc("…")]), [])
  })

  it("`buildDoc` and `bm25` use the tokenizer that is passed to them", () => {
    const stemmed = make({ stem: true })
    assert.lengthOf(bm25("runs", [buildDoc(1, { summary: "", body: "running" }, stemmed)], stemmed), 1)
    assert.lengthOf(bm25("runs", [buildDoc(1, { summary: "", body: "running" })]), 0)
  })

  it("scores are finite, above 0 and in descending order for any query and documents", () => {
    const text = FastCheck.oneof(
      FastCheck.fullUnicodeString(),
      FastCheck.constantFrom(...naughty),
      FastCheck.constantFrom("tea", "constructor __proto__ toString")
    )
    FastCheck.assert(
      FastCheck.property(text, FastCheck.array(text, { maxLength: 8 }), (query, bodies) => {
        const scores = bm25(query, bodies.map((body) => doc(body, [body]))).map(({ score }) => score)
        for (const score of scores) assert.isTrue(score > 0 && Number.isFinite(score))
        assert.deepStrictEqual(scores, Array.from(scores).sort((a, b) => b - a))
      }),
      { seed: 1, numRuns: 1_000 }
    )
  })
})
