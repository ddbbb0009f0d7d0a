/** Services over a store apply the redaction of the store. Several of them refuse to build with a different redaction. */
import { assert, describe, it } from "@effect/vitest"
import { assertSome } from "@effect/vitest/utils"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as MemoryError from "../../src/domain/MemoryError.ts"
import * as Message from "../../src/domain/Message.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as MemoryManager from "../../src/harness/MemoryManager.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Threads from "../../src/harness/Threads.ts"
import * as WritePolicy from "../../src/harness/WritePolicy.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as Redaction from "../../src/host/Redaction.ts"
import * as KeyValueMemory from "../../src/kinds/KeyValueMemory.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as Copy from "../../src/storage/Copy.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Faulty from "../../src/storage/MemoryStore/Faulty.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import * as Overlay from "../../src/storage/MemoryStore/Overlay.ts"
import { literal } from "./Managed.ts"
import { ada, draft, heard } from "./Service.ts"

const secret = "sk-a1B2c3D4e5F6g7H8"
const hidden = "(redacted key)"
const scope = { userId: "ada" }

const storeOf = <E>(layer: Layer.Layer<MemoryStore.MemoryStore, E>) =>
  Effect.map(Layer.build(layer), Context.get(MemoryStore.MemoryStore))
const plain = storeOf(MemoryStore.layerInMemoryWith({}))
const redacting = storeOf(Layer.provide(MemoryStore.layerInMemoryWith({}), Redaction.layer()))
const on = (store: MemoryStore.Service) => Layer.succeed(MemoryStore.MemoryStore, store)
const given = (redaction: Option.Option<Redaction.Service>) =>
  Layer.succeed(Redaction.Redaction, Option.getOrUndefined(redaction))
const bodyOf = (store: MemoryStore.Service, body = `my key is ${secret}`) =>
  Effect.map(store.put(ada, [draft(body)]), ([put]) => put!.record.body)

