// Attaches vectors, a few at a time, until it is killed. Reports the hashes of those that were acknowledged.
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { createHash } from "node:crypto"
import { run, say } from "./vault.mjs"

const [root, round] = process.argv.slice(2)

await run(root, (store) =>
  Effect.gen(function*() {
    const { attach } = Option.getOrThrow(store.vectors)
    yield* say({ ready: 0 })
    for (let n = 0;; n++) {
      const hashes = Array.from({ length: 1 + n % 50 }, (_, i) => createHash("sha256").update(`${round} ${n} ${i}`).digest("hex"))
      // each vector is derived from its hash
      yield* attach("default", "m", hashes.map((hash) => [hash, Float32Array.from({ length: 64 }, (_, i) => parseInt(hash[i], 16))]))
      yield* say({ kept: hashes })
    }
  }))
