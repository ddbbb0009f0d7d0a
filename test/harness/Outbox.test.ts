import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as TestClock from "effect/TestClock"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import * as Outbox from "../../src/harness/Outbox.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"

const ada = Viewer.make({ userId: "ada" })

const world = (options: Outbox.Options, answer: (prompt: Completion.Prompt) => unknown) =>
  Outbox.layer(options).pipe(
    Layer.provideMerge(MemoryPipeline.layer),
    Layer.provideMerge(
      Layer.mergeAll(MemoryStore.layerInMemory, Completion.layerScripted(answer), Embedder.layerNone)
    ),
    Layer.provide(Layer.setRandom(Random.make("outbox")))
  )

/** A model that remembers each line of the conversation. */
const literal = ({ system, user }: Completion.Prompt): unknown =>
  /"facts"/.test(system)
    ? { facts: Array.from(user.matchAll(/^user: (.*)$/gm), ([, text]) => text) }
    : {
      memory: (JSON.parse(user.slice(user.lastIndexOf("["))) as Array<string>).map((text) => ({ event: "ADD", text }))
    }

describe("Outbox", () => {
  it.effect("messages are read when the trigger says so, and leave nothing behind", () =>
    Effect.gen(function*() {
      const outbox = yield* Outbox.Outbox
      const store = yield* MemoryStore.MemoryStore
      assert.strictEqual(yield* outbox.append(ada, "s", [Message.user("likes tea"), Message.assistant("noted")]), 0)
      assert.strictEqual((yield* outbox.status).waiting, 2)
      assert.strictEqual(yield* outbox.append(ada, "s", [Message.user("has a cat")]), 2)
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* outbox.status).waiting, 0)
      const { items } = yield* store.list(ada, {})
      assert.deepStrictEqual(items.map(({ body }) => body).sort(), ["has a cat", "likes tea"])
    }).pipe(Effect.provide(world({ trigger: ExtractionTrigger.interval(2) }, literal))))

  it.effect("flush reads what no trigger asked for", () =>
    Effect.gen(function*() {
      const outbox = yield* Outbox.Outbox
      yield* outbox.append(ada, "s", [Message.user("likes tea")])
      yield* outbox.flush
      assert.deepStrictEqual(yield* outbox.status, { waiting: 0, parked: 0, failuresInARow: 0, durable: false })
    }).pipe(Effect.provide(world({ trigger: ExtractionTrigger.idle("10 minutes") }, literal))))
})
