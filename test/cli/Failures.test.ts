import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import { isBuiltin } from "node:module"
import * as path from "node:path"
import { Listed, Remembered } from "../../src/cli/commands/Records.ts"
import { answered, execute, file, folder, root, run, stores, told } from "./Running.ts"

/** Asserts that a command ends with the exit code `code`, an empty stdout, and a message on stderr that matches `said`; returns stderr. */
const fails = (code: number, said: RegExp, args: ReadonlyArray<string>, options: Parameters<typeof run>[1] = {}) =>
  Effect.map(run(args, options), (ran) => {
    assert.strictEqual(ran.code, code, `${args.join(" ")}: ${ran.stderr}`)
    assert.strictEqual(ran.stdout, "", args.join(" "))
    assert.match(ran.stderr, /^effect-memory: /)
    assert.match(ran.stderr, said)
    return ran.stderr
  })

const absent = "01JB7Y9QZ3M4N5P6Q7R8S9T0AB"

describe("a wrong command line exits with 2 and one message on stderr", () => {
  it.scopedLive.each<readonly [line: string, said: RegExp]>([
    ["recal tea", /there is no command recal\n {2}did you mean recall\?\n$/],
    ["xyzzy", /there is no command xyzzy\n/],
    ["recall --colour", /recall: there is no option --colour\n/],
    ["recall --limit many", /recall: 'many' is not a integer\n/],
    ["recall --limit", /recall: Expected a value following option: '--limit'\n/],
    ["recall --limit 1 --limit 2", /recall: expected --limit once\n/],
    ["recall --reach far", /recall: Expected one of the following cases: exact, within, everyone\n/],
    ["recall --reach everyone --user ada", /--reach everyone takes no --user/],
    ["recall --store nowhere:", /no such store\n {2}expected memory:, vault:DIR, sqlite:FILE or postgres:/],
    ["show", /show: Missing argument <ID>\n/],
    ["show a b", /show: one argument too many: b\n/],
    ["completions tcsh", /completions: /],
    ["forget", /forget: expected an id\n/],
    ["forget --purge --yes", /a person is named by --user ID alone/],
    ["forget --user ada --agent pilot --purge --yes", /a person is named by --user ID alone/],
    ["forget --user ada --purge", /this cannot be undone\n {2}--yes does it without asking\n$/],
    ["doctor --repair --dry-run", /exclude each other/],
    ["import memories --format parchment", /there is no such format/],
    ["serve --http --port 65536", /serve: --port: expected 0 to 65535\n/],
    ["serve --http --port -1", /serve: --port: expected 0 to 65535\n/]
  ])("%s", ([line, said]) =>
    Effect.gen(function*() {
      const cwd = yield* folder
      yield* told(["remember", "Drinks tea.", "--user", "ada"], { cwd })
      const stderr = yield* fails(2, said, line.split(" "), { cwd })
      assert.isAtMost(stderr.split("\n").length, 3, stderr)
    }))

  it.scopedLive("an empty command line exits with 2, and prints the help page on stderr", () =>
    Effect.map(run([]), ({ code, stderr, stdout }) => {
      assert.deepStrictEqual([code, stdout], [2, ""])
      assert.match(stderr, /^NAME\n/)
    }))
})

