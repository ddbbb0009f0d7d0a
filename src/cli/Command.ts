/**
 * Parts that all commands share: options, parsing, and the declaration of a command. The parser uses `Options` and `Args` of @effect/cli.
 * Its `Command` is not used, because it prints errors twice, exits with 1 for all errors, and prints stack traces.
 */
import * as Args from "@effect/cli/Args"
import * as CliConfig from "@effect/cli/CliConfig"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import type { Usage } from "@effect/cli/Usage"
import type { FileSystem } from "@effect/platform/FileSystem"
import type { Path } from "@effect/platform/Path"
import type { Terminal } from "@effect/platform/Terminal"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { MemoryError } from "../domain/MemoryError.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as CommandError from "./CommandError.ts"
import * as Screen from "./Screen.ts"
import * as StoreAddress from "./StoreAddress.ts"

/** The failures of a command. */
export type Failure = CommandError.CommandError | MemoryError
/** The services that a command may use. */
export type Services = Screen.Screen | FileSystem | Path | Terminal

/** The values of the options that every command has. */
export interface Shared {
  readonly store: StoreAddress.StoreAddress
  readonly viewer: Viewer.Viewer
  /** The tenant in Unicode form NFC, if `--tenant` was given. */
  readonly tenant: Option.Option<string>
  readonly json: boolean
}

/** The definition of a command, from which `make` makes the command. */
export interface Definition<O, A> {
  readonly name: string
  /** Summary: one line, without a full stop. */
  readonly summary: string
  /** Paragraphs of the help page. */
  readonly description: ReadonlyArray<string>
  readonly options: Options.Options<O>
  readonly args: Args.Args<A>
  /** Example command lines without `effect-memory`, each with its meaning. */
  readonly examples: ReadonlyArray<readonly [line: string, meaning: string]>
  readonly run: (
    input: { readonly options: O; readonly args: A; readonly shared: Shared }
  ) => Effect.Effect<void, Failure, Services | Scope.Scope>
}

/** A command that can be run, with the data from which its help page is made. */
export interface Command extends Pick<Definition<unknown, unknown>, "name" | "summary" | "description" | "examples"> {
  readonly run: (args: ReadonlyArray<string>) => Effect.Effect<void, Failure, Services>
  /** The options of this command, without the options that all commands have. */
  readonly options: Options.Options<unknown>
  readonly args: Args.Args<unknown>
}

/** Adds two texts of the help page to an option: its description, and a name for its value (`pseudoName`). */
export const valued = <A>(option: Options.Options<A>, pseudoName: string, description: string): Options.Options<A> =>
  option.pipe(Options.withPseudoName(pseudoName), Options.withDescription(description))

const optional = (name: string, pseudoName: string, description: string) =>
  valued(Options.text(name), pseudoName, description).pipe(Options.optional)

/** The options that all commands have. They may stand before the name of the command or after it. */
export const sharedOptions = Options.all({
  store: optional(
    "store",
    "STORE",
    "memory:, vault:DIR, sqlite:FILE or postgres://…; default: EFFECT_MEMORY_STORE, else vault:./.memory"
  ),
  tenant: optional("tenant", "NAME", "tenant; default: default"),
  user: optional("user", "ID", "acts for this user"),
  agent: optional("agent", "ID", "acts for this agent"),
  run: optional("run", "ID", "acts in this run"),
  session: optional("session", "ID", "acts in this session"),
  reach: Options.choice("reach", ["exact", "within", "everyone"]).pipe(
    Options.withDescription(
      "exact: the scope of these ids and broader ones; within: everything that has these ids; everyone: the whole tenant"
    ),
    Options.withDefault("exact" as const)
  ),
  json: Options.boolean("json").pipe(Options.withDescription("answers in JSON"))
})

/** The names of the shared options that take a value, with their leading dashes, such as `--store`. */
export const sharedWithValue: ReadonlySet<string> = new Set(
  ["store", "tenant", "user", "agent", "run", "session", "reach"].map((name) => `--${name}`)
)

const config = CliConfig.make({ isCaseSensitive: true })

/** Makes a command from its definition. */
export const make = <O, A>(definition: Definition<O, A>): Command => {
  const { args, description, examples, name, options, run, summary } = definition
  return {
    name,
    summary,
    description,
    examples,
    options,
    args,
    run: (line) =>
      Effect.gen(function*() {
        const parsed = yield* parse(name, Options.all({ own: options, shared: sharedOptions }), args, line)
        const shared = yield* sharedOf(parsed.options.shared)
        yield* Effect.scoped(run({ options: parsed.options.own, args: parsed.args, shared }))
      })
  }
}

/** Parses the words of a command line, without the name of the command. Options may be anywhere before `--`. */
const parse = <O, A>(
  name: string,
  options: Options.Options<O>,
  args: Args.Args<A>,
  line: ReadonlyArray<string>
): Effect.Effect<
  { readonly options: O; readonly args: A },
  CommandError.CommandError,
  FileSystem | Path | Terminal
> => {
  const usage = (message: string) => CommandError.make("usage", `${name}: ${message}`, `effect-memory ${name} --help`)
  const { flags, stranger, words } = sort(line, namesOf(Options.getUsage(options)))
  if (stranger !== undefined) return usage(`there is no option ${stranger}`)
  return Effect.gen(function*() {
    const [problem, rest, values] = yield* Options.processCommandLine(options, flags, config)
    if (Option.isSome(problem)) return yield* Effect.fail(problem.value)
    if (rest[0] !== undefined) return yield* usage(`expected --${rest[0].replace(/^-+/, "")} once`)
    const [left, value] = yield* Args.validate(args, words, config)
    if (left[0] !== undefined) return yield* usage(`one argument too many: ${left[0]}`)
    return { options: values, args: value }
  }).pipe(
    Effect.mapError((error) => error._tag === "CommandError" ? error : usage(textOf(error.error)))
  )
}

