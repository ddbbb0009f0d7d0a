/** A database store compared with an in-memory store of the same records and vectors: their answers are equal. */
import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import { type MemoryRecord, textHash } from "../../src/domain/MemoryRecord.ts"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Sqlite from "../../src/storage/MemoryStore/Sqlite.ts"
import { entryOf, rowOf } from "../../src/storage/Revision.ts"
import { model, queryOf, random, recordOf, vectorOf, viewers, worlds } from "../ranking/random.ts"
import { uniform } from "../ranking/vectors.ts"
import { id } from "../ranking/world.ts"
import { databases } from "../stores.ts"
import { isLong, times } from "../vault/Program.ts"

const tenant = "default"
const kinds = MemoryKind.Kinds.defaultValue()
const entry = entryOf(Analyzer.Analyzer.defaultValue())

/** Writes records unchanged, not through a viewer; `undefined` erases the record of the id. */
const write = (
  store: MemoryStore.Service,
  all: ReadonlyArray<readonly [n: number, record: MemoryRecord | undefined]>
) =>
  Option.getOrThrow(store.reader).transact(
    tenant,
    { ids: all.map(([n]) => id(`${n}`)), dedupeKeys: [], revisions: [] },
    () =>
      Either.right({
        // erased first, since a record of another scope may have had the id
        writes: all.flatMap(([n, record]) => [
          { id: id(`${n}`), next: undefined },
          ...record === undefined ? [] : [{ id: record.id, next: entry(rowOf(kinds, tenant, record)) }]
        ]),
        answer: undefined
      })
  )

const attach = (store: MemoryStore.Service, vectors: ReadonlyArray<readonly [string, Float32Array]>) =>
  Option.getOrThrow(store.vectors).attach(tenant, model, vectors)

const queries = times(60, isLong ? 1_000 : 200)

