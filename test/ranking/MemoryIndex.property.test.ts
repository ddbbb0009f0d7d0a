import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import type { MemoryFilter, MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import type { MemoryId } from "../../src/domain/MemoryId.ts"
import type { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryIndex from "../../src/ranking/MemoryIndex.ts"
import * as World from "./world.ts"

const { array, constantFrom, integer, oneof, record, tuple } = FastCheck

/** An operation that is applied both to an index and to a plain map of records. */
interface Act {
  readonly text: string
  /** Runs the operation. An index that it returns replaces the current one. */
  readonly run: (
    index: MemoryIndex.MemoryIndex,
    records: Map<MemoryId, MemoryRecord>
  ) => MemoryIndex.MemoryIndex | void
}

const act = (name: string, about: unknown, run: Act["run"]): Act => ({ text: `${name} ${JSON.stringify(about)}`, run })

const add = (names: number) =>
  World.anyRecord(names).map((one) =>
    act("add", one, (index, records) => {
      index.add(one)
      records.set(one.id, one)
    })
  )
const remove = (names: number) =>
  integer({ min: 0, max: names }).map((n) =>
    act("remove", n, (index, records) => {
      const id = World.id(String(n))
      assert.strictEqual(index.remove(id), records.delete(id))
      assert.isUndefined(index.get(id))
    })
  )
const reopen = constantFrom(
  act("reopen", "", (index, records) => {
    const restored = MemoryIndex.make()
    assert.isTrue(restored.restore(index.encode(), (id) => records.get(id)))
    return restored
  })
)
const searchFor = (asked: FastCheck.Arbitrary<MemoryQuery>) =>
  tuple(World.viewer, asked, World.time).map(([viewer, query, now]) =>
    act("search", [viewer, query, now], (index, records) => {
      const { failures, hits, leftOut } = index.search(viewer, query, now)
      const expected = World.found(records.values(), viewer, query, now)
      assert.deepStrictEqual(hits.map(({ record, score }) => [record.id, score]), expected.hits.map((hit) => [...hit]))
      assert.deepStrictEqual(leftOut, { limit: expected.limit, budget: expected.budget, folded: expected.folded })
      assert.deepStrictEqual(failures, [])
    })
  )
const search = searchFor(World.query)
// turns the ranker off: if many records match, the index ranks only some of them by the ranker, but `World.found` ranks all
const byWords = World.query.map((query) => ({ ...query, weights: { ...query.weights, ranker: 0 } }))
const list = tuple(World.viewer, World.filter, World.time).map(([viewer, filter, now]) =>
  act("list", [viewer, filter, now], (index, records) => {
    const ids = pages(index, viewer, filter, now).map(({ id }) => id)
    assert.deepStrictEqual(ids, World.listed(records.values(), viewer, filter, now).map(({ id }) => id))
  })
)
const whyNot = (names: number, asked = World.query) =>
  tuple(integer({ min: 0, max: names }), World.viewer, asked, World.time).map(([n, viewer, query, now]) =>
    act("whyNot", [n, viewer, query, now], (index, records) => {
      const id = World.id(String(n))
      const absence = index.whyNot(viewer, id, query, now)
      const isHit = World.found(records.values(), viewer, query, now).hits.some(([hit]) => hit === id)
      assert.strictEqual(absence === undefined, isHit, absence)
      const one = records.get(id)
      assert.strictEqual(absence === "absent", one === undefined || !Viewer.sees(viewer, one.scope))
    })
  )

const pages = (index: MemoryIndex.MemoryIndex, viewer: Viewer.Any, filter: MemoryFilter, now: number) => {
  const all: Array<MemoryRecord> = []
  let after: MemoryFilter["after"]
  do {
    const page = index.list(viewer, { ...filter, after }, now)!
    assert.isAtMost(page.items.length, filter.limit ?? 20)
    all.push(...page.items)
    after = page.next
  } while (after !== undefined)
  return all
}

const run = (acts: ReadonlyArray<Act>) => {
  let index = MemoryIndex.make()
  const records = new Map<MemoryId, MemoryRecord>()
  for (const act of acts) index = act.run(index, records) ?? index
  assert.strictEqual(index.size, records.size)
}

describe("MemoryIndex after random changes", () => {
  it("answers equal those that the ranking formulas and filters give for a plain list of the visible records", () => {
    const any = oneof(
      { weight: 6, arbitrary: add(12) },
      { weight: 1, arbitrary: remove(12) },
      { weight: 4, arbitrary: search },
      { weight: 1, arbitrary: list },
      { weight: 1, arbitrary: whyNot(12) }
    )
    FastCheck.assert(FastCheck.property(array(any, { maxLength: 60 }), run), { seed: 1, numRuns: 400 })
  })

  it("answers are still exact after thousands of changes, which make the index compact itself", () => {
    const any = oneof(
      { weight: 80, arbitrary: add(150) },
      { weight: 15, arbitrary: remove(150) },
      { weight: 3, arbitrary: searchFor(byWords) },
      { weight: 1, arbitrary: list },
      { weight: 1, arbitrary: whyNot(150, byWords) }
    )
    FastCheck.assert(FastCheck.property(array(any, { minLength: 4_000, maxLength: 4_000 }), run), {
      seed: 2,
      numRuns: 2,
      endOnFailure: true
    })
  })

  it("answers stay exact if the index is repeatedly encoded and restored, with changes in between", () => {
    const any = oneof(
      { weight: 12, arbitrary: add(40) },
      { weight: 4, arbitrary: remove(40) },
      { weight: 2, arbitrary: reopen },
      { weight: 6, arbitrary: search },
      { weight: 1, arbitrary: list },
      { weight: 1, arbitrary: whyNot(40) }
    )
    FastCheck.assert(FastCheck.property(array(any, { maxLength: 150 }), run), { seed: 5, numRuns: 400 })
  })

  it("a restored index explains hits in the same way as an index built from the same records", () => {
    const records = array(World.anyRecord(30), { maxLength: 30 })
    const ask = record({ viewer: World.viewer, query: World.query, now: World.time })
    FastCheck.assert(
      FastCheck.property(records, records, ask, (before, after, { now, query, viewer }) => {
        const all = new Map(before.map((one) => [one.id, one]))
        const first = MemoryIndex.make()
        for (const one of all.values()) first.add(one)
        const restored = MemoryIndex.make()
        assert.isTrue(restored.restore(first.encode(), (id) => all.get(id)))
        for (const one of after) all.set(one.id, one)
        const built = MemoryIndex.make()
        for (const one of after) restored.add(one)
        for (const one of all.values()) built.add(one)
        const asked = { ...query, explain: true }
        assert.deepStrictEqual(restored.search(viewer, asked, now), built.search(viewer, asked, now))
        assert.deepStrictEqual(restored.list(viewer, { limit: 3 }, now), built.list(viewer, { limit: 3 }, now))
      }),
      { seed: 6, numRuns: 300 }
    )
  })

  it("answers to a viewer do not depend on records that the viewer does not see", () => {
    const others = array(World.anyRecord(30), { maxLength: 20 })
    const ask = record({ viewer: World.viewer, query: World.query, now: World.time })
    FastCheck.assert(
      FastCheck.property(others, ask, (records, { now, query, viewer }) => {
        const all = new Map(records.map((one) => [one.id, one]))
        const full = MemoryIndex.make()
        const own = MemoryIndex.make()
        for (const one of all.values()) full.add(one)
        for (const one of World.seen(all.values(), viewer, now)) own.add(one)
        const asked = { ...query, explain: true }
        assert.deepStrictEqual(full.search(viewer, asked, now), own.search(viewer, asked, now))
        assert.deepStrictEqual(full.list(viewer, { limit: 3 }, now), own.list(viewer, { limit: 3 }, now))
      }),
      { seed: 3, numRuns: 400 }
    )
  })

  it("the pages of a list contain each unchanged record once, even if other records change meanwhile", () => {
    const change = oneof(add(40), add(40), remove(40))
    const changes = array(array(change, { maxLength: 4 }), { minLength: 1, maxLength: 10 })
    FastCheck.assert(
      FastCheck.property(
        array(World.anyRecord(40), { maxLength: 40 }),
        changes,
        World.viewer,
        constantFrom(1, 3, 7),
        (first, changes, viewer, limit) => {
          const now = 10
          const index = MemoryIndex.make()
          const records = new Map<MemoryId, MemoryRecord>()
          for (const one of first) records.set(one.id, one)
          for (const one of records.values()) index.add(one)
          const before = new Map(records)
          const shown: Array<MemoryRecord> = []
          let after: MemoryFilter["after"]
          for (let turn = 0;; turn++) {
            const page = index.list(viewer, { limit, after }, now)!
            shown.push(...page.items)
            after = page.next
            if (after === undefined) break
            for (const act of changes[turn] ?? []) act.run(index, records)
          }
          assert.strictEqual(new Set(shown).size, shown.length)
          const stayed = World.listed(before.values(), viewer, {}, now).filter((one) => records.get(one.id) === one)
          assert.includeMembers(shown, Array.from(stayed))
        }
      ),
      { seed: 4, numRuns: 300 }
    )
  })
})
