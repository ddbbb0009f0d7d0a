/** The commands `import` and `export`. Their file formats are listed in `Formats.ts`. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { make, valued } from "../Command.ts"
import * as CommandError from "../CommandError.ts"
import * as Formats from "../Formats.ts"

const formatsOf = (direction: "read" | "write"): ReadonlyArray<Formats.Format> =>
  Formats.all.filter((format) => format[direction] !== undefined)

const namesOf = (direction: "read" | "write"): string => formatsOf(direction).map(({ name }) => name).join(", ")

const formatOption = (direction: "read" | "write") =>
  valued(Options.text("format"), "FORMAT", `one of: ${namesOf(direction)}; default jsonl`).pipe(
    Options.withDefault("jsonl")
  )

const formatOf = (name: string, direction: "read" | "write") =>
  Effect.fromNullable(formatsOf(direction).find((format) => format.name === name)).pipe(
    Effect.mapError(() =>
      CommandError.make("usage", `there is no such format to ${direction}`, `known: ${namesOf(direction)}`)
    )
  )

/** `import`: reads memories from a file or folder that this library or another system wrote. */
export const importing = make({
  name: "import",
  summary: "read memories from a file or folder",
  description: [
    "Reads memories that another system, or export, wrote. Importing again changes nothing, and an import that was stopped goes on when it is run again.",
    `Formats: ${formatsOf("read").map(({ name, summary }) => `${name} (${summary})`).join("; ")}.`,
    "With --user or --agent everything of another system goes into that scope. Without, the ids that the file names count, and what names nobody becomes Global. Conversations become threads, which belong to somebody: name --user.",
    "Records that are there stay as they are. What cannot be carried over is counted by reason."
  ],
  options: Options.all({ format: formatOption("read") }),
  args: Args.text({ name: "PATH" }).pipe(
    Args.withDescription("the file or folder; - reads stdin, if the format is one of a single file")
  ),
  examples: [
    ["import memories.jsonl", "reads what export wrote"],
    ["import --format mcp memory.jsonl --user ada", "reads the reference server's memory into ada's"],
    ["import --format chatgpt conversations.json --user ada", "reads conversations as threads"]
  ],
  run: ({ args, options, shared }) =>
    Effect.gen(function*() {
      const { read } = yield* formatOf(options.format, "read")
      yield* read({ path: args, shared })
    })
})

/** `export`: writes the store, or only what belongs to one tenant or user, to a file or to stdout. */
export const exporting = make({
  name: "export",
  summary: "write memories to a file",
  description: [
    "Writes the whole store, or the tenant that is named: records with their revisions, tombstones, uses and vectors, and threads. docs/transfer.md describes the lines.",
    "--user ID gives one person everything about them: every record, forgotten ones too, of every scope that holds the user, and their threads."
  ],
  options: Options.all({
    format: formatOption("write"),
    withoutVectors: Options.boolean("without-vectors").pipe(
      Options.withDescription("leaves out vectors, which can be made again")
    )
  }),
  args: Args.text({ name: "PATH" }).pipe(Args.withDescription("the file; default, or -: stdout"), Args.optional),
  examples: [
    ["export memories.jsonl", "writes the whole store"],
    ["export --user ada ada.jsonl", "writes everything about ada"]
  ],
  run: ({ args, options, shared }) =>
    Effect.gen(function*() {
      const { write } = yield* formatOf(options.format, "write")
      if (write !== undefined) {
        yield* write({ path: Option.getOrUndefined(args), shared, vectors: !options.withoutVectors })
      }
    })
})
