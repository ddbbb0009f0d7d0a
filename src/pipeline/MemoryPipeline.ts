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
  /** Shared scopes that may be written for a viewer that names a user, session or actor: see `Sharing`. Default none. */
  readonly sharedWrites?: SharedWrites | undefined
  /** `false`: each turn as it is, no model, no vectors yet. Default true. */
  readonly infer?: boolean | undefined
  /** Default `soft`: closed and kept. */
  readonly supersede?: "soft" | "hard" | undefined
  /** Default, and 0: for ever. */
  readonly ttl?: Duration.DurationInput | undefined
  /** Default `semantic`; `episodic` without `infer`. */
  readonly kind?: string | undefined
  /** Neighbours that each fact is compared with, 1..1,000; default 5. All facts together: 1,000, and 262,144 characters. */
  readonly topK?: number | undefined
  /** Facts of one reading, and records that it adds at most, 1..256; default 64: the first. The receipt counts the others. */
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

/** What was beyond the limits of one reading, and is not in the receipt's mutations. */
export const LeftOut = Schema.Struct({
  /** Facts beyond `maxFacts`, or beyond 262,144 characters of all of them. */
  facts: Schema.NonNegativeInt,
  /** Decisions of the model beyond `maxFacts` new records or 128 changed ones. */
  decisions: Schema.NonNegativeInt,
  /** Characters of the conversation that the model was not shown: the ends of the longest turns, beyond 262,144 in all. */
  characters: Schema.NonNegativeInt
})
export interface LeftOut extends Schema.Schema.Type<typeof LeftOut> {}

/** A receipt of `remember` or `plan`: what was planned, what became of it, and for whom. Encodable; `undo` takes it back. */
export const Receipt = Schema.Struct({
  ...Sealing.sealedFields,
  /**
   * The store's signature of viewer, mutations and `applied`. `undo` refuses a receipt without it, or one that was changed.
   * Absent in receipts written before there were seals, which cannot be undone any more.
   */
  seal: Schema.optional(Schema.String),
  /** Absent where there was none. */
  failures: Schema.optional(Schema.Array(Failure)),
  /** Absent where nothing was. */
  leftOut: Schema.optional(LeftOut)
})
export interface Receipt extends Schema.Schema.Type<typeof Receipt> {}

export interface Service {
  /**
   * Extracts, reconciles and writes. An answer of the model that is none (prose, JSON of another shape, more than 262,144
   * characters) fails with `model`, which is retryable, and nothing is changed; an explicit empty list means no facts.
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
   * `not_owned` where the receipt is not as this store made it (see `Receipt.seal`), `conflict` where a record has moved on
   * since; then nothing is changed. Content, times and links are as before; revisions go on
   * counting.
   */
  readonly undo: (receipt: Receipt) => Effect.Effect<void, MemoryError.MemoryError>
  /** Embeds the text, searches, and says what was left out. Lexical where there is nothing to embed with. */
  readonly recall: (viewer: Viewer.Any, query: MemoryQuery) => Effect.Effect<SearchResult, MemoryError.MemoryError>
  /** Makes vectors for these records of the viewer's tenant now, and not only with `embedMissing`: how many were made. */
  readonly embed: (
    viewer: Viewer.Any,
    records: ReadonlyArray<MemoryRecord>
  ) => Effect.Effect<number, MemoryError.MemoryError>
  /** Makes the vectors that any tenant waits for: how many were made. */
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
        // a reader of a queue has no receipt to look at
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

/** Fails with `not_owned` unless `store` sealed exactly this receipt. `undo` asks it first. */
export const verify = (
  store: Pick<MemoryStore.Service, "sign">,
  receipt: Receipt
): Effect.Effect<void, MemoryError.MemoryError> => Sealing.verify(store, receipt)

/** What `undo` applies: each record as it was before the receipt. What has expired is gone. */
export const inverse = ({ applied }: Pick<Receipt, "applied">, now: number): ReadonlyArray<MemoryMutation> =>
  inverseOf(applied, now)
