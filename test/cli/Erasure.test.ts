import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as fs from "node:fs"
import * as path from "node:path"
import { Examined } from "../../src/cli/commands/Care.ts"
import { Erased } from "../../src/cli/commands/Forget.ts"
import { Remembered } from "../../src/cli/commands/Records.ts"
import { Stats } from "../../src/cli/commands/Stats.ts"
import * as Erasure from "../../src/cli/Erasure.ts"
import { Exported, Restored } from "../../src/cli/Formats.ts"
import * as StoreAddress from "../../src/cli/StoreAddress.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import * as Outbox from "../../src/harness/Outbox.ts"
import * as Threads from "../../src/harness/Threads.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import { layerInMemory, MemoryStore } from "../../src/storage/MemoryStore.ts"
import { answered, bytesIn, folder, run, stores, told } from "./Running.ts"

/** A model that never answers. */
const Silent = Layer.succeed(Completion.Completion, {
  model: "silent",
  complete: () => Effect.never,
  object: () => Effect.never
})

/** Appends a message of a user to a thread and to the outbox, where it waits for extraction. */
const converse = (address: string, userId: string, text: string) =>
  Effect.scoped(Effect.gen(function*() {
    const parsed = yield* StoreAddress.parse(address)
    const store = yield* Layer.build(StoreAddress.layer(parsed, { create: true }))
    const Never = Outbox.layer({ trigger: ExtractionTrigger.sessionEnd, flushTimeout: 0 }).pipe(
      Layer.provide(MemoryPipeline.layer),
      Layer.provide(Layer.merge(Silent, Embedder.layerNone)),
      Layer.provideMerge(Layer.succeedContext(Context.pick(MemoryStore)(store)))
    )
    const open = yield* Layer.build(Layer.provideMerge(Threads.layer, Never))
    const viewer = Viewer.make({ userId })
    yield* Context.get(open, Threads.Threads).append(viewer, "chat", [Message.user(text)])
    yield* Context.get(open, Outbox.Outbox).append(viewer, "chat", [Message.user(text)])
  })).pipe(Effect.provide(NodeContext.layer), Logger.withMinimumLogLevel(LogLevel.None))

describe("effect-memory forget --user --purge on a vault with a link to a folder", () => {
  it.scopedLive("the command removes the user's empty folders, but no folder behind a link", () =>
    Effect.gen(function*() {
      const [root, elsewhere] = [yield* folder, yield* folder]
      const store = ["--user", "ada", "--store", `vault:${root}`]
      yield* told(["remember", "marmalade", ...store])
      const own = path.join(root, "users/ada")
      fs.mkdirSync(path.join(elsewhere, "empty"))
      fs.mkdirSync(path.join(own, "empty"))
      fs.symlinkSync(elsewhere, path.join(own, "linked"))
      yield* told(["forget", "--purge", "--yes", ...store])
      assert.isTrue(fs.existsSync(path.join(elsewhere, "empty")))
      assert.deepStrictEqual(fs.readdirSync(own), ["linked"])
      fs.symlinkSync(elsewhere, path.join(root, "users/bob"))
      yield* told(["forget", "--purge", "--yes", "--user", "bob", "--store", `vault:${root}`])
      assert.isTrue(fs.existsSync(path.join(elsewhere, "empty")))
    }))
})

describe("effect-memory forget --user --purge on a vault with a copy of a record's file", () => {
  it.scopedLive("the command names the files that are left in the user's folder, and exits with 7", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const store = ["--user", "ada", "--store", `vault:${root}`]
      yield* told(["remember", "marmalade", ...store])
      const own = path.join(root, "users/ada")
      const [name] = fs.readdirSync(own)
      fs.copyFileSync(path.join(own, name!), path.join(own, "copy.md"))
      const { code, stdout } = yield* run(["forget", "--purge", "--yes", ...store])
      assert.strictEqual(code, 7)
      assert.include(stdout, "users/ada/copy.md")
      assert.deepStrictEqual(fs.readdirSync(own), ["copy.md"])
      fs.rmSync(path.join(own, "copy.md"))
      yield* told(["forget", "--purge", "--yes", ...store])
    }))
})

