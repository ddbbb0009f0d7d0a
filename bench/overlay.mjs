/**
 * Searches in a branch against searches in the store below it: the same questions by turns in one process, CPU time. The
 * branch has fifty notes of its own.
 *
 *   node overlay.mjs [notes]      default 10,000
 */
import { Effect, Layer } from "effect"
import { MemoryStore, Overlay, Viewer } from "../dist/index.js"
import { notes } from "./corpus.mjs"
import { cpu, median } from "./measure.mjs"

const count = Number(process.argv[2] ?? 10_000)
const ada = Viewer.make({ userId: "ada" })
const scope = { userId: "ada" }
const drafts = notes(count).map(({ body, summary, tags }) => ({ scope, kind: "reference", summary, body, tags }))
const questions = drafts.filter((_, n) => n % Math.ceil(count / 100) === 0).map(({ summary }) => summary)

const program = Effect.gen(function*() {
  const below = yield* MemoryStore.MemoryStore
  for (let n = 0; n < count; n += 1_000) yield* below.put(ada, drafts.slice(n, n + 1_000))
  const timed = (effect) =>
    Effect.gen(function*() {
      const start = cpu()
      yield* effect
      return cpu() - start
    })
  const round = (store) =>
    Effect.map(
      timed(Effect.forEach(questions, (text) => store.search(ada, { text }), { discard: true })),
      (ms) => ms / questions.length
    )
  yield* round(below)
  yield* Effect.gen(function*() {
    const branch = yield* MemoryStore.MemoryStore
    const first = yield* timed(branch.search(ada, { text: questions[0] }))
    yield* branch.put(ada, Array.from({ length: 50 }, (_, n) => ({ scope, kind: "reference", body: `branch ${n}` })))
    yield* round(branch)
    const rounds = yield* Effect.forEach(Array.from({ length: 15 }), () => Effect.all([round(below), round(branch)]))
    const middle = (i) => median(rounds, (round) => round[i])[i]
    console.log(`${count} notes: the branch's first search ${first.toFixed(0)} ms, once`)
    console.log(
      `a search below ${middle(0).toFixed(3)} ms, in the branch ${middle(1).toFixed(3)} ms of CPU: ${
        (middle(1) / middle(0)).toFixed(2)
      } times`
    )
  }).pipe(Effect.provide(Overlay.layer), Effect.provideService(MemoryStore.MemoryStore, below))
})

await Effect.runPromise(program.pipe(Effect.provide(Layer.fresh(MemoryStore.layerInMemory))))
