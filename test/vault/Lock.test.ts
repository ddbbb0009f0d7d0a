import { NodeContext } from "@effect/platform-node"
import { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import * as TestServices from "effect/TestServices"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Lock from "../../src/storage/MemoryStore/Markdown/Lock.ts"
import * as VaultFileSystem from "../../src/storage/MemoryStore/Markdown/VaultFileSystem.ts"
import { place, platformWith, reached } from "./Place.ts"

const timeout = Duration.millis(300)
const file = (root: string) => path.join(root, ".effect-memory/lock")

const lockOf = (
  root: string,
  seed: string,
  platform: Layer.Layer<FileSystem.FileSystem | Path.Path> = NodeContext.layer
) =>
  VaultFileSystem.make(root).pipe(
    Effect.provide(platform),
    Effect.flatMap((fs) => Lock.make(fs, timeout)),
    Effect.withRandom(Random.make(seed))
  )

const folder = Effect.tap(place, (root) => Effect.sync(() => fs.mkdirSync(path.join(root, ".effect-memory"))))

/** Waits for one iteration of the event loop, in which files are read and written. */
const turn = Effect.promise(() => new Promise((done) => setImmediate(done)))

/** Acquires the lock as a process that is then suspended: its clock does not advance, so it writes no heartbeat. */
const paused = (lock: Lock.Lock) =>
  Effect.gen(function*() {
    const holds = yield* Deferred.make<void>()
    const wakes = yield* Deferred.make<void>()
    const wasOurs = yield* Effect.fork(
      lock.withLock(
        Deferred.succeed(holds, undefined).pipe(
          Effect.zipRight(Deferred.await(wakes)),
          Effect.zipRight(lock.isOurs)
        )
      )
    )
    yield* Deferred.await(holds)
    return { wakes: Effect.zipRight(Deferred.succeed(wakes, undefined), Fiber.join(wasOurs)) }
  })

/** Makes a platform that counts the calls of `stat` on the lock file. Each attempt to take the lock makes at least one such call. */
const counting = (root: string) => {
  let looks = 0
  const platform = Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (real): FileSystem.FileSystem => ({
      ...real,
      stat: (name) => Effect.ensuring(real.stat(name), Effect.sync(() => name === file(root) && looks++))
    }))
  ).pipe(Layer.provide(reached), Layer.merge(Path.layer))
  return { looks: () => looks, platform }
}

const broken = new SystemError({ reason: "Unknown", module: "FileSystem", method: "stat" })

/** Counts the open handles at the lock's path. `platform` makes a platform on which some calls on the lock file first run an effect. */
const openedBy = (root: string) => {
  let count = 0
  type Before = (() => Effect.Effect<unknown, SystemError>) | undefined
  const platform = (
    { hasOneName, remove, stat, write }: {
      readonly hasOneName: boolean
      readonly remove?: Before
      readonly stat?: Before
      readonly write?: Before
    }
  ) => {
    const after = <A, E>(before: Before, name: string, self: Effect.Effect<A, E>) =>
      before !== undefined && name === file(root) ? Effect.zipRight(before(), self) : self
    return platformWith((real) => ({
      ...(hasOneName && { link: () => Effect.fail(broken) }),
      remove: (name, options) => after(remove, name, real.remove(name, options)),
      stat: (name) => after(stat, name, real.stat(name)),
      open: (name, options) =>
        Effect.gen(function*() {
          if (name !== file(root) && !name.includes("/claim.")) return yield* real.open(name, options)
          const opened = yield* real.open(name, options)
          const isLock = name === file(root)
          if (isLock) count++
          yield* Effect.addFinalizer(() => Effect.sync(() => isLock && count--))
          return new Proxy(opened, {
            get: (inner, key) => {
              const value: unknown = Reflect.get(inner, key)
              if (key === "writeAll" && write !== undefined) {
                return (bytes: Uint8Array) => Effect.zipRight(write(), inner.writeAll(bytes))
              }
              return typeof value === "function" ? value.bind(inner) : value
            }
          })
        })
    }))
  }
  return { count: () => count, platform }
}

