/** The times at which the snapshot of a vault is saved, and its size. */
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import * as fs from "node:fs"
import * as path from "node:path"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import { Internal } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import type { Service } from "../../src/storage/MemoryStore.ts"
import * as Snapshot from "../../src/storage/MemoryStore/Markdown/Snapshot.ts"
import * as VaultFileSystem from "../../src/storage/MemoryStore/Markdown/VaultFileSystem.ts"
import { ada, draft, listed } from "../../src/testing/Sample.ts"
import { files, gate, opened, place, platformWith } from "./Place.ts"

const snapshot = (root: string) => path.join(root, ".effect-memory/snapshot")
const size = (root: string) => fs.existsSync(snapshot(root)) ? fs.statSync(snapshot(root)).size : 0

/** Waits, one iteration of the event loop at a time, until the condition holds. The test's timeout ends it otherwise. */
const until = (holds: () => boolean) =>
  Effect.repeat(Effect.promise(() => new Promise((done) => setImmediate(done))), { until: holds })

const words = fs.readFileSync(path.join(import.meta.dirname, "../../README.md"), "utf8").split(/\s+/)
/** Makes random prose from words of the README. Such texts resemble each other about as much as the notes of one author do. */
const prose = (count: number) =>
  Effect.gen(function*() {
    const parts: Array<string> = []
    for (let left = count; left > 0; left -= 12) {
      const at = yield* Random.nextIntBetween(0, words.length - 12)
      parts.push(words.slice(at, at + 12).join(" "))
    }
    return parts.join(". ")
  })

const notes = (count: number, length: number) =>
  Effect.tap(place, (root) =>
    Effect.gen(function*() {
      const then = Date.now() / 1_000 - 3_600
      for (let n = 0; n < count; n++) {
        const file = path.join(root, `Note ${n}.md`)
        fs.writeFileSync(file, `---\ntags: [garden]\n---\n# Note ${n}\n\n${yield* prose(length)}\n`)
        fs.utimesSync(file, then, then)
      }
    }).pipe(Effect.withRandom(Random.make("notes"))))

/** Opens a vault, returns the ids of its records, and closes it. */
const idsIn = (root: string) =>
  Effect.scoped(Effect.map(
    Effect.flatMap(opened(root), ({ store }) => store.list(ada, {})),
    ({ items }) => items.map(({ id }) => id).sort()
  ))

/** Reads the bodies of all records in the snapshot. */
const bodiesIn = (root: string) =>
  Effect.gen(function*() {
    const manifest = JSON.parse(fs.readFileSync(path.join(root, ".effect-memory/vault.json"), "utf8"))
    const vaultFs = yield* VaultFileSystem.make(root)
    const { entries } = yield* Snapshot.readSnapshot(vaultFs, { ...manifest, kinds: yield* MemoryKind.registered })
    return new Set(entries.map(({ row: { record } }) => record.body))
  })

