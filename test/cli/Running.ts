/** Runs the built command in child processes and temporary folders. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as path from "node:path"
import { text } from "node:stream/consumers"
import * as Server from "../postgres/Server.ts"
import { place as folder } from "../vault/Place.ts"

export { place as folder } from "../vault/Place.ts"

export const root = path.join(import.meta.dirname, "../..")
export const file = path.join(root, "dist/cli/effect-memory.mjs")

export interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface Options {
  readonly cwd?: string | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
  readonly input?: string | undefined
  /** Path of the program that `run` starts; `onTerminal` and `execute` ignore it. Default: the built command. */
  readonly bin?: string | undefined
  /** Sends the signal `signal`, or types the text `type`, when the output matches `when`. */
  readonly react?: { readonly when: RegExp; readonly signal?: NodeJS.Signals; readonly type?: string } | undefined
}

/** Runs a program. Asserts that its output has no stack trace. */
export const execute = (program: string, args: ReadonlyArray<string>, options: Options = {}): Effect.Effect<Ran> =>
  Effect.promise(async () => {
    const child = spawn(program, args, {
      cwd: options.cwd,
      stdio: ["pipe", "pipe", "pipe"],
      env: { PATH: process.env["PATH"], HOME: process.env["HOME"], TMPDIR: process.env["TMPDIR"], ...options.env }
    })
    child.stdin.on("error", () => {})
    const { react } = options
    if (react?.type === undefined) child.stdin.end(options.input ?? "")
    if (react !== undefined) {
      let said = ""
      let isDone = false
      for (const stream of [child.stdout, child.stderr]) {
        stream.on("data", (chunk) => {
          said += String(chunk)
          if (isDone || !react.when.test(said)) return
          isDone = true
          if (react.signal !== undefined) child.kill(react.signal)
          if (react.type !== undefined) child.stdin.write(react.type)
        })
      }
    }
    child.on("exit", () => child.stdin.end())
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")])
    assert.notMatch(stderr, /^\s+at .+:\d+/m)
    assert.notMatch(stdout, /^\s+at .+:\d+:\d+\)?$/m)
    return { code, stdout, stderr }
  })

/** Runs the command `effect-memory`. */
export const run = (args: ReadonlyArray<string>, options: Options = {}): Effect.Effect<Ran> =>
  execute(process.execPath, [options.bin ?? file, ...args], options)

/** Runs the command `effect-memory`, asserts that it succeeds, and returns its output. */
export const told = (args: ReadonlyArray<string>, options: Options = {}): Effect.Effect<string> =>
  Effect.map(run(args, options), ({ code, stderr, stdout }) => {
    assert.strictEqual(code, 0, `${args.join(" ")}: ${stderr}`)
    return stdout
  })

/**
 * Runs the command with `--json`, asserts that it succeeds, and decodes its answer by a schema. Dies if the answer has a field that the
 * schema lacks.
 */
export const answered = <A, I>(
  schema: Schema.Schema<A, I>,
  args: ReadonlyArray<string>,
  options: Options = {}
): Effect.Effect<A> =>
  Effect.map(
    told([...args, "--json"], options),
    Schema.decodeSync(Schema.parseJson(schema), { onExcessProperty: "error" })
  )

/**
 * Runs the command on a terminal that `script` of util-linux makes, and types the input of the options. Returns the exit code and the whole
 * output.
 */
export const onTerminal = (
  args: ReadonlyArray<string>,
  options: Options = {}
): Effect.Effect<{ readonly code: number | null; readonly screen: string }> =>
  Effect.map(
    execute(
      "script",
      [
        "-qefc",
        [process.execPath, file, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" "),
        "/dev/null"
      ],
      options
    ),
    ({ code, stdout }) => ({ code, screen: stdout })
  )

/**
 * The durable kinds of stores. Each has a name, and an effect that returns the address of an empty place for a store. The place is cleared
 * when the scope closes.
 */
export const stores: ReadonlyArray<readonly [name: string, address: Effect.Effect<string, never, Scope.Scope>]> = [
  ["a vault", Effect.map(folder, (root) => `vault:${path.join(root, "memory")}`)],
  ["a SQLite file", Effect.map(folder, (root) => `sqlite:${path.join(root, "memory.db")}`)],
  [
    "PostgreSQL",
    Effect.map(Server.place, ({ schema, url }) => {
      const address = new URL(Redacted.value(url))
      address.searchParams.set("schema", schema)
      return address.href
    })
  ]
]

/** The bytes of all files below a folder, hidden folders included. */
export const bytesIn = (root: string): string =>
  fs.readdirSync(root, { recursive: true, encoding: "utf8" })
    .map((name) => path.join(root, name))
    .filter((file) => fs.statSync(file).isFile())
    .map((file) => fs.readFileSync(file, "latin1"))
    .join("\n")
