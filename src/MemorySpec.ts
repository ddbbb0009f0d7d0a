/**
 * Settings of an agent's memory, which the author of the agent writes. `Resume` saves all settings of a run, these included, with each
 * checkpoint; resuming the run fails if they have been changed since.
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
