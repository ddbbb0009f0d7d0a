// Writes batches of two until it is stopped or killed.
import * as Effect from "effect/Effect"
import { run, say, scope, viewer } from "./vault.mjs"

const [root, name] = process.argv.slice(2)

await run(root, (store) =>
  Effect.gen(function*() {
    yield* say({ ready: 0 })
    for (let n = 0;; n++) {
      yield* say({ will: n })
      const draft = (word) => ({ scope, kind: "semantic", summary: `${name} ${n} ${word}`, body: `${name} ${n} ${word}` })
      const [first] = yield* store.put(viewer, [draft("first"), draft("second")]).pipe(
        // a busy machine may exceed the lock's timeout
        Effect.retry({ while: ({ reason }) => reason === "unavailable" })
      )
      yield* say({ did: n, outcome: first.outcome })
    }
  }))
