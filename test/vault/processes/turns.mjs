// Appends turns of many users of several tenants to an outbox over an in-memory store; the model finds no facts in them. The turns
// of three more users make the model hang, die or answer garbage until all others are drained. Prints the size of the live heap
// once those are drained, too. Needs --expose-gc.
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Outbox from "../../../dist/harness/Outbox.js"
import * as MemoryPipeline from "../../../dist/pipeline/MemoryPipeline.js"
import { Completion, Embedder, MemoryStore, Message, Viewer } from "../../../dist/index.js"
import { say } from "./vault.mjs"

const [users, ...counts] = process.argv.slice(2).map(Number)

const turn = (outbox, n) =>
  outbox.append(Viewer.make({ tenant: `tenant ${n % 5}`, userId: `user ${n % users}` }), "s", [
    Message.user(`turn ${n} ${"x".repeat(500)}`),
    Message.assistant(`noted ${n}`)
  ])

const bad = [["hangs", 3], ["dies", 20], ["garbles", 20]]
const misbehave = (outbox) =>
  Effect.forEach(bad, ([mood, turns], i) =>
    Effect.forEach(Array.from({ length: turns }, (_, n) => n), (n) =>
      outbox.append(Viewer.make({ tenant: `tenant ${i}`, userId: mood }), "s", [Message.user(`this ${mood}, turn ${n}`)]),
      { discard: true }), { discard: true })
let isWell = false
const model = Completion.make({
  model: "moody",
  complete: ({ user }) => {
    if (isWell) return Effect.succeed("{\"facts\": []}")
    if (user.includes("this hangs")) return Effect.never
    if (user.includes("this dies")) return Effect.die("a bug")
    return Effect.succeed(user.includes("this garbles") ? "Sorry, I am overloaded." : "{\"facts\": []}")
  }
})

const alive = (turns) =>
  Effect.scoped(Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    const context = Context.make(MemoryStore.MemoryStore, store).pipe(
      Context.add(Completion.Completion, model),
      Context.add(Embedder.Embedder, yield* Effect.provide(Embedder.Embedder, Embedder.layerNone))
    )
    const pipeline = yield* Effect.provide(MemoryPipeline.make, context)
    const outbox = yield* Outbox.make(store, pipeline, {
      openConversations: users / 2,
      retry: Schedule.spaced("10 millis"),
      timeout: "200 millis",
      timeSlice: "5 millis",
      flushTimeout: "1 millis"
    }, { applied: () => Effect.void, degraded: () => () => Effect.void })
    yield* misbehave(outbox)
    yield* Effect.forEach(Array.from({ length: users }, (_, n) => n), (user) =>
      Effect.gen(function*() {
        for (let n = user; n < turns; n += users) yield* turn(outbox, n)
      }), { concurrency: users, discard: true })
    yield* Effect.either(outbox.flush)
    isWell = true
    yield* Effect.retry(outbox.flush, { times: 10 })
    isWell = false
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
  yield* alive(counts[0]) // warms up code and caches
  for (const turns of counts) yield* say(yield* alive(turns))
}))
process.exit(0)
