import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as TestClock from "effect/TestClock"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as MemoryManager from "../../src/harness/MemoryManager.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Faulty from "../../src/storage/MemoryStore/Faulty.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import { heard, reason } from "./Service.ts"

const ada = Viewer.make({ userId: "ada", sessionId: "s" })
const bob = Viewer.make({ userId: "bob", sessionId: "s" })
const memory = MemoryStore.layerInMemory
const broken = (...ops: ReadonlyArray<keyof MemoryStore.Service>) =>
  Faulty.layer({ ops }).pipe(Layer.provide(MemoryStore.layerInMemory))

type Entries = Readonly<Record<string, Federated.Entry>>

/** A model that remembers what a user says, line by line. */
const literal = ({ system, user }: Completion.Prompt): unknown =>
  system.includes("\"facts\"")
    ? { facts: Array.from(user.matchAll(/^user: (.*)$/gm), ([, text]) => text) }
    : {
      memory: (JSON.parse(user.slice(user.lastIndexOf("["), user.lastIndexOf("]") + 1)) as ReadonlyArray<string>).map(
        (text) => ({ event: "ADD", text })
      )
    }

interface Setup {
  readonly stores?: Entries
  readonly config?: MemoryManager.Config
  readonly completion?: Layer.Layer<Completion.Completion>
  readonly spec?: Parameters<typeof MemoryService.layer>[0]
}

const world = ({ completion = Completion.layerScripted(literal), config, spec, stores = two }: Setup = {}) =>
  MemoryService.layer(spec).pipe(
    Layer.provideMerge(MemoryManager.layer(config)),
    Layer.provideMerge(Layer.mergeAll(Federated.layer(stores), completion, Embedder.layerNone, MemoryEvents.layer())),
    Layer.provide(Layer.setRandom(Random.make("manager")))
  )

const two = {
  notes: { layer: memory, description: "what the user wants kept", writable: true },
  scratch: { layer: memory, writable: true, maxResults: 2 }
} satisfies Entries
const manager = MemoryManager.MemoryManager
const service = MemoryService.MemoryService

const draft = (body: string, fields: Partial<Draft> = {}): Draft => ({
  scope: { userId: "ada" },
  kind: "reference",
  body,
  ...fields
})
const bodies = (result: { readonly hits: ReadonlyArray<{ readonly record: { readonly body: string } }> }) =>
  result.hits.map(({ record }) => record.body)
const called = (
  tools: ReadonlyArray<{ readonly name: string; readonly call: (input: unknown) => unknown }>,
  name: string
) => {
  const tool = tools.find((tool) => tool.name === name)
  assert.isDefined(tool, `there is a tool ${name}`)
  return tool as Effect.Effect.Success<ReturnType<typeof MemoryTools.makeStores>>[number]
}

describe("a configuration", () => {
  it.effect("says everything that does not fit the stores, at once", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Layer.build(world({
        stores: { notes: { layer: memory, writable: true }, archive: { layer: memory } },
        completion: Completion.layerNone,
        config: {
          extraction: {
            nowhere: true,
            archive: { trigger: ExtractionTrigger.interval(0), extractor: "ingest" },
            notes: true
          },
          injection: { maxEntries: 0, budget: -1 }
        }
      })))
      assert.strictEqual(error.reason, "invalid_draft")
      assert.deepStrictEqual(error.detail, {
        issues: [
          "extraction.nowhere: there is no such store; there are notes, archive",
          "extraction.archive: the store takes no writes",
          "extraction.archive: interval: expected a whole number of turns, 1 or more",
          "extraction.notes: there is no language model: provide a Completion",
          "injection.maxEntries: expected 1 to 1,000",
          "injection.budget: expected a whole number of tokens"
        ]
      })
    }).pipe(Effect.scoped))
})

