/** Secrets that `Redaction` finds in texts are neither stored nor sent to a model. The comment of `Redaction.ts` lists the exceptions. */
import { assert, describe, it } from "@effect/vitest"
import { assertSome } from "@effect/vitest/utils"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Stream from "effect/Stream"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as MemoryManager from "../../src/harness/MemoryManager.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Threads from "../../src/harness/Threads.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as Redaction from "../../src/host/Redaction.ts"
import * as KeyValueMemory from "../../src/kinds/KeyValueMemory.ts"
import * as ResourceMemory from "../../src/kinds/ResourceMemory.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import { stores } from "../stores.ts"
import { literal } from "./Managed.ts"
import { ada, draft, heard, service } from "./Service.ts"

const secret = "sk-a1B2c3D4e5F6g7H8"
const scope = { userId: "ada" }

/** Returns the rows of the default tenant as JSON, internal and forgotten rows included, with the newest 20 revisions of each. */
const everything = (store: MemoryStore.Service) =>
  Effect.gen(function*() {
    const all = yield* Stream.runCollect(
      Stream.concat(
        store.stream(Viewer.system(), { limit: 100 }),
        store.stream(Viewer.system(), { limit: 100, forgotten: true })
      )
    )
    const revisions = yield* Effect.forEach(Chunk.toReadonlyArray(all), ({ id }) => store.history(Viewer.system(), id))
    return JSON.stringify([Chunk.toReadonlyArray(all), revisions])
  })

describe.each(Object.entries(stores))("Redaction over the store %s", (_, layer) => {
  it.scoped("Redaction removes secrets from records, key-value memories, resources and messages, but not from thread names or JSON numbers and keys", () =>
    Effect.gen(function*() {
      const known: Layer.Layer<MemoryStore.MemoryStore, unknown> = layer // each layer has another error type
      const context = yield* Layer.mergeAll(Threads.layer, KeyValueMemory.layer("notes"), ResourceMemory.layer).pipe(
        Layer.provideMerge(known),
        Layer.provide(Redaction.layer()),
        Layer.build
      )
      const store = Context.get(context, MemoryStore.MemoryStore)
      const [put] = yield* store.put(ada, [{
        scope,
        kind: "user",
        summary: `summary ${secret}`,
        body: `body ${secret}`,
        tags: [secret],
        data: { deep: [{ text: secret, n: 4111111111111111 }], sk_live_0123456789ab: true },
        metadata: { text: secret, password: "correct horse battery staple" },
        links: [{ to: MemoryId.stableId("other"), type: secret, weight: 1 }],
        source: { reference: `https://example.com?key=${secret}`, actor: secret, session: "monday" }
      }])
      const { record } = put!
      const hidden = "(redacted key)"
      assert.deepInclude(record, {
        summary: `summary ${hidden}`,
        body: `body ${hidden}`,
        tags: [hidden],
        data: { deep: [{ text: hidden, n: 4111111111111111 }], sk_live_0123456789ab: true },
        metadata: { text: hidden, password: "(redacted token)" }
      })
      assert.strictEqual(record.links[0]!.type, hidden)
      assert.deepInclude(record.source, {
        reference: `https://example.com?key=${hidden}`,
        actor: hidden,
        session: "monday"
      })
      yield* store.update(ada, record.id, { body: `again ${secret}`, metadata: { more: secret } })
      const keys = Context.get(context, KeyValueMemory.KeyValueMemory)
      yield* keys.set(ada, "one", { text: secret })
      yield* keys.set(ada, `of ${secret}`, "value")
      assertSome(yield* keys.get(ada, `of ${secret}`), "value")
      assert.deepStrictEqual(yield* keys.keys(ada), ["one", `of ${hidden}`])
      assert.isTrue(yield* keys.delete(ada, `of ${secret}`))
      const resources = Context.get(context, ResourceMemory.ResourceMemory)
      const location = `https://example.com/?key=${secret}`
      yield* resources.store(ada, { scope, body: "a page", data: { type: "url", location } })
      const places = yield* resources.findByLocation(ada, location)
      assert.deepStrictEqual(places.map(({ data }) => data.location), [location.replace(secret, hidden)])
      const threads = Context.get(context, Threads.Threads)
      yield* threads.append(ada, "monday", [{
        ...Message.user(`said ${secret}`),
        data: { call: { argument: secret } }
      }])
      const { items } = yield* threads.messages(ada, "monday")
      assert.deepStrictEqual(items.map(({ content, data }) => [content, data]), [
        [`said ${hidden}`, { call: { argument: hidden } }]
      ])
      yield* threads.append(ada, "4111111111111111", [{ ...Message.user("x"), data: { at: 4111111111111111 } }])
      const [named] = yield* threads.list(ada)
      assert.strictEqual(named!.name, "4111111111111111")
      assert.deepStrictEqual((yield* threads.messages(ada, named!.name)).items[0]!.data, { at: 4111111111111111 })
      const parts = [
        ["sk-<memory></memory>", "a1B2c3D4e5F6g7H8"],
        ["sk-<mem<memory></memory>ory></memory>", "a1B2c3D4e5F6g7H8"],
        ["sk-\ud800", "a1B2c3D4e5F6g7H8"],
        ["sk-" + "<mem".repeat(20) + "<memory></memory>" + "ory></memory>".repeat(20), "a1B2c3D4e5F6g7H8"]
      ]
      for (const [n, part] of parts.entries()) {
        yield* threads.append(ada, `parts ${n}`, [Message.user(part.join(""))])
        const { items } = yield* threads.messages(ada, `parts ${n}`)
        assert.notInclude(items[0]!.content, secret)
        if (n < 3) assert.strictEqual(items[0]!.content, hidden)
      }
      const all = yield* everything(store)
      assert.include(all, `again ${hidden}`)
      assert.notInclude(all, secret)
    }))
})

