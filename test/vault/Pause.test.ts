import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Viewer from "../../src/domain/Viewer.ts"
import { opened, place } from "./Place.ts"
import { type Program, program, times } from "./Program.ts"

const Line = Schema.Union(
  Schema.Struct({ ready: Schema.Int }),
  Schema.Struct({ will: Schema.Int }),
  Schema.Struct({ did: Schema.Int, outcome: Schema.String })
)
const viewer = Viewer.make({ agentId: "Bob" })

describe("a writer that stalls at any moment", () => {
  it.scopedLive(
    "no acknowledged write is lost if a writer stalls at any moment and another writer takes its lock",
    () =>
      Effect.gen(function*() {
        const root = yield* place
        const acknowledged = new Map<string, ReadonlySet<number>>()
        const [sleeper, other] = yield* Effect.all([
          program("counter.mjs", [root, "sleeper"], Line),
          program("counter.mjs", [root, "other"], Line)
        ])
        const hear = (name: string, line: typeof Line.Type) => {
          if ("did" in line) acknowledged.set(name, new Set([...(acknowledged.get(name) ?? []), line.did]))
        }
        const until = (name: string, { line }: Program<typeof Line.Type>, count: number) =>
          Effect.gen(function*() {
            for (let seen = 0; seen < count;) {
              const next = yield* line
              hear(name, next)
              if ("did" in next) seen++
            }
          })
        for (let round = 0; round < times(5, 100); round++) {
          yield* until("sleeper", sleeper, yield* Random.nextIntBetween(1, 4))
          for (let turns = yield* Random.nextIntBetween(0, 300); turns > 0; turns--) yield* Effect.yieldNow()
          yield* sleeper.signal("SIGSTOP")
          for (const line of yield* other.rest) hear("other", line)
          yield* until("other", other, 3) // these writes need the lock, whoever holds it
          yield* sleeper.signal("SIGCONT")
        }
        yield* until("sleeper", sleeper, 1)
        for (const [name, { end, rest, signal }] of [["sleeper", sleeper], ["other", other]] as const) {
          yield* signal("SIGKILL")
          yield* end
          for (const line of yield* rest) hear(name, line)
        }

        const { store, vault } = yield* opened(root)
        assert.deepStrictEqual(yield* vault.issues, [])
        const records = Chunk.toReadonlyArray(yield* Stream.runCollect(store.stream(viewer, { limit: 1_000 })))
        const bodies = records.map(({ body }) => body)
        assert.strictEqual(new Set(bodies).size, bodies.length, "nothing twice")
        for (const [name, counts] of acknowledged) {
          for (const count of counts) {
            assert.include(bodies, `${name} ${count} first`)
            assert.include(bodies, `${name} ${count} second`)
          }
        }
        for (const body of bodies) {
          assert.include(
            bodies,
            body.endsWith("first") ? body.replace("first", "second") : body.replace("second", "first")
          )
        }
      }).pipe(Effect.withRandom(Random.make("pause")))
  )
})
