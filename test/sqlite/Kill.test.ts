import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Copy from "../../src/storage/Copy.ts"
import { Line, survives } from "../vault/KilledWriter.ts"
import { place } from "../vault/Place.ts"
import { isLong, program, times } from "../vault/Program.ts"
import { all, answersAsNew, bob, bodies, child, draft, file, inMemory, opened, raw, sound } from "./File.ts"

describe("a process killed while it writes to a SQLite file", () => {
  it.scopedLive(
    "the file is undamaged, keeps every acknowledged write, contains no partial batch, and has a correct index",
    () =>
      survives({
        rounds: times(2, isLong ? 2_000 : 200),
        place: file,
        open: (filename) => Effect.map(opened(filename), (store) => ({ store })),
        check: ({ at, found, opened: { store } }) =>
          Effect.gen(function*() {
            const copy = yield* inMemory
            assert.isTrue((yield* Copy.copy(store, copy)).verified)
            yield* answersAsNew(store, copy, ["left", "right xxx", ...Array.from(found.keys()).slice(0, 8)])
            yield* sound(at)
          })
      })
  )

  it.scopedLive("a file whose creation was interrupted can be opened, has the acknowledged writes, and accepts new writes", () =>
    Effect.gen(function*() {
      const Line = Schema.Union(Schema.Struct({ will: Schema.Int }), Schema.Struct({ did: Schema.Int }))
      const root = yield* place
      let unfinished = 0
      for (let round = 0; round < times(1, 50); round++) {
        const folder = path.join(root, String(round))
        fs.mkdirSync(folder)
        const said = yield* Effect.scoped(Effect.gen(function*() {
          const maker = yield* child("maker.mjs", [folder], Line)
          const said = [yield* maker.line]
          for (let lines = yield* Random.nextIntBetween(0, 12); lines > 0; lines--) said.push(yield* maker.line)
          for (let turns = yield* Random.nextIntBetween(0, 2_000); turns > 0; turns--) yield* Effect.yieldNow()
          yield* maker.signal("SIGKILL")
          yield* maker.end
          return [...said, ...yield* maker.rest]
        }))
        const did = said.flatMap((line) => "did" in line ? [line.did] : [])
        const last = said.reduce((n, line) => "will" in line ? line.will : n, 0)
        if (!did.includes(last)) unfinished++
        for (const n of new Set([...did.slice(-1), last])) {
          const filename = path.join(folder, `${n}.db`)
          yield* Effect.scoped(Effect.gen(function*() {
            const store = yield* opened(filename)
            const there = bodies(yield* all(store))
            if (did.includes(n) || there.length > 0) assert.deepStrictEqual(there, [`first ${n}`])
            yield* store.put(bob, [draft("second")])
            assert.deepStrictEqual(bodies(yield* all(store)), [...there, "second"])
            yield* sound(filename)
          }))
        }
      }
      assert.isAbove(unfinished, times(-1, 0))
    }).pipe(Effect.withRandom(Random.make("make"))))
})

describe("a SQLite file whose process was killed and left a write-ahead log", () => {
  it.scopedLive("the next process reads the file with its write-ahead log, and the log is removed when the file is closed", () =>
    Effect.gen(function*() {
      const filename = yield* file
      yield* Effect.scoped(Effect.gen(function*() {
        const writer = yield* program("writer.mjs", [filename, "0"], Line)
        for (let n = 0; n < 9; n++) yield* writer.line
        yield* writer.signal("SIGKILL")
        yield* writer.end
      }))
      assert.isAbove(fs.statSync(`${filename}-wal`).size, 0)
      yield* Effect.scoped(Effect.flatMap(opened(filename), all)).pipe(
        Effect.tap((records) => Effect.sync(() => assert.isAbove(records.length, 0)))
      )
      assert.deepStrictEqual(fs.readdirSync(path.dirname(filename)), ["memory.db"])
      assert.deepStrictEqual(yield* raw(filename, "PRAGMA integrity_check"), [{ integrity_check: "ok" }])
    }))
})
