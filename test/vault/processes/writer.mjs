// Puts, updates, forgets and batches of three, until it is killed. Says what it is about to do, and what was acknowledged.
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { dice, run, say, scope, viewer } from "./vault.mjs"

const [root, seed] = process.argv.slice(2)
const random = dice(Number(seed))
const pick = (items) => items[Math.floor(random() * items.length)]

await run(root, (store) =>
  Effect.gen(function*() {
    const known = new Map() // name → id and version
    yield* Stream.runForEach(store.stream(viewer, {}), ({ body, id }) =>
      Effect.sync(() => {
        const [name, version] = body.split(" ")
        known.set(name, { id, version: Number(version) })
      }))
    yield* say({ ready: known.size })

    const filler = () => "x".repeat(Math.floor(random() * 3000))
    const put = (name) => [name, 1, { _tag: "Put", draft: { scope, kind: "reference", summary: name, body: `${name} 1 ${filler()}` } }]
    const update = (name) => {
      const { id, version } = known.get(name)
      return [name, version + 1, { _tag: "Update", id, patch: { body: `${name} ${version + 1} ${filler()}` } }]
    }
    const forget = (name) => [name, 0, { _tag: "Forget", id: known.get(name).id }]
    for (let n = 0;; n++) {
      const names = Array.from(known.keys())
      const other = pick(names)
      const third = pick(names.filter((name) => name !== other))
      const one = () => (names.length < 4 || random() < 0.4 ? put(`${seed}-${n}`) : random() < 0.7 ? update(other) : forget(other))
      const steps = random() < 0.4 && third !== undefined
        ? [put(`${seed}-${n}`), update(third), random() < 0.5 ? update(other) : forget(other)]
        : [one()]
      const changes = Object.fromEntries(steps.map(([name, version]) => [name, version]))
      yield* say({ will: changes })
      const applied = yield* store.apply(viewer, steps.map(([, , mutation]) => mutation))
      steps.forEach(([name, version], i) => {
        if (version === 0) known.delete(name)
        else known.set(name, { id: applied[i].id, version })
      })
      yield* say({ did: changes })
    }
  }))
