import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { QuantizedVectors } from "../../src/ranking/internal/QuantizedVectors.ts"
import { cosineSimilarity, make, type VectorIndex } from "../../src/ranking/VectorIndex.ts"
import { gaussian, scattered } from "./vectors.ts"

/** Values of the option `quantizeFrom`, the size in bytes from which vectors are quantised: always, or never. */
const sorts = { quantized: 0, plain: Infinity }

const naive = (
  rows: Iterable<readonly [id: number, vector: Float32Array]>,
  query: Float32Array,
  limit: number,
  only: (id: number) => boolean = () => true
) =>
  Array.from(rows, ([id, row]) => ({ id, score: cosineSimilarity(query, row) }))
    .filter(({ id }) => only(id))
    .sort((a, b) => b.score - a.score)
    .slice(0, limit)

const filled = (rows: ReadonlyArray<Float32Array>, quantizeFrom?: number): VectorIndex<number> => {
  const index = make<number>(rows[0]!.length, { quantizeFrom })
  rows.forEach((row, id) => index.add(id, row))
  return index
}

const vector = (dimensions: number) =>
  FastCheck.oneof(
    {
      weight: 6,
      arbitrary: FastCheck.array(FastCheck.integer({ min: -2, max: 2 }), {
        minLength: dimensions,
        maxLength: dimensions
      })
    },
    {
      weight: 3,
      arbitrary: FastCheck.array(FastCheck.float({ noNaN: true, noDefaultInfinity: true }), {
        minLength: dimensions,
        maxLength: dimensions
      })
    },
    { weight: 1, arbitrary: FastCheck.constant(Array.from({ length: dimensions }, () => 0)) }
  ).map((numbers) => Float32Array.from(numbers))

describe("cosineSimilarity", () => {
  it("the cosine is 1 for vectors of the same direction, -1 for opposite vectors, and 0 for orthogonal vectors", () => {
    assert.strictEqual(cosineSimilarity([1, 2, 3], [1, 2, 3]), 1)
    assert.closeTo(cosineSimilarity([1, 2, 3], [2, 4, 6]), 1, 1e-15)
    assert.closeTo(cosineSimilarity([1, 2, 3], [-1, -2, -3]), -1, 1e-15)
    assert.strictEqual(cosineSimilarity([1, 0], [0, 1]), 0)
    assert.closeTo(cosineSimilarity([1, 0], [1, 1]), Math.SQRT1_2, 1e-15)
  })

  it("the cosine is 0 if a vector is zero, empty or not finite, or if the vectors differ in length", () => {
    for (
      const [a, b] of [[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[1], [1, 1]], [[], []], [[NaN, 1], [1, 1]], [
        [Infinity, 1],
        [1, 1]
      ]]
    ) assert.strictEqual(cosineSimilarity(a!, b!), 0)
  })

  it("the cosine is right even if the squared length of a vector overflows or underflows", () => {
    assert.closeTo(cosineSimilarity([1e200, 1e200], [1e-200, 0]), Math.SQRT1_2, 1e-15)
    assert.strictEqual(cosineSimilarity([5e-324, 0], [1e308, 0]), 1)
  })

  it("rounding never puts the cosine of parallel vectors outside -1..1", () => {
    const next = gaussian(6)
    for (let n = 0; n < 1_000; n++) {
      const a = Array.from({ length: 7 }, next)
      for (const scale of [0.1, -0.3]) {
        const cosine = cosineSimilarity(a, a.map((number) => scale * number))
        assert.isTrue(Math.abs(cosine) <= 1 && Math.abs(cosine) > 1 - 1e-12)
      }
    }
  })

  it("the cosine of any two vectors lies in -1..1 and is symmetric", () => {
    const numbers = FastCheck.array(FastCheck.double(), { maxLength: 9 })
    FastCheck.assert(
      FastCheck.property(numbers, numbers, (a, b) => {
        for (const other of [b, a, a.map((number) => -number)]) {
          const cosine = cosineSimilarity(a, other)
          assert.isTrue(cosine >= -1 && cosine <= 1)
          assert.strictEqual(cosineSimilarity(other, a), cosine)
        }
      }),
      { seed: 1, numRuns: 2_000 }
    )
  })
})

