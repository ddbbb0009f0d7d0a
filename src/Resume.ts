/**
 * Checkpoints of runs. The spec of a run is the settings with which the run began. A run with an unchanged spec can resume. If
 * the spec has changed, `accept` must name all changed fields.
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
