/**
 * The settings that the author of an agent writes for the memory of the agent. `Resume` saves all settings of a run, these included, with
 * each checkpoint. Resuming the run fails if a setting has been changed since the checkpoint, unless `accept` names it.
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
