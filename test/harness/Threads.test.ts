/** The laws of Threads. The first group runs over each of the `stores` of `stores.ts`, the second group in memory or in SQLite. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Threads from "../../src/harness/Threads.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Sqlite from "../../src/storage/MemoryStore/Sqlite.ts"
import { random } from "../ranking/random.ts"
import { type Call, counting, inMemory } from "../storage/engines.ts"
import { stores } from "../stores.ts"
import { times } from "../vault/Program.ts"

const ada = Viewer.make({ userId: "ada", sessionId: "monday" })
const bob = Viewer.make({ userId: "bob", sessionId: "monday" })
const said = (...texts: ReadonlyArray<string>) => texts.map(Message.user)
const contents = (items: ReadonlyArray<{ readonly content: string }>) => items.map(({ content }) => content)
const numbered = (from: number, end: number) => Array.from({ length: end - from }, (_, n) => `message ${from + n}`)

/** Builds threads over a store. Each run of `another` builds a further service over the same store, as another process would have. */
const over = (layer: Layer.Layer<MemoryStore.MemoryStore, unknown>) =>
  Effect.gen(function*() {
    const store = Context.get(yield* Layer.build(layer), MemoryStore.MemoryStore)
    const another = Effect.map(
      Layer.build(Layer.provide(Layer.fresh(Threads.layer), Layer.succeed(MemoryStore.MemoryStore, store))),
      Context.get(Threads.Threads)
    )
    return { store, threads: yield* another, another }
  })

