import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { hashOf, type MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import { Internal, isInternal } from "../../src/domain/MemoryScope.ts"
import { Embeddings } from "../../src/ranking/VectorIndex.ts"
import { Texts } from "../../src/storage/internal/Compaction.ts"
import { CountedEmbeddings } from "../ranking/vectors.ts"
import * as world from "../ranking/world.ts"

const vector = new Float32Array([1, 2])
const record = (n: number, text: number, fields: Partial<MemoryRecord> = {}) =>
  world.record(`${n}`, { summary: "s", body: `text ${text}`, ...fields })
const hash = (text: number) => hashOf(record(0, text))

const { array, constantFrom, integer, oneof, record: fields } = FastCheck
const slot = integer({ min: 0, max: 5 })
const text = integer({ min: 0, max: 4 })
const model = constantFrom("a", "b")
const step = oneof(
  fields({ _tag: constantFrom("write"), n: slot, text, expiresAt: constantFrom(undefined, undefined, 5) }),
  fields({ _tag: constantFrom("internal"), n: slot, text }),
  fields({ _tag: constantFrom("remove"), n: slot }),
  fields({ _tag: constantFrom("attach"), model, text }),
  fields({ _tag: constantFrom("erase") }),
  fields({ _tag: constantFrom("lose"), text }),
  fields({ _tag: constantFrom("made anew") })
)

describe("the pending texts of a tenant (texts that have no vector yet)", () => {
  it("Texts.pending and Texts.erase have the same results as a scan of all records, after random changes", () => {
    let erased = 0
    let pending = 0
    FastCheck.assert(
      FastCheck.property(
        array(step, { minLength: 12, maxLength: 40 }),
        integer({ min: 1, max: 6 }),
        (course, limit) => {
          const embeddings = new Embeddings()
          const rows = new Map<number, MemoryRecord>()
          let texts = new Texts(embeddings)
          const set = (n: number, next: MemoryRecord | undefined) => {
            const last = rows.get(n)
            if (last !== undefined) texts.remove(last)
            if (next === undefined) rows.delete(n)
            else rows.set(n, next)
            if (next !== undefined) texts.add(next)
          }
          const held = () =>
            new Set(Array.from(rows.values()).filter(({ scope }) => !isInternal(scope)).map((row) => hashOf(row)))
          for (const one of course) {
            if (one._tag === "write" && "expiresAt" in one) {
              set(one.n, record(one.n, one.text, one.expiresAt === undefined ? {} : { expiresAt: one.expiresAt }))
            } else if (one._tag === "internal" && "n" in one && "text" in one) {
              set(one.n, record(one.n, one.text, { scope: Internal }))
            } else if (one._tag === "remove" && "n" in one) set(one.n, undefined)
            else if (one._tag === "attach" && "model" in one) {
              embeddings.set(one.model, hash(one.text), vector)
              texts.attached([hash(one.text)])
            } else if (one._tag === "lose" && "text" in one) embeddings.retain((other) => other !== hash(one.text))
            else if (one._tag === "made anew") {
              texts = new Texts(embeddings)
              for (const row of rows.values()) texts.add(row)
            } else if (one._tag === "erase") {
              const expected = ["a", "b"].map((model) =>
                Array.from(embeddings.all(model), ([hash]) => hash).filter((hash) => held().has(hash))
              )
              const count = () => ["a", "b"].reduce((sum, model) => sum + Array.from(embeddings.all(model)).length, 0)
              const before = count()
              texts.erase()
              erased += before - count()
              assert.deepStrictEqual(
                ["a", "b"].map((model) => Array.from(embeddings.all(model), ([hash]) => hash)),
                expected
              )
            }
            for (let n = 0; n <= 4; n++) assert.strictEqual(texts.has(hash(n)), held().has(hash(n)))
            assert.strictEqual(texts.hasManyOrphans(3), 3 > 2 * held().size)
            for (const model of ["a", "b"]) {
              const expected = new Set(
                Array.from(rows.values()).filter(({ expiresAt = Infinity, scope }) =>
                  !isInternal(scope) && expiresAt > 5
                )
                  .map((row) => hashOf(row)).filter((hash) => embeddings.get(model, hash) === undefined)
              )
              const found = texts.pending(model, limit, 5)
              pending += found.length
              assert.lengthOf(found, Math.min(limit, expected.size))
              assert.strictEqual(new Set(found.map(({ hash }) => hash)).size, found.length)
              for (const { hash, text } of found) {
                assert.isTrue(expected.has(hash))
                assert.isTrue(
                  Array.from(rows.values()).some((row) => hashOf(row) === hash && `s\n${row.body}` === text)
                )
              }
            }
          }
        }
      ),
      { seed: 3, numRuns: 400 }
    )
    assert.isAbove(erased, 100)
    assert.isAbove(pending, 5_000)
  })

  it("repeated requests for pending texts look up each existing vector only once", () => {
    const embeddings = new CountedEmbeddings()
    const texts = new Texts(embeddings)
    for (let n = 0; n < 200; n++) texts.add(record(n, n))
    for (let n = 0; n < 200; n++) embeddings.set("a", hash(n), vector)
    for (let round = 0; round < 20; round++) assert.deepStrictEqual(texts.pending("a", 1, 0), [])
    assert.isAtMost(embeddings.looked, 200)
    texts.add(record(200, 200))
    for (let round = 0; round < 20; round++) assert.lengthOf(texts.pending("a", 1, 0), 1)
    assert.isAtMost(embeddings.looked, 220)
  })
})