describe("search", () => {
  it.effect("gives of each store what the call says, else what the store says, else three", () =>
    Effect.gen(function*() {
      const { add, search } = yield* manager
      yield* add(ada, Array.from({ length: 5 }, (_, n) => draft(`tea ${"abcde"[n]} of a kind`)))
      const count = (store: string, { hits }: Effect.Effect.Success<ReturnType<typeof search>>) =>
        hits.filter((hit) => hit.store === store || hit.alsoIn?.includes(store)).length
      const own = (stores: ReadonlyArray<string>, maxSearchResults?: number) =>
        Effect.map(search(ada, "tea", { stores, maxSearchResults }), ({ hits }) => hits.length)
      assert.strictEqual(yield* own(["notes"]), 3)
      assert.strictEqual(yield* own(["scratch"]), 2)
      assert.strictEqual(yield* own(["scratch"], 4), 4)
      assert.isAtLeast(count("notes", yield* search(ada, "tea")), 3)
      assert.deepStrictEqual(bodies(yield* search(ada, "tea", { stores: [] })), bodies(yield* search(ada, "tea")))
    }).pipe(Effect.provide(world())))

  it.effect("a store that fails is named beside what the others found; all failing is an error; an unknown one asks nobody", () =>
    Effect.gen(function*() {
      const { add, search } = yield* manager
      yield* add(ada, [draft("green tea")], { stores: ["notes"] })
      const { failures, hits } = yield* search(ada, "tea")
      assert.deepStrictEqual(hits.map(({ record, store }) => [record.body, store]), [["green tea", "notes"]])
      assert.deepStrictEqual(failures.map(({ error, leg }) => [leg, error.reason]), [["broken", "io"]])
      assert.include(["io", "unavailable"], yield* reason(search(ada, "tea", { stores: ["broken"] })))
      const error = yield* Effect.flip(search(ada, "tea", { stores: ["notes", "nowhere"] }))
      assert.strictEqual(error.reason, "not_found")
      assert.include(error.message, "notes")
    }).pipe(Effect.provide(world({
      stores: { notes: { layer: memory, writable: true }, broken: { layer: broken("search") } }
    }))))

  it.effect("what two stores both hold takes one place, and neither takes them all", () =>
    Effect.gen(function*() {
      const { add, inject } = yield* manager
      yield* add(ada, [draft("Ada drinks green tea at noon.")])
      yield* add(ada, Array.from({ length: 9 }, (_, n) => draft(`tea number ${n}`)), { stores: ["notes"] })
      yield* TestClock.adjust("1 second") // of equal scores the newer is first
      yield* add(ada, [draft("a tea pot of iron")], { stores: ["scratch"] })
      const { text } = yield* inject(ada, [Message.user("tea?")])
      assert.lengthOf(text.match(/<entry /g) ?? [], 5)
      assert.include(text, "a tea pot of iron")
      assert.isAtMost(text.match(/at noon/g)?.length ?? 0, 1)
      assert.include(text, "store=\"scratch\"")
    }).pipe(Effect.provide(world())))
})

describe("add", () => {
  it.effect("writes to all that take writes, or to those that are named, each once", () =>
    Effect.gen(function*() {
      const { add, search } = yield* manager
      const everywhere = yield* add(ada, [draft("green tea")])
      assert.deepStrictEqual(everywhere.map(({ store }) => store), ["notes", "scratch"])
      const named = yield* add(ada, [draft("black coffee")], { stores: ["scratch", "scratch"] })
      assert.deepStrictEqual(named.map(({ store }) => store), ["scratch"])
      assert.deepStrictEqual(bodies(yield* search(ada, "coffee", { stores: ["notes"] })), [])
      assert.strictEqual(yield* reason(add(ada, [draft("x")], { stores: ["nowhere"] })), "not_found")
    }).pipe(Effect.provide(world())))

  it.effect("keeps where one of several failed what the others took, and fails where all did", () =>
    Effect.gen(function*() {
      const { add, search } = yield* manager
      const added = yield* add(ada, [draft("green tea")])
      const outcomes = yield* Effect.forEach(added, ({ result, store }) =>
        Effect.match(result, {
          onSuccess: (puts) => [store, puts.length] as const,
          onFailure: ({ reason }) => [store, reason] as const
        }))
      assert.deepStrictEqual(outcomes, [["notes", 1], ["broken", "io"]])
      assert.deepStrictEqual(bodies(yield* search(ada, "tea", { stores: ["notes"] })), ["green tea"])
      assert.strictEqual(yield* reason(add(ada, [draft("x")], { stores: ["broken"] })), "io")
      assert.strictEqual(yield* reason(add(ada, [draft("x")], { stores: ["closed"] })), "read_only")
    }).pipe(Effect.provide(world({
      stores: {
        notes: { layer: memory, writable: true },
        broken: { layer: broken("put", "apply"), writable: true },
        closed: { layer: memory }
      }
    }))))
})

