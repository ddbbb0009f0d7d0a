import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { Copied } from "../../src/cli/commands/Copy.ts"
import { Listed, Remembered } from "../../src/cli/commands/Records.ts"
import { Exported, Imported, Restored } from "../../src/cli/Formats.ts"
import { answered, execute, file, folder, root, run, stores, told } from "./Running.ts"

const fixture = (name: string) => path.join(root, "test/fixtures/transfer", name)

/** Fills a store with records of two users and of Global; one is edited, one forgotten. */
const filled = (store: string) =>
  Effect.gen(function*() {
    const { record } = yield* answered(Remembered, ["remember", "Drinks tea.", "--user", "ada", "--store", store])
    yield* told(["remember", "Drinks mate.", "--id", record.id, "--user", "ada", "--store", store])
    const gone = yield* answered(Remembered, ["remember", "Had a cold.", "--user", "ada", "--store", store])
    yield* told(["forget", gone.record.id, "--user", "ada", "--store", store])
    yield* told(["remember", "Plays the cello.", "--user", "bob", "--store", store])
    yield* told(["remember", "Deploys go out on Tuesdays.", "--kind", "project", "--store", store])
  })

describe.each(stores)("effect-memory export and import of %s", (_, address) => {
  it.scopedLive("an export that is imported and exported again is unchanged; a second import writes nothing", () =>
    Effect.gen(function*() {
      const place = yield* folder
      const [one, two] = [path.join(place, "one.jsonl"), path.join(place, "two.jsonl")]
      const [from, to] = [yield* address, `vault:${path.join(place, "copy")}`]
      yield* filled(from)
      const exported = yield* answered(Exported, ["export", one, "--store", from])
      assert.deepInclude(exported, { records: 4, tombstones: 1 })
      const first = yield* answered(Restored, ["import", one, "--store", to])
      assert.deepInclude(first, { records: 4, tombstones: 1, complete: true, skipped: [] })
      assert.isAbove(first.written, 0)
      assert.strictEqual((yield* answered(Restored, ["import", one, "--store", to])).written, 0)
      yield* told(["export", two, "--store", to])
      assert.strictEqual(fs.readFileSync(two, "utf8"), fs.readFileSync(one, "utf8"))
      assert.strictEqual(yield* told(["export", "--store", to]), fs.readFileSync(one, "utf8"))
    }))

  it.scopedLive("`export --user` writes everything about that user and nothing of others", () =>
    Effect.gen(function*() {
      const store = yield* address
      yield* filled(store)
      const text = yield* told(["export", "--user", "ada", "--store", store])
      assert.include(text, "Drinks tea.")
      assert.include(text, "Drinks mate.")
      assert.include(text, "Had a cold.")
      assert.notMatch(text, /bob|cello|Tuesdays/)
    }))
})

describe("effect-memory export", () => {
  it.scopedLive("`export` writes through a symbolic link or into a named pipe instead of replacing them", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      yield* filled(`vault:${path.join(cwd, ".memory")}`)
      yield* told(["export", "file.jsonl"], { cwd })
      const text = fs.readFileSync(path.join(cwd, "file.jsonl"), "utf8")
      fs.writeFileSync(path.join(cwd, "file.jsonl"), "")
      fs.symlinkSync("file.jsonl", path.join(cwd, "link.jsonl"))
      yield* told(["export", "link.jsonl"], { cwd })
      assert.isTrue(fs.lstatSync(path.join(cwd, "link.jsonl")).isSymbolicLink())
      assert.strictEqual(fs.readFileSync(path.join(cwd, "file.jsonl"), "utf8"), text)
      const script = `mkfifo pipe && (cat pipe > got & "${process.execPath}" "${file}" export pipe > said && wait)`
      const { code, stderr } = yield* execute("sh", ["-c", script], { cwd })
      assert.strictEqual(code, 0, stderr)
      assert.isTrue(fs.lstatSync(path.join(cwd, "pipe")).isFIFO())
      assert.strictEqual(fs.readFileSync(path.join(cwd, "got"), "utf8"), text)
      assert.strictEqual(yield* told(["export", "-"], { cwd }), text)
      assert.deepStrictEqual(fs.readdirSync(cwd).sort(), [".memory", "file.jsonl", "got", "link.jsonl", "pipe", "said"])
    }))
})

