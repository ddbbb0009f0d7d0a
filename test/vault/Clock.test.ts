/** Tests of vaults in use while the system clock is set back or forward by a day. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as fs from "node:fs"
import * as path from "node:path"
import { pathOf } from "../../src/storage/MemoryStore/Markdown/Layout.ts"
import { ada, draft, get, id, listed, put } from "../../src/testing/Sample.ts"
import { calling } from "./Calls.ts"
import { eventually, opened, place } from "./Place.ts"

const day = 86_400_000
const one = id("one")
const at = pathOf("default", { userId: "ada" }, one)
const lock = (root: string) => path.join(root, ".effect-memory/lock")

/** The system clock with an offset that a test changes. Monotonic time and sleeping are not affected. */
const adjustable = Effect.clockWith((clock) =>
  Effect.sync(() => {
    const time = { offset: 0 }
    const skewed: Clock.Clock = {
      ...{ [Clock.ClockTypeId]: Clock.ClockTypeId, sleep: clock.sleep, currentTimeNanos: clock.currentTimeNanos },
      unsafeCurrentTimeNanos: () => clock.unsafeCurrentTimeNanos(),
      unsafeCurrentTimeMillis: () => clock.unsafeCurrentTimeMillis() + time.offset,
      currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now + time.offset)
    }
    return { time, skewed }
  })
)

/** Edits the file of a record in place, as an author does, with the clock's current time. */
const edit = (root: string, from: string, to: string) =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const file = path.join(root, at)
    const text = fs.readFileSync(file, "utf8")
    assert.include(text, from)
    fs.writeFileSync(file, text.replaceAll(from, to))
    fs.utimesSync(file, now / 1_000, now / 1_000)
  })

for (const [name, jump] of [["back", -day], ["forward", day]] as const) {
  describe(`a vault whose system clock is set ${name} by a day`, () => {
    it.scopedLive("edits by hand, and records written through another open store of the vault, are still read", () =>
      Effect.gen(function*() {
        const root = yield* place
        const { skewed, time } = yield* adjustable
        yield* Effect.gen(function*() {
          const [ours, theirs] = [yield* opened(root), yield* opened(root)]
          yield* put(ours.store, draft("text 00", { id: one }))
          let text = "text 00"
          for (let n = 1; n <= 6; n += 2) {
            const [edited, written] = [`text 0${n}`, `text 0${n + 1}`]
            if (n === 3) time.offset += jump
            yield* edit(root, text, edited) // an edit that keeps the file's length
            for (const { store, vault } of [ours, theirs]) {
              yield* vault.refresh
              assert.strictEqual((yield* get(store, ada, one))?.body, edited)
            }
            if (n === 5) time.offset -= jump
            yield* theirs.store.update(ada, one, { body: written })
            yield* ours.vault.refresh
            assert.strictEqual((yield* get(ours.store, ada, one))?.body, written)
            text = written
          }
          for (const { store, vault } of [ours, theirs, yield* opened(root)]) {
            assert.deepStrictEqual(yield* vault.issues, [])
            const past = yield* store.history(ada, one)
            assert.deepStrictEqual(past.map(({ revision }) => revision), [7, 6, 5, 4, 3, 2, 1])
            assert.deepStrictEqual(past.map(({ body }) => body), [6, 5, 4, 3, 2, 1, 0].map((n) => `text 0${n}`))
          }
        }).pipe(Effect.withClock(skewed))
      }))

    it.scopedLive("a waiting writer still takes over a stale lock after the clock is set", () =>
      Effect.gen(function*() {
        const root = yield* place
        const { skewed, time } = yield* adjustable
        yield* Effect.gen(function*() {
          yield* Effect.scoped(opened(root))
          let looks = 0
          const vault = yield* opened(
            root,
            { lockTimeout: 100 },
            calling((method, at) => Effect.sync(() => void (method === "read" && at === lock(root) && looks++)))
          )
          fs.writeFileSync(lock(root), "12345 0")
          const waiting = yield* Effect.fork(put(vault.store, draft("tea")))
          yield* eventually("a look at the lock", Effect.sync(() => looks > 2))
          time.offset += jump
          yield* Fiber.join(waiting)
          assert.deepStrictEqual(yield* listed(vault.store, ada), ["tea"])
        }).pipe(Effect.withClock(skewed))
      }))

    it.scopedLive("a living writer keeps the lock while another writer waits for it", () =>
      Effect.gen(function*() {
        const root = yield* place
        const { skewed, time } = yield* adjustable
        yield* Effect.gen(function*() {
          const [holds, goes] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
          let isGated = false
          const holder = yield* opened(
            root,
            { lockTimeout: 3_000 },
            calling((method, at) =>
              Effect.suspend(() =>
                isGated && method === "open" && at.includes("/turns/")
                  ? Effect.zipRight(Deferred.succeed(holds, undefined), Deferred.await(goes))
                  : Effect.void
              )
            )
          )
          let [looks, thefts] = [0, 0]
          const other = yield* opened(
            root,
            { lockTimeout: 3_000 },
            calling((method, at) =>
              Effect.sync(() => {
                if (method === "read" && at === lock(root)) looks++
                if (method === "rename" && at === lock(root)) thefts++
              })
            )
          )
          isGated = true
          const first = yield* Effect.fork(put(holder.store, draft("first", { id: one })))
          yield* Deferred.await(holds)
          const second = yield* Effect.fork(put(other.store, draft("second")))
          yield* eventually("a look at the lock", Effect.sync(() => looks > 2))
          time.offset += jump
          yield* eventually("more looks", Effect.sync(() => looks > 20))
          assert.strictEqual(thefts, 0)
          yield* Deferred.succeed(goes, undefined)
          yield* Fiber.join(first)
          yield* Fiber.join(second)
          yield* other.vault.refresh
          assert.strictEqual((yield* get(other.store, ada, one))?.body, "first")
        }).pipe(Effect.withClock(skewed))
      }))
  })
}
