/**
 * Tests of a writer that stalls before one of its disk calls, so long that others take its lock and write, and then continues. The others
 * opened the vault before the stall, or open it during the stall and compact the history if that is due.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as fs from "node:fs"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import type { Service } from "../../src/storage/MemoryStore.ts"
import { ada, draft, id, put, system } from "../../src/testing/Sample.ts"
import { calling } from "./Calls.ts"
import { type Opened, opened, place } from "./Place.ts"
import { times } from "./Program.ts"

const [a, b, c, d, long] = [id("a"), id("b"), id("c"), id("d"), id("long")]
/**
 * Whether the writer is stopped before this disk call: under `npm run soak`, before every call, otherwise only before renames and before
 * writes of the history.
 */
const isStep = (method: string, at: string) =>
  isSoak || method === "rename" || (method === "write" && at.endsWith("history"))
const isSoak = times(0, 1) === 1

/** An operation of the writer that is stopped, and its expected effects if it was acknowledged or not. */
interface Operation {
  readonly run: (store: Service) => Effect.Effect<unknown, MemoryError>
  /** Texts that the vault holds, in any revision, if and only if the operation was acknowledged. */
  readonly texts: ReadonlyArray<string>
  /** Records that are not listed if and only if the operation was acknowledged. */
  readonly forgotten?: ReadonlyArray<typeof a>
  /** A large record is purged by the operation (`purged`) or before it (`gone`). This purge makes a compaction due. */
  readonly long?: "purged" | "gone"
}
const operations: Readonly<Record<string, Operation>> = {
  "purge of many revisions": {
    run: (store) => store.forget(ada, [long], { purge: true }),
    texts: [],
    long: "purged"
  },
  "update that compacts the history first": {
    run: (store) => store.update(ada, a, { body: "a sleeper" }),
    texts: ["a sleeper"],
    long: "gone"
  },
  batch: {
    run: (store) =>
      store.apply(ada, [
        { _tag: "Put", draft: draft("c sleeper", { id: c }) },
        { _tag: "Update", id: a, patch: { body: "a sleeper" } },
        { _tag: "Forget", id: b }
      ]),
    texts: ["c sleeper", "a sleeper"],
    forgotten: [b]
  },
  put: { run: (store) => put(store, draft("c sleeper", { id: c })), texts: ["c sleeper"] },
  update: { run: (store) => store.update(ada, a, { body: "a sleeper" }), texts: ["a sleeper"] },
  "update of a revision": {
    run: (store) => store.update(ada, a, { body: "a sleeper" }, { ifRevision: 2 }),
    texts: ["a sleeper"]
  },
  forget: { run: (store) => store.forget(ada, [b]), texts: [], forgotten: [b] },
  restore: {
    run: (store) => store.apply(ada, [{ _tag: "Restore", id: d, revision: 1, ifRevision: 2 }]),
    texts: []
  }
}

/** Makes a vault with a record at revision 2, one at revision 1 and a forgotten one. With a `kind`, it also has a large record. */
const filled = (kind: Operation["long"]) =>
  Effect.gen(function*() {
    const root = yield* place
    yield* Effect.scoped(Effect.gen(function*() {
      const { store } = yield* opened(root)
      const count = kind === undefined ? 0 : 19
      for (let n = 0; n < count; n++) yield* put(store, draft(`long ${n} `.padEnd(60_000, "x"), { id: long }))
      yield* put(store, draft("a 1", { id: a }))
      yield* store.update(ada, a, { body: "a 2" })
      yield* put(store, draft("b 1", { id: b }))
      yield* put(store, draft("d 1", { id: d }))
      yield* store.forget(ada, [d])
    }))
    return root
  })

const all = [a, b, c, d]
/** Returns the revisions of each record: number and first twenty characters of the body. */
const past = (store: Service) =>
  Effect.forEach(
    [...all, long],
    (one) =>
      Effect.map(store.history(system, one), (revisions) =>
        revisions.map(({ body, revision }) => `${revision} ${body.slice(0, 20).trim()}`))
  )
const listed = (store: Service) =>
  Effect.map(
    store.list(ada, {}),
    ({ items }) => items.map(({ body, id, revision }) => `${id} ${revision} ${body}`).sort()
  )
const state = ({ store }: Opened) => Effect.all([past(store), listed(store)])

