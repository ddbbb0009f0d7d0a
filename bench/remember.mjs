/**
 * What `MemoryPipeline.remember` costs by itself: the model is a script that answers at once, one fact and one ADD each
 * time. With 0, 1,000 and 10,000 records in the scope that is written, in memory and on a vault, with word vectors and
 * without. Beside it `infer: false`, which asks no model, and the `put` that both end with. CPU milliseconds a call.
 */
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { Context, Effect, Layer } from "effect"
import { Completion, Embedder, Markdown, MemoryPipeline, MemoryStore, Message, Viewer } from "../dist/index.js"
import { notes } from "./corpus.mjs"
import { cpu as cpuOfProcess } from "./measure.mjs"

const calls = 100
const warm = 20
const scope = { userId: "ada" }
const ada = Viewer.make(scope)
const others = notes(10_000)
const facts = notes(10_000 + 2 * (calls + warm)).slice(10_000).map(({ body }) => body.slice(0, 90).trim())

const cpu = Effect.sync(cpuOfProcess)
/** The mean of `calls`, after some to warm up. */
const timed = (call) =>
  Effect.gen(function*() {
    for (let n = 0; n < warm; n++) yield* call(n)
    const start = yield* cpu
    for (let n = warm; n < warm + calls; n++) yield* call(n)
    return ((yield* cpu) - start) / calls
  })

const inVault = Layer.unwrapScoped(
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped({ prefix: "effect-memory-bench-" })),
    (root) => Markdown.layer({ root })
  )
)
const script = (texts) =>
  Completion.layerScripted(texts.flatMap((text) => [{ facts: [text] }, { memory: [{ event: "ADD", text }] }]))

const measure = (name, store, embedder, count) =>
  Effect.gen(function*() {
    const layer = MemoryPipeline.layer.pipe(
      Layer.provide([script(facts.slice(0, calls + warm)), embedder]),
      Layer.provideMerge(store)
    )
    const context = yield* Layer.build(layer)
    const memory = Context.get(context, MemoryStore.MemoryStore)
    const pipeline = Context.get(context, MemoryPipeline.MemoryPipeline)
    for (let n = 0; n < count; n += 500) {
      yield* memory.put(
        ada,
        others.slice(n, n + 500).map(({ body, summary, tags }) => (
          { scope, kind: "semantic", summary, body, tags }
        ))
      )
    }
    yield* pipeline.embedMissing
    yield* memory.search(ada, { text: "what is where" })
    return {
      store: name,
      records: count,
      remember: yield* timed((n) => pipeline.remember(ada, [Message.user(facts[n])], { scope })),
      "as said": yield* timed((n) =>
        pipeline.remember(ada, [Message.user(facts[n])], { scope, infer: false, session: "s", sequence: n })
      ),
      put: yield* timed((n) => memory.put(ada, [{ scope, kind: "semantic", body: facts[calls + warm + n] }]))
    }
  }).pipe(Effect.scoped)

const rows = []
for (const count of [0, 1_000, 10_000]) {
  // not `Layer.fresh`: beside `provideMerge` that makes two stores, and the pipeline's would be empty
  for (const [name, store] of [["in memory", MemoryStore.layerInMemory], ["vault", inVault]]) {
    for (const [by, embedder] of [["words", Embedder.layerNone], ["words and vectors", Embedder.layerWordVectors]]) {
      const row = measure(`${name}, ${by}`, store, embedder, count)
      rows.push(await Effect.runPromise(Effect.provide(row, NodeContext.layer)))
    }
  }
}

console.log(`Node ${process.version}; CPU ms a call, ${calls} of them`)
console.table(
  rows.map((row) =>
    Object.fromEntries(
      Object.entries(row).map(([key, value]) => [key, typeof value === "number" ? Number(value.toPrecision(3)) : value])
    )
  )
)
