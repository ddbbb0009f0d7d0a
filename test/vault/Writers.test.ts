/** Concurrent writers of a vault: some are interrupted, the disk fails, or another process writes as well. */
import { type PlatformError, SystemError } from "@effect/platform/Error"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Lock from "../../src/storage/MemoryStore/Markdown/Lock.ts"
import * as VaultFileSystem from "../../src/storage/MemoryStore/Markdown/VaultFileSystem.ts"
import { ada, draft, get, id, put } from "../../src/testing/Sample.ts"
import { calling } from "./Calls.ts"
import { type Opened, opened, place, platformWith } from "./Place.ts"
import { times } from "./Program.ts"

/** Waits for an iteration of the event loop. */
const turn = Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void)))
/** Yields to other fibers `count` times; every 32nd time waits for an iteration of the event loop, in which disk calls complete. */
const steps = (count: number) =>
  Effect.gen(function*() {
    for (let n = 1; n <= count; n++) yield* n % 32 === 0 ? turn : Effect.yieldNow()
  })
/** Fails if an effect does not end within five minutes, with a message that names what hangs. */
const ends = (what: string) => <A, E>(self: Effect.Effect<A, E>) =>
  Effect.timeoutFail(self, { duration: "5 minutes", onTimeout: () => new Error(`${what} does not end`) })
/** Returns the bodies of the revisions in the history, in the order of its lines. */
const written = (root: string) =>
  Array.from(
    fs.readFileSync(path.join(root, ".effect-memory/history"), "utf8").matchAll(/"body":"([^"]*)"/g),
    ([, body]) => body
  )
const bodies = ({ store }: Opened) =>
  Effect.map(store.list(ada, { limit: 100 }), ({ items }) => items.map(({ body }) => body).sort())
const again = (root: string) => Effect.scoped(Effect.flatMap(opened(root, { lockTimeout: 30 }), bodies))

/** A platform whose fsync does nothing, so that a write waits for the event loop less often. */
const quick = platformWith((real) => ({
  open: (at, options) =>
    Effect.map(real.open(at, options), (file) =>
      new Proxy(file, {
        get: (target, key) => key === "sync" ? Effect.void : Reflect.get(target, key)
      }))
}))

/** Subscribes to changes; returns an array to which the body of each written record is appended. */
const listening = (store: Opened["store"]) =>
  Effect.gen(function*() {
    const told: Array<string> = []
    yield* Effect.forkScoped(
      Stream.runForEach(
        store.changes(ada),
        (change) => Effect.sync(() => change._tag === "Written" && told.push(change.record.body))
      )
    )
    yield* steps(64) // gives the subscription time to start
    return told
  })