describe("VectorIndex", () => {
  it("this machine has WebAssembly SIMD, which the tests of quantized vectors need", () =>
    assert.isDefined(QuantizedVectors.make(4)))

  it("a search finds the ten nearest of random, clustered and equal vectors, both quantized and plain", async () => {
    for (const dimensions of [1, 3, 16, 100, 384]) {
      for (const clusters of [0, 1, 40]) {
        const rows = scattered(2_000, dimensions, clusters, 7)
        for (const n of [3, 500, 1_999]) rows[n] = rows[2]!
        rows[11] = rows[11]!.map((number) => number * 1e30)
        rows[12] = rows[12]!.map((number) => number * 1e-30)
        const indexes = Object.entries(sorts).map(([sort, quantizeFrom]) => [sort, filled(rows, quantizeFrom)] as const)
        for (const query of [rows[2]!, rows[11]!, rows[12]!, ...scattered(12, dimensions, 0, 8)]) {
          const best = naive(rows.entries(), query, 10)
          for (const [sort, index] of indexes) assert.deepStrictEqual(index.search(query, 10), best, sort)
        }
        await new Promise((done) => setImmediate(done)) // lets the worker answer the test runner
      }
    }
  })

  for (const [sort, quantizeFrom] of Object.entries(sorts)) {
    it(`a search of ${sort} vectors equals a complete scan after random additions, replacements and removals`, () => {
      const step = FastCheck.record({
        id: FastCheck.integer({ min: 0, max: 120 }),
        act: FastCheck.constantFrom("add", "add", "add", "remove"),
        vector: vector(5)
      })
      const limit = FastCheck.oneof(FastCheck.integer({ min: 1, max: 8 }), FastCheck.constant(1_000))
      FastCheck.assert(
        FastCheck.property(
          FastCheck.array(step, { maxLength: 300, size: "max" }),
          vector(5),
          limit,
          (steps, query, limit) => {
            const index = make<number>(5, { quantizeFrom })
            const rows = new Map<number, Float32Array>()
            for (const { act, id, vector } of steps) {
              if (act === "add") {
                index.add(id, vector)
                rows.set(id, vector)
              } else assert.strictEqual(index.remove(id), rows.delete(id))
            }
            assert.strictEqual(index.size, rows.size)
            const odd = (id: number) => id % 2 === 1
            assert.deepStrictEqual(index.search(query, limit), naive(rows, query, limit))
            assert.deepStrictEqual(index.search(query, limit, odd), naive(rows, query, limit, odd))
            const some = Array.from({ length: 90 }, (_, n) => 2 * n)
            assert.deepStrictEqual(
              index.searchAmong(query, [...some, ...some], limit),
              naive(rows, query, limit, (id) => some.includes(id))
            )
          }
        ),
        { seed: 1, numRuns: 150 }
      )
    })

    it(`a search of ${sort} vectors finds vectors that were moved to the positions of removed vectors`, () => {
      const rows = scattered(1_000, 24, 0, 9)
      const index = filled(rows, quantizeFrom)
      const left = new Map(rows.entries())
      for (let id = 0; id < 300; id++) {
        index.remove(id * 3)
        left.delete(id * 3)
      }
      for (const query of rows.slice(950)) assert.deepStrictEqual(index.search(query, 3), naive(left, query, 3))
    })

    it(`a search of ${sort} vectors returns vectors with equal scores in the order in which they were added`, () => {
      const one = Float32Array.of(1, 0)
      const index = filled(Array.from({ length: 100 }, () => one), quantizeFrom)
      assert.deepStrictEqual(index.search(one, 3).map(({ id }) => id), [0, 1, 2])
      index.remove(0)
      index.add(1, Float32Array.of(2, 0))
      assert.deepStrictEqual(index.search(one, 3).map(({ id }) => id), [1, 2, 3])
      index.add(0, one)
      assert.deepStrictEqual(index.search(one, 1_000).map(({ id }) => id).slice(-2), [99, 0])
      assert.deepStrictEqual(index.searchAmong(one, [50, 7, 0], 2).map(({ id }) => id), [7, 50])
    })

    it(`a search of ${sort} vectors scores 0 if the query or the stored vector is zero`, () => {
      const index = make<string>(2, { quantizeFrom })
      for (const [id, x] of [["away", -1], ["zero", 0], ["near", 1]] as const) index.add(id, Float32Array.of(x, 0))
      assert.deepStrictEqual(index.search(Float32Array.of(1, 0), 9), [
        { id: "near", score: 1 },
        { id: "zero", score: 0 },
        { id: "away", score: -1 }
      ])
      assert.deepStrictEqual(index.search(new Float32Array(2), 2), [{ id: "away", score: 0 }, { id: "zero", score: 0 }])
    })

    it(`a search of ${sort} vectors with limit 1 finds the only vector of thousands that the filter accepts`, () => {
      const rows = scattered(3_000, 8, 0, 3)
      const index = filled(rows, quantizeFrom)
      const found = naive(rows.entries(), rows[0]!, 3_000).at(-1)!
      assert.deepStrictEqual(index.search(rows[0]!, 1, (id) => id === found.id), [found])
      assert.deepStrictEqual(index.searchAmong(rows[0]!, [-1, found.id], 1), [found])
    })
  }

  it("a search of 5,000 quantized vectors calls its filter for fewer than 1,000 vectors", () => {
    const rows = scattered(5_000, 32, 0, 4)
    let asked = 0
    filled(rows, 0).search(rows[0]!, 10, () => ++asked > 0)
    assert.isBelow(asked, 1_000)
  })

  it("a search returns nothing if the index or the list of ids is empty, or if the limit is 0", () => {
    const index = make<string>(2)
    const query = Float32Array.of(1, 0)
    assert.deepStrictEqual(index.search(query, 5), [])
    index.add("a", query)
    assert.deepStrictEqual(index.search(query, 0), [])
    assert.deepStrictEqual(index.searchAmong(query, [], 5), [])
    assert.isFalse(index.remove("b"))
    assert.isTrue(index.remove("a"))
    assert.deepStrictEqual(index.search(query, 5), [])
  })

  it("`add` and `search` throw a RangeError for a vector of wrong dimensions or with non-finite numbers", () => {
    const index = make<string>(2)
    for (const wrong of [[1], [1, 2, 3], [NaN, 1], [1, Infinity]]) {
      const vector = Float32Array.from(wrong)
      assert.throws(() => index.add("a", vector), RangeError)
      assert.throws(() => index.search(vector, 1), RangeError)
      assert.throws(() => index.searchAmong(vector, [], 1), RangeError)
    }
    assert.strictEqual(index.size, 0)
  })

  it("a search finds the ten nearest vectors after most vectors were removed, and after some of them were added again", () => {
    const next = gaussian(5)
    const rows = Array.from({ length: 3_000 }, () => Float32Array.from({ length: 200 }, next))
    const index = filled(rows, 0)
    for (let id = 0; id < 2_900; id++) index.remove(id)
    const left = Array.from(rows.entries()).slice(2_900)
    assert.deepStrictEqual(index.search(rows[0]!, 10), naive(left, rows[0]!, 10))
    for (let id = 0; id < 500; id++) index.add(id, rows[id]!)
    const now = [...left, ...Array.from(rows.entries()).slice(0, 500)]
    assert.deepStrictEqual(index.search(rows[1]!, 10), naive(now, rows[1]!, 10))
  })
})
