/** extract → embed and search → reconcile → apply, and the way back: recall. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryQuery, SearchResult } from "../domain/MemoryFilter.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { type Applied, inverse as inverseOf, type MemoryMutation } from "../domain/MemoryMutation.ts"
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import type { MemoryScope } from "../domain/MemoryScope.ts"
import type { Message } from "../domain/Message.ts"
import type { SharedWrites } from "../domain/Sharing.ts"
import * as Viewer from "../domain/Viewer.ts"
import { Completion } from "../host/Completion.ts"
import { Embedder } from "../host/Embedder.ts"
import * as EventLoop from "../host/EventLoop.ts"
import * as Embedding from "../storage/Embedding.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as Application from "./Application.ts"
import type { Fact } from "./Extraction.ts"
import * as Recall from "./Recall.ts"
import * as Sealing from "./Sealing.ts"

/**
 * `origin` is `pipeline` by default. `trust` is that of the worst turn that is read, a tool's 3 and any other 1, or what
 * is said here where that is worse.
 */
export interface Options extends MemoryStore.Provenance {
  /** Of all that is written, and of the neighbours compared with: exactly this. */
  readonly scope: MemoryScope
  /** Shared scopes that may be written for a viewer that names a user, session or actor: see `Sharing`. Default: none. */
  readonly sharedWrites?: SharedWrites | undefined
  /** `false`: each turn as it is, no model, no vectors yet. Default true. */
  readonly infer?: boolean | undefined
  /** Default `soft`: closed and kept. */
  readonly supersede?: "soft" | "hard" | undefined
  /** Default, and 0: for ever. */
  readonly ttl?: Duration.DurationInput | undefined
  /** Default `semantic`; `episodic` without `infer`. */
  readonly kind?: string | undefined
  /** Neighbours per fact, 1..1,000; default 5. All facts together have at most 1,000, of 262,144 characters in all. */
  readonly topK?: number | undefined
  /** Most facts that one reading takes and records that it adds, 1..256; default 64. The receipt counts those left out. */
  readonly maxFacts?: number | undefined
  readonly customInstructions?: string | undefined
  /** Instead of the model; is given tools too, which the model is not. */
  readonly customExtract?:
    | ((messages: ReadonlyArray<Message>) => Effect.Effect<ReadonlyArray<Fact>, MemoryError.MemoryError>)
    | undefined
  readonly session?: string | undefined
  /** Of the first turn, within the session, or of each. Without `infer`: the same turns again are nothing new. */
  readonly sequence?: number | ReadonlyArray<number> | undefined
  /** Which of several conversations within the session `sequence` counts in. Default: there is one. */
  readonly line?: string | undefined
  /** Writes the batch instead of the store's own `apply`, all of it or nothing: with rows of the caller's beside it. */
  readonly apply?: Apply | undefined
}

/** As `MemoryStore.apply` does. */
export type Apply = (
  viewer: Viewer.Any,
  mutations: ReadonlyArray<MemoryMutation>,
  provenance: MemoryStore.Provenance
) => Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError>

/** What gave no answer, where the work went on without it. */
export const Failure = Schema.Struct({ leg: Schema.String, error: MemoryError.MemoryError })
export interface Failure extends Schema.Schema.Type<typeof Failure> {}

/** Counts of what exceeded the limits of one reading and so is not in the receipt's mutations. */
export const LeftOut = Schema.Struct({
  /** Facts beyond `maxFacts`, or beyond 262,144 characters in all. */
  facts: Schema.NonNegativeInt,
  /** Decisions of the model beyond `maxFacts` added or 128 changed records. */
  decisions: Schema.NonNegativeInt,
  /** UTF-16 units of the conversation that the model was not shown: ends of the longest turns, and all but the last turns. */
  characters: Schema.NonNegativeInt
})
export interface LeftOut extends Schema.Schema.Type<typeof LeftOut> {}

/** A receipt of `remember` or `plan`: the viewer, the planned mutations and their outcomes. Encodable; `undo` reverses it. */
export const Receipt = Schema.Struct({
  ...Sealing.sealedFields,
  /**
   * The store's signature of `viewer`, `mutations` and `applied`. `undo` refuses a receipt without it, or a changed one.
   * Absent in receipts of versions without seals, which can no longer be undone.
   */
  seal: Schema.optional(Schema.String),
  /** Absent where there was none. */
  failures: Schema.optional(Schema.Array(Failure)),
  /** Absent if nothing was left out. */
  leftOut: Schema.optional(LeftOut)
})
export interface Receipt extends Schema.Schema.Type<typeof Receipt> {}