describe("the exit code of effect-memory", () => {
  it.scopedLive.each(["list", "list --json", "export", "index"])(
    "is 5 if the output of %s cannot be written because the disk is full",
    (line) =>
      Effect.gen(function*() {
        const cwd = yield* folder
        yield* told(["remember", "Drinks tea."], { cwd })
        const command = `"${process.execPath}" "${file}" ${line}`
        const full = yield* execute("sh", ["-c", `${command} > /dev/full`], { cwd })
        assert.strictEqual(full.code, 5, full.stderr)
        assert.match(full.stderr, /^effect-memory: the output cannot be written \(ENOSPC\)\n$/)
        const closed = yield* execute("bash", ["-c", `${command} | true; exit \${PIPESTATUS[0]}`], { cwd })
        assert.strictEqual(closed.code, 0, closed.stderr)
      })
  )

  it.scopedLive("the exit code is 3 for a missing record and for a record that only another viewer sees", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      const { record: { id } } = yield* answered(Remembered, ["remember", "Drinks tea.", "--user", "ada"], { cwd })
      for (const name of ["show", "history", "restore"]) {
        const missing = yield* fails(3, /there is no such record/, [name, absent], { cwd })
        const foreign = yield* fails(3, /there is no such record/, [name, id, "--user", "bob"], { cwd })
        assert.strictEqual(foreign, missing)
      }
      const { code, stderr } = yield* run(["forget", id, "--user", "bob"], { cwd })
      assert.strictEqual(code, 3)
      assert.match(stderr, /not there, or not for this viewer/)
    }))

  it.scopedLive("the exit code is 4 for an invalid id, kind, viewer or cursor, an empty text, an importance or limit out of bounds", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      yield* told(["remember", "Drinks tea."], { cwd })
      yield* fails(4, /no id of a record/, ["show", "hunter2"], { cwd })
      yield* fails(4, /the text is empty/, ["remember", " "], { cwd })
      yield* fails(4, /importance: Expected a number between 0 and 1/, ["remember", "x", "--importance", "7"], { cwd })
      yield* fails(4, /kind/, ["remember", "x", "--kind", "No Kind"], { cwd })
      yield* fails(4, /limit: Expected a number between 1 and 1000/, ["recall", "x", "--limit", "0"], { cwd })
      yield* fails(4, /userId/, ["recall", "x", "--user", ""], { cwd })
      for (const reach of ["exact", "everyone"]) {
        const args = ["recall", "x", "--reach", reach, "--tenant", "a\\b"]
        yield* fails(4, /tenant: expected 1\.\.256 characters without control characters or \\/, args, { cwd })
      }
      yield* fails(4, /after: no cursor/, ["list", "--after", "forged"], { cwd })
    }))

  it.scopedLive("the exit code is 4 if stdin is longer than the largest allowed input; the rest of stdin is not read", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      for (const line of ["remember -", "import --format mem0 -"]) {
        const command = `head -c 100G /dev/zero | "${process.execPath}" "${file}" ${line}`
        const { code, stderr } = yield* execute("sh", ["-c", command], { cwd })
        assert.strictEqual(code, 4, stderr)
        assert.match(stderr, /^effect-memory: .*is longer than [\d,]+ bytes\n$/)
      }
    }))

  it.scopedLive("the exit code is 4 if stdin, or a file of another system, is not UTF-8; nothing is stored", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      fs.writeFileSync(path.join(cwd, "latin1.json"), "{\"results\": [{\"memory\": \"caf\xe9\"}]}", "latin1")
      for (
        const args of [
          "remember - < latin1.json",
          "import --format mem0 - < latin1.json",
          "import --format mem0 latin1.json"
        ]
      ) {
        const { code, stderr } = yield* execute("sh", ["-c", `"${process.execPath}" "${file}" ${args}`], { cwd })
        assert.strictEqual(code, 4, stderr)
        assert.match(stderr, /^effect-memory: .* is not UTF-8\n/)
      }
      const { items } = yield* answered(Listed, ["list", "--reach", "everyone"], { cwd })
      assert.isEmpty(items)
    }))

  it.scopedLive("an import of a folder leaves out notes that are not UTF-8, and names them", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      fs.mkdirSync(path.join(cwd, "notes"))
      fs.writeFileSync(path.join(cwd, "notes", "latin1.md"), "caf\xe9\n", "latin1")
      fs.writeFileSync(path.join(cwd, "notes", "tea.md"), "Tea.\n")
      const { stdout } = yield* run(["import", "--format", "obsidian", "notes"], { cwd })
      assert.match(stdout, /^1 record created/)
      assert.match(stdout, /left out: 1, not UTF-8 text \(latin1\.md\)/)
    }))

  it.scopedLive("the exit code is 3 if the file or folder to import does not exist, or a file is in place of a vault", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      for (const format of ["jsonl", "vault", "obsidian", "mem0"]) {
        yield* fails(3, /nowhere cannot be read/, ["import", "--format", format, "nowhere"], { cwd })
      }
      assert.deepStrictEqual(fs.readdirSync(cwd), [])
      fs.writeFileSync(path.join(cwd, "note.md"), "Tea.\n")
      yield* fails(3, /note\.md cannot be read/, ["import", "--format", "vault", "note.md"], { cwd })
    }))

  it.scopedLive("a command that only reads exits with 5 if the vault or SQLite file is missing or invalid, and creates no vault", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      for (
        const line of [
          "recall tea",
          "list",
          "stats",
          "doctor",
          "verify",
          "repair",
          "index",
          "copy memory:",
          `show ${absent}`
        ]
      ) {
        yield* fails(5, /there is no store at vault:\.\/\.memory\n/, line.split(" "), { cwd })
      }
      assert.deepStrictEqual(fs.readdirSync(cwd), [])
      yield* fails(5, /there is no store at sqlite:none\.db/, ["list", "--store", "sqlite:none.db"], { cwd })
      yield* fails(5, /there is no store at vault::memory:\n/, ["list", "--store", "vault::memory:"], { cwd })
      assert.deepStrictEqual(fs.readdirSync(cwd), [])
      fs.writeFileSync(path.join(cwd, "text.db"), "no database at all, but long enough to be looked at")
      yield* fails(5, /cannot be opened: sqlite: the file is damaged, or no database/, [
        "list",
        "--store",
        "sqlite:text.db"
      ], { cwd })
      fs.writeFileSync(path.join(cwd, "file"), "")
      yield* fails(5, /vault:file cannot be opened: the folder: EEXIST\n/, ["list", "--store", "vault:file"], { cwd })
    }))

  it.scopedLive("the exit code is 5 if PostgreSQL cannot be reached, and the URL's password is never printed", () =>
    Effect.gen(function*() {
      const url = "postgres://ada:hunter2@127.0.0.1:1/memory"
      const stderr = yield* fails(5, /postgres:\/\/127\.0\.0\.1:1\/memory cannot be opened/, ["list", "--store", url])
      assert.notInclude(stderr, "hunter2")
      assert.notInclude((yield* run(["list", "--json", "--store", url])).stderr, "hunter2")
    }))

  it.scopedLive("the exit code is 6 if the SQLite driver is missing, and the message names the missing package", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      const bin = path.join(cwd, "effect-memory.mjs")
      fs.copyFileSync(file, bin)
      yield* told(["remember", "Drinks tea."], { cwd, bin })
      assert.include(yield* told(["recall", "tea"], { cwd, bin }), "Drinks tea.")
      const args = ["remember", "x", "--store", "sqlite:memory.db"]
      yield* fails(6, /better-sqlite3, which is not installed.*\n {2}npm install better-sqlite3/, args, { cwd, bin })
      assert.isFalse(fs.existsSync(path.join(cwd, "memory.db")))
    }))
})

