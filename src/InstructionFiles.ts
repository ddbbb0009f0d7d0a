/**
 * Instruction files, AGENTS.md and its like, from the root of a tree down to the directory where the agent works. Files outside the
 * root are not read, wherever links lead. A file that is reached twice counts once, and so do two files of one directory with the
 * same text.
 */
export { InstructionFiles, layer, loadInstructionFiles, renderInstructionFiles } from "./harness/InstructionFiles.ts"
export type { InstructionFile, Loaded, Service } from "./harness/InstructionFiles.ts"
