import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { assistant, user } from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Threads from "../../src/harness/Threads.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { refuses } from "../../src/testing/Law.ts"
import { ada, draft, id, put } from "../../src/testing/Sample.ts"
import * as MemoryJsonl from "../../src/transfer/MemoryJsonl.ts"
import * as Outboxes from "../harness/Outboxes.ts"
import { built, embed, equal, faulty, holdings, lived, memory, vault } from "../storage/Copies.ts"
import { stores } from "../stores.ts"
import { isLong, times } from "../vault/Program.ts"
import { bytes, linesOf, read, sqlite, written } from "./Files.ts"

const threadsOf = (store: MemoryStore.Service) =>
  Effect.map(
    Layer.build(Layer.provide(Threads.layer, Layer.succeed(MemoryStore.MemoryStore, store))),
    Context.get(Threads.Threads)
  )

const pairs = [
  ["memory", memory, "a vault", vault],
  ["a vault", vault, "a SQLite file", sqlite],
  ["a SQLite file", sqlite, "memory", memory]
] as const

describe("a MemoryJsonl file", () => {
  for (const [from, source, to, target] of pairs) {
    for (let seed = 0; seed < times(1, isLong ? 10 : 2); seed++) {
      it.scoped(`a MemoryJsonl file from ${from} is the same, byte for byte, after an import and export by ${to} (${seed})`, () =>
        Effect.gen(function*() {
          const first = yield* lived(source, `file ${seed}`, 20)
          const text = yield* written(first)
          const second = yield* target
          const report = yield* read(second, text, { batch: 7 })
          assert.deepStrictEqual([report.complete, report.skipped], [true, []])
          for (const part of ["records", "tombstones", "revisions", "vectors"] as const) {
            assert.isAbove(report[part], 0, part)
          }
          yield* equal(first, second)
          assert.strictEqual(yield* written(second), text)
          const again = yield* read(second, text)
          assert.deepStrictEqual({ ...again, written: 0 }, { ...report, written: 0 })
          assert.strictEqual(again.written, 0)
          assert.strictEqual(yield* written(second), text)
        }))
    }
  }

  it.scoped("a MemoryJsonl file restores threads for their owner only, and a second reading adds nothing", () =>
    Effect.gen(function*() {
      const [first, second] = [yield* memory, yield* sqlite]
      const said = Array.from({ length: 250 }, (_, n) => n % 2 === 0 ? user(`question ${n}`) : assistant(`answer ${n}`))
      yield* (yield* threadsOf(first)).append(
        ada,
        "tea",
        said.map((message, n) => Object.assign(message, n === 3 && { data: { n } }))
      )
      yield* (yield* threadsOf(first)).append(ada, "another", [user("Hello.")])
      const text = yield* written(first)
      for (const isAgain of [false, true]) {
        const report = yield* read(second, text)
        assert.deepStrictEqual([report.threads, report.messages, report.written], [2, 251, isAgain ? 0 : 251])
      }
      const threads = yield* threadsOf(second)
      const { items, length } = yield* threads.messages(ada, "tea", { from: 2, limit: 2 })
      assert.deepStrictEqual([items.map(({ content, data }) => [content, data]), length], [
        [["question 2", undefined], ["answer 3", { n: 3 }]],
        250
      ])
      assert.strictEqual((yield* threads.messages(Viewer.make({ userId: "bob" }), "tea")).length, 0)
      assert.strictEqual(yield* written(second), text)
      assert.notInclude(yield* written(first, { threads: false }), "question")
    }))

  it.scoped("a second reading of a MemoryJsonl file completes an import that was interrupted at any line", () =>
    Effect.gen(function*() {
      const first = yield* lived(memory, "interrupted", 8)
      const text = yield* written(first)
      const lines = linesOf(text)
      for (let end = 0; end < lines.length; end++) {
        const second = yield* memory
        const cut = lines.slice(0, end).join("") + lines[end]!.slice(0, Math.floor(lines[end]!.length / 2))
        const interrupted = Stream.concat(bytes(cut, 10_000), Stream.fail("interrupted"))
        const outcome = yield* Effect.either(MemoryJsonl.read(second, interrupted, { batch: 3 }))
        assert.deepStrictEqual(Either.isLeft(outcome) && outcome.left, "interrupted")
        assert.deepStrictEqual((yield* read(second, text)).skipped, [])
        yield* equal(first, second)
      }
    }))

  it.scoped("a second read of a MemoryJsonl file stores the rest if a store call of the first read failed", () =>
    Effect.gen(function*() {
      const first = yield* lived(memory, "failing", 8)
      const text = yield* written(first)
      for (let at = 1; at < 12; at++) {
        const second = yield* memory
        yield* refuses("io", read(yield* faulty(second, { ops: ["reader", "vectors"], at }), text, { batch: 3 }))
        yield* read(second, text)
        yield* equal(first, second)
      }
    }))

  it.scoped("a truncated MemoryJsonl file is read to its end and reported as incomplete", () =>
    Effect.gen(function*() {
      const lines = linesOf(yield* written(yield* lived(memory, "cut", 8)))
      const second = yield* memory
      const report = yield* read(second, lines.slice(0, 5).join(""))
      assert.deepStrictEqual([report.complete, report.records, report.skipped], [false, 4, []])
    }))

  it.scoped("damaged lines of a MemoryJsonl file are skipped and reported with reasons", () =>
    Effect.gen(function*() {
      const first = yield* lived(memory, "damaged", 8)
      const lines = linesOf(yield* written(first))
      const hostile = [
        "{\"record\":",
        "null",
        "[]",
        "{\"record\":{\"tenant\":\"default\",\"revisions\":[]}}",
        "{\"__proto__\":{\"record\":1}}",
        "{\"thread\":{\"tenant\":\"default\",\"owner\":\"global\",\"name\":\"x\",\"from\":0,\"messages\":[{\"message\":{\"role\":\"user\",\"content\":\"x\"}}]}}",
        lines[1]!.trim().replace(/"data":\{/, "\"data\":{\"__proto__\":{\"isAdmin\":true},"),
        lines[1]!.trim().replace(/"revision":\d+/, "\"revision\":0"),
        `{"record":"${"x".repeat(2_000_000)}"}`,
        "\u0000\u0000"
      ]
      const damaged = [lines[0]!, ...hostile.map((line) => `${line}\n`), ...lines.slice(1)].join("")
      const second = yield* memory
      const report = yield* read(second, damaged, { longestLine: 1_000_000 })
      assert.deepStrictEqual(
        report.skipped.map(({ count, reason }) => [reason, count]),
        [["the line is damaged", 8], ["the line is too long", 1], ["the thread belongs to nobody", 1]]
      )
      assert.deepStrictEqual(report.skipped[1]!.examples, ["line 10"])
      yield* equal(first, second)
      assert.isFalse("isAdmin" in {})
      const latin = Stream.concat(bytes(lines[0]!), Stream.make(Uint8Array.of(0xff, 0x0a)))
      const { skipped } = yield* MemoryJsonl.read(second, latin)
      assert.deepStrictEqual(skipped, [{ reason: "the line is not UTF-8", count: 1, examples: ["line 2"] }])
    }))

  it.scoped("a MemoryJsonl file of an unknown format or version is refused, and nothing is written", () =>
    Effect.gen(function*() {
      const [, ...lines] = linesOf(yield* written(yield* lived(memory, "version", 5)))
      for (
        const head of [
          "",
          "{}\n",
          "{\"format\":\"effect-memory\"}\n",
          "{\"format\":\"effect-memory\",\"version\":2}\n",
          "{\"format\":\"effect-memory\",\"version\":0}\n",
          "{\"format\":\"another\",\"version\":1}\n"
        ]
      ) {
        const store = yield* memory
        yield* refuses("unsupported", read(store, head + lines.join("")))
        assert.deepStrictEqual(yield* store.tenants, [])
      }
      yield* refuses("unsupported", read(yield* memory, ""))
      yield* refuses("unsupported", read(yield* built(stores.federated), ""))
    }))

  it.scoped("a record with a different history in the store is not overwritten by a MemoryJsonl file, and is reported", () =>
    Effect.gen(function*() {
      const [first, second] = [yield* memory, yield* memory]
      yield* put(first, draft("Tea.", { id: id("drink") }))
      yield* put(first, draft("Paris.", { id: id("city") }))
      yield* put(second, draft("Coffee.", { id: id("drink") }))
      const { records, skipped } = yield* read(second, yield* written(first))
      assert.strictEqual(records, 1)
      assert.deepStrictEqual(skipped.map(({ count, reason }) => [reason, count]), [
        ["the store has another record or another past of this id", 1]
      ])
      const bodies = (yield* second.get(ada, [id("drink"), id("city")])).map((found) =>
        found._tag === "Some" && found.value.body
      )
      assert.deepStrictEqual(bodies, ["Coffee.", "Paris."])
    }))

  it.scoped("a MemoryJsonl file with a missing line is read to its end, and the report says that lines are missing", () =>
    Effect.gen(function*() {
      const first = yield* lived(memory, "hole", 8)
      yield* (yield* threadsOf(first)).append(ada, "tea", [user("Which tea?")])
      const lines = linesOf(yield* written(first))
      for (const n of [1, lines.length - 2]) {
        const report = yield* read(yield* memory, lines.toSpliced(n, 1).join(""))
        assert.isTrue(report.complete)
        assert.deepStrictEqual(report.skipped, [
          { reason: "lines are missing before the last one", count: 1, examples: [`line ${lines.length - 1}`] }
        ])
      }
    }))

  it.scoped("a stored thread is kept and reported if a MemoryJsonl file has a thread of the same name with other messages", () =>
    Effect.gen(function*() {
      const [first, second] = [yield* memory, yield* memory]
      const said = (text: string, count: number) => Array.from({ length: count }, (_, n) => user(`${text} ${n}`))
      yield* (yield* threadsOf(first)).append(ada, "tea", said("green", 150))
      yield* (yield* threadsOf(first)).append(ada, "cake", said("plum", 1))
      const threads = yield* threadsOf(second)
      yield* threads.append(ada, "tea", said("black", 100))
      const report = yield* read(second, yield* written(first))
      assert.deepStrictEqual([report.threads, report.messages, report.written], [1, 1, 1])
      assert.deepStrictEqual(report.skipped.map(({ count, reason }) => [reason, count]), [
        ["the store has another thread of this name", 2]
      ])
      const { items, length } = yield* threads.messages(ada, "tea", { limit: 1 })
      assert.deepStrictEqual([items[0]?.content, length], ["black 99", 100])
    }))

  it.scoped("a MemoryJsonl file contains the messages that wait in an outbox; an outbox of the importing store extracts each message once", () =>
    Effect.gen(function*() {
      const [source, target] = [yield* vault, yield* memory]
      const writing = Outboxes.refusing(source, (batch) => Outboxes.writes(batch) ? Outboxes.down : undefined)
      yield* Effect.scoped(Effect.gen(function*() {
        const outbox = yield* Outboxes.opened(writing, Outboxes.model(), { trigger: Outboxes.never })
        assert.strictEqual(yield* outbox.append(Outboxes.ada, "s", Outboxes.users("a", "b")), 0)
      }))
      const text = yield* written(source)
      const report = yield* read(target, text)
      assert.deepStrictEqual(report.skipped, [])
      assert.strictEqual(yield* written(target), text)
      assert.strictEqual((yield* read(target, text)).written, 0)
      const outbox = yield* Outboxes.opened(target, Outboxes.model(), { trigger: Outboxes.never })
      assert.strictEqual(yield* outbox.append(Outboxes.ada, "s", Outboxes.users("c")), 2)
      yield* outbox.flush
      assert.deepStrictEqual(yield* Outboxes.remembered(target), ["a", "b", "c"])
      assert.deepStrictEqual(yield* Outboxes.rows(target), [])
    }))

  it.scoped("a MemoryJsonl file for one user contains that user's records, tombstones and threads, and nothing of other users", () =>
    Effect.gen(function*() {
      const store = yield* memory
      const bob = Viewer.make({ userId: "bob" })
      yield* put(
        store,
        draft("Adas tea.", { id: id("a1"), scope: { userId: "ada", agentId: "pilot" } }),
        Viewer.system()
      )
      yield* put(store, draft("Adas secret.", { id: id("a2") }))
      yield* store.forget(ada, [id("a2")])
      yield* put(store, draft("Bobs tea.", { id: id("b1"), scope: { userId: "bob" } }), Viewer.system())
      const threads = yield* threadsOf(store)
      yield* threads.append(ada, "hers", [user("Ada asks.")])
      yield* threads.append(bob, "his", [user("Bob asks.")])
      yield* embed(store, "default")
      const text = yield* written(store, { userId: "ada" })
      for (const part of ["Adas tea.", "Adas secret.", "Ada asks."]) assert.include(text, part)
      assert.notMatch(text, /bob/i)
      const { messages, records, tombstones } = yield* read(yield* memory, text)
      assert.deepStrictEqual([records, tombstones, messages], [2, 1, 1])
    }))

  it.scoped("a MemoryJsonl file is read in batches, at most a batch and a few lines ahead of the writes to the store", () =>
    Effect.gen(function*() {
      const first = yield* memory
      const total = 400
      yield* first.put(ada, Array.from({ length: total }, (_, n) => draft(`Fact ${n}.`, { id: id(`fact ${n}`) })))
      const second = yield* memory
      let given = 0
      let isDone = 0
      let most = 0
      const source = Stream.fromIterable(linesOf(yield* written(first))).pipe(
        Stream.rechunk(1),
        Stream.map((line) => {
          given++
          most = Math.max(most, given - isDone)
          return new TextEncoder().encode(line)
        })
      )
      yield* MemoryJsonl.read(second, source, {
        batch: 10,
        onProgress: ({ records }) =>
          Effect.sync(() => {
            isDone = records
          })
      })
      assert.strictEqual(isDone, total)
      assert.isAtMost(most, 15)
    }))

  it.scoped("MemoryJsonl.read refuses a `batch` that is no whole number from 1 to 1,000, and writes nothing", () =>
    Effect.gen(function*() {
      const first = yield* memory
      yield* put(first, draft("tea"))
      const text = yield* written(first)
      const second = yield* memory
      for (const batch of [0, -1, 1.5, 1_001, NaN]) yield* refuses("invalid_draft", read(second, text, { batch }))
      assert.deepStrictEqual(yield* second.tenants, [])
      for (const batch of [1, 1_000]) assert.strictEqual((yield* read(second, text, { batch })).records, 1)
    }))

  it.scoped("MemoryJsonl.write reads the store only as its stream is consumed, at most two pages of rows ahead", () =>
    Effect.gen(function*() {
      const store = yield* memory
      yield* store.put(ada, Array.from({ length: 3_000 }, (_, n) => draft(`Fact ${n}.`, { id: id(`fact ${n}`) })))
      let counted = 0
      const taken = yield* MemoryJsonl.write(store, {
        onProgress: ({ records }) =>
          Effect.sync(() => {
            counted = records
          })
      }).pipe(Stream.take(10), Stream.runCount)
      assert.strictEqual(taken, 10)
      assert.isAtMost(counted, 1_000)
      assert.isAbove((yield* holdings(store)).length, 2_999)
    }))
})