/** Maps the name of each option to whether the option takes a value. */
const namesOf = (usage: Usage): ReadonlyMap<string, boolean> => {
  switch (usage._tag) {
    case "Concat":
    case "Alternation":
      return new Map([...namesOf(usage.left), ...namesOf(usage.right)])
    case "Optional":
    case "Repeated":
      return namesOf(usage.usage)
    case "Named":
      return new Map(usage.names.map((name) => [name, Option.isSome(usage.acceptedValues)]))
    default:
      return new Map()
  }
}

/**
 * Separates options, with their values, from the other words of a command line. @effect/cli would stop reading options at a word such as
 * `-`. All words after `--` are arguments.
 */
const sort = (line: ReadonlyArray<string>, names: ReadonlyMap<string, boolean>) => {
  const flags: Array<string> = []
  const words: Array<string> = []
  for (let at = 0; at < line.length; at++) {
    const word = line[at]! // `at` is below the length
    if (word === "--") {
      words.push(...line.slice(at + 1))
      break
    }
    if (!/^-./.test(word)) {
      words.push(word)
      continue
    }
    const [name = word] = word.split("=", 1)
    const hasValue = names.get(name)
    if (hasValue === undefined) return { flags, words, stranger: name }
    // @effect/cli does not read `--tag=a` if the option may be repeated, so a value after `=` becomes a word of its own
    if (hasValue && name !== word) flags.push(name, word.slice(name.length + 1))
    else if (hasValue && at + 1 < line.length) flags.push(word, line[++at]!) // `at + 1` is below the length
    else flags.push(word)
  }
  return { flags, words, stranger: undefined }
}

/** Renders a document of @effect/cli as one line of text, without colours and without a full stop at its end. */
export const textOf = (doc: HelpDoc.HelpDoc): string =>
  HelpDoc.toAnsiText(doc).replace(/\p{Cc}\[[0-9;]*m/gu, "").replace(/\s+/g, " ").trim().replace(/\.$/, "")

type ValuesOf<O> = O extends Options.Options<infer A> ? A : never
type SharedValues = ValuesOf<typeof sharedOptions>

const sharedOf = (values: SharedValues): Effect.Effect<Shared, CommandError.CommandError, Screen.Screen> =>
  Effect.gen(function*() {
    const screen = yield* Screen.Screen
    const given = Option.getOrElse(
      values.store,
      () => screen.env("EFFECT_MEMORY_STORE") ?? StoreAddress.fallback
    )
    const store = yield* StoreAddress.parse(given)
    const { agent, reach, run, session, user } = values
    // stored tenant names are in Unicode form NFC; `Viewer.tenantOf` returns this form, but some commands use this name without a viewer
    const tenant = Option.map(values.tenant, (name) => name.normalize("NFC"))
    const ids = defined({ userId: user, agentId: agent, runId: run, sessionId: session })
    const viewer = reach === "everyone"
      ? yield* Object.keys(ids).length === 0
        ? everyone(tenant)
        : CommandError.make("usage", "--reach everyone takes no --user, --agent, --run or --session")
      : yield* Effect.mapError(
        Viewer.decode({ ...ids, ...defined({ tenant }), reach }),
        ({ message }) => CommandError.make("refused", message)
      )
    return { store, viewer, tenant, json: values.json }
  })

const everyone = (tenant: Option.Option<string>) =>
  Option.match(tenant, {
    onNone: () => Effect.succeed(Viewer.everyone()),
    onSome: (name) =>
      Effect.mapBoth(Schema.decode(Viewer.Tenant)(name), {
        onSuccess: (valid) => Viewer.everyone(valid),
        onFailure: ({ message }) => CommandError.make("refused", `--tenant: ${message}`)
      })
  })

const defined = <K extends string>(
  all: { readonly [key in K]: Option.Option<string> }
): { readonly [key in K]?: string } =>
  Object.fromEntries(
    Object.entries<Option.Option<string>>(all).flatMap(([key, value]) =>
      Option.isSome(value) ? [[key, value.value]] : []
    )
  ) as { readonly [key in K]?: string } // the keys are those of `all`

/** The argument that is the id of a record. */
export const idArgument: Args.Args<string> = Args.text({ name: "ID" }).pipe(Args.withDescription("the id of a record"))

/** Makes an argument that takes any number of words. */
export const textArgument = (name: string, description: string): Args.Args<ReadonlyArray<string>> =>
  Args.text({ name }).pipe(Args.withDescription(description), Args.repeated)

/** Parses the id of a record. */
export const id = (text: string): Effect.Effect<MemoryId, CommandError.CommandError> =>
  Effect.mapError(
    Schema.decode(MemoryId)(text as typeof MemoryId.Encoded),
    () => CommandError.make("refused", "no id of a record", "`effect-memory list` prints the ids")
  )

/**
 * Prints the result of a command. With `--json`, the output is the value as JSON, encoded by `schema`. Otherwise, the output is the text
 * that `show` returns. An empty text is not printed.
 */
export const print = <A, I>(
  { json }: Shared,
  schema: Schema.Schema<A, I>,
  value: A,
  show: (value: A, screen: Screen.Service) => string
): Effect.Effect<void, never, Screen.Screen> =>
  Effect.gen(function*() {
    const screen = yield* Screen.Screen
    const text = json ? Screen.json(yield* Effect.orDie(Schema.encode(schema)(value))) : show(value, screen)
    if (text !== "") yield* screen.out(`${text}\n`)
  })
