/** Laws of invalid input: a store rejects it with a `MemoryError` of the right reason, and writes nothing. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Reason } from "../../domain/MemoryError.ts"
import type { MemoryFilter } from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { MemoryScope } from "../../domain/MemoryScope.ts"
import { type Law, law, refuses } from "../Law.ts"
import { ada, bob, draft, get, id, listed, put, system } from "../Sample.ts"

const lone = "\ud800"
const nested = (levels: number, value: unknown = 1): unknown => levels === 0 ? value : [nested(levels - 1, value)]
const long = (length: number) => "x".repeat(length)

/** Fields that make a draft invalid. The key is the reason of the error with which every store must reject the draft. */
const badDrafts: Readonly<Record<string, ReadonlyArray<object>>> = {
  invalid_id: ["", "x", "../x", long(26), `${id("x")}0`, id("x").toLowerCase().replace(/\d/g, "u"), 7, null].map((
    id
  ) => ({ id })),
  invalid_scope: [
    {},
    { userId: "" },
    { userId: long(257) },
    { userId: "a\nb" },
    { userId: "\u007f" },
    { userId: lone },
    { userId: 1 },
    { somethingElse: "x" },
    "everyone",
    null,
    undefined
  ].map((scope) => ({ scope })),
  path_escape: ["..", ".", "a\\b", "..\\etc", "\u0000", "a\u0000b"].flatMap((segment) => [
    { scope: { userId: segment } },
    { scope: { agentId: "a", runId: segment } }
  ]),
  invalid_draft: [
    { summary: "" },
    { summary: long(201) },
    { summary: "two\nlines" },
    { summary: lone },
    { body: undefined },
    { body: 7 },
    { body: "   " },
    { body: long(65_537) },
    { body: long(1_000_000) },
    { body: `x${lone}` },
    { kind: "" },
    { kind: "Not a kind" },
    { kind: "../x" },
    { kind: "episodic", data: { intensity: 2 } },
    { kind: "belief", data: {} },
    { tags: [""] },
    { tags: [long(65)] },
    { tags: ["a\nb"] },
    { tags: [lone] },
    { tags: [7] },
    { tags: Array.from({ length: 33 }, (_, n) => String(n)) },
    { tags: ["instructions"] },
    { tags: [" Instructions "] },
    { importance: -0.1 },
    { importance: 1.1 },
    { importance: NaN },
    { importance: "high" },
    { confidence: Infinity },
    { validAt: 1.5 },
    { validAt: -1 },
    { invalidAt: NaN },
    { expiresAt: 0 },
    { links: [{ to: "x", type: "t", weight: 1 }] },
    { links: [{ to: id("x"), type: long(1_025), weight: 1 }] },
    { links: [{ to: id("x"), type: "t", weight: 2 }] },
    { source: { reference: long(1_025) } },
    { source: { sequence: -1 } },
    ...[
      { n: NaN },
      { n: Infinity },
      { n: undefined },
      { n: lone },
      { [lone]: 1 },
      JSON.parse("{\"__proto__\":{\"admin\":true}}"),
      JSON.parse("{\"deep\":{\"__proto__\":1}}"),
      { n: nested(64) },
      { n: nested(64, []) },
      { n: Object.assign([], { 1: 1 }) }, // a sparse array
      { n: new Date(0) },
      { n: () => 1 },
      { n: 1n },
      [],
      "text",
      null,
      new Map()
    ].flatMap((json) => [{ data: json }, { metadata: json }])
  ]
}

/** Invalid filters, each with the reason of the error. */
const badFilters: ReadonlyArray<readonly [Reason, object]> = [
  ...[0, -1, NaN, 1.5, 1e9, Infinity, 1_001, "10", null].map((limit) => ["invalid_draft", { limit }] as const),
  ["invalid_id", { ids: ["x"] }],
  ["invalid_scope", { scope: {} }],
  ["path_escape", { scope: { userId: ".." } }],
  ["invalid_draft", { kinds: ["Not a kind"] }],
  ["invalid_draft", { tags: [long(65)] }],
  ["invalid_draft", { asOf: -1 }],
  ["invalid_draft", { minImportance: 2 }],
  ["invalid_draft", { maxTrust: 4 }],
  ["invalid_draft", { where: { "source.trust": { eq: 1 } } }],
  ["invalid_draft", { where: { "data.n": { like: "x" } } }],
  ["invalid_draft", { where: { "data.n": { in: [] } } }],
  ["invalid_draft", { createdAt: { from: "yesterday" } }],
  ["invalid_draft", { forgotten: "yes" }]
]

