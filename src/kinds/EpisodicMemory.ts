/** What happened and how it felt, and the two halves of a chat turn around the reply. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MemoryError from "../domain/MemoryError.ts"
import type { SearchResult } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { Message } from "../domain/Message.ts"
import type * as Payload from "../domain/Payload.ts"
import type * as Viewer from "../domain/Viewer.ts"
import type { MemoryStore } from "../storage/MemoryStore.ts"
import * as Adapter from "./EpisodicMemory/Adapter.ts"
import * as Source from "./EpisodicMemory/Source.ts"
import * as Turns from "./EpisodicMemory/Turns.ts"
import type { DraftOf, Found, Typed } from "./TypedMemory.ts"

export type Episode = Payload.Episode
export type Reflection = Payload.Reflection

export type { MemoryAdapter, SeedQuery } from "./EpisodicMemory/Adapter.ts"
export { buildMemoryBlock } from "./EpisodicMemory/Block.ts"
export type { RecallQuery, SemanticRecallOptions } from "./EpisodicMemory/Source.ts"
export { RecallLimits } from "./EpisodicMemory/Turns.ts"

export interface Recalled {
  /** Conversation and events, newest first; half the room for each, and what one leaves is the other's. */
  readonly episodic: ReadonlyArray<Typed<Episode>>
  /** Best first, without those in `episodic` or what says the same. */
  readonly semantic: ReadonlyArray<Found<Episode>>
  /** Newest first. */
  readonly reflections: ReadonlyArray<Typed<Reflection>>
  /** The four sections, escaped; `""` where there are none. */
  readonly block: string
  /** Legs that failed; the others are there. */
  readonly failures: SearchResult["failures"]
}

export interface Turn {
  readonly episode: DraftOf<Episode>
  readonly reflection?: DraftOf<Reflection> | undefined
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The time of an episode is its `validAt`, its counterpart the `actorId` of its scope. Newest first is by that time, then by id. */
export interface Service {
  /** Its type is `chat_message` where it says none; its context is its summary where it says none. */
  readonly saveEpisode: (viewer: Viewer.Any, episode: DraftOf<Episode>) => Io<Typed<Episode>>
  /** Newest first, of the 1,000 last recorded that match; with `context` what says the same is folded. */
  readonly recall: (viewer: Viewer.Any, query: Source.RecallQuery) => Io<ReadonlyArray<Typed<Episode>>>
  /** Best first. By words alone, and a warning, where the embedder fails. */
  readonly semanticRecall: (
    viewer: Viewer.Any,
    text: string,
    options?: Source.SemanticRecallOptions
  ) => Io<ReadonlyArray<Found<Episode>>>
  /** In the order of the ids, without those that are not there. */
  readonly getByIds: (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId>) => Io<ReadonlyArray<Typed<Episode>>>
  readonly saveReflection: (viewer: Viewer.Any, reflection: DraftOf<Reflection>) => Io<Typed<Reflection>>
  /** Newest first; default 20. */
  readonly getReflections: (viewer: Viewer.Any, limit?: number) => Io<ReadonlyArray<Typed<Reflection>>>
  /**
   * Waits for this viewer's `afterTurn`s first. Fails only where every leg does. Every leg finds what the viewer sees: of
   * its `actorId`, the counterpart, and of nobody in particular.
   */
  readonly beforeTurn: (
    viewer: Viewer.Any,
    message: Message,
    limits?: typeof Turns.RecallLimits.Encoded
  ) => Io<Recalled>
  /** Returns at once; saved by a fiber that the layer's scope waits for. A failure is logged and in `failures`. */
  readonly afterTurn: (viewer: Viewer.Any, turn: Turn) => Effect.Effect<void>
  /** Of `afterTurn`, since the layer was built. */
  readonly failures: Effect.Effect<ReadonlyArray<MemoryError.MemoryError>>
}

export class EpisodicMemory extends Context.Tag("@memory/EpisodicMemory")<EpisodicMemory, Service>() {}

/** Semantic recall is lexical without an `Embedder`. */
export const layer: Layer.Layer<EpisodicMemory, never, MemoryStore> = Layer.scoped(
  EpisodicMemory,
  Effect.flatMap(Source.fromStore, Turns.make)
)

/** The harness keeps the history itself: nothing is stored and nothing recalled. To save one by one is `unsupported`. */
export const layerExternal: Layer.Layer<EpisodicMemory> = Layer.succeed(EpisodicMemory, {
  saveEpisode: () => external("saveEpisode"),
  recall: () => Effect.succeed([]),
  semanticRecall: () => Effect.succeed([]),
  getByIds: () => Effect.succeed([]),
  saveReflection: () => external("saveReflection"),
  getReflections: () => Effect.succeed([]),
  beforeTurn: () => Effect.succeed({ episodic: [], semantic: [], reflections: [], block: "", failures: [] }),
  afterTurn: () => Effect.void,
  failures: Effect.succeed([])
})

/** What an adapter lacks is `unsupported`, and no leg of a turn. What it answers is held against query and viewer again. */
export const layerAdapter = (adapter: Adapter.MemoryAdapter): Layer.Layer<EpisodicMemory> =>
  Layer.scoped(EpisodicMemory, Turns.make(Adapter.toSource(adapter)))

/**
 * For one viewer, as the seed's `MemoryAdapter`: `toAdapter(viewer, Effect.runPromise)`. One that keeps many counterparts
 * apart is `within` its `agentId`.
 */
export const toAdapter = (
  viewer: Viewer.Any,
  run: Adapter.Run
): Effect.Effect<Required<Adapter.MemoryAdapter>, never, EpisodicMemory> =>
  Effect.map(EpisodicMemory, (memory) => Adapter.fromService(memory, viewer, run))

const external = (op: string) =>
  MemoryError.make("unsupported", { op, message: "the harness keeps the history: there is nothing to save to" })
