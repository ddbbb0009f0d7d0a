/** Long work on a vault yields to the event loop at the latest after a certain amount of work, even if little time has passed. */
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { sign } from "../../src/domain/Digest.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import type { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import { atOnce, type Steps } from "../../src/host/EventLoop.ts"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import { Embeddings } from "../../src/ranking/VectorIndex.ts"
import * as History from "../../src/storage/MemoryStore/Markdown/History.ts"
import * as HistoryLine from "../../src/storage/MemoryStore/Markdown/HistoryLine.ts"
import * as RevisionReader from "../../src/storage/MemoryStore/Markdown/RevisionReader.ts"
import * as SnapshotPart from "../../src/storage/MemoryStore/Markdown/SnapshotPart.ts"
import * as VaultFile from "../../src/storage/MemoryStore/Markdown/VaultFile.ts"
import * as VaultFileSystem from "../../src/storage/MemoryStore/Markdown/VaultFileSystem.ts"
import * as VaultState from "../../src/storage/MemoryStore/Markdown/VaultState.ts"
import * as Revision from "../../src/storage/Revision.ts"
import { record } from "../ranking/world.ts"
import { waitsOf } from "../waits.ts"
import { place } from "./Place.ts"

const kinds = MemoryKind.Kinds.defaultValue()
const records = 20_000
const nameOf = (n: number) => `Note ${n}`
const pathOf = (n: number) => `users/ada/${n}.md`
const made: ReadonlyArray<MemoryRecord> = Array.from({ length: records }, (_, n) => record(nameOf(n)))
const part = (record: MemoryRecord, n: number): History.Part => ({
  ...{ tenant: "default", id: record.id, record, forgotten: false, extra: {} },
  ...{ path: pathOf(n), removed: [], before: null, after: "hash" }
})

/** Makes a history file with a revision of each record in `made`, and a history that has not read the file yet. */
const written = Effect.gen(function*() {
  const root = yield* place
  const fs = yield* VaultFileSystem.make(root)
  yield* fs.makeFolder(".effect-memory")
  yield* fs.createStaging
  const history = History.make(fs)
  yield* history.renew(made.map(part))
  return { disk: fs, history: History.make(fs) }
}).pipe(Effect.provide(NodeContext.layer))

/** Runs an effect, and returns the largest growth of `count()` between two iterations of the event loop while the effect runs. */
const growth = <E, R>(self: Effect.Effect<unknown, E, R>, count: () => number) =>
  Effect.gen(function*() {
    let [last, most, isOver] = [count(), 0, false]
    const look = () => {
      most = Math.max(most, count() - last)
      last = count()
      if (!isOver) setImmediate(look)
    }
    setImmediate(look)
    yield* self
    look()
    isOver = true
    return most
  })

/** Returns the number of iterations of the event loop that an effect waits for. */
const turns = <E, R>(self: Effect.Effect<unknown, E, R>) => Effect.map(waitsOf(self), ([waits]) => waits)

/** Runs all steps of work on an array; returns the largest number of elements that one step reads, and the result. */
const perStep = <A, B>(values: ReadonlyArray<A>, run: (values: ReadonlyArray<A>) => Steps<B>) => {
  let [read, most] = [0, 0]
  const counted = new Proxy(values, {
    get: (all, key) => {
      if (typeof key === "string" && /^\d/.test(key)) read++
      return Reflect.get(all, key)
    }
  })
  const steps = run(counted)
  for (;;) {
    read = 0
    const { done, value } = steps.next()
    most = Math.max(most, read)
    if (done === true) return { most, value }
  }
}