describe("a failure of effect-memory with --json", () => {
  it.scopedLive("a failure with `--json` is printed as JSON on stderr, with code and reason", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      yield* told(["remember", "x"], { cwd })
      const lines = [["show zzz", 4, "refused"], ["list --store vault:none", 5, "unavailable"], [
        "list --nope",
        2,
        "usage"
      ]] as const
      for (const [line, code, reason] of lines) {
        const { stderr, stdout, ...ran } = yield* run([...line.split(" "), "--json"], { cwd })
        assert.deepStrictEqual([ran.code, stdout], [code, ""])
        const { error } = JSON.parse(stderr)
        assert.deepInclude(error, { code, reason })
        assert.isString(error.message)
      }
      const { error } = JSON.parse((yield* run(["recall", "x", "--limit", "0", "--json"], { cwd })).stderr)
      assert.deepInclude(error, { code: 4, reason: "invalid_draft" })
      assert.isArray(error.detail.issues)
    }))
})

describe("a defect of effect-memory", () => {
  it.scopedLive("a defect is printed as one line with only the type of the error, and the exit code is 1", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      yield* told(["remember", "Drinks tea."], { cwd })
      // breaks a method that the command uses to print scores
      const hook = "data:text/javascript,Number.prototype.toFixed=()=>{throw new TypeError('hunter2')}"
      const env = { NODE_OPTIONS: `--import "${hook}"` }
      const { code, stderr, stdout } = yield* run(["recall", "tea"], { cwd, env })
      assert.deepStrictEqual([code, stdout, stderr], [1, "", "effect-memory: an internal error (TypeError)\n"])
    }))
})

describe("effect-memory whose output is no longer read", () => {
  it.scopedLive("a command whose output is no longer read exits with 0 and prints no message", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      const body = "word ".repeat(10_000)
      for (let n = 0; n < 4; n++) yield* told(["remember", "-", "--kind", "note"], { cwd, input: `${n} ${body}` })
      const line = `"${process.execPath}" "${file}" list --json | head -c 10; echo "code \${PIPESTATUS[0]}" >&2`
      const { stderr } = yield* Effect.promise(async () => {
        const { spawnSync } = await import("node:child_process")
        return spawnSync("bash", ["-c", line], { cwd, encoding: "utf8" })
      })
      assert.strictEqual(stderr, "code 0\n")
    }))
})

it.scopedLive("`restore --revision 0` is refused and changes nothing; `--tag=a` sets a tag; `--json` after `--` is an argument", () =>
  Effect.gen(function*() {
    const cwd = yield* folder
    yield* told(["remember", "Drinks tea.", "--user", "ada", "--tag=hot", "--tag", "cold"], { cwd })
    const list = ["list", "--user", "ada", "--json"]
    const { items: [record] } = JSON.parse(yield* told(list, { cwd }))
    assert.deepStrictEqual(record.tags, ["hot", "cold"])
    const refused = yield* run(["restore", record.id, "--revision", "0", "--user", "ada"], { cwd })
    assert.deepStrictEqual([refused.code, refused.stdout], [4, ""])
    assert.include(refused.stderr, "--revision: expected a number of at least 1")
    assert.deepStrictEqual(JSON.parse(yield* told(list, { cwd })).items, [record])
    assert.notInclude((yield* run(["show", "--", "--json"], { cwd })).stderr, "{")
  }))

it("the executable effect-memory is one file, and its static imports are of Node's own modules", () => {
  const names = fs.readdirSync(path.dirname(file)).filter((name) =>
    !/^[a-z]+-[0-9a-f]{16}-[\d.]+-\w+\.cache(?:\.\d+)?$/.test(name)
  ) // see CodeCache.test.ts
  assert.deepStrictEqual(names.toSorted(), ["LICENSES.txt", "effect-memory.mjs"])
  const imports = Array.from(
    fs.readFileSync(file, "utf8").matchAll(/(?:^|[;}])import\b[^;"'()]*?(?:from)?["']([^"']+)["']/g),
    ([, from]) => from!
  )
  assert.isAbove(imports.length, 0)
  for (const from of imports) assert.isTrue(isBuiltin(from), from)
  assert.isTrue((fs.statSync(file).mode & 0o111) !== 0)
  assert.include(fs.readFileSync(path.join(root, "dist/cli/LICENSES.txt"), "utf8"), "effect 3.")
  assert.strictEqual(stores.length, 3)
})
