import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import { stableId } from "../../src/domain/MemoryId.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as MemoryManager from "../../src/harness/MemoryManager.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as BeliefMemory from "../../src/kinds/BeliefMemory.ts"
import * as EpisodicMemory from "../../src/kinds/EpisodicMemory.ts"
import * as KeyValueMemory from "../../src/kinds/KeyValueMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import { heard, service } from "../harness/Service.ts"
import { stores } from "../stores.ts"

const ada = Viewer.make({ userId: "ada" })
const canary = "Canary 7F3A says"
const poisons: ReadonlyArray<unknown> = [
  canary,
  "",
  ` ${canary}\n\ud800`,
  `../${canary}`,
  canary.repeat(300),
  [canary],
  { said: canary, eq: [canary] },
  [canary, "", { said: canary }],
  7,
  null
]

const unsaid = (what: string, value: unknown) =>
  assert.notInclude(typeof value === "string" ? value : JSON.stringify(value) ?? "", "7F3A", what)
const encodeEvent = Schema.encodeSync(Schema.parseJson(MemoryEvents.MemoryEvent))
const encodeError = Schema.encodeSync(
  Schema.parseJson(Schema.Struct({ message: Schema.String, reason: Schema.String }))
)

/** Runs a call that untyped code could make, and checks the error if it fails. Whether it should fail is tested elsewhere. */
const discreet = <A, E extends { readonly message: string; readonly reason: string }, R>(
  what: string,
  call: () => Effect.Effect<A, E, R>
) =>
  Effect.match(Effect.suspend(call), {
    onSuccess: () => undefined,
    onFailure: (error) => {
      unsaid(what, error)
      unsaid(what, encodeError(error))
    }
  })

type Calls<R> = Readonly<Record<string, () => Effect.Effect<unknown, MemoryError, R>>>

/** A valid input for each tool. `callAll` sets each argument in turn, and the unknown argument `userId`, to each of `poisons`. */
const inputs: Readonly<Record<string, object>> = {
  remember: { scope: "user", kind: "user", summary: canary, body: canary, tags: [canary], id: stableId("x") },
  recall: { query: canary, scopes: ["user"], kinds: ["user"], tags: [canary], limit: 5 },
  forget: { id: stableId("x") },
  memory_append: { text: canary, kind: "semantic" },
  memory_search: { query: canary, topK: 5 },
  memory_update: { id: stableId("x"), text: canary },
  memory_delete: { id: stableId("x") },
  memory_view: { kind: "semantic", limit: 5 },
  search_memory: { query: canary, maxSearchResults: 3, stores: [] },
  add_memory: { entries: [canary], stores: [] }
}

const callAll = (tools: Effect.Effect.Success<ReturnType<typeof MemoryTools.make>>) =>
  Effect.forEach(tools, (tool) =>
    Effect.gen(function*() {
      const valid = inputs[tool.name] ?? assert.fail(`no input for ${tool.name}`)
      yield* discreet(tool.name, () => tool.call(valid))
      for (const value of poisons) {
        yield* discreet(tool.name, () => tool.call(value))
        for (const field of [...Object.keys(valid), "userId"]) {
          yield* discreet(`${tool.name}.${field}`, () => tool.call({ ...valid, [field]: value }))
        }
      }
    }))

const federation = (texts: boolean) =>
  MemoryService.layer({ writesPerTurn: 0, allowForget: true }).pipe(
    Layer.provideMerge(MemoryManager.layer()),
    Layer.provideMerge(Layer.mergeAll(
      Federated.layer({
        notes: { layer: MemoryStore.layerInMemory, writable: true },
        closed: { layer: MemoryStore.layerInMemory }
      }),
      Completion.layerScripted(() => "{\"facts\":[7]}"),
      Embedder.layerNone,
      MemoryEvents.layer({ texts })
    ))
  )

