import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { LargeMap } from "../../src/storage/MemoryStore/Markdown/LargeMap.ts"

describe("LargeMap", () => {
  it("a LargeMap of any size has the same entries as a Map after the same calls", () => {
    const key = FastCheck.integer({ min: 0, max: 9_000 }).map((n) => `users/ada/${n}.md`)
    const call = FastCheck.oneof(
      FastCheck.record({ key, value: FastCheck.option(FastCheck.integer()) }),
      FastCheck.constant(undefined) // adds 3,000 entries at once
    )
    FastCheck.assert(
      FastCheck.property(FastCheck.array(call, { maxLength: 40 }), (calls) => {
        const map = new Map<string, number | null>()
        const large = new LargeMap<string, number | null>()
        let added = 0
        for (const one of calls) {
          if (one === undefined) {
            for (let n = added; n < added + 3_000; n++) {
              for (const each of [map, large]) each.set(`users/ada/${n}.md`, n)
            }
            added += 3_000
          } else if (one.value === null) assert.strictEqual(large.delete(one.key), map.delete(one.key))
          else for (const each of [map, large]) each.set(one.key, one.value)
          if (one !== undefined) {
            assert.deepStrictEqual([large.get(one.key), large.has(one.key)], [map.get(one.key), map.has(one.key)])
          }
          assert.strictEqual(large.size, map.size)
        }
        assert.deepStrictEqual(new Map(large), map)
        assert.deepStrictEqual(new Set(large.keys()), new Set(map.keys()))
        assert.deepStrictEqual(Array.from(large.values()).length, map.size)
      }),
      { numRuns: 30, seed: 7 }
    )
  })
})
