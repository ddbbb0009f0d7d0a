/** Runs the command line of `effect-memory` in this process, and exits with its exit code. `launcher.ts` runs this module. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import * as NodeTerminal from "@effect/platform-node/NodeTerminal"
import { FileSystem } from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { createInterface } from "node:readline"
import { MemoryError } from "../domain/MemoryError.ts"
import { NodeFiles } from "../storage/MemoryStore/Markdown/DirectFiles.ts"
import * as App from "./App.ts"
import { type ExitCode, exitCodes } from "./CommandError.ts"
import * as Screen from "./Screen.ts"

/** Error code of the first failed write to stdout, if any. `EPIPE` means that the reader of stdout has closed the pipe. */
let lost: string | undefined
process.stdout.on("error", ({ code = "EIO" }: NodeJS.ErrnoException) => {
  lost ??= code
})
process.stderr.on("error", () => undefined)

const write = (stream: NodeJS.WriteStream) => (text: string): Effect.Effect<void> =>
  Effect.async<void>((resume) => {
    stream.write(text, (error) => resume(error ? Effect.interrupt : Effect.void))
  })

const inputBytes = Stream.suspend(() =>
  Stream.orDie(Stream.fromAsyncIterable<Uint8Array, unknown>(process.stdin, (error) => error))
)

const input = (longest: number) =>
  Effect.suspend(() => {
    const chunks: Array<Uint8Array> = []
    let length = 0
    const addChunk = (chunk: Uint8Array) => {
      chunks.push(chunk)
      length += chunk.length
      return length > longest ? Effect.fail("too long" as const) : Effect.void
    }
    return Effect.flatMap(Stream.runForEach(inputBytes, addChunk), () => {
      const text = Screen.decodeUtf8(Buffer.concat(chunks))
      return text === undefined ? Effect.fail("not UTF-8" as const) : Effect.succeed(text)
    })
  })

/**
 * Reads a line from the terminal. The end of the input (Ctrl-D) counts as an empty line. `terminal: false` leaves the terminal in its usual
 * mode, in which Ctrl-C sends a signal to the process.
 */
const answer = Effect.async<string>((resume) => {
  const lines = createInterface({ input: process.stdin, terminal: false })
  lines.once("line", (line) => {
    resume(Effect.succeed(line))
    lines.close()
  })
  lines.once("close", () => resume(Effect.succeed("")))
  return Effect.sync(() => lines.close())
})

const isColoured = process.stdout.isTTY === true && !process.env["NO_COLOR"] && process.env["TERM"] !== "dumb"
const err = write(process.stderr)

const screen: Screen.Service = {
  out: write(process.stdout),
  err,
  input,
  inputBytes,
  ask: (question) => Effect.map(Effect.zipRight(err(question), answer), (line) => /^y(?:es)?$/i.test(line.trim())),
  isTerminal: process.stdout.isTTY === true,
  isErrorTerminal: process.stderr.isTTY === true,
  canAsk: process.stdin.isTTY === true && process.stderr.isTTY === true,
  columns: process.stdout.columns || 80,
  paint: (style, text) => isColoured ? Screen.ansi(style, text) : text,
  version: process.env["EFFECT_MEMORY_VERSION"] ?? "0.0.0", // the bundler replaces this variable by the version
  env: (name) => process.env[name] || undefined
}

/** Prints the library's warnings and errors to stderr, one line each. Causes are left out, since they may contain a user's words. */
const logger = Logger.make(({ logLevel, message }) => {
  if (LogLevel.lessThan(logLevel, LogLevel.Warning)) return
  const parts = (Array.isArray(message) ? message : [message]).flatMap((part: unknown) =>
    part instanceof MemoryError ? [`${part.reason}: ${part.message}`] : typeof part === "string" ? [part] : []
  )
  process.stderr.write(`effect-memory: ${Screen.safeLine(parts.join(": "))}\n`)
})

const Own = Layer.effect(NodeFiles, Effect.map(FileSystem, Option.some))
const Platform = Layer.mergeAll(
  Layer.provideMerge(Own, NodeFileSystem.layer),
  NodePath.layer,
  NodeTerminal.layer,
  Layer.succeed(Screen.Screen, screen),
  Logger.replace(Logger.defaultLogger, logger)
)

const fiber = Effect.runFork(Effect.provide(App.run(process.argv.slice(2)), Platform))

let signal: ExitCode | undefined
/**
 * Makes a signal handler. The first signal interrupts the command, whose finalizers still run. A second signal ends the process at once.
 */
const stop = (code: ExitCode) => () => {
  if (signal !== undefined) process.exit(code)
  signal = code
  process.stderr.write("effect-memory: interrupted\n")
  Effect.runFork(Fiber.interruptFork(fiber))
}
process.on("SIGINT", stop(exitCodes.interrupted))
process.on("SIGTERM", stop(exitCodes.terminated))
process.on("SIGHUP", stop(exitCodes.terminated))
// a database driver may throw outside of any fiber
process.on("uncaughtException", (error: Error) => {
  process.stderr.write(
    `effect-memory: an internal error (${Screen.safeLine(error.name)})\n`,
    () => process.exit(exitCodes.failed)
  )
})

/**
 * Returns the exit code of the process. A closed pipe of stdout (`EPIPE`) counts as success. If a write to stdout failed for another
 * reason, prints an error and returns `unavailable`.
 */
const codeOf = (exit: Exit.Exit<ExitCode>): ExitCode => {
  if (lost === "EPIPE") return exitCodes.done
  if (lost !== undefined) {
    process.stderr.write(`effect-memory: the output cannot be written (${Screen.safeLine(lost)})\n`)
    return exitCodes.unavailable
  }
  return Exit.isSuccess(exit) ? exit.value : signal ?? exitCodes.failed
}

fiber.addObserver((exit) => {
  // waits until all output is flushed, and then exits
  process.stdout.write("", () => {
    const code = codeOf(exit)
    process.stderr.write("", () => process.exit(code))
  })
})
