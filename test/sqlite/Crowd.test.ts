import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { id } from "../../src/testing/Sample.ts"
import { times } from "../vault/Program.ts"
import { all, bob, child, draft, file, opened, sound } from "./File.ts"

const Line = Schema.Union(
  Schema.Struct({ ready: Schema.String }),
  Schema.Struct({ opened: Schema.Int }),
  Schema.Struct({ created: Schema.Int }),
  Schema.Struct({ missing: Schema.Array(Schema.String), failures: Schema.Array(Schema.String) })
)
const names = ["ann", "bob", "cy", "dee"]
const writes = times(24, 500)

describe("a new SQLite file opened by four processes at once", () => {
  it.scopedLive(
    "every process opens the file without a failure, no write is lost, and each process finds the writes of all processes",
    () =>
      Effect.gen(function*() {
        const filename = yield* file
        const args = [String(writes), names.join(",")]
        const crowd = yield* Effect.forEach(names, (name) => child("crowd.mjs", [filename, name, ...args], Line))
        const lines = Effect.forEach(crowd, ({ line }) => line, { concurrency: "unbounded" })
        yield* lines
        yield* Effect.forEach(crowd, ({ tell }) => tell("open\n"))
        assert.deepStrictEqual(yield* lines, names.map(() => ({ opened: 0 })))
        const store = yield* opened(filename)
        yield* store.put(bob, [{ ...draft("0"), id: id("counter") }])
        yield* Effect.forEach(crowd, ({ tell }) => tell("write\n"))
        const created = (yield* lines).reduce((sum, line) => "created" in line ? sum + line.created : sum, 0)
        yield* Effect.forEach(crowd, ({ tell }) => tell("over\n"))
        assert.deepStrictEqual(yield* lines, names.map(() => ({ missing: [], failures: [] })))
        assert.deepStrictEqual(yield* Effect.forEach(crowd, ({ end }) => end), names.map(() => 0))

        const records = yield* all(store)
        const of = (word: string) => records.filter(({ body }) => body.startsWith(word)).map(({ body }) => body).sort()
        const numbers = Array.from({ length: writes }, (_, n) => n)
        assert.deepStrictEqual(of("own "), names.flatMap((name) => numbers.map((n) => `own ${name}${n}`)).sort())
        const facts = numbers.filter((n) => n % 6 === 0).map((n) => `fact ${n}`)
        assert.deepStrictEqual(of("fact "), facts.sort())
        assert.strictEqual(created, facts.length)
        const counted = names.length * numbers.filter((n) => n % 5 === 0).length
        const total = records.find((record) => record.id === id("counter"))!
        assert.deepStrictEqual([total.body, total.revision], [String(counted), 1 + counted])
        assert.deepStrictEqual(
          (yield* store.history(bob, total.id)).map(({ body }) => Number(body)),
          Array.from({ length: Math.min(20, counted + 1) }, (_, n) => counted - n)
        )
        yield* sound(filename)
      })
  )
})
