/** Makes help pages in the style of man pages from the options and arguments that the commands declare. */
import * as Args from "@effect/cli/Args"
import type { HelpDoc } from "@effect/cli/HelpDoc"
import * as HelpDocs from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import type { Usage } from "@effect/cli/Usage"
import * as Option from "effect/Option"
import { type Command, sharedOptions, textOf } from "./Command.ts"
import { type Service as Screen, wrap } from "./Screen.ts"

/** An option of a command. */
export interface Flag {
  /** Names of the option with their dashes, short names first. */
  readonly names: ReadonlyArray<string>
  /** Name of the value on the help page; `undefined` if the option takes no value. */
  readonly value: string | undefined
  /** The allowed values of an option with several choices; otherwise empty. */
  readonly choices: ReadonlyArray<string>
  readonly description: string
}

/** Returns the single options that an `Options` value combines. */
export const flagsOf = (options: Options.Options<unknown>): ReadonlyArray<Flag> => {
  const descriptions = new Map(definitionsOf(Options.getHelp(options)))
  const flags: Array<Flag> = []
  const visit = (usage: Usage): void => {
    switch (usage._tag) {
      case "Concat":
      case "Alternation":
        visit(usage.left)
        return visit(usage.right)
      case "Optional":
      case "Repeated":
        return visit(usage.usage)
      case "Named": {
        const value = Option.getOrUndefined(usage.acceptedValues)
        const choices = value?.includes(" | ") === true ? value.split(" | ") : []
        const term = Array.from(descriptions.keys()).find((term) =>
          usage.names.some((name) => wordsOf(term).includes(name))
        )
        const description = term === undefined ? "" : descriptions.get(term) ?? ""
        flags.push({ names: usage.names, value: value?.replaceAll(" | ", "|"), choices, description })
        return
      }
    }
  }
  visit(Options.getUsage(options))
  return flags
}

const wordsOf = (term: string): ReadonlyArray<string> => term.split(/[\s,()]+/)

/**
 * Returns each term in a help document of @effect/cli, with the text that the command declared for it. In the document, this text is the
 * second paragraph of the term's description. The first paragraph is the type of the value, and is not returned.
 */
const definitionsOf = (doc: HelpDoc): ReadonlyArray<readonly [term: string, description: string]> => {
  switch (doc._tag) {
    case "Sequence":
      return [...definitionsOf(doc.left), ...definitionsOf(doc.right)]
    case "DescriptionList":
      return doc.definitions.map(([term, description]) => [
        textOf(HelpDocs.p(term)).replace(/\.\.$/, "..."), // restores the third dot of "...", which `textOf` removed
        paragraphsOf(description).map(textOf)[1] ?? ""
      ])
    default:
      return []
  }
}

const paragraphsOf = (doc: HelpDoc): ReadonlyArray<HelpDoc> =>
  doc._tag === "Sequence" ? [...paragraphsOf(doc.left), ...paragraphsOf(doc.right)] : doc._tag === "Empty" ? [] : [doc]

const exitStatus: ReadonlyArray<readonly [string, string]> = [
  ["0", "done"],
  ["1", "failed: a conflict, a damaged record, a bug"],
  ["2", "the command line is wrong"],
  ["3", "the record is not there or not for this viewer, or the file to import cannot be read"],
  ["4", "refused: an invalid value, or no right to it"],
  ["5", "the store, the output or a port is unavailable"],
  ["6", "a package is missing; the message names it"],
  ["7", "a check found something, or an import or erasure is incomplete"],
  ["130", "interrupted; the same command goes on, or begins again"],
  ["143", "terminated; the same"]
]

const environment: ReadonlyArray<readonly [string, string]> = [
  ["EFFECT_MEMORY_STORE", "the store, where --store names none"],
  ["NO_COLOR", "set: no colours"]
]

const indent = 7

/** Renders the sections of a help page, each as a title and indented lines. Leaves out sections without lines. */
const layout = (
  screen: Screen,
  sections: ReadonlyArray<readonly [title: string, lines: ReadonlyArray<string>]>
): string =>
  sections
    .filter(([, lines]) => lines.length > 0)
    .map(([title, lines]) =>
      `${screen.paint("bold", title)}\n${lines.map((line) => line === "" ? "" : " ".repeat(indent) + line).join("\n")}`
    )
    .join("\n\n")

