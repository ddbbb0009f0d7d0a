/** Automatic memory of one user through crashes and interruptions, and of many users at once. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import { isInternal } from "../../src/domain/MemoryScope.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import * as MemoryManager from "../../src/harness/MemoryManager.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { literal, world } from "../harness/Managed.ts"
import { stores } from "../stores.ts"

/**
 * The stores, each with a step n. A crash happens after 0, n, 2n … yields (below 40). A flush is interrupted after 0, 2n, 4n … yields
 * (below 60).
 */
const worldsOf = [
  ["memory", stores.memory, 1],
  ["markdown", stores.markdown, 8],
  ["sqlite", stores.sqlite, 4],
  ["postgres", stores.postgres, 8]
] as const

/** Builds a store once, for all managers over it. */
const keptIn = <E>(layer: Layer.Layer<MemoryStore.MemoryStore, E>) =>
  Effect.map(Layer.build(layer), Context.get(MemoryStore.MemoryStore))
const over = (store: MemoryStore.Service, trigger: ExtractionTrigger.ExtractionTrigger) =>
  world({
    stores: { notes: { layer: Layer.succeed(MemoryStore.MemoryStore, store), writable: true } },
    config: { extraction: { notes: { trigger } } },
    spec: { writesPerTurn: 0 }
  })
const remembered = (store: MemoryStore.Service, tenant?: string) =>
  Stream.runFold(
    store.stream(Viewer.system(tenant), {}),
    [] as ReadonlyArray<string>,
    (all, { body, scope }) => isInternal(scope) ? all : [...all, body]
  )
const times = (all: ReadonlyArray<string>, text: string) => all.filter((one) => one === text).length

describe.each(worldsOf)("an agent over the store %s that is interrupted or crashes", (_, layer, each) => {
  const kept = keptIn<unknown>(layer)
  const ada = Viewer.make({ userId: "ada", sessionId: "s" })

  it.effect("a crash duplicates no text, and loses no text whose `turnEnd` or `add_memory` call had returned", () =>
    Effect.gen(function*() {
      for (let after = 0; after < 40; after += each) {
        yield* Effect.scoped(Effect.gen(function*() {
          const store = yield* kept
          const crashed = yield* Scope.make() // closed only after the assertions, as if the process had crashed
          const first = yield* Layer.buildWithScope(over(store, ExtractionTrigger.interval(2)), crashed)
          const { turnEnd } = Context.get(first, MemoryService.MemoryService)
          const tool = (yield* Effect.provide(MemoryTools.makeStores(ada, { add: true }), first))
            .find(({ name }) => name === "add_memory")!
          const done: Array<string> = []
          const step = (text: string, act: Effect.Effect<unknown, unknown>) =>
            Effect.tap(act, () => Effect.sync(() => done.push(text)))
          const says = (text: string) => step(text, MemoryService.as(ada)(turnEnd([Message.user(text)])))
          const fiber = yield* Effect.fork(Effect.all([
            says("one is said"),
            says("two is said"),
            step("three is added", tool.call({ entries: ["three is added"] })),
            says("four is said")
          ]))
          yield* Effect.repeatN(Effect.yieldNow(), after)
          yield* Fiber.interrupt(fiber)

          const second = yield* Layer.build(over(store, ExtractionTrigger.sessionEnd))
          yield* Context.get(second, MemoryService.MemoryService).flush
          const all = yield* remembered(store)
          for (const text of ["one is said", "two is said", "three is added", "four is said"]) {
            assert.isAtMost(times(all, text), 1, `${text}, after ${after}`)
            if (done.includes(text)) assert.include(all, text, `after ${after}`)
          }
          yield* Scope.close(crashed, Exit.void)
        }))
      }
    }))

  it.effect("the next flush completes an interrupted flush, and each turn is remembered exactly once", () =>
    Effect.gen(function*() {
      for (let after = 0; after < 60; after += 2 * each) {
        yield* Effect.scoped(Effect.gen(function*() {
          const store = yield* kept
          const built = yield* Layer.build(over(store, ExtractionTrigger.sessionEnd))
          const { flush, turnEnd } = Context.get(built, MemoryService.MemoryService)
          const said = Array.from({ length: 4 }, (_, n) => `thing ${n} is said`)
          yield* Effect.forEach(said, (text) => MemoryService.as(ada)(turnEnd([Message.user(text)])))
          const fiber = yield* Effect.fork(flush)
          yield* Effect.repeatN(Effect.yieldNow(), after)
          yield* Fiber.interrupt(fiber)
          yield* flush
          assert.deepStrictEqual(Array.from(yield* remembered(store)).sort(), said, `after ${after}`)
        }))
      }
    }))
})

