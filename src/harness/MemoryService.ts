/**
 * What a harness provides: the one service an agent's code asks. Its operations require `CurrentViewer`, so code
 * that forgets for whom it acts does not compile. Everything below it is told the viewer as a first argument.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import type * as Stream from "effect/Stream"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryFilter, MemoryQuery, Page, SearchResult } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import type { Draft, MemoryRecord, Patch } from "../domain/MemoryRecord.ts"
import type { Message } from "../domain/Message.ts"
import type { Viewer } from "../domain/Viewer.ts"
import type { MemoryTool } from "../host/MemoryTool.ts"
import type * as MemoryPipeline from "../pipeline/MemoryPipeline.ts"
import type { IfRevision, MemoryStore, Put, PutOptions } from "../storage/MemoryStore.ts"
import type { MemoryEvent, MemoryEvents } from "./MemoryEvents.ts"
import type { Input, MemorySpec } from "./MemorySpec.ts"
import type { PromptBlock } from "./PromptBlock.ts"

/** For whom this code acts. Provided by `as`, and by nothing else. */
export class CurrentViewer extends Context.Tag("@memory/CurrentViewer")<CurrentViewer, Viewer>() {}

export declare const as: (viewer: Viewer) => <A, E, R>(
  self: Effect.Effect<A, E, R>
) => Effect.Effect<A, E, Exclude<R, CurrentViewer>>

/** An operation on behalf of the current viewer. */
export interface Operation<out A> extends Effect.Effect<A, MemoryError, CurrentViewer> {}
/** One that never fails: what went wrong is an event, and said in the text. */
export interface BestEffort<out A> extends Effect.Effect<A, never, CurrentViewer> {}

export interface Service {
  readonly spec: MemorySpec

  readonly put: (draft: Draft, options?: PutOptions) => Operation<Put>
  readonly get: (id: MemoryId) => Operation<Option.Option<MemoryRecord>>
  readonly search: (query: MemoryQuery) => Operation<SearchResult>
  readonly list: (filter: MemoryFilter) => Operation<Page<MemoryRecord>>
  readonly update: (id: MemoryId, patch: Patch, options?: IfRevision) => Operation<MemoryRecord>
  /** `false` where there was nothing to forget. `purge` leaves nothing of it. */
  readonly forget: (id: MemoryId, options?: { readonly purge?: boolean | undefined }) => Operation<boolean>
  /** All that the viewer sees and the filter means, whatever its limit; how many. "Delete all about me." */
  readonly forgetAll: (filter: MemoryFilter, options?: { readonly purge?: boolean | undefined }) => Operation<number>
  /** Newest first; the last 20 by default. */
  readonly history: (id: MemoryId, limit?: number) => Operation<ReadonlyArray<MemoryRecord>>
  /** All or nothing. */
  readonly apply: (mutations: ReadonlyArray<MemoryMutation>) => Operation<ReadonlyArray<Applied>>

  /** `unsupported` without a `Completion`, unless `infer: false`. */
  readonly remember: (
    messages: ReadonlyArray<Message>,
    options: MemoryPipeline.Options
  ) => Operation<MemoryPipeline.Receipt>
  readonly plan: (
    messages: ReadonlyArray<Message>,
    options: MemoryPipeline.Options
  ) => Operation<MemoryPipeline.Receipt>
  /** Lexical without an `Embedder`. */
  readonly recall: (query: MemoryQuery) => Operation<SearchResult>
  /** `not_owned` where the receipt is another viewer's. */
  readonly undo: (receipt: MemoryPipeline.Receipt) => Operation<void>

  /** The memory index: summaries and ids, 30 by default, for the system prompt. */
  readonly index: BestEffort<PromptBlock>
  /** What bears on the last user message, 5 by default, for the end of it. */
  readonly context: (turn: ReadonlyArray<Message>) => BestEffort<PromptBlock>
  /** `""` without `InstructionFiles`. */
  readonly instructions: BestEffort<string>

  readonly turnStart: BestEffort<void>
  /** Kept before it returns; extraction follows its trigger. The session is the viewer's `sessionId ?? runId`. */
  readonly turnEnd: (messages: ReadonlyArray<Message>) => Operation<void>
  /** Waits for everybody's extraction. Each row acts for its own viewer. */
  readonly flush: Effect.Effect<void, MemoryError>

  /** The tool behind the gate: plugins, write limit and events are those that the layer was built with, wherever it is called. */
  readonly guard: (viewer: Viewer, tool: MemoryTool) => MemoryTool

  /** Of every viewer: for the harness. */
  readonly events: Stream.Stream<MemoryEvent>
}

export class MemoryService extends Context.Tag("@memory/MemoryService")<MemoryService, Service>() {}

/**
 * Requires a store. Used where they are provided, and missed where an operation needs them: `Completion`, `Embedder`,
 * `MemoryManager`, `InstructionFiles`, `MemoryEvents`, `Plugins`.
 */
export declare const layer: (spec?: Input) => Layer.Layer<MemoryService, MemoryError, MemoryStore>

export interface TestOptions {
  /** ISO 8601 or epoch ms. Default: the clock that is there, which under `it.effect` is a TestClock at 0. */
  readonly now?: string | number | undefined
  /** Default `"memory"`. */
  readonly seed?: string | number | undefined
  /** The model's answers, in order; a string as it is, anything else as its JSON. Default none. */
  readonly script?: Iterable<unknown> | undefined
  readonly spec?: Input | undefined
}

/** All of it in memory: seeded, scripted, with hashed vectors. */
export declare const layerTest: (options?: TestOptions) => Layer.Layer<MemoryService | MemoryStore | MemoryEvents>

/** Seed 1: never fails; "memory unavailable" in the block, and an event and a warning tell why. */
export declare const renderMemoryIndex: Effect.Effect<string, never, MemoryService | CurrentViewer>