export interface Service {
  /**
   * Extracts, reconciles and writes. Fails with `model`, which is retryable, and changes nothing if the model's answer is
   * prose, JSON of another shape or longer than 262,144 characters. An explicit empty list means that there are no facts.
   */
  readonly remember: (
    viewer: Viewer.Any,
    messages: ReadonlyArray<Message>,
    options: Options
  ) => Effect.Effect<Receipt, MemoryError.MemoryError>
  /** `remember` that changes nothing. */
  readonly plan: (
    viewer: Viewer.Any,
    messages: ReadonlyArray<Message>,
    options: Options
  ) => Effect.Effect<Receipt, MemoryError.MemoryError>
  /**
   * Reverses a receipt: content, times and links become what they were, revisions go on counting. Fails with `not_owned` if
   * this store did not seal the receipt as it is (see `Receipt.seal`), with `conflict` if a record has changed since; then
   * nothing is changed.
   */
  readonly undo: (receipt: Receipt) => Effect.Effect<void, MemoryError.MemoryError>
  /** Embeds the text, searches, and says what was left out. Lexical where there is nothing to embed with. */
  readonly recall: (viewer: Viewer.Any, query: MemoryQuery) => Effect.Effect<SearchResult, MemoryError.MemoryError>
  /** Makes vectors for these records of the viewer's tenant now instead of with `embedMissing`. Returns how many it made. */
  readonly embed: (
    viewer: Viewer.Any,
    records: ReadonlyArray<MemoryRecord>
  ) => Effect.Effect<number, MemoryError.MemoryError>
  /** Makes the missing vectors of every tenant. Returns how many it made. */
  readonly embedMissing: Effect.Effect<number, MemoryError.MemoryError>
}

export class MemoryPipeline extends Context.Tag("@memory/MemoryPipeline")<MemoryPipeline, Service>() {}

export const make: Effect.Effect<Service, never, MemoryStore.MemoryStore | Completion | Embedder> = Effect.gen(
  function*() {
    const store = yield* MemoryStore.MemoryStore
    const completion = yield* Completion
    const embedder = yield* Embedder
    const kinds = yield* MemoryKind.Kinds
    const embedding = Embedding.make(store, embedder)
    const run = Application.make({ store, completion, embedder, embedding, kinds })

    const through = (op: string, write: boolean): Service["remember"] => (viewer, messages, options) =>
      Viewer.required(op, viewer, (viewer) => run(viewer, messages, options, write)).pipe(
        Effect.tap(({ applied, mutations }) => EventLoop.pacer()(1_024 * (applied.length + mutations.length))),
        Effect.flatMap(({ applied, failures, leftOut, mutations }) =>
          Effect.map(Sealing.seal(store, { viewer, mutations, applied }), (seal): Receipt => ({
            viewer,
            mutations,
            applied,
            seal,
            ...(failures.length > 0 && { failures }),
            ...(leftOut && leftOut.facts + leftOut.decisions + leftOut.characters > 0 && { leftOut })
          }))
        ),
        // whoever runs an outbox sees no receipt, so the log says it
        Effect.tap(({ leftOut }) => leftOut && Effect.logWarning("a reading reached its limits", leftOut)),
        Effect.withSpan(`MemoryPipeline.${op}`)
      )

    return {
      remember: through("remember", true),
      plan: through("plan", false),
      undo: (receipt) =>
        Effect.gen(function*() {
          yield* Sealing.verify(store, receipt)
          const mutations = inverse(receipt, yield* Clock.currentTimeMillis)
          if (mutations.length > 0) yield* store.apply(receipt.viewer, mutations)
        }).pipe(Effect.withSpan("MemoryPipeline.undo")),
      recall: (viewer, query) =>
        Recall.recall(embedding, query, (query) => store.search(viewer, query)).pipe(
          Effect.withSpan("MemoryPipeline.recall")
        ),
      embed: (viewer, records) =>
        Viewer.required("embed", viewer, (viewer) => embedding.keep(Viewer.tenantOf(viewer), records, "add")).pipe(
          Effect.withSpan("MemoryPipeline.embed")
        ),
      embedMissing: Effect.withSpan(embedding.missing, "MemoryPipeline.embedMissing")
    }
  }
)

export const layer: Layer.Layer<MemoryPipeline, never, MemoryStore.MemoryStore | Completion | Embedder> = Layer.effect(
  MemoryPipeline,
  make
)

/** Fails with `not_owned` unless `store` sealed exactly this receipt. `undo` runs it first. */
export const verify = (
  store: Pick<MemoryStore.Service, "sign">,
  receipt: Receipt
): Effect.Effect<void, MemoryError.MemoryError> => Sealing.verify(store, receipt)

/** What `undo` applies: each record as it was before the receipt. What has expired is gone. */
export const inverse = ({ applied }: Pick<Receipt, "applied">, now: number): ReadonlyArray<MemoryMutation> =>
  inverseOf(applied, now)
