// One of several writers to a vault. Starts on the first message; on the second, which says that all are done, waits until it
// sees all writes.
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { once } from "node:events"
import { run, say, scope, viewer } from "./vault.mjs"

const [root, name, rounds, processes, counter, toggle] = process.argv.slice(2)

await run(root, (store) =>
  Effect.gen(function*() {
    const latencies = []
    yield* Effect.fork(Stream.runForEach(store.changes(viewer), (change) =>
      Effect.sync(() => {
        if (change._tag === "Written" && change.by === "there" && change.record.body.startsWith("own ")) {
          latencies.push(Date.now() - (change.record.updatedAt ?? change.record.createdAt))
        }
      })))
    yield* Effect.yieldNow()
    yield* say({ ready: name })
    yield* Effect.promise(() => once(process.stdin, "data"))

    const add = Effect.gen(function*() {
      const [found] = yield* store.get(viewer, [counter])
      const { body, revision } = found.value
      yield* store.update(viewer, counter, { body: String(Number(body) + 1) }, { ifRevision: revision })
    }).pipe(Effect.retry({ while: (error) => error.reason === "conflict" }))

    // forgets a shared record if it is live, and restores it if it is forgotten
    const turn = Effect.gen(function*() {
      const [found] = yield* store.get(viewer, [toggle])
      if (found._tag === "Some") {
        const ifRevision = found.value.revision
        return yield* store.apply(viewer, [{ _tag: "Forget", id: toggle, ifRevision }])
      }
      const { items: [gone] } = yield* store.list(viewer, { ids: [toggle], forgotten: true })
      const revision = gone?.revision ?? 1 // another process may have restored it: a conflict
      yield* store.apply(viewer, [{ _tag: "Restore", id: toggle, revision, ifRevision: revision }])
    }).pipe(Effect.retry({ while: (error) => error.reason === "conflict" }))

    let created = 0
    for (let n = 0; n < Number(rounds); n++) {
      const [own] = yield* store.put(viewer, [{ scope, kind: "reference", summary: `${name} ${n}`, body: `own ${name} ${n}` }])
      const [fact] = yield* store.put(viewer, [{ scope, kind: "semantic", summary: `fact ${n}`, body: `fact ${n}` }])
      if (fact.outcome === "created") created++
      yield* add
      yield* store.update(viewer, own.record.id, { tags: ["seen"] }, { ifRevision: 1 })
      const drafts = ["back", "gone", "purged"].map((word) => ({ scope, kind: "reference", summary: word, body: `${word} ${name} ${n}` }))
      const [back, gone, purged] = (yield* store.put(viewer, drafts)).map(({ record }) => record.id)
      yield* store.forget(viewer, [back, gone])
      yield* store.apply(viewer, [
        { _tag: "Restore", id: back, revision: 1, ifRevision: 2 },
        { _tag: "Forget", id: purged, purge: true, ifRevision: 1 }
      ])
      yield* turn
    }
    const over = once(process.stdin, "data")
    yield* say({ done: name, created })
    yield* Effect.promise(() => over)

    // everything, in its last state
    const all = Number(processes) * Number(rounds)
    yield* Effect.gen(function*() {
      const records = yield* Stream.runCollect(store.stream(viewer, { limit: 1000 }))
      const own = Array.from(records).filter(({ body, revision }) => body.startsWith("own ") && revision === 2)
      const [found] = yield* store.get(viewer, [counter])
      return own.length === all && found.value.body === String(all)
    }).pipe(
      Effect.repeat({ until: (seen) => seen, schedule: Schedule.spaced("25 millis") })
    )
    latencies.sort((a, b) => a - b)
    yield* say({ seen: all, median: latencies[latencies.length >> 1], worst: latencies.at(-1) })
  }), { lockTimeout: 60_000 }) // no process is killed, so a slow one must not be taken for dead
process.exit(0)
