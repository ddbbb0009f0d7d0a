/**
 * Makes completion scripts for bash, zsh and fish. The scripts complete names of commands and options, values of options, and paths of
 * files. The script for fish completes paths only as values of options and as arguments of the commands that take a path. All names are in
 * the scripts, so a completion does not start `effect-memory`.
 */
import { type Command, sharedOptions } from "./Command.ts"
import { type Flag, flagsOf } from "./Help.ts"

/** A supported shell. */
export type Shell = "bash" | "zsh" | "fish"

/** Makes the completion script for a shell. */
export const make = (shell: Shell, commands: ReadonlyArray<Command>): string => {
  const all = commands.map(({ name, options, summary }) => ({
    name,
    summary,
    flags: [...flagsOf(options), ...shared()]
  }))
  switch (shell) {
    case "bash":
      return bash(all)
    case "zsh":
      return zsh(all)
    case "fish":
      return fish(all)
  }
}

interface Described {
  readonly name: string
  readonly summary: string
  readonly flags: ReadonlyArray<Flag>
}

const shared = (): ReadonlyArray<Flag> => [
  ...flagsOf(sharedOptions),
  { names: ["-h", "--help"], value: undefined, choices: [], description: "shows the help page" }
]

/** Returns the words that a shell offers as the value of an option. */
const valuesOf = ({ choices, names }: Flag): ReadonlyArray<string> =>
  names.includes("--store") ? ["memory:", "vault:", "sqlite:", "postgres://"] : choices

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
const namesOf = (all: ReadonlyArray<Described>): string => all.map(({ name }) => name).join(" ")
const wordsOf = (flags: ReadonlyArray<Flag>): string => flags.flatMap(({ names }) => names).join(" ")
/** Returns the names of the shared options that take a value, joined by `|` for use as a shell pattern. */
const withValue = (): string =>
  shared().filter(({ value }) => value !== undefined).flatMap(({ names }) => names).join("|")
const argumentsOf: Readonly<Record<string, ReadonlyArray<string>>> = { completions: ["bash", "zsh", "fish"] }
/** The commands whose argument is a path. */
const withPath: ReadonlySet<string> = new Set(["import", "export", "instructions"])

const bash = (all: ReadonlyArray<Described>): string =>
  `# completion of effect-memory for bash
_effect_memory() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} command= at=1
  while (( at < COMP_CWORD )); do
    case \${COMP_WORDS[at]} in
      ${withValue()}) (( at += 2 )) ;;
      -*) (( at += 1 )) ;;
      *) command=\${COMP_WORDS[at]}; break ;;
    esac
  done
  case $command:$previous in
${
    all.flatMap(({ flags, name }) =>
      flags.filter((flag) => valuesOf(flag).length > 0).map((flag) =>
        `    ${flag.names.map((one) => `${name}:${one}`).join("|")}) COMPREPLY=( $(compgen -W ${
          quoted(valuesOf(flag).join(" "))
        } -- "$current") ); return ;;`
      )
    ).join("\n")
  }
  esac
  case $command in
    "") COMPREPLY=( $(compgen -W ${quoted(`${namesOf(all)} ${wordsOf(shared())} --version`)} -- "$current") ) ;;
${
    all.map(({ flags, name }) => {
      const words = [...argumentsOf[name] ?? [], wordsOf(flags)].join(" ")
      return `    ${name}) if [[ $current == -* || -z $current ]]; then COMPREPLY=( $(compgen -W ${
        quoted(words)
      } -- "$current") ); else COMPREPLY=( $(compgen -W ${
        quoted((argumentsOf[name] ?? []).join(" "))
      } -f -- "$current") ); fi ;;`
    }).join("\n")
  }
  esac
}
complete -F _effect_memory effect-memory
`

const zsh = (all: ReadonlyArray<Described>): string => {
  const escaped = (text: string) => text.replaceAll(/[[\]:\\]/g, "\\$&")
  const spec = (flag: Flag) => {
    const value = flag.value === undefined ?
      "" :
      `:${escaped(flag.value)}:${valuesOf(flag).length > 0 ? `(${valuesOf(flag).map(escaped).join(" ")})` : "_files"}`
    const names = flag.names.length > 1 ? `(${flag.names.join(" ")})` : ""
    return flag.names.map((name) => quoted(`${names}${name}[${escaped(flag.description)}]${value}`)).join(" ")
  }
  return `#compdef effect-memory
# completion of effect-memory for zsh
_effect_memory() {
  local -a commands
  commands=(
${all.map(({ name, summary }) => `    ${quoted(`${name}:${escaped(summary)}`)}`).join("\n")}
  )
  local curcontext="$curcontext" state line
  _arguments -C ${shared().map(spec).join(" ")} '1:command:->command' '*::argument:->argument'
  case $state in
    command) _describe command commands ;;
    argument)
      case $line[1] in
${
    all.map(({ flags, name }) => {
      const rest = argumentsOf[name] === undefined
        ? "'*:argument:_files'"
        : quoted(`1:argument:(${argumentsOf[name].join(" ")})`)
      return `        ${name}) _arguments ${flags.map(spec).join(" ")} ${rest} ;;`
    }).join("\n")
  }
      esac ;;
  esac
}
if [ "$funcstack[1]" = "_effect_memory" ]; then _effect_memory "$@"; else compdef _effect_memory effect-memory; fi
`
}

const fish = (all: ReadonlyArray<Described>): string => {
  const names = namesOf(all)
  const line = (condition: string, flag: Flag) => {
    const short = flag.names.filter((name) => /^-[a-z]$/.test(name)).map((name) => ` -s ${name.slice(1)}`).join("")
    const long = flag.names.filter((name) => name.startsWith("--")).map((name) => ` -l ${name.slice(2)}`).join("")
    const values = valuesOf(flag).length > 0
      ? ` -xa ${quoted(valuesOf(flag).join(" "))}`
      : flag.value === undefined
      ? ""
      : " -r"
    return `complete -c effect-memory -n ${quoted(condition)}${short}${long}${values} -d ${quoted(flag.description)}`
  }
  return [
    "# completion of effect-memory for fish",
    "complete -c effect-memory -f",
    ...all.map(({ name, summary }) =>
      `complete -c effect-memory -n ${quoted(`not __fish_seen_subcommand_from ${names}`)} -a ${name} -d ${
        quoted(summary)
      }`
    ),
    ...shared().map((flag) => line(`not __fish_seen_subcommand_from ${names}`, flag)),
    ...all.flatMap(({ flags, name }) => [
      ...flags.map((flag) => line(`__fish_seen_subcommand_from ${name}`, flag)),
      ...(argumentsOf[name] ?? []).map((word) =>
        `complete -c effect-memory -n ${quoted(`__fish_seen_subcommand_from ${name}`)} -a ${word}`
      ),
      ...(withPath.has(name)
        ? [`complete -c effect-memory -n ${quoted(`__fish_seen_subcommand_from ${name}`)} -F`]
        : [])
    ]),
    ""
  ].join("\n")
}
