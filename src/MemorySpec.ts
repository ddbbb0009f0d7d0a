/**
 * Settings of an agent's memory, which the author of the agent writes. A checkpoint of `Resume` has a hash of all settings of a run, these
 * included, by which it detects that the settings were changed.
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
