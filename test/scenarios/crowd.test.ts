/** Many users of several tenants at once, while the model hangs, dies or answers unusably for some of them. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { isInternal } from "../../src/domain/MemoryScope.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryManager from "../../src/harness/MemoryManager.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { literal, world } from "../harness/Managed.ts"
import { times } from "../vault/Program.ts"

const users = times(24, 500)
const turns = 20
const tenants = 5
const betweenTurns = 30_000
/** Time of five turns, after which the default trigger extracts. */
const period = 5 * betweenTurns

/** Behaviours of the model for the conversations of the first users; for all others it behaves `well`. */
const moods = ["hangs", "dies", "garbles", "hangs", "hangs", "hangs", "hangs", "hangs", "hangs", "hangs", "hangs"]
const moodOf = (user: number): string => moods[user] ?? "well"
const viewerOf = (user: number) =>
  Viewer.make({ tenant: `tenant ${user % tenants}`, userId: `user ${user}`, sessionId: "s" })
const textOf = (user: number, turn: number) => `${moodOf(user)} u${user} t${turn}.`

/** Makes a model that answers after a second, if at all. `readAt` gets the times at which it extracted each turn of a `well` user. */
const modelOf = (readAt: Map<string, Array<number>>) =>
  Completion.make({
    model: "moody",
    complete: (prompt) =>
      Effect.gen(function*() {
        const isExtraction = prompt.system.includes("\"facts\"")
        yield* Effect.sleep("1 second")
        if (isExtraction && prompt.user.includes("hangs u")) return yield* Effect.never
        if (isExtraction && prompt.user.includes("dies u")) return yield* Effect.die("a bug")
        if (isExtraction && prompt.user.includes("garbles u")) return "Sorry, I am overloaded."
        if (isExtraction) {
          const now = yield* Clock.currentTimeMillis
          for (const [text] of prompt.user.matchAll(/well u\d+ t\d+\./g)) {
            readAt.set(text, [...readAt.get(text) ?? [], now])
          }
        }
        return JSON.stringify(literal(prompt))
      })
  })

describe("MemoryManager with conversations whose extraction hangs, dies or fails", () => {
  it.effect(
    `each turn of a user is extracted once and within five minutes, even if the extraction of other users hangs or fails (${users} users)`,
    () =>
      Effect.gen(function*() {
        const readAt = new Map<string, Array<number>>()
        const saidAt = new Map<string, number>()
        const scope = yield* Scope.make()
        const built = yield* Layer.buildWithScope(managed(modelOf(readAt)), scope)
        yield* Effect.gen(function*() {
          const { addMessages } = yield* MemoryManager.MemoryManager
          const store = yield* MemoryStore.MemoryStore
          const all = Array.from({ length: users }, (_, user) => user)
          for (let turn = 0; turn < turns; turn++) {
            yield* Effect.forEach(all, (user) =>
              Effect.gen(function*() {
                saidAt.set(textOf(user, turn), yield* Clock.currentTimeMillis)
                yield* addMessages(viewerOf(user), "s", [Message.user(textOf(user, turn))])
              }), { concurrency: "unbounded", discard: true })
            yield* TestClock.adjust(betweenTurns)
          }
          yield* TestClock.adjust(2 * period)

          const remembered = new Map<string, number>()
          for (const tenant of yield* store.tenants) {
            yield* Stream.runForEach(store.stream(Viewer.system(tenant), { limit: 1_000 }), ({ body, scope }) =>
              Effect.sync(() => {
                if (!isInternal(scope)) {
                  remembered.set(body, (remembered.get(body) ?? 0) + 1)
                }
              }))
          }
          let slowest = 0
          for (
            const user of all.filter((user) =>
              moodOf(user) === "well"
            )
          ) {
            for (let turn = 0; turn < turns; turn++) {
              const text = textOf(user, turn)
              assert.deepStrictEqual([text, remembered.get(text), readAt.get(text)?.length], [text, 1, 1])
              slowest = Math.max(slowest, readAt.get(text)![0]! - saidAt.get(text)!)
            }
          }
          assert.isAtMost(slowest, 2 * period)
          yield* Effect.logInfo(`${users} users, ${turns} turns each: read after ${slowest / 1_000} s at most`)
        }).pipe(Effect.provide(built))
        const end = yield* Effect.fork(Scope.close(scope, Exit.void))
        yield* TestClock.adjust("30 seconds") // the last flush waits for extractions that hang
        yield* Fiber.join(end)
      }),
    times(60_000, 600_000)
  )
})

/** Builds a manager over an in-memory store, together with that store. Extraction has the default options. */
const managed = (completion: Completion.Service) =>
  Layer.unwrapEffect(Effect.map(
    MemoryStore.MemoryStore,
    (store) => {
      const layer = Layer.succeed(MemoryStore.MemoryStore, store)
      return Layer.merge(
        layer,
        world({
          stores: { notes: { layer, writable: true } },
          completion: Layer.succeed(Completion.Completion, completion),
          config: { extraction: { notes: true } }
        })
      )
    }
  )).pipe(Layer.provide(Layer.fresh(MemoryStore.layerInMemory)))