describe("a writer that stalls before a disk call until another writer has taken its lock and written", () => {
  // under `npm run soak` all operations, otherwise the two during which the history is compacted
  for (const [name, operation] of Object.entries(operations).slice(0, times(2, Infinity))) {
    it.scopedLive(`the stalled writer's ${name} is done completely or not at all, and no acknowledged write is lost`, () =>
      Effect.gen(function*() {
        const template = yield* filled(operation.long)
        for (let stop = 1, reached = true; reached; stop++) {
          const root = yield* place
          fs.cpSync(template, root, { recursive: true })
          const message = (what: string) => `${name}, stopped before call ${stop}: ${what}`
          reached = yield* Effect.scoped(Effect.gen(function*() {
            const [stops, wakes] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
            let calls = -Infinity
            const sleeper = yield* opened(
              root,
              { lockTimeout: 30 },
              calling((method, at) =>
                Effect.suspend(() => {
                  if (isStep(method, at)) calls++
                  return calls < stop
                    ? Effect.void
                    : Effect.zipRight(Deferred.succeed(stops, undefined), Deferred.await(wakes))
                })
              )
            )
            const other = yield* opened(root, { lockTimeout: 30 })
            // the first write of `other` deletes the temporary files of other writers; its later writes do not, so that then only the loss
            // of the lock can stop the stalled writer
            yield* put(other.store, draft("early"))
            if (operation.long === "gone") {
              // closing this vault leaves no pending batch, which would prevent a compaction
              yield* Effect.scoped(
                Effect.flatMap(
                  opened(root, { lockTimeout: 30 }),
                  ({ store }) => store.forget(ada, [long], { purge: true })
                )
              )
            }
            calls = 0
            const asleep = yield* Effect.fork(Effect.either(operation.run(sleeper.store)))
            yield* Effect.race(Deferred.await(stops), Fiber.await(asleep))
            const isAsleep = yield* Deferred.isDone(stops)

            /** Revisions and texts of the record `a` that the acknowledged updates of other writers returned. */
            const acknowledged: Array<string> = []
            for (const n of [1, 2]) {
              yield* Effect.scoped(Effect.gen(function*() {
                const { store } = operation.long === undefined ? other : yield* opened(root, { lockTimeout: 30 })
                const record = yield* store.update(ada, a, { body: `a other ${n}` })
                acknowledged.push(`${record.revision} ${record.body}`)
                yield* put(store, draft(`other ${n}`))
              }))
            }
            yield* Deferred.succeed(wakes, undefined)
            const result = yield* Fiber.join(asleep)
            if (Either.isLeft(result)) assert.strictEqual(result.left.reason, "conflict", message(result.left.message))

            yield* sleeper.vault.refresh
            const now = yield* state(sleeper)
            const [[ofA = [], ofB = [], ofC = [], ofD = [], ofLong = []], items] = now
            assert.includeMembers(ofA.slice(), acknowledged, message("an acknowledged revision is lost"))
            for (const n of [1, 2]) {
              assert.lengthOf(
                items.filter((item) => item.endsWith(` other ${n}`) && !item.startsWith(a)),
                1,
                message("lost")
              )
            }
            const texts = [ofA, ofB, ofC, ofD].flat()
            for (const text of operation.texts) {
              const count = texts.filter((one) => one.endsWith(text)).length
              assert.strictEqual(count, Either.isRight(result) ? 1 : 0, message(text))
            }
            for (const one of operation.forgotten ?? []) {
              assert.strictEqual(
                items.some((item) => item.startsWith(one)),
                Either.isLeft(result),
                message("forgotten")
              )
            }
            const isThere = operation.long === "purged" && Either.isLeft(result)
            assert.lengthOf(ofLong, isThere ? 19 : 0, message("purged"))
            for (const revisions of [ofA, ofB, ofC, ofD, ofLong].map((all) => all.map((one) => Number.parseInt(one)))) {
              assert.deepStrictEqual(
                revisions,
                revisions.map((_, n) => revisions.length - n),
                message("a gap, or a revision twice")
              )
            }
            assert.deepStrictEqual(yield* sleeper.vault.issues, [], message("issues"))
            assert.deepStrictEqual(yield* sleeper.vault.verify, [], message("verify"))
            const reopened = yield* Effect.scoped(Effect.flatMap(opened(root, { lockTimeout: 30 }), state))
            assert.deepStrictEqual(reopened, now, message("reopened"))
            // a further write of the stalled writer succeeds, and a new process reads it
            yield* put(sleeper.store, draft("later", { id: c }))
            const again = yield* Effect.scoped(Effect.flatMap(opened(root, { lockTimeout: 30 }), state))
            assert.deepStrictEqual(again, yield* state(sleeper), message("later"))
            return isAsleep
          }))
          fs.rmSync(root, { recursive: true })
        }
      }))
  }
})