describe.each(Object.entries(databases))("the database store %s", (_, layer) => {
  for (const { repeating, seed, size } of worlds) {
    it.scoped(`random queries give the answers of an in-memory store (${size} records, share of copies: ${repeating})`, () =>
      Effect.gen(function*() {
        const any = random(seed)
        const { below, next, of } = any
        const memory = Context.get(yield* Layer.build(MemoryStore.layerInMemory), MemoryStore.MemoryStore)
        const store = Context.get(yield* Layer.build(layer), MemoryStore.MemoryStore)
        const records = new Map<number, MemoryRecord>()
        const made = (n: number) => {
          const record = recordOf(any, n, Array.from(records.values()), repeating)
          records.set(n, record)
          return [n, record] as const
        }
        const all = Array.from({ length: size }, (_, n) => made(n))
        const vectorsOf = (some: ReadonlyArray<readonly [number, MemoryRecord]>) =>
          some.filter(() => next() < 0.8).map(([, record]) =>
            [textHash(record), Float32Array.from(vectorOf(any))] as const
          )
        const vectors = vectorsOf(all)
        for (const one of [memory, store]) {
          yield* write(one, all)
          yield* attach(one, vectors)
        }
        let hits = 0
        for (let n = 0; n < queries; n++) {
          if (n % 10 === 9) {
            const gone = below(size)
            records.delete(gone)
            const changes = [[gone, undefined] as const, made(below(size))]
            const more = vectorsOf(changes.flatMap(([n, record]) => record === undefined ? [] : [[n, record] as const]))
            for (const one of [memory, store]) {
              yield* write(one, changes)
              yield* attach(one, more)
            }
          }
          const viewer = of(viewers)
          yield* TestClock.setTime(below(60))
          const query = { ...queryOf(any), ...(next() < 0.3 && { confidence: true }) }
          const about = `${n}: ${JSON.stringify([viewer, query])}`
          const expected = yield* Effect.either(memory.search(viewer, query))
          const found = yield* Effect.either(store.search(viewer, query))
          if (Either.isLeft(expected)) {
            assert.isTrue(Either.isLeft(found), about)
            continue
          }
          const answer = yield* found
          assert.deepEqual(JSON.parse(JSON.stringify(answer)), JSON.parse(JSON.stringify(expected.right)), about)
          hits += answer.hits.length
          const page = yield* memory.list(viewer, {
            limit: 7,
            kinds: query.kinds,
            tags: query.tags,
            where: query.where
          })
          const same = yield* store.list(viewer, { limit: 7, kinds: query.kinds, tags: query.tags, where: query.where })
          assert.deepEqual(same.items.map(({ id }) => id), page.items.map(({ id }) => id), about)
          assert.strictEqual(same.next, page.next, about)
          const one = id(`${below(size)}`)
          deepStrictEqual(yield* store.whyNot(viewer, one, query), yield* memory.whyNot(viewer, one, query), about)
        }
        assert.isAbove(hits, queries)
      }))
  }

  it.scoped("a vector search in a database returns the same hits as in memory, even after edits", () =>
    Effect.gen(function*() {
      const next = uniform(7)
      const memory = Context.get(yield* Layer.build(MemoryStore.layerInMemory), MemoryStore.MemoryStore)
      const store = Context.get(yield* Layer.build(layer), MemoryStore.MemoryStore)
      const any = random(6)
      const all = Array.from({ length: 900 }, (_, n) => [n, recordOf(any, n, [], 0)] as const)
      const wide = () => Float32Array.from({ length: 384 }, () => next() - 0.5)
      const vectors = all.slice(0, 850).map(([, record]) => [textHash(record), wide()] as const)
      for (const one of [memory, store]) {
        yield* write(one, all)
        yield* attach(one, vectors)
      }
      for (let n = 0; n < 40; n++) {
        if (n % 10 === 9) { for (const one of [memory, store]) yield* write(one, [[n, undefined]]) }
        if (n % 10 === 4) {
          const edited = recordOf(any, n, [], 0)
          const vector = wide()
          for (const one of [memory, store]) {
            yield* write(one, [[n, edited]])
            yield* attach(one, [[textHash(edited), vector]])
          }
        }
        const viewer = viewers[n % viewers.length]!
        const query = {
          embedding: { model, vector: Array.from(wide()) },
          mode: "vector",
          limit: 1 + n,
          explain: true
        } as const
        const expected = yield* memory.search(viewer, query)
        const found = yield* store.search(viewer, query)
        assert.deepEqual(JSON.parse(JSON.stringify(found)), JSON.parse(JSON.stringify(expected)), String(n))
      }
    }))
})

describe("a database store with a small cache", () => {
  it.scoped("concurrent searches that evict each other's cache entries give the answers of an in-memory store", () =>
    Effect.gen(function*() {
      const any = random(8)
      const memory = Context.get(yield* Layer.build(MemoryStore.layerInMemory), MemoryStore.MemoryStore)
      const small = Sqlite.layer({ filename: ":memory:", cacheSize: 30_000 })
      const store = Context.get(yield* Layer.build(small), MemoryStore.MemoryStore)
      const all = Array.from({ length: 300 }, (_, n) => [n, recordOf(any, n, [], 0)] as const)
      const vectors = all.map(([, record]) => [textHash(record), Float32Array.from(vectorOf(any))] as const)
      for (const one of [memory, store]) {
        yield* write(one, all)
        yield* attach(one, vectors)
      }
      for (let n = 0; n < times(6, 60); n++) {
        const asked = Array.from({ length: 12 }, () => [any.of(viewers), { ...queryOf(any), mode: undefined }] as const)
        const expected = yield* Effect.forEach(asked, ([viewer, query]) => Effect.either(memory.search(viewer, query)))
        const found = yield* Effect.forEach(asked, ([viewer, query]) => Effect.either(store.search(viewer, query)), {
          concurrency: "unbounded"
        })
        assert.deepEqual(JSON.parse(JSON.stringify(found)), JSON.parse(JSON.stringify(expected)), String(n))
        const changed = any.below(300)
        const next = recordOf(any, changed, [], 0)
        for (const one of [memory, store]) yield* write(one, [[changed, next]])
      }
    }))
})
