// Creates files one after another, and puts a record into each, until it is killed. Announces each file.
import * as Effect from "effect/Effect"
import { run, say, scope, viewer } from "../../vault/processes/vault.mjs"

const [folder] = process.argv.slice(2)
for (let n = 0;; n++) {
  await Effect.runPromise(say({ will: n }))
  await run(`${folder}/${n}.db`, (store) => store.put(viewer, [{ scope, kind: "reference", body: `first ${n}` }]))
  await Effect.runPromise(say({ did: n }))
}
