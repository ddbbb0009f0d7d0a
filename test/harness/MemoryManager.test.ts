import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import { stableId } from "../../src/domain/MemoryId.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import { ada, bob, bodies, broken, draft, manager, memory, service, world, writing } from "./Managed.ts"
import { heard, over, reason, settled } from "./Service.ts"

describe("the configuration of a MemoryManager", () => {
  it.effect("an invalid configuration fails with `invalid_draft`, and the error lists every invalid option", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Layer.build(world({
        stores: { notes: { layer: memory, writable: true }, archive: { layer: memory } },
        completion: Completion.layerNone,
        config: {
          extraction: {
            nowhere: true,
            archive: { trigger: ExtractionTrigger.interval(0), extractor: "ingest" },
            notes: { options: { kind: "a b", ttl: "soon" as "1 day", topK: NaN, maxFacts: 0 } }
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
          "extraction.notes: options.maxFacts: expected 1 to 256",
          "extraction.notes: options.ttl: expected a time, 0 ms or more, such as \"10 seconds\" or Duration.infinity",
          "extraction.notes: there is no language model: provide a Completion below MemoryManager.layer",
          "extraction.notes: options.kind: expected a name such as semantic",
          "extraction.notes: options.topK: expected 1 to 1,000",
          "injection.maxEntries: expected 1 to 1,000",
          "injection.budget: expected a whole number of tokens"
        ]
      })
    }).pipe(Effect.scoped))
})

describe("MemoryManager", () => {
  it.effect("extraction with `customExtract` succeeds without a model", () =>
    Effect.gen(function*() {
      const { outboxes } = yield* manager
      const memory = yield* service
      yield* memory.turnEnd([Message.user("I moved to Porto.")]).pipe(MemoryService.as(ada))
      yield* memory.flush
      const { items } = yield* memory.list({}).pipe(MemoryService.as(ada))
      assert.deepStrictEqual(items.map(({ body, metadata }) => ({ body, metadata })), [
        { body: "Ada lives in Porto", metadata: { city: "Porto" } }
      ])
      assert.deepStrictEqual(yield* outboxes.get("notes")!.deadLetters, [])
    }).pipe(Effect.provide(world({
      completion: Completion.layerNone,
      config: {
        extraction: {
          notes: {
            options: {
              customExtract: () => Effect.succeed([{ text: "Ada lives in Porto", metadata: { city: "Porto" } }])
            }
          }
        }
      }
    }))))

  it.effect("a closed MemoryManager refuses `accept` with `unavailable`, but `flush` succeeds", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const { accept, flush } = Context.get(yield* Layer.buildWithScope(world(), scope), manager)
      yield* accept(ada, [draft("tea")])
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(yield* reason(accept(ada, [draft("late tea")])), "unavailable")
      yield* flush
    }))

  it.effect("`addMessages` with an invalid session id fails with `invalid_id` and stores nothing", () =>
    Effect.gen(function*() {
      const { addMessages, outboxes } = yield* manager
      for (const session of ["x".repeat(1_025), "\ud800"]) {
        assert.strictEqual(yield* reason(addMessages(ada, session, [Message.user("I like tea.")])), "invalid_id")
      }
      yield* addMessages(ada, "", [Message.user("I like tea.")])
      assert.strictEqual((yield* outboxes.get("notes")!.status).waiting, 1)
    }).pipe(Effect.provide(world({ config: { extraction: { notes: true } } }))))
})

