import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as fs from "node:fs"
import * as path from "node:path"
import { Examined, Repaired, Verified } from "../../src/cli/commands/Care.ts"
import { Remembered } from "../../src/cli/commands/Records.ts"
import * as Doctor from "../../src/cli/Doctor.ts"
import * as StoreAddress from "../../src/cli/StoreAddress.ts"
import { stableId } from "../../src/domain/MemoryId.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Outbox from "../../src/harness/Outbox.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import * as EmbeddingSync from "../../src/storage/EmbeddingSync.ts"
import { MemoryStore, type Service } from "../../src/storage/MemoryStore.ts"
import { damageIndex, raw } from "../sqlite/File.ts"
import { answered, folder, onTerminal, run, stores, told } from "./Running.ts"

const ada = Viewer.make({ userId: "ada" })
const note = (body: string) => ({ scope: { userId: "ada" }, kind: "note", body })

/** Opens the store of an address in the process of the test, and runs `use` with it. */
const within = <A, E>(address: string, use: (store: Service) => Effect.Effect<A, E>) =>
  Effect.scoped(Effect.gen(function*() {
    const parsed = yield* StoreAddress.parse(address)
    const open = yield* Layer.build(StoreAddress.layer(parsed, { create: true }))
    return yield* use(Context.get(open, MemoryStore))
  })).pipe(Effect.provide(NodeContext.layer), Logger.withMinimumLogLevel(LogLevel.None))

/** Runs a command that must find problems, and so exit with 7; returns its JSON output. */
const sick = (args: ReadonlyArray<string>) =>
  Effect.map(run([...args, "--json"]), ({ code, stderr, stdout }) => {
    assert.deepStrictEqual([code, stderr], [7, ""])
    return JSON.parse(stdout) as typeof Examined.Encoded
  })

describe.each(stores)("effect-memory doctor on %s", (_, address) => {
  it.scopedLive("`doctor` reports duplicates, failed extractions and links to missing records, but cannot repair them", () =>
    Effect.gen(function*() {
      const to = yield* address
      const store = ["--store", to]
      const [one, two, linking] = yield* within(to, (store) =>
        Effect.gen(function*() {
          const put = yield* store.put(ada, [
            note("the same words, twice"),
            note("The same words - twice!"),
            { ...note("links"), links: [{ to: stableId("nowhere"), type: "about", weight: 1 }] },
            note("will be forgotten")
          ])
          const ids = put.map(({ record }) => record.id)
          yield* store.put(ada, [{ ...note("links to the trash"), links: [{ to: ids[3]!, type: "about", weight: 1 }] }])
          yield* store.forget(ada, [ids[3]!])
          const Given = Outbox.layer().pipe(
            Layer.provide(MemoryPipeline.layer),
            Layer.provide(Layer.mergeAll(Completion.layerNone, Embedder.layerNone, Layer.succeed(MemoryStore, store)))
          )
          yield* Effect.scoped(Effect.gen(function*() {
            const { append, flush } = Context.get(yield* Layer.build(Given), Outbox.Outbox)
            yield* append(ada, "chat", [Message.user("Remember this.")])
            yield* Effect.either(flush)
          }))
          return ids
        }))
      const report = yield* sick(["doctor", ...store])
      assert.deepInclude(report.counts, {
        files: 0,
        records: 0,
        links: 1,
        duplicates: 1,
        extractions: 1,
        index: 0,
        vectors: 0
      })
      assert.isFalse(report.findings.some(({ isMendable }) => isMendable))
      const of = (check: string) => report.findings.find((finding) => finding.check === check)!
      assert.strictEqual(of("links").id, linking)
      assert.include([one, two], of("duplicates").id)
      assert.match(of("extractions").message, /messages 0–0 of session chat were given up on/)
      const { code, stdout } = yield* run(["doctor", "--repair", ...store])
      assert.strictEqual(code, 7)
      assert.match(
        stdout,
        /links: 1\n {2}for you {3}[0-9A-Z]{26} {2}links to [0-9A-Z]{26} \(about\), which is not there\n/
      )
      assert.match(stdout, /3 findings in \d+ rows\n$/)
      assert.strictEqual((yield* answered(Verified, ["verify", ...store])).isHealthy, true)
    }))

  it.scopedLive("`doctor` reports texts that lack a word vector if other texts have one; `doctor --repair` computes the missing vectors", () =>
    Effect.gen(function*() {
      const to = yield* address
      const store = ["--store", to]
      yield* within(to, (store) =>
        Effect.gen(function*() {
          const put = yield* store.put(ada, [note("green tea"), note("black coffee"), note("orbital rocket")])
          const Words = yield* Effect.scoped(Layer.build(Embedder.layerWordVectors))
          const embedding = EmbeddingSync.make(store, Context.get(Words, Embedder.Embedder))
          yield* embedding.keep("default", [put[0]!.record], "add")
        }).pipe(Effect.provide(NodeContext.layer)))
      const { findings } = yield* sick(["doctor", ...store])
      assert.deepStrictEqual(findings.map(({ check, isMendable, message }) => [check, isMendable, message]), [
        ["vectors", true, "2 texts await a vector of glove-100d-20k-1"]
      ])
      const { mended } = yield* answered(Examined, ["doctor", "--repair", ...store])
      assert.deepStrictEqual(mended, { files: 0, vectors: 2, isReindexed: false, left: 0 })
      assert.match(yield* told(["doctor", ...store]), /^healthy/)
    }))
})

