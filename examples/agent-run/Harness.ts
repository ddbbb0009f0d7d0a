/** What both runs have in common: the vault, the spec, for whom they act, and the layers of a harness. */
import { NodeContext } from "@effect/platform-node"
import { InstructionFiles, Markdown, MemoryEvents, MemoryService, MemorySpec, Resume, Viewer } from "effect-memory"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const project = fileURLToPath(new URL("..", import.meta.url))
const [folder] = process.argv.slice(2)

/** Where everything is kept; delete it to begin anew. */
export const vault = join(project, ".memory")

/** Instruction files are loaded from the root of the tree down to here. */
export const cwd = folder ?? join(project, "examples")

/** A run for each tree, so that each is resumed on its own. */
export const runId = folder === undefined ? "tour" : `tour of ${folder.replace(/[/\\]/g, ":")}`.slice(-256)

export const spec = {
  memory: MemorySpec.make({ allowForget: true, writesPerTurn: 1 }),
  instructionFiles: new MemorySpec.InstructionFilesConfig(folder === undefined ? { root: ".." } : {})
}

export const pilot = Viewer.make({ agentId: "pilot", runId })

export const layer = MemoryService.layer(spec.memory).pipe(
  Layer.provideMerge(InstructionFiles.layer(spec.instructionFiles, { cwd })),
  Layer.provideMerge(MemoryEvents.layer()),
  Layer.provideMerge(Resume.layer({ directory: join(vault, ".checkpoints") })),
  Layer.provideMerge(Markdown.layer({ root: vault })),
  Layer.provideMerge(NodeContext.layer),
  Layer.provideMerge(Logger.minimumLogLevel(LogLevel.Error)) // warnings are part of the story, and told there
)
