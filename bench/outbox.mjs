/**
 * Measures how long the outbox blocks the event loop: the longest stall while it appends, reads, parks and opens at its
 * documented bounds, over a store in memory, with a model that answers at the next turn of the loop. Prints wall
 * milliseconds, and the CPU time of the busiest turn, which other processes do not lengthen. Both include garbage
 * collection and compilation.
 */
import { Effect, Layer, Logger } from "effect"
import { readFileSync } from "node:fs"
import { performance } from "node:perf_hooks"
import { setImmediate as nextTurn } from "node:timers/promises"
import * as Outbox from "../dist/harness/Outbox.js"
import {
  Completion,
  Embedder,
  ExtractionTrigger,
  MemoryError,
  MemoryPipeline,
  MemoryStore,
  Message,
  Viewer
} from "../dist/index.js"

const perLine = 1_000
const perTenant = 10_000

/**
 * Returns the CPU milliseconds of the main thread, without those of garbage-collection threads; of the whole process if the
 * system does not report threads.
 */
const cpu = () => {
  try {
    return Number(readFileSync("/proc/self/schedstat", "utf8").split(" ")[0]) / 1e6
  } catch {
    const { system, user } = process.cpuUsage()
    return (system + user) / 1_000
  }
}
/** Runs the work and returns the longest time between two iterations of the event loop meanwhile. */
const stalls = (work) =>
  Effect.gen(function*() {
    let longest = 0
    let busiest = 0
    let isOver = false
    const watching = (async () => {
      let last = performance.now()
      let before = cpu()
      while (!isOver) {
        await nextTurn()
        const now = performance.now()
        const used = cpu()
        longest = Math.max(longest, now - last)
        busiest = Math.max(busiest, used - before)
        last = now
        before = used
      }
    })()
    yield* Effect.promise(() => nextTurn())
    const start = performance.now()
    yield* work
    const total = performance.now() - start
    yield* Effect.promise(() => nextTurn())
    isOver = true
    yield* Effect.promise(() => watching)
    return { total, longest, busiest }
  })

const never = { name: "never", fires: ExtractionTrigger.sessionEnd.fires }
let refuses = false
const completion = Completion.make({
  model: "bench",
  complete: () => Effect.as(Effect.promise(() => nextTurn()), JSON.stringify({ facts: [] }))
})
const refused = MemoryError.make("invalid_draft", { op: "bench", message: "never", detail: { issues: ["never"] } })
const customExtract = () => Effect.suspend(() => refuses ? refused : Effect.as(Effect.promise(() => nextTurn()), []))

const viewerOf = (n) => Viewer.make({ userId: `user ${n}` })
const text = "Ada moved to Lisbon last month and teaches pottery there, on Thursdays. ".repeat(3)
const turn = (n) => [Message.user(`${n} ${text}`), Message.assistant("Noted.")]

console.log("operation | bound | total ms | longest stall ms | of it CPU ms")
const measured = (name, bound, work) =>
  Effect.map(stalls(work), ({ busiest, longest, total }) => {
    console.log([name, bound, Math.round(total), longest.toFixed(1), busiest.toFixed(1)].join(" | "))
  })

const opened = Effect.gen(function*() {
  const store = yield* MemoryStore.MemoryStore
  const pipeline = yield* MemoryPipeline.MemoryPipeline
  return yield* Outbox.make(store, pipeline, { trigger: never, options: { customExtract } })
})
const fill = (outbox, lines, each) =>
  Effect.forEach(Array.from({ length: lines }, (_, n) => n), (line) =>
    Effect.forEach(
      Array.from({ length: each }, (_, n) => n),
      (n) => outbox.append(viewerOf(line), "s", turn(n)).pipe(Effect.zipLeft(Effect.promise(() => nextTurn()))),
      { discard: true }
    ), { discard: true })

const program = Effect.gen(function*() {
  yield* Effect.scoped(Effect.gen(function*() { // warm
    const outbox = yield* opened
    yield* fill(outbox, 20, 20)
    yield* outbox.flush
  }))

  yield* Effect.scoped(Effect.gen(function*() {
    const outbox = yield* opened
    yield* measured("append, one turn", `a line of ${perLine}`, fill(outbox, 1, perLine))
    yield* measured("drain", `a line of ${perLine}`, outbox.flush)
    refuses = true
    yield* fill(outbox, 1, perLine)
    yield* measured("park", `a line of ${perLine}`, outbox.flush)
    yield* measured("parked", `${perLine} parked`, outbox.deadLetters)
    refuses = false
    yield* measured("release", `${perLine} parked`, outbox.release)
    yield* outbox.flush
    const many = Array.from({ length: 100 }, (_, n) => Message.user(`${n} ${text.repeat(60).slice(0, 9_990)}`))
    yield* measured("append, at once", "100 messages, 1,000,000 characters", outbox.append(viewerOf(0), "t", many))
    yield* measured("drain", "100 messages, 1,000,000 characters", outbox.flush)
  }))

  yield* Effect.scoped(Effect.gen(function*() {
    const outbox = yield* opened
    yield* measured("append, one turn", `a tenant of ${perTenant}, 500 lines`, fill(outbox, 500, perTenant / 500))
    yield* measured("flush", `a tenant of ${perTenant}, 500 lines`, outbox.flush)
  }))
  yield* Effect.scoped(Effect.gen(function*() {
    const outbox = yield* opened
    yield* fill(outbox, perTenant / 5, 5)
    yield* measured("flush", `a tenant of ${perTenant}, ${perTenant / 5} lines`, outbox.flush)
  }))
  const memory = yield* Effect.context()
  const crashed = yield* Effect.scoped(opened) // a closed outbox appends but does not read
  yield* fill(crashed, 500, perTenant / 500)
  yield* measured(
    "open and read what was left",
    `${perTenant} batches`,
    Effect.scoped(Effect.provide(Effect.flatMap(opened, ({ flush }) => flush), memory))
  )
})

const memory = MemoryPipeline.layer.pipe(
  Layer.provide([Layer.succeed(Completion.Completion, completion), Embedder.layerNone]),
  Layer.provideMerge(MemoryStore.layerInMemory)
)
await Effect.runPromise(
  Effect.flatMap(Layer.build(memory), (context) => Effect.provide(program, context)).pipe(
    Effect.scoped,
    Effect.provide(Logger.replace(Logger.defaultLogger, Logger.none)) // each batch that is parked is a warning
  )
)
process.exit(0)
