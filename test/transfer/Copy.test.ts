/** Copies of stores with threads and waiting messages: the target serves both like the source. */
import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Threads from "../../src/harness/Threads.ts"
import * as ThreadWrites from "../../src/harness/Threads/ThreadWrites.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Copy from "../../src/transfer/Copy.ts"
import * as Outboxes from "../harness/Outboxes.ts"
import { memory, vault } from "../storage/Copies.ts"

const ada = Viewer.make({ tenant: "acme", userId: "ada", sessionId: "monday" })
const bob = Viewer.make({ tenant: "acme", userId: "bob", sessionId: "monday" })
const said = (...texts: ReadonlyArray<string>) => texts.map(Message.user)

const threadsOf = (store: MemoryStore.Service) =>
  Effect.map(
    Layer.build(Layer.provide(Layer.fresh(Threads.layer), Layer.succeed(MemoryStore.MemoryStore, store))),
    Context.get(Threads.Threads)
  )
const answers = (threads: Threads.Service, viewer: Viewer.Viewer, name: string) =>
  Effect.all([threads.get(viewer, name), threads.messages(viewer, name), threads.search(viewer, name, { text: "tea" })])

describe("Copy.copy", () => {
  for (
    const [way, from, to] of [["a vault into memory", vault, memory], ["memory into a vault", memory, vault]] as const
  ) {
    it.scoped(`threads copied from ${way} can be listed, read, searched and continued in the target`, () =>
      Effect.gen(function*() {
        const [source, target] = [yield* from, yield* to]
        const threads = yield* threadsOf(source)
        yield* threads.append(ada, "tea", said("Green tea, please.", "tea ".repeat(30_000), "Thanks."))
        for (let n = 0; n < 101; n++) yield* threads.append(ada, `thread ${n}`, said(`message ${n}`)) // a second page of names
        yield* threads.append(bob, "tea", said("Black tea."))
        yield* threads.append(ada, "gone", said("Forget this."))
        yield* threads.delete(ada, "gone")

        const first = yield* Copy.copy(source, target, { batch: 7 })
        assert.isTrue(first.verified)
        assert.strictEqual((yield* Copy.copy(source, target)).written, 0)

        const copied = yield* threadsOf(target)
        assert.deepStrictEqual(
          yield* copied.list(ada, { limit: 1_000 }),
          yield* threads.list(ada, { limit: 1_000 })
        )
        for (const [viewer, name] of [[ada, "tea"], [bob, "tea"], [ada, "thread 100"]] as const) {
          deepStrictEqual(yield* answers(copied, viewer, name), yield* answers(threads, viewer, name))
        }
        assert.strictEqual(yield* copied.append(ada, "tea", said("One more.")), 3)
        assert.strictEqual(yield* copied.append(ada, "new", said("Hello.")), 0)
        assert.lengthOf(yield* copied.list(ada, { limit: 1_000 }), 103)
      }))
  }

  it.scoped("`copy` fails with `conflict` if the target has another thread of the same owner and name", () =>
    Effect.gen(function*() {
      const [source, target] = [yield* memory, yield* memory]
      yield* (yield* threadsOf(source)).append(ada, "tea", said("Green."))
      const theirs = yield* threadsOf(target)
      yield* theirs.append(ada, "tea", said("Black."))
      const before = yield* theirs.messages(ada, "tea")
      const { reason } = yield* Effect.flip(Copy.copy(source, target))
      assert.strictEqual(reason, "conflict")
      assert.deepStrictEqual(yield* theirs.messages(ada, "tea"), before)
    }))

  it.scoped("a thread in the target that the source never had makes `copy` fail with `conflict` if its owner has threads in the source", () =>
    Effect.gen(function*() {
      const [source, target] = [yield* memory, yield* memory]
      yield* (yield* threadsOf(source)).append(ada, "tea", said("Green."))
      const theirs = yield* threadsOf(target)
      yield* theirs.append(ada, "coffee", said("Black."))
      const { message, reason } = yield* Effect.flip(Copy.copy(source, target))
      assert.strictEqual(reason, "conflict")
      assert.include(message, "Purge all that one owner of threads or messages has")
      yield* ThreadWrites.purge(target, ada)
      assert.isTrue((yield* Copy.copy(source, target)).verified)
      assert.deepStrictEqual((yield* theirs.list(ada)).map(({ name }) => name), ["tea"])
    }))

  it.scoped("the next copy renames a thread that was renamed in the source; the target then continues it under its new name only", () =>
    Effect.gen(function*() {
      const [source, target] = [yield* memory, yield* memory]
      const threads = yield* threadsOf(source)
      yield* threads.append(ada, "tea", said("Green."))
      yield* Copy.copy(source, target)
      yield* threads.rename(ada, "tea", "coffee")
      assert.isTrue((yield* Copy.copy(source, target)).verified)
      const copied = yield* threadsOf(target)
      assert.strictEqual(yield* copied.append(ada, "coffee", said("Black.")), 1)
      const { reason } = yield* Effect.flip(copied.append(ada, "tea", said("Jasmine.")))
      assert.strictEqual(reason, "conflict")
      const { items } = yield* copied.messages(ada, "coffee")
      assert.deepStrictEqual(items.map(({ content }) => content), ["Green.", "Black."])
    }))

  it.scoped("messages that wait in an outbox are copied, and the target extracts each message once", () =>
    Effect.gen(function*() {
      const [source, target] = [yield* vault, yield* memory]
      const writing = Outboxes.refusing(source, (batch) => Outboxes.writes(batch) ? Outboxes.down : undefined)
      yield* Effect.scoped(Effect.gen(function*() {
        const outbox = yield* Outboxes.opened(writing, Outboxes.model(), { trigger: Outboxes.never })
        assert.strictEqual(yield* outbox.append(Outboxes.ada, "s", Outboxes.users("a", "b")), 0)
      }))
      const copied = yield* Copy.copy(source, target)
      assert.isTrue(copied.verified)
      const outbox = yield* Outboxes.opened(target, Outboxes.model(), { trigger: Outboxes.never })
      assert.strictEqual(yield* outbox.append(Outboxes.ada, "s", Outboxes.users("c")), 2)
      yield* outbox.flush
      assert.deepStrictEqual(yield* Outboxes.remembered(target), ["a", "b", "c"])
      assert.deepStrictEqual(yield* Outboxes.rows(target), [])
    }))
})