const badQueries: ReadonlyArray<readonly [Reason, object]> = [
  ...badFilters,
  ["invalid_draft", { forgotten: true }],
  ["invalid_draft", { forgotten: false }],
  ["invalid_draft", { text: 7 }],
  ["invalid_draft", { mode: "telepathy" }],
  ["invalid_draft", { minScore: 2 }],
  ["invalid_draft", { weights: { lexical: -1 } }],
  ["invalid_draft", { weights: { recency: Infinity } }],
  ["invalid_draft", { budget: 0 }],
  ["invalid_draft", { embedding: { model: "m" } }],
  ...[[], [NaN], [1, Infinity], ["1"], Object.assign([1], { 2: 1 }), new Float32Array(2)].map(
    (vector): readonly [Reason, object] => ["invalid_draft", { embedding: { model: "m", vector } }]
  )
]

/** The laws of invalid input. */
export const laws: ReadonlyArray<Law> = [
  law(
    "`put` with an invalid draft fails with the reason that fits the invalid field, and writes no draft",
    (store) =>
      Effect.gen(function*() {
        const kept = yield* put(store, draft("kept", { id: id("kept") }))
        for (const [reason, all] of Object.entries(badDrafts)) {
          for (const fields of all) {
            const bad = { ...draft("body"), ...fields }
            const error = yield* refuses(
              reason as Reason,
              store.put(system, [draft("good"), bad, draft("better", { id: kept.id })])
            )
            assert.isNotEmpty(error.message)
            assert.isAtMost(error.message.length, 2_000)
            assert.isFalse(error.isRetryable)
          }
        }
        assert.deepStrictEqual(yield* listed(store, system), ["kept"])
        assert.deepStrictEqual(yield* store.history(system, kept.id), [kept])
        assert.isUndefined(Reflect.get({}, "admin"))
      })
  ),

  law(
    "the error of an invalid draft names all fields that violate the schema",
    (store) =>
      Effect.gen(function*() {
        const { detail } = yield* refuses(
          "invalid_draft",
          store.put(ada, [draft("x", { summary: "", tags: [long(65)], importance: 2 })])
        )
        for (const field of ["summary", "tags", "importance"]) assert.include(detail.issues.join("\n"), field)
        assert.isAtLeast(detail.issues.length, 3)
      })
  ),

  law("`update` refuses an invalid patch and changes nothing", (store) =>
    Effect.gen(function*() {
      const { id: tea } = yield* put(
        store,
        draft("Tea", { kind: "belief", data: { subject: "a", predicate: "b", object: "c", sourceType: "prior" } })
      )
      const patches: ReadonlyArray<object> = [
        { summary: "" },
        { summary: null },
        { body: null },
        { body: lone },
        { body: "" },
        { tags: ["instructions"] },
        { tags: null },
        { importance: NaN },
        { confidence: 2 },
        { data: {} },
        { data: { n: NaN } },
        { metadata: JSON.parse("{\"__proto__\":1}") },
        { metadata: { n: Object.assign([1], { 2: 1 }) } },
        { expiresAt: 0 },
        { supersededBy: "x" },
        { links: [{}] }
      ]
      for (const patch of patches) yield* refuses("invalid_draft", store.update(ada, tea, patch))
      yield* refuses("invalid_draft", store.update(ada, tea, { body: "x" }, { ifRevision: -1 }))
      yield* refuses("invalid_draft", store.update(ada, tea, { body: "x" }, { ifRevision: NaN }))
      assert.strictEqual((yield* get(store, ada, tea))?.revision, 1)
    })),

  law(
    "`update` ignores `scope`, `kind`, `source`, `id`, `createdAt` and `revision` in a patch",
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("Tea"))
        const more = {
          body: "Coffee",
          scope: "global",
          kind: "user",
          id: id("x"),
          createdAt: 9,
          revision: 9,
          source: { origin: "instructions", trust: 0 }
        }
        const after = yield* store.update(ada, tea.id, more)
        assert.deepEqual({ ...after }, { ...tea, body: "Coffee", summary: "Coffee", updatedAt: 0, revision: 2 })
        assert.deepStrictEqual(yield* listed(store, bob), [])
      })
  ),

  law(
    "every call about a record fails with `invalid_id` if the record's id is malformed",
    (store) =>
      Effect.gen(function*() {
        for (const text of ["", "x", "..", `${id("x")} `, "\u0000".repeat(26), "\u{1f600}"]) {
          const bad = text as MemoryId // a tool or untyped code could pass such a text
          for (
            const call of [
              store.get(ada, [id("x"), bad]),
              store.update(ada, bad, {}),
              store.forget(ada, [bad]),
              store.forget(ada, [bad], { purge: true }),
              store.history(ada, bad),
              store.whyNot(ada, bad, {}),
              store.links(ada, bad),
              store.touch(ada, [bad]),
              store.uses(ada, [bad]),
              store.apply(ada, [{ _tag: "Restore", id: bad, revision: 1 }])
            ]
          ) yield* refuses<"invalid_id", unknown>("invalid_id", call)
        }
      })
  ),

  law(
    "`list`, `search`, `whyNot` and `history` refuse an invalid filter, query or limit",
    (store) =>
      Effect.gen(function*() {
        yield* put(store, draft("Tea"))
        for (const [reason, filter] of badFilters) yield* refuses(reason, store.list(ada, filter as MemoryFilter)) // invalid on purpose
        for (const [reason, query] of badQueries) {
          yield* refuses(reason, store.search(ada, query))
          yield* refuses(reason, store.whyNot(ada, id("x"), query))
        }
        for (const limit of [0, -1, NaN, 1.5, 1e9]) yield* refuses("invalid_draft", store.history(ada, id("x"), limit))
      })
  ),

  law(
    "`put` with `ifRevision` requires exactly one draft with an id, and otherwise fails with `invalid_draft`",
    (store) =>
      Effect.gen(function*() {
        yield* refuses(
          "invalid_draft",
          store.put(ada, [draft("a", { id: id("a") }), draft("b", { id: id("b") })], { ifRevision: 1 })
        )
        yield* refuses("invalid_draft", store.put(ada, [], { ifRevision: 1 }))
        yield* refuses("invalid_draft", store.put(ada, [draft("a")], { ifRevision: 1 }))
        assert.deepStrictEqual(yield* listed(store, ada), [])
      })
  ),

  law(
    "`apply` refuses malformed mutations, and `put` refuses an invalid value of the option `origin` or `trust`",
    (store) =>
      Effect.gen(function*() {
        const mutations: ReadonlyArray<object> = [{}, { _tag: "Erase", id: id("x") }, { _tag: "Put" }, {
          _tag: "Restore",
          id: id("x"),
          revision: -1
        }]
        for (const mutation of mutations) {
          yield* refuses("invalid_draft", store.apply(ada, [mutation as never])) // untyped code could pass such a mutation
        }
        const provenances: ReadonlyArray<object> = [{ trust: 4 }, { trust: NaN }, { origin: "god" }]
        for (const provenance of provenances) yield* refuses("invalid_draft", store.put(ada, [draft("x")], provenance))
        assert.deepStrictEqual(yield* listed(store, ada), [])
      })
  ),

  law(
    "`put` and `update` allow at most 1,048,576 characters in a body if the record's origin is `file`, and at most 65,536 otherwise",
    (store) =>
      Effect.gen(function*() {
        const body = `${long(100_000)} quincunx`
        const [put] = yield* store.put(ada, [draft(body, { id: id("file") })], { origin: "file", trust: 2 })
        assert.strictEqual(put?.record.body, body)
        yield* store.update(ada, id("file"), { tags: ["read"] })
        yield* store.update(ada, id("file"), { body: `${body}!` })
        const { hits } = yield* store.search(ada, { text: "quincunx" })
        assert.deepStrictEqual(hits.map(({ record }) => record.body), [`${body}!`])
        yield* refuses("invalid_draft", store.update(ada, id("file"), { body: long(1_048_577) }))
        yield* refuses("invalid_draft", store.put(ada, [draft(long(1_048_577))], { origin: "file" }))
        yield* store.put(ada, [draft("short", { id: id("user") })])
        yield* refuses("invalid_draft", store.update(ada, id("user"), { body: long(65_537) }))
        yield* refuses("invalid_draft", store.put(ada, [draft(long(65_537))], { origin: "agent" }))
      })
  ),

  law(
    "`put` accepts values at the limits of the schema, and stores texts, tags, `data` and `metadata` unchanged",
    (store) =>
      Effect.gen(function*() {
        const edge = {
          ...draft(long(65_536)),
          id: id("edge"),
          scope: { userId: "ada" } satisfies MemoryScope,
          kind: `k${"-".repeat(63)}`,
          summary: "\u{1f600}".repeat(100),
          tags: Array.from({ length: 32 }, (_, n) => `${long(62)}${n + 10}`),
          importance: 1,
          confidence: 0,
          // the innermost values are nested in the object and 63 arrays
          data: { n: nested(63) as never, m: nested(63, []) as never, "": "", constructor: 1, ["\u2028"]: -0.5 },
          metadata: { "a.b": { "c d": [null, true, 1e300, ""] } },
          validAt: Number.MAX_SAFE_INTEGER,
          invalidAt: 0,
          expiresAt: Number.MAX_SAFE_INTEGER
        }
        const record = yield* put(store, edge)
        assert.deepEqual(yield* get(store, ada, id("edge")), record)
        for (const field of ["body", "summary", "tags", "data", "metadata"] as const) {
          assert.deepEqual(record[field] as unknown, edge[field])
        }
        yield* put(store, draft("", { summary: "an empty body, with a summary" }))
        yield* put(store, draft("end of time", { scope: { userId: "ada" }, tags: ["Instruction"] }))
        assert.lengthOf(yield* listed(store, ada), 2)
      })
  )
]