/** Builds a service with a manager and a model that extracts what a user says; `asked` records prompts and texts to embed. */
const world = (redaction: Layer.Layer<never>) => {
  const asked: Array<string> = []
  const completion = Completion.layerScripted((prompt) => {
    asked.push(prompt.user)
    return literal(prompt)
  })
  const embedder = Layer.succeed(Embedder.Embedder, {
    model: "counting",
    dimensions: 1,
    embed: (texts) =>
      Effect.sync(() => {
        asked.push(...texts)
        return texts.map(() => new Float32Array([1]))
      })
  })
  const never = ExtractionTrigger.make("never", () => Stream.never)
  const layer = MemoryService.layer().pipe(
    Layer.provideMerge(Layer.merge(
      MemoryManager.layer({ extraction: { notes: { trigger: never } } }),
      MemoryPipeline.layer
    )),
    Layer.provideMerge(Federated.layer({ notes: { layer: MemoryStore.layerInMemory, writable: true } })),
    Layer.provideMerge(Layer.mergeAll(completion, embedder, MemoryEvents.layer())),
    Layer.provide(redaction)
  )
  return { asked, layer }
}

describe("Redaction", () => {
  it.effect("keeps secrets out of prompts, texts to embed and messages that wait for extraction", () => {
    const { asked, layer } = world(Redaction.layer())
    return Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      yield* memory.turnEnd([
        Message.user(`My key is ${secret}`),
        Message.user(secret.replace("-", "-<memory></memory>"))
      ])
      const waiting = yield* everything(store)
      assert.include(waiting, "My key is (redacted key)")
      assert.notInclude(waiting, secret)
      yield* memory.flush
      yield* memory.remember([Message.user(`Its copy is ${secret}`)], { scope })
      const fact = { text: `A fact with ${secret}`, tags: [secret], metadata: { text: secret } }
      const receipt = yield* memory.remember([Message.user("x")], {
        scope,
        customExtract: () => Effect.succeed([fact])
      })
      assert.notInclude(JSON.stringify(receipt), secret)
      yield* memory.recall({ text: `what is ${secret}?` })
      assert.isAbove(asked.length, 4)
      assert.notInclude(asked.join("\n"), secret)
      const all = yield* everything(store)
      assert.include(all, "My key is (redacted key)")
      assert.include(all, "Its copy is (redacted key)")
      assert.notInclude(all, secret)
    }).pipe(MemoryService.as(ada), Effect.provide(layer))
  })

  it.effect("secrets in records that were stored before redaction was set up do not appear in prompts", () => {
    const { asked, layer } = world(Redaction.layer())
    return Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const [stored] = yield* store.put(ada, [draft(`Old key ${secret}`, { kind: "semantic" })])
      assert.include(stored?.record.body, secret)
      const redaction = MemoryPipeline.layer.pipe(
        Layer.provide(Completion.layerScripted((prompt) => {
          asked.push(prompt.user)
          return literal(prompt)
        })),
        Layer.provide(Embedder.layerNone),
        Layer.provide(Redaction.layer())
      )
      yield* Effect.flatMap(
        MemoryPipeline.MemoryPipeline,
        (pipeline) => pipeline.remember(ada, [Message.user("Old key is lost")], { scope })
      ).pipe(Effect.provide(redaction))
      assert.include(asked.join("\n"), "Old key (redacted key)")
      assert.notInclude(asked.join("\n"), secret)
    }).pipe(Effect.provide(MemoryStore.layerInMemory), Effect.provide(layer))
  })

  it.effect("publishes the number of secrets for each call that contains any, and never the secrets", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { events } = yield* heard(Effect.gen(function*() {
        yield* memory.put(draft(`${secret} and ${secret}`))
        yield* memory.put(draft("nothing to hide"))
        yield* memory.turnEnd([Message.user(`now ${secret}`)])
      }))
      const found = events.filter(({ _tag }) => _tag === "memory_redacted")
      assert.deepStrictEqual(
        found,
        [2, 1].map((count) => ({ _tag: "memory_redacted", viewer: ada, at: 0, count })) as never
      )
      assert.notInclude(JSON.stringify(events), secret)
    }).pipe(MemoryService.as(ada), Effect.provide(world(Redaction.layer()).layer)))

  it.effect("Redaction counts each secret once in the metric `memory_redactions`, however many MemoryEvents services there are", () =>
    Effect.gen(function*() {
      const counter = Metric.counter("memory_redactions", {
        description: "Secrets that were taken out of texts",
        incremental: true
      })
      const count = Effect.map(Metric.value(counter), ({ count }) => count)
      for (const listeners of [0, 1, 2]) {
        const before = yield* count
        const events = Array.from({ length: listeners }, () => Layer.fresh(MemoryEvents.layer()))
        const parts = Layer.mergeAll(Layer.fresh(MemoryStore.layerInMemory), Layer.empty, ...events)
        yield* Effect.gen(function*() {
          yield* (yield* MemoryStore.MemoryStore).put(ada, [draft(secret)])
        }).pipe(Effect.provide(Layer.provide(parts, Redaction.layer())))
        assert.strictEqual((yield* count) - before, 1)
      }
    }))

  it.effect("a call fails, stores nothing and asks no model if a custom redaction function throws", () => {
    const { asked, layer } = world(Redaction.layerWith((text) => {
      if (text.includes("throw")) throw new Error(text)
      return { text: text.replaceAll("Ada", "A."), count: text.split("Ada").length - 1 }
    }))
    return Effect.gen(function*() {
      const memory = yield* service
      assert.strictEqual((yield* memory.put(draft("Ada lives here"))).record.body, "A. lives here")
      const failures = yield* Effect.forEach([
        memory.put(draft("throw this")),
        memory.turnEnd([Message.user("throw that")]),
        memory.remember([Message.user("throw it")], { scope })
      ], Effect.flip)
      assert.deepStrictEqual(failures.map(({ reason }) => reason), ["unavailable", "unavailable", "unavailable"])
      assert.notInclude(JSON.stringify(failures), "throw")
      const causes = (error: unknown): ReadonlyArray<string> =>
        error instanceof Error ? [String(error), ...causes(error.cause)] : []
      assert.notInclude(failures.flatMap(causes).join("\n"), "throw")
      assert.notInclude(yield* everything(yield* MemoryStore.MemoryStore), "throw")
      assert.deepStrictEqual(asked, [])
    }).pipe(MemoryService.as(ada), Effect.provide(layer))
  })

  it.effect("`put` of an invalid draft and `update` with an invalid patch fail with `invalid_draft` under redaction", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { record } = yield* memory.put(draft("tea"))
      const reasons = yield* Effect.forEach(
        [
          memory.put(undefined as never),
          memory.put({ ...draft("x"), body: 1 as never }),
          memory.put({ ...draft("x"), tags: "x" as never, data: null as never }),
          memory.update(record.id, null as never),
          memory.update(record.id, { body: 1 as never })
        ],
        (call: MemoryService.Operation<unknown>) => Effect.map(Effect.flip(call), ({ reason }) => reason)
      )
      assert.deepStrictEqual(reasons, Array.from(reasons, () => "invalid_draft"))
    }).pipe(MemoryService.as(ada), Effect.provide(world(Redaction.layer()).layer)))

  it.effect("`customExtract` may return strings and values that are no facts under redaction, as without redaction", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const remember = (facts: ReadonlyArray<unknown>) =>
        Effect.map(
          memory.remember([Message.user("x")], { scope, customExtract: () => Effect.succeed(facts as never) }),
          ({ mutations }) => mutations.map((mutation) => mutation._tag === "Put" ? mutation.draft.body : undefined)
        )
      assert.deepStrictEqual(yield* remember([`Her key is ${secret}`]), ["Her key is (redacted key)"])
      assert.deepStrictEqual(yield* remember([null, { text: "Her cat is old" }]), ["Her cat is old"])
    }).pipe(MemoryService.as(ada), Effect.provide(world(Redaction.layer()).layer)))

  it.effect("is off by default, so texts are stored unchanged", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* (yield* service).put(draft(secret))).record.body, secret)
    }).pipe(MemoryService.as(ada), Effect.provide(world(Layer.empty).layer)))
})
