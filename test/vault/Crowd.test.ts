import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Viewer from "../../src/domain/Viewer.ts"
import { opened, place } from "./Place.ts"
import { program, times } from "./Program.ts"

const Line = Schema.Union(
  Schema.Struct({ ready: Schema.String }),
  Schema.Struct({ done: Schema.String, created: Schema.Int }),
  Schema.Struct({ seen: Schema.Int, median: Schema.Number, worst: Schema.Number })
)
const viewer = Viewer.make({ agentId: "Bob" })
const names = ["ann", "bob", "cy", "dee", "eve", "flo", "gus", "hal"].slice(0, times(4, 8))
const processes = names.length
const rounds = times(3, 25)

describe("a vault shared by several processes", () => {
  it.scopedLive(
    "each write happens exactly once, and each process sees the writes of all processes",
    () =>
      Effect.gen(function*() {
        const root = yield* place
        const { store, vault } = yield* opened(root)
        const [counter] = yield* store.put(viewer, [{ scope: { agentId: "Bob" }, kind: "reference", body: "0" }])
        const { id } = counter!.record
        const [toggle] = yield* store.put(viewer, [{ scope: { agentId: "Bob" }, kind: "reference", body: "toggle" }])
        const args = [String(rounds), String(processes), id, toggle!.record.id]
        const crowd = yield* Effect.forEach(names, (name) => program("crowd.mjs", [root, name, ...args], Line))
        yield* Effect.forEach(crowd, ({ line }) => line, { concurrency: "unbounded" })
        yield* Effect.forEach(crowd, ({ tell }) => tell("go\n"))
        const done = yield* Effect.forEach(crowd, ({ line }) => line, { concurrency: "unbounded" })
        yield* Effect.forEach(crowd, ({ tell }) => tell("over\n"))
        const codes = yield* Effect.forEach(crowd, ({ end }) => end, { concurrency: "unbounded" })
        const said = (yield* Effect.forEach(crowd, ({ rest }) => rest)).flat()
        assert.deepStrictEqual(codes, names.map(() => 0), JSON.stringify(said))
        for (const line of said) {
          if ("seen" in line) yield* Console.log(`seen after ${line.median} ms, ${line.worst} ms at worst`)
        }

        yield* vault.refresh
        assert.deepStrictEqual(yield* vault.issues, [])
        const records = Chunk.toReadonlyArray(yield* Stream.runCollect(store.stream(viewer, { limit: 1_000 })))
        const of = (word: string) => records.filter(({ body }) => body.startsWith(word))
        assert.lengthOf(of("own "), processes * rounds)
        assert.isTrue(of("own ").every(({ revision, tags }) => revision === 2 && tags.includes("seen")))
        assert.deepStrictEqual(
          of("fact ").map(({ body }) => body).sort(),
          Array.from({ length: rounds }, (_, n) => `fact ${n}`).sort()
        )
        assert.strictEqual(done.reduce((sum, line) => "created" in line ? sum + line.created : sum, 0), rounds)
        const total = records.find((record) => record.id === id)!
        assert.strictEqual(total.body, String(processes * rounds))
        assert.strictEqual(total.revision, 1 + processes * rounds)
        // all `back` records are restored, all `gone` records are in the trash, and no text of a `purged` record is in the history
        const all = names.flatMap((name) => Array.from({ length: rounds }, (_, n) => `${name} ${n}`)).sort()
        assert.deepStrictEqual(of("back ").map(({ body }) => body.slice(5)).sort(), all)
        assert.isTrue(of("back ").every(({ revision }) => revision === 3))
        const trash = Chunk.toReadonlyArray(
          yield* Stream.runCollect(store.stream(viewer, { forgotten: true, limit: 1_000 }))
        )
        const isOdd = processes * rounds % 2 === 1
        assert.deepStrictEqual(
          trash.map(({ body }) => body).sort(),
          [...all.map((name) => `gone ${name}`), ...(isOdd ? ["toggle"] : [])].sort()
        )
        const turned = [...records, ...trash].find((record) => record.id === toggle!.record.id)
        assert.strictEqual(turned?.revision, 1 + processes * rounds)
        assert.notInclude(fs.readFileSync(path.join(root, ".effect-memory/history"), "utf8"), "\"body\":\"purged ")
      })
  )
})
