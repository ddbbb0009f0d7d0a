import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import { survives, viewer } from "./KilledWriter.ts"
import { files, opened, place } from "./Place.ts"
import { eachVault, isLong, program, times } from "./Program.ts"

const history = (root: string) => path.join(root, ".effect-memory/history")
/** Returns the number in the history file that each rewrite of the file increments. */
const epochOf = (root: string) => Number(/"epoch":(\d+)/.exec(fs.readFileSync(history(root), "latin1"))?.[1])

describe("a writer killed at any moment", () => {
  it.scopedLive(
    "every acknowledged write is kept, no batch is kept in part, and no purged record reappears",
    () =>
      survives({
        rounds: times(2, isLong ? 3_000 : 120),
        place,
        open: opened,
        check: ({ at, found, opened: { store, vault }, purged }) =>
          Effect.gen(function*() {
            assert.deepStrictEqual(yield* vault.issues, [])
            assert.lengthOf(Object.keys(files(at)), found.size)
            // the history has no line with the summary of a purged record
            for (const [, name] of fs.readFileSync(history(at), "latin1").matchAll(/"summary":"([^"]+)"/g)) {
              assert.isFalse(purged.has(name!), `${name} was purged`)
            }
            // the next writer takes over the lock of the dead one
            const [probe] = yield* store.put(viewer, [{
              scope: { agentId: "Bob" },
              kind: "reference",
              body: "probe 1"
            }])
            assert.deepStrictEqual(yield* store.forget(viewer, [probe!.record.id], { purge: true }), [true])
          }),
        end: (at, rounds) => {
          assert.notInclude(fs.readdirSync(path.join(at, ".effect-memory")), "lock")
          assert.isTrue(rounds < 8 || epochOf(at) > 1, "the history was compacted")
        }
      })
  )
})

describe("a process that attaches vectors and is killed at any moment", () => {
  it.scopedLive(
    "a process killed while it attaches vectors loses and corrupts no acknowledged vector",
    () =>
      eachVault(times(2, isLong ? 500 : 50), (first, rounds) =>
        Effect.gen(function*() {
          const root = yield* place
          const kept = new Set<string>()
          const Kept = Schema.Union(
            Schema.Struct({ ready: Schema.Int }),
            Schema.Struct({ kept: Schema.Array(Schema.String) })
          )
          for (let round = first; round < first + rounds; round++) {
            yield* Effect.scoped(Effect.gen(function*() {
              const embedder = yield* program("embedder.mjs", [root, String(round)], Kept)
              const heard = (line: typeof Kept.Type) => {
                if ("kept" in line) { for (const hash of line.kept) kept.add(hash) }
              }
              const lines = yield* Random.nextIntBetween(1, 60)
              for (let n = 0; n <= lines; n++) heard(yield* embedder.line)
              for (let turns = yield* Random.nextIntBetween(0, 300); turns > 0; turns--) yield* Effect.yieldNow()
              yield* embedder.signal("SIGKILL")
              yield* embedder.end
              for (const line of yield* embedder.rest) heard(line)
            }))
            yield* Effect.scoped(Effect.gen(function*() {
              const { store } = yield* opened(root)
              const hashes = Array.from(kept)
              const all = yield* Option.getOrThrow(store.vectors).read("default", "m", hashes)
              for (const [n, hash] of hashes.entries()) {
                const vector = Option.getOrThrow(all[n]!)
                assert.strictEqual(Array.from(vector, (digit) => digit.toString(16)).join(""), hash)
              }
            }))
          }
          assert.isAbove(kept.size, 100)
        })).pipe(Effect.withRandom(Random.make("embed")))
  )
})
