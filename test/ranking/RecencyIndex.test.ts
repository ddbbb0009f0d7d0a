import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { RecencyIndex } from "../../src/ranking/internal/RecencyIndex.ts"
import { uniform } from "./vectors.ts"
import * as world from "./world.ts"

/** An index, with the number of comparisons so far. */
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

describe("the order of time", () => {
  it("is that of sorting all, whatever came out of order, and whenever it is asked for", () => {
    const { array, boolean, integer, property, tuple } = FastCheck
    FastCheck.assert(
      property(array(tuple(integer({ min: 0, max: 8 }), boolean()), { maxLength: 40 }), (course) => {
        const index = new RecencyIndex()
        course.forEach(([createdAt, isAsked], slot) => {
          index.add(slot, { id: world.id(`${slot}`), createdAt })
          if (!isAsked) return
          const slots = Array.from({ length: slot + 1 }, (_, slot) => slot)
          const expected = slots.toSorted((a, b) => index.newestFirst(b, a))
          assert.deepStrictEqual(index.all(), expected)
          for (const at of slots) {
            const position = { id: world.id(`${at}`), recency: course[at]![0] }
            assert.strictEqual(index.after(index.all(), position), expected.indexOf(at))
          }
        })
      }),
      { seed: 1, numRuns: 500 }
    )
  })

  it("is that of sorting all of so many that they lie in runs, and little is left to do when it is asked for", () => {
    const count = 30_000
    const index = counting()
    const next = uniform(1)
    for (let slot = 0; slot < count; slot++) {
      index.add(slot, { id: world.id(`${slot}`), createdAt: Math.floor(next() * 100) })
    }
    const before = index.compared
    const all = index.all()
    assert.isAtMost(index.compared - before, 3 * count)
    const expected = Array.from({ length: count }, (_, slot) => slot).sort((a, b) => index.newestFirst(b, a))
    assert.deepStrictEqual(all, expected)
  })

  it("costs what came out of order, and not all that there is", () => {
    const index = counting()
    for (let slot = 0; slot < 20_000; slot++) index.add(slot, { id: world.id(`${slot}`), createdAt: slot })
    assert.lengthOf(index.all(), 20_000)
    index.compared = 0
    for (let slot = 20_000; slot < 20_100; slot++) {
      index.add(slot, { id: world.id(`${slot}`), createdAt: 20_000 }) // of one millisecond
      assert.lengthOf(index.all(), slot + 1)
    }
    assert.isAtMost(index.compared, 100 * 400)
  })
})
