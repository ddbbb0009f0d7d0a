import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import { Examined, Repaired, Verified } from "../../src/cli/commands/Care.ts"
import { Completions } from "../../src/cli/commands/Completions.ts"
import { Copied } from "../../src/cli/commands/Copy.ts"
import { Forgotten } from "../../src/cli/commands/Forget.ts"
import { Index, Instructions } from "../../src/cli/commands/Prompts.ts"
import { Listed, Remembered, Restored, Revisions, Shown } from "../../src/cli/commands/Records.ts"
import { Why } from "../../src/cli/commands/Search.ts"
import { Stats } from "../../src/cli/commands/Stats.ts"
import { SearchResult } from "../../src/domain/MemoryFilter.ts"
import { answered, folder, root, run, stores, told } from "./Running.ts"

describe.each(stores)("the command effect-memory on %s", (_, address) => {
  it.scopedLive("the command remembers, recalls, lists, shows, explains, forgets and restores a record", () =>
    Effect.gen(function*() {
      const store = ["--store", yield* address]
      const ada = [...store, "--user", "ada"]
      const { outcome, record } = yield* answered(Remembered, [
        ...["remember", "Drinks tea, never coffee.", "--tag", "drinks", "--importance", "0.9"],
        ...ada
      ])
      assert.deepStrictEqual([outcome, record.kind, record.tags, record.importance], [
        "created",
        "user",
        ["drinks"],
        0.9
      ])
      assert.deepStrictEqual(record.scope, { userId: "ada" })
      const again = yield* answered(Remembered, ["remember", "Drinks tea, never coffee.", ...ada])
      assert.deepStrictEqual([again.outcome, again.record.id], ["duplicate", record.id])
      const piped = yield* answered(Remembered, ["remember", "--kind", "note", "-", ...store], {
        input: "What all know.\n"
      })
      assert.deepStrictEqual([piped.record.body, piped.record.scope], ["What all know.", "global"])
      yield* told(["remember", "Plays the cello.", ...store, "--user", "bob"])

      const found = yield* answered(SearchResult, ["recall", "tea", "or", "coffee?", "--explain", ...ada])
      assert.deepStrictEqual(found.hits.map((hit) => hit.record.id), [record.id])
      assert.isAbove(Object.keys(found.hits[0]!.explanation!).length, 0)
      const plain = yield* told(["recall", "tea", ...ada])
      assert.match(
        plain,
        /^1\.000 {2}Drinks tea, never coffee\.\n {4}user · user ada · \d{4}-.* · #drinks {2}[0-9A-Z]{26}\n$/
      )
      assert.strictEqual(yield* told(["recall", "cello", ...ada]), "")
      const all = yield* answered(SearchResult, ["recall", "cello", ...store, "--reach", "everyone"])
      assert.strictEqual(all.hits.length, 1)

      const page = yield* answered(Listed, ["list", "--limit", "1", ...ada])
      assert.deepStrictEqual(page.items.map(({ body }) => body), ["What all know."])
      const rest = yield* answered(Listed, ["list", "--limit", "1", "--after", page.next!, ...ada])
      assert.deepStrictEqual(rest.items.map(({ id }) => id), [record.id])
      assert.deepStrictEqual((yield* answered(Listed, ["list", "--kind", "note", ...ada])).items.length, 1)
      assert.deepStrictEqual((yield* answered(Listed, ["list", "--tag", "drinks", ...ada])).items.length, 1)
      assert.include(yield* told(["list", ...ada]), record.id)

      assert.deepStrictEqual((yield* answered(Shown, ["show", record.id, ...ada])).record.body, record.body)
      assert.include(yield* told(["show", record.id, ...ada]), "Drinks tea, never coffee.")
      yield* told(["remember", "Drinks mate.", "--id", record.id, ...ada])
      const { items } = yield* answered(Revisions, ["history", record.id, ...ada])
      assert.deepStrictEqual(items.map(({ body, revision }) => [revision, body]), [
        [2, "Drinks mate."],
        [1, "Drinks tea, never coffee."]
      ])
      assert.match(yield* told(["history", record.id, ...ada]), /2 {2}\d{4}.* {2}Drinks mate\. {2}summary, body/)
      const back = yield* answered(Restored, ["restore", record.id, ...ada])
      assert.deepStrictEqual([back.record.body, back.record.revision], ["Drinks tea, never coffee.", 3])
      assert.strictEqual(
        (yield* answered(Restored, ["restore", record.id, "--revision", "2", ...ada])).record.body,
        "Drinks mate."
      )

      assert.deepStrictEqual(yield* answered(Why, ["why", record.id, "cello", ...ada]), {
        id: record.id,
        question: "cello",
        isFound: false,
        reason: "no_match"
      })
      assert.strictEqual((yield* answered(Why, ["why", record.id, "mate", ...ada])).isFound, true)
      assert.match(yield* told(["why", record.id, "cello", ...ada]), /^no_match: it has none of the words\n$/)

      const gone = yield* answered(Forgotten, ["forget", record.id, ...ada])
      assert.deepStrictEqual(gone, { isPurged: false, forgotten: [record.id], absent: [] })
      assert.deepStrictEqual((yield* answered(Listed, ["list", "--forgotten", ...ada])).items.map(({ id }) => id), [
        record.id
      ])
      assert.strictEqual((yield* answered(Restored, ["restore", record.id, ...ada])).record.body, "Drinks mate.")
      assert.isTrue((yield* answered(Forgotten, ["forget", record.id, "--purge", "--yes", ...ada])).isPurged)
      assert.strictEqual((yield* run(["show", record.id, ...ada])).code, 3)
    }))

  it.scopedLive("the command prints a user's memory index, and counts, verifies and copies records", () =>
    Effect.gen(function*() {
      const store = ["--store", yield* address]
      for (const body of ["Drinks tea.", "Lives in Bern.", "Plays the cello."]) {
        yield* told(["remember", body, "--user", "ada", ...store])
      }
      const { ids, text } = yield* answered(Index, ["index", "--user", "ada", ...store])
      assert.strictEqual(ids.length, 3)
      assert.include(text, "Plays the cello.")
      assert.include(yield* told(["index", "--user", "ada", ...store]), "Lives in Bern.")
      assert.strictEqual((yield* answered(Index, ["index", "--limit", "1", "--user", "ada", ...store])).leftOut, 2)

      const { tenants: [tenant] } = yield* answered(Stats, ["stats", ...store])
      assert.deepInclude(tenant, { tenant: "default", records: 3, scopes: 1, tombstones: 0, kinds: { user: 3 } })
      assert.match(yield* told(["stats", ...store]), /3 records in 1 scope/)
      assert.isTrue((yield* answered(Verified, ["verify", ...store])).isHealthy)
      assert.isTrue((yield* answered(Examined, ["doctor", ...store])).isHealthy)
      assert.match(yield* told(["doctor", ...store]), /^healthy: 3 rows read\n$/)
      assert.deepStrictEqual(yield* answered(Repaired, ["repair", ...store]), { isWritten: false, repairs: [] })

      const place = yield* folder
      const copies = [`vault:${place}/copy`, `sqlite:${place}/copy.db`]
      for (const copy of copies) {
        const report = yield* answered(Copied, ["copy", copy, ...store])
        assert.deepInclude(report, { records: 3, verified: true })
        assert.isAbove(report.written, 0)
        assert.strictEqual((yield* answered(Copied, ["copy", copy, ...store])).written, 0)
        assert.include(yield* told(["recall", "cello", "--user", "ada", "--store", copy]), "Plays the cello.")
      }
      assert.match(yield* told(["copy", copies[0]!, ...store]), /verified: both sides are equal/)
    }))
})

