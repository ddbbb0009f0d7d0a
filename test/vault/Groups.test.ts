/** Tests of group commits when the disk is full, when files are edited by hand meanwhile, or when the lock is lost in the middle. */
import { type PlatformError, SystemError } from "@effect/platform/Error"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"
import { pathOf } from "../../src/storage/MemoryStore/Markdown/Layout.ts"
import { ada, draft, get, id, put } from "../../src/testing/Sample.ts"
import { calling } from "./Calls.ts"
import { files, type Opened, opened, place, platformWith } from "./Place.ts"

const numbers = [0, 1, 2, 3, 4, 5]
const idOf = (n: number) => id(`n${n}`)
const bodies = ({ store }: Opened) =>
  Effect.map(store.list(ada, { limit: 100 }), ({ items }) => items.map(({ body }) => body).sort())
const again = (root: string) => Effect.scoped(Effect.flatMap(opened(root, { lockTimeout: 30 }), bodies))
const fileOf = (root: string, one: ReturnType<typeof id>) => path.join(root, pathOf("default", { userId: "ada" }, one))
const failureOf = (code: string): PlatformError =>
  new SystemError({
    reason: "Unknown",
    module: "FileSystem",
    method: "write",
    cause: Object.assign(new Error(code), { code })
  })
const isHistory = (at: string) => at.endsWith("/history")
const isRecord = (at: string) => /\/turns\/[^/]+\/\d+$/.test(at)

/** A disk that becomes full at the write for which `fillsAt` returns true. */
interface Filling {
  fillsAt: (at: string) => boolean
  isFull: boolean
  /** Runs during each write that fails, after half of the bytes were written. */
  readonly before?: Effect.Effect<void>
}
/** A disk on which, once full, every write that adds bytes fails after half of them. Overwriting still succeeds. */
const filling = (fs: Filling) =>
  platformWith((real) => ({
    open: (at, options) =>
      Effect.map(real.open(at, options), (file) =>
        new Proxy(file, {
          get(target, key) {
            if (key === "writeAll") {
              return (bytes: Uint8Array) =>
                Effect.suspend(() => {
                  fs.isFull ||= fs.fillsAt(at)
                  return fs.isFull && options?.flag !== "r+" && !at.includes("/claim.") // a heartbeat overwrites its bytes
                    ? Effect.zipRight(
                      target.writeAll(bytes.subarray(0, bytes.length >> 1)),
                      Effect.zipRight(fs.before ?? Effect.void, Effect.fail(failureOf("ENOSPC")))
                    )
                    : target.writeAll(bytes)
                })
            }
            const value: unknown = Reflect.get(target, key)
            return typeof value === "function" ? value.bind(target) : value
          }
        }))
  }))

type Hook = (method: string, at: string) => Effect.Effect<void, PlatformError>
const nothing: Hook = () => Effect.void
/** Opens a vault whose disk calls each run a hook first. */
const hooked = (root: string, hook: { before: Hook }) =>
  opened(root, { lockTimeout: "1 hour" }, calling((method, at) => Effect.suspend(() => hook.before(method, at))))
/** Puts all records concurrently; returns the result of each. */
const all = ({ store }: Opened) =>
  Effect.forEach(numbers, (n) => Effect.either(put(store, draft(`number ${n}`, { id: idOf(n) }))), {
    concurrency: "unbounded"
  })

describe("a group commit (one fsync for the batches of several writers) on a disk that becomes full", () => {
  for (const [title, fillsAt] of [["its history lines", isHistory], ["its record files", isRecord]] as const) {
    for (const isFreed of [true, false]) {
      it.scopedLive(
        `a group commit that fails while writing ${title} has no effect after a reopening if the disk then ${
          isFreed ? "gets free space" : "stays full"
        }`,
        () =>
          Effect.gen(function*() {
            const root = yield* place
            const fs = { fillsAt: (_: string) => false, isFull: false }
            const scope = yield* Scope.make()
            const vault = yield* Scope.extend(opened(root, {}, filling(fs)), scope)
            yield* put(vault.store, draft("first"))
            fs.fillsAt = fillsAt
            assert.isTrue((yield* all(vault)).every(Either.isLeft))
            assert.isTrue(fs.isFull)
            assert.deepStrictEqual(yield* bodies(vault), ["first"])
            if (isFreed) {
              Object.assign(fs, { fillsAt: () => false, isFull: false })
              yield* put(vault.store, draft("later"))
            }
            yield* Scope.close(scope, Exit.void)
            assert.deepStrictEqual(yield* again(root), isFreed ? ["first", "later"] : ["first"])
            assert.lengthOf(Object.keys(files(root)), isFreed ? 2 : 1)
          })
      )
    }
  }

  it.scopedLive("another process does not complete a failed batch, even if it has read the batch's lines in the history", () =>
    Effect.gen(function*() {
      const root = yield* place
      const other = yield* opened(root)
      const fs = { fillsAt: (_: string) => false, isFull: false, before: Effect.orDie(other.vault.refresh) }
      const vault = yield* opened(root, {}, filling(fs))
      yield* put(vault.store, draft("a 1", { id: id("a") }))
      yield* put(vault.store, draft("b 1", { id: id("b") }))
      fs.fillsAt = isRecord
      const result = yield* Effect.either(vault.store.apply(ada, [
        { _tag: "Update", id: id("b"), patch: { body: "b 2" } },
        { _tag: "Forget", id: id("a") }
      ]))
      assert.isTrue(Either.isLeft(result))
      yield* other.vault.refresh
      yield* put(other.store, draft("other"))
      Object.assign(fs, { fillsAt: () => false, isFull: false })
      assert.deepStrictEqual(yield* bodies(other), ["a 1", "b 1", "other"])
      assert.lengthOf(yield* other.store.history(ada, id("a")), 1)
      assert.deepStrictEqual(yield* bodies(vault), ["a 1", "b 1"])
      yield* vault.vault.refresh
      assert.deepStrictEqual(yield* bodies(vault), ["a 1", "b 1", "other"])
      assert.deepStrictEqual(yield* again(root), ["a 1", "b 1", "other"])
    }))
})