describe.each(Object.entries(stores))("Threads (%s)", (_, layer) => {
  it.scoped("`messages` returns a page of a thread in the order of the appends, by default the 50 newest messages", () =>
    Effect.gen(function*() {
      const { threads } = yield* over(layer)
      assert.strictEqual(yield* threads.append(ada, "a", said(...numbered(0, 3))), 0)
      assert.strictEqual(yield* threads.append(ada, "a", said(...numbered(3, 130))), 3)
      const { items, length } = yield* threads.messages(ada, "a")
      assert.deepStrictEqual([contents(items), length], [numbered(80, 130), 130])
      const before = yield* threads.messages(ada, "a", { before: 80, limit: 70 })
      assert.deepStrictEqual(contents(before.items), numbered(10, 80))
      const from = yield* threads.messages(ada, "a", { from: 5, limit: 2 })
      assert.deepStrictEqual(from.items.map(({ sequence }) => sequence), [5, 6])
      assert.deepStrictEqual((yield* threads.messages(ada, "a", { from: 130 })).items, [])
      assert.deepStrictEqual((yield* threads.messages(ada, "none")).items, [])
    }))

  it.scoped("a thread keeps all fields of a message, but removes injected memory from the text", () =>
    Effect.gen(function*() {
      const { threads } = yield* over(layer)
      const long = "😀 word ".repeat(20_000)
      const message = {
        role: "tool",
        content: long,
        name: "Ann",
        id: "m-1",
        at: 5,
        tool: true,
        data: { call: ["x", 1] }
      }
      yield* threads.append(ada, "a", [message as Threads.NewMessage]) // the type of `role` is inferred as string
      yield* threads.append(ada, "a", said("Which tea?\n\n<memory>\nnot hers\n</memory>", "half \ud83d"))
      const { items } = yield* threads.messages(ada, "a")
      assert.deepStrictEqual(items[0], { ...message, sequence: 0 } as Threads.ThreadMessage)
      assert.deepStrictEqual(contents(items.slice(1)), ["Which tea?\n\n", "half \ufffd"])
    }))

  it.scoped("a user's threads are visible in all sessions of the user, and to no other viewer", () =>
    Effect.gen(function*() {
      const { threads } = yield* over(layer)
      yield* threads.append(ada, "shared name", said("of Ada"))
      yield* threads.append(bob, "shared name", said("of Bob"))
      const others = [
        bob,
        Viewer.make({ userId: "ada", tenant: "other" }),
        Viewer.make({ agentId: "support" }),
        Viewer.make({ sessionId: "monday" })
      ]
      for (const other of others) {
        assert.notInclude(contents((yield* threads.messages(other, "shared name")).items), "of Ada")
        assert.notInclude(JSON.stringify(yield* threads.search(other, "shared name", { text: "Ada" })), "of Ada")
        assert.isEmpty((yield* threads.list(other)).filter(({ length }) => other !== bob && length > 0))
        yield* threads.delete(other, "shared name")
      }
      const tuesday = Viewer.make({ userId: "ada", sessionId: "tuesday", agentId: "support" })
      assert.deepStrictEqual(contents((yield* threads.messages(tuesday, "shared name")).items), ["of Ada"])
      const nobody = yield* Effect.flip(threads.append(Viewer.make({}), "a", said("x")))
      assert.strictEqual(nobody.reason, "invalid_scope")
    }))

  it.scoped("the store's `list` and `search` return no messages of threads to a user or to `everyone`; the messages are not embedded", () =>
    Effect.gen(function*() {
      const { store, threads } = yield* over(layer)
      yield* threads.append(ada, "a", said("green tea"))
      for (const viewer of [ada, Viewer.everyone()]) {
        assert.deepStrictEqual((yield* store.list(viewer, {})).items, [])
        assert.deepStrictEqual((yield* store.search(viewer, { text: "green tea" })).hits, [])
      }
      if (Option.isSome(store.vectors)) {
        assert.deepStrictEqual(yield* store.vectors.value.pending("default", "m", 10), [])
      }
    }))

  it.scoped("`list` returns a user's threads page by page, the last created first, without deleted threads", () =>
    Effect.gen(function*() {
      const { threads } = yield* over(layer)
      const names = Array.from({ length: 12 }, (_, n) => `thread ${n}`)
      for (const name of names) yield* threads.append(ada, name, said("x"))
      yield* threads.append(ada, "thread 3", said("y"))
      assert.isTrue(yield* threads.delete(ada, "thread 5"))
      assert.isFalse(yield* threads.delete(ada, "thread 5"))
      yield* threads.rename(ada, "thread 7", "renamed")
      const wanted = names.toReversed().filter((name) => name !== "thread 5")
        .map((name) => name === "thread 7" ? "renamed" : name)
      const first = yield* threads.list(ada, { limit: 4 })
      const second = yield* threads.list(ada, { limit: 4, after: first[3]!.name })
      const rest = yield* threads.list(ada, { after: second[3]!.name })
      assert.strictEqual((yield* Effect.flip(threads.list(ada, { after: "thread 5" }))).reason, "not_found")
      assert.deepStrictEqual([...first, ...second, ...rest].map(({ name }) => name), wanted)
      assert.strictEqual(Option.getOrThrow(yield* threads.get(ada, "thread 3")).length, 2)
    }))

  it.scoped("a renamed thread keeps the time at which it was created, also after appends and further renames", () =>
    Effect.gen(function*() {
      const { threads } = yield* over(layer)
      const timesOf = ({ createdAt, updatedAt }: Threads.Thread) => [createdAt, updatedAt]
      yield* TestClock.setTime(1_000)
      yield* threads.append(ada, "a", said("one"))
      yield* TestClock.setTime(2_000)
      assert.deepStrictEqual(timesOf(yield* threads.rename(ada, "a", "b")), [1_000, 2_000])
      yield* TestClock.setTime(3_000)
      yield* threads.append(ada, "b", said("two"))
      assert.deepStrictEqual((yield* threads.list(ada)).map(timesOf), [[1_000, 3_000]])
      yield* TestClock.setTime(4_000)
      assert.deepStrictEqual(timesOf(yield* threads.rename(ada, "b", "a")), [1_000, 4_000])
      assert.deepStrictEqual(timesOf(yield* threads.fork(ada, "a", "c")), [4_000, 4_000])
    }))

  it.scoped("`fork` copies the messages before a position into an independent thread", () =>
    Effect.gen(function*() {
      const { threads } = yield* over(layer)
      yield* threads.append(ada, "a", said("one", "two", "three"))
      assert.strictEqual((yield* threads.fork(ada, "a", "b", { before: 2 })).length, 2)
      yield* threads.append(ada, "b", said("other"))
      yield* threads.append(ada, "a", said("four"))
      yield* threads.delete(ada, "a")
      assert.deepStrictEqual(contents((yield* threads.messages(ada, "b")).items), ["one", "two", "other"])
      yield* threads.append(ada, "a", said("new"))
      assert.deepStrictEqual(contents((yield* threads.messages(ada, "a")).items), ["new"])
      for (
        const wrong of [threads.fork(ada, "a", "b"), threads.rename(ada, "a", "b"), threads.append(ada, "", said("x"))]
      ) {
        assert.strictEqual(
          (yield* Effect.flip(Effect.asVoid<unknown, { reason: string }, never>(wrong))).reason,
          "invalid_id"
        )
      }
      assert.strictEqual((yield* Effect.flip(threads.fork(ada, "none", "c"))).reason, "not_found")
      assert.deepStrictEqual(contents((yield* threads.messages(ada, "a")).items), ["new"])
    }))

  it.scoped("`append` of an invalid message and `fork` at an invalid position fail and store nothing", () =>
    Effect.gen(function*() {
      const { threads } = yield* over(layer)
      yield* threads.append(ada, "a", said("one"))
      const wrong: ReadonlyArray<unknown> = [
        { role: "robot", content: "x" },
        { role: "user", content: 3 },
        { role: "user" },
        { role: "user", content: "x", tool: "yes" },
        { role: "user", content: "x", data: [() => 1] },
        new Message.Message({ role: "user", content: 3 as never }, { disableValidation: true }),
        null,
        "x"
      ]
      for (const value of wrong) {
        const error = yield* Effect.flip(threads.append(ada, "a", [Message.user("two"), value as Message.Message]))
        assert.strictEqual(error.reason, "invalid_draft")
      }
      for (const before of [-1, 1.5, NaN, Infinity]) {
        assert.strictEqual((yield* Effect.flip(threads.fork(ada, "a", "b", { before }))).reason, "invalid_draft")
      }
      assert.deepStrictEqual(contents((yield* threads.messages(ada, "a")).items), ["one"])
      assert.lengthOf(yield* threads.list(ada), 1)
    }))

  it.scoped("a search in a thread finds messages appended after an earlier search, and messages that another service appended", () =>
    Effect.gen(function*() {
      const { another, threads } = yield* over(layer)
      yield* threads.append(ada, "a", said("I moved to Lisbon", "The weather is fine", "We had fish"))
      const places = (found: ReadonlyArray<Threads.Found>) => found.map(({ message }) => message.sequence)
      assert.deepStrictEqual(places(yield* threads.search(ada, "a", { text: "Lisbon", limit: 1 })), [0])
      yield* threads.append(ada, "a", said("Porto is nice, too"))
      assert.deepStrictEqual(places(yield* threads.search(ada, "a", { text: "Porto", limit: 1 })), [3])
      const other = yield* another
      assert.deepStrictEqual(places(yield* other.search(ada, "a", { text: "fish", limit: 1 })), [2])
      yield* threads.append(ada, "a", said("Then Madeira"))
      assert.deepStrictEqual(places(yield* other.search(ada, "a", { text: "Madeira", limit: 1 })), [4])
    }))

  it.scoped("`window` returns the last turns that fit the token limit, but at least one turn", () =>
    Effect.gen(function*() {
      const { threads } = yield* over(layer)
      const turn = (n: number) => [
        Message.user(`question ${n} `.padEnd(40, "x")),
        Message.assistant(`answer ${n} `.padEnd(40, "y"))
      ]
      yield* threads.append(ada, "a", Array.from({ length: 60 }, (_, n) => turn(n)).flat())
      const window = yield* threads.window(ada, "a", 45) // 45 tokens: room for four messages of 10 tokens, and for half of a fifth
      assert.deepStrictEqual([window.items.map(({ sequence }) => sequence), window.leftOut], [
        [116, 117, 118, 119],
        116
      ])
      const odd = yield* threads.window(ada, "a", 35)
      assert.deepStrictEqual(odd.items.map(({ sequence }) => sequence), [118, 119])
      assert.deepStrictEqual((yield* threads.window(ada, "a", 0)).items.map(({ sequence }) => sequence), [118, 119])
      assert.strictEqual((yield* threads.window(ada, "a", 1_000_000)).leftOut, 0)
      assert.strictEqual((yield* Effect.flip(threads.window(ada, "a", NaN))).reason, "invalid_draft")
      assert.lengthOf(yield* threads.search(ada, "a", { text: "question 7", limit: 1 }), 1)
    }))

  it.scoped("concurrent appends of two services over one store lose no message, and each call's messages stay together", () =>
    Effect.gen(function*() {
      const { another, threads } = yield* over(layer)
      const processes = [threads, yield* another]
      const batches = Array.from({ length: 12 }, (_, n) => [`${n} a`, `${n} b`])
      const places = yield* Effect.forEach(
        batches,
        (batch, n) => processes[n % 2]!.append(ada, "a", said(...batch)),
        { concurrency: "unbounded" }
      )
      const { items } = yield* threads.messages(ada, "a", { limit: 100 })
      assert.deepStrictEqual(places.toSorted((a, b) => a - b), batches.map((_, n) => 2 * n))
      batches.forEach((batch, n) => assert.deepStrictEqual(contents(items.slice(places[n]!, places[n]! + 2)), batch))
      assert.lengthOf(yield* threads.list(ada), 1)
    }))

  it.scoped("`forgetAll` with `purge` and an empty filter erases all threads of the user, and no threads of other users", () =>
    Effect.gen(function*() {
      const { store, threads } = yield* over(layer)
      yield* threads.append(ada, "a", said("secret", "x".repeat(100_000)))
      yield* threads.append(ada, "b", said("secret"))
      yield* threads.append(bob, "a", said("kept"))
      const service = MemoryService.layer().pipe(Layer.provide(Layer.succeed(MemoryStore.MemoryStore, store)))
      const forgetAll = (options: { readonly purge?: boolean }, kinds?: ReadonlyArray<string>) =>
        Effect.flatMap(MemoryService.MemoryService, (memory) => memory.forgetAll({ ...kinds && { kinds } }, options))
          .pipe(
            MemoryService.as(ada),
            Effect.provide(service)
          )
      yield* forgetAll({})
      yield* forgetAll({ purge: true }, ["user"])
      assert.lengthOf(yield* threads.list(ada), 2)
      yield* forgetAll({ purge: true })
      assert.deepStrictEqual(yield* threads.list(ada), [])
      assert.deepStrictEqual((yield* threads.messages(ada, "a")).items, [])
      assert.deepStrictEqual(contents((yield* threads.messages(bob, "a")).items), ["kept"])
      const left = yield* store.list(Viewer.system(), { limit: 100 })
      assert.notInclude(JSON.stringify(left.items), "secret")
    }))
})

