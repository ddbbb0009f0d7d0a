import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as fs from "node:fs"
import * as path from "node:path"
import { Examined } from "../../src/cli/commands/Care.ts"
import { Copied } from "../../src/cli/commands/Copy.ts"
import { Erased } from "../../src/cli/commands/Forget.ts"
import { Stats } from "../../src/cli/commands/Stats.ts"
import { Restored } from "../../src/cli/Formats.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { MemoryStore } from "../../src/storage/MemoryStore.ts"
import * as Markdown from "../../src/storage/MemoryStore/Markdown.ts"
import { answered, folder, onTerminal, run, stores, told } from "./Running.ts"

const count = 2_000
const ctrlC = "\u0003"

/** Makes a vault with `count` notes of ada, closes it, and returns its folder. */
const filled = Effect.gen(function*() {
  const root = path.join(yield* folder, "full")
  yield* Effect.scoped(Effect.gen(function*() {
    const store = Context.get(yield* Layer.build(Markdown.layer({ root })), MemoryStore)
    const drafts = Array.from(
      { length: count },
      (_, n) => ({ scope: { userId: "ada" }, kind: "note", body: `note ${n}, in words` })
    )
    for (let at = 0; at < count; at += 500) yield* store.put(Viewer.everyone(), drafts.slice(at, at + 500))
  }))
  return root
}).pipe(Effect.provide(NodeContext.layer))

/**
 * Repeats an attempt until the command is interrupted before its end. The command `copy` must be interrupted before it compares the stores.
 */
const untilStopped = <A extends { readonly code: number | null; readonly screen: string }, E, R>(
  attempt: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.flatMap(
    attempt,
    (ran) => ran.code === 0 || ran.screen.includes("while comparing") ? untilStopped(attempt) : Effect.succeed(ran)
  )

describe("Ctrl-C in effect-memory", () => {
  it.scopedLive.each(stores)(
    "Ctrl-C during a copy to %s prints where the copy stopped and leaves the target sound, and the next run continues",
    ([, target]) =>
      Effect.gen(function*() {
        const from = yield* filled
        const { code, line, screen, to } = yield* untilStopped(Effect.gen(function*() {
          const to = yield* target
          const line = ["copy", to, "--batch", "20", "--store", `vault:${from}`]
          return { line, to, ...yield* onTerminal(line, { react: { when: /copying: \d/, type: ctrlC } }) }
        }))
        assert.strictEqual(code, 130, screen)
        assert.match(screen, /effect-memory: interrupted/)
        assert.match(
          screen,
          /stopped while copying tenant default, after [\d,]+ records?; [\d,]+ written\. The same command goes on from there/
        )
        const { tenants: [half] } = yield* answered(Stats, ["stats", "--store", to])
        assert.isAbove(half!.records, 0)
        assert.isBelow(half!.records, count)
        assert.isTrue((yield* answered(Examined, ["doctor", "--store", to])).isHealthy)
        const rest = yield* answered(Copied, line)
        assert.deepInclude(rest, { records: count, written: count - half!.records, verified: true })
      })
  )

  it.scopedLive("Ctrl-C at a question ends the command with 130; Ctrl-D answers no; neither erases anything", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      yield* told(["remember", "Drinks tea.", "--user", "ada"], { cwd })
      for (const [type, code] of [[ctrlC, 130], ["\u0004", 1], ["n\n", 1]] as const) {
        const react = { when: /\[y\/N\]/, type }
        const ended = yield* onTerminal(["forget", "--user", "ada", "--purge"], { cwd, react })
        assert.strictEqual(ended.code, code, ended.screen)
        assert.include(yield* told(["list", "--user", "ada"], { cwd }), "Drinks tea.")
      }
      const yes = { when: /\[y\/N\]/, type: "y\n" }
      assert.strictEqual((yield* onTerminal(["forget", "--user", "ada", "--purge"], { cwd, react: yes })).code, 0)
      assert.notInclude(yield* told(["list", "--user", "ada"], { cwd }), "Drinks tea.")
    }))

  it.scopedLive("an export stopped by Ctrl-C leaves no file; a stopped import is continued by the next run", () =>
    Effect.gen(function*() {
      const from = `vault:${yield* filled}`
      const place = yield* folder
      const stopped = yield* untilStopped(
        onTerminal(["export", path.join(place, "half.jsonl"), "--store", from], {
          react: { when: /writing: \d[\d,]* of 2,0\d\d records · \d+% · [\d,]+\/s · .* left/, type: ctrlC }
        })
      )
      assert.strictEqual(stopped.code, 130, stopped.screen)
      assert.match(stopped.screen, /stopped after [\d,]+ records?\. The same command begins again/)
      assert.deepStrictEqual(fs.readdirSync(place), [])
      const file = path.join(place, "whole.jsonl")
      yield* told(["export", file, "--store", from])
      const { line, screen, to } = yield* untilStopped(Effect.gen(function*() {
        const to = `vault:${path.join(yield* folder, "to")}`
        const line = ["import", file, "--store", to]
        return { line, to, ...yield* onTerminal(line, { react: { when: /reading: \d/, type: ctrlC } }) }
      }))
      assert.match(screen, /reading: [\d,]+ of [\d,]+ bytes · \d+% · [\d,]+\/s/)
      assert.match(screen, /stopped after [\d,]+ records?\. The same command goes on from there/)
      assert.isTrue((yield* answered(Examined, ["doctor", "--store", to])).isHealthy)
      const rest = yield* answered(Restored, line)
      assert.deepInclude(rest, { records: count, complete: true })
      assert.isBelow(rest.written, count)
      assert.strictEqual(yield* told(["export", "--store", to]), fs.readFileSync(file, "utf8"))
    }))

  it.scopedLive("`forget --purge` stopped by Ctrl-C prints how many rows it erased, and the next run erases the rest", () =>
    Effect.gen(function*() {
      const { code, line, screen } = yield* untilStopped(Effect.gen(function*() {
        const line = ["forget", "--user", "ada", "--purge", "--yes", "--store", `vault:${yield* filled}`]
        return { line, ...yield* onTerminal(line, { react: { when: /erasing: \d/, type: ctrlC } }) }
      }))
      assert.strictEqual(code, 130, screen)
      assert.match(screen, /stopped after \d+ of 2,000 rows; the same command erases the rest/)
      const { erased, scan } = yield* answered(Erased, line)
      assert.isAbove(erased.records, 0)
      assert.isBelow(erased.records, count)
      assert.deepStrictEqual(scan, { rows: 0, remaining: 0 })
    }))
})

describe("a signal to effect-memory", () => {
  it.scopedLive.each([["SIGINT", 130], ["SIGTERM", 143], ["SIGHUP", 143]] as const)(
    "the signal %s ends a running server",
    ([signal, code]) =>
      Effect.gen(function*() {
        const cwd = yield* folder
        const ran = yield* run(["serve", "--http", "--port", "0", "--user", "ada"], {
          cwd,
          react: { when: /listening at/, signal }
        })
        assert.strictEqual(ran.code, code, ran.stderr)
        assert.strictEqual(ran.stdout, "")
        assert.match(ran.stderr, /listening at http:\/\/127\.0\.0\.1:\d+\/mcp\n/)
        assert.strictEqual(yield* told(["list"], { cwd }), "")
      })
  )
})
