import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import type { Stored } from "../../src/storage/Engine.ts"
import { KeyIndex } from "../../src/storage/internal/KeyIndex.ts"
import { LazyIndex } from "../../src/storage/internal/LazyIndex.ts"
import * as world from "../ranking/world.ts"

/** A table of rows, and an index of it that is the set of its rows; each row takes as much work as `work` says. */
const made = (work: number) => {
  const rows = new Map<number, Stored>()
  const index = new LazyIndex<Set<Stored>>({
    make: () => new Set(),
    add: (index, row) => {
      assert.isFalse(index.has(row), "a row is added once")
      index.add(row)
      return work
    },
    remove: (index, row) => assert.isTrue(index.delete(row), "a row that is taken away was there"),
    rows: () => Array.from(rows.values())
  })
  const set = (n: number, isThere: boolean) => {
    const before = rows.get(n)
    const after = isThere ? { record: world.record(`${n}`), forgotten: false } : undefined
    if (after === undefined) rows.delete(n)
    else rows.set(n, after)
    index.set(before, after)
  }
  return { index, rows, set }
}

const isOf = (rows: ReadonlyMap<number, Stored>, index: ReadonlySet<Stored>) => {
  assert.strictEqual(index.size, rows.size)
  assert.isTrue(Array.from(rows.values()).every((row) => index.has(row)))
}

/** Work after which there is a pause. */
const aTurn = 131_072

describe("an index that is made when it is first asked for", () => {
  it.live("has exactly the rows that there are, whatever is written while it is made, and whoever stops waiting", () =>
    Effect.gen(function*() {
      const { array, boolean, integer, tuple } = FastCheck
      const courses = FastCheck.sample(
        tuple(
          integer({ min: 0, max: 9 }),
          array(tuple(integer({ min: 0, max: 12 }), boolean(), integer({ min: 0, max: 3 })), { maxLength: 12 })
        ),
        { seed: 1, numRuns: 60 }
      )
      for (const [count, course] of courses) {
        const { index, rows, set } = made(aTurn / 2)
        for (let n = 0; n < count; n++) set(n, true)
        const fibers = [yield* Effect.fork(index.prepared), yield* Effect.fork(index.prepared)] as const
        yield* Effect.sleep(0)
        for (const [at, [n, isThere, what]] of course.entries()) {
          set(n, isThere)
          if (what === 0) yield* Effect.sleep(0)
          if (what === 1 && at === 3) yield* Fiber.interrupt(fibers[0])
          if (what === 2 && at === 5) isOf(rows, index.current)
        }
        isOf(rows, yield* Fiber.join(fibers[1]))
        for (const [n, isThere] of course) set(n + 1, isThere)
        isOf(rows, yield* index.prepared)
      }
    }))

  it.live("lets the event loop turn after so much work, and is made once", () =>
    Effect.gen(function*() {
      const { index, set } = made(aTurn)
      for (let n = 0; n < 10; n++) set(n, true)
      assert.isUndefined(index.known)
      let turns = 0
      const other = yield* Effect.fork(Effect.forever(Effect.zipRight(Effect.sleep(0), Effect.sync(() => turns++))))
      const first = yield* index.prepared
      assert.isAtLeast(turns, 8)
      yield* Fiber.interrupt(other)
      assert.strictEqual(yield* index.prepared, first)
      assert.strictEqual(index.current, first)
      assert.strictEqual(index.known, first)
    }))
})

describe("objects by key", () => {
  it("are those that were added and not taken away, each once, in the order in which they came", () => {
    const { array, boolean, constantFrom, integer, property, tuple } = FastCheck
    const objects = Array.from({ length: 5 }, (_, n) => ({ n }))
    FastCheck.assert(
      property(
        array(tuple(constantFrom(0, 1, 256, -1, -2147483648), integer({ min: 0, max: 4 }), boolean()), {
          maxLength: 40
        }),
        (course) => {
          const index = new KeyIndex<{ n: number }>()
          const plain = new Map<number, Set<{ n: number }>>()
          for (const [key, n, isThere] of course) {
            const set = plain.get(key) ?? new Set()
            plain.set(key, set)
            if (isThere) {
              index.add(key, objects[n]!)
              set.add(objects[n]!)
            } else {
              index.remove(key, objects[n]!)
              set.delete(objects[n]!)
            }
            for (const [key, set] of plain) assert.deepStrictEqual(Array.from(index.get(key)), Array.from(set))
          }
        }
      ),
      { seed: 1, numRuns: 300 }
    )
  })
})
