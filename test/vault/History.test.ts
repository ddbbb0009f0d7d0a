/** Tests of a vault's history file: what is lost if it is damaged, and what a compaction, a crash and a late writer leave in it. */
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"
import type { Service } from "../../src/storage/MemoryStore.ts"
import * as History from "../../src/storage/MemoryStore/Markdown/History.ts"
import * as VaultFileSystem from "../../src/storage/MemoryStore/Markdown/VaultFileSystem.ts"
import { ada, draft, get, id, put } from "../../src/testing/Sample.ts"
import { record } from "../ranking/world.ts"
import { calling } from "./Calls.ts"
import { opened, place } from "./Place.ts"

const names = ["a", "b", "c"]
const file = (root: string) => path.join(root, ".effect-memory/history")

/** Makes a closed vault with three records of two revisions each, written one by one and as a batch. */
const filled = Effect.gen(function*() {
  const root = yield* place
  yield* Effect.scoped(Effect.gen(function*() {
    const { store } = yield* opened(root)
    yield* store.put(ada, names.map((name) => draft(`${name} 1`, { id: id(name), summary: name })))
    for (const name of names) yield* store.update(ada, id(name), { body: `${name} 2` })
  }))
  return root
})
const bodies = (store: Service) =>
  Effect.forEach(names, (name) => Effect.map(get(store, ada, id(name)), (now) => now?.body))
const revisions = (store: Service) =>
  Effect.map(Effect.forEach(names, (name) => store.history(ada, id(name))), (all) => all.flat().length)
