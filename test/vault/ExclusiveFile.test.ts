/**
 * Tests of a vault's lock file: another process may take the lock away at any moment, and a disk may report another inode for each name
 * of one file.
 */
import { NodeContext } from "@effect/platform-node"
import { type PlatformError, SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Lock from "../../src/storage/MemoryStore/Markdown/Lock.ts"
import * as VaultFileSystem from "../../src/storage/MemoryStore/Markdown/VaultFileSystem.ts"
import { ada, draft, id, listed, put } from "../../src/testing/Sample.ts"
import { calling } from "./Calls.ts"
import { files, opened, place, platformWith } from "./Place.ts"

const lockFile = ".effect-memory/lock"
const isLock = (at: string) => at.endsWith(`/${lockFile}`)
const folder = Effect.tap(place, (root) => Effect.sync(() => fs.mkdirSync(path.join(root, ".effect-memory"))))
const inodeOf = (root: string) => fs.statSync(path.join(root, lockFile)).ino
const failure: PlatformError = new SystemError({
  reason: "Unknown",
  module: "FileSystem",
  method: "write",
  cause: Object.assign(new Error("EIO"), { code: "EIO" })
})

type Platform = Layer.Layer<FileSystem.FileSystem | Path.Path>
const lockOf = (root: string, platform: Platform = NodeContext.layer, seed = "a") =>
  Effect.provide(VaultFileSystem.make(root), platform).pipe(
    Effect.flatMap((fs) => Lock.make(fs, Duration.millis(30))),
    Effect.withRandom(Random.make(seed))
  )
/** A file system without hard links. */
const oneName = (): Partial<FileSystem.FileSystem> => ({
  link: () => Effect.fail(failure)
})

describe("a writer that stalls while it takes the lock", () => {
  for (
    const [name, hasOneName, isStep] of [
      ["just after it created its lock file,", false, (method: string, at: string) => method === "stat" && isLock(at)],
      [
        "before it creates its folder of temporary files, on a disk without hard links,",
        true,
        (method: string, at: string) => method === "mkdir" && at.includes("/turns/")
      ]
    ] as const
  ) {
    it.scopedLive(`a writer that stalls ${name} does not remove the next holder's lock, but waits until that lock is released`, () =>
      Effect.gen(function*() {
        const root = yield* folder
        const [stops, wakes] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        let isAwake = true
        const sleeper = yield* lockOf(
          root,
          calling((method, at) =>
            Effect.suspend(() =>
              hasOneName && method === "link"
                ? Effect.fail(failure)
                : !isAwake && isStep(method, at)
                ? Effect.zipRight(Deferred.succeed(stops, undefined), Deferred.await(wakes))
                : Effect.void
            )
          )
        )
        yield* sleeper.withLock(Effect.void) // creates its claim file
        isAwake = false
        const other = yield* lockOf(root, NodeContext.layer, "b")
        let inside = 0
        const late = yield* Effect.fork(sleeper.withLock(Effect.sync(() => assert.strictEqual(inside, 0))))
        yield* Deferred.await(stops)
        yield* other.withLock(Effect.gen(function*() {
          inside++
          const mine = inodeOf(root)
          yield* Deferred.succeed(wakes, undefined)
          for (let turns = 0; turns < 200; turns++) yield* Effect.promise(() => new Promise(setImmediate))
          assert.strictEqual(inodeOf(root), mine)
          assert.isTrue(yield* other.isOurs)
          inside--
        }))
        yield* Fiber.join(late)
        assert.isFalse(fs.existsSync(path.join(root, lockFile)))
      }))
  }

  it.scopedLive("a writer that stalls and then fails to write the lock file does not remove the lock of the next holder", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const [stops, wakes] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const slow = calling((method, at) =>
        method === "link"
          ? Effect.fail(failure)
          : method === "write" && isLock(at)
          ? Effect.zipRight(
            Effect.zipRight(Deferred.succeed(stops, undefined), Deferred.await(wakes)),
            Effect.fail(failure)
          )
          : Effect.void
      )
      const [sleeper, other] = [yield* lockOf(root, slow), yield* lockOf(root, NodeContext.layer, "b")]
      const late = yield* Effect.fork(Effect.exit(sleeper.withLock(Effect.void)))
      yield* Deferred.await(stops)
      yield* other.withLock(Effect.gen(function*() {
        yield* Deferred.succeed(wakes, undefined)
        assert.isTrue(Exit.isFailure(yield* Fiber.join(late)))
        assert.isTrue(yield* other.isOurs)
      }))
    }))
})