describe("extraction by a MemoryManager", () => {
  it.effect("an event is published for each record that an extraction writes or forgets", () =>
    Effect.gen(function*() {
      const { addMessages, flush } = yield* manager
      const hear = (text: string) => heard(Effect.zipRight(addMessages(ada, "s", [Message.user(text)]), flush))
      assert.deepStrictEqual((yield* hear("I like green tea.")).tags, ["memory_written"])
      assert.deepStrictEqual((yield* hear("I like green tea no longer.")).tags, ["memory_forgotten", "memory_written"])
    }).pipe(Effect.provide(world({
      config: { extraction: { notes: { options: { supersede: "hard" } } } },
      completion: Completion.layerScripted([
        { facts: ["Ada likes green tea"] },
        { memory: [{ event: "ADD", text: "Ada likes green tea" }] },
        { facts: ["Ada likes green tea no longer"] },
        { memory: [{ event: "DELETE", id: "0" }] }
      ])
    }))))

  it.effect("an Embedder that fails during an extraction is reported as `memory_degraded`, and the memory is stored", () =>
    Effect.gen(function*() {
      const { addMessages, flush } = yield* manager
      const { events } = yield* heard(
        Effect.zipRight(addMessages(ada, "s", [Message.user("I like green tea.")]), flush)
      )
      assert.isTrue(events.some(({ _tag }) => _tag === "memory_written"))
      const degraded = events.flatMap((event) =>
        event._tag === "memory_degraded" ? [[event.part, event.error.message]] : []
      )
      assert.deepStrictEqual(Array.from(new Set(degraded.map((one) => one.join(": ")))), ["vector: down"])
    }).pipe(Effect.provide(world({
      config: { extraction: { notes: true } },
      embedder: Layer.succeed(Embedder.Embedder, {
        model: "broken",
        dimensions: 3,
        embed: () => MemoryError.make("model", { op: "embed", message: "down" })
      })
    }))))
})

