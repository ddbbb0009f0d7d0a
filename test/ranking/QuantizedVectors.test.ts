import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { TopKBounds } from "../../src/ranking/internal/DocIds.ts"
import { listing, makeKernel, QuantizedVectors } from "../../src/ranking/internal/QuantizedVectors.ts"
import { cosineSimilarity } from "../../src/ranking/VectorIndex.ts"
import { scattered, uniform } from "./vectors.ts"

const lengthOf = (vector: Float32Array) => Math.hypot(...vector)

describe("DotKernel", () => {
  it("each instruction line in `listing` contains exactly the bytes that encode the WebAssembly instruction named in that line", () => {
    const codes: Record<string, ReadonlyArray<number>> = {
      "loop": [0x03, 0x40],
      "end": [0x0b],
      "br_if": [0x0d],
      "local.get": [0x20],
      "local.set": [0x21],
      "local.tee": [0x22],
      "i32.load": [0x28, 2],
      "i32.store": [0x36, 2],
      "i32.const": [0x41],
      "i32.lt_u": [0x49],
      "i32.add": [0x6a],
      "i32.mul": [0x6c],
      "v128.load": [0xfd, 0x00, 4],
      "v128.load8x8_s": [0xfd, 0x01, 3],
      "v128.const": [0xfd, 0x0c, ...Array.from({ length: 15 }, () => 0)],
      "i32x4.extract_lane": [0xfd, 0x1b],
      "i32x4.add": [0xfd, 0xae, 0x01],
      "i32x4.dot_i16x8_s": [0xfd, 0xba, 0x01]
    }
    const lines = listing.trim().split("\n").map((line) => line.split(";").map((part) => part.trim()))
    const body = lines.slice(lines.findIndex(([, text]) => text === "loop"))
    assert.lengthOf(body, 70)
    for (const [bytes, text] of body) {
      const [name = "", operand] = text!.split(" ")
      const code = [...codes[name]!, ...(operand === undefined ? [] : [Number(operand)])]
      assert.strictEqual(bytes, code.map((byte) => byte.toString(16).padStart(2, "0")).join(" "), text)
    }
  })

  it("dot products are exact, even for the largest integers", () => {
    const next = uniform(1)
    const pick = (range: number) => Math.round((next() * 2 - 1) * range)
    for (const stride of [16, 32, 48, 400]) {
      const { dots, memory } = makeKernel()!
      const query = new Int16Array(memory.buffer, 0, stride).map(() => next() < 0.2 ? 32_767 : pick(32_767))
      new Int16Array(memory.buffer).set(query)
      const at = 2 * stride
      const rows = at + 4 * 40
      const bytes = new Int8Array(memory.buffer, rows, 40 * stride)
      bytes.set(bytes.map(() => next() < 0.2 ? -127 : pick(127)))
      const numbers = new Int32Array(memory.buffer, at, 40)
      const wanted = Array.from({ length: 39 }, () => Math.floor(next() * 40))
      numbers.set([...wanted, -5])
      dots(at, at + 4 * 39, rows, stride)
      const expected = wanted.map((row) => query.reduce<number>((sum, q, i) => sum + q * bytes[row * stride + i]!, 0))
      assert.deepStrictEqual(Array.from(numbers), [...expected, -5])
    }
  })
})

describe("QuantizedVectors", () => {
  it("quantized vectors give a lower and an upper bound of the exact cosine, and the bounds are close together", () => {
    for (const dimensions of [1, 2, 15, 16, 17, 100, 384, 3_072, 40_000]) {
      const rows = scattered(30, dimensions, 0, dimensions)
      rows.push(new Float32Array(dimensions), rows[0]!.map((number) => -1e35 * number))
      rows.push(rows[0]!.map((number, i) => i === 0 ? 1e6 : number), rows[0]!.map((number) => 1e-35 * number))
      const quantized = QuantizedVectors.make(dimensions)!
      rows.forEach((row, doc) => assert.isTrue(quantized.set(doc, row, lengthOf(row))))
      for (const query of rows) {
        const offers = new Map<number, readonly [least: number, most: number]>()
        const bounds = new TopKBounds(1_000)
        bounds.offer = (doc, least, most) => void offers.set(doc, [least, most])
        quantized.offerBounds(query, lengthOf(query), undefined, rows.length, bounds, undefined)
        assert.strictEqual(offers.size, rows.length)
        for (const [doc, [least, most]] of offers) {
          const cosine = cosineSimilarity(query, rows[doc]!)
          assert.isTrue(least <= cosine && cosine <= most, `${dimensions}: ${least} ${cosine} ${most}`)
          if (doc < 30) assert.isBelow(most - least, dimensions > 5_000 ? 0.2 : 0.05)
        }
      }
    }
  })

  it("QuantizedVectors.make returns undefined for more than 65,536 dimensions", () =>
    assert.isUndefined(QuantizedVectors.make(65_537)))
})

describe("TopKBounds", () => {
  it("TopKBounds with limit k keeps exactly the entries whose upper bound is at least the k-th best lower bound", () => {
    const bounds = FastCheck.tuple(FastCheck.integer({ min: 0, max: 30 }), FastCheck.integer({ min: 0, max: 4 }))
    FastCheck.assert(
      FastCheck.property(FastCheck.array(bounds), FastCheck.integer({ min: 1, max: 9 }), (all, limit) => {
        const bounds = new TopKBounds(limit)
        all.forEach(([least, width], doc) => bounds.offer(doc, least, least + width))
        const bar = all.map(([least]) => least).sort((a, b) => b - a)[limit - 1] ?? -Infinity
        assert.strictEqual(bounds.threshold, bar)
        assert.deepStrictEqual(
          bounds.all,
          all.flatMap(([least, width], doc) => least + width >= bar ? [doc] : [])
        )
      }),
      { seed: 1, numRuns: 1_000 }
    )
  })
})