describe("the command effect-memory", () => {
  it.scopedLive("the default store is `EFFECT_MEMORY_STORE`, or else the vault .memory in the working directory", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      yield* told(["remember", "in the folder"], { cwd })
      assert.include(yield* told(["recall", "folder", "--store", `vault:${cwd}/.memory`]), "in the folder")
      const env = { EFFECT_MEMORY_STORE: `sqlite:${cwd}/other.db` }
      yield* told(["remember", "in the file"], { cwd, env })
      assert.strictEqual(yield* told(["recall", "file"], { cwd }), "")
      assert.include(yield* told(["recall", "file"], { cwd, env }), "in the file")
    }))

  it.scopedLive("options that all commands share can stand before the command, and an argument after `--` can begin with a dash", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      yield* told(["--user", "ada", "--json", "remember", "--tag", "a", "--", "--no", "is a flag"], { cwd })
      const found = yield* answered(Listed, ["--user=ada", "list", "--limit", "5"], { cwd })
      assert.deepStrictEqual(found.items.map(({ body }) => body), ["--no is a flag"])
    }))

  it.scopedLive("the store of `--store memory:` keeps its memories only until the process ends", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        (yield* answered(Remembered, ["remember", "for a moment", "--store", "memory:"])).outcome,
        "created"
      )
      assert.strictEqual(yield* told(["list", "--store", "memory:"]), "")
      assert.isTrue((yield* answered(Examined, ["doctor", "--store", "memory:"])).isHealthy)
    }))

  it.scopedLive("each of five viewers (a tenant, a user, an agent, a run, a session) recalls only what was remembered for that viewer", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      const viewers = [["--tenant", "acme"], ["--user", "ada"], ["--agent", "pilot"], ["--run", "r1"], [
        "--session",
        "s1"
      ]]
      for (const viewer of viewers) yield* told(["remember", `secret of ${viewer.join("")}`, ...viewer], { cwd })
      for (const viewer of viewers) {
        const { hits } = yield* answered(SearchResult, ["recall", "secret", ...viewer], { cwd })
        assert.deepStrictEqual(hits.map(({ record }) => record.body), [`secret of ${viewer.join("")}`])
      }
      const { tenants } = yield* answered(Stats, ["stats"], { cwd })
      assert.deepStrictEqual(tenants.map(({ records, tenant }) => [tenant, records]), [["acme", 1], ["default", 4]])
    }))

  it.scopedLive("`instructions` prints the instruction files of a folder, such as AGENTS.md, without opening a store", () =>
    Effect.gen(function*() {
      const { files, text } = yield* answered(Instructions, ["instructions", root, "--store", "vault:/nowhere"])
      assert.isAbove(files.length, 0)
      assert.include(text, "effect-memory, for whoever works on it")
    }))

  it.scopedLive("`--version` prints the version, and each command has a help page with examples", () =>
    Effect.gen(function*() {
      const { version } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))
      assert.strictEqual(yield* told(["--version"]), `${version}\n`)
      const overview = yield* told(["--help"])
      const names = Array.from(
        overview.split("\nCOMMANDS\n")[1]!.split("\n\n")[0]!.matchAll(/^ {7}([a-z]+) {2}/gm),
        ([, name]) => name!
      )
      assert.isAtLeast(names.length, 19)
      for (const name of names) {
        const page = yield* told([name, "--help"])
        for (
          const section of ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS OF EVERY COMMAND", "EXAMPLES", "EXIT STATUS"]
        ) {
          assert.include(page, `${section}\n`, name)
        }
        assert.strictEqual(yield* told(["help", name]), page)
        for (const line of page.split("\n")) assert.isAtMost(line.length, 110, line)
      }
    }))

  it.scopedLive("`--tag` given twice selects the records that have at least one of the tags, as its help says", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      for (const tag of ["red", "green", "blue"]) yield* told(["remember", `a ${tag} thing`, "--tag", tag], { cwd })
      const tags = ["--tag", "red", "--tag", "green"]
      const { items } = yield* answered(Listed, ["list", ...tags], { cwd })
      assert.deepStrictEqual(items.map(({ body }) => body), ["a green thing", "a red thing"])
      const { hits } = yield* answered(SearchResult, ["recall", "thing", ...tags], { cwd })
      assert.lengthOf(hits, 2)
      for (const name of ["list", "recall", "why"]) {
        const page = (yield* told([name, "--help"])).replace(/\s+/g, " ")
        assert.include(page, "several: with at least one of them")
      }
    }))

  it.scopedLive("`import` reads stdin only for a format of a single file (such as mem0), and the help page of `import` says so", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      const page = (yield* told(["import", "--help"])).replace(/\s+/g, " ")
      assert.include(page, "- reads stdin, if the format is one of a single file")
      for (const format of ["vault", "obsidian", "claude-code"]) {
        assert.notStrictEqual((yield* run(["import", "--format", format, "-"], { cwd, input: "" })).code, 0, format)
      }
      const entity = { type: "entity", name: "tea", entityType: "drink", observations: ["Green."] }
      for (const [format, input] of [["mem0", "[]"], ["mcp", JSON.stringify(entity)]] as const) {
        yield* told(["import", "--format", format, "-"], { cwd, input })
      }
    }))

  it.scopedLive("the help page of `completions` says that the script has to be made again after an update", () =>
    Effect.gen(function*() {
      const page = (yield* told(["completions", "--help"])).replace(/\s+/g, " ")
      assert.include(
        page,
        "The script contains the names of all commands and options, so make it again after an update."
      )
    }))

  it.scopedLive("`completions` prints the completion script of bash, zsh or fish as text, or as JSON with `--json`", () =>
    Effect.gen(function*() {
      for (const shell of ["bash", "zsh", "fish"]) {
        const { script } = yield* answered(Completions, ["completions", shell])
        assert.strictEqual(yield* told(["completions", shell]), `${script}\n`)
        assert.include(script, "remember")
      }
    }))
})

it("the schema that these tests use for the JSON output of `index` rejects an unknown key", () => {
  assert.throws(() =>
    Schema.decodeUnknownSync(Index, { onExcessProperty: "error" })({ text: "", ids: [], leftOut: 0, more: 1 })
  )
})
