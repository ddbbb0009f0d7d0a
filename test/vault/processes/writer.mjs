// Puts, updates, forgets and purges records, singly and in batches, until it is killed. Announces each write, and reports those
// acknowledged, as names with versions; 0: forgotten, -1: purged. Two records, left and right, are always written in one batch,
// with equal versions.
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { MemoryId } from "../../../dist/index.js"
import { dice, run, say, scope, viewer } from "./vault.mjs"

const [root, seed] = process.argv.slice(2)
const random = dice(Number(seed))
const pick = (items) => items[Math.floor(random() * items.length)]
const twins = ["left", "right"]

await run(root, (store) =>
  Effect.gen(function*() {
    const known = new Map() // name → version
    yield* Stream.runForEach(store.stream(viewer, {}), ({ body }) =>
      Effect.sync(() => {
        const [name, version] = body.split(" ")
        known.set(name, Number(version))
      }))
    yield* say({ ready: known.size })

    const filler = () => "x".repeat(Math.floor(random() * 3_000))
    const put = (name, long = filler()) => [name, 1, { _tag: "Put", draft: { id: MemoryId.stableId(name), scope, kind: "reference", summary: name, body: `${name} 1 ${long}` } }]
    const update = (name) => {
      const version = known.get(name) + 1
      return [name, version, { _tag: "Update", id: MemoryId.stableId(name), patch: { body: `${name} ${version} ${filler()}` } }]
    }
    const forget = (name) => [name, 0, { _tag: "Forget", id: MemoryId.stableId(name) }]
    const purge = (name) => [name, -1, { _tag: "Forget", id: MemoryId.stableId(name), purge: true }]
    // four of eight writers begin with long records that they purge at once, so that the next write compacts the history
    const bulk = Number(seed) % 8 < 4 ? Array.from({ length: 10 }, (_, n) => `${seed}-bulk-${n}`) : []
    for (let n = 0;; n++) {
      const names = Array.from(known.keys()).filter((name) => !twins.includes(name))
      const other = pick(names)
      const third = pick(names.filter((name) => name !== other))
      const change = (name) => pick([update, update, forget, purge])(name)
      const steps = bulk.length > 0 && n === 0
        ? bulk.map((name) => put(name, "x".repeat(60_000)))
        : bulk.length > 0 && n === 1
        ? bulk.map(purge)
        : names.length < 4 || random() < 0.3
        ? [put(`${seed}-${n}`)]
        : random() < 0.4
        ? [change(other)]
        : [put(`${seed}-${n}`), update(third), ...twins.map((name) => known.has(name) ? update(name) : put(name)), change(other)]
      const changes = Object.fromEntries(steps.map(([name, version]) => [name, version]))
      yield* say({ will: changes })
      yield* store.apply(viewer, steps.map(([, , mutation]) => mutation))
      for (const [name, version] of steps) {
        if (version < 1) known.delete(name)
        else known.set(name, version)
      }
      yield* say({ did: changes })
    }
  }))
