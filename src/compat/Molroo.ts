/**
 * The memory interface of molroo's SDK, for code that was written for molroo. This module converts a `MemoryAdapter` of molroo to the
 * service `EpisodicMemory` and back, and has molroo's `recallMemories`. `layerAdapter` provides `EpisodicMemory` over an adapter of your
 * own.
 *
 * The methods of an adapter return promises. The argument `run`, such as `Effect.runPromise`, makes these promises from effects. A recall
 * makes four queries: for chat messages, other events, episodes similar to the message, and reflections. `docs/compat.md` lists the
 * deliberate differences from molroo, with a test of each. For example, every filter of a query is applied. A viewer with an `actorId` gets
 * no episodes of another entity. An episode that is saved again under its id is stored once. A query that fails is listed in `failures`.
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

/** Makes an adapter over a new store in memory, for one viewer. */
export const InMemoryAdapter = (
  viewer: Viewer.Any,
  run: Run
): Effect.Effect<Required<EpisodicMemory.MemoryAdapter>, never, Scope.Scope> =>
  Effect.flatMap(
    Layer.build(Layer.provide(EpisodicMemory.layer, Store.layerInMemory)),
    (context) => Effect.provide(EpisodicMemory.toAdapter(viewer, run), context)
  )

/**
 * Recalls the memories that relate to a message, and renders them as a block for the prompt. Makes four queries: for chat messages, other
 * events, episodes similar to the message, and reflections. A limit of 0 in `config` turns a query off. Each query returns only what the
 * viewer sees. Queries for which the adapter has no method are skipped. Queries that fail are listed in `failures`. Rejects if all fail.
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
/** `AppraisalVector` rates an event in nine dimensions, which `clamp` limits to their ranges. `NEUTRAL_APPRAISAL` is the neutral rating. */
export { type Appraisal as AppraisalVector, clamp, NEUTRAL_APPRAISAL } from "../domain/Emotion.ts"
/** Removes the tags at the beginning of a message, such as `[mood: calm]`. A message of tags only stays unchanged. */
export { stripMetaTags } from "../domain/Message.ts"
/** `toAdapter` makes an adapter for one viewer. `layerAdapter` provides `EpisodicMemory` over an adapter of your own. */
export { layerAdapter, toAdapter } from "../kinds/EpisodicMemory.ts"
/** Renders recalled memories as an escaped block for a prompt. Returns `""` if there are no memories. */
export { buildMemoryBlock } from "../kinds/EpisodicMemory.ts"
/** Schemas of the options of a recall. `RecallLimits` has the limits; `RecallConfig` also has the types of the episodes to recall. */
export { RecallConfig, RecallLimits } from "../kinds/EpisodicMemory.ts"
/** The types of an adapter, its queries, an episode, a reflection, and the result of a recall. */
export type {
  Episode,
  MemoryAdapter,
  Recalled as RecallResult,
  Reflection,
  SeedQuery as RecallQuery,
  SemanticRecallOptions
} from "../kinds/EpisodicMemory.ts"