describe.each(stores)("effect-memory forget --user --purge on %s", (name, address) => {
  it.scopedLive("the command erases all data of the user and nothing of others, and verifies that nothing is left", () =>
    Effect.gen(function*() {
      const to = yield* address
      const store = ["--store", to]
      const ids: Array<string> = []
      for (const viewer of [["--user", "ada"], ["--user", "ada", "--agent", "pilot"], ["--user", "bob"], []]) {
        const line = ["remember", `marmalade ${viewer.join("")}`, "--kind", "note", ...viewer, ...store]
        ids.push((yield* answered(Remembered, line)).record.id)
      }
      yield* told(["remember", "marmalade, revised", "--id", ids[0]!, "--user", "ada", ...store])
      const gone = yield* answered(Remembered, ["remember", "marmalade, forgotten", "--user", "ada", ...store])
      yield* told(["forget", gone.record.id, "--user", "ada", ...store])
      yield* converse(to, "ada", "marmalade of ada, said")
      yield* converse(to, "bob", "marmalade of bob, said")

      const { erased, scan, ...person } = yield* answered(Erased, [
        "forget",
        "--user",
        "ada",
        "--purge",
        "--yes",
        ...store
      ])
      assert.deepStrictEqual(person, { user: "ada", tenant: "default" })
      assert.deepInclude(erased, { records: 2, tombstones: 1 })
      assert.isAbove(erased.internal, 2)
      assert.strictEqual(scan.remaining, 0)
      assert.isAbove(scan.rows, 2)

      const { tenants: [left] } = yield* answered(Stats, ["stats", ...store])
      assert.deepInclude(left, { records: 2, tombstones: 0, messages: { waiting: 1, parked: 0 } })
      assert.include(yield* told(["recall", "marmalade", "--user", "bob", ...store]), "marmalade --userbob")
      if (name === "a vault") {
        const bytes = bytesIn(to.slice("vault:".length))
        for (const text of ["marmalade --userada", "marmalade, revised", "marmalade, forgotten", "marmalade of ada"]) {
          assert.notInclude(bytes, text)
        }
        assert.isFalse(fs.existsSync(path.join(to.slice("vault:".length), "users/ada")))
        assert.isTrue(fs.existsSync(path.join(to.slice("vault:".length), "users/bob")))
        assert.include(bytes, "marmalade --userbob")
      }
      const again = yield* answered(Erased, ["forget", "--user", "ada", "--purge", "--yes", ...store])
      assert.deepStrictEqual(again.erased, { records: 0, tombstones: 0, internal: 0 })
    }))
})

describe.each(stores)("effect-memory forget --purge on %s", (_, address) => {
  it.scopedLive("`forget --purge` reports a record in the trash as purged, unless the viewer does not see the record", () =>
    Effect.gen(function*() {
      const store = ["--store", yield* address]
      const { record: { id } } = yield* answered(Remembered, ["remember", "Drinks tea.", "--user", "ada", ...store])
      yield* told(["forget", id, "--user", "ada", ...store])
      const purge = ["forget", id, "--purge", "--yes", ...store]
      const bob = yield* run([...purge, "--user", "bob", "--json"])
      assert.deepStrictEqual([bob.code, JSON.parse(bob.stdout)], [3, { isPurged: true, forgotten: [], absent: [id] }])
      const ada = yield* run([...purge, "--user", "ada", "--json"])
      assert.deepStrictEqual([ada.code, JSON.parse(ada.stdout)], [0, { isPurged: true, forgotten: [id], absent: [] }])
      const again = yield* run([...purge, "--user", "ada", "--json"])
      assert.deepStrictEqual([again.code, JSON.parse(again.stdout).absent], [3, [id]])
    }))
})

describe("the scan after an erasure", () => {
  it.effect("`Erasure.scan` counts each remaining row only once, even a row whose id is in the list of erased ids", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore
      const person = { tenant: "default", userId: "ada" }
      const put = yield* store.put(
        Viewer.make({ userId: "ada" }),
        ["one", "two", "three"].map((body) => ({
          scope: { userId: "ada" },
          kind: "note",
          body
        }))
      )
      const [one, two, three] = put.map(({ record }) => record.id)
      assert.deepStrictEqual(yield* Erasure.scan(store, person, [one!, two!]), { rows: 3, remaining: 3 })
      yield* Erasure.purge(store, person, [one!, three!], () => Effect.void)
      assert.deepStrictEqual(yield* Erasure.scan(store, person, [one!, two!]), { rows: 1, remaining: 1 })
      yield* Erasure.purge(store, person, [two!], () => Effect.void)
      assert.deepStrictEqual(yield* Erasure.scan(store, person, [one!, two!, three!]), { rows: 0, remaining: 0 })
    }).pipe(Effect.provide(layerInMemory)))
})

describe("effect-memory with names of a user and a tenant in decomposed Unicode", () => {
  it.scopedLive("a name in composed and in decomposed Unicode means the same user or tenant", () =>
    Effect.gen(function*() {
      const place = yield* folder
      const [store, other] = ["memory", "other"].map((name) => ["--store", `vault:${path.join(place, name)}`] as const)
      const file = path.join(place, "file.jsonl")
      const composed = ["--user", "Zo\u00eb", "--tenant", "Caf\u00e9", ...store!]
      const names = ["--user", "Zoe\u0308", "--tenant", "Cafe\u0301"]
      const decomposed = [...names, ...store!]
      yield* told(["remember", "Likes marmalade.", ...composed])
      assert.include(yield* told(["recall", "marmalade", ...decomposed]), "Likes marmalade.")
      const [, , tenant = "", ...rest] = decomposed
      assert.strictEqual((yield* answered(Examined, ["doctor", tenant, ...rest])).rows, 1)
      assert.strictEqual((yield* answered(Exported, ["export", file, ...decomposed])).records, 1)
      const imported = yield* answered(Restored, ["import", file, tenant, "Cafe\u0301", ...other!])
      assert.deepStrictEqual([imported.written, imported.skipped], [1, []])
      const { erased, scan } = yield* answered(Erased, ["forget", "--purge", "--yes", ...decomposed])
      assert.deepStrictEqual([erased.records, scan], [1, { rows: 0, remaining: 0 }])
      assert.strictEqual(yield* told(["list", ...composed]), "")
    }))
})
