/** The commands `import` and `export`, by formats that register here. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { make } from "../Command.ts"
import * as CommandError from "../CommandError.ts"
import * as Formats from "../Formats.ts"

const formatOption = Options.text("format").pipe(
  Options.withPseudoName("FORMAT"),
  Options.withDescription(`one of: ${Formats.all.map(({ name }) => name).join(", ")}; default jsonl`),
  Options.withDefault("jsonl")
)

const formatOf = (name: string, direction: "read" | "write") =>
  Effect.gen(function*() {
    const format = Formats.all.find((format) => format.name === name && format[direction] !== undefined)
    const known = Formats.all.filter((format) => format[direction] !== undefined).map(({ name }) => name)
    if (format === undefined) {
      return yield* CommandError.make("usage", "there is no such format", `known: ${known.join(", ")}`)
    }
    return format
  })

/** `import`: reads memories of another system. */
export const importing = make({
  name: "import",
  summary: "read memories from a file or folder",
  description: [
    "Reads memories that another system, or export, wrote. Importing again changes nothing, and an import that was stopped goes on when it is run again."
  ],
  options: Options.all({ format: formatOption }),
  args: Args.text({ name: "PATH" }).pipe(Args.withDescription("the file or folder; - reads stdin")),
  examples: [["import memories.jsonl", "reads what export wrote"]],
  run: ({ args, options, shared }) =>
    Effect.gen(function*() {
      const { read } = yield* formatOf(options.format, "read")
      if (read !== undefined) yield* read({ path: args, shared })
    })
})

/** `export`: writes memories. */
export const exporting = make({
  name: "export",
  summary: "write memories to a file",
  description: ["Writes what the viewer sees; --user ID --reach within gives a person everything about them."],
  options: Options.all({ format: formatOption }),
  args: Args.text({ name: "PATH" }).pipe(Args.withDescription("the file; default stdout"), Args.optional),
  examples: [["export memories.jsonl", "writes the whole store"]],
  run: ({ args, options, shared }) =>
    Effect.gen(function*() {
      const { write } = yield* formatOf(options.format, "write")
      if (write !== undefined) yield* write({ path: Option.getOrUndefined(args), shared })
    })
})