describe("effect-memory copy", () => {
  it.scopedLive("`copy` into a vault reports that use counts are omitted, since a vault does not write use counts to disk", () =>
    Effect.gen(function*() {
      const place = yield* folder
      const [file, db] = [path.join(place, "file.jsonl"), ["--store", `sqlite:${path.join(place, "memory.db")}`]]
      yield* told(["remember", "Drinks tea.", ...db])
      yield* told(["export", file, ...db])
      const used = fs.readFileSync(file, "utf8").replace(
        "\"tenant\":\"default\"}",
        "\"tenant\":\"default\",\"uses\":{\"count\":3}}"
      )
      fs.writeFileSync(file, used)
      yield* told(["import", file, ...db])
      assert.strictEqual(yield* told(["export", ...db]), used)
      for (const [to, omitted] of [["vault:copy", ["uses"]], ["sqlite:copy.db", []]] as const) {
        const report = yield* answered(Copied, ["copy", to, ...db], { cwd: place })
        assert.deepStrictEqual([report.uses, report.omitted], [1, omitted])
      }
    }))
})

describe("effect-memory import", () => {
  it.scopedLive("`import` reads a whole vault with its threads, or only the tenant that `--tenant` names", () =>
    Effect.gen(function*() {
      const place = yield* folder
      const [from, to, one] = [path.join(place, "from"), `sqlite:${path.join(place, "to.db")}`, path.join(place, "one")]
      yield* filled(`vault:${from}`)
      const chats = [
        "import",
        "--format",
        "chatgpt",
        fixture("chatgpt.json"),
        "--user",
        "ada",
        "--store",
        `vault:${from}`
      ]
      const { messages, threads } = yield* answered(Imported, chats)
      yield* told(["remember", "Of another tenant.", "--tenant", "other", "--store", `vault:${from}`])
      const args = ["import", "--format", "vault", from, "--store", to]
      assert.deepInclude(yield* answered(Restored, args), { messages, threads, tombstones: 1, complete: true })
      assert.strictEqual((yield* answered(Restored, args)).written, 0)
      assert.strictEqual(yield* told(["export", "--store", to]), yield* told(["export", "--store", `vault:${from}`]))
      const other = ["import", "--format", "vault", from, "--tenant", "other", "--store", `vault:${one}`]
      assert.deepInclude(yield* answered(Restored, other), { records: 1, messages: 0 })
    }))

  it.scopedLive("`import` writes another system's memories into the scope of the option `--user`; a repeated import writes nothing", () =>
    Effect.gen(function*() {
      const store = `vault:${path.join(yield* folder, "memory")}`
      const args = ["import", "--format", "mcp", fixture("mcp.jsonl"), "--user", "ada", "--store", store]
      const { created } = yield* answered(Imported, args)
      assert.isAbove(created, 0)
      assert.deepInclude(yield* answered(Imported, args), { created: 0, present: created })
      const { items } = yield* answered(Listed, ["list", "--limit", "100", "--user", "ada", "--store", store])
      assert.isTrue(items.every(({ scope }) => scope !== "global" && scope.userId === "ada"))
    }))

  it.scopedLive("the help page of `export` lists only formats that can be written", () =>
    Effect.gen(function*() {
      assert.match(yield* told(["export", "--help"]), /one of: jsonl; default jsonl/)
    }))

  it.scopedLive("`import` reads from stdin if the path is `-`, and stores ChatGPT conversations as threads", () =>
    Effect.gen(function*() {
      const store = `vault:${path.join(yield* folder, "memory")}`
      const input = fs.readFileSync(fixture("chatgpt.json"), "utf8")
      const args = ["import", "--format", "chatgpt", "-", "--user", "ada", "--store", store]
      const { messages, threads } = yield* answered(Imported, args, { input })
      assert.isAbove(threads, 0)
      assert.isAbove(messages, 0)
      assert.deepInclude(yield* answered(Imported, args, { input }), { created: 0, messages: 0 })
    }))

  it.scopedLive("an import of the folder above Claude Code's `memory` reports all records of an earlier import of `memory` as present", () =>
    Effect.gen(function*() {
      const args = ["--store", `vault:${path.join(yield* folder, "to")}`, "import", "--format", "claude-code"]
      const inner = yield* answered(Imported, [...args, fixture("claude-code/memory")])
      assert.isAbove(inner.created, 0)
      const outer = yield* answered(Imported, [...args, fixture("claude-code")])
      assert.strictEqual(outer.present, inner.created)
    }))

  it.scopedLive("an import of a folder imports its notes, and reports left-out named pipes, symbolic links and tags that a record cannot have", () =>
    Effect.gen(function*() {
      const place = yield* folder
      const notes = path.join(place, "notes")
      fs.mkdirSync(path.join(notes, "sub"), { recursive: true })
      fs.writeFileSync(
        path.join(notes, "tea.md"),
        `---\ntags: [drink, instructions, ${"x".repeat(300)}]\n---\nGreen.\n`
      )
      fs.writeFileSync(path.join(notes, "sub/cake.md"), "Plum.\n")
      fs.writeFileSync(path.join(place, "secret.md"), "Of another folder.\n")
      fs.symlinkSync("../secret.md", path.join(notes, "out.md"))
      fs.symlinkSync("nowhere.md", path.join(notes, "dangling.md"))
      fs.symlinkSync("..", path.join(notes, "sub/loop"))
      yield* execute("mkfifo", [path.join(notes, "pipe.md")])
      const store = `vault:${path.join(place, "memory")}`
      const args = ["import", "--format", "obsidian", notes, "--store", store]
      const { created, skipped } = yield* answered(Imported, args)
      assert.strictEqual(created, 2)
      assert.deepStrictEqual(skipped.map(({ count, examples, reason }) => [reason, count, examples[0]]), [
        ["a tag that a record cannot have", 2, "tea.md"],
        ["a file that cannot be read", 1, "dangling.md"],
        ["a link out of the folder", 1, "out.md"],
        ["a link to a folder", 1, "sub/loop"],
        ["neither a file nor a folder", 1, "pipe.md"]
      ])
      assert.deepInclude(yield* answered(Imported, args), { created: 0, present: 2 })
    }))

  it.scopedLive("`import` fails and writes nothing if the file is missing, not in the expected format, or of a newer version", () =>
    Effect.gen(function*() {
      const place = yield* folder
      const store = ["--user", "ada", "--store", `vault:${path.join(place, "memory")}`]
      const other = path.join(place, "other.json")
      fs.writeFileSync(other, "[{\"colour\":\"red\"}]")
      const newer = path.join(place, "newer.jsonl")
      fs.writeFileSync(newer, "{\"format\":\"effect-memory\",\"version\":99}\n")
      const cases: ReadonlyArray<readonly [code: number, args: ReadonlyArray<string>]> = [
        [3, ["import", "--format", "mem0", path.join(place, "none.json")]],
        [4, ["import", "--format", "letta", other]],
        [7, ["import", "--format", "mem0", other]],
        [4, ["import", newer]]
      ]
      for (const [code, args] of cases) {
        const ran = yield* run([...args, ...store])
        assert.strictEqual(ran.code, code, `${args.join(" ")}: ${ran.stderr}`)
        assert.match(ran.stderr, /^effect-memory: /)
        assert.notInclude(ran.stderr, "colour")
      }
      const listed = yield* run(["list", "--json", ...store])
      if (listed.code === 0) assert.deepStrictEqual(JSON.parse(listed.stdout), { items: [] })
      else assert.strictEqual(listed.code, 5)
    }))
})