describe("MemoryManager.search and MemoryManager.inject", () => {
  it.effect("the limit of hits per store is `maxSearchResults` of the call, else `maxResults` of the store, else three", () =>
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

  it.effect("`search` reports stores that fail, and itself fails for an unknown store or if all stores fail", () =>
    Effect.gen(function*() {
      const { add, search } = yield* manager
      yield* add(ada, [draft("green tea")], { stores: ["notes"] })
      const { failures, hits } = yield* search(ada, "tea")
      assert.deepStrictEqual(hits.map(({ record, store }) => [record.body, store]), [["green tea", "notes"]])
      assert.deepStrictEqual(failures.map(({ error, leg }) => [leg, error.reason]), [["broken", "io"]])
      assert.include(["io", "unavailable"], yield* reason(search(ada, "tea", { stores: ["broken"] })))
      const { result: error, tags } = yield* heard(Effect.flip(search(ada, "tea", { stores: ["broken", "nowhere"] })))
      assert.strictEqual(error.reason, "not_found")
      assert.include(error.message, "notes")
      assert.deepStrictEqual(tags, [])
      assert.deepStrictEqual((yield* heard(search(ada, "tea"))).tags, ["memory_recalled", "memory_degraded"])
    }).pipe(Effect.provide(world({
      stores: { notes: { layer: memory, writable: true }, broken: { layer: broken("search") } }
    }))))

  it.effect("`inject` shows records of all stores, and at most one copy of a record that is in two stores", () =>
    Effect.gen(function*() {
      const { add, inject } = yield* manager
      yield* add(ada, [draft("Ada drinks green tea at noon.")])
      yield* add(ada, Array.from({ length: 9 }, (_, n) => draft(`tea number ${n}`)), { stores: ["notes"] })
      yield* TestClock.adjust("1 second") // the newer of two records with equal scores is ranked first
      yield* add(ada, [draft("a tea pot of iron")], { stores: ["scratch"] })
      const { text } = yield* inject(ada, [Message.user("tea?")])
      assert.lengthOf(text.match(/<entry /g) ?? [], 5)
      assert.include(text, "a tea pot of iron")
      assert.isAtMost(text.match(/at noon/g)?.length ?? 0, 1)
      assert.include(text, "store=\"scratch\"")
    }).pipe(Effect.provide(world())))
})

describe("MemoryManager.add", () => {
  it.effect("`add` writes to all writable stores unless the call names stores; a store that the call names twice is written once", () =>
    Effect.gen(function*() {
      const { add, search } = yield* manager
      const everywhere = yield* add(ada, [draft("green tea")])
      assert.deepStrictEqual(everywhere.map(({ store }) => store), ["notes", "scratch"])
      const named = yield* add(ada, [draft("black coffee")], { stores: ["scratch", "scratch"] })
      assert.deepStrictEqual(named.map(({ store }) => store), ["scratch"])
      assert.deepStrictEqual(bodies(yield* search(ada, "coffee", { stores: ["notes"] })), [])
      assert.strictEqual(yield* reason(add(ada, [draft("x")], { stores: ["nowhere"] })), "not_found")
      const known = draft("with an id", { id: stableId("known") })
      assert.strictEqual(yield* reason(add(ada, [known])), "invalid_id")
      assert.lengthOf(yield* add(ada, [known], { stores: ["scratch"] }), 1)
      assert.deepStrictEqual(bodies(yield* search(ada, "id", { stores: ["scratch"] })), ["with an id"])
    }).pipe(Effect.provide(world())))

  it.effect("one failing store does not stop `add` from writing to another; `add` to a single failing or read-only store fails", () =>
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

describe("a MemoryManager with a failing store", () => {
  const full = MemoryError.make("unsupported", { op: "put", message: "it is full" })
  const hanging = { notes: { layer: memory, writable: true }, hangs: { layer: writing(Effect.never), writable: true } }
  const dying = {
    notes: { layer: memory, writable: true },
    dies: { layer: writing(Effect.die("boo")), writable: true }
  }

  it.effect("a defect in one store is reported like a failure, and does not affect other stores", () =>
    Effect.gen(function*() {
      const { accept, add, flush, search } = yield* manager
      const { tags } = yield* heard(
        Effect.gen(function*() {
          const added = yield* add(ada, [draft("green tea")])
          assert.deepStrictEqual(
            yield* Effect.forEach(
              added,
              ({ result }) => Effect.merge(Effect.as(result, "added").pipe(Effect.mapError(({ reason }) => reason)))
            ),
            ["added", "unavailable"]
          )
          yield* accept(ada, [draft("black tea")])
          yield* flush
        })
      )
      assert.deepStrictEqual(
        tags.filter((tag) => tag === "memory_write_failed").length,
        2
      )
      assert.deepStrictEqual(bodies(yield* search(ada, "tea")).sort(), ["black tea", "green tea"])
    }).pipe(Effect.provide(world({ stores: dying }))))

  it.effect("a store whose writes hang blocks no search, and delays closing by at most thirty seconds", () =>
    Effect.gen(function*() {
      const fiber = yield* Effect.fork(Effect.provide(
        Effect.gen(function*() {
          const { accept, add, search } = yield* manager
          yield* add(ada, [draft("green tea")], { stores: ["notes"] })
          yield* accept(ada, [draft("black tea")], { stores: ["hangs"] })
          assert.deepStrictEqual(bodies(yield* search(ada, "tea")), ["green tea"])
        }),
        world({ stores: hanging })
      ))
      yield* TestClock.adjust("29 seconds")
      assert.isNull(yield* Effect.map(Fiber.poll(fiber), (exit) => exit._tag === "None" ? null : exit))
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(fiber)
    }))

  it.effect("the error of a failed `add` names each failed store, and has the stores' common reason, or else `unavailable`", () =>
    Effect.gen(function*() {
      const { add } = yield* manager
      const error = yield* Effect.flip(add(ada, [draft("tea")], { stores: ["one", "other"] }))
      assert.strictEqual(error.reason, "io")
      assert.match(error.message, /^one: .*; other: /)
      const mixed = yield* Effect.flip(add(ada, [draft("tea")]))
      assert.strictEqual(mixed.reason, "unavailable")
      assert.match(mixed.message, /^one: .*; other: .*; full: it is full$/)
    }).pipe(Effect.provide(world({
      stores: {
        one: { layer: broken("put", "apply"), writable: true },
        other: { layer: broken("put", "apply"), writable: true },
        full: { layer: writing(full), writable: true }
      }
    }))))

  it.effect("`addMessages` fails if a store's extraction filter throws, and adds no message to the outbox of that store", () =>
    Effect.gen(function*() {
      const { addMessages, outboxes } = yield* manager
      const error = yield* Effect.flip(addMessages(ada, "s", [Message.user("I like tea.")]))
      assert.match(error.message, /^notes: /)
      assert.strictEqual((yield* outboxes.get("notes")!.status).waiting, 0)
    }).pipe(Effect.provide(world({
      config: {
        extraction: {
          notes: {
            filter: () => {
              throw new Error("boo")
            }
          }
        }
      }
    }))))
})

describe("MemoryManager.flush", () => {
  it.effect("`flush` waits for all drafts that were accepted before the flush, and for no later drafts", () =>
    Effect.gen(function*() {
      const { accept, flush } = yield* manager
      yield* accept(ada, [draft("slow")])
      const flushing = yield* Effect.fork(flush)
      yield* settled
      yield* accept(ada, [draft("never")])
      assert.strictEqual((yield* Fiber.poll(flushing))._tag, "None")
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(flushing)
      yield* Effect.fork(TestClock.adjust("1 minute")) // lets the timeout of closing the scope pass
    }).pipe(Effect.provide(world({
      stores: {
        notes: {
          writable: true,
          layer: over((store) => ({
            put: (viewer, drafts, options) =>
              Effect.zipRight(
                drafts[0]!.body === "slow" ? Effect.sleep("1 minute") : Effect.never,
                store.put(viewer, drafts, options)
              ),
            apply: (viewer, mutations, provenance) =>
              Effect.zipRight(
                JSON.stringify(mutations).includes("slow") ? Effect.sleep("1 minute") : Effect.never,
                store.apply(viewer, mutations, provenance)
              )
          }))
        }
      }
    }))))
})

describe("MemoryService.turnEnd with a MemoryManager", () => {
  it.effect("memories are extracted when the trigger fires, and appear in the next context", () =>
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

  it.effect("memories are extracted at the end of a session, but not from tool messages or injected memory", () =>
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

  it.effect("each store extracts by its own trigger, and `forgetAll` with `purge` erases in all stores", () =>
    Effect.gen(function*() {
      const { flush, forgetAll, turnEnd } = yield* service
      const { outboxes, stores } = yield* manager
      const said = Array.from({ length: 5 }, (_, n) => `My word is ${"abcde"[n]!.repeat(5)}.`)
      yield* Effect.forEach(said, (text) => Effect.zipLeft(turnEnd([Message.user(text)]), settled))
      const waiting = Effect.forEach(
        Array.from(outboxes.values()),
        ({ status }) => Effect.map(status, ({ waiting }) => waiting)
      )
      assert.deepStrictEqual(yield* waiting, [1, 2])
      yield* flush
      assert.deepStrictEqual(yield* waiting, [0, 0])
      for (const { store } of yield* stores) {
        const { items } = yield* store.list(ada, {})
        assert.deepStrictEqual(items.map(({ body }) => body).sort(), said)
      }
      yield* turnEnd([Message.user("My word is fffff.")])
      yield* forgetAll({}, { purge: true })
      yield* flush
      for (const { store } of yield* stores) {
        const left = (yield* store.list(Viewer.system(), {})).items.filter(({ data }) => data["row"] !== "session")
        assert.deepStrictEqual(left, [])
      }
    }).pipe(
      MemoryService.as(ada),
      Effect.provide(world({
        config: {
          extraction: {
            notes: { trigger: ExtractionTrigger.interval(2) },
            scratch: { trigger: ExtractionTrigger.interval(3) }
          }
        }
      }))
    ))

  it.effect("extraction with `infer: false` stores each message word for word, once in each store", () => {
    const never = ExtractionTrigger.make("never", () => Stream.never)
    const verbatim = { trigger: never, options: { infer: false } }
    return Effect.gen(function*() {
      const { flush, turnEnd } = yield* service
      const { outboxes, stores } = yield* manager
      const said = ["one", "two", "three"]
      for (const text of said) {
        yield* turnEnd([Message.user(text)])
        yield* flush
      }
      for (const { name, store } of yield* stores) {
        const { items } = yield* store.list(ada, {})
        assert.deepStrictEqual(items.map(({ body }) => body).sort(), said.toSorted(), name)
        assert.deepStrictEqual(yield* outboxes.get(name)!.deadLetters, [])
      }
    }).pipe(
      MemoryService.as(ada),
      Effect.provide(world({ config: { extraction: { notes: verbatim, scratch: verbatim } } }))
    )
  })

  it.effect("each of two hundred concurrent users gets only the memories of the user's own messages", () =>
    Effect.gen(function*() {
      const { context, flush, turnEnd } = yield* service
      const users = Array.from({ length: 200 }, (_, n) => Viewer.make({ userId: `user${n}`, sessionId: "same" }))
      const secret = (n: number) => `My secret word is w${n}x.`
      yield* Effect.forEach(users, (viewer, n) => MemoryService.as(viewer)(turnEnd([Message.user(secret(n))])), {
        concurrency: "unbounded",
        discard: true
      })
      yield* flush
      yield* Effect.forEach(
        users,
        (viewer, n) =>
          Effect.map(MemoryService.as(viewer)(context([Message.user("What is my secret word?")])), ({ ids, text }) => {
            assert.lengthOf(ids, 1)
            assert.include(text, secret(n))
          }),
        { concurrency: "unbounded", discard: true }
      )
    }).pipe(
      Effect.provide(world({ config: { extraction: { notes: { trigger: ExtractionTrigger.idle("10 minutes") } } } }))
    ))

  it.effect("`turnEnd` and the next turn do not wait for a model that hangs", () =>
    Effect.gen(function*() {
      const { context, turnEnd } = yield* service
      yield* turnEnd([Message.user("I drink green tea.")])
      yield* settled
      yield* turnEnd([Message.user("My cat is Miou.")])
      assert.strictEqual((yield* context([Message.user("tea?")])).text, "")
      const { outboxes } = yield* manager
      assert.strictEqual((yield* outboxes.get("notes")!.status).waiting, 2)
      yield* Effect.fork(TestClock.adjust("1 minute")) // lets the timeout of closing the scope pass
    }).pipe(
      MemoryService.as(ada),
      Effect.provide(world({
        completion: Layer.succeed(
          Completion.Completion,
          Completion.make({ model: "mute", complete: () => Effect.never })
        ),
        config: { extraction: { notes: { trigger: ExtractionTrigger.invocation } } }
      }))
    ))

  it.effect("no message of a turn is stored if extraction is disabled for all stores", () =>
    Effect.gen(function*() {
      const { flush, sessionEnd, turnEnd } = yield* service
      yield* turnEnd([Message.user("I drink green tea.")])
      yield* sessionEnd
      yield* flush
      const { outboxes, stores } = yield* manager
      assert.strictEqual(outboxes.size, 0)
      for (const { store } of yield* stores) assert.deepStrictEqual((yield* store.list(Viewer.system(), {})).items, [])
    }).pipe(MemoryService.as(ada), Effect.provide(world({ config: { extraction: { notes: false } } }))))

  it.effect("MemoryService.turnEnd and MemoryService.flush succeed even without a MemoryManager", () =>
    Effect.gen(function*() {
      const { flush, turnEnd } = yield* service
      yield* MemoryService.as(bob)(turnEnd([Message.user("hello")]))
      yield* flush
    }).pipe(Effect.provide(MemoryService.layerTest())))
})