describe("concurrent writers of a vault", () => {
  const law = (victimsOf: (step: number) => ReadonlyArray<number>, platform?: typeof quick) =>
    Effect.gen(function*() {
      const root = yield* place
      const { store } = yield* opened(root, {}, platform)
      const told = yield* listening(store)
      const expected: Array<string> = []
      const outcomes = { whole: 0, nothing: 0 }
      for (let step = 0;; step += times(29, 5)) {
        const victims = victimsOf(step)
        const batches = [0, 1, 2, 3, 4].map((n) => [`${step} ${n} left`, `${step} ${n} right`])
        const writers = yield* Effect.forEach(batches, (batch, n) =>
          Effect.fork(Effect.withMaxOpsBeforeYield(
            store.put(ada, batch.map((body) => draft(body, { id: id(body) }))),
            16 + (step + n) % 7 // a yield after every few steps, so that it can be interrupted there
          )))
        yield* steps(step)
        const isOver = (yield* Effect.forEach(writers, Fiber.poll)).every(({ _tag }) => _tag === "Some")
        yield* Effect.all(victims.map((n) => Fiber.interrupt(writers[n]!)), { concurrency: "unbounded" }).pipe(
          ends(`the interruption at step ${step}`)
        )
        for (const [n, writer] of writers.entries()) {
          const exit = yield* Fiber.await(writer).pipe(ends(`writer ${n}, ${victims} interrupted at step ${step},`))
          const found = yield* Effect.forEach(batches[n]!, (body) => get(store, ada, id(body)))
          const there = found.filter((one) => one !== undefined).length
          assert.include([0, 2], there, `writer ${n} at step ${step}`)
          if (!victims.includes(n)) assert.isTrue(Exit.isSuccess(exit), `writer ${n} at step ${step}: ${exit}`)
          if (Exit.isSuccess(exit)) assert.strictEqual(there, 2)
          if (there > 0) expected.push(...batches[n]!)
          outcomes[there > 0 ? "whole" : "nothing"]++
        }
        yield* put(store, draft(`${step} after`)).pipe(ends(`what follows step ${step}`))
        expected.push(`${step} after`)
        if (isOver) break
      }
      yield* steps(64)
      assert.deepStrictEqual(told.toSorted(), expected.toSorted())
      assert.deepStrictEqual(told, written(root), "in the order of the commits")
      assert.isAbove(outcomes.whole, 0)
      assert.isAbove(outcomes.nothing, 1)
    })

  it.scopedLive("interrupting the first writer at any step leaves each batch whole or absent", () =>
    law(() => [0], quick))
  it.scopedLive("interrupting a later writer at any step leaves each batch whole or absent", () =>
    law((step) => [1 + step % 4], quick))
  it.scopedLive("interrupting two writers at any step leaves each batch whole or absent", () =>
    law((step) => [step % 5, (step + 2) % 5], quick))
  it.scopedLive("interrupting all writers at any step leaves each batch whole or absent, and the next write succeeds", () =>
    law(() => [0, 1, 2, 3, 4], quick))
  it.scopedLive("interrupting two of several writers that wait for a real fsync leaves each batch whole or absent", () =>
    law((step) => [step % 5, (step + 1) % 5]))

  it.scopedLive("a vault stops trying to take the lock of another process once all its waiting writers are interrupted", () =>
    Effect.gen(function*() {
      const root = yield* place
      let claims = 0
      const counting = platformWith((real) => ({
        link: (from, to) => Effect.suspend(() => (claims++, real.link(from, to)))
      }))
      const { store } = yield* opened(root, { lockTimeout: "1 hour" }, counting)
      const other = yield* opened(root, { lockTimeout: "1 hour" })
      yield* put(other.store, draft("of another"))
      fs.writeFileSync(path.join(root, ".effect-memory/lock"), "12345 0")
      const before = claims
      const writers = yield* Effect.replicateEffect(Effect.fork(put(store, draft("gives up"))), 3)
      yield* Effect.sleep(30)
      for (const writer of writers) yield* Fiber.interrupt(writer).pipe(ends("a writer that gives up"))
      assert.isAbove(claims, before)
      yield* Effect.sleep(30)
      const after = claims
      yield* Effect.sleep(50)
      assert.strictEqual(claims, after)
      fs.rmSync(path.join(root, ".effect-memory/lock"))
      yield* put(store, draft("later")).pipe(ends("the next writer"))
    }))

  it.scopedLive("writers that are interrupted while another process holds the lock end without waiting for the lock, and write nothing", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store } = yield* opened(root, { lockTimeout: "1 hour" })
      const lock = yield* Lock.make(yield* VaultFileSystem.make(root), 3_600_000 as never)
      const [held, go] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const holder = yield* Effect.fork(
        lock.withLock(Effect.zipRight(Deferred.succeed(held, undefined), Deferred.await(go)))
      )
      yield* Deferred.await(held)
      const writers = yield* Effect.replicateEffect(Effect.fork(put(store, draft("gives up"))), 3)
      const patient = yield* Effect.fork(put(store, draft("patient")))
      yield* Effect.sleep(30)
      for (const writer of writers) yield* Fiber.interrupt(writer).pipe(ends("a writer that gives up"))
      yield* Deferred.succeed(go, undefined)
      yield* Fiber.join(holder)
      yield* Fiber.join(patient).pipe(ends("a writer that waits"))
      assert.deepStrictEqual((yield* store.list(ada, {})).items.map(({ body }) => body), ["patient"])
    }).pipe(Effect.provide(quick)))
})