describe("a file of a group commit that is edited by hand", () => {
  for (
    const [title, isMoment] of [
      [
        "before the group's history lines are forced to disk",
        (method: string, at: string) => method === "fsync" && isHistory(at)
      ],
      [
        "before the group's lines are appended to the history",
        (method: string, at: string) => method === "write" && isHistory(at)
      ],
      ["before the group commit opens the history", (method: string, at: string) => method === "open" && isHistory(at)],
      ["before the group's first file is replaced", (method: string, at: string) => method === "rename" && isRecord(at)]
    ] as const
  ) {
    it.scopedLive(`an edit by hand ${title} is kept as a revision`, () =>
      Effect.gen(function*() {
        const root = yield* place
        const hook = { before: nothing }
        const vault = yield* hooked(root, hook)
        yield* vault.store.put(ada, numbers.map((n) => draft(`number ${n}`, { id: idOf(n) })))
        const at = fileOf(root, idOf(3))
        let isEdited = false
        hook.before = (method, where) =>
          Effect.sync(() => {
            if (isEdited || !isMoment(method, where)) return
            isEdited = true
            fs.writeFileSync(at, fs.readFileSync(at, "utf8").replace(/number 3\n$/, "by hand\n"))
          })
        yield* Effect.forEach(numbers, (n) => vault.store.update(ada, idOf(n), { summary: `summary ${n}` }), {
          concurrency: "unbounded"
        })
        assert.isTrue(isEdited)
        hook.before = nothing
        yield* vault.vault.refresh
        const texts = (yield* vault.store.history(ada, idOf(3))).map(({ body, summary }) => `${body}, ${summary}`)
        assert.isTrue(texts.some((text) => text.startsWith("by hand")), `${texts}`)
        assert.isTrue(texts.some((text) => text.endsWith("summary 3")), `${texts}`)
        assert.include(fs.readFileSync(at, "utf8"), "by hand")
        for (const n of numbers.filter((n) => n !== 3)) {
          assert.strictEqual((yield* get(vault.store, ada, idOf(n)))?.summary, `summary ${n}`)
        }
        const now = yield* get(vault.store, ada, idOf(3))
        const reopened = yield* Effect.scoped(
          Effect.flatMap(opened(root, { lockTimeout: 30 }), ({ store }) => get(store, ada, idOf(3)))
        )
        assert.deepStrictEqual(reopened, now)
      }))
  }
})

describe("a group commit that falls back to single writes because one file cannot be written", () => {
  for (
    const [title, outcome] of [["cannot read its files", "fails"], [
      "loses the lock to another process",
      "goes"
    ]] as const
  ) {
    it.scopedLive(`each successful put is stored and no failed put is, even if one writer ${title} during the single writes`, () =>
      Effect.gen(function*() {
        const root = yield* place
        const hook = { before: nothing }
        const vault = yield* hooked(root, hook)
        yield* put(vault.store, draft("first"))
        let appends = 0
        hook.before = (method, at) => {
          if (method === "write" && isHistory(at)) appends++
          if (method === "rename" && isRecord(at) && fs.readFileSync(at, "utf8").endsWith("number 5\n")) {
            return Effect.fail(failureOf("EIO"))
          }
          return Effect.void
        }
        const isLook = (method: string, at: string) =>
          outcome === "fails"
            ? method === "read" && at === fileOf(root, idOf(2))
            : method === "stat" && at.endsWith("/lock")
        const before = hook.before
        let isDone = false
        hook.before = (method, at) => {
          // the group was written and rolled back, and two single writes succeeded
          if (!isDone && appends >= 4 && isLook(method, at)) {
            isDone = true
            if (outcome === "fails") return Effect.fail(failureOf("EIO"))
            fs.rmSync(path.join(root, ".effect-memory/lock")) // as if another process had taken the lock and released it
          }
          return before(method, at)
        }
        const revisions = yield* Effect.forEach(
          numbers,
          (n) => Effect.either(put(vault.store, draft(`number ${n}`, { id: idOf(n) }))),
          { concurrency: "unbounded" }
        )
        assert.isTrue(isDone)
        hook.before = nothing
        for (const [n, result] of revisions.entries()) {
          const there = yield* get(vault.store, ada, idOf(n))
          assert.strictEqual(Either.isRight(result), there !== undefined, `${n}`)
          if (there) assert.strictEqual(there.revision, 1, `${n} is written once`)
        }
        const now = yield* bodies(vault)
        assert.deepStrictEqual(yield* again(root), now)
        assert.includeMembers(now, ["number 0", "number 1"])
      }))
  }
})