const law = (title: string, check: (root: string) => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.scopedLive(title, () => Effect.flatMap(filled, check))

/** Opens the history of a folder as a new process does. */
const historyOf = (root: string) =>
  Effect.gen(function*() {
    const fs = yield* VaultFileSystem.make(root)
    yield* fs.createStaging
    return History.make(fs)
  })
const part = (revision: number, body = "x", name = "a"): History.Part => ({
  ...{ tenant: "default", id: id(name), record: record(name, { revision, body }), forgotten: false, extra: {} },
  ...{ path: `users/ada/${name}.md`, removed: [], before: null, after: "hash" }
})
/** Returns the revision numbers of these records, as a process finds them in the history when it opens the vault. */
const found = (root: string, ...names: ReadonlyArray<string>) =>
  Effect.map(
    Effect.tap(historyOf(root), (history) => history.news(true)),
    (history) => names.map((name) => history.locations("default", id(name)).map(({ revision }) => revision))
  )

describe("the history of a vault", () => {
  it.scopedLive("`erase` fails and changes nothing if another process has rewritten the history since the lines' locations were read", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const [here, there] = [yield* historyOf(root), yield* historyOf(root)]
      yield* here.news(true)
      yield* there.news(true)
      const [since, lines] = [here.generation(), here.locations("default", id("b"))]
      yield* there.renew([part(1, "kept"), part(1, "kept", "b")])
      yield* here.news(true)
      const before = fs.readFileSync(file(root), "utf8")
      assert.isTrue(Either.isLeft(yield* Effect.either(here.erase(lines, since))))
      assert.strictEqual(fs.readFileSync(file(root), "utf8"), before)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("a new record of another process is never listed as forgotten, even before its file has been read", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const { store, vault } = yield* opened(root)
      const other = yield* opened(root)
      yield* store.forget(ada, [id("c")])
      yield* store.put(ada, [draft("new", { summary: "new" })])
      const history = path.join(root, ".effect-memory/history")
      fs.copyFileSync(history, `${history}.copy`)
      fs.renameSync(`${history}.copy`, history) // gives the file another inode, as a compaction does
      const forgotten = (of: Service) =>
        Effect.map(of.list(ada, { forgotten: true }), ({ items }) => items.map(({ summary }) => summary))
      assert.notInclude(yield* forgotten(other.store), "new")
      yield* other.vault.refresh
      assert.deepStrictEqual(yield* forgotten(other.store), ["c"])
      yield* vault.refresh
      assert.deepStrictEqual(yield* forgotten(store), ["c"])
    }))

  law(
    "one flipped bit in any line of the history loses at most one revision and no record",
    (root) =>
      Effect.gen(function*() {
        const whole = fs.readFileSync(file(root))
        const ends = Array.from(whole.entries()).flatMap(([at, byte]) => byte === 10 ? [at] : [])
        assert.isAbove(ends.length, 7)
        for (const end of ends) {
          const turned = Buffer.from(whole)
          turned[end - 3]! ^= 1
          fs.writeFileSync(file(root), turned)
          yield* Effect.scoped(Effect.gen(function*() {
            const { store, vault } = yield* opened(root)
            assert.deepStrictEqual(yield* bodies(store), ["a 2", "b 2", "c 2"])
            assert.isAtLeast(yield* revisions(store), 5, `byte ${end - 3}`)
            assert.deepStrictEqual(yield* vault.issues, [])
          }))
        }
      })
  )

  law(
    "a deleted history costs an open vault only earlier revisions, and records can still be changed",
    (root) =>
      Effect.gen(function*() {
        yield* Effect.scoped(Effect.gen(function*() {
          const { store } = yield* opened(root)
          fs.rmSync(file(root))
          yield* store.update(ada, id("a"), { body: "a 3" })
          assert.deepStrictEqual(yield* bodies(store), ["a 3", "b 2", "c 2"])
        }))
        const { store } = yield* opened(root)
        assert.deepStrictEqual(yield* bodies(store), ["a 3", "b 2", "c 2"])
        assert.lengthOf(yield* store.history(ada, id("a")), 2)
      })
  )

  law(
    "a history that ends in half a line after a crash keeps its complete lines, and later writes succeed",
    (root) =>
      Effect.gen(function*() {
        const line = fs.readFileSync(file(root), "utf8").split("\n")[2]!
        fs.appendFileSync(file(root), line.slice(0, 200))
        yield* Effect.scoped(Effect.gen(function*() {
          const { store } = yield* opened(root)
          yield* store.update(ada, id("b"), { body: "b 3" })
          yield* put(store, draft("d", { id: id("d") }))
        }))
        const { store } = yield* opened(root)
        assert.deepStrictEqual(yield* bodies(store), ["a 2", "b 3", "c 2"])
        assert.strictEqual(yield* revisions(store), 7)
      })
  )

  it.scopedLive("a forgotten record stays listed as forgotten if a compaction removes its damaged history line", () =>
    Effect.gen(function*() {
      const root = yield* place
      yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        yield* put(store, draft("gone 1", { id: id("gone") }))
        yield* store.forget(ada, [id("gone")])
        for (let n = 0; n < 20; n++) yield* put(store, draft(`purged ${n}`.padEnd(60_000, " x"), { id: id("purged") }))
        yield* store.forget(ada, [id("purged")], { purge: true })
      }))
      const { store } = yield* opened(root)
      const bytes = fs.readFileSync(file(root))
      bytes[bytes.lastIndexOf("\"forgotten\"")]! ^= 1
      fs.writeFileSync(file(root), bytes)
      yield* put(store, draft("new"))
      assert.isBelow(fs.statSync(file(root)).size, 60_000)
      const { items } = yield* store.list(ada, { forgotten: true })
      assert.deepStrictEqual(items.map(({ body }) => body), ["gone 1"])
    }))

  it.scopedLive("a record is listed as forgotten even if its file is removed before this process has scanned the file", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const { store, vault } = yield* opened(root)
      yield* Effect.scoped(
        Effect.flatMap(opened(root), (other) => put(other.store, draft("short", { id: id("short") })))
      )
      const [name] = fs.readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) =>
        name.endsWith(".md") && fs.readFileSync(path.join(root, name), "utf8").includes("short")
      )
      fs.rmSync(path.join(root, name!))
      yield* vault.refresh
      yield* vault.refresh
      const { items } = yield* store.list(ada, { forgotten: true })
      assert.deepStrictEqual(items.map(({ body }) => body), ["short"])
    }))

  it.scoped("an append fails with `conflict` if the writer has not read the history since a compaction", () =>
    Effect.gen(function*() {
      const root = yield* place
      fs.mkdirSync(path.join(root, ".effect-memory"))
      const [ours, late] = [yield* historyOf(root), yield* historyOf(root)]
      yield* ours.renew([])
      yield* ours.append([part(1)])
      yield* late.news(true)
      for (let revision = 2; revision < 50; revision++) yield* ours.append([part(revision, "long ".repeat(10_000))])
      const before = ours.pending().at(-1)!.number
      yield* ours.checkpoint
      const size = fs.statSync(file(root)).size
      yield* ours.compact
      assert.isBelow(fs.statSync(file(root)).size, size / 2)
      assert.lengthOf(ours.locations("default", id("a")), 20)
      const refused = yield* Effect.flip(late.append([part(2)]))
      assert.strictEqual(refused.reason, "conflict")
      yield* ours.news(true)
      const { number } = yield* ours.append([part(50)])
      assert.isAbove(number, before)
      const again = yield* historyOf(root)
      yield* again.news(true)
      assert.deepStrictEqual(
        again.locations("default", id("a")).map(({ revision }) => revision),
        Array.from({ length: 20 }, (_, n) => 50 - n)
      )
      assert.deepStrictEqual(again.pending().map((batch) => batch.number), [number])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("a compaction fails with `conflict` if another writer appends meanwhile, and the next compaction keeps the appended line", () =>
    Effect.gen(function*() {
      const root = yield* place
      fs.mkdirSync(path.join(root, ".effect-memory"))
      const late = yield* historyOf(root).pipe(Effect.provide(NodeContext.layer))
      let isDue = false
      const platform = calling((method, at) =>
        Effect.suspend(() => {
          if (!isDue || method !== "write" || !at.includes("/turns/")) return Effect.void
          isDue = false
          return Effect.orDie(Effect.zipRight(late.news(true), late.append([part(1, "late", "b")])))
        })
      )
      const ours = yield* historyOf(root).pipe(Effect.provide(platform))
      yield* ours.renew([])
      for (let revision = 1; revision < 50; revision++) yield* ours.append([part(revision, "long ".repeat(10_000))])
      yield* ours.checkpoint
      isDue = true
      assert.strictEqual((yield* Effect.flip(ours.compact)).reason, "conflict")
      assert.isFalse(isDue)
      yield* ours.news(true)
      yield* ours.checkpoint
      const { size } = fs.statSync(file(root))
      yield* ours.compact
      assert.isBelow(fs.statSync(file(root)).size, size / 2)
      assert.deepStrictEqual(yield* found(root, "b").pipe(Effect.provide(NodeContext.layer)), [[1]])
    }))

  it.scopedLive("`isReplaced` is true or `generation()` changes whenever a lookup misses a record of a half-read history", () =>
    Effect.gen(function*() {
      const root = yield* place
      const [ours, theirs] = [yield* historyOf(root), yield* historyOf(root)]
      const all = [...Array.from({ length: 600 }, (_, n) => part(1, "word ".repeat(1_000), `k${n}`)), part(1)]
      yield* ours.renew(all)
      yield* theirs.news(false)
      yield* ours.renew(all)
      const began = theirs.generation()
      const reading = yield* Effect.fork(theirs.news(false))
      let halves = 0
      while (Option.isNone(yield* Fiber.poll(reading))) {
        const generation = theirs.generation()
        const isThere = theirs.newest("default", id("a")) !== undefined
        const isReplaced = yield* theirs.isReplaced
        if (!isThere) {
          halves++
          assert.isTrue(isReplaced || theirs.generation() !== generation, "whoever looked asks again")
        }
        yield* Effect.sleep(0)
      }
      assert.isAbove(halves, 0)
      assert.isAbove(theirs.generation(), began)
      assert.isFalse(yield* theirs.isReplaced)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a rewritten history is read again even if its file has the same inode number as before", () =>
    Effect.gen(function*() {
      const root = yield* place
      fs.mkdirSync(path.join(root, ".effect-memory"))
      const ours = yield* historyOf(root)
      yield* ours.renew([part(1), part(1, "x", "b")])
      const before = fs.readFileSync(file(root))
      yield* ours.renew([part(1, "y", "c"), part(2, "y"), part(1, "y", "d")])
      yield* ours.append([part(3, "z"), part(1, "z", "e"), part(2, "z", "c")])
      const after = fs.readFileSync(file(root))
      fs.writeFileSync(file(root), before)
      const { ino } = fs.statSync(file(root))
      const stale = yield* historyOf(root)
      yield* stale.news(false)
      fs.writeFileSync(file(root), after)
      assert.strictEqual(fs.statSync(file(root)).ino, ino)
      const generation = stale.generation()
      yield* stale.news(false)
      assert.isAbove(stale.generation(), generation)
      const revisions = (name: string) => stale.locations("default", id(name)).map(({ revision }) => revision)
      assert.deepStrictEqual(["a", "b", "c", "d", "e"].map(revisions), [[3, 2], [], [2, 1], [1], [1]])
    }).pipe(Effect.provide(NodeContext.layer)))

  law(
    "a forgotten record is still listed if its line in the history is damaged after a snapshot",
    (root) =>
      Effect.gen(function*() {
        yield* Effect.scoped(Effect.gen(function*() {
          const { store } = yield* opened(root)
          yield* store.forget(ada, [id("c")])
          yield* store.put(ada, Array.from({ length: 40 }, (_, n) => draft(`more ${n}`)))
        })) // enough revisions for a snapshot to be saved
        const whole = fs.readFileSync(file(root))
        const turned = Buffer.from(whole)
        turned[whole.lastIndexOf("c 2")]! ^= 1 // damages the line of the tombstone
        fs.writeFileSync(file(root), turned)
        const { store, vault } = yield* opened(root)
        yield* store.list(ada, { forgotten: true })
        yield* vault.refresh
        assert.deepStrictEqual((yield* store.list(ada, { forgotten: true })).items.map(({ body }) => body), ["c 2"])
        yield* store.apply(ada, [{ _tag: "Restore", id: id("c"), revision: 1 }])
        assert.deepStrictEqual(yield* bodies(store), ["a 2", "b 2", "c 1"])
      })
  )

  law(
    "revisions written after a history was restored from a backup are found, even with a snapshot from before the restore",
    (root) =>
      Effect.gen(function*() {
        const snapshot = path.join(root, ".effect-memory/snapshot")
        const early = fs.readFileSync(file(root))
        const ids = (name: string) => Array.from({ length: 40 }, (_, n) => id(`${name}${n}`))
        const goesOn = (name: string) =>
          Effect.scoped(Effect.gen(function*() {
            const { store } = yield* opened(root)
            yield* store.put(ada, ids(name).map((id, n) => draft(`${name} ${n}`, { id })))
            for (const id of ids(name)) yield* store.update(ada, id, { importance: 0.9 })
          }))
        yield* goesOn("more")
        const late = fs.readFileSync(snapshot)
        fs.writeFileSync(file(root), early)
        yield* goesOn("then")
        fs.writeFileSync(snapshot, late)
        const { store } = yield* opened(root)
        for (const [n, id] of ids("more").entries()) {
          for (const { body } of yield* store.history(ada, id)) assert.strictEqual(body, `more ${n}`)
        }
        for (const id of ids("then")) assert.lengthOf(yield* store.history(ada, id), 2)
      })
  )
  it.scoped("a batch that was rolled back stays absent from the history after later batches are appended", () =>
    Effect.gen(function*() {
      const root = yield* place
      fs.mkdirSync(path.join(root, ".effect-memory"))
      const ours = yield* historyOf(root)
      yield* ours.renew([])
      yield* ours.append([part(1)])
      yield* ours.undo(yield* ours.append([part(2), part(1, "x", "b")]))
      yield* ours.append([part(2, "y")])
      yield* ours.checkpoint
      assert.deepStrictEqual(yield* found(root, "a", "b"), [[2, 1], []])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a batch left incomplete by a crash stays ignored after later batches are appended to the history", () =>
    Effect.gen(function*() {
      const root = yield* place
      fs.mkdirSync(path.join(root, ".effect-memory"))
      const dead = yield* historyOf(root)
      yield* dead.renew([])
      yield* dead.append([part(1)])
      const whole = fs.statSync(file(root)).size
      yield* dead.append([part(1, "x", "b"), part(2), part(1, "x", "c")])
      const lines = fs.readFileSync(file(root), "utf8").slice(whole).split("\n")
      for (const length of [lines[0]!.length + 1, lines[0]!.length + 100]) {
        fs.truncateSync(file(root), whole + length)
        const next = yield* historyOf(root)
        yield* next.news(true)
        yield* next.append([part(2, "y")])
        yield* next.append([part(3, "y")])
        yield* next.checkpoint
        assert.deepStrictEqual(yield* found(root, "a", "b", "c"), [[3, 2, 1], [], []])
        fs.truncateSync(file(root), whole)
        fs.appendFileSync(file(root), lines.join("\n"))
      }
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a stalled writer fails with `conflict` if another writer has appended a batch meanwhile", () =>
    Effect.gen(function*() {
      const root = yield* place
      fs.mkdirSync(path.join(root, ".effect-memory"))
      const [sleeper, other] = [yield* historyOf(root), yield* historyOf(root)]
      yield* sleeper.renew([])
      yield* other.news(true)
      yield* other.append([part(1)])
      const late = sleeper.append([part(1, "x", "b")]).pipe(Effect.withSpan("as a store calls it"))
      assert.strictEqual((yield* Effect.flip(late)).reason, "conflict")
      yield* sleeper.news(true)
      yield* sleeper.append([part(1, "x", "c")])
      assert.lengthOf(sleeper.locations("default", id("a")), 1)
      assert.deepStrictEqual(yield* found(root, "a", "b", "c"), [[1], [], [1]])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a read at a location returns nothing if the rewritten history has another record's line there", () =>
    Effect.gen(function*() {
      const root = yield* place
      fs.mkdirSync(path.join(root, ".effect-memory"))
      const [ours, reader] = [yield* historyOf(root), yield* historyOf(root)]
      const [a, b] = [part(1, "of a", "a"), part(1, "of b", "b")]
      yield* ours.renew([a, b])
      yield* reader.news(false)
      const [stale] = reader.locations("default", id("a"))
      yield* ours.renew([b, a]) // the lines have equal lengths
      assert.isTrue(yield* reader.isReplaced)
      assert.isTrue(Option.isNone(yield* reader.read(stale!)))
      yield* reader.news(false)
      const [now] = reader.locations("default", id("a"))
      assert.strictEqual(Option.getOrThrow(yield* reader.read(now!)).record.body, "of a")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("a put fsyncs the history, then replaces the record's file; closing the vault fsyncs the file, then writes the history", () =>
    Effect.gen(function*() {
      const root = yield* place
      const calls: Array<string> = []
      const platform = calling((method, at) =>
        Effect.sync(() => void calls.push(`${method} ${path.relative(root, at)}`))
      )
      const of = (start: number, ...wanted: ReadonlyArray<RegExp>) => {
        const found = calls.slice(start).filter((call) => wanted.some((one) => one.test(call)))
        return found.map((call) => call.replace(/turns\/.*/, "turns"))
      }
      const history = ".effect-memory/history"
      yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root, {}, platform)
        for (const version of [1, 2]) {
          const start = calls.length
          yield* put(store, draft(`a ${version}`, { id: id("a") }))
          assert.deepStrictEqual(of(start, /^write .*history$/, /^fsync .*history$/, /^rename .*turns/), [
            `write ${history}`,
            `fsync ${history}`,
            "rename .effect-memory/turns",
            ...(version === 1 ? ["rename .effect-memory/turns"] : []) // users/ada is missing at the first rename, which is repeated
          ])
        }
        calls.length = 0
      }))
      const file = path.relative(root, path.join(root, "users/ada", `${id("a")}.md`))
      const landing = of(0, /^write .*history$/, /^fsync /)
      const says = landing.indexOf(`write ${history}`)
      assert.isAbove(says, -1)
      for (const one of [file, "users/ada"]) {
        assert.include(landing.slice(0, says), `fsync ${one}`)
      }
    }))
})