describe("a lock on a disk that reports different inode numbers for two names (hard links) of the same file", () => {
  it.scopedLive("concurrent writes of one process never take over a held lock, even if each name of a file has its own inode number", () =>
    Effect.gen(function*() {
      const root = yield* place
      const numbers = new Map<string, number>()
      const ofName = (at: string, info: FileSystem.File.Info): FileSystem.File.Info => {
        if (info.type !== "File") return info
        const key = `${at} ${Option.getOrElse(info.ino, () => 0)}`
        numbers.set(key, numbers.get(key) ?? numbers.size + 1)
        return { ...info, ino: Option.some(numbers.get(key)!) }
      }
      let thefts = 0
      const remote = platformWith((real) => ({
        stat: (at) => Effect.map(real.stat(at), (info) => ofName(at, info)),
        rename: (from, to) => {
          if (isLock(from)) thefts++
          return real.rename(from, to)
        },
        open: (at, options) =>
          Effect.map(real.open(at, options), (file) =>
            new Proxy(file, {
              get: (target, key) =>
                key === "stat"
                  ? Effect.map(target.stat, (info) => ofName(at, info))
                  : Reflect.get(target, key)
            }))
      }))
      const { store } = yield* opened(root, { lockTimeout: "1 hour" }, remote)
      const numbersOf = Array.from({ length: 20 }, (_, n) => n)
      yield* Effect.forEach(numbersOf, (n) => put(store, draft(`number ${n}`)), { concurrency: "unbounded" })
      yield* put(store, draft("later"))
      assert.lengthOf(yield* listed(store, ada, { limit: 100 }), 21)
      assert.strictEqual(thefts, 0)
      assert.isFalse(fs.existsSync(path.join(root, lockFile)))
    }))
})

describe("a process that fences a lock holder (moves away the folder of the holder's temporary files)", () => {
  const things: Readonly<Record<string, (at: string) => void>> = {
    "an empty folder": (at) => void fs.mkdirSync(at, { recursive: true }),
    "a folder with files and folders in it": (at) => {
      fs.mkdirSync(path.join(at, "below"), { recursive: true })
      fs.writeFileSync(path.join(at, "below/1"), "half a rec")
      fs.writeFileSync(path.join(at, "claim.0"), "x 0")
    },
    "a file": (at) => {
      fs.mkdirSync(path.dirname(at), { recursive: true })
      fs.writeFileSync(at, "")
    }
  }
  for (const [name, make] of Object.entries(things)) {
    it.scopedLive(`the removal of a lock holder's temporary files succeeds even if ${name} is left over from an earlier removal`, () =>
      Effect.gen(function*() {
        const root = yield* folder
        const vaultFs = yield* VaultFileSystem.make(root)
        make(path.join(root, ".effect-memory/turns/abc.ended"))
        for (const hasTurn of [true, false, true]) {
          if (hasTurn) fs.mkdirSync(path.join(root, ".effect-memory/turns/abc"), { recursive: true })
          if (hasTurn) fs.writeFileSync(path.join(root, ".effect-memory/turns/abc/1"), "half a rec")
          yield* vaultFs.fence("abc")
          assert.deepStrictEqual(fs.readdirSync(path.join(root, ".effect-memory/turns")), [])
        }
        // a lock that the process `abc` left is taken over, too
        make(path.join(root, ".effect-memory/turns/abc.ended"))
        fs.mkdirSync(path.join(root, ".effect-memory/turns/abc"), { recursive: true })
        fs.writeFileSync(path.join(root, lockFile), "abc 0")
        yield* (yield* lockOf(root)).withLock(Effect.void)
        assert.isFalse(fs.existsSync(path.join(root, lockFile)))
      }).pipe(Effect.provide(NodeContext.layer)))
  }
})

describe("a live process whose staging folder (the folder of its temporary files) is deleted", () => {
  const turns = (root: string) => path.join(root, ".effect-memory/turns")
  const kept = (root: string) =>
    fs.readdirSync(turns(root), { recursive: true, encoding: "utf8" }).filter((name) => name.includes("claim."))

  it.scopedLive("a live process can still write after its folder of temporary files has been deleted", () =>
    Effect.gen(function*() {
      const root = yield* place
      const [one, other] = [yield* opened(root), yield* opened(root)]
      yield* put(one.store, draft("one"))
      yield* put(other.store, draft("other")) // the first write of `other` deletes the staging folder of `one`
      yield* put(one.store, draft("one again"))
      fs.rmSync(turns(root), { recursive: true })
      yield* put(one.store, draft("one at last"))
      yield* put(other.store, draft("other at last"))
      yield* one.vault.refresh
      assert.sameMembers(yield* listed(one.store, ada), ["one", "other", "one again", "one at last", "other at last"])
      assert.lengthOf(kept(root), 2)
    }))

  it.scopedLive("a batch completes even if the writer's folder of temporary files is deleted before any one of its disk calls", () =>
    Effect.gen(function*() {
      for (let stop = 1, isReached = true; isReached; stop++) {
        isReached = yield* Effect.scoped(Effect.gen(function*() {
          const root = yield* place
          let calls = -Infinity
          const { store, vault } = yield* opened(
            root,
            { lockTimeout: "1 hour" },
            calling(() =>
              Effect.sync(() => {
                if (++calls === stop) fs.rmSync(turns(root), { recursive: true, force: true })
              })
            )
          )
          yield* put(store, draft("a", { id: id("a") }))
          yield* put(store, draft("b", { id: id("b") }))
          calls = 0
          yield* store.apply(ada, [
            { _tag: "Update", id: id("a"), patch: { body: "a 2" } },
            { _tag: "Forget", id: id("b") }
          ])
          const done = calls >= stop
          calls = -Infinity
          yield* vault.refresh
          assert.deepStrictEqual(yield* listed(store, ada), ["a 2"], `${stop}`)
          assert.lengthOf(Object.keys(files(root)), 1, `${stop}`)
          return done
        }))
      }
    }))
})

