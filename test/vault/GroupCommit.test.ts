/** Tests of concurrent writers. The commits of writers of one process are forced to disk together (group commit). */
import { type PlatformError, SystemError } from "@effect/platform/Error"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as fs from "node:fs"
import * as path from "node:path"
import { ada, draft, fact, get, id, put } from "../../src/testing/Sample.ts"
import { calling } from "./Calls.ts"
import { files, type Opened, opened, place } from "./Place.ts"

const count = 24
const numbers = Array.from({ length: count }, (_, n) => n)
const idOf = (n: number) => id(`n${n}`)
const bodyOf = (n: number) => `note number ${n}`
const isHistory = (at: string) => at.endsWith("/history")
const failure: PlatformError = new SystemError({
  reason: "Unknown",
  module: "FileSystem",
  method: "sync",
  cause: Object.assign(new Error("EIO"), { code: "EIO" })
})

/** Puts all notes concurrently; returns the result of each. */
const all = ({ store }: Opened, acknowledged: (n: number) => void = () => {}) =>
  Effect.forEach(
    numbers,
    (n) =>
      Effect.either(
        Effect.tap(put(store, draft(bodyOf(n), { id: idOf(n) })), () => Effect.sync(() => acknowledged(n)))
      ),
    { concurrency: "unbounded" }
  )
const bodies = ({ store }: Opened) =>
  Effect.map(store.list(ada, { limit: 100 }), ({ items }) => items.map(({ body }) => body).sort())

/** Opens a vault whose disk calls each run a hook first. */
const hooked = (root: string) => {
  let hook: (method: string, at: string) => Effect.Effect<void, PlatformError> = () => Effect.void
  return Effect.map(
    opened(root, { lockTimeout: "1 hour" }, calling((method, at) => Effect.suspend(() => hook(method, at)))),
    (vault) => ({
      ...vault,
      hook: (next: typeof hook) => {
        hook = next
      }
    })
  )
}

type Hooked = Effect.Effect.Success<ReturnType<typeof hooked>>
/**
 * Blocks one writer in its fsync of the history until all others are queued behind it. `second` runs at the next fsync, which the queued
 * writers share.
 */
const behind = (vault: Hooked, second: Effect.Effect<void, PlatformError>, acknowledged?: (n: number) => void) =>
  Effect.gen(function*() {
    const [reached, go] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
    let syncs = 0
    vault.hook((method, at) => {
      if (method !== "fsync" || !isHistory(at)) return Effect.void
      syncs++
      if (syncs === 1) return Effect.zipRight(Deferred.succeed(reached, undefined), Deferred.await(go))
      return syncs === 2 ? second : Effect.void
    })
    const busy = yield* Effect.fork(put(vault.store, draft("busy")))
    yield* Deferred.await(reached)
    const writing = yield* Effect.fork(all(vault, acknowledged))
    for (let turns = 0; turns < 500; turns++) yield* Effect.yieldNow()
    yield* Deferred.succeed(go, undefined)
    yield* Fiber.join(busy)
    return { writing, syncs: () => syncs }
  })