describe("the tools", () => {
  it.effect("are search, add, each with its stores described, and in this order; under whatever names", () =>
    Effect.gen(function*() {
      const plain = yield* MemoryTools.makeStores(ada)
      assert.deepStrictEqual(plain.map(({ name, writes }) => [name, writes]), [["search_memory", false]])
      const both = yield* MemoryTools.makeStores(ada, { add: true })
      assert.deepStrictEqual(both.map(({ name, writes }) => [name, writes]), [["search_memory", false], [
        "add_memory",
        true
      ]])
      for (const { description } of both) assert.include(description, "- notes: what the user wants kept\n- scratch")
      const named = yield* MemoryTools.makeStores(ada, {
        search: { name: "find", description: "Finds." },
        add: { name: "keep", description: "Keeps." }
      })
      assert.deepStrictEqual(named.map(({ name }) => name), ["find", "keep"])
      assert.strictEqual(named[0]!.description, "Finds.\nStores:\n- notes: what the user wants kept\n- scratch")
      assert.lengthOf(yield* MemoryTools.makeStores(ada, { search: false }), 0)
      assert.strictEqual(
        yield* reason(MemoryTools.makeStores(ada, { search: { name: "x" }, add: { name: "x" } })),
        "invalid_id"
      )
      assert.strictEqual(yield* reason(MemoryTools.makeStores(ada, { search: { name: "a b" } })), "invalid_id")
      assert.strictEqual(yield* reason(MemoryTools.makeStores(ada, { stores: ["nowhere"] })), "not_found")
    }).pipe(Effect.provide(world())))

  it.effect("search_memory and add_memory have the seed's shapes", () =>
    Effect.gen(function*() {
      const tools = yield* MemoryTools.makeStores(ada, { add: true })
      const add = called(tools, "add_memory")
      const search = called(tools, "search_memory")
      assert.deepStrictEqual((yield* add.call({ entries: ["Likes green tea.", "Has a cat."], stores: [] })).data, {
        stored: 2
      })
      const found = yield* search.call({ query: "tea", stores: ["notes"], maxSearchResults: 1 })
      assert.deepStrictEqual(found.data, [{ content: "Likes green tea.", storeName: "notes" }])
      assert.deepStrictEqual((yield* search.call({ query: "tea", stores: ["notes", "nowhere"] })).data, found.data)
      for (
        const input of [{ entries: [] }, { entries: [" "] }, { entries: "tea" }, { entries: ["x"], userId: "bob" }]
      ) {
        assert.strictEqual(yield* reason(add.call(input)), "invalid_draft")
      }
      assert.strictEqual(yield* reason(search.call({ query: "", stores: [] })), "invalid_draft")
      const { message } = yield* Effect.flip(search.call({ query: "tea", stores: ["nowhere"] }))
      assert.include(message, "notes, scratch")
    }).pipe(Effect.provide(world({ spec: { writesPerTurn: 0 } }))))

  it.effect("a second add_memory of a turn is denied, and nothing of it kept", () =>
    Effect.gen(function*() {
      const { search } = yield* manager
      const add = called(yield* MemoryTools.makeStores(ada, { add: { waitForWrites: false } }), "add_memory")
      assert.deepStrictEqual((yield* add.call({ entries: ["Likes tea."] })).data, { accepted: 1 })
      assert.strictEqual(yield* reason(add.call({ entries: ["Likes coffee."] })), "rate_limited")
      yield* Effect.flatMap(manager, ({ flush }) => flush)
      assert.deepStrictEqual(bodies(yield* search(ada, "likes", { stores: ["notes"] })), ["Likes tea."])
    }).pipe(Effect.provide(world())))

  it.effect("what a store refuses is told with its name, what the others took stays, and no place on a disk is named", () =>
    Effect.gen(function*() {
      const add = called(yield* MemoryTools.makeStores(ada, { add: true }), "add_memory")
      const { message } = yield* Effect.flip(add.call({ entries: ["Likes tea.", "Has a cat."] }))
      assert.strictEqual(message, "failed to add 2 of 4 entries: broken: the memory could not be reached (io)")
      const { search } = yield* manager
      assert.deepStrictEqual(bodies(yield* search(ada, "tea", { stores: ["notes"] })), ["Likes tea."])
    }).pipe(Effect.provide(world({
      stores: { notes: { layer: memory, writable: true }, broken: { layer: broken("put", "apply"), writable: true } }
    }))))

  it.effect("in the background a failure is an event, and the call is accepted", () =>
    heard(Effect.gen(function*() {
      const add = called(yield* MemoryTools.makeStores(ada, { add: { waitForWrites: false } }), "add_memory")
      assert.deepStrictEqual((yield* add.call({ entries: ["Likes tea."] })).data, { accepted: 1 })
      yield* Effect.flatMap(manager, ({ flush }) => flush)
    })).pipe(
      Effect.map(({ tags }) => assert.include(tags, "memory_write_failed")),
      Effect.provide(world({ stores: { broken: { layer: broken("put", "apply"), writable: true } } }))
    ))

  it.effect("reach no store beyond those they were made for", () =>
    Effect.gen(function*() {
      const tools = yield* MemoryTools.makeStores(ada, { stores: ["scratch"], add: true })
      assert.deepStrictEqual((yield* called(tools, "add_memory").call({ entries: ["Likes tea."] })).data, { stored: 1 })
      assert.strictEqual(
        yield* reason(called(tools, "add_memory").call({ entries: ["Likes tea."], stores: ["notes"] })),
        "not_found"
      )
      const { search } = yield* manager
      assert.deepStrictEqual(bodies(yield* search(ada, "tea", { stores: ["notes"] })), [])
      assert.notInclude(called(tools, "search_memory").description, "notes")
    }).pipe(Effect.provide(world({ spec: { writesPerTurn: 0 } }))))
})

