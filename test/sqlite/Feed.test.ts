import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import type { StoreChange } from "../../src/domain/MemoryMutation.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import type * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { times } from "../vault/Program.ts"
import { bob, draft, file, opened, peer } from "./File.ts"

/** Collects the changes that other stores on the same file made and that Bob sees. */
const listening = (store: MemoryStore.Service) =>
  Effect.gen(function*() {
    const heard: Array<StoreChange> = []
    yield* Effect.forkScoped(
      Stream.runForEach(
        Stream.filter(store.changes(bob), (change) => change._tag !== "Issue" && change.by === "there"),
        (change) => Effect.sync(() => heard.push(change))
      )
    )
    yield* TestClock.adjust(0) // waits until the subscription has started
    return heard
  })
const told = (change: StoreChange) =>
  change._tag === "Written"
    ? [change._tag, change.record.id, change.record.revision, change.record.body]
    : change._tag === "Forgotten"
    ? [change._tag, change.id]
    : [change._tag]

describe("changes from another store on one SQLite file", () => {
  it.scoped("a change is emitted at the next poll, and only to viewers that see the record", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const here = yield* opened(filename, { poll: "1 seconds" })
      const there = yield* opened(filename, { poll: "1 seconds" })
      const heard = yield* listening(here)
      yield* there.put(bob, [draft("tea")])
      yield* there.put(Viewer.make({ agentId: "Eve" }), [{ ...draft("not Bob's"), scope: { agentId: "Eve" } }])
      yield* TestClock.adjust("999 millis")
      assert.deepStrictEqual(heard, [])
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(heard.map((change) => told(change).at(-1)), ["tea"])
      yield* TestClock.adjust("1 minute")
      assert.lengthOf(heard, 1)
    }))

  it.scoped("a poll emits each change once and in order; a change whose revision is no longer kept has the oldest kept revision", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const here = yield* opened(filename)
      const there = yield* opened(filename)
      const heard = yield* listening(here)
      const expected: Array<ReadonlyArray<unknown>> = []
      for (const size of [1, 500, 501, 499, 999, 1_000, 1_001, 2_500].slice(0, times(3, 8))) {
        const put = yield* there.put(bob, Array.from({ length: size }, (_, n) => draft(`batch of ${size}: ${n}`)))
        const [first, ...rest] = put
        expected.push(["Written", first!.record.id, 10, "10"])
        expected.push(...rest.map(({ record }) => ["Written", record.id, 1, record.body]))
        for (let n = 2; n < 30; n++) {
          yield* there.update(bob, first!.record.id, { body: `${n}` })
          // a change whose revision is no longer kept is emitted with the oldest revision that is kept
          expected.push(["Written", first!.record.id, Math.max(n, 10), `${Math.max(n, 10)}`])
        }
        yield* TestClock.adjust("500 millis")
        yield* there.forget(bob, [first!.record.id])
        expected.push(["Forgotten", first!.record.id])
        yield* TestClock.adjust("500 millis")
        assert.deepStrictEqual(heard.map(told), expected, `${size}`)
      }
    }))

  it.scoped("changes are still emitted after hours without writes", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const here = yield* opened(filename, { poll: "10 minutes" })
      const there = yield* opened(filename)
      const heard = yield* listening(here)
      for (let n = 0; n < 5; n++) {
        yield* there.put(bob, [draft(`hour ${3 * n}`)])
        yield* TestClock.adjust("3 hours")
      }
      assert.deepStrictEqual(heard.map((change) => told(change).at(-1)), [0, 3, 6, 9, 12].map((n) => `hour ${n}`))
    }))

  it.scopedLive("two processes that write at the same time emit each other's changes once and in order", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const { process, tell } = yield* peer
      yield* tell("open", filename, { poll: 5 })
      const store = yield* opened(filename, { poll: 5 })
      yield* tell("listen")
      const heard = yield* Effect.fork(
        store.changes(bob).pipe(
          Stream.filter((change) => change._tag !== "Issue" && change.by === "there"),
          Stream.filter((change) => change._tag === "Written" && change.record.body.startsWith("there")),
          Stream.take(writes),
          Stream.runCollect
        )
      )
      // waits until the peer has received a change, so that it is subscribed; this process is subscribed by then, too
      yield* tell("count", "ping", 0, 1)
      yield* store.put(bob, [draft("first")])
      yield* tell("heard", 1)
      yield* process.tell(JSON.stringify(["count", "there", 0, writes]) + "\n")
      yield* Effect.forEach(numbers, (n) => store.put(bob, [draft(`here ${n}`)]), { discard: true })
      yield* process.line
      assert.deepStrictEqual(
        Array.from(yield* Fiber.join(heard), (change) => told(change).at(-1)),
        numbers.map((n) => `there ${n}`)
      )
      const changes = yield* tell("heard", 1 + writes)
      assert.deepStrictEqual(
        Array.isArray(changes) ? changes.map((change: ReadonlyArray<unknown>) => change.at(-1)) : [],
        ["first", ...numbers.map((n) => `here ${n}`)]
      )
    }))
})
const writes = times(100, 2_000)
const numbers = Array.from({ length: writes }, (_, n) => n)

describe("reads of another process's writes on one SQLite file", () => {
  it.scopedLive("`search`, `list`, `get` and `links` immediately reflect what another process writes and forgets", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const { tell } = yield* peer
      const here = yield* opened(filename)
      yield* tell("open", filename)
      const seen = (word: string, id: string, other: string, body: string | undefined) =>
        Effect.gen(function*() {
          const answers = [
            yield* tell("call", "search", { text: word }),
            yield* tell("call", "list", { limit: 1_000 }),
            yield* tell("call", "get", [id])
          ].map((answer) => JSON.stringify(answer).includes(body ?? word))
          const links = JSON.stringify(yield* tell("call", "links", other)).includes(id)
          assert.deepStrictEqual([...answers, links], [1, 1, 1, 1].map(() => body !== undefined), word)
        })
      const [hub] = yield* here.put(bob, [{ ...draft("Everything begins here."), summary: "hub" }])
      for (let n = 0; n < times(8, 200); n++) {
        const word = `w${yield* Random.nextIntBetween(0, 1e9)}x${n}`
        const [put] = yield* here.put(bob, [draft(`${word} leads to [[hub]]`)])
        const { id } = put!.record
        yield* seen(word, id, hub!.record.id, `${word} leads to [[hub]]`)
        yield* here.update(bob, id, { body: `${word} still leads to [[hub]]` })
        yield* seen(word, id, hub!.record.id, `${word} still leads to [[hub]]`)
        if (n % 2 === 0) {
          yield* here.forget(bob, [id], { purge: n % 4 === 0 })
          yield* seen(word, id, hub!.record.id, undefined)
        }
        // this process finds the writes of the other process, too
        yield* tell("count", `${word}y`, n, n + 1)
        const { hits } = yield* here.search(bob, { text: `${word}y`, limit: 1 })
        assert.deepStrictEqual(hits.map(({ record }) => record.body), [`${word}y ${n}`])
        const found = hits[0]!.record.id
        assert.isTrue(Option.isSome((yield* here.get(bob, [found]))[0]!))
      }
    }).pipe(Effect.withRandom(Random.make("sees"))))
})