const failure: PlatformError = new SystemError({
  reason: "Unknown",
  module: "FileSystem",
  method: "sync",
  cause: Object.assign(new Error("EIO"), { code: "EIO" })
})
type Hook = (method: string, at: string) => boolean
/** Opens a vault on a disk whose calls fail where the hook returns true. */
const failing = (root: string, hook: { fails: Hook }) =>
  opened(
    root,
    { lockTimeout: 30 },
    calling((method, at) => Effect.suspend(() => hook.fails(method, at) ? Effect.fail(failure) : Effect.void))
  )
const healthy: Hook = () => false

describe("concurrent writers of a vault on a disk that fails", () => {
  const numbers = [0, 1, 2, 3, 4, 5]
  for (
    const [length, title] of [[1, "once"], [3, "for three calls"], [Infinity, "until all writers have ended"]] as const
  ) {
    it.scopedLive(
      `exactly the acknowledged writes are kept if the disk fails ${title}, starting at any call`,
      () =>
        Effect.gen(function*() {
          for (let at = 1, isReached = true; isReached; at += times(9, 1)) {
            const root = yield* place
            const hook = { fails: healthy }
            const scope = yield* Scope.make()
            const vault = yield* Scope.extend(failing(root, hook), scope)
            yield* put(vault.store, draft("first"))
            let calls = 0
            hook.fails = () => ++calls >= at && calls < at + length
            const results = yield* Effect.forEach(
              numbers,
              (n) => Effect.either(put(vault.store, draft(`number ${n}`))),
              { concurrency: "unbounded" }
            ).pipe(ends(`call ${at}`))
            isReached = calls >= at
            hook.fails = healthy
            const done = ["first", ...numbers.filter((n) => Either.isRight(results[n]!)).map((n) => `number ${n}`)]
            assert.deepStrictEqual(yield* bodies(vault), done, `${at}`)
            // writes once more in every second round only
            if (at % 2 === 0) {
              yield* put(vault.store, draft("later")).pipe(ends(`the write after call ${at}`))
              done.splice(1, 0, "later")
              assert.deepStrictEqual(yield* bodies(vault), done, `${at}`)
            }
            yield* Scope.close(scope, Exit.void)
            assert.deepStrictEqual(yield* again(root), done, `${at}, reopened`)
          }
        })
    )
  }

  it.scopedLive("batches whose write and rollback both failed are absent once the disk works again", () =>
    Effect.gen(function*() {
      for (const isForced of [true, false]) {
        for (const isClosed of [true, false]) {
          for (const hasFirst of [true, false]) {
            const root = yield* place
            const hook = { fails: healthy }
            const scope = yield* Scope.make()
            const vault = yield* Scope.extend(failing(root, hook), scope)
            if (hasFirst) yield* put(vault.store, draft("first"))
            let isAppended = false
            hook.fails = (method, at) => {
              const wasAppended = isAppended
              isAppended ||= method === "fsync" && at.endsWith("/history")
              return isForced ? wasAppended : isAppended
            }
            const results = yield* Effect.forEach(
              numbers,
              (n) => Effect.either(put(vault.store, draft(`number ${n}`))),
              { concurrency: "unbounded" }
            ).pipe(ends("the writers"))
            hook.fails = healthy
            assert.isTrue(results.every(Either.isLeft))
            if (!isClosed) yield* put(vault.store, draft("later")).pipe(ends("the next writer"))
            const left = [...hasFirst ? ["first"] : [], ...isClosed ? [] : ["later"]]
            assert.deepStrictEqual(yield* bodies(vault), left)
            yield* Scope.close(scope, Exit.void)
            assert.deepStrictEqual(yield* again(root), left, JSON.stringify({ isForced, isClosed, hasFirst }))
          }
        }
      }
    }))

  it.scopedLive("a failed write of a record leaves nothing behind, and a concurrent second write of the record succeeds", () =>
    Effect.gen(function*() {
      const root = yield* place
      const hook = { fails: healthy }
      const vault = yield* failing(root, hook)
      yield* put(vault.store, draft("first"))
      let appends = 0
      hook.fails = (method, at) => {
        if (method === "write" && at.endsWith("/history")) return ++appends === 2
        return method === "rename" && at.includes("/turns/") && appends === 1
      }
      const [one, other] = yield* Effect.forEach(
        ["one", "other"],
        (body) => Effect.either(put(vault.store, draft(body, { id: id("same") }))),
        { concurrency: "unbounded" }
      ).pipe(ends("the writers"))
      hook.fails = healthy
      assert.isTrue(Either.isLeft(one!) && Either.isRight(other!))
      assert.deepStrictEqual(
        (yield* vault.store.history(ada, id("same"))).map(({ body, revision }) => [body, revision]),
        [
          ["other", 1]
        ]
      )
    }))

  it.scopedLive("a write succeeds even if the rollback of an earlier failed batch was written only in part", () =>
    Effect.gen(function*() {
      const root = yield* place
      const hook = { fails: healthy }
      const vault = yield* failing(root, hook)
      yield* put(vault.store, draft("first"))
      let appends = 0
      hook.fails = (method, at) => {
        if (method === "write" && at.endsWith("/history")) return ++appends === 2 // the rollback fails after half of its bytes are written
        return method === "rename" && at.includes("/turns/") && appends === 1
      }
      const result = yield* Effect.either(put(vault.store, draft("failed")))
      assert.isTrue(Either.isLeft(result))
      assert.strictEqual(appends, 2)
      hook.fails = healthy
      yield* put(vault.store, draft("later")).pipe(ends("the next writer"))
      assert.deepStrictEqual(yield* bodies(vault), ["first", "later"])
      assert.deepStrictEqual(yield* again(root), ["first", "later"])
    }))
})