describe("a vault that yields to the event loop during long work", () => {
  it.scopedLive("reading a history of 20,000 records never reads more than half of them without yielding to the event loop", () =>
    Effect.gen(function*() {
      const { history } = yield* written
      const most = yield* growth(history.news(true), history.records)
      assert.strictEqual(history.records(), records)
      assert.isAtMost(most, records / 2)
    }))

  it.scopedLive("rewriting the history yields, and a new reader finds each record in the rewritten file", () =>
    Effect.gen(function*() {
      const { disk: fs, history } = yield* written
      yield* history.news(true)
      assert.isAtLeast(yield* turns(history.renew(made.map(part))), 16)
      const other = History.make(fs)
      yield* other.news(true)
      assert.strictEqual(other.records(), records)
      for (const n of [0, 15, 16, records - 1]) {
        assert.deepStrictEqual(other.newest("default", made[n]!.id), history.newest("default", made[n]!.id))
        assert.isTrue(yield* other.isWhole(other.newest("default", made[n]!.id)!))
      }
    }))

  it.scopedLive("the comparison of the files with the history yields in the first scan, and does not yield in later scans", () =>
    Effect.gen(function*() {
      const { history } = yield* written
      yield* history.news(true)
      const looking = (isFirstScan: boolean) =>
        Effect.gen(function*() {
          let confirmed = 0
          const ahead = VaultFile.makeAhead(history, {
            lastReadBatch: () => history.last(),
            rowOf: (tenant, record) => Revision.rowOf(kinds, tenant, record)
          })
          const found = new Map<string, VaultFile.Found>(made.map((_, n) => [pathOf(n), undefined]))
          const isComplete = ahead.begin()({
            ...{ confirm: () => confirmed++, found, isFirstScan, known: () => undefined, unread: new Set() }
          })
          return yield* turns(isComplete)
        })
      assert.isAtLeast(yield* looking(true), 4)
      assert.strictEqual(yield* looking(false), 0)
    }))

  it.scopedLive("the search for forgotten and expired records yields", () =>
    Effect.gen(function*() {
      const { disk: fs, history } = yield* written
      yield* history.news(true)
      const state = VaultState.make(fs, history, {
        ...{ key: "key", kinds, notes: undefined, analyzer: Analyzer.make(), embeddings: () => new Embeddings() },
        ahead: () => () => Effect.succeed(true)
      })
      for (const [n, record] of made.entries()) {
        const row = state.rowOf("default", record)
        const stat = { mtime: 0, born: 0, size: 0, ino: n }
        const entry = {
          _tag: "Entry",
          tenant: "default",
          stat,
          settled: true,
          hash: "hash",
          signed: true,
          row
        } as const
        state.restore({ ...entry, path: pathOf(n), extra: {} })
      }
      history.unreadFiles.clear() // a vault does this once it has scanned the files
      const revisions = RevisionReader.make(history, state, history.last)
      assert.isAtLeast(yield* turns(revisions.forgotten("default")), 3)
      assert.isAtLeast(yield* turns(revisions.lifetimes("default")), 5)
      state.set(pathOf(3), undefined)
      const gone = yield* revisions.forgotten("default")
      assert.deepStrictEqual(gone.map(({ record }) => record.id), [made[3]!.id])
    }))
})

describe("the steps in which a snapshot is made", () => {
  const locations = made.map((record, n): HistoryLine.RevisionLocation => ({
    ...{ tenant: "default", id: record.id, batch: 1, revision: 1, forgotten: false, part: 0, parts: 1, isKept: true },
    ...{ path: pathOf(n), removed: [], before: null, after: n % 2 === 0 ? "hash" : "other", offset: n, length: 1 }
  }))
  const entries = made.map((record, n): VaultFile.Entry => ({
    ...{ _tag: "Entry", path: pathOf(n), tenant: "default", settled: true, hash: "hash", signed: true, extra: {} },
    ...{ row: { record, forgotten: false }, stat: { mtime: 0, born: 0, size: 0, ino: n } }
  }))

  it("`locate` finds the positions of a snapshot's entries in the history, in steps of at most 2,048 entries", () => {
    const { most, value } = perStep(entries, (entries) => SnapshotPart.locate(entries, locations))
    assert.isAtMost(most, 2_048)
    assert.isAtMost(perStep(locations, (locations) => SnapshotPart.locate(entries, locations)).most, 4_096)
    const [even, odd] = [0, 1].map((rest) => locations.filter((_, n) => n % 2 === rest))
    assert.deepStrictEqual(value.placed.map(({ entry }) => entry), entries)
    assert.deepStrictEqual(value.placed.flatMap(({ location }) => location ?? []), even)
    assert.deepStrictEqual(value.others, odd)
  })

  it("each step of `groupsOf` makes at most one part of 512 KiB, and the parts have all entries in order", () => {
    let [sized, most] = [0, 0]
    const steps = SnapshotPart.groupsOf(entries, () => {
      sized++
      return 1_024
    })
    for (;;) {
      sized = 0
      const { done, value } = steps.next()
      most = Math.max(most, sized)
      if (done !== true) continue
      assert.deepStrictEqual(value.flat(), entries)
      break
    }
    assert.strictEqual(most, 512)
  })

  it("`concatSteps` works in steps of up to two megabytes, `signed` in steps of one, both with the same result as in one step", () => {
    const parts = [3_000_000, 0, 1, 1_048_576, 700_000].map((length, n) =>
      new Uint8Array(length).map((_, at) => at * (n + 3))
    )
    const steps = HistoryLine.concatSteps(parts, 5)
    let work = 0
    for (let next = steps.next();; next = steps.next()) {
      if (next.done === true) {
        assert.deepStrictEqual(Buffer.from(next.value), Buffer.concat([new Uint8Array(5), ...parts]))
        break
      }
      work = Math.max(work, next.value)
    }
    assert.isAtMost(work, 2 * 1_048_576 >> 6)
    const all = HistoryLine.concat(parts)
    const signing = Array.from(SnapshotPart.signed("key", all))
    assert.lengthOf(signing, Math.ceil(all.length / 1_048_576))
    assert.strictEqual(atOnce(SnapshotPart.signed("key", all)), sign("key", all))
  })
})
