import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Viewer from "../../src/domain/Viewer.ts"
import { id } from "../../src/testing/Sample.ts"
import { files, opened, place } from "./Place.ts"
import { eachVault, isLong, program, times } from "./Program.ts"

/** Names and versions; 0 = forgotten, -1 = purged. */
const Changes = Schema.Record({ key: Schema.String, value: Schema.Int })
const Line = Schema.Union(
  Schema.Struct({ ready: Schema.Int }),
  Schema.Struct({ will: Changes }),
  Schema.Struct({ did: Changes })
)
const Seen = Schema.Union(
  Schema.Struct({ ready: Schema.Int }),
  Schema.Struct({ reads: Schema.Int, wrong: Schema.Array(Schema.String) })
)
const viewer = Viewer.make({ agentId: "Bob" })
const history = (root: string) => path.join(root, ".effect-memory/history")
/** The number of times that the history was written anew. */
const epochOf = (root: string) => Number(/"epoch":(\d+)/.exec(fs.readFileSync(history(root), "latin1"))?.[1])

describe("a writer killed at any moment", () => {
  it.scopedLive(
    "every acknowledged write is there, every batch whole or absent, nothing purged comes back, and a reader sees no less",
    () =>
      eachVault(times(2, isLong ? 3_000 : 300), (first, rounds) =>
        Effect.gen(function*() {
          const root = yield* place
          const expected = new Map<string, number>()
          const purged = new Set<string>()
          let acknowledged = 0
          let last: typeof Changes.Type = {}
          const reader = yield* program("reader.mjs", [root], Seen)
          yield* reader.line
          for (let round = first; round < first + rounds; round++) {
            last = {}
            const pending = yield* Effect.scoped(Effect.gen(function*() {
              const writer = yield* program("writer.mjs", [root, String(round)], Line)
              const lines = yield* Random.nextIntBetween(0, 30)
              for (let n = 0; n <= lines; n++) heard(yield* writer.line)
              for (let turns = yield* Random.nextIntBetween(0, 300); turns > 0; turns--) yield* Effect.yieldNow()
              yield* writer.signal("SIGKILL")
              assert.isNull(yield* writer.end)
              for (const line of yield* writer.rest) heard(line)
              return last
            }))
            yield* Effect.scoped(Effect.gen(function*() {
              const { store, vault } = yield* opened(root)
              assert.deepStrictEqual(yield* vault.issues, [])
              const records = Chunk.toReadonlyArray(yield* Stream.runCollect(store.stream(viewer, { limit: 1_000 })))
              const found = new Map(records.map(({ body }): [string, number] => {
                const [name, version] = body.split(" ")
                return [name!, Number(version)]
              }))
              const done = yield* Effect.forEach(Object.entries(pending), ([name, version]) =>
                version < 0
                  ? Effect.map(store.history(Viewer.system(), id(name)), (past) => past.length === 0)
                  : Effect.succeed((found.get(name) ?? 0) === version))
              assert.isTrue(done.every((yes) => yes === done[0]), `half of ${JSON.stringify(pending)}`)
              if (done[0]) take(pending)
              assert.deepStrictEqual(sorted(found), sorted(expected), `round ${round}`)
              assert.strictEqual(records.length, found.size)
              assert.lengthOf(Object.keys(files(root)), found.size)
              // a history without a gap, the current revision first, back to the first or as far as it is kept
              for (const { body, id, revision } of records) {
                const past = yield* store.history(viewer, id)
                assert.deepStrictEqual(
                  past.map((old) => old.revision),
                  Array.from({ length: Math.min(revision, 20) }, (_, i) => revision - i)
                )
                const [name, version] = body.split(" ")
                assert.deepStrictEqual(
                  past.map((old) => old.body.split(" ").slice(0, 2).join(" ")),
                  past.map((_, i) => `${name} ${Number(version) - i}`)
                )
              }
              // of what was purged no file has a word
              for (const [, name] of fs.readFileSync(history(root), "latin1").matchAll(/"summary":"([^"]+)"/g)) {
                assert.isFalse(purged.has(name!), `${name} was purged, round ${round}`)
              }
              for (const name of purged) {
                assert.deepStrictEqual(yield* store.history(Viewer.system(), id(name)), [], name)
              }
              // the next writer takes a dead one's lock away
              const [probe] = yield* store.put(viewer, [{
                scope: { agentId: "Bob" },
                kind: "reference",
                body: "probe 1"
              }])
              assert.deepStrictEqual(yield* store.forget(viewer, [probe!.record.id], { purge: true }), [true])
            }))
          }
          yield* reader.tell("over\n")
          const seen = yield* reader.line
          assert.strictEqual(yield* reader.end, 0)
          assert.notInclude(fs.readdirSync(path.join(root, ".effect-memory")), "lock")
          if (!("wrong" in seen)) return assert.fail("the reader said nothing")
          assert.deepStrictEqual(seen.wrong, [])
          assert.isAbove(seen.reads, rounds)
          assert.isAbove(acknowledged, rounds)
          assert.isTrue(rounds < 8 || epochOf(root) > 1, "the history was compacted")

          /** Reads a line: keeps the announced changes, and takes them once they are acknowledged. */
          function heard(line: typeof Line.Type) {
            if ("will" in line) last = line.will
            if ("did" in line) {
              take(line.did)
              acknowledged++
              last = {}
            }
          }
          function take(changes: typeof Changes.Type) {
            for (const [name, version] of Object.entries(changes)) {
              if (version < 1) expected.delete(name)
              else expected.set(name, version)
              if (version < 0) purged.add(name)
            }
          }
        })).pipe(Effect.withRandom(Random.make("kill")))
  )
})

describe("one who attaches vectors, killed at any moment", () => {
  it.scopedLive(
    "what was acknowledged is there, and every vector that is there is right",
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

const sorted = (versions: ReadonlyMap<string, number>) => Array.from(versions).sort(([a], [b]) => a < b ? -1 : 1)
