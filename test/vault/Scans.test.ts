import { SystemError } from "@effect/platform/Error"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as fs from "node:fs"
import type { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import type { Service } from "../../src/storage/MemoryStore.ts"
import { pathOf } from "../../src/storage/MemoryStore/Markdown/Layout.ts"
import { listen } from "../../src/testing/Listener.ts"
import { ada, draft, fact, id, put } from "../../src/testing/Sample.ts"
import { gate, opened, place, platformWith } from "./Place.ts"

/** Makes a vault with two records that `both` updates in one batch, forty long records, and a store whose scans can be held back. */
const twins = Effect.gen(function*() {
  const root = yield* place
  const [file, folder, read, move] = [yield* gate, yield* gate, yield* gate, yield* gate]
  const [unreadable, unwritable] = [new Set<string>(), new Set<string>()]
  const unread = (path: string) =>
    new SystemError({ reason: "Unknown", module: "FileSystem", method: "readFile", pathOrDescriptor: path })
  const reader = yield* opened(
    root,
    {},
    platformWith((fs) => ({
      stat: (path) => file.hold(path, fs.stat(path)),
      readFile: (path) => unreadable.has(path) ? unread(path) : file.hold(path, fs.readFile(path)),
      open: (path, options) => read.hold(path, fs.open(path, options)),
      readDirectory: (path) => folder.hold(path, fs.readDirectory(path)),
      rename: (from, to) => move.hold(to, unwritable.has(to) ? unread(to) : fs.rename(from, to))
    }))
  )
  /** Opens the vault as another process does, runs `write`, and closes the vault, so that all files are written when it ends. */
  const other = <A, E>(write: (store: Service) => Effect.Effect<A, E>) =>
    Effect.scoped(Effect.flatMap(opened(root), ({ store }) => write(store)))
  const [left, right] = yield* other((store) =>
    Effect.forEach(["left", "right"], (name) => put(store, draft(name, { id: id(name) })))
  )
  const both = (word: string) => (store: Service) =>
    store.apply(ada, [left!, right!].map(({ id }) => ({ _tag: "Update", id, patch: { body: word } })))
  yield* other(both("one"))
  const long = yield* other((store) =>
    Effect.forEach(Array.from({ length: 40 }), (_, n) => put(store, draft(`${n} ${"long ".repeat(10_000)}`)))
  )
  /** Lets another process purge the long records and put one more record. This compacts the history, that is, rewrites its file. */
  const compacted = Effect.gen(function*() {
    const { ino } = fs.statSync(`${root}/.effect-memory/history`)
    yield* other((store) => store.forget(ada, long.map(({ id }) => id), { purge: true }))
    yield* other((store) => put(store, fact("Milk")))
    assert.notStrictEqual(fs.statSync(`${root}/.effect-memory/history`).ino, ino)
  })
  yield* reader.vault.refresh
  const fileOf = ({ id, scope }: MemoryRecord) => pathOf("default", scope, id)
  const lastFile = `${root}/${fileOf(right!)}`
  /** Writes, and then puts the file of `right` back: as if the writer had died before it wrote or removed this file. */
  const killedAfter = <A, E>(write: (store: Service) => Effect.Effect<A, E>) =>
    Effect.gen(function*() {
      const before = fs.readFileSync(lastFile)
      yield* write((yield* opened(root)).store)
      fs.writeFileSync(lastFile, before)
    })
  return {
    ...{
      both,
      compacted,
      file,
      fileOf,
      folder,
      killedAfter,
      lastFile,
      move,
      other,
      read,
      reader,
      root,
      unreadable,
      unwritable
    },
    right: right!,
    seen: Effect.map(
      reader.store.list(ada, { limit: 100 }),
      ({ items }) => items.flatMap(({ body }) => body.includes("long") ? [] : [body])
    )
  }
})

describe("a scan in progress in a vault", () => {
  it.scopedLive("a scan reads another process's batch as a whole, even if the scanning process updates a record of the batch during the scan", () =>
    Effect.gen(function*() {
      const { both, file, fileOf, other, reader, right, seen } = yield* twins
      const tea = yield* put(reader.store, fact("Tea"))
      file.arm((path) => path.endsWith(fileOf(tea)))
      const look = yield* Effect.fork(reader.vault.refresh)
      yield* file.reached
      yield* reader.store.update(ada, right.id, { body: "one, mine" })
      yield* other(both("two"))
      yield* file.release
      yield* Fiber.join(look)
      assert.deepStrictEqual(yield* seen, ["two", "two", "Tea"])
    }))

  it.scopedLive("a scan reads another process's batch as a whole, even if the history is compacted meanwhile", () =>
    Effect.gen(function*() {
      const { both, compacted, file, fileOf, folder, other, reader, right, seen } = yield* twins
      file.arm((path) => path.endsWith(fileOf(right)))
      const first = yield* Effect.fork(reader.vault.refresh)
      yield* file.reached
      yield* other(both("two"))
      yield* compacted
      folder.arm(() => true)
      const second = yield* Effect.fork(reader.vault.refresh)
      yield* folder.reached
      yield* file.release
      yield* Fiber.join(first)
      assert.deepStrictEqual(yield* seen, ["Milk", "two", "two"])
      yield* folder.release
      yield* Fiber.join(second)
      assert.deepStrictEqual(yield* seen, ["Milk", "two", "two"])
    }))

  it.scopedLive("a scan reads another process's batch as a whole, even if one of the batch's records is new since the scan began", () =>
    Effect.gen(function*() {
      const { file, fileOf, other, reader, right, seen } = yield* twins
      file.arm((path) => path.endsWith(fileOf(right)))
      const look = yield* Effect.fork(reader.vault.refresh)
      yield* file.reached
      const fresh = yield* other((store) => put(store, fact("Fresh")))
      yield* other((store) =>
        store.apply(ada, [fresh, right].map(({ id }) => ({ _tag: "Update", id, patch: { body: "two" } })))
      )
      yield* file.release
      yield* Fiber.join(look)
      assert.deepStrictEqual(yield* seen, ["two", "two", "one"])
    }))

  it.scopedLive("an unfinished batch of a dead writer is read as a whole, even if two scans notice the batch at once", () =>
    Effect.gen(function*() {
      const { both, compacted, folder, killedAfter, read, reader, root, seen } = yield* twins
      fs.writeFileSync(`${root}/note.md`, "a note")
      yield* reader.vault.refresh
      yield* compacted
      yield* killedAfter(both("two"))
      fs.rmSync(`${root}/note.md`) // a scan that misses a note lists the folder once more

      let lists = 0
      folder.arm((path) => path === root && ++lists === 2)
      const first = yield* Effect.fork(reader.vault.refresh)
      yield* folder.reached
      read.arm((path) => path.endsWith("history"))
      const second = yield* Effect.fork(reader.vault.refresh)
      yield* read.reached
      yield* folder.release
      yield* Fiber.join(first)
      yield* read.release
      yield* Fiber.join(second)
      yield* reader.vault.refresh
      assert.deepStrictEqual(yield* seen, ["two", "two", "Milk"])
    }))

  it.scopedLive("a scan while the same process writes a batch neither shows nor publishes any part of that batch", () =>
    Effect.gen(function*() {
      const { both, lastFile, move, reader, seen } = yield* twins
      const received = yield* listen(reader.store, ada)
      move.arm((path) => path === lastFile)
      const write = yield* Effect.fork(both("two")(reader.store))
      yield* move.reached
      yield* reader.vault.refresh
      const during = yield* seen
      yield* move.release
      yield* Fiber.join(write)
      assert.deepStrictEqual([during, yield* seen], [["one", "one"], ["two", "two"]])
      assert.deepStrictEqual((yield* received).map((change) => "by" in change && change.by), ["here", "here"])
    }))

  it.scopedLive("a batch that the scanning process writes during a scan is published by its write, and not by the scan", () =>
    Effect.gen(function*() {
      const { both, file, fileOf, reader, right, seen } = yield* twins
      const received = yield* listen(reader.store, ada)
      file.arm((path) => path.endsWith(fileOf(right)))
      const scan = yield* Effect.fork(reader.vault.refresh)
      yield* file.reached
      yield* both("two")(reader.store)
      yield* file.release
      yield* Fiber.join(scan)
      assert.deepStrictEqual(yield* seen, ["two", "two"])
      assert.deepStrictEqual((yield* received).map((change) => "by" in change && change.by), ["here", "here"])
    }))

  it.scopedLive("no part of a batch is visible after its write failed, even if a scan ran during the write", () =>
    Effect.gen(function*() {
      const { both, lastFile, move, reader, seen, unwritable } = yield* twins
      move.arm((path) => path === lastFile)
      unwritable.add(lastFile)
      const write = yield* Effect.fork(Effect.flip(both("two")(reader.store)))
      yield* move.reached
      yield* reader.vault.refresh
      yield* move.release
      yield* Fiber.join(write)
      assert.deepStrictEqual(yield* seen, ["one", "one"])
      unwritable.clear()
      yield* both("three")(reader.store)
      assert.deepStrictEqual(yield* seen, ["three", "three"])
    }))

  it.scopedLive("a purge whose writer died before removing the file stays in force", () =>
    Effect.gen(function*() {
      const { compacted, killedAfter, other, reader, right, seen } = yield* twins
      yield* compacted
      yield* reader.vault.refresh
      yield* killedAfter((store) => store.forget(ada, [right.id], { purge: true }))
      for (let n = 0; n < 3; n++) {
        yield* reader.vault.refresh
        assert.deepStrictEqual(yield* seen, ["Milk", "one"])
      }
      yield* put(reader.store, fact("Tea"))
      assert.deepStrictEqual(yield* seen, ["Tea", "Milk", "one"])
      assert.deepStrictEqual(yield* other((store) => store.history(ada, right.id)), [])
    }))

  it.scopedLive("a dead writer's unfinished batch is read as a whole, even if the second of three scans cannot read one of the batch's files", () =>
    Effect.gen(function*() {
      const { both, compacted, killedAfter, lastFile, reader, seen, unreadable } = yield* twins
      yield* compacted
      yield* killedAfter(both("two"))
      yield* reader.vault.refresh
      unreadable.add(lastFile)
      yield* reader.vault.refresh
      unreadable.delete(lastFile)
      yield* reader.vault.refresh
      assert.deepStrictEqual(yield* seen, ["two", "two", "Milk"])
    }))

  it.scopedLive("a purge whose writer died before removing the file stays in force, even if a scan cannot read the file", () =>
    Effect.gen(function*() {
      const { compacted, killedAfter, lastFile, other, reader, right, seen, unreadable } = yield* twins
      yield* compacted
      yield* reader.vault.refresh
      yield* killedAfter((store) => store.forget(ada, [right.id], { purge: true }))
      yield* reader.vault.refresh
      unreadable.add(lastFile)
      yield* reader.vault.refresh
      unreadable.delete(lastFile)
      yield* reader.vault.refresh
      assert.deepStrictEqual(yield* seen, ["Milk", "one"])
      yield* put(reader.store, fact("Tea"))
      assert.deepStrictEqual(yield* other((store) => store.history(ada, right.id)), [])
    }))

  it.scopedLive("a put finds a duplicate that another process wrote, even before a scan has read the duplicate", () =>
    Effect.gen(function*() {
      const root = yield* place
      const file = yield* gate
      const { store, vault } = yield* opened(
        root,
        {},
        platformWith((fs) => ({ readFile: (path) => file.hold(path, fs.readFile(path)) }))
      )
      yield* put(store, draft("first"))
      const other = yield* opened(root)
      const tea = yield* put(other.store, fact("Tea"))
      yield* put(other.store, draft("later"))
      file.arm((path) => path.endsWith(pathOf("default", tea.scope, tea.id)))
      const look = yield* Effect.fork(vault.refresh)
      yield* file.reached
      const [again] = yield* store.put(ada, [fact("Tea")])
      yield* file.release
      yield* Fiber.join(look)
      assert.strictEqual(again?.outcome, "duplicate")
      assert.strictEqual(again?.record.id, tea.id)
    }))

  it.scopedLive("a read of a record's history misses no revision if a scan notices a compaction during the read", () =>
    Effect.gen(function*() {
      const { compacted, read, reader, right } = yield* twins
      read.arm((path) => path.endsWith("history"))
      const past = yield* Effect.fork(reader.store.history(ada, right.id))
      yield* read.reached
      yield* compacted
      yield* reader.vault.refresh
      yield* read.release
      assert.deepStrictEqual((yield* Fiber.join(past)).map(({ body }) => body), ["one", "right"])
    }))

  it.scopedLive("a read of a record's history returns only consecutive revisions while another process purges the record", () =>
    Effect.gen(function*() {
      const { both, compacted, other, read, reader, right, root } = yield* twins
      yield* compacted
      for (const word of ["two", "three", "four"]) yield* other(both(word))
      yield* reader.vault.refresh
      read.arm((path) => path.endsWith("history"))
      const past = yield* Effect.fork(reader.store.history(ada, right.id))
      yield* read.reached
      const erase = yield* gate
      const writer = yield* opened(
        root,
        {},
        platformWith((fs) => ({
          open: (path, options) =>
            options?.flag === "r+" ? erase.hold(path, fs.open(path, options)) : fs.open(path, options)
        }))
      )
      let erased = 0
      erase.arm((path) => path.endsWith("history") && ++erased === 3)
      const purge = yield* Effect.fork(writer.store.forget(ada, [right.id], { purge: true }))
      yield* erase.reached
      yield* read.release
      const revisions = (yield* Fiber.join(past)).map(({ revision }) => revision)
      yield* erase.release
      yield* Fiber.join(purge)
      assert.isNotEmpty(revisions)
      assert.deepStrictEqual(revisions, revisions.map((_, n) => revisions[0]! - n))
    }))
})

describe("a writer of a vault", () => {
  it.scopedLive("a writer that loses its lock before it writes repeats the write, and its caller sees no error", () =>
    Effect.gen(function*() {
      const root = yield* place
      const history = `${root}/.effect-memory/history`
      let taken = 0
      const { store } = yield* opened(
        root,
        {},
        platformWith((fs) => ({
          stat: (path) =>
            path === history && ++taken === 1
              ? Effect.zipRight(fs.remove(`${root}/.effect-memory/lock`), fs.stat(path))
              : fs.stat(path)
        }))
      )
      taken = 0
      assert.strictEqual((yield* put(store, draft("tea"))).body, "tea")
      assert.isAbove(taken, 1)
    }))
})