/** Calls operations of MemoryService and MemoryManager, and tools of a model, with the text `canary` in their arguments. */
const everything = Effect.gen(function*() {
  const memory = yield* service
  const manager = yield* MemoryManager.MemoryManager
  yield* callAll(yield* MemoryTools.make(ada))
  yield* callAll(yield* MemoryTools.makeRecords(ada))
  yield* callAll(yield* MemoryTools.makeStores(ada, { add: true }))
  for (const value of poisons) {
    const any = value as never // an untyped caller may pass any value
    const calls: Calls<MemoryService.CurrentViewer> = {
      put: () => memory.put({ scope: { userId: "ada" }, kind: "user", body: canary, tags: any }),
      kind: () => memory.put({ scope: { userId: "ada" }, kind: any, body: canary }),
      update: () => memory.update(stableId("x"), { body: canary, importance: any }),
      apply: () => memory.apply([{ _tag: "Put", draft: any }]),
      get: () => memory.get(any),
      history: () => memory.history(any),
      search: () => memory.search({ text: canary, kinds: any }),
      list: () => memory.list({ where: any }),
      recall: () => memory.recall({ text: canary, tags: any }),
      forget: () => memory.forget(any),
      forgetAll: () => memory.forgetAll({ tags: [canary], limit: any }),
      remember: () => memory.remember([Message.user(canary)], { scope: any }),
      plan: () => memory.plan([Message.user(canary)], { scope: { userId: "ada" }, kind: any }),
      add: () =>
        manager.add(ada, [{ scope: { userId: "ada" }, kind: "user", body: canary, links: any }], {
          stores: [canary]
        }),
      addDraft: () => manager.add(ada, [{ scope: any, kind: "user", body: canary }]),
      searched: () => manager.search(ada, canary, { maxSearchResults: any })
    }
    for (const [name, call] of Object.entries(calls)) yield* discreet(name, call)
  }
  yield* memory.context([Message.user(canary)])
  yield* memory.index
  yield* memory.turnEnd([Message.user(canary)])
}).pipe(MemoryService.as(ada))

describe("the text that a user said", () => {
  it.effect("the user's text appears in no error of an operation or tool, and in no event if `texts` is false", () =>
    Effect.gen(function*() {
      const { events } = yield* heard(everything)
      assert.includeMembers(events.map(({ _tag }) => _tag), [
        "memory_written",
        "memory_recalled",
        "memory_write_failed"
      ])
      for (const event of events) unsaid(event._tag, encodeEvent(event))
    }).pipe(Effect.provide(federation(false))))

  it.effect("the option `texts` puts the user's text only into `memory_written` and `memory_recalled` events", () =>
    Effect.gen(function*() {
      const { events } = yield* heard(everything)
      const texts = events.filter((event) => encodeEvent(event).includes("7F3A"))
      assert.sameMembers(Array.from(new Set(texts.map(({ _tag }) => _tag))), ["memory_written", "memory_recalled"])
    }).pipe(Effect.provide(federation(true))))

  for (const [name, layer] of Object.entries(stores)) {
    it.effect(`no error of KeyValueMemory, BeliefMemory or EpisodicMemory contains the user's text (store ${name})`, () =>
      Effect.gen(function*() {
        const values = yield* KeyValueMemory.KeyValueMemory
        const beliefs = yield* BeliefMemory.BeliefMemory
        const episodes = yield* EpisodicMemory.EpisodicMemory
        const scope = { userId: "ada" }
        for (const value of poisons) {
          const any = value as never // an untyped caller may pass any value
          const calls: Calls<never> = {
            set: () => values.set(ada, canary, () => canary),
            key: () => values.set(ada, String(value), canary, { tags: any }),
            belief: () => beliefs.retain(ada, { scope, body: canary, data: { subject: any } as never }),
            episode: () => episodes.saveEpisode(ada, { scope, body: canary, data: { type: any } }),
            recalled: () => episodes.recall(ada, { type: String(value), minImportance: any }),
            reflection: () => episodes.saveReflection(ada, { scope, body: canary, data: { trigger: any } }),
            before: () => episodes.beforeTurn(ada, Message.user(canary), { episodic: any } as never)
          }
          for (const [name, call] of Object.entries(calls)) yield* discreet(name, call)
        }
      }).pipe(
        Effect.provide(
          Layer.mergeAll(KeyValueMemory.layer("n"), BeliefMemory.layer, EpisodicMemory.layer).pipe(
            Layer.provide(layer)
          )
        )
      ))
  }

  it.effect("an error about an invalid answer of the model does not contain the user's text", () =>
    Effect.gen(function*() {
      const { object } = yield* Completion.Completion
      const answer = object(Schema.Struct({ facts: Schema.Array(Schema.Int) }), { system: "", user: canary })
      yield* Effect.flip(answer)
      yield* discreet("object", () => answer)
    }).pipe(Effect.provide(Completion.layerScripted(() => ({ facts: [canary] })))))
})
