/**
 * The settings that the author of an agent writes for the memory of the agent. They are part of the spec of a run. `Resume` saves this spec
 * with each checkpoint. Resuming the run fails if a field of the spec has changed since the checkpoint, unless `Resume.accept` names the
 * field.
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
