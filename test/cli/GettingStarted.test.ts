/**
 * Runs the commands of Getting started in docs/cli.md, with only the packed tarball installed. Also checks that the page mentions all
 * commands, shared options and exit codes.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { execute, folder, root } from "./Running.ts"

const page = fs.readFileSync(path.join(root, "docs/cli.md"), "utf8")
const section = page.split("\n## Getting started\n")[1]!.split("\n## ")[0]!
const fences = Array.from(
  section.matchAll(/^```(sh|text)\n([^]*?)^```$/gm),
  ([, language, text]) => ({ language, text: text! })
)

/** Makes the pattern that the output must match for a line of the page: times and ids may differ. */
const patternOf = (line: string): RegExp =>
  new RegExp(
    `^${
      line.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
        .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\\\.\d{3}Z/, "\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z")
        .replace(/01[0-9A-Z]{24}/, "[0-9A-Z]{26}")
    }$`,
    "m"
  )

/** Makes an empty folder with the tarball unpacked as npm does it, but without dependencies. */
const installed = Effect.map(folder, (cwd) => {
  const at = path.join(cwd, "node_modules/effect-memory")
  fs.mkdirSync(path.join(cwd, "node_modules/.bin"), { recursive: true })
  fs.mkdirSync(at)
  const [packed] = JSON.parse(
    execFileSync("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", cwd], {
      cwd: root,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"]
    })
  )
  execFileSync("tar", ["-xzf", path.join(cwd, packed.filename), "-C", at, "--strip-components=1"])
  fs.rmSync(path.join(cwd, packed.filename))
  const { bin } = JSON.parse(fs.readFileSync(path.join(at, "package.json"), "utf8"))
  fs.symlinkSync(path.join("../effect-memory", bin["effect-memory"]), path.join(cwd, "node_modules/.bin/effect-memory"))
  return cwd
})

describe("docs/cli.md", () => {
  it.scopedLive("the commands of Getting started run offline, and print the output that the page shows", () =>
    Effect.gen(function*() {
      const cwd = yield* installed
      const program = fences.filter(({ language }) => language === "sh").map(({ text }) => text).join("\n")
      assert.isAbove(program.split("npx effect-memory").length, 10)
      const { code, stderr, stdout } = yield* execute("bash", ["--norc", "-euo", "pipefail", "-c", program], {
        cwd,
        env: {
          npm_config_offline: "true",
          npm_config_yes: "false",
          npm_config_cache: path.join(cwd, ".npm"),
          npm_config_update_notifier: "false"
        }
      })
      assert.strictEqual(code, 0, stderr + stdout)
      assert.strictEqual(stderr, "")
      const shown = fences.filter(({ language }) => language === "text")
      for (const { text } of shown) for (const line of text.trimEnd().split("\n")) assert.match(stdout, patternOf(line))
      assert.include(stdout, "verified: both sides are equal")
      assert.include(stdout, "nothing left")
      assert.includeMembers(fs.readdirSync(cwd), [".memory", "backup"])
    }))

  it.scopedLive("docs/cli.md mentions every command, every option that all commands share, and every exit code", () =>
    Effect.gen(function*() {
      const { stdout: overview } = yield* execute(process.execPath, [
        path.join(root, "dist/cli/effect-memory.mjs"),
        "--help"
      ])
      const part = (title: string) => overview.split(`\n${title}\n`)[1]!.split("\n\n")[0]!
      for (const [, name] of part("COMMANDS").matchAll(/^ {7}([a-z]+) /gm)) {
        assert.match(page, new RegExp(`^\\| .*\`${name}\\b`, "m"))
      }
      for (const [, name] of part("OPTIONS OF EVERY COMMAND").matchAll(/^ {7}(--[a-z]+)/gm)) {
        assert.include(page, `\`${name}`)
      }
      for (const [, code] of part("EXIT STATUS").matchAll(/^ {7}(\d+)/gm)) {
        assert.match(page, new RegExp(`^\\| ${code}\\b`, "m"))
      }
    }))
})
