import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { type MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Copy from "../../src/storage/Copy.ts"
import type { EngineUses } from "../../src/storage/Engine.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, draft, id, put } from "../../src/testing/Sample.ts"
import { strings } from "../contract/naughty.ts"
import { stores } from "../stores.ts"
import { copyOf, opened, place } from "../vault/Place.ts"
import { times } from "../vault/Program.ts"
import { built, embed, equal, lived, memory, readerOf, rowsOf, startOf, tenants, vault, vectorsOf } from "./Copies.ts"
import { inMemory } from "./engines.ts"

describe("Copy.copy", () => {
  it.scoped("a chain of copies from a vault to SQLite, to PostgreSQL and to another vault loses nothing", () =>
    Effect.gen(function*() {
      const first = yield* lived(vault, "chain")
      const stages = [first, yield* built(stores.sqlite), yield* built(stores.postgres), yield* vault]
      for (const [n, from] of stages.slice(0, -1).entries()) {
        assert.isTrue((yield* Copy.copy(from, stages[n + 1]!)).verified)
        yield* equal(first, stages[n + 1]!)
      }
    }))

  it.scoped("strings of the Big List of Naughty Strings are copied unchanged", () =>
    Effect.gen(function*() {
      const from = yield* vault
      yield* from.put(
        ada,
        strings.filter((_, n) => n % times(4, 1) === 0).map((body) =>
          draft(body, { summary: "naughty", data: { [`${startOf(body, 40)}.`]: body } })
        )
      )
      const there = yield* memory
      const back = yield* vault
      assert.isTrue((yield* Copy.copy(from, there)).verified)
      assert.isTrue((yield* Copy.copy(there, back)).verified)
      yield* equal(from, back)
    }))

  it.scoped("a copy includes vectors of models that were not used since the vault was opened", () =>
    Effect.gen(function*() {
      const root = yield* place
      yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        for (const tenant of tenants) {
          yield* store.put(Viewer.make({ tenant, userId: "ada" }), [draft(`tea of ${tenant}`), draft("tea of all")])
          yield* embed(store, tenant)
        }
      }))
      const { store } = yield* opened(root)
      const to = yield* memory
      const { vectors, verified } = yield* Copy.copy(store, to)
      assert.deepStrictEqual([vectors, verified], [9, true])
      assert.deepStrictEqual((yield* vectorsOf(to).models("zeta")).toSorted(), ["Größe/7", "m"])
      assert.deepStrictEqual(yield* vectorsOf(to).models("nobody"), [])
      assert.deepStrictEqual(yield* vectorsOf(to).pending("zeta", "m"), [])
    }))

  it.scoped("copying a vault of Obsidian or @deuz-sdk/core to memory and on to another vault loses nothing", () =>
    Effect.gen(function*() {
      for (const fixture of ["obsidian", "deuz"]) {
        yield* TestClock.setTime(1_717_286_460_000)
        const { store } = yield* opened(yield* copyOf(fixture), { notes: "whole" })
        const [first] = (yield* store.list(Viewer.system(), { limit: 1 })).items
        yield* store.update(Viewer.system(), first!.id, { tags: ["changed"] })
        yield* store.touch(Viewer.system(), [first!.id])
        const between = yield* memory
        const back = yield* vault
        const report = yield* Copy.copy(store, between)
        assert.deepStrictEqual([report.verified, report.vectors > 0], [true, fixture === "deuz"])
        assert.isTrue((yield* Copy.copy(between, back)).verified)
        yield* equal(store, between)
        yield* equal(store, back)
        assert.strictEqual((yield* Copy.copy(store, back)).written, 0)
      }
    }))

  it.scoped("use counts are copied if the target can set use counts, and are otherwise reported as omitted", () =>
    Effect.gen(function*() {
      const from = yield* memory
      const record = yield* put(from, draft("one"))
      yield* TestClock.adjust(9)
      yield* from.touch(ada, [record.id])
      const into = (isSettable: boolean) =>
        Effect.gen(function*() {
          const engine = yield* inMemory
          const kept = new Map<string, MemoryStore.Uses>()
          const uses: EngineUses = {
            touch: () => Effect.void,
            read: (tenant, ids) => Effect.sync(() => ids.map((id) => kept.get(`${tenant}/${id}`) ?? { count: 0 })),
            set: isSettable
              ? (tenant, all) => Effect.sync(() => all.forEach(([id, uses]) => kept.set(`${tenant}/${id}`, uses)))
              : undefined
          }
          const to = yield* MemoryStore.make("engine", { ...engine, uses })
          const { omitted, verified, written } = yield* Copy.copy(from, to)
          assert.isTrue(verified)
          return { omitted, written, uses: yield* to.uses(ada, [record.id]) }
        })
      assert.deepStrictEqual(yield* into(true), { omitted: [], written: 2, uses: [{ count: 1, accessedAt: 9 }] })
      assert.deepStrictEqual(yield* into(false), { omitted: ["uses"], written: 1, uses: [{ count: 0 }] })
    }))

  it.scoped("a copied tombstone keeps use count and time of forgetting, and its record can still be restored", () =>
    Effect.gen(function*() {
      const from = yield* memory
      const to = yield* memory
      const record: MemoryRecord = yield* put(from, draft("gone", { id: id("x") }))
      yield* from.touch(ada, [record.id])
      yield* TestClock.adjust(Duration.days(3))
      yield* from.forget(ada, [record.id])
      yield* TestClock.adjust(Duration.days(3))
      yield* Copy.copy(from, to)
      const { items } = yield* to.list(ada, { forgotten: true })
      assert.strictEqual(items[0]?.updatedAt, Duration.toMillis("3 days"))
      yield* to.apply(ada, [{ _tag: "Restore", id: record.id, revision: 1 }])
      assert.deepStrictEqual(yield* to.uses(ada, [record.id]), [{ count: 1, accessedAt: 0 }])
      yield* to.forget(ada, [record.id])
      yield* TestClock.adjust(Duration.days(30))
      assert.deepStrictEqual([yield* to.compact, yield* rowsOf(readerOf(to), "default")], [0, []]) // maintenance has already erased it
    }))
})