describe("the snapshot of a vault", () => {
  it.scoped("a vault saves its snapshot soon after opening, and again only after its index is built or many records change", () =>
    Effect.gen(function*() {
      const root = yield* notes(30, 50)
      const { store } = yield* opened(root)
      assert.strictEqual(size(root), 0)
      yield* TestClock.adjust("10 seconds")
      yield* until(() => size(root) > 0)
      const first = size(root)
      yield* store.search(ada, { text: "garden" })
      yield* TestClock.adjust("2 minutes")
      yield* until(() => size(root) > first)
      const second = fs.statSync(snapshot(root)).ino
      for (let n = 0; n < 10; n++) {
        yield* store.search(ada, { text: "garden" })
        yield* TestClock.adjust("2 minutes")
      }
      assert.strictEqual(fs.statSync(snapshot(root)).ino, second, "nothing changed, so nothing is saved")
      yield* store.put(ada, Array.from({ length: 40 }, (_, n) => draft(`later ${n}`)))
      yield* TestClock.adjust("2 minutes")
      yield* until(() => fs.statSync(snapshot(root)).ino !== second)
    }))

  it.scoped("the snapshot is saved at most once a minute while the vault is open, however much changes", () =>
    Effect.gen(function*() {
      const root = yield* notes(30, 10)
      const { store } = yield* opened(root)
      yield* TestClock.adjust("10 seconds")
      yield* until(() => size(root) > 0)
      const first = fs.statSync(snapshot(root)).ino
      for (let n = 0; n < 6; n++) {
        yield* store.put(ada, Array.from({ length: 40 }, (_, k) => draft(`note ${n} ${k}`)))
        yield* TestClock.adjust("9 seconds")
      }
      assert.strictEqual(fs.statSync(snapshot(root)).ino, first)
    }))

  it.scopedLive("a note renamed while the vault is closed keeps its id, even if a purge has removed the vault's snapshot", () =>
    Effect.gen(function*() {
      const root = yield* notes(3, 50)
      const ids = yield* idsIn(root)
      yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        const [secret] = yield* store.put(ada, [draft("secret")])
        yield* store.forget(ada, [secret!.record.id], { purge: true })
      }))
      fs.renameSync(path.join(root, "Note 1.md"), path.join(root, "Renamed.md"))
      assert.deepStrictEqual(yield* idsIn(root), ids)
    }))

  it.scopedLive("a note keeps its id if one process purges a record, another closes the vault, and then the note is renamed", () =>
    Effect.gen(function*() {
      const root = yield* notes(3, 50)
      const ids = yield* idsIn(root)
      const dying = yield* opened(root) // saves no snapshot: it is open for less than ten seconds, and not closed before the test ends
      yield* Effect.scoped(Effect.gen(function*() {
        yield* opened(root)
        const [secret] = yield* dying.store.put(ada, [draft("secret")])
        yield* dying.store.forget(ada, [secret!.record.id], { purge: true })
        assert.strictEqual(size(root), 0)
      }))
      fs.renameSync(path.join(root, "Note 1.md"), path.join(root, "Renamed.md"))
      assert.deepStrictEqual(yield* idsIn(root), ids)
    }))

  it.scoped("a closing vault saves its snapshot, even if another process purges a record of the scope `Internal` at each attempt", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store } = yield* opened(root)
      yield* store.put(ada, Array.from({ length: 30 }, (_, n) => draft(`note ${n}`)))
      const purge = Effect.gen(function*() {
        const [row] = yield* store.put(Viewer.system(), [draft("row", { scope: Internal })])
        yield* store.forget(Viewer.system(), [row!.record.id], { purge: true })
      })
      const scope = yield* Scope.make()
      const platform = platformWith((fs) => ({
        rename: (from, to) =>
          to === snapshot(root) ? Effect.zipRight(Effect.orDie(purge), fs.rename(from, to)) : fs.rename(from, to)
      }))
      yield* Scope.extend(opened(root, {}, platform), scope)
      yield* Scope.close(scope, Exit.void)
      assert.isAbove(size(root), 0)
    }))

  it.scoped("the vault keeps no snapshot with a purged text, even if another process was saving a snapshot during the purge", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store } = yield* opened(root)
      const [secret] = yield* store.put(ada, Array.from({ length: 30 }, (_, n) => draft(`note ${n}`)))
      const saving = yield* gate
      const scope = yield* Scope.make()
      yield* Scope.extend(
        opened(root, {}, platformWith((fs) => ({ rename: (from, to) => saving.hold(to, fs.rename(from, to)) }))),
        scope
      )
      saving.arm((file) => file === snapshot(root))
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* saving.reached
      yield* store.forget(ada, [secret!.record.id], { purge: true })
      yield* saving.release
      yield* Fiber.join(closing)
      const saved = yield* bodiesIn(root)
      assert.strictEqual(saved.size, 29)
      assert.isFalse(saved.has("note 0"))
    }).pipe(Effect.provide(NodeContext.layer)))

  for (const [when, isCompacted] of [["", false], [", even after a compaction of the history", true]] as const) {
    it.scoped(`a snapshot with a purged text, left by a process that died, is replaced at the next opening${when}`, () =>
      Effect.gen(function*() {
        // a vault reads a file again if it is younger than a few seconds, and saves a snapshot if it has read many files again
        yield* TestClock.setTime(Date.now() + 3_600_000)
        const root = yield* place
        const copy = path.join(yield* place, "snapshot")
        const long = { id: MemoryId.stableId("long") }
        const within = <A, E>(use: (store: Service) => Effect.Effect<A, E>) =>
          Effect.scoped(Effect.flatMap(opened(root), ({ store }) => use(store)))
        const [secret] = yield* within((store) =>
          store.put(ada, Array.from({ length: 30 }, (_, n) => draft(`note ${n}`)))
        )
        yield* within((store) => store.list(ada, {}))
        fs.copyFileSync(snapshot(root), copy)
        yield* within((store) => store.forget(ada, [secret!.record.id], { purge: true }))
        if (isCompacted) {
          const { ino } = fs.statSync(path.join(root, ".effect-memory/history"))
          for (let n = 0; n < 19; n++) {
            yield* within((store) => store.put(ada, [draft(`long ${n} `.padEnd(60_000, "x"), long)]))
          }
          yield* within((store) => store.forget(ada, [long.id], { purge: true }))
          yield* within((store) => store.put(ada, [draft("last")]))
          assert.notStrictEqual(fs.statSync(path.join(root, ".effect-memory/history")).ino, ino)
        }
        fs.copyFileSync(copy, snapshot(root))
        assert.isTrue((yield* bodiesIn(root)).has("note 0"))
        yield* within((store) => store.list(ada, {}))
        assert.strictEqual((yield* bodiesIn(root)).size, isCompacted ? 30 : 29)
        assert.isFalse((yield* bodiesIn(root)).has("note 0"))
      }).pipe(Effect.provide(NodeContext.layer)))
  }

  it.scopedLive("a snapshot with the search index has at most half the notes' size, and a reopened vault answers the same", () =>
    Effect.gen(function*() {
      const root = yield* notes(200, 800)
      const ask = Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        const { hits } = yield* store.search(ada, { text: "store of records", limit: 50 })
        return [yield* listed(store, ada, { limit: 300 }), hits.map(({ record, score }) => [record.id, score])]
      }))
      const before = yield* ask
      const bytes = Object.values(files(root)).reduce((sum, text) => sum + Buffer.byteLength(text), 0)
      assert.isAtMost(size(root), bytes / 2)
      const kept = fs.readFileSync(snapshot(root))
      assert.deepStrictEqual(yield* ask, before)
      assert.isTrue(kept.equals(fs.readFileSync(snapshot(root))), "it was used")
    }))
})
