/** The commands that print texts for an agent's prompt: `index` and `instructions`. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { MemoryId } from "../../domain/MemoryId.ts"
import { loadInstructionFiles, renderInstructionFiles } from "../../harness/InstructionFiles.ts"
import * as MemoryService from "../../harness/MemoryService.ts"
import { make, print, valued } from "../Command.ts"
import { safe } from "../Screen.ts"
import * as StoreAddress from "../StoreAddress.ts"

/** Schema of the JSON output of `index`. */
export const Index = Schema.Struct({
  text: Schema.String,
  ids: Schema.Array(MemoryId),
  /** Number of records for which the index has no room. The true number may be higher if the viewer sees more than 1,000 records. */
  leftOut: Schema.Number
})

/** `index`: prints the memory index, that is, the summaries and ids that an agent's system prompt contains. */
export const index = make({
  name: "index",
  summary: "print the memory index that an agent is shown",
  description: [
    "Prints the summaries of what the viewer sees, as MemoryService.index renders them for a system prompt."
  ],
  options: Options.all({
    limit: valued(Options.integer("limit"), "N", "most entries; default 30").pipe(Options.withDefault(30))
  }),
  args: Args.none,
  examples: [["index --user ada", "what ada's agents know at the start of a conversation"]],
  run: ({ options: { limit }, shared }) =>
    Effect.gen(function*() {
      const { index } = yield* MemoryService.MemoryService
      const block = yield* index
      yield* print(shared, Index, block, ({ text }) => safe(text))
    }).pipe(
      MemoryService.as(shared.viewer),
      Effect.provide(Layer.provide(
        MemoryService.layer({ maxIndexEntries: limit }),
        StoreAddress.layer(shared.store)
      ))
    )
})

/** Schema of the JSON output of `instructions`. */
export const Instructions = Schema.Struct({
  text: Schema.String,
  files: Schema.Array(Schema.Struct({
    path: Schema.String,
    label: Schema.String,
    content: Schema.String,
    truncated: Schema.Boolean,
    importedBy: Schema.optional(Schema.String)
  }))
})

/** `instructions`: prints the instruction files (such as AGENTS.md) that an agent is shown. */
export const instructions = make({
  name: "instructions",
  summary: "print the instruction files that an agent is shown",
  description: [
    "Reads AGENTS.md and CLAUDE.md from the root of the tree, the nearest folder with .git, down to the folder, with what they import, and prints them as a system prompt has them. The store is not opened."
  ],
  options: Options.none,
  args: Args.text({ name: "FOLDER" }).pipe(
    Args.withDescription("the agent's folder; default the current one"),
    Args.optional
  ),
  examples: [["instructions packages/api", "what an agent is told that works in packages/api"]],
  run: ({ args, shared }) =>
    Effect.gen(function*() {
      const files = yield* loadInstructionFiles(Option.getOrElse(args, () => "."))
      yield* print(shared, Instructions, { text: renderInstructionFiles(files), files }, ({ text }) => safe(text))
    })
})
