import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { execute, folder, told } from "./Running.ts"

/** Completes the end of a line in a real bash; returns the suggestions. */
const completed = (line: string) =>
  Effect.gen(function*() {
    const cwd = yield* folder
    fs.writeFileSync(path.join(cwd, "script.bash"), yield* told(["completions", "bash"]))
    fs.writeFileSync(path.join(cwd, "a-file.db"), "")
    const words = line.split(" ")
    const program = `source ./script.bash
COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")})
COMP_CWORD=$(( \${#COMP_WORDS[@]} - 1 ))
_effect_memory
printf '%s\\n' "\${COMPREPLY[@]}"`
    const { code, stderr, stdout } = yield* execute("bash", ["--norc", "-c", program], { cwd })
    assert.deepStrictEqual([code, stderr], [0, ""])
    return stdout.split("\n").filter((word) => word !== "")
  })

describe("the bash completion of effect-memory", () => {
  it.scopedLive("the bash completion suggests commands, options of the typed command, values of an option, and files", () =>
    Effect.gen(function*() {
      assert.includeMembers(yield* completed("effect-memory "), [
        "remember",
        "recall",
        "doctor",
        "--store",
        "--version"
      ])
      assert.deepStrictEqual(yield* completed("effect-memory re"), ["remember", "recall", "restore", "repair"])
      assert.deepStrictEqual(yield* completed("effect-memory --user ada sta"), ["stats"])
      assert.includeMembers(yield* completed("effect-memory recall --"), [
        "--explain",
        "--kind",
        "--tag",
        "--limit",
        "--user",
        "--json",
        "--help"
      ])
      assert.notInclude(yield* completed("effect-memory recall --"), "--purge")
      assert.includeMembers(yield* completed("effect-memory forget --"), ["--purge", "--yes"])
      assert.deepStrictEqual(yield* completed("effect-memory recall --reach "), ["exact", "within", "everyone"])
      assert.deepStrictEqual(yield* completed("effect-memory recall --reach w"), ["within"])
      assert.deepStrictEqual(yield* completed("effect-memory recall --store v"), ["vault:"])
      assert.includeMembers(yield* completed("effect-memory completions z"), ["zsh"])
      assert.include(yield* completed("effect-memory import a-"), "a-file.db")
    }))
})

describe("the zsh and fish completions of effect-memory", () => {
  it.scopedLive("the zsh and fish scripts describe commands and options, and offer the values of an option", () =>
    Effect.gen(function*() {
      const [zsh, fish] = [yield* told(["completions", "zsh"]), yield* told(["completions", "fish"])]
      assert.match(zsh, /^#compdef effect-memory\n/)
      assert.include(zsh, "'recall:search memories by words, best first'")
      assert.include(zsh, "'--explain[shows what each score is made of]'")
      assert.include(zsh, "(exact within everyone)")
      assert.include(zsh, "'(-y --yes)--yes[does not ask]'")
      assert.include(
        fish,
        "complete -c effect-memory -n '__fish_seen_subcommand_from recall' -l explain -d 'shows what each score is made of'"
      )
      assert.include(fish, "-s y -l yes")
      assert.include(fish, "-l reach -xa 'exact within everyone'")
      for (const name of ["import", "export", "instructions"]) {
        assert.include(fish, `complete -c effect-memory -n '__fish_seen_subcommand_from ${name}' -F\n`)
      }
      for (const line of fish.trimEnd().split("\n").slice(1)) assert.match(line, /^complete -c effect-memory /)
    }))
})
