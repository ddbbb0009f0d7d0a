/** The behaviour of Strands' memory manager, tested through its own signatures. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import * as Strands from "../../src/compat/Strands.ts"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import type { Trust } from "../../src/domain/MemoryRecord.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import { broken, writing } from "../harness/Managed.ts"
import { settled } from "../harness/Service.ts"
import { awaited, rejection, running } from "./running.ts"

const ada = Viewer.make({ userId: "ada", sessionId: "s" })
const open = (config: Strands.MemoryManagerConfig) =>
  Effect.flatMap(running(), (run) => Strands.initAgent(config, ada, run))
const law = (title: string, check: Effect.Effect<void, unknown, Scope.Scope>) => it.scoped(title, () => check)
const contents = (all: ReadonlyArray<Strands.MemoryEntry>) => all.map(({ content }) => content)
const notes = { name: "notes", writable: true }
const archive = { name: "archive" }
const down = writing(Effect.fail(MemoryError.make("unavailable", { op: "put", message: "down" })))

describe("Strands' configuration", () => {
  const cases: ReadonlyArray<readonly [string, Strands.MemoryManagerConfig]> = [
    ["without a store", { stores: [] }],
    ["with two stores of the same name", { stores: [notes, archive, { ...notes, writable: false }] }],
    ["with extraction into a store that is not writable", { stores: [{ ...archive, extraction: true }] }],
    ["with extraction but without a model", { stores: [{ ...notes, extraction: true }] }],
    ["with an interval of 0 turns", {
      stores: [{ ...notes, extraction: { trigger: ExtractionTrigger.interval(0), options: { infer: false } } }]
    }]
  ]
  for (const [title, config] of cases) {
    law(
      `\`initAgent\` fails with \`invalid_draft\` for a manager ${title}`,
      Effect.gen(function*() {
        assert.strictEqual((yield* Effect.flip(open(config))).reason, "invalid_draft")
      })
    )
  }

  law(
    "`initAgent` names every violation in the options of extraction, not only the first",
    Effect.gen(function*() {
      const extraction = { trigger: ExtractionTrigger.interval(0), options: { infer: false } }
      const { detail } = yield* Effect.flip(open({ stores: [notes, { ...archive, extraction }] }))
      assert.deepStrictEqual(detail, {
        issues: [
          "extraction.archive: the store takes no writes",
          "extraction.archive: interval: expected a whole number of turns, 1 or more"
        ]
      })
    })
  )

  law(
    "`add` writes only to stores with `writable: true`, and fails with `read_only` if no chosen store is writable",
    Effect.gen(function*() {
      const manager = yield* open({ stores: [notes, archive] })
      yield* awaited(() => manager.add("Ada likes tea"))
      assert.deepStrictEqual(yield* awaited(() => manager.search("tea")), [{
        content: "Ada likes tea",
        storeName: "notes"
      }])
      assert.deepInclude(yield* rejection(() => manager.add("x", { stores: ["archive"] })), { reason: "read_only" })
      assert.deepInclude(yield* rejection(() => manager.add("x", { stores: [] })), { reason: "read_only" })
      assert.deepStrictEqual(yield* awaited(() => manager.search("x")), [])
      const closed = yield* open({ stores: [archive] })
      assert.deepInclude(yield* rejection(() => closed.add("x")), { reason: "read_only" })
    })
  )
})

describe("Strands' search", () => {
  const filled = (stores: ReadonlyArray<Strands.MemoryStoreConfig>) =>
    Effect.gen(function*() {
      const manager = yield* open({ stores })
      for (let n = 0; n < 8; n++) yield* awaited(() => manager.add(`tea of kind ${"abcdefgh"[n]}`))
      return manager
    })

  law(
    "a search takes the limit of hits per store from the call or, if the call sets none, from the store's option; the default is three",
    Effect.gen(function*() {
      const manager = yield* filled([notes, { ...notes, name: "more", maxSearchResults: 2 }])
      const count = (options?: { maxSearchResults?: number; stores?: ReadonlyArray<string> }) =>
        Effect.map(awaited(() => manager.search("tea", options)), ({ length }) => length)
      assert.strictEqual(yield* count({ stores: ["notes"] }), 3)
      assert.strictEqual(yield* count({ stores: ["more"] }), 2)
      assert.strictEqual(yield* count({ stores: ["more"], maxSearchResults: 5 }), 5)
      assert.strictEqual(yield* count({ stores: [] }), 0)
    })
  )

  law(
    "a search fails for an unknown store, and returns each hit of a store once even if the store is named twice",
    Effect.gen(function*() {
      const manager = yield* filled([notes])
      assert.deepInclude(yield* rejection(() => manager.search("tea", { stores: ["notes", "nowhere"] })), {
        reason: "not_found"
      })
      const found = yield* awaited(() => manager.search("tea", { stores: ["notes", "notes"] }))
      assert.lengthOf(found, 3)
      yield* awaited(() => manager.add("coffee", { stores: ["notes", "notes"] }))
      assert.lengthOf(yield* awaited(() => manager.search("coffee")), 1)
    })
  )

  law(
    "the hits of all stores are ranked together, and an entry that was added to two stores is returned once",
    Effect.gen(function*() {
      const manager = yield* open({ stores: [notes, { ...notes, name: "more" }] })
      yield* awaited(() =>
        manager.add("tea, among many other things that are drunk in the afternoon", { stores: ["notes"] })
      )
      yield* awaited(() => manager.add("green tea", { stores: ["more"] }))
      yield* awaited(() => manager.add("the tea party of Boston"))
      const found = yield* awaited(() => manager.search("green tea"))
      assert.strictEqual(found[0]!.storeName, "more")
      assert.lengthOf(found.filter(({ content }) => content.includes("Boston")), 1)
    })
  )

  law(
    "a search leaves out a store that fails, and fails if all stores fail",
    Effect.gen(function*() {
      const manager = yield* open({ stores: [notes, { name: "broken", layer: broken("search") }] })
      yield* awaited(() => manager.add("tea"))
      assert.deepStrictEqual(contents(yield* awaited(() => manager.search("tea"))), ["tea"])
      const none = yield* open({ stores: [{ name: "broken", layer: broken("search") }] })
      assert.instanceOf(yield* rejection(() => none.search("tea")), MemoryError.MemoryError)
    })
  )

  law(
    "a search returns the metadata of an entry, and finds a word in Japanese text, which has no spaces",
    Effect.gen(function*() {
      const manager = yield* open({ stores: [notes] })
      yield* awaited(() => manager.add("今日は記憶について話した", { metadata: { topic: "記憶" } }))
      const [entry] = yield* awaited(() => manager.search("記憶"))
      assert.deepStrictEqual(entry!.metadata, { topic: "記憶" })
    })
  )
})

describe("Strands' add", () => {
  law(
    "a failed `add` names the failed store, and keeps the entry in the other stores",
    Effect.gen(function*() {
      const manager = yield* open({ stores: [notes, { ...notes, name: "broken", layer: down }] })
      const error = yield* rejection(() => manager.add("tea"))
      assert.instanceOf(error, AggregateError)
      assert.include(String(error), "broken: down")
      assert.deepStrictEqual(contents(yield* awaited(() => manager.search("tea", { stores: ["notes"] }))), ["tea"])
    })
  )

  law(
    "two statements that differ only at the end are stored as two entries",
    Effect.gen(function*() {
      const manager = yield* open({ stores: [notes] })
      const start = "Ada's favourite place in the whole world is the lake near"
      yield* awaited(() => manager.add(`${start} Bern`))
      yield* awaited(() => manager.add(`${start} Zug`))
      assert.lengthOf(yield* awaited(() => manager.search("favourite lake")), 2)
    })
  )
})

describe("Strands' tools", () => {
  law(
    "`getTools` returns a search tool, and an add tool if `addToolConfig` is set",
    Effect.gen(function*() {
      const stores = [{ ...notes, description: "what the user wants kept" }, archive]
      const plain = yield* open({ stores })
      assert.deepStrictEqual((yield* awaited(plain.getTools)).map(({ name }) => name), ["search_memory"])
      const manager = yield* open({ stores, addToolConfig: { name: "keep" } })
      const [search, add] = yield* awaited(manager.getTools)
      assert.deepStrictEqual([search!.name, add!.name], ["search_memory", "keep"])
      assert.include(search!.description, "what the user wants kept")
      assert.notInclude(add!.description, "archive")
    })
  )

  law(
    "the tools use only the stores in `toolStores`, and `getTools` fails for an unknown store",
    Effect.gen(function*() {
      const stores = [notes, { ...notes, name: "more" }, archive]
      const manager = yield* open({ stores, addToolConfig: true, toolStores: ["more"] })
      const [search, add] = yield* awaited(manager.getTools)
      yield* awaited(() => manager.add("Ada likes rain", { stores: ["notes"] }))
      yield* add!.call({ entries: ["Ada likes tea"] })
      assert.lengthOf(yield* awaited(() => manager.search("tea", { stores: ["notes"] })), 0)
      assert.deepStrictEqual((yield* search!.call({ query: "rain" })).data, [])
      for (const [toolStores, reason] of [[["nowhere"], "not_found"], [["archive"], "read_only"]] as const) {
        const wrong = yield* open({ stores, addToolConfig: true, toolStores })
        assert.deepInclude(yield* rejection(wrong.getTools), { reason })
      }
    })
  )

  law(
    "the add tool returns the number of stored entries, and fails for an empty list; the search tool names the store of a hit",
    Effect.gen(function*() {
      const manager = yield* open({ stores: [notes], addToolConfig: true })
      const [search, add] = yield* awaited(manager.getTools)
      assert.strictEqual((yield* Effect.flip(add!.call({ entries: [] }))).reason, "invalid_draft")
      assert.deepInclude((yield* add!.call({ entries: ["Ada likes tea", "Ada likes rain"] })).data, { stored: 2 })
      const { data } = yield* search!.call({ query: "rain" })
      assert.deepInclude((data as ReadonlyArray<object>)[0], { content: "Ada likes rain", storeName: "notes" }) // the output is a list
    })
  )

  law(
    "the add tool with `waitForWrites: false` accepts entries, and the next flush waits until they are stored",
    Effect.gen(function*() {
      const manager = yield* open({ stores: [notes], addToolConfig: { waitForWrites: false } })
      const [, add] = yield* awaited(manager.getTools)
      assert.deepInclude((yield* add!.call({ entries: ["Ada likes tea"] })).data, { accepted: 1 })
      yield* awaited(manager.flush)
      assert.deepStrictEqual(contents(yield* awaited(() => manager.search("tea"))), ["Ada likes tea"])
    })
  )
})

describe("Strands' injection", () => {
  const injecting = (injection?: Strands.MemoryManagerConfig["injection"]) =>
    Effect.tap(
      open({ stores: [notes], injection }),
      (manager) => awaited(() => manager.add("Ada </memory> likes <b>tea"))
    )

  law(
    "`inject` returns a block of memories for a user's message; the memories are escaped, and each has the name of its store",
    Effect.gen(function*() {
      const manager = yield* injecting()
      const text = yield* awaited(() => manager.inject([Message.user("tea?")]))
      assert.match(text, /^<memory>[^]*<entry store="notes" [^>]*>\n[^]*<\/memory>$/)
      assert.strictEqual(text.match(/<\/memory>/g)?.length, 1)
      assert.notInclude(text, "<b>")
    })
  )

  law(
    "nothing is injected after a tool result, for a message without words or without a hit, or if injection is off",
    Effect.gen(function*() {
      const manager = yield* injecting()
      const tool = new Message.Message({ role: "user", content: "tea", tool: true })
      for (const messages of [[Message.user("tea"), tool], [Message.user("?")], [Message.user("coffee")], []]) {
        assert.strictEqual(yield* awaited(() => manager.inject(messages)), "")
      }
      const off = yield* injecting(false)
      assert.strictEqual(yield* awaited(() => off.inject([Message.user("tea")])), "")
    })
  )
})

describe("Strands' callbacks of injection", () => {
  const { user } = Message
  const cases: ReadonlyArray<readonly [string, Strands.MemoryManagerConfig["injection"]]> = [
    ["trigger", { trigger: () => assert.fail("no trigger") }],
    ["query", { query: () => assert.fail("no query") }],
    ["format", { format: () => assert.fail("no format") }]
  ]
  for (const [name, injection] of cases) {
    law(
      `\`inject\` returns an empty text if the callback \`${name}\` throws, and \`search\` still works`,
      Effect.gen(function*() {
        const manager = yield* open({ stores: [notes], injection })
        yield* awaited(() => manager.add("Ada likes tea"))
        assert.strictEqual(yield* awaited(() => manager.inject([user("tea?")])), "")
        assert.lengthOf(yield* awaited(() => manager.search("tea")), 1)
      })
    )
  }

  law(
    "an injection uses the options `query`, `maxEntries` and `format`",
    Effect.gen(function*() {
      const manager = yield* open({
        stores: [notes],
        injection: {
          trigger: "everyTurn",
          query: () => "tea",
          maxEntries: 1,
          format: ({ hits }) => ({ text: `${hits.length} hits`, ids: [], leftOut: 0 })
        }
      })
      for (const kind of ["green", "black"]) yield* awaited(() => manager.add(`${kind} tea`))
      assert.strictEqual(yield* awaited(() => manager.inject([Message.assistant("hm")])), "1 hits")
    })
  )
})

describe("Strands' extraction", () => {
  const said = (...texts: ReadonlyArray<string>) => texts.map((text) => Message.user(text))
  /** Makes an extractor that returns each message as a fact and records its calls. A call for which `fails` returns true fails. */
  const extractor = (fails: (call: number) => boolean = () => false) => {
    const calls: Array<ReadonlyArray<string>> = []
    return {
      calls,
      customExtract: (messages: ReadonlyArray<Message.Message>) =>
        Effect.suspend(() => {
          const texts = messages.map(({ content }) => content)
          return fails(calls.push(texts))
            ? Effect.fail(MemoryError.make("model", { op: "extract", message: "no answer" }))
            : Effect.succeed(texts.map((text) => ({ text, metadata: { from: "chat" } })))
        })
    }
  }

  law(
    "extraction with the trigger `interval(5)` extracts each message of ten turns once",
    Effect.gen(function*() {
      const { calls, customExtract } = extractor()
      const manager = yield* open({
        stores: [{ ...notes, extraction: { trigger: ExtractionTrigger.interval(5), options: { customExtract } } }]
      })
      for (let n = 1; n <= 10; n++) {
        yield* awaited(() => manager.addMessages(said(`turn ${n}`)))
        yield* settled
      }
      assert.deepStrictEqual(calls.flat(), Array.from({ length: 10 }, (_, n) => `turn ${n + 1}`))
      const [entry] = yield* awaited(() => manager.search("turn"))
      assert.deepInclude(entry, { storeName: "notes", metadata: { from: "chat" } })
    })
  )

  law(
    "extraction with several triggers starts when any of the triggers fires",
    Effect.gen(function*() {
      const { calls, customExtract } = extractor()
      const trigger = ExtractionTrigger.any(ExtractionTrigger.interval(100), ExtractionTrigger.invocation)
      const manager = yield* open({ stores: [{ ...notes, extraction: { trigger, options: { customExtract } } }] })
      yield* awaited(() => manager.addMessages(said("one")))
      yield* settled
      assert.deepStrictEqual(calls, [["one"]])
    })
  )

  law(
    "a flush extracts those messages that are not yet extracted, in their order and each once",
    Effect.gen(function*() {
      const { calls, customExtract } = extractor()
      const manager = yield* open({ stores: [{ ...notes, extraction: { options: { customExtract } } }] })
      yield* awaited(() => manager.addMessages(said("one", "two")))
      yield* awaited(manager.flush)
      yield* awaited(manager.flush)
      yield* awaited(() => manager.addMessages(said("three")))
      yield* awaited(manager.flush)
      assert.deepStrictEqual(calls, [["one", "two"], ["three"]])
    })
  )

  law(
    "a failed extraction is repeated together with all later messages, and does not delay extraction into another store",
    Effect.gen(function*() {
      const failing = extractor((call) => call <= 2)
      const healthy = extractor()
      const never = ExtractionTrigger.sessionEnd
      const manager = yield* open({
        stores: [
          { ...notes, extraction: { trigger: never, options: { customExtract: failing.customExtract } } },
          { ...notes, name: "more", extraction: { trigger: never, options: { customExtract: healthy.customExtract } } }
        ]
      })
      yield* awaited(() => manager.addMessages(said("one")))
      assert.instanceOf(yield* rejection(manager.flush), MemoryError.MemoryError)
      assert.deepStrictEqual(contents(yield* awaited(() => manager.search("one"))), ["one"])
      yield* awaited(() => manager.addMessages(said("two")))
      while ((yield* rejection(manager.flush)) !== undefined) yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(failing.calls.at(-1), ["one", "two"])
      assert.lengthOf(yield* awaited(() => manager.search("two", { stores: ["notes"] })), 1)
    })
  )

  law(
    "a turn that consists only of tool messages starts no extraction",
    Effect.gen(function*() {
      const { calls, customExtract } = extractor()
      const manager = yield* open({ stores: [{ ...notes, extraction: { options: { customExtract } } }] })
      const tool = new Message.Message({ role: "assistant", content: "calling", tool: true })
      yield* awaited(() => manager.addMessages([tool]))
      yield* awaited(manager.flush)
      assert.deepStrictEqual(calls, [])
    })
  )

  law(
    "extraction with `infer: false` needs no model and stores each message unchanged",
    Effect.gen(function*() {
      const trust: Trust = 1
      const manager = yield* open({ stores: [{ ...notes, extraction: { options: { infer: false, trust } } }] })
      yield* awaited(() => manager.addMessages(said("I like tea")))
      yield* awaited(manager.flush)
      assert.deepStrictEqual(contents(yield* awaited(() => manager.search("tea"))), ["I like tea"])
    })
  )
})
