/** Runs a command line: loads the module of the named command, and runs the command. An error is printed once. */
import * as AutoCorrect from "@effect/cli/AutoCorrect"
import * as CliConfig from "@effect/cli/CliConfig"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { type Command, type Failure, type Services, sharedWithValue } from "./Command.ts"
import * as CommandError from "./CommandError.ts"
import * as Screen from "./Screen.ts"

/** The name of a command and a function that loads it. */
export interface Entry {
  readonly name: string
  readonly load: () => Promise<Command>
}

const records = () => import("./commands/Records.ts")
const prompts = () => import("./commands/Prompts.ts")
const transfer = () => import("./commands/Transfer.ts")
const care = () => import("./commands/Care.ts")
const search = () => import("./commands/Search.ts")

/** All commands, in the order of the help page. A command's module is loaded only for the command, the help page or `completions`. */
export const entries: ReadonlyArray<Entry> = [
  { name: "remember", load: () => records().then(({ remember }) => remember) },
  { name: "recall", load: () => search().then(({ recall }) => recall) },
  { name: "why", load: () => search().then(({ why }) => why) },
  { name: "list", load: () => records().then(({ list }) => list) },
  { name: "show", load: () => records().then(({ show }) => show) },
  { name: "history", load: () => records().then(({ history }) => history) },
  { name: "forget", load: () => import("./commands/Forget.ts").then(({ forget }) => forget) },
  { name: "restore", load: () => records().then(({ restore }) => restore) },
  { name: "index", load: () => prompts().then(({ index }) => index) },
  { name: "instructions", load: () => prompts().then(({ instructions }) => instructions) },
  { name: "import", load: () => transfer().then(({ importing }) => importing) },
  { name: "export", load: () => transfer().then(({ exporting }) => exporting) },
  { name: "copy", load: () => import("./commands/Copy.ts").then(({ copy }) => copy) },
  { name: "verify", load: () => care().then(({ verify }) => verify) },
  { name: "repair", load: () => care().then(({ repair }) => repair) },
  { name: "doctor", load: () => care().then(({ doctor }) => doctor) },
  { name: "stats", load: () => import("./commands/Stats.ts").then(({ stats }) => stats) },
  { name: "serve", load: () => import("./commands/Serve.ts").then(({ serve }) => serve) },
  { name: "completions", load: () => import("./commands/Completions.ts").then(({ completions }) => completions) }
]

/** Runs a command line, and returns the exit code. Errors and defects become exit codes. Only an interruption is passed on. */
export const run = (args: ReadonlyArray<string>): Effect.Effect<CommandError.ExitCode, never, Services> =>
  dispatch(args).pipe(
    Effect.as(CommandError.exitCodes.done),
    Effect.catchAll((error) => Effect.as(report(error, isJsonOf(args)), CommandError.codeOf(error))),
    Effect.catchAllCause((cause) =>
      Cause.isInterruptedOnly(cause)
        ? Effect.failCause(cause)
        : Effect.as(defect(cause), CommandError.exitCodes.failed)
    )
  )

/** Whether errors are printed as JSON: whether `--json` is among the words before `--`. */
const isJsonOf = (args: ReadonlyArray<string>): boolean => {
  const end = args.indexOf("--")
  return args.some((word, at) => (word === "--json" || word === "--json=true") && (end < 0 || at < end))
}

const dispatch = (args: ReadonlyArray<string>): Effect.Effect<void, Failure, Services> =>
  Effect.gen(function*() {
    const { name, rest } = split(args)
    const end = rest.indexOf("--")
    const options = end < 0 ? rest : rest.slice(0, end)
    const isAsking = options.includes("--help") || options.includes("-h")
    if (name === undefined && options.includes("--version")) {
      return yield* Effect.flatMap(Screen.Screen, ({ version }) => print(version))
    }
    if (name === undefined || name === "help") {
      const named = name === "help" ? rest.find((word) => !word.startsWith("-")) : undefined
      if (named !== undefined) return yield* page(yield* find(named))
      if (name === undefined && !isAsking) {
        const { text } = yield* overview
        yield* say(text)
        return yield* CommandError.make("usage", "")
      }
      return yield* Effect.flatMap(overview, ({ text }) => print(text))
    }
    const command = yield* find(name)
    if (isAsking) return yield* page(command)
    yield* command.run(rest)
  })

/** Splits a command line into the name of the command and the other words. Shared options may come before the name. */
const split = (
  args: ReadonlyArray<string>
): { readonly name: string | undefined; readonly rest: ReadonlyArray<string> } => {
  let at = 0
  while (at < args.length && args[at]!.startsWith("-") && args[at] !== "--") {
    at += sharedWithValue.has(args[at]!)
      ? 2
      : 1
  }
  const isNamed = at < args.length && args[at] !== "--"
  return { name: isNamed ? args[at] : undefined, rest: isNamed ? [...args.slice(0, at), ...args.slice(at + 1)] : args }
}

const find = (name: string): Effect.Effect<Command, CommandError.CommandError> => {
  const entry = entries.find((entry) => entry.name === name)
  if (entry !== undefined) return Effect.promise(entry.load)
  const near = entries
    .map((entry) => ({
      name: entry.name,
      far: AutoCorrect.levensteinDistance(name, entry.name, CliConfig.defaultConfig)
    }))
    .filter(({ far }) => far <= 2)
    .sort((a, b) => a.far - b.far)
  return CommandError.make(
    "usage",
    `there is no command ${name}`,
    near[0] === undefined ? "effect-memory --help" : `did you mean ${near[0].name}?`
  )
}

const help = Effect.promise(() => import("./Help.ts"))

const overview = Effect.gen(function*() {
  const { overview } = yield* help
  const commands = yield* Effect.promise(() => Promise.all(entries.map(({ load }) => load())))
  return { text: overview(commands, yield* Screen.Screen) }
})

const page = (command: Command) =>
  Effect.gen(function*() {
    const { page } = yield* help
    yield* print(page(command, yield* Screen.Screen))
  })

const print = (text: string) => Effect.flatMap(Screen.Screen, (screen) => screen.out(`${text}\n`))
const say = (text: string) => Effect.flatMap(Screen.Screen, (screen) => screen.err(`${text}\n`))

const report = (error: Failure, isJson: boolean): Effect.Effect<void, never, Screen.Screen> => {
  if (error.message === "") return Effect.void
  if (isJson) return say(Screen.json(CommandError.encode(error)))
  const hint = error._tag === "CommandError" ? error.hint : undefined
  const id = error._tag === "MemoryError" && error.id !== undefined ? ` (${error.id})` : ""
  return say(Screen.safe(`effect-memory: ${error.message}${id}${hint === undefined ? "" : `\n  ${hint}`}`))
}

/**
 * Prints one line about an internal error (a bug). The line has only the class of the error, since the message may contain words of a user.
 */
const defect = (cause: Cause.Cause<never>): Effect.Effect<void, never, Screen.Screen> => {
  const error = Cause.squash(cause)
  return say(
    `effect-memory: an internal error (${Screen.safeLine(error instanceof Error ? error.name : typeof error)})`
  )
}
