// Makes files, one after the other, and puts a record into each, until it is killed. Says which it is about to make.
import * as Effect from "effect/Effect"
import { run, say, scope, viewer } from "../../vault/processes/vault.mjs"

const [folder] = process.argv.slice(2)
for (let n = 0;; n++) {
  await Effect.runPromise(say({ will: n }))
  await run(`${folder}/${n}.db`, (store) => store.put(viewer, [{ scope, kind: "reference", body: `first ${n}` }]))
  await Effect.runPromise(say({ did: n }))
}
