/**
 * The memory of molroo's SDK: its `MemoryAdapter` over `EpisodicMemory`, in both directions, and `recallMemories`. Use it to run
 * code that was written for molroo, or to keep an adapter of your own under `EpisodicMemory`, by `layerAdapter`.
 *
 * An adapter returns promises; `run` runs their effects. What differs on purpose, and the test that holds each difference, is in
 * `docs/compat.md`: every declared filter holds, no leg of a recall shows another entity's episodes, an episode that is saved again
 * under its id is one, and a leg that fails is named in `failures`.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Viewer } from "effect-memory"
 * import { Molroo } from "effect-memory/compat"
 *
 * const viewer = Viewer.make({ agentId: "sera", reach: "within" })
 * const adapter = await Molroo.InMemoryAdapter(viewer, Effect.runPromise).pipe(Effect.scoped, Effect.runPromise)
 * const emotionSnapshot = { V: 0.4, A: 0.2, D: 0.5 }
 * const context = "Ada swam in the lake"
 * await adapter.saveEpisode({ id: "e1", timestamp: 0, sourceEntity: "ada", context, emotionSnapshot, importance: 0.6 })
 *
 * const { episodic, failures } = await Molroo.recallMemories("How was the lake?", adapter, viewer, Effect.runPromise)
 *
 * [episodic.map(({ record }) => record.body), failures] // => [["Ada swam in the lake"], []]
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Message from "../domain/Message.ts"
import type * as Viewer from "../domain/Viewer.ts"
import * as EpisodicMemory from "../kinds/EpisodicMemory.ts"
import * as Store from "../storage/MemoryStore.ts"
import type { Run } from "./Promises.ts"

/** Makes an adapter of a new store in memory, for one viewer. */
export const InMemoryAdapter = (
  viewer: Viewer.Any,
  run: Run
): Effect.Effect<Required<EpisodicMemory.MemoryAdapter>, never, Scope.Scope> =>
  Effect.flatMap(
    Layer.build(Layer.provide(EpisodicMemory.layer, Store.layerInMemory)),
    (context) => Effect.provide(EpisodicMemory.toAdapter(viewer, run), context)
  )

/**
 * Recalls what bears on a message: episodes, those found by meaning, and reflections, with their block for the prompt. Each leg
 * shows what the viewer sees, and one that fails is named in `failures`. Is rejected only if every leg fails.
 */
export const recallMemories = (
  message: string,
  adapter: EpisodicMemory.MemoryAdapter,
  viewer: Viewer.Any,
  run: Run,
  config?: typeof EpisodicMemory.RecallConfig.Encoded
): Promise<EpisodicMemory.Recalled> =>
  run(Effect.scoped(Effect.flatMap(
    Layer.build(EpisodicMemory.layerAdapter(adapter)),
    (context) => Context.get(context, EpisodicMemory.EpisodicMemory).beforeTurn(viewer, Message.user(message), config)
  )))

/** Emotion as valence, arousal and dominance. */
export type { VAD } from "../domain/Emotion.ts"
/** An appraisal in nine dimensions, the one that is neutral, and one whose numbers are brought into their ranges. */
export { type Appraisal as AppraisalVector, clamp, NEUTRAL_APPRAISAL } from "../domain/Emotion.ts"
/** Removes the tags before a message, such as `[mood: calm]`. */
export { stripMetaTags } from "../domain/Message.ts"
/** The adapter of a viewer, and the service over an adapter of your own. */
export { layerAdapter, toAdapter } from "../kinds/EpisodicMemory.ts"
/** Renders what was recalled as a block for a prompt, escaped; `""` where nothing was. */
export { buildMemoryBlock } from "../kinds/EpisodicMemory.ts"
/** The limits of a recall, and the types of episodes that it has. */
export { RecallConfig, RecallLimits } from "../kinds/EpisodicMemory.ts"
/** The adapter, the queries that it answers, an episode, a reflection, and what was recalled. */
export type {
  Episode,
  MemoryAdapter,
  Recalled as RecallResult,
  Reflection,
  SeedQuery as RecallQuery,
  SemanticRecallOptions
} from "../kinds/EpisodicMemory.ts"