describe("isolation of viewers in MemoryManager", () => {
  const name = FastCheck.constantFrom("ada", "bob")
  const ids = FastCheck.record({ userId: name, agentId: name, sessionId: name }, { requiredKeys: [] })
    .filter((ids) => Object.keys(ids).length > 0)
  const viewer = FastCheck.tuple(
    ids,
    FastCheck.constantFrom("default", "elsewhere"),
    FastCheck.constantFrom("exact" as const, "within" as const)
  ).map(([ids, tenant, reach]) => Viewer.make({ ...ids, tenant, reach }))
  const step = FastCheck.tuple(viewer, FastCheck.constantFrom("turn", "tool", "accept"))
  const worlds = FastCheck.array(step, { minLength: 4, maxLength: 10 })

  for (const [n, steps] of FastCheck.sample(worlds, { numRuns: 25, seed: 11 }).entries()) {
    it.effect(`a viewer gets only texts of visible scopes from search, prompts and tools (random calls ${n})`, () =>
      Effect.gen(function*() {
        const memory = yield* MemoryService.MemoryService
        const { accept, flush, inject, search } = yield* MemoryManager.MemoryManager
        const secret = (n: number) => `The secret word is w${n}x.`
        const own = (a: Viewer.Viewer, b: Viewer.Viewer) => a.tenant === b.tenant && Viewer.sees(a, Viewer.subjectOf(b))
        yield* Effect.forEach(steps, ([viewer, how], n) =>
          Effect.gen(function*() {
            if (how === "turn") yield* MemoryService.as(viewer)(memory.turnEnd([Message.user(secret(n))]))
            else if (how === "accept") {
              const body = secret(n)
              yield* accept(viewer, [{ scope: Viewer.subjectOf(viewer), kind: "semantic", body }])
            } else {
              const [tool] = yield* MemoryTools.makeStores(viewer, { search: false, add: true })
              yield* tool!.call({ entries: [secret(n)] })
            }
          }), { concurrency: "unbounded", discard: true })
        yield* flush

        yield* Effect.forEach(steps, ([viewer]) =>
          Effect.gen(function*() {
            const seen = new Set(steps.flatMap(([other], n) => own(viewer, other) ? [`w${n}x`] : []))
            const [tool] = yield* MemoryTools.makeStores(viewer)
            const query = "What is the secret word?"
            const texts = [
              JSON.stringify(yield* search(viewer, query, { maxSearchResults: 100 })),
              (yield* inject(viewer, [Message.user(query)])).text,
              (yield* MemoryService.as(viewer)(memory.context([Message.user(query)]))).text,
              (yield* tool!.call({ query, maxSearchResults: 100 })).text
            ]
            const shown = (text: string) => new Set(Array.from(text.matchAll(/w\d+x/g), ([word]) => word))
            for (const text of texts) {
              for (const word of shown(text)) assert.isTrue(seen.has(word), `${word} to ${JSON.stringify(viewer)}`)
            }
            assert.deepStrictEqual(Array.from(shown(texts[0]!)).sort(), Array.from(seen).sort())
          }), { concurrency: "unbounded", discard: true })
      }).pipe(Effect.provide(world({
        completion: Completion.layerScripted(literal),
        config: { extraction: { notes: { trigger: ExtractionTrigger.interval(2) } } },
        spec: { writesPerTurn: 0 }
      }))))
  }
})