describe("effect-memory doctor on a vault", () => {
  const damaged = Effect.gen(function*() {
    const cwd = yield* folder
    const { record: { id } } = yield* answered(Remembered, ["remember", "Drinks tea.", "--user", "ada"], { cwd })
    const file = path.join(cwd, ".memory/users/ada", `${id}.md`)
    const whole = fs.readFileSync(file, "utf8")
    fs.writeFileSync(file, "")
    return { cwd, file, id, whole, store: ["--store", `vault:${path.join(cwd, ".memory")}`] }
  })

  it.scopedLive("`doctor` reports a damaged file, and restores the file only with `--repair`", () =>
    Effect.gen(function*() {
      const { file, id, store, whole } = yield* damaged
      const dry = yield* sick(["doctor", ...store])
      assert.deepStrictEqual(dry.findings.map(({ check, isMendable, path }) => [check, isMendable, path]), [
        ["files", true, `users/ada/${id}.md`]
      ])
      yield* sick(["doctor", "--dry-run", ...store])
      yield* sick(["verify", ...store])
      assert.strictEqual(fs.readFileSync(file, "utf8"), "")
      const said = yield* told(["doctor", "--repair", ...store])
      assert.match(said, /files: 1\n {2}mendable {2}users\/ada\/.*damaged/)
      assert.match(said, /mended: 1 file restored, 0 vectors made\nnothing is left\n$/)
      assert.include(fs.readFileSync(file, "utf8"), whole.trimEnd().split("\n").at(-1)!)
      assert.isTrue((yield* answered(Examined, ["doctor", ...store])).isHealthy)
    }))

  it.scopedLive("`verify` exits with 7 and reports at least one of five files that changed in text but not in size or time", () =>
    Effect.gen(function*() {
      const root = path.join(yield* folder, "memory")
      const to = `vault:${root}`
      const names = ["one", "two", "six", "ten", "all"]
      const ids = yield* within(to, (store) =>
        Effect.map(
          store.put(ada, names.map((name) => note(`the number ${name}`))),
          (put) => put.map(({ record }) => record.id)
        ))
      const fileOf = (id: string) => path.join(root, "users/ada", `${id}.md`)
      const past = new Date("2024-01-01")
      for (const id of ids) fs.utimesSync(fileOf(id), past, past)
      // closing a vault after a purge saves the snapshot, which has the sizes and times of the files
      yield* within(to, (store) =>
        Effect.gen(function*() {
          const [other] = yield* store.put(ada, [note("will be purged")])
          yield* store.forget(ada, [other!.record.id], { purge: true })
        }))
      for (const id of ids) {
        const text = fs.readFileSync(fileOf(id), "utf8")
        fs.writeFileSync(fileOf(id), text.replaceAll("number", "letter"))
        fs.utimesSync(fileOf(id), past, past)
      }
      // each scan also reads some files that seem unchanged, and takes a change in them as an edit; `verify` reports no edits
      const report = yield* sick(["verify", "--store", to])
      assert.isAtLeast(report.counts.files, 1)
      assert.lengthOf(report.findings, report.counts.files)
      for (const { check, id, isMendable, message, path } of report.findings) {
        assert.deepStrictEqual([check, isMendable, path], ["files", false, `users/ada/${id}.md`])
        assert.strictEqual(message, "drifted: its bytes changed, and its size and time did not")
      }
    }))

  it.scopedLive("the command `repair` lists damaged files, and `repair --write` restores them", () =>
    Effect.gen(function*() {
      const { file, id, store } = yield* damaged
      const repairs = [{ path: `users/ada/${id}.md`, id, revision: 1 }]
      assert.deepStrictEqual(yield* answered(Repaired, ["repair", ...store]), { isWritten: false, repairs })
      assert.strictEqual(fs.readFileSync(file, "utf8"), "")
      assert.deepStrictEqual(yield* answered(Repaired, ["repair", "--write", ...store]), { isWritten: true, repairs })
      assert.include(fs.readFileSync(file, "utf8"), "Drinks tea.")
    }))

  it.scopedLive("`repair --write` on a terminal shows how many of the damaged files it has restored", () =>
    Effect.gen(function*() {
      const { store } = yield* damaged
      const { code, screen } = yield* onTerminal(["repair", "--write", ...store])
      assert.strictEqual(code, 0, screen)
      assert.match(screen, /restoring: 1 of 1 files? · 100%/)
    }))

  it.scopedLive("`doctor --repair` on a terminal asks before it repairs, and repairs nothing if the answer is no", () =>
    Effect.gen(function*() {
      const { file, store } = yield* damaged
      const no = yield* onTerminal(["doctor", "--repair", ...store], { input: "n\r" })
      assert.match(no.screen, /Mend 1 finding\? \[y\/N\]/)
      assert.deepStrictEqual([no.code, fs.readFileSync(file, "utf8")], [1, ""])
      const yes = yield* onTerminal(["doctor", "--repair", ...store], { input: "y\r" })
      assert.deepStrictEqual([yes.code, fs.readFileSync(file, "utf8") === ""], [0, false])
    }))
})

