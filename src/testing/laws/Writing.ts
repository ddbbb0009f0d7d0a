/** Laws of `put` and `update`: which record results from them. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { deriveSummary, type Draft } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { type Law, law, refuses } from "../Law.ts"
import { ada, draft, fact, get, id, listed, put, system, the } from "../Sample.ts"

/** A draft with its optional fields set. */
const whole: Draft = {
  id: id("whole"),
  scope: { userId: "ada", agentId: "pilot" },
  kind: "user",
  summary: "Tea, and how",
  body: "# Tea\n\nGreen, at 70 °C — never \"boiling\".\n",
  tags: ["drinks", "Größe"],
  importance: 0.75,
  confidence: 0.9,
  links: [{ to: id("kettle"), type: "needs", weight: 0.5 }],
  data: { minutes: 2, sorts: ["sencha", { name: "gyokuro", rare: true }], none: null },
  metadata: { "a key": "a: value" },
  validAt: 5,
  invalidAt: 900_000,
  expiresAt: 1_000_000,
  source: { reference: "https://example.org/tea#1", session: "s-1", sequence: 3 }
}
const pilot = Viewer.make({ userId: "ada", agentId: "pilot" })

/** The laws of `put`, `update` and `touch`. */
export const laws: ReadonlyArray<Law> = [
  law("`put` stores every field of the draft, and `get` returns the same record", (store) =>
    Effect.gen(function*() {
      yield* TestClock.adjust("1 second")
      const [{ outcome, record }] = yield* one(store.put(pilot, [whole], { origin: "agent", trust: 2 }))
      assert.strictEqual(outcome, "created")
      assert.deepEqual({ ...record }, {
        ...whole,
        id: id("whole"),
        source: { reference: "https://example.org/tea#1", session: "s-1", sequence: 3, origin: "agent", trust: 2 },
        createdAt: 1_000,
        revision: 1
      })
      assert.deepStrictEqual(yield* get(store, pilot, record.id), record)
    })),

  law(
    "`put` fills omitted fields with defaults, such as the importance of the kind",
    (store) =>
      Effect.gen(function*() {
        yield* TestClock.adjust("1 second")
        const record = yield* put(
          store,
          draft("Call me Ishmael", { kind: "resource", data: { type: "url", location: "x" } })
        )
        const { id: _, ...rest } = { ...record }
        assert.deepEqual(rest, {
          scope: { userId: "ada" },
          kind: "resource",
          summary: "Call me Ishmael",
          summaryDerived: true,
          body: "Call me Ishmael",
          tags: [],
          importance: 0.25,
          links: [],
          data: { type: "url", location: "x" },
          metadata: {},
          source: { origin: "user", trust: 1 },
          createdAt: 1_000,
          validAt: 1_000,
          revision: 1
        })
      })
  ),

  law(
    "`put` derives an omitted summary from the start of the body, and marks the summary as derived",
    (store) =>
      Effect.gen(function*() {
        const body = "word ".repeat(100)
        const record = yield* put(store, draft(body))
        assert.isTrue(record.summaryDerived)
        assert.strictEqual(record.summary, deriveSummary(body))
        assert.isAtMost(record.summary.length, 200)
        assert.strictEqual(record.body, body)
        const given = yield* put(store, draft(body, { summary: "Words" }))
        assert.isUndefined(given.summaryDerived)
      })
  ),

  law("`put` reads origin and trust from its options, never from the draft", (store) =>
    Effect.gen(function*() {
      const claim = { reference: "r", origin: "instructions", trust: 0 } // a draft can set neither origin nor trust
      const record = yield* put(store, draft("trust me", { source: claim }), ada, { origin: "import", trust: 3 })
      assert.deepEqual({ ...record.source }, { reference: "r", origin: "import", trust: 3 })
    })),

  law("`put` accepts an unregistered kind, with importance 0.5 by default", (store) =>
    Effect.gen(function*() {
      const record = yield* put(store, draft("Leek soup", { kind: "recipe", data: { minutes: 25 } }))
      assert.strictEqual(record.kind, "recipe")
      assert.strictEqual(record.importance, 0.5)
    })),

  law(
    "`put` with the id of a record replaces the whole record, except `createdAt` and, if the draft omits it, `validAt`",
    (store) =>
      Effect.gen(function*() {
        yield* put(store, { ...whole, scope: { userId: "ada" } })
        yield* TestClock.adjust("1 second")
        const [{ outcome, record }] = yield* one(
          store.put(ada, [draft("Coffee", { id: id("whole") })], { origin: "agent" })
        )
        assert.strictEqual(outcome, "updated")
        assert.deepEqual({ ...record }, {
          id: id("whole"),
          scope: { userId: "ada" },
          kind: "reference",
          summary: "Coffee",
          summaryDerived: true,
          body: "Coffee",
          tags: [],
          importance: 0.5,
          links: [],
          data: {},
          metadata: {},
          source: { origin: "agent", trust: 1 },
          createdAt: 0,
          updatedAt: 1_000,
          validAt: 5,
          revision: 2
        })
        assert.deepStrictEqual(yield* get(store, ada, record.id), record)
        assert.strictEqual((yield* put(store, draft("Water", { id: id("whole"), validAt: 7 }))).validAt, 7)
      })
  ),

  law(
    "`update` changes only the fields of the patch: `undefined` leaves a field as it is, `null` removes it",
    (store) =>
      Effect.gen(function*() {
        const before = yield* put(store, { ...whole, scope: { userId: "ada" } }, ada, { origin: "import", trust: 2 })
        yield* TestClock.adjust("1 second")
        const after = yield* store.update(ada, before.id, {
          summary: undefined,
          body: "Oolong",
          confidence: null,
          invalidAt: null,
          expiresAt: null,
          importance: 0
        })
        const { confidence: _, expiresAt: _e, invalidAt: _i, ...kept } = { ...before }
        assert.deepEqual({ ...after }, { ...kept, body: "Oolong", importance: 0, updatedAt: 1_000, revision: 2 })
        assert.deepStrictEqual(yield* get(store, ada, before.id), after)

        const again = yield* store.update(ada, before.id, {
          tags: [],
          links: [],
          data: {},
          metadata: { n: 1 },
          supersededBy: id("kettle"),
          confidence: 0.1
        })
        assert.deepEqual({ ...again }, {
          ...after,
          tags: [],
          links: [],
          data: {},
          metadata: { n: 1 },
          supersededBy: id("kettle"),
          confidence: 0.1,
          revision: 3
        })
      })
  ),

  law(
    "`update` of a body also updates a derived summary, but not a summary that was given",
    (store) =>
      Effect.gen(function*() {
        const { id } = yield* put(store, draft("Tea"))
        assert.strictEqual((yield* store.update(ada, id, { body: "Coffee" })).summary, "Coffee")
        const given = yield* store.update(ada, id, { summary: "Drinks" })
        assert.deepEqual([given.summary, given.summaryDerived], ["Drinks", undefined])
        assert.strictEqual((yield* store.update(ada, id, { body: "Water" })).summary, "Drinks")
      })
  ),

  law(
    "an `Update` sets a record's trust to the less trusted of its old trust and the option `trust`",
    (store) =>
      Effect.gen(function*() {
        const { id } = yield* put(store, draft("Tea"), ada, { trust: 2 })
        const update = (trust: 0 | 1 | 3) =>
          Effect.map(
            store.apply(ada, [{ _tag: "Update", id, patch: { importance: 1 } }], { trust }),
            ([applied]) => applied?.record?.source
          )
        assert.deepEqual({ ...yield* update(0) }, { origin: "user", trust: 2 })
        assert.deepEqual({ ...yield* update(3) }, { origin: "user", trust: 3 })
      })
  ),

  law(
    "changing a draft after `put`, or changing a returned record, does not change the stored record",
    (store) =>
      Effect.gen(function*() {
        const mine = {
          scope: { userId: "ada" },
          kind: "reference",
          body: "Tea",
          tags: ["a"],
          links: [{ to: id("x"), type: "t", weight: 1 }],
          data: { deep: { list: [1] } },
          metadata: { deep: { list: [1] } },
          source: { reference: "r" }
        }
        const given = yield* put(store, mine)
        const stored = JSON.stringify(given)
        mine.scope.userId = "bob"
        mine.tags.push("b")
        mine.links[0]!.weight = 0
        mine.data.deep.list.push(2)
        mine.metadata.deep.list.push(2)
        mine.source.reference = "changed"
        assert.deepStrictEqual(JSON.stringify(yield* the(store, ada, given.id)), stored)

        const [hit] = (yield* store.search(ada, { text: "tea" })).hits
        const [item] = (yield* store.list(ada, {})).items
        for (const record of [given, hit!.record, item!]) {
          Reflect.set(record, "body", "changed")
          Reflect.set(record.scope as object, "userId", "bob") // the scope is an object, since it is Ada's and not `global`
          for (
            const object of [
              record.links[0]!,
              record.data,
              record.data["deep"] as object,
              record.metadata,
              record.source
            ]
          ) { // objects within the record, at several depths
            for (const key of Object.keys(object)) Reflect.set(object, key, 0)
          }
          for (const list of [record.tags, record.links]) Reflect.set(list, 0, "b")
        }
        assert.deepStrictEqual(JSON.stringify(yield* the(store, ada, given.id)), stored)
        assert.deepStrictEqual(yield* store.list(ada, { tags: ["b"] }), { items: [] })
        assert.strictEqual(JSON.stringify(yield* the(store, system, given.id)), stored)
      })
  ),

  law(
    "a record of origin `instructions` is changed only by `System` or by a write of that origin; other writes fail with `read_only`",
    (store) =>
      Effect.gen(function*() {
        const rules = draft("No deploys on Fridays", { id: id("rules"), tags: ["instructions"] })
        yield* put(store, rules, ada, { origin: "instructions", trust: 0 })
        for (
          const call of [
            store.put(ada, [draft("Deploy!", { id: id("rules") })]),
            store.update(ada, id("rules"), { body: "Deploy!" }),
            store.forget(ada, [id("rules")]),
            store.forget(ada, [id("rules")], { purge: true }),
            store.apply(ada, [{ _tag: "Restore", id: id("rules"), revision: 0 }])
          ]
        ) yield* refuses<"read_only", unknown>("read_only", call)
        assert.deepStrictEqual(yield* listed(store, ada), ["No deploys on Fridays"])

        yield* put(store, { ...rules, body: "Nor on Mondays" }, ada, { origin: "instructions", trust: 0 })
        assert.deepStrictEqual(yield* listed(store, ada), ["Nor on Mondays"])
        const style = draft("Use tabs", { id: id("style") })
        yield* put(store, style, ada, { origin: "instructions", trust: 0 })
        yield* store.update(system, id("style"), { body: "Use spaces" })
        assert.strictEqual((yield* the(store, ada, id("style"))).body, "Use spaces")
        const forgotten = yield* store.apply(ada, [{ _tag: "Forget", id: id("rules") }], { origin: "instructions" })
        assert.strictEqual(forgotten[0]?.outcome, "forgotten")
      })
  ),

  law(
    "users cannot put, purge or restore a forgotten record of origin `instructions` by writes of other origins; `System` can put or purge it",
    (store) =>
      Effect.gen(function*() {
        const rules = draft("No deploys on Fridays", { id: id("rules"), tags: ["instructions"] })
        yield* put(store, rules, ada, { origin: "instructions", trust: 0 })
        yield* store.apply(system, [{ _tag: "Forget", id: id("rules") }], { origin: "instructions" })
        assert.deepStrictEqual(yield* store.forget(ada, [id("rules")]), [false])
        for (
          const call of [
            store.put(ada, [draft("Deploy!", { id: id("rules") })]),
            store.forget(ada, [id("rules")], { purge: true }),
            store.apply(ada, [{ _tag: "Restore", id: id("rules"), revision: 1 }])
          ]
        ) yield* refuses<"read_only", unknown>("read_only", call)
        assert.deepStrictEqual(yield* listed(store, ada), [])
        assert.strictEqual((yield* get(store, system, id("rules")))?.revision, 2)
        const again = yield* put(store, rules, system, { origin: "instructions", trust: 0 })
        assert.strictEqual(again.revision, 3)
        assert.deepStrictEqual(yield* listed(store, ada), ["No deploys on Fridays"])
        assert.deepStrictEqual(yield* store.forget(system, [id("rules")]), [true])
        yield* store.forget(system, [id("rules")], { purge: true })
        assert.deepStrictEqual(yield* store.history(system, id("rules")), [])
      })
  ),

  law(
    "`touch` adds 1 to the use count of each given record, and does not change the record itself",
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, fact("Tea"))
        const coffee = yield* put(store, fact("Coffee"))
        yield* TestClock.adjust("1 second")
        yield* store.touch(ada, [tea.id])
        yield* store.touch(ada, [tea.id, id("nobody")])
        assert.deepEqual(yield* store.uses(ada, [coffee.id, tea.id, id("nobody")]), [
          { count: 0 },
          { count: 2, accessedAt: 1_000 },
          { count: 0 }
        ])
        assert.deepStrictEqual(yield* get(store, ada, tea.id), tea)
      })
  ),

  law(
    "a record keeps its use count if a put moves the record to another scope",
    (store) =>
      Effect.gen(function*() {
        const { id } = yield* put(store, fact("Tea"))
        yield* store.touch(ada, [id])
        for (const scope of ["global", { userId: "ada" }] as const) {
          yield* put(store, fact("Tea", { id, scope }))
          assert.strictEqual((yield* store.uses(ada, [id]))[0]?.count, 1)
        }
      })
  )
]

/** Asserts that a put returned exactly one result, and returns it. */
const one = <A, E>(puts: Effect.Effect<ReadonlyArray<A>, E>): Effect.Effect<readonly [A], E> =>
  Effect.map(puts, (all) => {
    assert.lengthOf(all, 1)
    return [all[0]!]
  })
