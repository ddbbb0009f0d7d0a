/** Laws of links between records: those in the field `links`, and those by `[[names]]` in a text. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import type { MemoryError } from "../../domain/MemoryError.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type { Service } from "../../storage/MemoryStore.ts"
import { type Law, law } from "../Law.ts"
import { ada, bob, draft, id, put, system } from "../Sample.ts"

const [tea, cup, pot, far] = [id("tea"), id("cup"), id("pot"), id("far")]

/** Returns the ids of the records to which a record links, and the ids of the records that link to it. */
const ends = (
  store: Service,
  id: MemoryId,
  viewer: Viewer.Any = ada
): Effect.Effect<{ to: ReadonlyArray<MemoryId>; from: ReadonlyArray<MemoryId> }, MemoryError> =>
  Effect.map(
    store.links(viewer, id),
    ({ from, to }) => ({ to: to.map(({ id }) => id), from: from.map(({ id }) => id) })
  )

const write = (store: Service, id: MemoryId, summary: string, body = "", viewer: Viewer.Any = ada) =>
  put(store, draft(body, { id, summary }), viewer)

/** The laws of links and names in texts. */
export const laws: ReadonlyArray<Law> = [
  law(
    "`links` returns in `to` the targets of a record's links and [[wikilinks]], and in `from` the records that link to the record",
    (store) =>
      Effect.gen(function*() {
        yield* write(store, tea, "Tea", "in a [[cup]], from a [[pot]]; again, a [[CUP|mug]]")
        yield* put(store, draft("x", { id: cup, summary: "Cup", links: [{ to: pot, type: "stands_by", weight: 0.5 }] }))
        yield* write(store, pot, "Pot")
        const named = (id: MemoryId) => ({ id, type: "wikilink", weight: 1 })
        assert.deepEqual(yield* store.links(ada, tea), { to: [named(cup), named(pot)], from: [] })
        assert.deepEqual(yield* store.links(ada, cup), {
          to: [{ id: pot, type: "stands_by", weight: 0.5 }],
          from: [named(tea)]
        })
        yield* TestClock.adjust("1 second")
        yield* store.update(ada, tea, { tags: ["hot"] })
        assert.deepEqual(yield* store.links(ada, pot), {
          to: [],
          from: [named(tea), { id: cup, type: "stands_by", weight: 0.5 }]
        })
        assert.deepEqual(yield* ends(store, far), { to: [], from: [] })
      })
  ),

  law(
    "a [[wikilink]] resolves to a record by id, else by summary, ignoring case, spacing, Unicode form and a folder prefix",
    (store) =>
      Effect.gen(function*() {
        const texts = [
          `[[${tea}]]`,
          "[[thé vert]]",
          "[[ THE\u0301   VERT ]]",
          "[[Drinks/Hot/Thé vert]]",
          "![[thé vert#Taste|so]]",
          "[[thé vert.md]]"
        ]
        yield* write(store, tea, "Thé vert")
        yield* write(store, pot, tea)
        for (const [n, body] of texts.entries()) {
          yield* write(store, cup, "Cup", body)
          assert.deepStrictEqual(yield* ends(store, cup), { to: [tea], from: [] }, texts[n])
          assert.deepStrictEqual(yield* ends(store, tea), { to: [], from: [cup] }, texts[n])
        }
        for (const body of ["`[[thé vert]]`", "```\n[[thé vert]]\n```", "[[thé]]", "\\[[thé vert]]", "thé vert"]) {
          yield* write(store, cup, "Cup", body)
          assert.deepStrictEqual(yield* ends(store, tea), { to: [], from: [] }, body)
        }
      })
  ),

  law(
    "`links` omits a record's links to itself, and returns each target at most once for each type of link",
    (store) =>
      Effect.gen(function*() {
        const links = [{ to: tea, type: "x", weight: 1 }, { to: cup, type: "x", weight: 0.5 }, {
          to: cup,
          type: "x",
          weight: 1
        }]
        yield* put(store, draft(`[[Tea]] [[${tea}]] [[Cup]] [[${cup}]]`, { id: tea, summary: "Tea", links }))
        yield* write(store, cup, "Cup")
        assert.deepEqual((yield* store.links(ada, tea)).to, [{ id: cup, type: "x", weight: 0.5 }, {
          id: cup,
          type: "wikilink",
          weight: 1
        }])
        assert.deepEqual(yield* ends(store, cup), { to: [], from: [tea, tea] })
      })
  ),

  law(
    "`links` reflects puts and updates of linking and linked records, forgetting a linked record, and purging a linking record",
    (store) =>
      Effect.gen(function*() {
        yield* write(store, cup, "Cup", "of [[tea]]")
        assert.deepStrictEqual(yield* ends(store, cup), { to: [], from: [] })
        yield* write(store, tea, "Tea")
        assert.deepStrictEqual(yield* ends(store, cup), { to: [tea], from: [] })
        yield* store.update(ada, tea, { summary: "Coffee" })
        assert.deepStrictEqual(yield* ends(store, cup), { to: [], from: [] })
        yield* store.update(ada, cup, { body: "of [[coffee]]" })
        assert.deepStrictEqual(yield* ends(store, tea), { to: [], from: [cup] })
        yield* store.update(ada, cup, { body: "empty", links: [{ to: tea, type: "once_of", weight: 1 }] })
        assert.deepStrictEqual(yield* ends(store, tea), { to: [], from: [cup] })
        yield* store.update(ada, cup, { links: [] })
        assert.deepStrictEqual(yield* ends(store, tea), { to: [], from: [] })
        yield* store.update(ada, cup, { body: `of [[${tea}]]` })
        yield* store.forget(ada, [tea])
        assert.deepStrictEqual(yield* ends(store, cup), { to: [], from: [] })
        yield* store.apply(ada, [{ _tag: "Put", draft: draft("again", { id: tea }) }])
        assert.deepStrictEqual(yield* ends(store, cup), { to: [tea], from: [] })
        yield* store.forget(ada, [cup], { purge: true })
        assert.deepStrictEqual(yield* ends(store, tea), { to: [], from: [] })
      })
  ),

  law(
    "a [[wikilink]] with several matches prefers records in the linking record's scope, then the most recently written record, then the lowest id",
    (store) =>
      Effect.gen(function*() {
        const [first, second] = [id("one"), id("two")].sort() as [MemoryId, MemoryId] // restores the type of a pair, which `sort` loses
        yield* write(store, pot, "Pot", "[[Tea]]")
        for (const id of [second, first]) yield* put(store, draft("", { id, summary: "tea", scope: "global" }), system)
        assert.deepStrictEqual((yield* ends(store, pot)).to, [first])
        yield* TestClock.adjust("1 second")
        yield* store.update(system, second, { tags: ["new"] })
        assert.deepStrictEqual((yield* ends(store, pot)).to, [second])
        assert.deepStrictEqual(yield* ends(store, first), { to: [], from: [] })
        yield* write(store, tea, "TEA")
        yield* TestClock.adjust("1 second")
        yield* store.update(system, second, { tags: ["newer"] })
        assert.deepStrictEqual((yield* ends(store, pot)).to, [tea])
        assert.deepStrictEqual((yield* ends(store, second)).from, [])
        yield* store.forget(ada, [tea])
        assert.deepStrictEqual((yield* ends(store, second)).from, [pot])
      })
  ),

  law(
    "`links` omits targets that are invisible, expired or not valid now; a [[wikilink]] then resolves to another record of the same name",
    (store) =>
      Effect.gen(function*() {
        const his = { scope: { userId: "bob" } }
        yield* put(store, draft("[[Pot]]", { id: tea, summary: "Tea", links: [{ to: far, type: "x", weight: 1 }] }))
        yield* put(store, draft(`[[Tea]] [[${tea}]]`, { id: far, summary: "Pot", ...his }), bob)
        yield* put(store, draft("", { id: pot, summary: "Pot", scope: "global" }), system)
        for (const viewer of [bob, Viewer.make({ tenant: "elsewhere", userId: "ada" }), Viewer.system("elsewhere")]) {
          assert.deepStrictEqual(yield* ends(store, tea, viewer), { to: [], from: [] })
        }
        assert.deepStrictEqual(yield* ends(store, tea), { to: [pot], from: [] })
        assert.deepStrictEqual(yield* ends(store, far), { to: [], from: [] })
        assert.deepStrictEqual(yield* ends(store, far, bob), { to: [], from: [] })
        assert.deepStrictEqual(yield* ends(store, pot, bob), { to: [], from: [] })
        assert.deepStrictEqual((yield* ends(store, tea, system)).from, [far])

        yield* TestClock.setTime(2_000)
        for (const fields of [{ invalidAt: 1_000 }, { validAt: 3_000 }, { expiresAt: 6_000 }]) {
          yield* put(store, draft("", { id: cup, summary: "pot", validAt: 0, ...fields }))
          const isTrue = fields.expiresAt !== undefined
          assert.deepStrictEqual((yield* ends(store, tea)).to, [isTrue ? cup : pot], JSON.stringify(fields))
          assert.deepStrictEqual((yield* ends(store, cup)).from, isTrue ? [tea] : [], JSON.stringify(fields))
        }
        yield* TestClock.setTime(6_000)
        assert.deepStrictEqual((yield* ends(store, tea)).to, [pot])
        assert.deepStrictEqual((yield* ends(store, cup)).from, [])
      })
  ),

  law(
    "`links` omits links from a record that is expired or not valid now",
    (store) =>
      Effect.gen(function*() {
        yield* TestClock.setTime(2_000)
        yield* write(store, tea, "Tea")
        for (const fields of [{ invalidAt: 1_000 }, { validAt: 3_000 }, { expiresAt: 6_000 }]) {
          yield* put(store, draft("[[Tea]]", { id: cup, summary: "Cup", validAt: 0, ...fields }))
          const isTrue = fields.expiresAt !== undefined
          assert.deepStrictEqual((yield* ends(store, tea)).from, isTrue ? [cup] : [], JSON.stringify(fields))
        }
        yield* TestClock.setTime(6_000)
        assert.deepStrictEqual((yield* ends(store, tea)).from, [])
      })
  )
]
