// Reads a vault that others write to, until it is told to stop. Reports how often it read, and what must never be visible: an
// error, half a batch, a record twice, a version that decreases, or a history with a gap.
import * as Effect from "effect/Effect"
import { once } from "node:events"
import { run, say, viewer } from "./vault.mjs"

const [root] = process.argv.slice(2)

await run(root, (store) =>
  Effect.gen(function*() {
    let isOver = false
    void once(process.stdin, "data").then(() => (isOver = true))
    yield* say({ ready: 0 })
    const wrong = []
    const versions = new Map()
    let reads = 0
    const read = Effect.gen(function*() {
      const seen = new Map()
      const { items } = yield* store.list(viewer, { limit: 1_000 }) // all records in one page
      for (const { body, id, revision } of items) {
        const [name, version] = body.split(" ")
        if (seen.has(name)) wrong.push(`${name} twice`)
        seen.set(name, { id, revision, version: Number(version) })
        if (Number(version) < (versions.get(name) ?? 0)) wrong.push(`${name} went back to ${version}`)
        versions.set(name, Number(version))
      }
      const [left, right] = ["left", "right"].map((name) => seen.get(name)?.version)
      if (left !== right) wrong.push(`half a batch: left ${left}, right ${right}`)
      const one = items[reads % Math.max(1, items.length)]
      if (one !== undefined) {
        const past = (yield* store.history(viewer, one.id)).map(({ revision }) => revision)
        const gap = past.findIndex((revision, n) => revision !== past[0] - n)
        if (gap >= 0) wrong.push(`a history with a gap: ${past}`)
      }
      yield* store.search(viewer, { text: "left" })
      reads++
      yield* Effect.yieldNow()
    })
    while (!isOver) {
      yield* Effect.catchAll(read, (error) => Effect.sync(() => wrong.push(`${error.reason}: ${error.message}`)))
      yield* Effect.sleep("20 millis") // leaves the processor to the writer
    }
    yield* say({ reads, wrong: wrong.slice(0, 20) })
  }), { poll: "10 millis" })
process.exit(0)