describe("concurrent writers", () => {
  it.scopedLive("concurrent writers share one fsync of the history, with their batches in the order of the calls", () =>
    Effect.gen(function*() {
      const root = yield* place
      const vault = yield* hooked(root)
      const { syncs, writing } = yield* behind(vault, Effect.void)
      assert.isTrue((yield* Fiber.join(writing)).every(Either.isRight))
      assert.strictEqual(syncs(), 2)
      const lines = fs.readFileSync(path.join(root, ".effect-memory/history"), "utf8").match(/note number \d+/g)
      assert.deepStrictEqual(Array.from(new Set(lines)), numbers.map(bodyOf))
      assert.lengthOf(Object.keys(files(root)), count + 1)
      const now = yield* bodies(vault)
      assert.deepStrictEqual(yield* Effect.scoped(Effect.flatMap(opened(root), bodies)), now)
    }))

  it.scopedLive("writes are acknowledged and visible to readers only after the shared fsync of the history", () =>
    Effect.gen(function*() {
      const vault = yield* hooked(yield* place)
      const [reached, go] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const told: Array<number> = []
      const held = Effect.zipRight(Deferred.succeed(reached, undefined), Deferred.await(go))
      const { writing } = yield* behind(vault, held, (n) => told.push(n))
      yield* Deferred.await(reached)
      for (let turns = 0; turns < 100; turns++) yield* Effect.yieldNow()
      assert.deepStrictEqual(yield* bodies(vault), ["busy"])
      assert.deepStrictEqual(told, [])
      yield* Deferred.succeed(go, undefined)
      yield* Fiber.join(writing)
      assert.deepStrictEqual(told, numbers, "in their order")
      assert.lengthOf(yield* bodies(vault), count + 1)
    }))

  it.scopedLive("a failed shared fsync makes all waiting writers fail, and leaves nothing of their batches", () =>
    Effect.gen(function*() {
      const root = yield* place
      const vault = yield* hooked(root)
      const { writing } = yield* behind(vault, Effect.fail(failure))
      for (const result of yield* Fiber.join(writing)) {
        assert.isTrue(Either.isLeft(result) && result.left.reason === "io")
      }
      vault.hook(() => Effect.void)
      const again = Effect.scoped(Effect.flatMap(opened(root), bodies))
      assert.deepStrictEqual(yield* bodies(vault), ["busy"])
      assert.lengthOf(Object.keys(files(root)), 1)
      assert.deepStrictEqual(yield* again, ["busy"])
      assert.isTrue((yield* all(vault)).every(Either.isRight))
      assert.lengthOf(yield* again, count + 1)
    }))

  it.scopedLive("a writer whose file cannot be written fails alone; the other concurrent writers succeed", () =>
    Effect.gen(function*() {
      const root = yield* place
      const vault = yield* hooked(root)
      yield* put(vault.store, draft("first"))
      const isFifth = (at: string) => fs.readFileSync(at, "utf8").endsWith(`${bodyOf(4)}\n`)
      vault.hook((method, at) =>
        method === "rename" && at.includes("/turns/") && isFifth(at) ? Effect.fail(failure) : Effect.void
      )
      const results = yield* all(vault)
      vault.hook(() => Effect.void)
      assert.deepStrictEqual(results.flatMap((result, n) => Either.isLeft(result) ? [n] : []), [4])
      const done = results.flatMap((result, n) => Either.isRight(result) ? [bodyOf(n)] : [])
      assert.deepStrictEqual(yield* bodies(vault), ["first", ...done].sort())
      assert.deepStrictEqual(yield* Effect.scoped(Effect.flatMap(opened(root), bodies)), ["first", ...done].sort())
    }))

  it.scopedLive("concurrent updates make consecutive revisions, and concurrent puts of the same fact make one record", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store } = yield* opened(root)
      yield* put(store, draft("counted", { id: id("a") }))
      const updated = yield* Effect.forEach(numbers, (n) => store.update(ada, id("a"), { body: `counted ${n}` }), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(updated.map(({ revision }) => revision), numbers.map((n) => n + 2))
      assert.strictEqual((yield* get(store, ada, id("a")))?.revision, count + 1)
      const same = yield* Effect.forEach(numbers, () => store.put(ada, [fact("Tea")]), { concurrency: "unbounded" })
      assert.strictEqual(new Set(same.map(([one]) => one!.record.id)).size, 1)
      const mixed = yield* Effect.forEach(
        numbers,
        (n) =>
          n % 3 === 0
            ? Effect.asVoid(store.forget(ada, [id("a")], { purge: n % 2 === 0 }))
            : Effect.asVoid(put(store, draft(`again ${n}`, { id: id("a") }))),
        { concurrency: "unbounded" }
      )
      assert.lengthOf(mixed, count)
      assert.strictEqual((yield* get(store, ada, id("a")))?.body, `again ${count - 1}`)
    }))

  it.scopedLive("a call that fails before it writes does not wait for the fsync of a concurrent writer", () =>
    Effect.gen(function*() {
      const vault = yield* hooked(yield* place)
      yield* put(vault.store, draft("first"))
      const [reached, go] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      vault.hook((method, at) =>
        method === "fsync" && isHistory(at)
          ? Effect.zipRight(Deferred.succeed(reached, undefined), Deferred.await(go))
          : Effect.void
      )
      const writing = yield* Effect.fork(put(vault.store, draft("busy")))
      const refused = yield* Effect.fork(Effect.either(vault.store.update(ada, idOf(1), { body: "of none" })))
      yield* Deferred.await(reached)
      for (let turns = 0; turns < 500; turns++) yield* Effect.yieldNow()
      const ended = yield* Fiber.poll(refused)
      yield* Deferred.succeed(go, undefined)
      yield* Fiber.join(writing)
      assert.strictEqual(ended._tag, "Some")
      assert.isTrue(Either.isLeft(yield* Fiber.join(refused)))
    }))

  it.scopedLive("writers that are interrupted while they wait do not block later writers", () =>
    Effect.gen(function*() {
      const root = yield* place
      const vault = yield* opened(root)
      for (let round = 0; round < 8; round++) {
        const writing = yield* Effect.forEach(
          numbers,
          (n) => Effect.fork(put(vault.store, draft(`${bodyOf(n)} of ${round}`)))
        )
        for (let turns = 0; turns < round; turns++) yield* Effect.yieldNow()
        for (const [n, fiber] of writing.entries()) if (n % 3 === round % 3) yield* Fiber.interruptFork(fiber)
        for (const [n, fiber] of writing.entries()) if (n % 3 !== round % 3) yield* Fiber.join(fiber)
        for (const fiber of writing) yield* Fiber.await(fiber)
      }
      const now = yield* bodies(vault)
      assert.isAtLeast(now.length, 100)
      // every second writer is interrupted at the moment when the writer before it ends
      const chain: Array<Fiber.RuntimeFiber<unknown, unknown>> = []
      for (const n of numbers) {
        const next = Effect.suspend(() =>
          n % 2 === 0 && chain[n + 1] ? Fiber.interruptFork(chain[n + 1]!) : Effect.void
        )
        chain.push(yield* Effect.fork(Effect.ensuring(put(vault.store, draft(`chained ${n}`, { id: id("a") })), next)))
      }
      for (const fiber of chain) yield* Fiber.await(fiber)
      yield* put(vault.store, draft("later"))
    }))

  it.scopedLive("concurrent writers of two processes all get the lock, and no write is lost", () =>
    Effect.gen(function*() {
      const root = yield* place
      const [one, other] = [yield* opened(root), yield* opened(root)]
      const many = (vault: Opened, name: string) =>
        Effect.forEach(numbers, (n) => put(vault.store, draft(`${name} ${n}`)), { concurrency: "unbounded" })
      yield* Effect.all([many(one, "one"), many(other, "other")], { concurrency: 2 })
      yield* one.vault.refresh
      yield* other.vault.refresh
      const now = yield* bodies(one)
      assert.lengthOf(now, 2 * count)
      assert.deepStrictEqual(yield* bodies(other), now)
    }))

  it.scopedLive("acknowledged writes of concurrent writers are kept if the process dies at one of their disk calls", () =>
    Effect.gen(function*() {
      for (let stop = 1, isReached = true; isReached; stop += 7) {
        isReached = yield* Effect.scoped(Effect.gen(function*() {
          const [root, copy] = [yield* place, yield* place]
          const vault = yield* hooked(root)
          yield* put(vault.store, draft("first"))
          const [reached, go] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
          let calls = 0
          vault.hook(() =>
            ++calls === stop ? Effect.zipRight(Deferred.succeed(reached, undefined), Deferred.await(go)) : Effect.void
          )
          const told: Array<number> = []
          const writing = yield* Effect.fork(all(vault, (n) => told.push(n)))
          yield* Effect.race(Deferred.await(reached), Fiber.await(writing))
          const acknowledged = told.slice()
          fs.cpSync(root, copy, { recursive: true }) // the files as they are left if the process dies here
          yield* Deferred.succeed(go, undefined)
          yield* Fiber.join(writing)
          const found = yield* Effect.scoped(Effect.flatMap(opened(copy, { lockTimeout: 30 }), bodies))
          assert.deepStrictEqual(found, ["first", ...numbers.slice(0, found.length - 1).map(bodyOf)].sort(), `${stop}`)
          assert.includeMembers(found, acknowledged.map(bodyOf), `${stop}`)
          return yield* Deferred.isDone(reached)
        }))
      }
    }))
})