describe("two processes with the same random seed", () => {
  it.scopedLive("a process takes over the lock of a dead process that had the same random seed", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const [dead, other] = [yield* lockOf(root), yield* lockOf(root)]
      yield* dead.withLock(Effect.void)
      yield* other.withLock(Effect.void)
      const [own, ...more] = fs.readdirSync(path.join(root, ".effect-memory/turns"))
      assert.deepStrictEqual(more, [])
      assert.deepStrictEqual(fs.readdirSync(path.join(root, ".effect-memory/turns", own!)).sort(), [
        "claim.0",
        "claim.1"
      ])
      // the state in which a process leaves the lock file if it is killed while it holds the lock
      fs.linkSync(path.join(root, ".effect-memory/turns", own!, "claim.0"), path.join(root, lockFile))
      const left = inodeOf(root)
      yield* other.withLock(Effect.sync(() => assert.notStrictEqual(inodeOf(root), left)))
      yield* dead.withLock(dead.isOurs)
      assert.isFalse(fs.existsSync(path.join(root, lockFile)))
    }))

  it.scopedLive("a process can write although a dead process with the same random seed has left temporary files behind", () =>
    Effect.gen(function*() {
      const root = yield* place
      const seeded = Effect.suspend(() => Effect.withRandom(opened(root), Random.make("one")))
      yield* Effect.scoped(Effect.flatMap(seeded, ({ store }) => put(store, draft("first"))))
      const { store } = yield* seeded
      const turns = path.join(root, ".effect-memory/turns")
      const [own, ...more] = fs.readdirSync(turns)
      assert.deepStrictEqual(more, [])
      const folder = path.join(turns, own!)
      fs.mkdirSync(folder, { recursive: true })
      for (const name of ["1", "2", "3", "removed", "claim.0", "claim.0.too"]) {
        fs.writeFileSync(path.join(folder, name), "left behind")
      }
      yield* put(store, draft("second"))
      assert.sameMembers(yield* listed(store, ada), ["first", "second"])
      assert.sameMembers(yield* Effect.scoped(Effect.flatMap(opened(root), ({ store }) => listed(store, ada))), [
        "first",
        "second"
      ])
    }))
})

describe("a lock that is requested after its Effect scope began to close", () => {
  for (const [name, platform] of [["with", NodeContext.layer], ["without", platformWith(oneName)]] as const) {
    it.scopedLive(`a lock requested while its Effect scope closes is granted and leaves no file open (${name} hard links)`, () =>
      Effect.gen(function*() {
        const root = yield* folder
        const scope = yield* Scope.make()
        const open = () => fs.readdirSync("/proc/self/fd").length
        const before = process.platform === "linux" ? open() : 0
        const lock = yield* Scope.extend(
          lockOf(root, platform),
          scope
        )
        yield* lock.withLock(Effect.void)
        const [holds, go] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const holder = yield* Effect.fork(
          lock.withLock(
            Effect.zipRight(Deferred.succeed(holds, undefined), Effect.zipRight(Deferred.await(go), lock.isOurs))
          )
        )
        yield* Deferred.await(holds)
        const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
        const late = yield* Effect.fork(lock.withLock(lock.isOurs))
        yield* Effect.yieldNow()
        yield* Deferred.succeed(go, undefined)
        assert.isTrue(yield* Fiber.join(holder))
        assert.isTrue(yield* Fiber.join(late))
        yield* Fiber.join(closing)
        assert.isTrue(yield* lock.withLock(lock.isOurs))
        assert.isFalse(fs.existsSync(path.join(root, lockFile)))
        if (process.platform === "linux") assert.strictEqual(open(), before)
      }))
  }
})