describe("a turn", () => {
  it.effect("is kept, read when its trigger says so, and found by the next one", () =>
    Effect.gen(function*() {
      const { context, flush, turnEnd } = yield* service
      assert.strictEqual((yield* context([Message.user("What do I drink?")])).text, "")
      yield* turnEnd([Message.user("I drink green tea."), Message.assistant("Noted.")])
      yield* turnEnd([Message.user("My cat is Miou.")])
      yield* TestClock.adjust("1 second")
      const { text } = yield* context([Message.user("What do I drink?")])
      assert.include(text, "I drink green tea.")
      yield* flush
      const { outboxes } = yield* manager
      assert.strictEqual((yield* outboxes.get("notes")!.status).waiting, 0)
    }).pipe(
      MemoryService.as(ada),
      Effect.provide(world({ config: { extraction: { notes: { trigger: ExtractionTrigger.interval(2) } } } }))
    ))

  it.effect("of a session is read at its end; what was injected is not read again, nor what tools said", () =>
    Effect.gen(function*() {
      const { context, sessionEnd, turnEnd } = yield* service
      const { search } = yield* manager
      yield* turnEnd([Message.user("I drink green tea.")])
      yield* sessionEnd
      yield* TestClock.adjust("1 second")
      const { text } = yield* context([Message.user("tea")])
      assert.include(text, "green tea")
      yield* turnEnd([
        Message.user(`I have a cat.\n\n${text}`),
        new Message.Message({ role: "tool", content: "user: I am a tool", tool: true })
      ])
      yield* sessionEnd
      yield* TestClock.adjust("1 second")
      const { hits } = yield* search(ada, "tea cat tool", { stores: ["notes"], maxSearchResults: 10 })
      assert.deepStrictEqual(hits.map(({ record }) => record.body).sort(), ["I drink green tea.", "I have a cat."])
    }).pipe(
      MemoryService.as(ada),
      Effect.provide(world({ config: { extraction: { notes: { trigger: ExtractionTrigger.sessionEnd } } } }))
    ))

  it.effect("of two hundred users at once is each user's own", () =>
    Effect.gen(function*() {
      const { context, flush, turnEnd } = yield* service
      const users = Array.from({ length: 200 }, (_, n) => Viewer.make({ userId: `user${n}`, sessionId: "same" }))
      const secret = (n: number) => `My secret word is w${n}x.`
      yield* Effect.forEach(users, (viewer, n) => MemoryService.as(viewer)(turnEnd([Message.user(secret(n))])), {
        concurrency: "unbounded",
        discard: true
      })
      yield* flush
      yield* Effect.forEach(users, (viewer, n) =>
        Effect.map(MemoryService.as(viewer)(context([Message.user("What is my secret word?")])), ({ ids, text }) => {
          assert.lengthOf(ids, 1)
          assert.include(text, secret(n))
        }), { concurrency: "unbounded", discard: true })
    }).pipe(
      Effect.provide(world({ config: { extraction: { notes: { trigger: ExtractionTrigger.idle("10 minutes") } } } }))
    ))

  it.effect("without a manager is told to the plugins, and flush has nothing to wait for", () =>
    Effect.gen(function*() {
      const { flush, turnEnd } = yield* service
      yield* MemoryService.as(bob)(turnEnd([Message.user("hello")]))
      yield* flush
    }).pipe(Effect.provide(MemoryService.layerTest())))
})