describe("a store with a redaction", () => {
  it.scoped("a service, manager or federation with a redaction fails to build over a writable store without the same redaction", () =>
    Effect.gen(function*() {
      const bare = yield* plain
      const redaction = Redaction.layer()
      const federation = Federated.layer({ notes: { layer: on(bare), writable: true } })
      const service = MemoryService.layer()
      const models = Layer.merge(Completion.layerNone, Embedder.layerNone)
      const manager = MemoryManager.layer({}).pipe(Layer.provide(models))
      const policy = WritePolicy.layer({ globalWrites: "allow" }).pipe(Layer.provide(on(bare)))
      const given = <A, E, R>(part: Layer.Layer<A, E, R>) => Layer.discard(Layer.provide(part, redaction))
      const refused: ReadonlyArray<readonly [string, Layer.Layer<never, MemoryError.MemoryError>]> = [
        ["unsupported", given(service).pipe(Layer.provide(on(bare)))],
        ["unsupported", given(service).pipe(Layer.provide(on(yield* redacting)))], // built with another redaction
        ["unsupported", given(service).pipe(Layer.provide(federation))],
        ["unsupported", given(service).pipe(Layer.provide(policy))],
        ["unsupported", given(manager).pipe(Layer.provide(federation))],
        ["invalid_draft", given(federation)]
      ]
      for (const [reason, layer] of refused) {
        const failure = yield* Effect.flip(Layer.build(layer))
        assert.strictEqual(failure.reason, reason)
        assert.match(
          failure.message,
          reason === "unsupported" ? /Layer\.provide\(redaction\)/ : /redaction of the federation/
        )
      }
      yield* Layer.build(Layer.provide(service, on(bare)))
      const reading = Federated.layer({ notes: { layer: MemoryStore.layerInMemoryWith({}) } })
      yield* Layer.build(service.pipe(Layer.provide(reading), Layer.provide(redaction)))
      yield* Layer.build(service.pipe(Layer.provide(MemoryStore.layerInMemoryWith({})), Layer.provide(redaction)))
    }))

  it.scoped("`put` publishes `memory_redacted` once, even if the service and every store below it redact", () =>
    Effect.gen(function*() {
      const redaction = Redaction.layer()
      const alike = Layer.provide(MemoryStore.layerInMemoryWith({}), redaction)
      const earlier = yield* storeOf(alike)
      const federation = Federated.layer({ a: { layer: alike, writable: true }, b: { layer: alike, writable: true } })
      const models = Layer.merge(Completion.layerNone, Embedder.layerNone)
      const parts = [
        MemoryService.layer().pipe(Layer.provide(on(earlier))),
        MemoryService.layer().pipe(Layer.provide(Overlay.layer), Layer.provide(on(earlier))),
        MemoryService.layer().pipe(Layer.provide(federation)),
        MemoryService.layer().pipe(
          Layer.provide(MemoryManager.layer({})),
          Layer.provide(models),
          Layer.provide(federation)
        )
      ]
      for (const part of parts) {
        const { tags } = yield* heard(
          Effect.flatMap(MemoryService.MemoryService, ({ put }) => put(draft(secret)))
        ).pipe(MemoryService.as(ada), Effect.provide(Layer.provide(part, redaction)))
        assert.deepStrictEqual(tags, ["memory_redacted", "memory_written"])
      }
    }))

  it.scoped("services without a redaction of their own apply the redaction of the store", () =>
    Effect.gen(function*() {
      const store = yield* redacting
      const asked: Array<string> = []
      const models = Layer.merge(
        Completion.layerScripted((prompt) => {
          asked.push(prompt.user)
          return literal(prompt)
        }),
        Embedder.layerNone
      )
      const context = yield* Layer.mergeAll(
        Threads.layer,
        KeyValueMemory.layer("notes"),
        MemoryPipeline.layer.pipe(Layer.provide(models)),
        MemoryService.layer().pipe(Layer.provide(models))
      ).pipe(Layer.provide(on(store)), Layer.build)
      const threads = Context.get(context, Threads.Threads)
      yield* threads.append(ada, "monday", [Message.user(secret)])
      assert.strictEqual((yield* threads.messages(ada, "monday")).items[0]!.content, hidden)
      const keys = Context.get(context, KeyValueMemory.KeyValueMemory)
      yield* keys.set(ada, `of ${secret}`, secret)
      assertSome(yield* keys.get(ada, `of ${secret}`), hidden)
      yield* Context.get(context, MemoryPipeline.MemoryPipeline).remember(ada, [Message.user(`one ${secret}`)], {
        scope
      })
      yield* Context.get(context, MemoryService.MemoryService).remember([Message.user(`two ${secret}`)], { scope })
        .pipe(
          MemoryService.as(ada)
        )
      assert.isAtLeast(asked.length, 2)
      assert.notInclude(asked.join("\n"), secret)
    }))

  it.scoped("`put` publishes `memory_redacted` once, whether only the store or also the service has the redaction", () =>
    Effect.gen(function*() {
      const redaction = Redaction.layer()
      const store = Layer.provide(MemoryStore.layerInMemoryWith({}), redaction)
      const events = Layer.fresh(MemoryEvents.layer())
      const services = [
        MemoryService.layer().pipe(Layer.provide([store, events])),
        MemoryService.layer().pipe(Layer.provide(store)),
        MemoryService.layer().pipe(Layer.provide([store, events]), Layer.provide(redaction))
      ]
      for (const service of services) {
        const { tags } = yield* heard(
          Effect.flatMap(MemoryService.MemoryService, ({ put }) => put(draft(secret)))
        ).pipe(MemoryService.as(ada), Effect.provide(service))
        assert.deepStrictEqual(tags, ["memory_redacted", "memory_written"])
      }
    }))

  it.scoped("building Threads with a redaction over a store without a redaction logs a warning", () =>
    Effect.gen(function*() {
      const warnings: Array<string> = []
      const logger = Logger.replace(
        Logger.defaultLogger,
        Logger.make(({ message }) => {
          warnings.push(String(message))
        })
      )
      yield* Layer.build(
        Threads.layer.pipe(Layer.provide(on(yield* plain)), Layer.provide([Redaction.layer(), logger]))
      )
      assert.lengthOf(warnings, 1)
      assert.match(warnings[0]!, /built without the redaction/)
    }))

  it.scoped("an Overlay over the store uses the store's redaction, and fails to build with another redaction", () =>
    Effect.gen(function*() {
      const store = yield* redacting
      const branch = yield* storeOf(Layer.provide(Overlay.layer, on(store)))
      assert.strictEqual(yield* bodyOf(branch), `my key is ${hidden}`)
      assert.strictEqual(Option.getOrThrow(branch.redaction), Option.getOrThrow(store.redaction))
      yield* storeOf(Overlay.layer.pipe(Layer.provide(on(store)), Layer.provide(given(store.redaction))))
      const other = yield* Effect.flip(
        storeOf(Overlay.layer.pipe(Layer.provide(on(store)), Layer.provide(Redaction.layer())))
      )
      assert.strictEqual(other.reason, "unsupported")
      const own = yield* storeOf(Overlay.layer.pipe(Layer.provide(on(yield* plain)), Layer.provide(Redaction.layer())))
      assert.strictEqual(yield* bodyOf(own), `my key is ${hidden}`)
    }))

  it.scoped("a wrapper of a store has the store's redaction, and a federation redacts if one of its stores redacts", () =>
    Effect.gen(function*() {
      const [store, bare] = yield* Effect.all([redacting, plain])
      assert.isTrue(Option.isSome(store.redaction))
      assert.isTrue(Option.isNone(bare.redaction))
      for (const wrapper of [Faulty.layer(), WritePolicy.layer({ globalWrites: "deny" })]) {
        assert.strictEqual((yield* storeOf(Layer.provide(wrapper, on(store)))).redaction, store.redaction)
      }
      const redactionOf = (...stores: ReadonlyArray<MemoryStore.Service>) =>
        Federated.layer(
          Object.fromEntries(stores.map((store, n) => [`s${n}`, { layer: on(store), writable: true }]))
        ).pipe(storeOf, Effect.map(({ redaction }) => redaction))
      assert.strictEqual(Option.getOrThrow(yield* redactionOf(store, store)), Option.getOrThrow(store.redaction))
      assert.isTrue(Option.isNone(yield* redactionOf(bare)))
      // a federation of a store with a redaction and one without exposes a new, combined redaction, which applies those of all its stores
      const mixed = yield* redactionOf(store, bare)
      assert.notStrictEqual(Option.getOrThrow(mixed), Option.getOrThrow(store.redaction))
      assert.deepStrictEqual(Option.getOrThrow(mixed).redact(secret), { text: hidden, count: 1 })
    }))

  it.scoped("a federation with a redaction refuses to attach a writable store without a redaction", () =>
    Effect.gen(function*() {
      const redaction = Redaction.layer()
      const context = yield* Layer.build(
        Federated.layer({ notes: { layer: MemoryStore.layerInMemory, writable: true } }).pipe(Layer.provide(redaction))
      )
      const federated = Context.get(context, Federated.Federated)
      const { store } = yield* federated.attach("later", { layer: MemoryStore.layerInMemory, writable: true })
      assert.strictEqual(yield* bodyOf(store), `my key is ${hidden}`)
      const refused = yield* Effect.flip(federated.attach("bare", { layer: on(yield* plain), writable: true }))
      assert.strictEqual(refused.reason, "invalid_draft")
      assert.match(refused.message, /redaction/)
      yield* federated.attach("read", { layer: on(yield* plain) })
    }))

  it.scoped("the store passes only redacted messages to the engine's `ingest`", () =>
    Effect.gen(function*() {
      const taken: Array<string> = []
      const engine = yield* MemoryStore.make("taking", {
        read: (_, ids) => Effect.succeed(ids.map(() => Option.none())),
        scan: () => Stream.empty,
        tenants: Effect.succeed([]),
        commit: () => Effect.void,
        ingest: (_viewer, _session, messages) =>
          Effect.sync(() => {
            taken.push(...messages.map(({ content }) => content))
          })
      }).pipe(Effect.provide(Redaction.layer()))
      yield* Option.getOrThrow(engine.ingest)(ada, "monday", [Message.user(secret)], 1)
      assert.deepStrictEqual(taken, [hidden])
    }))

  it.scoped("a copy into a store with a redaction is refused unless `unredacted: true` is given", () =>
    Effect.gen(function*() {
      const [from, to] = yield* Effect.all([plain, redacting])
      yield* bodyOf(from)
      const refused = yield* Effect.flip(Copy.copy(from, to))
      assert.strictEqual(refused.reason, "unsupported")
      assert.match(refused.message, /unredacted: true/)
      assert.deepStrictEqual(yield* to.tenants, [])
      assert.isTrue((yield* Copy.copy(from, to, { unredacted: true })).verified)
      assert.isTrue((yield* Copy.copy(to, from)).verified)
    }))
})