const widthOf = ({ columns }: Screen): number => Math.max(40, Math.min(100, columns)) - indent

const table = (screen: Screen, rows: ReadonlyArray<readonly [term: string, text: string]>): ReadonlyArray<string> => {
  const longest = Math.min(28, Math.max(0, ...rows.map(([term]) => term.length)))
  return rows.flatMap(([term, text]) => {
    const lines = wrap(text, Math.max(20, widthOf(screen) - longest - 2))
    const head = screen.paint("bold", term) + " ".repeat(Math.max(0, longest - term.length))
    const first = term.length > longest ? [head] : [`${head}  ${lines[0] ?? ""}`.trimEnd()]
    const rest = (term.length > longest ? lines : lines.slice(1)).map((line) => " ".repeat(longest + 2) + line)
    return [...first, ...rest]
  })
}

const termOf = ({ names, value }: Flag): string => `${names.join(", ")}${value === undefined ? "" : ` ${value}`}`
const rowsOf = (options: Options.Options<unknown>) =>
  flagsOf(options).map((flag) => [termOf(flag), flag.description] as const)

const help = ["-h, --help", "shows this page"] as const
const version = ["--version", "prints the version"] as const

/** Returns the name of each argument of a command, without the characters `<` and `>`, and its description. */
const argumentsOf = (args: Args.Args<unknown>): ReadonlyArray<readonly [term: string, description: string]> =>
  definitionsOf(Args.getHelp(args)).map(([term, description]) => [term.replaceAll(/[<>]/g, ""), description])

/** Returns the help page of a command. */
export const page = ({ args, description, examples, name, options, summary }: Command, screen: Screen): string => {
  const flags = flagsOf(options)
  const arguments_ = argumentsOf(args)
  const width = widthOf(screen)
  const synopsis = [
    `effect-memory ${name}`,
    ...arguments_.map(([term]) => term),
    ...flags.map((flag) => `[${flag.names.at(-1)}${flag.value === undefined ? "" : ` ${flag.value}`}]`),
    "[--store STORE] [--user ID] [--json]"
  ].join(" ")
  return layout(screen, [
    ["NAME", wrap(`effect-memory ${name} - ${summary}`, width)],
    ["SYNOPSIS", wrap(synopsis, width)],
    ["DESCRIPTION", description.flatMap((paragraph, n) => [...(n === 0 ? [] : [""]), ...wrap(paragraph, width)])],
    ["ARGUMENTS", table(screen, arguments_)],
    ["OPTIONS", table(screen, rowsOf(options))],
    ["OPTIONS OF EVERY COMMAND", table(screen, [...rowsOf(sharedOptions), help])],
    [
      "EXAMPLES",
      examples.flatMap(([line, meaning], n) => [
        ...(n === 0 ? [] : [""]),
        ...wrap(`${meaning}:`, width),
        `  ${screen.paint("cyan", `effect-memory ${line}`)}`
      ])
    ],
    ["EXIT STATUS", table(screen, exitStatus)]
  ])
}

/** Returns the help page of `effect-memory` itself. */
export const overview = (commands: ReadonlyArray<Command>, screen: Screen): string =>
  layout(screen, [
    ["NAME", ["effect-memory - long-term memory for AI agents"]],
    ["SYNOPSIS", ["effect-memory COMMAND [ARGUMENTS] [OPTIONS]", "effect-memory COMMAND --help"]],
    ["COMMANDS", table(screen, commands.map(({ name, summary }) => [name, summary]))],
    ["OPTIONS WITHOUT A COMMAND", table(screen, [version])],
    ["OPTIONS OF EVERY COMMAND", table(screen, [...rowsOf(sharedOptions), help])],
    ["ENVIRONMENT", table(screen, environment)],
    ["EXAMPLES", [
      screen.paint("cyan", "effect-memory remember \"Drinks tea, never coffee.\" --user ada"),
      screen.paint("cyan", "effect-memory recall \"tea or coffee?\" --user ada"),
      screen.paint("cyan", "effect-memory --store sqlite:memory.db doctor")
    ]],
    ["EXIT STATUS", table(screen, exitStatus)]
  ])
