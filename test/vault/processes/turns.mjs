// Turns of many users through an outbox over a store in memory, from which nothing is worth remembering. Says how much of the
// heap is alive once it is drained; run with --expose-gc.
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { Completion, Embedder, ExtractionTrigger, MemoryPipeline, MemoryStore, Message, Outbox, Viewer } from "../../../dist/index.js"
import { say } from "./vault.mjs"

const [users, ...counts] = process.argv.slice(2).map(Number)

const turn = (outbox, n) =>
  outbox.append(Viewer.make({ userId: `user ${n % users}` }), "s", [
    Message.user(`turn ${n} ${"x".repeat(500)}`),
    Message.assistant(`noted ${n}`)
  ])

const alive = (turns) =>
  Effect.scoped(Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    const context = Context.make(MemoryStore.MemoryStore, store).pipe(
      Context.add(Completion.Completion, Completion.make({ model: "none", complete: () => Effect.succeed("{\"facts\": []}") })),
      Context.add(Embedder.Embedder, yield* Effect.provide(Embedder.Embedder, Embedder.layerNone))
    )
    const pipeline = yield* Effect.provide(MemoryPipeline.make, context)
    const outbox = yield* Outbox.make(store, pipeline, { trigger: ExtractionTrigger.interval(5), openLines: users / 2 })
    yield* Effect.forEach(Array.from({ length: users }, (_, n) => n), (user) =>
      Effect.gen(function*() {
        for (let n = user; n < turns; n += users) yield* turn(outbox, n)
      }), { concurrency: users, discard: true })
    yield* outbox.flush
    const { waiting } = yield* outbox.status
    yield* Effect.promise(async () => {
      for (let n = 0; n < 5; n++) {
        await new Promise((done) => setImmediate(done))
        globalThis.gc()
      }
    })
    return { turns, waiting, alive: process.memoryUsage().heapUsed }
  })).pipe(Effect.provide(MemoryStore.layerInMemory))

await Effect.runPromise(Effect.gen(function*() {
  yield* alive(counts[0]) // code and caches
  for (const turns of counts) yield* say(yield* alive(turns))
}))
process.exit(0)
