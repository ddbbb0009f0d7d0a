/**
 * Checkpoints of runs. The spec of a run is an object with the settings of the run. Each checkpoint contains the spec. A run can resume if
 * its spec equals the spec of the checkpoint. `accept` permits changes of the fields that it names, including their subfields.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Resume } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const { resume, save } = yield* Resume.Resume
 *   yield* save("run-1", { model: "small" }, { turn: 3, cursor: 7 })
 *   return yield* resume("run-1", { model: "large" }).pipe(
 *     Effect.as([]),
 *     Effect.catchTag("ResumeError", ({ changed }) => Effect.succeed(changed.map(({ field }) => field)))
 *   )
 * })
 * const changed = await program.pipe(Effect.provide(Resume.layerInMemory), Effect.runPromise)
 *
 * changed // => ["model"]
 * ```
 */
export { accept, layer, layerInMemory, Resume, ResumeError } from "./harness/Resume.ts"
export type { Checkpoint, Service } from "./harness/Resume.ts"
