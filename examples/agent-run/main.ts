/** `npm start [-- FOLDER]`: two processes, one after the other, that have nothing in common but the vault. */
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import * as Command from "@effect/platform/Command"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"
import { resolve } from "node:path"
import { fileURLToPath } from "node:url"
import { fail, title } from "./Stage.ts"

const [argument] = process.argv.slice(2)
const folder = argument === undefined ? [] : [resolve(process.env["INIT_CWD"] ?? ".", argument)] // npm has gone elsewhere

const run = (program: string) =>
  Command.make(process.execPath, fileURLToPath(new URL(program, import.meta.url)), ...folder).pipe(
    Command.stdin("inherit"),
    Command.stdout("inherit"),
    Command.stderr("inherit"),
    Command.exitCode,
    Effect.filterOrFail((code) => code === 0, (code) => `${program} ended with ${code}`)
  )

const main = Effect.gen(function*() {
  yield* title("effect-memory: an agent remembers, restarts and recalls")
  if (folder.some((name) => !existsSync(name))) return yield* Effect.fail(`there is no folder ${folder[0]}`)
  yield* run("./first.js")
  yield* run("./second.js")
})

main.pipe(
  Effect.catchAll((problem) => Effect.zipRight(fail(String(problem)), Effect.sync(() => (process.exitCode = 1)))),
  Effect.provide(NodeContext.layer),
  NodeRuntime.runMain
)