describe("Threads", () => {
  it.scoped("a thread of 1,200 messages is deleted with all its messages", () =>
    Effect.gen(function*() {
      const { store, threads } = yield* over(MemoryStore.layerInMemory)
      yield* threads.append(ada, "a", said(...numbered(0, 1_200)))
      assert.isTrue(yield* threads.delete(ada, "a"))
      const { items } = yield* store.list(Viewer.system(), { limit: 100 })
      assert.deepStrictEqual(items.map(({ data }) => data["row"]).sort(), ["owner", "page"])
    }))

  it.scoped("`list` returns all 250 threads of a user, although a row in the store holds only 100 names", () =>
    Effect.gen(function*() {
      const { threads } = yield* over(MemoryStore.layerInMemory)
      const names = Array.from({ length: 250 }, (_, n) => `thread ${n}`)
      for (const name of names) yield* threads.append(ada, name, said("x"))
      const found: Array<string> = []
      for (let after: string | undefined;;) {
        const page = yield* threads.list(ada, { limit: 37, after })
        if (page.length === 0) break
        found.push(...page.map(({ name }) => name))
        after = found.at(-1)
      }
      assert.deepStrictEqual(found, names.toReversed())
    }))

  it.scoped("an append and the read of a page handle no more rows among many threads and messages than among few", () =>
    Effect.gen(function*() {
      const store = Context.get(yield* Layer.build(MemoryStore.layerInMemory), MemoryStore.MemoryStore)
      let rows = 0
      const counting: MemoryStore.Service = {
        ...store,
        get: (viewer, ids) => {
          rows += ids.length
          return store.get(viewer, ids)
        },
        apply: (viewer, mutations, provenance) => {
          rows += mutations.length
          return store.apply(viewer, mutations, provenance)
        },
        list: () => Effect.die("a scan"),
        stream: () => Effect.die("a scan") as never // dies if it is run
      }
      const threads = Context.get(
        yield* Layer.build(Layer.provide(Threads.layer, Layer.succeed(MemoryStore.MemoryStore, counting))),
        Threads.Threads
      )
      const cost = Effect.gen(function*() {
        rows = 0
        yield* threads.append(ada, "a", said("one", "two"))
        yield* threads.messages(ada, "a", { limit: 10 })
        return rows
      })
      yield* threads.append(ada, "a", said(...numbered(0, 10)))
      const few = yield* cost
      yield* threads.append(ada, "a", said(...numbered(10, 2_000)))
      for (let n = 0; n < 120; n++) yield* threads.append(ada, `other ${n}`, said("x"))
      assert.strictEqual(yield* cost, few)
    }))

  it.scoped.each(
    [["in memory", inMemory], ["in SQLite", Sqlite.engine({ filename: ":memory:", poll: "1 hour" })]] as const
  )(
    "`append`, `messages` and `list` make the same engine calls among many long threads as among ten short ones, %s",
    ([_, made]) =>
      Effect.gen(function*() {
        const calls: Array<Call> = []
        const store = yield* MemoryStore.make("counted", counting(yield* made, calls))
        const threads = yield* Effect.provide(
          Threads.Threads,
          Layer.provide(Threads.layer, Layer.succeed(MemoryStore.MemoryStore, store))
        )
        /** Returns the engine's calls, with numbers of rows, for some appends and reads among `count` threads of `length` messages. */
        const costOf = (count: number, length: number) =>
          Effect.gen(function*() {
            const known = (yield* threads.list(ada, { limit: 1_000 })).length
            for (let n = known; n < count; n++) yield* threads.append(ada, `thread ${n}`, said("first"))
            for (let n = 0; n < count; n++) {
              const name = `thread ${n}`
              const { length: before } = yield* threads.messages(ada, name, { limit: 1 })
              if (before < length) yield* threads.append(ada, name, said(...numbered(before, length)))
            }
            calls.length = 0
            yield* threads.append(ada, "thread 5", said("one", "two"))
            yield* threads.append(ada, `new among ${count}`, said("one"))
            yield* threads.messages(ada, "thread 5", { limit: 10 })
            yield* threads.messages(ada, "thread 3", { before: 7, limit: 5 })
            yield* threads.list(ada, { limit: 5 })
            return calls.slice()
          })
        const few = yield* costOf(10, 10)
        assert.isAbove(few.length, 8)
        // neither number of threads is a multiple of 100, the number of names in a page of the list
        assert.deepStrictEqual(yield* costOf(times(130, 1_030), times(60, 500)), few)
        calls.length = 0
        yield* threads.window(ada, "thread 5", 20)
        assert.isAtMost(calls.reduce((sum, { given }) => sum + given, 0), 51)
      })
  )

  it.scoped("random appends, forks, renames and deletions give the same threads as on a plain Map of lists", () =>
    Effect.gen(function*() {
      const { threads } = yield* over(MemoryStore.layerInMemory)
      const { below, of } = random(5)
      const model = new Map<string, ReadonlyArray<string>>()
      const names = ["a", "b", "c", "d"]
      for (let n = 0; n < 300; n++) {
        const [one, other] = [of(names), of(names)]
        const there = model.get(one)
        switch (below(5)) {
          case 0:
          case 1: {
            yield* threads.append(ada, one, said(`${n}`))
            model.set(one, [...there ?? [], `${n}`])
            break
          }
          case 2: {
            assert.strictEqual(yield* threads.delete(ada, one), there !== undefined)
            model.delete(one)
            break
          }
          case 3: {
            const isFree = !model.has(other)
            const done = yield* Effect.either(threads.fork(ada, one, other))
            assert.strictEqual(done._tag === "Right", there !== undefined && isFree)
            if (done._tag === "Right") model.set(other, there!) // the fork succeeded, so `there` exists
            break
          }
          default: {
            const isFree = !model.has(other)
            const done = yield* Effect.either(threads.rename(ada, one, other))
            assert.strictEqual(done._tag === "Right", there !== undefined && (isFree || one === other))
            if (done._tag === "Right" && one !== other) {
              model.delete(one)
              model.set(other, there!) // the rename succeeded, so `there` exists
            }
          }
        }
        for (const name of names) {
          assert.deepStrictEqual(
            contents((yield* threads.messages(ada, name)).items),
            (model.get(name) ?? []).slice(-50)
          )
        }
        assert.sameMembers((yield* threads.list(ada)).map(({ name }) => name), Array.from(model.keys()))
      }
    }))
})
