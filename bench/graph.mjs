/**
 * `GraphMemory` over graphs of 1,000, 10,000 and 100,000 relationships, five to an entity each way: what a question costs
 * follows the neighbourhood and not the graph, so its columns should be level. CPU time of the process, per call.
 */
import { Effect, Layer } from "effect"
import { GraphMemory, MemoryId, MemoryStore, Viewer } from "../dist/index.js"
import { random } from "./corpus.mjs"

const degree = 5
const calls = 200
const ada = Viewer.make({ userId: "ada" })
const idOf = (n) => MemoryId.stableId(`entity ${n}`)

const cpu = Effect.sync(() => {
  const { system, user } = process.cpuUsage()
  return system + user
})
/** CPU milliseconds a call. */
const timed = (count, call) =>
  Effect.gen(function*() {
    yield* Effect.forEach(Array.from({ length: Math.ceil(count / 10) }, (_, n) => n), call, { discard: true })
    const start = yield* cpu
    yield* Effect.forEach(Array.from({ length: count }, (_, n) => n), call, { discard: true })
    return ((yield* cpu) - start) / 1_000 / count
  })

/** Within a window of 200 entities, so that the neighbourhoods of graphs of all sizes are alike. */
const drafts = (count) => {
  const next = random(5)
  return Array.from({ length: count }, (_, n) => ({
    id: idOf(n),
    scope: { userId: "ada" },
    kind: "entity",
    body: "",
    summary: `entity ${n}`,
    data: { name: `entity ${n}`, type: "thing" },
    links: Array.from({ length: degree }, () => ({
      to: idOf((n + 1 + Math.floor(next() * 198)) % count),
      type: next() < 0.5 ? "knows" : "made",
      weight: next()
    }))
  }))
}

const measure = (relationships) =>
  Effect.gen(function*() {
    const graph = yield* GraphMemory.GraphMemory
    const store = yield* MemoryStore.MemoryStore
    const entities = relationships / degree
    const all = drafts(entities)
    for (let n = 0; n < entities; n += 1_000) yield* store.put(ada, all.slice(n, n + 1_000))
    yield* store.links(ada, idOf(0))
    const next = random(6)
    const any = () => Math.floor(next() * entities)
    return {
      relationships,
      neighbours: yield* timed(calls, () => graph.traverse(ada, idOf(any()), { maxDepth: 1 })),
      "two hops": yield* timed(calls, () => graph.traverse(ada, idOf(any()))),
      "five hops": yield* timed(calls, () => graph.traverse(ada, idOf(any()), { maxDepth: 5, limit: 1_000 })),
      "by path": yield* timed(calls, () => graph.queryByPath(ada, idOf(any()), ["knows", "made"])),
      "shortest path": yield* timed(calls, () => {
        const from = any()
        return graph.findPath(ada, idOf(from), idOf((from + 50) % entities), { maxDepth: 5 })
      }),
      relate: yield* timed(calls, () => {
        const from = any()
        return graph.relate(ada, { from: idOf(from), to: idOf((from + 1) % entities), type: "likes", weight: 1 })
      }),
      forget: yield* timed(calls, () => graph.forget(ada, idOf(any())))
    }
  }).pipe(
    Effect.provide(Layer.provideMerge(GraphMemory.layer, MemoryStore.layerInMemory))
  )

const rows = []
for (const relationships of [1_000, 10_000, 100_000]) {
  rows.push(await Effect.runPromise(measure(relationships)))
}

const [first, ...names] = Object.keys(rows[0])
console.log(`| ms | ${rows.map((row) => row[first].toLocaleString("en")).join(" | ")} |`)
console.log(`| --- | ${rows.map(() => "---").join(" | ")} |`)
for (const name of names) console.log(`| ${name} | ${rows.map((row) => row[name].toFixed(3)).join(" | ")} |`)
