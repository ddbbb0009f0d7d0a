// Appends turns of three tenants in two sessions each to an outbox that extracts them: `turns` per conversation, or, if that is
// 0, until it is killed. Each message contains its number, and each fact the number of the model call that it came from.
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Outbox from "../../../dist/harness/Outbox.js"
import * as MemoryPipeline from "../../../dist/pipeline/MemoryPipeline.js"
import { Completion, Embedder, ExtractionTrigger, MemoryStore, Message, Viewer } from "../../../dist/index.js"
import { dice, run, say } from "./vault.mjs"

const [root, name, seed, extractor, turns] = process.argv.slice(2)
const random = dice(Number(seed))
let call = 0

const completion = Completion.make({
  model: "scripted",
  complete: ({ user }) =>
    Effect.sync(() => JSON.stringify({ memory: JSON.parse(user.slice(user.lastIndexOf("["))).map((text) => ({ event: "ADD", text })) }))
})
const pause = Effect.suspend(() => Effect.repeatN(Effect.yieldNow(), Math.floor(random() * 200)))

await run(root, (store) =>
  Effect.gen(function*() {
    const pipeline = yield* Effect.provide(
      MemoryPipeline.make,
      Context.make(MemoryStore.MemoryStore, store).pipe(
        Context.add(Completion.Completion, completion),
        Context.add(Embedder.Embedder, yield* Effect.provide(Embedder.Embedder, Embedder.layerNone))
      )
    )
    const outbox = yield* Outbox.make(store, pipeline, {
      extractor,
      trigger: ExtractionTrigger.interval(1 + Number(seed) % 3),
      retry: Schedule.spaced("20 millis"),
      capacityPerConversation: 5,
      capacityPerTenant: 20,
      // long timeouts, so that no append or flush fails on a busy machine
      timeSlice: "5 minutes",
      flushTimeout: "5 minutes",
      options: {
        kind: "episodic",
        customExtract: (messages) =>
          Effect.suspend(() => {
            const from = `~${process.pid}.${++call}`
            return Effect.as(pause, messages.map(({ content }) => ({ text: `${content} ${from}` })))
          })
      }
    })
    yield* say({ ready: name })
    const lines = ["one", "two", "three"].flatMap((tenant) => ["s", "t"].map((session) => [tenant, session]))
    yield* Effect.forEach(lines, ([tenant, session]) =>
      Effect.gen(function*() {
        const viewer = Viewer.make({ tenant, userId: "ada" })
        for (let n = 0; Number(turns) === 0 || n < Number(turns); n++) {
          yield* pause
          const texts = Array.from({ length: 1 + Math.floor(random() * 2) }, (_, i) => `${tenant} ${session} ${name} ${n}.${i}`)
          yield* outbox.append(viewer, session, texts.map(Message.user))
          yield* say({ did: texts })
        }
      }), { concurrency: "unbounded" })
    yield* outbox.flush
  }).pipe(Effect.scoped),
  // a short timeout if processes are killed; otherwise a long one, so that a slow process is not taken for dead
  { lockTimeout: Number(turns) === 0 ? 300 : 60_000 })
process.exit(0)
