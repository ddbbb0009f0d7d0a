/**
 * The settings of an agent's memory, as the author of the agent writes them. These settings are part of the spec of a run. `Resume` saves
 * the spec with each checkpoint. A run with an unchanged spec can resume. `Resume.accept` permits changes of the fields that it names.
 *
 * ```ts
 * import { MemorySpec } from "effect-memory"
 *
 * const spec = MemorySpec.make({ allowForget: true })
 *
 * spec.writesPerTurn // => 1
 * ```
 */
export { hashSpec, InstructionFilesConfig, make, MemorySpec } from "./harness/MemorySpec.ts"
export type { Input } from "./harness/MemorySpec.ts"
