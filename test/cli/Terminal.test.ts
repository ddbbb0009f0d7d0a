import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as fs from "node:fs"
import * as path from "node:path"
import { excerpt } from "../../src/cli/Cards.ts"
import { Remembered, Shown } from "../../src/cli/commands/Records.ts"
import * as Formats from "../../src/cli/Formats.ts"
import { lineOf } from "../../src/cli/Progress.ts"
import { age, ansi, safe, safeLine, Screen } from "../../src/cli/Screen.ts"
import * as StoreAddress from "../../src/cli/StoreAddress.ts"
import { SearchResult } from "../../src/domain/MemoryFilter.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { MemoryStore } from "../../src/storage/MemoryStore.ts"
import { ada, draft } from "../../src/testing/Sample.ts"
import { answered, folder, onTerminal, run, told } from "./Running.ts"

/** Text with control sequences that change a terminal: colours, title, clipboard, cursor, bell, bidi marks, 8-bit controls. */
const hostile =
  "tea \u001b[31mred\u001b[0m \u001b]0;title\u0007 \u001b]52;c;aGk=\u0007 \u009b2J \u202egnp.exe \r overwritten \u0008\u0007 " +
  "zero\u200bwidth \u{e0041}"

// the sequences that the command prints itself: colours and styles
const painted = /\p{Cc}\[\d+m/gu
const obeyed = /(?![\t\n\r])[\p{Cc}\u200b\u202a-\u202e\u{e0000}-\u{e0fff}]/u

describe("remembered text in the output of effect-memory", () => {
  it.scopedLive("commands such as `recall` print remembered text without control characters to a pipe, to a terminal and as JSON", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      const { record: { body, id } } = yield* answered(Remembered, [
        "remember",
        hostile,
        "--kind",
        "note",
        "--tag",
        "a\u001b[2Jb",
        "--user",
        "ada"
      ], { cwd })
      assert.strictEqual(body, hostile)
      const viewer = ["--user", "ada"]
      const lines = [
        ["recall", "tea"],
        ["list"],
        ["show", id],
        ["history", id],
        ["index"],
        ["stats"],
        ["doctor"],
        ["verify"],
        ["why", id, "\u001b[2Jtea"],
        ["forget", "\u001b[2J"],
        ["show", "\u001b]0;x\u0007"],
        ["xyz\u001b[2J"],
        ["list", "--\u001b[2J"],
        ["recall", "--limit", "\u001b[2J"]
      ]
      for (const line of lines) {
        const { stderr, stdout } = yield* run([...line, ...viewer], { cwd })
        assert.notMatch(stdout, obeyed, line.join(" "))
        assert.notMatch(stderr, obeyed, line.join(" "))
        const json = yield* run([...line, ...viewer, "--json"], { cwd })
        assert.notMatch(json.stdout + json.stderr, obeyed, line.join(" "))
      }
      for (const line of lines.slice(0, 4)) {
        const { screen } = yield* onTerminal([...line, ...viewer], { cwd })
        assert.notMatch(screen.replace(painted, ""), obeyed, line.join(" "))
      }
      assert.strictEqual((yield* answered(Shown, ["show", id, ...viewer], { cwd })).record.body, hostile)
      assert.include(yield* told(["show", id, ...viewer], { cwd }), "\\u001b[31mred")
    }))

  it.scopedLive("`export` escapes invisible characters in its lines of JSON on a terminal, but not in a pipe or a file", () =>
    Effect.gen(function*() {
      const store: StoreAddress.StoreAddress = { _tag: "Vault", root: yield* folder }
      yield* Effect.flatMap(MemoryStore, (memory) => memory.put(ada, [draft(hostile)])).pipe(
        Effect.provide(StoreAddress.layer(store, { create: true }))
      )
      const exported = (isTerminal: boolean, path?: string) =>
        Effect.gen(function*() {
          let text = ""
          const screen = Screen.of({
            out: (part) => Effect.sync(() => void (text += part)),
            err: () => Effect.void,
            input: () => Effect.succeed(""),
            inputBytes: Stream.empty,
            ask: () => Effect.succeed(false),
            isTerminal,
            isErrorTerminal: false,
            canAsk: false,
            columns: 80,
            paint: (_, text) => text,
            version: "",
            env: () => undefined
          })
          const { write } = Formats.all.find(({ name }) => name === "jsonl")! // a format of this name exists
          const shared = { store, viewer: Viewer.make({}), tenant: Option.none(), json: false }
          yield* write!({ path, shared, vectors: false }).pipe(Effect.provideService(Screen, screen)) // it can be written
          return text
        })
      const [shown, piped] = [yield* exported(true), yield* exported(false)]
      assert.match(piped, obeyed)
      assert.notMatch(shown, obeyed)
      const parsed = (text: string) => text.trimEnd().split("\n").map((line) => JSON.parse(line))
      assert.deepStrictEqual(parsed(shown), parsed(piped))
      const file = path.join(yield* folder, "all.jsonl")
      yield* exported(true, file)
      assert.strictEqual(fs.readFileSync(file, "utf8"), piped)
    }).pipe(Effect.provide(NodeContext.layer)))

  it("control characters in remembered text are escaped; line feeds and tabs stay, and CR LF becomes a line feed", () => {
    assert.strictEqual(safe("a\u001b[31mb\r\nc\td\u009b\u202e\u{e0041}"), "a\\u001b[31mb\nc\td\\u009b\\u202e\\u{e0041}")
    assert.strictEqual(safe("👩‍👩‍👧 नमस्‌ते é"), "👩‍👩‍👧 नमस्‌ते é")
    assert.strictEqual(safeLine("  a\n\n b\u0000 "), "a b\\u0000")
    assert.strictEqual(safe("\ud800"), "\\ud800")
  })
})

