import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import { ada, bodies, broken, manager, memory, world } from "../harness/Managed.ts"
import { heard, reason } from "../harness/Service.ts"

const called = (
  tools: ReadonlyArray<{ readonly name: string; readonly call: (input: unknown) => unknown }>,
  name: string
) => {
  const tool = tools.find((tool) => tool.name === name)
  assert.isDefined(tool, `there is a tool ${name}`)
  return tool as Effect.Effect.Success<ReturnType<typeof MemoryTools.makeStores>>[number]
}

describe("MemoryTools.makeStores", () => {
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
