import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { MemoryId } from "../../src/domain/MemoryId.ts"
import { RecencyIndex } from "../../src/ranking/internal/RecencyIndex.ts"
import { uniform } from "./vectors.ts"
import * as world from "./world.ts"

/** Makes an index that counts the calls of its method `newestFirst`. Merging does not call the method. */
const counting = () => {
  const index = new RecencyIndex()
  const { newestFirst } = index
  const counted = Object.assign(index, {
    compared: 0,
    newestFirst: (a: number, b: number) => {
      counted.compared++
      return newestFirst(a, b)
    }
  })
  return counted
}

/** Makes an id. A greater number gives a greater id. */
const ascending = (n: number) => MemoryId.make(`${n}`.padStart(26, "0"))

describe("RecencyIndex", () => {
  it("records are ordered by recency, whatever the order of additions and reads", () => {
    const { array, boolean, integer, property, tuple } = FastCheck
    FastCheck.assert(
      property(
        array(tuple(integer({ min: 0, max: 8 }), boolean()), { maxLength: 40 }),
        boolean(),
        (course, isAscending) => {
          const index = new RecencyIndex()
          const idOf = (doc: number) => isAscending ? ascending(doc) : world.id(`${doc}`)
          course.forEach(([createdAt, isAsked], doc) => {
            index.add(doc, { id: idOf(doc), createdAt })
            if (!isAsked) return
            const docs = Array.from({ length: doc + 1 }, (_, doc) => doc)
            const expected = docs.toSorted((a, b) => index.newestFirst(b, a))
            assert.deepStrictEqual(index.all(), expected)
            for (const at of docs) {
              const position = { id: idOf(at), recency: course[at]![0] }
              assert.strictEqual(index.after(index.all(), position), expected.indexOf(at))
            }
          })
        }
      ),
      { seed: 1, numRuns: 500 }
    )
  })

  it("ordering five batches of 1,000 records calls `newestFirst` at most 5 times if each batch has one time and ascending ids", () => {
    const index = counting()
    for (let doc = 0; doc < 5_000; doc++) {
      index.add(doc, { id: ascending(doc % 1_000), createdAt: Math.floor(doc / 1_000) })
    }
    assert.strictEqual(index.all().length, 5_000)
    assert.isAtMost(index.compared, 5)
    assert.deepStrictEqual(index.all().slice(0, 2), [999, 998])
    assert.deepStrictEqual(index.all().slice(-1), [4_000])
  })

  it("sorting 30,000 records takes many steps of bounded work; reading them afterwards calls `newestFirst` at most 90,000 times", () => {
    const count = 30_000
    const index = counting()
    const next = uniform(1)
    for (let doc = 0; doc < count; doc++) {
      index.add(doc, { id: world.id(`${doc}`), createdAt: Math.floor(next() * 100) })
    }
    let steps = 0
    for (const work of index.sorting()) {
      assert.isAtMost(work, 4_096)
      steps++
    }
    assert.isAbove(steps, count / 1_024)
    const before = index.compared
    const all = index.all()
    assert.isAtMost(index.compared - before, 3 * count)
    const expected = Array.from({ length: count }, (_, doc) => doc).sort((a, b) => index.newestFirst(b, a))
    assert.deepStrictEqual(all, expected)
  })

  it("records are ordered by recency, even if records are added between the steps of sorting", () => {
    const { array, integer, property } = FastCheck
    FastCheck.assert(
      property(array(integer({ min: 0, max: 12 }), { maxLength: 40 }), (stops) => {
        const index = new RecencyIndex()
        const next = uniform(1)
        let docs = 0
        const add = (count: number) => {
          for (const end = docs + count; docs < end; docs++) {
            index.add(docs, { id: world.id(`${docs}`), createdAt: Math.floor(next() * 50) })
          }
        }
        const isSorted = () => {
          const all = Array.from({ length: docs }, (_, doc) => doc)
          assert.deepStrictEqual(index.all(), all.sort((a, b) => index.newestFirst(b, a)))
        }
        add(5_000)
        const steps = index.sorting()
        for (const stop of stops) {
          steps.next()
          if (stop === 0) isSorted()
          else if (stop < 3) add(700)
        }
        isSorted()
      }),
      { seed: 1, numRuns: 50 }
    )
  })

  it("adding 100 records of equal time and unsorted ids to a large index, reading after each, calls `newestFirst` at most 40,000 times", () => {
    const index = counting()
    for (let doc = 0; doc < 20_000; doc++) index.add(doc, { id: world.id(`${doc}`), createdAt: doc })
    assert.lengthOf(index.all(), 20_000)
    index.compared = 0
    for (let doc = 20_000; doc < 20_100; doc++) {
      index.add(doc, { id: world.id(`${doc}`), createdAt: 20_000 }) // all with one timestamp
      assert.lengthOf(index.all(), doc + 1)
    }
    assert.isAtMost(index.compared, 100 * 400)
  })
})
