// One of several writers of a file. Opens it on the first message, writes on the second, and on the third, which says that all
// are done, checks what each has written. Reports every failure of its calls.
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { on } from "node:events"
import { MemoryId, MemoryStore } from "../../../dist/index.js"
import { Sqlite } from "../../../dist/sqlite.js"
import { say, scope, viewer } from "../../vault/processes/vault.mjs"

const [filename, name, writes, others] = process.argv.slice(2)
const counter = MemoryId.stableId("counter")
const messages = on(process.stdin, "data")
const message = Effect.promise(() => messages.next())
const failures = []
/** Runs a call; reports its failure and continues. */
const tried = (self) =>
  Effect.map(Effect.either(self), (result) => {
    if (Either.isRight(result)) return result.right
    const { message, op, reason } = result.left
    failures.push(`${op}: ${reason}: ${message}`)
  })

let lifetime
let store
const open = Effect.gen(function*() {
  if (lifetime !== undefined) yield* Scope.close(lifetime, Exit.void)
  lifetime = yield* Scope.make()
  const context = yield* tried(Layer.buildWithScope(Sqlite.layer({ filename }), lifetime))
  if (context !== undefined) store = Context.get(context, MemoryStore.MemoryStore)
})
const isFound = (word) =>
  Effect.map(tried(store.search(viewer, { text: word, limit: 3 })), (found) =>
    found?.hits.some(({ record }) => record.body.split(" ")[1] === word))

await Effect.runPromise(Effect.gen(function*() {
  yield* say({ ready: name })
  yield* message
  yield* open
  yield* say({ opened: failures.length })
  yield* message
  let created = 0
  const missing = []
  for (let n = 0; n < Number(writes); n++) {
    const own = `${name}${n}`
    yield* tried(store.put(viewer, [{ scope, kind: "reference", body: `own ${own}` }]))
    if (n % 5 === 0) {
      const add = Effect.gen(function*() {
        const [found] = yield* store.get(viewer, [counter])
        const { body, revision } = found.value
        yield* store.update(viewer, counter, { body: String(Number(body) + 1) }, { ifRevision: revision })
      })
      yield* tried(Effect.retry(add, { while: ({ reason }) => reason === "conflict" }))
    }
    if (n % 6 === 0) {
      const put = yield* tried(store.put(viewer, [{ scope, kind: "semantic", body: `fact ${n}` }]))
      if (put?.[0].outcome === "created") created++
    }
    if (n % 3 === 0 && !(yield* isFound(own))) missing.push(own)
    if (n % 7 === 0) yield* tried(store.list(viewer, { limit: 20 }))
    if (n % 20 === 19) yield* open // so that the file is sometimes closed by all processes, and opened anew
  }
  yield* say({ created })
  yield* message
  for (const other of others.split(",")) {
    for (let n = 0; n < Number(writes); n++) if (!(yield* isFound(`${other}${n}`))) missing.push(`${other}${n}`)
  }
  yield* say({ missing, failures })
}))
process.exit(0)
