import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { canonicalJson, sha256 } from "../../src/domain/Digest.ts"
import * as Copy from "../../src/storage/Copy.ts"
import type { Engine } from "../../src/storage/Engine.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Overlay from "../../src/storage/MemoryStore/Overlay.ts"
import { refuses } from "../../src/testing/Law.ts"
import { ada, draft, fact, get, id, put } from "../../src/testing/Sample.ts"
import { stores } from "../stores.ts"
import { opened, place } from "../vault/Place.ts"
import { isLong, times } from "../vault/Program.ts"
import {
  built,
  equal,
  faulty,
  holdings,
  lived,
  memory,
  readerOf,
  rowsOf,
  tenants,
  vault,
  vectorOf,
  vectorsOf
} from "./Copies.ts"
import { inMemory } from "./engines.ts"

/** Numbers of the calls of the target at which a copy is made to fail, counted from 1: every third call. */
const every = Array.from({ length: times(6, isLong ? 40 : 12) }, (_, n) => 1 + 3 * n)

describe("Copy.copy", () => {
  for (let seed = 0; seed < times(1, isLong ? 30 : 4); seed++) {
    it.scoped(`a copy of a vault to memory, and from there to another vault, loses nothing (${seed})`, () =>
      Effect.gen(function*() {
        const from = yield* lived(vault, `life ${seed}`)
        const between = yield* memory
        const to = yield* vault
        const first = yield* Copy.copy(from, between, { batch: 7 })
        assert.deepStrictEqual([first.verified, first.differing, first.omitted], [true, 0, []])
        assert.strictEqual(first.checksums.from, first.checksums.to)
        yield* equal(from, between)
        const second = yield* Copy.copy(between, to)
        assert.deepStrictEqual({ ...second, written: 0 }, { ...first, written: 0 })
        assert.strictEqual(second.written, second.revisions + second.vectors + second.uses)
        yield* equal(from, to)
        for (const part of ["records", "tombstones", "revisions", "vectors", "uses"] as const) {
          assert.isAbove(first[part], 0, part)
        }
      }))
  }

  it.scoped("a vault that was the target of a copy passes vault.verify once reopened", () =>
    Effect.gen(function*() {
      const from = yield* lived(memory, "reopened")
      const root = yield* place
      yield* Effect.scoped(Effect.flatMap(opened(root), ({ store }) => Copy.copy(from, store)))
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.verify, [])
      assert.deepStrictEqual(yield* vault.issues, [])
      // a second copy is needed, since opening the vault erased expired records, and use counts are lost when the vault closes
      const again = yield* Copy.copy(from, store)
      assert.isTrue(again.verified)
      yield* equal(from, store)
    }))

  it.scoped("a second copy of an unchanged store into memory or into a vault writes nothing", () =>
    Effect.gen(function*() {
      for (const to of [memory, vault]) {
        const from = yield* lived(memory, "again", 10)
        const target = yield* to
        const first = yield* Copy.copy(from, target)
        assert.isAbove(first.written, 0)
        assert.deepStrictEqual(yield* Copy.copy(from, target), { ...first, written: 0 })
      }
    }))

  it.scoped("a copy into an Overlay reaches the base store only at Overlay.commit", () =>
    Effect.gen(function*() {
      const from = yield* memory
      const below = yield* memory
      const record = yield* put(from, draft("one"))
      yield* from.update(ada, record.id, { body: "two" })
      const context = yield* Layer.build(
        Layer.provide(Overlay.layer, Layer.succeed(MemoryStore.MemoryStore, below))
      )
      const branch = Context.get(context, MemoryStore.MemoryStore)
      const report = yield* Copy.copy(from, branch)
      assert.deepStrictEqual([report.verified, report.written], [true, 2])
      assert.strictEqual((yield* Copy.copy(from, branch)).written, 0)
      assert.isUndefined(yield* get(below, ada, record.id))
      yield* Context.get(context, Overlay.Overlay).commit
      assert.strictEqual((yield* get(below, ada, record.id))?.body, "two")
    }))

  it.scoped("a copy writes nothing if its source and its target are the same store or the same Overlay", () =>
    Effect.gen(function*() {
      const from = yield* lived(memory, "itself", 10)
      const branch = yield* built(Layer.provide(Overlay.layer, Layer.succeed(MemoryStore.MemoryStore, from)))
      const report = yield* Copy.copy(from, from)
      assert.deepStrictEqual([report.written, report.verified], [0, true])
      yield* put(from, draft("not expired"))
      yield* from.compact // erases the expired records of the base store
      assert.strictEqual((yield* Copy.copy(branch, branch)).written, 0)
    }))

  it.scoped("a second run of a copy that failed at a call of the target makes both stores equal", () =>
    Effect.gen(function*() {
      const from = yield* lived(memory, "faults", 8)
      for (const at of every) {
        for (const when of ["before", "after"] as const) {
          const to = yield* memory
          const broken = yield* faulty(to, { ops: ["reader", "vectors"], at, when })
          yield* refuses("io", Copy.copy(from, broken, { batch: 3 }))
          const report = yield* Copy.copy(from, to, { batch: 4 })
          assert.isTrue(report.verified)
          yield* equal(from, to)
          assert.strictEqual((yield* Copy.copy(from, to)).written, 0)
        }
      }
    }))

  it.scoped("a second run completes a copy that was interrupted after a batch", () =>
    Effect.gen(function*() {
      const from = yield* lived(memory, "interrupted", 8)
      for (const sort of [memory, vault]) {
        for (const n of [1, 2, 5, 9]) {
          const to = yield* sort
          let left = n
          const onProgress = ({ phase }: Copy.Progress) =>
            Effect.suspend(() => phase === "copy" && --left === 0 ? Effect.interrupt : Effect.void)
          const fiber = yield* Effect.fork(Copy.copy(from, to, { batch: 3, onProgress }))
          assert.strictEqual((yield* Fiber.await(fiber))._tag, "Failure")
          const { verified, written } = yield* Copy.copy(from, to, { batch: 3 })
          assert.isTrue(verified)
          assert.isAbove(written, 0)
          yield* equal(from, to)
        }
      }
    }))

  it.scoped("a second copy of a changed source writes only the new revisions, tombstones, vectors and use counts", () =>
    Effect.gen(function*() {
      for (const sort of [memory, vault]) {
        const from = yield* lived(memory, "changed", 8)
        const to = yield* sort
        yield* Copy.copy(from, to)
        yield* TestClock.adjust(5)
        yield* from.update(ada, id("default long"), { body: "short" })
        yield* from.update(ada, id("default long"), { body: "shorter" })
        yield* from.update(ada, id("default often"), { body: "once more" })
        yield* from.forget(ada, [id("default restored")])
        yield* from.apply(ada, [{ _tag: "Restore", id: id("default forgotten"), revision: 1 }])
        yield* put(from, draft("new"))
        yield* from.touch(ada, [id("default often")])
        const revisions = 6
        const plain = yield* Copy.copy(from, to)
        assert.strictEqual(plain.written, revisions + 1)
        assert.isTrue(plain.verified)
        yield* equal(from, to)
        yield* vectorsOf(from).attach("default", "m", [[sha256("shorter"), vectorOf(sha256("shorter"), 3)]])
        assert.strictEqual((yield* Copy.copy(from, to)).written, 1)
        yield* equal(from, to)
      }
    }))

  it.scoped("a subscriber of a copy's target receives each copied revision", () =>
    Effect.gen(function*() {
      const from = yield* memory
      const to = yield* memory
      const record = yield* put(from, fact("one"))
      yield* from.update(ada, record.id, { body: "two" })
      const heard = yield* Effect.fork(Stream.runCollect(Stream.take(to.changes(ada), 2)))
      yield* Effect.yieldNow()
      yield* Copy.copy(from, to)
      assert.deepStrictEqual(
        Chunk.toReadonlyArray(yield* Fiber.join(heard)).map((change) =>
          change._tag === "Written" ? change.record.body : ""
        ),
        ["one", "two"]
      )
      assert.strictEqual((yield* to.put(ada, [fact("two")]))[0]?.outcome, "duplicate")
      assert.lengthOf((yield* to.search(ada, { text: "two" })).hits, 1)
    }))

  it.scoped("a copy fails with `conflict` and changes nothing if the source lacks the target's current revision of a record", () =>
    Effect.gen(function*() {
      const change = (store: MemoryStore.Service, body: string) => Effect.asVoid(store.update(ada, id("x"), { body }))
      const ways: Readonly<
        Record<string, (from: MemoryStore.Service, to: MemoryStore.Service) => Effect.Effect<void, unknown>>
      > = {
        "both were changed": (from, to) => Effect.zipRight(change(from, "ours"), change(to, "theirs")),
        "the target moved on": (_, to) => change(to, "theirs"),
        "the source was put anew": (from) =>
          Effect.zipRight(
            from.forget(ada, [id("x")], { purge: true }),
            Effect.asVoid(from.put(ada, [draft("again", { id: id("x") })]))
          ),
        "the source keeps too little": (from) =>
          Effect.forEach(Array.from({ length: 21 }), (_, n) => change(from, `${n}`), { discard: true })
      }
      for (const [way, diverge] of Object.entries(ways)) {
        for (const sort of [memory, vault]) {
          const from = yield* memory
          const to = yield* sort
          yield* from.put(ada, [draft("first", { id: id("x") })])
          yield* Copy.copy(from, to)
          yield* TestClock.adjust(5)
          yield* put(from, draft("newer", { id: id("y") }))
          yield* diverge(from, to)
          yield* put(from, draft("newest", { id: id("z") }))
          const before = yield* holdings(to)
          const error = yield* refuses("conflict", Copy.copy(from, to, { batch: 1 }))
          assert.strictEqual(error.id, id("x"), way)
          assert.strictEqual(error.op, "copy")
          assert.include(error.message, "Purge")
          assert.deepStrictEqual(yield* holdings(to), before, way)
          yield* to.forget(ada, [id("x")], { purge: true }) // as the error message advises
          assert.isTrue((yield* Copy.copy(from, to)).verified)
          yield* equal(from, to)
        }
      }
    }))

  it.scoped("Copy.copy reads and writes only the tenants in the option `tenants`", () =>
    Effect.gen(function*() {
      const from = yield* lived(memory, "tenants", 8)
      const asked = new Set<string>()
      const note =
        <A extends ReadonlyArray<unknown>, B>(call: (tenant: string, ...rest: A) => B) =>
        (tenant: string, ...rest: A) => {
          asked.add(tenant)
          return call(tenant, ...rest)
        }
      const reader = readerOf(from)
      const vectors = vectorsOf(from)
      const noted: MemoryStore.Service = {
        ...from,
        tenants: Effect.die("the tenants are given"),
        vectors: Option.some({ ...vectors, models: note(vectors.models), read: note(vectors.read) }),
        reader: Option.some({
          ...reader,
          read: note(reader.read),
          revisions: note(reader.revisions),
          page: (access, ...rest) =>
            note((_: string) => reader.page(access, ...rest))(access.tenant),
          uses: { ...reader.uses, read: note(reader.uses.read) }
        })
      }
      const to = yield* memory
      const report = yield* Copy.copy(noted, to, { tenants: ["zeta", "ACME/e\u0301"] })
      assert.deepStrictEqual([report.tenants, report.verified], [2, true])
      assert.deepStrictEqual(Array.from(asked).sort(), ["ACME/é", "zeta"])
      assert.deepStrictEqual((yield* to.tenants).toSorted(), ["ACME/é", "zeta"])
      yield* equal(from, to, ["ACME/é", "zeta"])
    }))

  it.scoped("a copy keeps records that only the target has, and the target's higher use counts", () =>
    Effect.gen(function*() {
      const from = yield* memory
      const to = yield* memory
      const ours = yield* put(from, draft("ours"))
      const theirs = yield* put(to, draft("theirs"))
      yield* from.touch(ada, [ours.id])
      yield* Copy.copy(from, to)
      yield* TestClock.adjust(7)
      yield* to.touch(ada, [ours.id])
      const { verified, written } = yield* Copy.copy(from, to)
      assert.deepStrictEqual([verified, written], [true, 0])
      assert.deepStrictEqual(yield* to.uses(ada, [ours.id, theirs.id]), [{ count: 2, accessedAt: 7 }, { count: 0 }])
      assert.strictEqual((yield* get(to, ada, theirs.id))?.body, "theirs")
    }))

  it.scoped("a copy into a store without history and vectors reports both parts as omitted", () =>
    Effect.gen(function*() {
      const from = yield* lived(memory, "shelf", 8)
      const to = yield* built(stores.shelf)
      const report = yield* Copy.copy(from, to)
      assert.deepStrictEqual([report.verified, report.omitted], [true, ["history", "vectors"]])
      assert.strictEqual(report.revisions, report.records)
      for (const tenant of tenants) {
        assert.deepStrictEqual(
          (yield* rowsOf(readerOf(to), tenant)).map((row) => canonicalJson(row)),
          (yield* rowsOf(readerOf(from), tenant)).map((row) => canonicalJson(row))
        )
      }
      yield* from.update(ada, id("default long"), { body: "short" })
      yield* from.update(ada, id("default long"), { body: "shorter" })
      assert.strictEqual((yield* Copy.copy(from, to)).written, 1)
      const back = yield* memory
      assert.isTrue((yield* Copy.copy(to, back)).verified)
      assert.strictEqual((yield* get(back, ada, id("default long")))?.revision, 3)
    }))

  it.scoped("the counts passed to `onProgress` never decrease within a phase, and the last counts are those of the report", () =>
    Effect.gen(function*() {
      const from = yield* lived(memory, "progress", 8)
      const to = yield* memory
      const seen: Array<Copy.Progress> = []
      const onProgress = (progress: Copy.Progress) => Effect.sync(() => void seen.push(progress))
      const { checksums: _, differing: __, omitted: ___, tenants: ____, verified: _____, ...counts } = yield* Copy.copy(
        from,
        to,
        { batch: 5, onProgress }
      )
      const phases = Array.from(new Set(seen.map(({ phase }) => phase)))
      assert.deepStrictEqual(phases, ["copy", "verify"])
      for (const of of phases) {
        const within = seen.filter(({ phase }) => phase === of)
        assert.isAbove(within.length, 4)
        within.slice(1).forEach((progress, n) => {
          for (const count of ["records", "tombstones", "revisions", "vectors", "uses", "written"] as const) {
            assert.isAtLeast(progress[count], within[n]![count])
          }
        })
        const { phase: _, tenant: __, ...last } = within.at(-1)!
        assert.deepStrictEqual(last, counts)
      }
      seen.length = 0
      yield* Copy.copy(from, to, { onProgress })
      assert.deepStrictEqual(Array.from(new Set(seen.map(({ phase }) => phase))), ["check", "copy", "verify"])
    }))

  it.scoped("the report says `verified: false` if the target differs from the source at the end of the copy", () =>
    Effect.gen(function*() {
      const from = yield* memory
      const to = yield* memory
      yield* put(from, draft("first", { id: id("x") }))
      let isChanged = false
      const onProgress = ({ phase }: Copy.Progress) =>
        Effect.suspend(() => {
          if (phase !== "copy" || isChanged) return Effect.void
          isChanged = true
          return Effect.orDie(from.update(ada, id("x"), { body: "meanwhile" }))
        })
      const report = yield* Copy.copy(from, to, { onProgress })
      assert.deepStrictEqual([report.verified, report.differing], [false, 1])
      assert.notStrictEqual(report.checksums.from, report.checksums.to)
      assert.isTrue((yield* Copy.copy(from, to)).verified)
    }))

  it.scoped("Copy.copy refuses a federation, a read-only target and invalid options", () =>
    Effect.gen(function*() {
      const one = yield* memory
      const federated = yield* built(stores.federated)
      const readOnly = yield* Effect.flatMap(
        inMemory,
        (engine): Effect.Effect<MemoryStore.Service, unknown> =>
          MemoryStore.make(
            "closed",
            { ...engine, capabilities: { ...engine.capabilities, writable: false } } satisfies Engine
          )
      )
      yield* refuses("unsupported", Copy.copy(federated, one))
      yield* refuses("unsupported", Copy.copy(one, federated))
      yield* refuses("unsupported", Copy.copy(one, readOnly))
      yield* refuses(
        "read_only",
        readerOf(readOnly).transact("default", { ids: [], dedupeKeys: [], revisions: [] }, () => {
          throw new Error("nobody decides")
        })
      )
      for (const batch of [0, 1.5, 1_001, NaN]) yield* refuses("invalid_draft", Copy.copy(one, one, { batch }))
      yield* refuses("invalid_draft", Copy.copy(one, one, { tenants: [".."] }))
      assert.isTrue((yield* Copy.copy(readOnly, one)).verified)
    }))

  it.scoped("the report of a copy from a vault to memory, except `written`, is the same for every batch size", () =>
    Effect.gen(function*() {
      const from = yield* lived(vault, "batches", 10)
      const { written: _, ...whole } = yield* Copy.copy(from, yield* memory)
      for (const batch of [1, 2, 17, 1_000]) {
        const { written: _, ...report } = yield* Copy.copy(from, yield* memory, { batch })
        assert.deepStrictEqual(report, whole)
      }
    }))
})
