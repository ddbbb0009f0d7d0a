/** Tests that data which a newer release may have written to disk is refused, and that no byte of it changes. */
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as fs from "node:fs"
import * as path from "node:path"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import type { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import { Internal } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemorySpec from "../../src/harness/MemorySpec.ts"
import * as OutboxLog from "../../src/harness/Outbox/OutboxLog.ts"
import * as Resume from "../../src/harness/Resume.ts"
import * as Completion from "../../src/host/Completion.ts"
import type { Service } from "../../src/storage/MemoryStore.ts"
import * as Boxes from "../harness/Outboxes.ts"
import { opened } from "../vault/Place.ts"
import { all, copy, type Expected, expectedOf, read } from "./Generation.ts"

const law = (
  title: string,
  check: (root: string, expected: Expected) => Effect.Effect<void, unknown, Scope.Scope>
) => {
  const name = all().at(-1)!
  it.scoped(title, () =>
    Effect.gen(function*() {
      const expected = expectedOf(name)
      yield* TestClock.setTime(expected.now)
      yield* check(yield* copy(name, expected.now), expected)
    }))
}

/** Asserts that the effect fails with `unsupported`, and changes no file below `root` except locks. */
const refused = <A, R>(root: string, use: Effect.Effect<A, unknown, R>) =>
  Effect.gen(function*() {
    const before = read(root)
    const error = yield* Effect.flip(use)
    assert.instanceOf(error, MemoryError.MemoryError)
    assert.strictEqual(error.reason, "unsupported")
    assert.include(error.message, "newer release")
    assert.deepStrictEqual(read(root), before)
  })

const rewrite = (file: string, change: (text: string) => string) =>
  Effect.sync(() => fs.writeFileSync(file, change(fs.readFileSync(file, "utf8"))))

const system = Viewer.system()
const rowsOf = (store: Service) =>
  Effect.map(Stream.runCollect(store.stream(system, { scope: Internal, kinds: ["outbox"] })), (all) => Array.from(all))
const isRow = (row: string) => ({ data }: MemoryRecord) => data["row"] === row

describe("data of a newer release", () => {
  law(
    "a vault of a newer release does not open, and no file is changed",
    (root) =>
      Effect.gen(function*() {
        const vault = path.join(root, "vault")
        for (const name of ["vault.json", "vault.copy.json"].map((name) => path.join(vault, ".effect-memory", name))) {
          if (!fs.existsSync(name)) continue // earlier releases wrote only one of the two files
          const newer = { ...JSON.parse(fs.readFileSync(name, "utf8")), version: 3, checksum: "0".repeat(64) }
          fs.writeFileSync(name, JSON.stringify(newer))
        }
        yield* refused(root, Effect.scoped(opened(vault)))
      })
  )

  for (const row of ["messages", "plan", "session"]) {
    law(
      `an outbox with a row of type ${row} from a newer release refuses to open and to purge, and no row changes`,
      (root) =>
        Effect.gen(function*() {
          const { store } = yield* opened(path.join(root, "vault"))
          const record = (yield* rowsOf(store)).find(isRow(row))!
          yield* store.update(system, record.id, { data: { ...record.data, version: 2 } })
          yield* refused(root, Effect.scoped(Boxes.opened(store, Boxes.model(), { trigger: Boxes.never })))
          yield* refused(root, OutboxLog.purge(store, Boxes.ada))
        })
    )
  }

  law(
    "an outbox opens and flushes even if a person wrote a newer version into the file of a row",
    (root) =>
      Effect.gen(function*() {
        const vault = path.join(root, "vault")
        const folder = path.join(vault, ".effect-memory/outbox")
        const file = fs.readdirSync(folder).find((name) =>
          name.endsWith(".md") && fs.readFileSync(path.join(folder, name), "utf8").includes("row: messages")
        )!
        yield* rewrite(path.join(folder, file), (text) => text.replace("row: messages", "version: 2\n  row: messages"))
        const { store } = yield* opened(vault)
        assert.isTrue(
          (yield* rowsOf(store)).some(({ data, source }) => data["version"] === 2 && source.origin === "file")
        )
        const outbox = yield* Boxes.opened(store, Boxes.model(), { trigger: Boxes.never })
        yield* outbox.flush
      })
  )

  law(
    "an agent's checkpoint from a newer release is neither resumed nor overwritten",
    (root, { runs }) =>
      Effect.gen(function*() {
        const { resume, save } = yield* Resume.Resume
        const { runId } = runs[0]!
        yield* rewrite(path.join(root, "runs", `run-${runId}.json`), (text) => text.replace("{", "{ \"version\": 2,"))
        const spec = { memory: MemorySpec.make() }
        yield* refused(root, resume(runId, spec))
        yield* refused(root, save(runId, spec, { turn: 9, cursor: 9 }))
      }).pipe(
        Effect.provide(Resume.layer({ directory: path.join(root, "runs") }).pipe(Layer.provide(NodeContext.layer)))
      )
  )

  law(
    "a cassette (recorded model answers) of a newer release is neither replayed nor extended",
    (root) =>
      Effect.gen(function*() {
        const file = path.join(root, "cassette.jsonl")
        yield* rewrite(file, (text) => `${text}{"version":2,"turns":[]}\n{"unfinished`)
        for (const layer of [Completion.layerReplay(file), Completion.layerRecord(file)]) {
          const built = Layer.build(layer).pipe(Effect.provide(Completion.layerScripted(["never asked"])))
          yield* refused(root, Effect.scoped(Effect.provide(built, NodeContext.layer)))
        }
      })
  )
})