describe("the index of a store", () => {
  it.scopedLive("a record that a search does not find is reported as repairable only if the store's index can be rebuilt", () =>
    Effect.gen(function*() {
      const place = yield* folder
      const addresses = [["memory:", false], [`vault:${place}/memory`, false], [
        `sqlite:${place}/memory.db`,
        true
      ]] as const
      // an analyzer that finds no words in a record makes an index in which no search finds the record
      const analyzer = Layer.succeed(Analyzer.Analyzer, { ...Analyzer.make(), index: () => [] })
      for (const [text, isMendable] of addresses) {
        const address = yield* StoreAddress.parse(text)
        const open = yield* Layer.build(StoreAddress.layer(address, { create: true }).pipe(Layer.provide(analyzer)))
        const store = Context.get(open, MemoryStore)
        const { vault } = Context.get(open, StoreAddress.OpenStore)
        yield* store.put(ada, [note("Drinks tea.")])
        const canReindex = StoreAddress.canReindex(address)
        const { findings } = yield* Doctor.examine({ store, vault, canReindex })
        assert.deepStrictEqual(
          findings.map((finding) => [finding.check, finding.isMendable]),
          [["index", isMendable]],
          text
        )
      }
    }).pipe(Effect.provide(NodeContext.layer), Logger.withMinimumLogLevel(LogLevel.None)))
})

describe("effect-memory doctor on a SQLite file", () => {
  it.scopedLive("`doctor` reports a damaged search index, and `doctor --repair` rebuilds the index", () =>
    Effect.gen(function*() {
      const filename = path.join(yield* folder, "memory.db")
      const store = ["--store", `sqlite:${filename}`]
      const bodies = ["Drinks tea.", "Cello.", "Lives in Bern."]
      for (const body of bodies) yield* told(["remember", body, "--user", "ada", ...store])
      yield* raw(
        filename,
        "UPDATE memory_records SET entry = replace(entry, '\"cello\"', '\"violin\"') WHERE content LIKE '%Cello%'"
      )
      const { findings } = yield* sick(["doctor", ...store])
      assert.deepStrictEqual(findings.map(({ check, isMendable }) => [check, isMendable]), [["index", true]])
      const { mended } = yield* answered(Examined, ["doctor", "--repair", ...store])
      assert.deepInclude(mended, { isReindexed: true, left: 0 })
      for (const body of bodies) assert.include(yield* told(["recall", body, "--user", "ada", ...store]), body)
    }))

  it.scopedLive("`doctor` and `verify` report a database file whose index lacks an entry for a row", () =>
    Effect.gen(function*() {
      const filename = path.join(yield* folder, "memory.db")
      const store = ["--store", `sqlite:${filename}`]
      yield* told(["remember", "Drinks tea.", "--user", "ada", ...store])
      yield* damageIndex(filename, "memory_records_hash")
      for (const command of ["doctor", "verify"]) {
        const { findings } = yield* sick([command, ...store])
        assert.deepStrictEqual(findings.map(({ check, isMendable }) => [check, isMendable]), [["files", false]])
        assert.match(findings[0]!.message, /missing from index memory_records_hash/)
      }
    }))

  it.scopedLive("`doctor` and `verify` report a database file with an unreadable page in a table or index", () =>
    Effect.gen(function*() {
      const filename = path.join(yield* folder, "memory.db")
      const store = ["--store", `sqlite:${filename}`]
      yield* told(["remember", "Drinks tea.", "--user", "ada", ...store])
      const bytes = fs.readFileSync(filename)
      for (const name of ["memory_partitions", "memory_records_version", "memory_records_trash", "memory_changes"]) {
        fs.writeFileSync(filename, bytes)
        const [found] = yield* raw(filename, `SELECT rootpage FROM sqlite_master WHERE name = '${name}'`)
        const damaged = Buffer.from(bytes)
        const at = (Number(found?.["rootpage"]) - 1) * 4_096
        fs.writeFileSync(filename, damaged.fill(0x5a, at, at + 16))
        for (const command of ["doctor", "verify"]) {
          const { findings } = yield* sick([command, ...store])
          assert.include(findings.map(({ check }) => check), "files", name)
        }
      }
    }))

  it.scopedLive("a record that cannot be decoded is reported as not repairable", () =>
    Effect.gen(function*() {
      const filename = path.join(yield* folder, "memory.db")
      const store = ["--store", `sqlite:${filename}`]
      yield* told(["remember", "Drinks tea.", "--user", "ada", ...store])
      yield* raw(filename, "UPDATE memory_records SET content = '{'")
      for (const command of ["doctor", "verify"]) {
        const { findings } = yield* sick([command, ...store])
        assert.deepStrictEqual(findings.map(({ check, isMendable }) => [check, isMendable]), [["records", false]])
      }
    }))
})
