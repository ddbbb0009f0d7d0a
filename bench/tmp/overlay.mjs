import { Effect, Layer } from "effect"
import { MemoryStore, Overlay, Viewer } from "../../dist/index.js"
import { notes } from "../corpus.mjs"
const n = +process.argv[2] || 10000
const ada = Viewer.make({ userId: "ada" })
const drafts = notes(n).map((x) => ({
  scope: { userId: "ada" },
  kind: "reference",
  summary: x.summary,
  body: x.body,
  tags: x.tags
}))
const cpu = () => {
  const c = process.cpuUsage()
  return (c.user + c.system) / 1000
}
const qs = ["how to read a file as a stream", "promise error", "tea green cup", "install node package"]
await Effect.runPromise(
  Effect.gen(function*() {
    const below = yield* MemoryStore.MemoryStore
    for (let i = 0; i < drafts.length; i += 1000) yield* below.put(ada, drafts.slice(i, i + 1000))
    const run = (s, k) =>
      Effect.gen(function*() {
        const t = cpu()
        for (let i = 0; i < k; i++) yield* s.search(ada, { text: qs[i % 4] })
        return (cpu() - t) / k
      })
    yield* Effect.gen(function*() {
      const o = yield* MemoryStore.MemoryStore
      yield* run(below, 50)
      const t = cpu()
      yield* o.search(ada, { text: qs[0] })
      console.log("first", (cpu() - t).toFixed(1))
      for (let i = 0; i < 50; i++) {
        yield* o.put(ada, [{
          scope: { userId: "ada" },
          kind: "reference",
          body: "note number " + i + " about streams"
        }])
      }
      for (let r = 0; r < 4; r++) {
        console.log("below", (yield* run(below, 200)).toFixed(3), "overlay", (yield* run(o, 200)).toFixed(3))
      }
    }).pipe(Effect.provide(Overlay.layer.pipe(Layer.provide(Layer.succeed(MemoryStore.MemoryStore, below)))))
  }).pipe(Effect.provide(MemoryStore.layerInMemory))
)
