/**
 * Reads the instruction files (AGENTS.md and the like) of each directory from the root of a tree down to the agent's working directory.
 * Files outside the root are never read, not even through a symbolic link. A file that is found twice is returned once. If two files of one
 * directory have the same text, only the first is returned.
 *
 * ```ts
 * import { FileSystem } from "@effect/platform"
 * import { NodeContext } from "@effect/platform-node"
 * import { Effect } from "effect"
 * import { InstructionFiles } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const fs = yield* FileSystem.FileSystem
 *   yield* fs.makeDirectory("project/.git", { recursive: true })
 *   yield* fs.makeDirectory("project/api")
 *   yield* fs.writeFileString("project/AGENTS.md", "Run the tests.")
 *   yield* fs.writeFileString("project/api/AGENTS.md", "No breaking changes.")
 *   const files = yield* InstructionFiles.loadInstructionFiles("project/api")
 *   return files.map(({ content, label }) => [label, content])
 * })
 * const files = await program.pipe(Effect.provide(NodeContext.layer), Effect.runPromise)
 *
 * files // => [["(repo root)", "Run the tests."], ["api", "No breaking changes."]]
 * ```
 */
export { InstructionFiles, layer, loadInstructionFiles, renderInstructionFiles } from "./harness/InstructionFiles.ts"
export type { InstructionFile, Loaded, Service } from "./harness/InstructionFiles.ts"
