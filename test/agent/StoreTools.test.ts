import * as Chat from "@effect/ai/Chat"
import * as LanguageModel from "@effect/ai/LanguageModel"
import type * as Response from "@effect/ai/Response"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as MemoryToolkit from "../../src/agent/MemoryToolkit.ts"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import * as Message from "../../src/domain/Message.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import { ada, bob, bodies, broken, manager, memory, world, writing } from "../harness/Managed.ts"
import { heard, note, over, reason } from "../harness/Service.ts"

const refused = MemoryError.make("invalid_draft", { op: "put", message: "not here", detail: { issues: ["not here"] } })
const full = MemoryError.make("unsupported", { op: "put", message: "it is full" })

const called = (
  tools: ReadonlyArray<{ readonly name: string; readonly call: (input: unknown) => unknown }>,
  name: string
) => {
  const tool = tools.find((tool) => tool.name === name)
  assert.isDefined(tool, `there is a tool ${name}`)
  return tool as Effect.Effect.Success<ReturnType<typeof MemoryTools.makeStores>>[number]
}

describe("MemoryTools.makeStores", () => {
  it.effect("MemoryTools.makeStores makes `search_memory` by default and `add_memory` on request; both tools' descriptions list the stores", () =>
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

  it.effect("`add_memory` returns the number of stored entries, and `search_memory` returns each hit's text, store, origin and trust", () =>
    Effect.gen(function*() {
      const tools = yield* MemoryTools.makeStores(ada, { add: true })
      const add = called(tools, "add_memory")
      const search = called(tools, "search_memory")
      assert.deepStrictEqual((yield* add.call({ entries: ["Likes green tea.", "Has a cat."], stores: [] })).data, {
        stored: 2
      })
      const found = yield* search.call({ query: "tea", stores: ["notes"], maxSearchResults: 1 })
      assert.deepStrictEqual(found.data, [
        { content: "Likes green tea.", storeName: "notes", origin: "agent", trust: 1 }
      ])
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

  it.effect("a second call of `add_memory` in a turn is denied, and stores nothing", () =>
    Effect.gen(function*() {
      const { search } = yield* manager
      const add = called(yield* MemoryTools.makeStores(ada, { add: { waitForWrites: false } }), "add_memory")
      assert.deepStrictEqual((yield* add.call({ entries: ["Likes tea."] })).data, { accepted: 1 })
      assert.strictEqual(yield* reason(add.call({ entries: ["Likes coffee."] })), "rate_limited")
      yield* Effect.flatMap(manager, ({ flush }) => flush)
      assert.deepStrictEqual(bodies(yield* search(ada, "likes", { stores: ["notes"] })), ["Likes tea."])
    }).pipe(Effect.provide(world())))

  it.effect("exactly one of several concurrent `add_memory` calls writes if the limit is one write per turn", () =>
    Effect.gen(function*() {
      const { search } = yield* manager
      const add = called(yield* MemoryTools.makeStores(ada, { add: true }), "add_memory")
      const answers = yield* Effect.forEach(
        ["Likes tea.", "Has a cat.", "Has a dog.", "Likes milk.", "Likes rum."],
        (entry) => Effect.flip(add.call({ entries: [entry] })),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(answers.map(({ reason }) => reason).toSorted(), [
        "invalid_draft",
        ...["rate_limited", "rate_limited", "rate_limited", "rate_limited"] as const
      ])
      assert.deepInclude(answers.find(({ reason }) => reason === "invalid_draft"), { written: 1 })
      assert.lengthOf(bodies(yield* search(ada, "likes has", { stores: ["notes"] })), 1)
    }).pipe(Effect.provide(world({
      stores: { notes: { layer: memory, writable: true }, strict: { layer: writing(refused), writable: true } }
    }))))

  it.effect("an `add_memory` call that every store refuses with `invalid_draft` does not count against the write limit", () =>
    Effect.gen(function*() {
      const add = called(yield* MemoryTools.makeStores(ada, { add: true }), "add_memory")
      for (let n = 0; n < 3; n++) {
        assert.strictEqual(yield* reason(add.call({ entries: ["Likes tea."] })), "invalid_draft")
      }
    }).pipe(Effect.provide(world({
      stores: { one: { layer: writing(refused), writable: true }, strict: { layer: writing(refused), writable: true } }
    }))))

  it.effect("`add_memory` names a store that fails with `io`, but not the store's error message; another store keeps the entries", () =>
    Effect.gen(function*() {
      const add = called(yield* MemoryTools.makeStores(ada, { add: true }), "add_memory")
      const { message } = yield* Effect.flip(add.call({ entries: ["Likes tea.", "Has a cat."] }))
      assert.strictEqual(message, "failed to add 2 of 4 entries: broken: the memory could not be reached (io)")
      const { search } = yield* manager
      assert.deepStrictEqual(bodies(yield* search(ada, "tea", { stores: ["notes"] })), ["Likes tea."])
    }).pipe(Effect.provide(world({
      stores: { notes: { layer: memory, writable: true }, broken: { layer: broken("put", "apply"), writable: true } }
    }))))

  it.effect("`add_memory` with `waitForWrites: false` publishes an event if a write fails later", () =>
    heard(Effect.gen(function*() {
      const add = called(yield* MemoryTools.makeStores(ada, { add: { waitForWrites: false } }), "add_memory")
      assert.deepStrictEqual((yield* add.call({ entries: ["Likes tea."] })).data, { accepted: 1 })
      yield* Effect.flatMap(manager, ({ flush }) => flush)
    })).pipe(
      Effect.map(({ tags }) => assert.include(tags, "memory_write_failed")),
      Effect.provide(world({ stores: { broken: { layer: broken("put", "apply"), writable: true } } }))
    ))

  it.effect("tools made for some of the stores write to no other store, and `search_memory` describes no other store", () =>
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

describe("MemoryTools.makeStores and the properties of its stores", () => {
  const closed = { notes: { layer: memory, writable: true }, archive: { layer: memory } } as const
  it.effect("`add_memory` offers only writable stores, and cannot be made without a writable store", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        yield* reason(MemoryTools.makeStores(ada, { stores: ["archive"], add: true })),
        "read_only"
      )
      const tools = yield* MemoryTools.makeStores(ada, { add: true })
      assert.include(called(tools, "search_memory").description, "- archive")
      assert.notInclude(called(tools, "add_memory").description, "archive")
      assert.strictEqual(
        yield* reason(called(tools, "add_memory").call({ entries: ["Likes tea."], stores: ["archive"] })),
        "not_found"
      )
    }).pipe(Effect.provide(world({ stores: closed }))))

  it.effect("a store's own tools are listed after `search_memory` and `add_memory`; those that write count against the write limit", () =>
    Effect.gen(function*() {
      const tools = yield* MemoryTools.makeStores(ada, { add: true })
      assert.deepStrictEqual(tools.map(({ name }) => name), ["search_memory", "add_memory", "zeta", "note"])
      const own = called(tools, "note")
      assert.strictEqual((yield* own.call({ text: "hi" })).data, "hi")
      assert.strictEqual(yield* reason(own.call({ text: "again" })), "rate_limited")
      assert.strictEqual(yield* reason(MemoryTools.makeStores(ada, { search: { name: "note" } })), "invalid_id")
    }).pipe(Effect.provide(world({
      stores: {
        first: { layer: over(() => ({ tools: () => [{ ...note, name: "zeta" }] })), writable: true },
        second: { layer: over(() => ({ tools: () => [note] })) }
      }
    }))))

  it.effect("`add_memory` stores equal entries once, even in two calls, and similar but different entries separately", () =>
    Effect.gen(function*() {
      const add = called(yield* MemoryTools.makeStores(ada, { add: true }), "add_memory")
      const alike = "Ada told me, on a long walk by the river in May, that she "
      const entries = [`${alike}likes tea`, `${alike}likes coffee`, `${alike}likes tea`]
      yield* add.call({ entries })
      yield* add.call({ entries })
      const { store } = yield* Effect.flatMap(Federated.Federated, ({ get }) => get("notes"))
      const { items } = yield* store.list(ada, {})
      assert.deepStrictEqual(items.map(({ body }) => body).sort(), [`${alike}likes coffee`, `${alike}likes tea`])
    }).pipe(Effect.provide(world({ spec: { writesPerTurn: 0 } }))))
})

describe("MemoryTools.makeStores with bad input", () => {
  it.effect("an invalid argument is refused with a short message that says what is expected", () =>
    Effect.gen(function*() {
      const tools = yield* MemoryTools.makeStores(ada, { add: true })
      const search = called(tools, "search_memory")
      const add = called(tools, "add_memory")
      const query = "tea"
      for (
        const [tool, input, message] of [
          [search, { query, userId: "bob" }, /^userId: is unexpected/],
          [search, { query, maxSearchResults: NaN }, /^maxSearchResults: /],
          [search, { query, maxSearchResults: 0 }, /^maxSearchResults: expected a whole number, 1 to 1,000$/],
          [search, { query, stores: "notes" }, /^stores: expected a list of names$/],
          [search, { query: "x".repeat(4_001) }, /^query: expected a question of 1 to 4,000 characters$/],
          [search, JSON.parse("{\"query\":\"tea\",\"__proto__\":{\"reach\":\"within\"}}"), /^__proto__: is unexpected/],
          [search, null, /./],
          [add, { entries: Array.from({ length: 10_000 }, () => "x") }, /^entries: expected 1 to 100 statements$/],
          [add, { entries: [] }, /^entries: .*at least 1/],
          [add, { entries: ["tea", " "] }, /^entries.1: expected a statement of 1 to 65,536 characters, well-formed$/],
          [add, { entries: ["\ud800"] }, /^entries.0: /],
          [add, { entries: ["x".repeat(65_537)] }, /^entries.0: /]
        ] as const
      ) {
        const error = yield* Effect.flip(tool.call(input))
        assert.strictEqual(error.reason, "invalid_draft")
        assert.match(error.message, message)
        assert.isAtMost(error.message.length, 1_000)
      }
      for (const name of ["__proto__", "constructor", "\ud800", "x".repeat(100_000)]) {
        const error = yield* Effect.flip(search.call({ query, stores: [name] }))
        assert.strictEqual(error.reason, "not_found")
        assert.isAtMost(error.message.length, 300)
      }
      assert.deepStrictEqual((yield* search.call({ query: "\ud800" })).data, [])
    }).pipe(Effect.provide(world({ spec: { writesPerTurn: 0 } }))))

  it.effect("a detached store is no longer used, and a search in that store alone fails with `not_found`", () =>
    Effect.gen(function*() {
      const { attach } = yield* Federated.Federated
      const guest = yield* Scope.make()
      yield* Scope.extend(attach("guest", { layer: memory, writable: true }), guest)
      const tools = yield* MemoryTools.makeStores(ada, { add: true })
      const search = called(tools, "search_memory")
      const add = called(tools, "add_memory")
      yield* add.call({ entries: ["Likes tea."] })
      yield* Scope.close(guest, Exit.void)
      assert.deepStrictEqual((yield* search.call({ query: "tea" })).data, [
        { content: "Likes tea.", storeName: "notes", origin: "agent", trust: 1 }
      ])
      assert.deepStrictEqual((yield* add.call({ entries: ["Has a cat."], stores: ["guest", "notes"] })).data, {
        stored: 1
      })
      const { message, reason: why } = yield* Effect.flip(search.call({ query: "tea", stores: ["guest"] }))
      assert.strictEqual(why, "not_found")
      assert.include(message, "the stores are: notes, scratch")
    }).pipe(Effect.provide(world({ spec: { writesPerTurn: 0 } }))))

  it.effect("a store's description with line breaks becomes one line in the description of a tool", () =>
    Effect.gen(function*() {
      const [search] = yield* MemoryTools.makeStores(ada)
      assert.deepStrictEqual(search!.description.split("\n").slice(1), ["Stores:", "- odd: for tea - all: everything"])
    }).pipe(Effect.provide(world({
      stores: { odd: { layer: memory, writable: true, description: "for tea\n- all: everything\n" } }
    }))))

  it.effect("`add_memory` fails with the error messages of all stores if every store refuses the entries", () =>
    Effect.gen(function*() {
      const add = called(yield* MemoryTools.makeStores(ada, { add: true }), "add_memory")
      assert.deepStrictEqual(yield* Effect.flip(add.call({ entries: ["Likes tea.", "Has a cat."] })), {
        reason: "unsupported",
        message: "failed to add 4 of 4 entries: one: it is full; other: it is full"
      })
    }).pipe(Effect.provide(world({
      stores: { one: { layer: writing(full), writable: true }, other: { layer: writing(full), writable: true } }
    }))))
})

describe("MemoryTools.makeStores with a model of @effect/ai", () => {
  const text = (text: string): Response.PartEncoded => ({ type: "text", text })
  const asks = (name: string, params: unknown): Response.PartEncoded => ({
    type: "tool-call",
    id: "call",
    name,
    params
  })
  /** Makes a model that gives the scripted answers in order; `asked` records its prompts. */
  const scripted = (...script: Array<ReadonlyArray<Response.PartEncoded>>) => {
    const asked: Array<LanguageModel.ProviderOptions> = []
    const next = (options: LanguageModel.ProviderOptions) =>
      Effect.sync(() => {
        asked.push(options)
        return [...script.shift() ?? []]
      })
    const model = Layer.effect(
      LanguageModel.LanguageModel,
      LanguageModel.make({ generateText: next, streamText: () => Stream.die("unused") })
    )
    return { asked, model }
  }

  it.effect("stored texts are injected into later prompts of a chat, but no `<memory>` block is kept in the chat's history", () => {
    const { asked, model } = scripted(
      [asks("add_memory", { entries: ["Ada has a cat, Miou."] }), asks("add_memory", { entries: ["Ada has a dog."] })],
      [text("Noted.")],
      [text("Miou, your cat.")],
      [text("To Lisbon.")]
    )
    const agent = MemoryToolkit.layerInjectedFor(bob).pipe(
      Layer.provideMerge(world({ config: { extraction: { notes: { trigger: ExtractionTrigger.invocation } } } })),
      Layer.provide(model)
    )
    return Effect.gen(function*() {
      const { flush, turnEnd, turnStart } = yield* MemoryService.MemoryService
      const chat = yield* Chat.empty
      const toolkit = yield* Effect.flatMap(MemoryTools.makeStores(ada, { add: true }), MemoryToolkit.make)
      const turn = (said: string) =>
        Effect.gen(function*() {
          yield* turnStart
          let reply = yield* chat.generateText({ prompt: said, toolkit })
          const results = reply.toolResults.map(({ result }) => result)
          while (reply.toolResults.length > 0) reply = yield* chat.generateText({ prompt: [], toolkit })
          yield* turnEnd([Message.user(said), Message.assistant(reply.text)])
          yield* flush
          return results
        })
      const [stored, denied] = yield* turn("I have a cat, Miou, and I moved to Lisbon.")
      assert.strictEqual(stored, "{\"stored\":1}")
      assert.deepInclude(denied, { reason: "rate_limited" })
      yield* turn("Who is my cat?")
      yield* turn("And where did I move to?")
      assert.lengthOf(asked, 4)
      const said = (n: number) => JSON.stringify(asked[n]!.prompt)
      assert.notInclude(said(0), "<memory>")
      assert.include(said(2), "Ada has a cat, Miou.")
      assert.include(said(3), "I have a cat, Miou, and I moved to Lisbon.\\n</entry>")
      assert.notInclude(JSON.stringify(yield* Effect.flatMap(manager, ({ search }) => search(ada, "cat dog"))), "dog")
      assert.notInclude(JSON.stringify(yield* chat.history), "<memory>")
      assert.notInclude(
        JSON.stringify(yield* Effect.flatMap(manager, ({ search }) => search(bob, "cat dog Lisbon"))),
        "Miou"
      )
    }).pipe(MemoryService.as(ada), Effect.provide(agent))
  })
})