describe("a put", () => {
  it.scopedLive("a put that starts during or after the closing of the vault's Effect scope is acknowledged and kept", () =>
    Effect.gen(function*() {
      for (let stop = 1, isReached = true; isReached; stop += 2) {
        const root = yield* place
        const hook = { before: nothing }
        const scope = yield* Scope.make()
        const vault = yield* Scope.extend(hooked(root, hook), scope)
        yield* put(vault.store, draft("first"))
        const [reached, go] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        let calls = 0
        hook.before = () =>
          ++calls === stop ? Effect.zipRight(Deferred.succeed(reached, undefined), Deferred.await(go)) : Effect.void
        const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
        yield* Effect.race(Deferred.await(reached), Fiber.await(closing))
        isReached = yield* Deferred.isDone(reached)
        const writing = yield* Effect.fork(put(vault.store, draft("while it closes")))
        for (let turns = 0; turns < stop % 8; turns++) yield* Effect.yieldNow()
        yield* Deferred.succeed(go, undefined)
        yield* Fiber.join(writing)
        yield* Fiber.join(closing)
        yield* put(vault.store, draft("after"))
        assert.deepStrictEqual(yield* bodies(vault), ["after", "first", "while it closes"], `${stop}`)
        assert.deepStrictEqual(yield* again(root), ["after", "first", "while it closes"], `${stop}`)
        assert.isFalse(fs.existsSync(path.join(root, ".effect-memory/lock")), `${stop}`)
      }
    }))

  it.scopedLive("a put is acknowledged and kept even if the vault's Effect scope closes at any of the put's disk calls", () =>
    Effect.gen(function*() {
      for (let stop = 1, isReached = true; isReached; stop++) {
        const root = yield* place
        const hook = { before: nothing }
        const scope = yield* Scope.make()
        const vault = yield* Scope.extend(hooked(root, hook), scope)
        yield* put(vault.store, draft("first"))
        let calls = 0
        let closing: Fiber.RuntimeFiber<void> | undefined
        hook.before = () => {
          if (++calls === stop) closing = Effect.runFork(Scope.close(scope, Exit.void), { immediate: false })
          return Effect.void
        }
        const written = [
          yield* Effect.fork(put(vault.store, draft("a"))),
          yield* Effect.fork(put(vault.store, draft("b")))
        ]
        for (const fiber of written) yield* Fiber.join(fiber)
        isReached = closing !== undefined
        if (closing) yield* Fiber.await(closing)
        else yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(yield* again(root), ["a", "b", "first"], `${stop}`)
        assert.isFalse(fs.existsSync(path.join(root, ".effect-memory/lock")), `${stop}`)
      }
    }))
})

describe("the fiber that leads a group commit", () => {
  it.scopedLive("the fiber that leads a group commit has no span or log annotation of a writer", () =>
    Effect.gen(function*() {
      const root = yield* place
      const seen: Array<readonly [span: string | undefined, notes: ReadonlyArray<string>]> = []
      const hook: { before: Hook } = { before: nothing }
      const vault = yield* Effect.annotateLogs(hooked(root, hook), "vault", "opened")
      hook.before = (method, at) =>
        method === "fsync" && isHistory(at)
          ? Effect.zipWith(Effect.option(Effect.currentSpan), Effect.logAnnotations, (span, notes) => {
            seen.push([Option.getOrUndefined(span)?.name, Array.from(HashMap.keys(notes))])
          })
          : Effect.void
      const writer = (name: string) =>
        put(vault.store, draft(name)).pipe(Effect.withSpan(name), Effect.annotateLogs(name, name))
      yield* Effect.forEach(["one", "two", "three"], writer, { concurrency: "unbounded" })
      assert.isAbove(seen.length, 0)
      for (const one of seen) assert.deepStrictEqual(one, [undefined, ["vault"]])
      // the same if nothing was set when the vault was opened
      const plain = yield* hooked(yield* place, hook)
      seen.length = 0
      yield* put(plain.store, draft("one")).pipe(Effect.withSpan("one"), Effect.annotateLogs("one", "one"))
      assert.isAbove(seen.length, 0)
      for (const one of seen) assert.deepStrictEqual(one, [undefined, []])
    }))
})