describe("the lock of a vault", () => {
  it.scoped("a lock left by a dead process is taken over only after the timeout", () =>
    Effect.gen(function*() {
      const root = yield* folder
      fs.writeFileSync(file(root), "12345 0")
      const lock = yield* lockOf(root, "a")
      const mine = yield* Effect.fork(lock.withLock(lock.isOurs))
      for (let millis = 0; millis < 295; millis += 5) {
        for (let turns = 0; turns < 5; turns++) yield* turn
        yield* TestClock.adjust("5 millis")
      }
      assert.strictEqual(fs.readFileSync(file(root), "utf8"), "12345 0")
      while ((yield* Fiber.poll(mine))._tag === "None") {
        yield* TestClock.adjust("5 millis")
        yield* turn
      }
      assert.isTrue(yield* Fiber.join(mine))
      assert.isFalse(fs.existsSync(file(root)))
    }))

  it.scoped("a stalled process whose lock was taken over by another process neither holds nor releases the lock", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const [sleeper, thief] = [yield* lockOf(root, "equal"), yield* lockOf(root, "equal")]
      const { wakes } = yield* paused(sleeper)
      const stole = yield* Deferred.make<void>()
      const done = yield* Deferred.make<void>()
      const theft = yield* thief.withLock(
        Deferred.succeed(stole, undefined).pipe(Effect.zipRight(Deferred.await(done)), Effect.zipRight(thief.isOurs))
      ).pipe(TestServices.provideLive, Effect.fork)
      yield* Deferred.await(stole)
      assert.isFalse(yield* wakes)
      assert.isTrue(fs.existsSync(file(root)), "the thief's is still there")
      yield* Deferred.succeed(done, undefined)
      assert.isTrue(yield* Fiber.join(theft))
      assert.isFalse(fs.existsSync(file(root)))
    }))

  it.scoped("a lock is not taken over while its holder writes heartbeats, even after three times the timeout", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const { looks, platform } = counting(root)
      const [holder, other] = [yield* lockOf(root, "a"), yield* lockOf(root, "b", platform)]
      /** Waits until `done` returns true. Hardly advances the clock meanwhile, so that the disk's speed has no effect. */
      const until = (done: () => boolean) =>
        Effect.gen(function*() {
          for (let turns = 1; !done(); turns++) {
            yield* turn
            if (turns % 1_000 === 0) yield* TestClock.adjust("5 millis") // in case `other` began to sleep just after the clock advanced
          }
        })
      const beats = () => Number(fs.readFileSync(file(root), "utf8").split(" ")[1])
      const waiting = yield* holder.withLock(Effect.gen(function*() {
        const waiting = yield* Effect.fork(other.withLock(Effect.void))
        yield* until(() => looks() > 0)
        for (let beat = 1; beat <= 9; beat++) {
          const looked = looks()
          yield* TestClock.adjust("100 millis")
          yield* until(() => beats() >= beat && looks() > looked)
        }
        assert.isTrue(yield* holder.isOurs)
        return waiting
      }))
      while ((yield* Fiber.poll(waiting))._tag === "None") {
        yield* TestClock.adjust("5 millis")
        yield* turn
      }
      yield* Fiber.join(waiting)
    }))

  it.scoped("each long `withLock` writes heartbeats, even if the Effect scope in which the lock was made is already closed", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const scope = yield* Scope.make()
      const lock = yield* Scope.extend(lockOf(root, "a"), scope)
      const beats = () => Number(fs.readFileSync(file(root), "utf8").split(" ")[1]) % 1_000_000
      const beaten = lock.withLock(Effect.gen(function*() {
        assert.strictEqual(beats(), 0)
        for (let beat = 1; beat <= 3; beat++) {
          yield* TestClock.adjust("100 millis")
          while (beats() < beat) yield* turn
        }
      }))
      yield* lock.withLock(Effect.void)
      yield* TestClock.adjust("50 millis")
      yield* beaten
      yield* TestClock.adjust("10 seconds")
      yield* beaten
      yield* Scope.close(scope, Exit.void)
      yield* beaten
      yield* beaten
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* TestClock.sleeps().pipe(Effect.map(Array.from)), [], "nothing of it is left asleep")
    }))

  for (const hasOneName of [false, true]) {
    const where = hasOneName ? "without hard links" : "with hard links"
    it.scoped(`\`withLock\` does not return before a heartbeat in progress has been written, on a file system ${where}`, () =>
      Effect.gen(function*() {
        const root = yield* folder
        const [writes, goesOn] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const open = openedBy(root)
        let isBeating = false
        const platform = open.platform({
          hasOneName,
          write: () =>
            isBeating ? Effect.zipRight(Deferred.succeed(writes, undefined), Deferred.await(goesOn)) : Effect.void
        })
        const lock = yield* lockOf(root, "a", platform)
        const over = yield* Effect.fork(lock.withLock(Effect.gen(function*() {
          isBeating = true
          yield* TestClock.adjust("100 millis")
          yield* Deferred.await(writes)
        })))
        while (fs.existsSync(file(root))) yield* turn
        for (let n = 0; n < 5_000; n++) yield* turn
        assert.strictEqual((yield* Fiber.poll(over))._tag, "None")
        assert.strictEqual(open.count(), hasOneName ? 1 : 0, "the file that it is written to is open")
        yield* Deferred.succeed(goesOn, undefined)
        yield* Fiber.join(over)
        isBeating = false
        assert.strictEqual(open.count(), 0)
        yield* lock.withLock(Effect.void)
      }))
  }

  it.scoped("a defect in the release of the lock leaves no file open, and the lock can be taken over", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const open = openedBy(root)
      let dies = true
      const platform = open.platform({
        hasOneName: true,
        remove: () => dies ? Effect.die("a defect of the platform") : Effect.void
      })
      const lock = yield* lockOf(root, "a", platform)
      const exit = yield* Effect.exit(lock.withLock(Effect.void))
      assert.isTrue(Exit.isFailure(exit) && Cause.isDie(exit.cause))
      assert.strictEqual(open.count(), 0)
      dies = false
      const before = fs.readFileSync(file(root), "utf8")
      yield* TestClock.adjust("1 second")
      assert.strictEqual(fs.readFileSync(file(root), "utf8"), before)
      const next = yield* Effect.fork(lock.withLock(lock.isOurs))
      while ((yield* Fiber.poll(next))._tag === "None") {
        yield* TestClock.adjust("5 millis")
        yield* turn
      }
      assert.isTrue(yield* Fiber.join(next))
    }))

  it.scoped("taking the lock leaves no file open if the inode of the lock file cannot be read", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const open = openedBy(root)
      let fails = true
      const platform = open.platform({
        hasOneName: true,
        stat: () => fails && fs.existsSync(file(root)) ? Effect.fail(broken) : Effect.void
      })
      const lock = yield* lockOf(root, "a", platform)
      assert.strictEqual((yield* Effect.flip(lock.withLock(Effect.void))).reason, "io")
      assert.strictEqual(open.count(), 0)
      fails = false
      fs.rmSync(file(root), { force: true })
      assert.isTrue(yield* lock.withLock(lock.isOurs))
      assert.strictEqual(open.count(), 0)
    }))

  it.scoped("a waiting process takes over a dead process's lock, even if its second check comes only after the timeout", () =>
    Effect.gen(function*() {
      const root = yield* folder
      fs.writeFileSync(file(root), "12345 0")
      const lock = yield* lockOf(root, "a")
      const mine = yield* Effect.fork(Effect.either(lock.withLock(lock.isOurs)))
      for (let turns = 0; turns < 100; turns++) yield* turn // waits until the process has checked the lock and sleeps
      while ((yield* Fiber.poll(mine))._tag === "None") {
        yield* TestClock.adjust("1 minute")
        yield* turn
      }
      assert.deepStrictEqual(yield* Fiber.join(mine), Either.right(true))
    }))

  it.scopedLive("a process that moves away another process's new lock instead of the stale lock puts the new lock back", () =>
    Effect.gen(function*() {
      const root = yield* folder
      fs.writeFileSync(file(root), "12345 0")
      // the slow process is suspended between its last check and its rename
      const looked = yield* Deferred.make<void>()
      const goes = yield* Deferred.make<void>()
      const gave = yield* Deferred.make<void>()
      const slowly = Layer.effect(
        FileSystem.FileSystem,
        Effect.map(FileSystem.FileSystem, (real): FileSystem.FileSystem => ({
          ...real,
          rename: (from, to) =>
            Deferred.succeed(looked, undefined).pipe(
              Effect.zipRight(Deferred.await(goes)),
              Effect.zipRight(real.rename(from, to))
            ),
          remove: (name, options) =>
            Effect.tap(
              real.remove(name, options),
              () => name.includes("lock.") ? Deferred.succeed(gave, undefined) : Effect.void
            )
        }))
      ).pipe(Layer.provide(reached), Layer.merge(Path.layer))
      const [slow, quick] = [yield* lockOf(root, "slow", slowly), yield* lockOf(root, "quick")]
      let inside = 0
      const alone = (lock: Lock.Lock, work: Effect.Effect<unknown>) =>
        lock.withLock(Effect.gen(function*() {
          assert.strictEqual(++inside, 1)
          yield* work
          assert.isTrue(yield* lock.isOurs)
          inside--
        }))
      const late = yield* Effect.fork(alone(slow, Effect.void))
      yield* Deferred.await(looked)
      yield* alone(
        quick,
        Effect.gen(function*() {
          const mine = fs.statSync(file(root)).ino
          yield* Deferred.succeed(goes, undefined)
          yield* Deferred.await(gave)
          assert.strictEqual(fs.statSync(file(root)).ino, mine)
        })
      )
      yield* Fiber.join(late)
      assert.isFalse(fs.existsSync(file(root)))
    }))

  it.scopedLive("a process that waits for the lock fails with `unavailable` if a live process never releases the lock", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const lock = Effect.provide(VaultFileSystem.make(root), NodeContext.layer).pipe(
        Effect.flatMap((fs) => Lock.make(fs, Duration.millis(20)))
      )
      const [holder, other] = [yield* lock, yield* lock]
      const refused = yield* holder.withLock(Effect.either(other.withLock(Effect.void)))
      assert.isTrue(Either.isLeft(refused) && refused.left.reason === "unavailable")
    }))

  it.scoped("a process gets a dead process's lock even if each `open` and each `stat` takes longer than the lock's timeout", () =>
    Effect.gen(function*() {
      const root = yield* folder
      fs.writeFileSync(file(root), "12345 0")
      const slow = Layer.effect(
        FileSystem.FileSystem,
        Effect.map(FileSystem.FileSystem, (real): FileSystem.FileSystem => ({
          ...real,
          open: (name, options) => Effect.delay(real.open(name, options), "1 minute"),
          stat: (name) => Effect.delay(real.stat(name), "1 minute")
        }))
      ).pipe(Layer.provide(reached), Layer.merge(Path.layer))
      const locked = Effect.flatMap(lockOf(root, "a", slow), (lock) => lock.withLock(Effect.void))
      const mine = yield* Effect.fork(Effect.either(Effect.scoped(locked))) // closing the scope calls the slow `stat`, too
      while ((yield* Fiber.poll(mine))._tag === "None") {
        yield* TestClock.adjust("1 minute")
        yield* turn
      }
      assert.deepStrictEqual(yield* Fiber.join(mine), Either.void)
    }))

  it.scoped("a process that waits for a lock does not give up while the holder keeps changing", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const seen = counting(root)
      const lock = yield* lockOf(root, "a", seen.platform)
      fs.writeFileSync(file(root), "0 0")
      const mine = yield* Effect.fork(Effect.either(lock.withLock(Effect.void)))
      // each holder has the lock for at least 100 ms; a waiter gives up if one keeps it for six seconds
      for (let hand = 1; hand < 100; hand++) {
        fs.writeFileSync(file(root), `${hand} 0`)
        const looked = seen.looks()
        while (seen.looks() < looked + 2) {
          yield* TestClock.adjust("5 millis")
          yield* turn
        }
        yield* TestClock.adjust("100 millis")
      }
      assert.strictEqual((yield* Fiber.poll(mine))._tag, "None")
      fs.rmSync(file(root))
      while ((yield* Fiber.poll(mine))._tag === "None") {
        yield* TestClock.adjust("5 millis")
        yield* turn
      }
      assert.deepStrictEqual(yield* Fiber.join(mine), Either.void)
    }))
})
