/** Laws of search by meaning and by words: the hits, their order, and the counts of records left out. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { MemoryQuery } from "../../domain/MemoryFilter.ts"
import type { Draft } from "../../domain/MemoryRecord.ts"
import { textHash } from "../../domain/MemoryRecord.ts"
import type { Service } from "../../storage/MemoryStore.ts"
import { type Law, law, refuses } from "../Law.ts"
import { ada, bob, draft, found, listed, put, whyNot } from "../Sample.ts"
import { ofVectors } from "./Vectors.ts"

const turn = (sequence: number, body: string, fields: Partial<Draft> = {}): Draft =>
  draft(body, { source: { session: "one", sequence }, ...fields })
const scores = (store: Service, query: MemoryQuery) =>
  Effect.map(
    store.search(ada, query),
    ({ hits }) => hits.map(({ record, score }): [string, number] => [record.body, score])
  )
const hashOf = (body: string) => textHash({ summary: "", summaryDerived: true, body })
const by = (vector: ReadonlyArray<number>, query: MemoryQuery = {}): MemoryQuery => ({
  embedding: { model: "m", vector },
  ...query
})

/** The laws of search by meaning and by words. */
export const laws: ReadonlyArray<Law> = [
  law(
    "a search that finds a conversation turn also returns both turns next to it, above similar texts, and no turn three places away",
    (store) =>
      Effect.gen(function*() {
        yield* store.put(ada, [
          draft("tea alone"),
          turn(1, "tea again"),
          turn(2, "green tea from Japan"),
          turn(3, "beside it"),
          turn(5, "neither of them")
        ])
        const order = yield* found(store, ada, { text: "tea green japan" })
        assert.deepStrictEqual(order, ["green tea from Japan", "tea again", "beside it", "tea alone"])
        const plain = new Map(yield* scores(store, { text: "tea green japan", weights: { ranker: 0 } }))
        assert.strictEqual(plain.get("tea again"), plain.get("tea alone"))
      })
  ),

  law(
    "expired and invisible conversation turns do not change the scores of the turns next to them",
    (store, another) =>
      Effect.gen(function*() {
        const alone = yield* another
        const own = [turn(2, "tea at noon"), turn(5, "tea at night", { source: { session: "two", sequence: 5 } })]
        yield* store.put(ada, [turn(1, "green tea", { expiresAt: 500 })])
        for (const session of ["one", "three", "four", "five"]) {
          yield* put(store, turn(1, "green tea", { scope: { userId: "bob" }, source: { session, sequence: 1 } }), bob)
        }
        yield* store.put(ada, own)
        yield* alone.put(ada, own)
        yield* TestClock.adjust("1 second")
        const query = { text: "green tea noon" }
        assert.deepStrictEqual(yield* scores(store, query), yield* scores(alone, query))
      })
  ),

  law(
    "`search` ranks the records of a speaker first if the query names the speaker, even if only by first name, without accents or misspelt",
    (store) =>
      Effect.gen(function*() {
        const message = (sequence: number, actor: string, body: string) =>
          turn(sequence, body, { source: { session: "one", sequence, actor } })
        yield* store.put(ada, [
          message(1, "Mélanie Hart", "I like green tea"),
          message(11, "Bob", "I like green tea, too, and a lot of it"),
          message(21, "assistant", "Green tea is liked by many people")
        ])
        for (
          const text of ["What tea does Melanie like?", "green tea of MÉLANIE hart", "Which tea does Melany like?"]
        ) {
          assert.strictEqual((yield* found(store, ada, { text }))[0], "I like green tea", text)
        }
        const [first] = yield* found(store, ada, { text: "Which green tea does Bob like?" })
        assert.strictEqual(first, "I like green tea, too, and a lot of it")
        const { hits: [hit] } = yield* store.search(ada, { text: "Which green tea does Bob like?", explain: true })
        assert.isAbove(hit!.explanation!["rank:speaker"]!, 0)
        assert.strictEqual(hit!.record.source.actor, "Bob")
      })
  ),

  law(
    "`search` ranks the viewer's own words above similar words of other speakers if the query is in the first person (my)",
    (store) =>
      Effect.gen(function*() {
        yield* store.put(ada, [
          turn(1, "green tea would be my choice", { source: { session: "one", sequence: 1, actor: "ada" } }),
          turn(11, "green tea would be the choice", { source: { session: "one", sequence: 11, actor: "Bob" } }),
          turn(21, "green tea would be a choice", { source: { session: "one", sequence: 21, actor: "assistant" } })
        ])
        const [first] = yield* found(store, ada, { text: "Is green tea my choice?" })
        assert.strictEqual(first, "green tea would be my choice")
        const [other] = yield* found(store, ada, { text: "Is green tea the choice of the assistant?" })
        assert.strictEqual(other, "green tea would be a choice")
      })
  ),

  law(
    "`search` ranks records whose `validAt` is in the time that the query names (in June, yesterday) above equally matching records",
    (store) =>
      Effect.gen(function*() {
        yield* TestClock.setTime(Date.UTC(2024, 0, 10))
        yield* store.put(ada, [
          draft("we played tennis", { validAt: Date.UTC(2023, 4, 8, 20) }),
          draft("we played some tennis", { validAt: Date.UTC(2023, 5, 20) }),
          draft("we played more tennis", { validAt: Date.UTC(2024, 0, 9, 12) })
        ])
        for (
          const [text, body] of [
            ["Who won the tennis on 8 May 2023?", "we played tennis"],
            ["Who won at tennis in June?", "we played some tennis"],
            ["Did we win at tennis yesterday?", "we played more tennis"]
          ] as const
        ) assert.strictEqual((yield* found(store, ada, { text }))[0], body)
        const then = yield* found(store, ada, { text: "tennis last month", asOf: Date.UTC(2023, 6, 1) })
        assert.strictEqual(then[0], "we played some tennis")
      })
  ),

  law(
    "`search` for an identifier (8.104.8, C++, user_id, .env), even of a single letter (R), ranks a record with the whole identifier first",
    (store) =>
      Effect.gen(function*() {
        const notes = [
          "We run 8.104.8 in Porto",
          "We run 8.104.9 in Porto",
          "The plot was made with R",
          "The parser is in C++",
          "The kernel is in C",
          "getUserName is slow",
          "set user_id first",
          "the secrets are in .env"
        ]
        yield* store.put(ada, notes.map((body) => draft(body)))
        for (
          const [text, body] of [
            ["8.104.8", notes[0]],
            ["8.104.9", notes[1]],
            ["R", notes[2]],
            ["C++", notes[3]],
            ["getUserName", notes[5]],
            ["user name", notes[5]],
            ["user_id", notes[6]],
            [".env", notes[7]]
          ] as const
        ) assert.strictEqual((yield* found(store, ada, { text }))[0], body, text)
      })
  ),

  law(
    "a search that weights importance orders equally matching hits by importance; a `minScore` omits the least important hit",
    (store) =>
      Effect.gen(function*() {
        yield* store.put(ada, [
          draft("green tea, one", { importance: 0.9 }),
          draft("green tea, two", { importance: 0.1 }),
          draft("green tea, too", { importance: 0.5 })
        ])
        const weighed = (importance: number, minScore = 0) =>
          Effect.map(
            store.search(ada, { text: "green", minScore, weights: { lexical: 0.5, importance } }),
            ({ hits }) => hits.map(({ record }) => record.body)
          )
        assert.deepStrictEqual(yield* weighed(1), ["green tea, one", "green tea, too", "green tea, two"])
        assert.deepStrictEqual(yield* weighed(1, 0.6), ["green tea, one", "green tea, too"])
      })
  ),

  law(
    "`search` returns one of several near-duplicates of equal kind and data, and counts the rest in `leftOut`; `fold: false` returns all",
    (store) =>
      Effect.gen(function*() {
        yield* store.put(ada, [
          draft("Green tea!"),
          draft("green  tea"),
          draft("green tea", { kind: "user" }),
          draft("green tea", { data: { n: 1 } })
        ])
        const { hits, leftOut } = yield* store.search(ada, { text: "green tea" })
        assert.deepStrictEqual([hits.length, leftOut.folded, leftOut.limit], [3, 1, 0])
        const unfolded = yield* store.search(ada, { text: "green tea", fold: false })
        assert.deepStrictEqual([unfolded.hits.length, unfolded.leftOut.folded, unfolded.leftOut.limit], [4, 0, 0])
        assert.lengthOf(yield* listed(store, ada), 4)
        assert.lengthOf(yield* found(store, ada), 4)
      })
  ),

  ofVectors(
    "a search accepts finite query vectors of any magnitude, and returns scores from 0 to 1",
    (store, vectors) =>
      Effect.gen(function*() {
        yield* store.put(ada, [draft("green tea"), draft("the night train")])
        yield* vectors.attach("default", "m", [
          [hashOf("green tea"), Float32Array.of(3e38, 0)],
          [hashOf("the night train"), Float32Array.of(0, 1e-45)]
        ])
        for (
          const [vector, first] of [
            [[1e300, 1e299], "green tea"],
            [[1e-320, 0], "green tea"],
            [[1e39, 2e39], "the night train"],
            [[0, 0], undefined],
            [[-1, -1], undefined]
          ] as const
        ) {
          for (const limit of [1, 1_000]) {
            assert.strictEqual((yield* found(store, ada, by(vector, { mode: "vector", limit })))[0], first)
            const both = yield* store.search(ada, by(vector, { text: "night", limit, explain: true }))
            for (const { explanation, score } of both.hits) {
              assert.isTrue(score >= 0 && score <= 1 && Object.values(explanation!).every(Number.isFinite))
            }
          }
        }
        // mode `vector` finds records only by vector, so a weight of 0 does not switch off the search by vector
        assert.deepStrictEqual(
          yield* found(store, ada, by([1, 0], { mode: "vector", weights: { vector: 0 } })),
          ["green tea"]
        )
        yield* refuses("invalid_draft", store.search(ada, by([1, 0], { text: "tea", weights: { vector: Infinity } })))
      })
  ),

  ofVectors(
    "`attach` does not replace a text's vector; a model whose vectors are all purged accepts vectors of another number of dimensions",
    (store, vectors) =>
      Effect.gen(function*() {
        const { id } = yield* put(store, draft("green tea"))
        const hash = hashOf("green tea")
        const given = Float32Array.of(1, 0)
        yield* vectors.attach("default", "m", [[hash, given]])
        given[0] = 0
        assert.deepStrictEqual(yield* found(store, ada, by([1, 0], { mode: "vector" })), ["green tea"])
        yield* vectors.attach("default", "m", [[hash, Float32Array.of(0, 1)]])
        const [read] = yield* vectors.read("default", "m", [hash])
        Option.getOrThrow(read!)[0] = 7
        const [again] = yield* vectors.read("default", "m", [hash])
        assert.deepStrictEqual(Option.getOrThrow(again!), Float32Array.of(1, 0))
        yield* store.forget(ada, [id], { purge: true })
        const train = yield* put(store, draft("the night train"))
        yield* vectors.attach("default", "m", [[hashOf("the night train"), Float32Array.of(0, 0, 1)]])
        const query = by([0, 0, 1], { mode: "vector" })
        assert.deepStrictEqual(yield* found(store, ada, query), ["the night train"])
        assert.strictEqual(yield* whyNot(store, ada, train.id, query), "hit")
        for (const model of ["", "x".repeat(501), "\ud800"]) {
          yield* refuses("invalid_draft", vectors.attach("default", model, [[hash, Float32Array.of(1)]]))
        }
      })
  ),

  ofVectors(
    "near-duplicates of the first hit do not use up the limit; `awaiting` counts visible records that pass the filter but lack a vector",
    (store, vectors) =>
      Effect.gen(function*() {
        yield* store.put(ada, Array.from({ length: 130 }, (_, n) => draft(`${"-".repeat(n)} green tea`)))
        yield* store.put(ada, [draft("black tea"), draft("tea on the train")])
        yield* store.put(bob, [draft("not hers", { scope: { userId: "bob" } })])
        yield* store.put(ada, [draft("not yet"), draft("filtered", { importance: 0 })])
        const pending = yield* vectors.pending("default", "m")
        const plane: Readonly<Record<string, readonly [number, number]>> = {
          "black tea": [0.9, 0.4],
          "tea on the train": [0.7, 0.7]
        }
        yield* vectors.attach(
          "default",
          "m",
          pending.filter(({ text }) => text.includes("tea")).map(({ hash, text }) =>
            [hash, Float32Array.from(plane[text] ?? [1, 0])] as const
          )
        )
        for (const query of [by([1, 0], { mode: "vector" }), by([1, 0], { text: "green" })]) {
          const { awaiting, hits } = yield* store.search(ada, { ...query, limit: 3, minImportance: 0.1 })
          assert.match(hits[0]!.record.body, /green tea$/)
          assert.deepStrictEqual(hits.slice(1).map(({ record }) => record.body), ["black tea", "tea on the train"])
          assert.strictEqual(awaiting, 1)
        }
      })
  )
]