describe("effect-memory on a terminal", () => {
  it.scopedLive("`recall --explain` on a terminal prints the score bar, age and term scores of a hit, with the matching word in colour", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      yield* told(["remember", "Drinks tea, never coffee."], { cwd })
      const { code, screen } = yield* onTerminal(["recall", "teas", "--explain"], { cwd })
      assert.strictEqual(code, 0)
      assert.include(screen, "██████████")
      assert.include(screen, `Drinks ${ansi("yellow", ansi("bold", "tea"))}, never coffee.`)
      assert.match(screen, /just now|minutes? ago/)
      assert.match(screen, /term:tea \d\.\d/)
    }))

  it.scopedLive("colours are printed only if stdout is a terminal and `NO_COLOR` is not set", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      yield* told(["remember", "Drinks tea, never coffee."], { cwd })
      for (const line of [["recall", "tea"], ["list"], ["--help"], ["recall", "--help"], ["stats"], ["doctor"]]) {
        assert.include((yield* onTerminal(line, { cwd })).screen, "\u001b[")
        // on a terminal without colour, only cursor movements of the progress line are left
        assert.notMatch((yield* onTerminal(line, { cwd, env: { NO_COLOR: "1" } })).screen, painted)
        assert.notInclude(yield* told(line, { cwd }), "\u001b")
      }
    }))

  it.scopedLive("`forget --purge` on a terminal asks before it erases, and erases nothing if the answer is no", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      yield* told(["remember", "Drinks tea.", "--user", "ada"], { cwd })
      const asked = (input: string) => onTerminal(["forget", "--user", "ada", "--purge"], { cwd, input })
      const count = Effect.map(
        answered(SearchResult, ["recall", "tea", "--user", "ada"], { cwd }),
        ({ hits }) => hits.length
      )
      const no = yield* asked("n\r")
      assert.match(
        no.screen,
        /Erase 1 record, 0 tombstones and 0 rows of conversations of user ada, for good\? \[y\/N\]/
      )
      assert.deepStrictEqual([no.code, yield* count], [1, 1])
      const yes = yield* asked("y\r")
      assert.include(yes.screen, "erased 1 record")
      assert.deepStrictEqual([yes.code, yield* count], [0, 0])
    }))

  it.scopedLive("`copy` shows its progress on a terminal; if stderr is not a terminal, `copy` prints nothing on stderr", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      yield* told(["remember", "Drinks tea."], { cwd })
      const { screen } = yield* onTerminal(["copy", "vault:copy"], { cwd })
      assert.match(screen, /1 of 1 records/)
      assert.strictEqual((yield* run(["copy", "vault:third"], { cwd })).stderr, "")
    }))
})

it("an excerpt contains the query's word, even in text without spaces, and is at most the given length, not counting ellipses", () => {
  const isAsked = (word: string) => word === "engine"
  const run = "a/".repeat(60)
  const texts = [
    `${"aaa ".repeat(100)}https://example.com/${run}engine/x ${"bbb ".repeat(100)}`,
    `${"aaa ".repeat(100)}https://example.com/${run}engine/x`,
    `${"aaa ".repeat(100)}https://example.com/${run}engine/x/${run}`,
    `https://example.com/${run}engine/${run}`,
    `engine/${run}`,
    `${"aaa ".repeat(100)}engine`,
    `${"aaa ".repeat(100)}engine ${"bbb ".repeat(100)}`
  ]
  for (const text of texts) {
    const line = excerpt(text, isAsked, 100)
    assert.include(line, "engine", text)
    assert.isAtMost(line.replaceAll(/^… | …$/g, "").length, 100, text)
  }
  assert.strictEqual(excerpt(texts.at(-1)!, isAsked, 20), "… aaa engine bbb bbb …")
  assert.strictEqual(excerpt(run, isAsked, 10), "a/a/a/a/a/ …")
  assert.include(excerpt(`aaa ${"e".repeat(90)}`, (word) => word.startsWith("e"), 92), "e".repeat(90))
})

it("an age is printed in the largest unit of time that fits, such as 2 hours ago", () => {
  const now = 1_800_000_000_000
  const ages = [
    [0, "just now"],
    [59, "just now"],
    [60, "1 minute ago"],
    [7_200, "2 hours ago"],
    [86_400, "1 day ago"],
    [700_000, "1 week ago"],
    [-7_200, "in 2 hours"],
    [4e7, "1 year ago"]
  ] as const
  for (const [seconds, words] of ages) assert.strictEqual(age(now - seconds * 1_000, now), words)
})

it("a progress line shows the rate and, if the total is known, the percentage and the remaining time", () => {
  const line = { doing: "copying", done: 250, elapsed: 1_000, noun: "records" }
  assert.strictEqual(lineOf({ ...line, total: 1_000 }), "copying: 250 of 1,000 records · 25% · 250/s · 3 s left")
  assert.strictEqual(lineOf({ ...line, total: undefined }), "copying: 250 records · 250/s")
  assert.strictEqual(
    lineOf({ ...line, total: 1e6, doing: "" }),
    "250 of 1,000,000 records · 0% · 250/s · 1 h 6 min left"
  )
})
