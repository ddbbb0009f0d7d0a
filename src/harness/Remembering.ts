/**
 * The pipeline behind `MemoryService`: with the model and the embedder that are provided, or without. What it writes and
 * finds is reported like any other write and search.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryQuery, SearchResult } from "../domain/MemoryFilter.ts"
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import type { Message } from "../domain/Message.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as Completion from "../host/Completion.ts"
import * as Embedder from "../host/Embedder.ts"
import * as MemoryPipeline from "../pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as WritePolicy from "./WritePolicy.ts"

export interface Remembering {
  readonly remember: (
    viewer: Viewer.Viewer,
    turns: ReadonlyArray<Message>,
    options: MemoryPipeline.Options
  ) => Effect.Effect<MemoryPipeline.Receipt, MemoryError.MemoryError>
  readonly plan: (
    viewer: Viewer.Viewer,
    turns: ReadonlyArray<Message>,
    options: MemoryPipeline.Options
  ) => Effect.Effect<MemoryPipeline.Receipt, MemoryError.MemoryError>
  readonly undo: (
    viewer: Viewer.Viewer,
    receipt: MemoryPipeline.Receipt
  ) => Effect.Effect<void, MemoryError.MemoryError>
  readonly recall: (viewer: Viewer.Viewer, query: MemoryQuery) => Effect.Effect<SearchResult, MemoryError.MemoryError>
  /** Makes vectors now, best effort: a record without one stays pending. */
  readonly embed: (viewer: Viewer.Viewer, records: ReadonlyArray<MemoryRecord>) => Effect.Effect<void>
  readonly embedMissing: Effect.Effect<number, MemoryError.MemoryError>
  /** The models that were there when it was made. */
  readonly found: { readonly completion: string | null; readonly embedder: string | null }
}

/** Makes the pipeline over the store that is there, held to the rules. */
export const make = (
  { events, rules }: Pick<WritePolicy.Options, "events" | "rules">
): Effect.Effect<Remembering, never, MemoryStore.MemoryStore> =>
  Effect.gen(function*() {
    const { sharedWrites = [] } = rules
    const { degraded, recalled } = events
    const store = yield* MemoryStore.MemoryStore
    const completion = yield* Effect.serviceOption(Completion.Completion)
    const embedder = yield* Effect.serviceOption(Embedder.Embedder)
    const pipeline = yield* Effect.provide(
      MemoryPipeline.make,
      Layer.merge(
        Option.match(completion, { onNone: () => Completion.layerNone, onSome: Layer.succeed(Completion.Completion) }),
        Option.match(embedder, { onNone: () => Embedder.layerNone, onSome: Layer.succeed(Embedder.Embedder) })
      )
    )
    const legs = (viewer: Viewer.Viewer, failures: MemoryPipeline.Receipt["failures"] = []) =>
      Effect.forEach(failures, ({ error, leg }) => degraded(viewer, leg)(error), { discard: true })

    return {
      remember: (viewer, turns, options) =>
        events.write(
          viewer,
          Effect.zipRight(
            WritePolicy.mayWrite(rules, "remember", options.scope),
            pipeline.remember(viewer, turns, { ...options, sharedWrites })
          ),
          ({ applied }) => applied
        ).pipe(Effect.tap(({ failures }) => legs(viewer, failures))),
      plan: (viewer, turns, options) =>
        Effect.zipRight(
          WritePolicy.mayWrite(rules, "plan", options.scope),
          pipeline.plan(viewer, turns, { ...options, sharedWrites })
        ),
      undo: (viewer, receipt) =>
        Viewer.equals(viewer, receipt.viewer)
          ? Effect.gen(function*() {
            yield* MemoryPipeline.verify(store, receipt)
            const mutations = MemoryPipeline.inverse(receipt, yield* Clock.currentTimeMillis)
            const governed = WritePolicy.make(store, { rules, events, op: "undo" })
            if (mutations.length > 0) yield* governed.apply(viewer, mutations)
          })
          : MemoryError.make("not_owned", { op: "undo", message: "a receipt is undone by the viewer it was made for" }),
      recall: (viewer, query) =>
        pipeline.recall(viewer, query).pipe(
          Effect.tap(recalled(viewer, query)),
          Effect.tap(({ failures }) => legs(viewer, failures))
        ),
      embed: (viewer, records) => Effect.catchAll(pipeline.embed(viewer, records), degraded(viewer, "vector")),
      embedMissing: pipeline.embedMissing,
      found: {
        completion: Option.match(completion, { onNone: () => null, onSome: ({ model }) => model }),
        embedder: Option.match(embedder, { onNone: () => null, onSome: ({ model }) => model })
      }
    }
  })