describe("writers that commit together", () => {
  it.scopedLive("changes are published in the order of the commits, however often the writers yield", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store } = yield* opened(root, {}, quick)
      const told = yield* listening(store)
      yield* Effect.forEach(
        Array.from({ length: 96 }, (_, n) => n),
        (n) => Effect.withMaxOpsBeforeYield(put(store, draft(`number ${n}`)), n % 2 === 0 ? 16 : 2_048),
        { concurrency: "unbounded" }
      )
      yield* steps(64)
      assert.lengthOf(told, 96)
      assert.deepStrictEqual(told, written(root))
    }))
})

describe("writers of two processes that write without a pause", () => {
  it.scopedLive("a process waits for at most 384 records of another process that writes without a pause", () =>
    Effect.gen(function*() {
      const root = yield* place
      const [one, other] = [yield* opened(root), yield* opened(root)]
      const count = times(60, 400)
      let isOver = false
      const many = ({ store }: Opened, name: string) =>
        Effect.forEach(
          Array.from({ length: 8 }, (_, n) => n),
          (n) =>
            Effect.gen(function*() {
              for (let k = 0; k < count && !isOver; k++) yield* put(store, draft(`${name} ${n} ${k}`))
              isOver = true // stops all writers, so that neither process goes on alone
            }),
          { concurrency: "unbounded" }
        )
      yield* Effect.all([many(one, "one"), many(other, "other")], { concurrency: 2 })
      const runs = written(root).map((body) => body!.split(" ")[0]).reduce<
        Array<readonly [string | undefined, number]>
      >(
        (runs, name) => {
          const last = runs.at(-1)
          return last?.[0] === name ? [...runs.slice(0, -1), [name, last![1] + 1]] : [...runs, [name, 1]]
        },
        []
      )
      assert.isAtMost(Math.max(...runs.map(([, length]) => length)), 3 * 128)
      assert.isAbove(runs.length, 2)
    }))
})
