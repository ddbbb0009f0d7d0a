/**
 * Pipeline from conversations to memories: `remember` extracts facts, embeds them, finds related memories, reconciles the facts with them
 * and writes the result; `recall` searches; `undo` reverts what a `remember` wrote, by its receipt.
 *
 * Receipts leave the process: a harness stores them as JSON, a client may hold them. A receipt is therefore sealed: the store signs the
 * viewer, the mutations and their outcomes, from which `undo` is computed, so that `undo` reverts only writes that the store really made
 * for that viewer. A seal survives encoding and decoding, and is valid as long as the store keeps its secret: in a Markdown vault across
 * restarts, in a store in memory until the process ends.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Schema from "effect/Schema"
import { canonicalJson } from "../domain/Digest.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryQuery, SearchResult } from "../domain/MemoryFilter.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { Applied, inverse as inverseOf, MemoryMutation } from "../domain/MemoryMutation.ts"
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import type { MemoryScope } from "../domain/MemoryScope.ts"
import { type Message, Role } from "../domain/Message.ts"
import { tokensIn } from "../domain/PromptText.ts"
import { check } from "../domain/Validation.ts"
import * as Viewer from "../domain/Viewer.ts"
import { Completion } from "../host/Completion.ts"
import { Embedder } from "../host/Embedder.ts"
import * as EventLoop from "../host/EventLoop.ts"
import * as Redaction from "../host/Redaction.ts"
import * as EmbeddingSync from "../storage/EmbeddingSync.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import type { Fact } from "./Extraction.ts"
import * as RememberRun from "./MemoryPipeline/RememberRun.ts"

/**
 * Options of `remember` and `plan`. `origin` is `pipeline` by default. The trust of the written records is that of the least trusted turn,
 * 3 for a tool's and 1 for any other, or `trust` if that is less trusted.
 */
export interface Options extends MemoryStore.Provenance {
  /** Scope of all written records. Facts are compared only with memories of exactly this scope. */
  readonly scope: MemoryScope
  /** Shared scopes that may be written on behalf of a viewer that names a user, session or actor: see `Viewer.mayWrite`. Default: none. */
  readonly sharedWrites?: Viewer.SharedWrites | undefined
  /** Whether a model extracts facts. `false` stores each turn word for word, without vectors at first. Default true. */
  readonly infer?: boolean | undefined
  /** Treatment of superseded records: `soft` closes them but keeps them, `hard` forgets them. Default `soft`. */
  readonly supersede?: "soft" | "hard" | undefined
  /** Time to live of the written records. Default, and 0: no expiry. */
  readonly ttl?: Duration.DurationInput | undefined
  /** Kind of the written records. Default `semantic`; without `infer`, `episodic`. */
  readonly kind?: string | undefined
  /** Number of related memories per fact, 1..1,000; default 5. All facts together get at most 1,000, of 262,144 characters in all. */
  readonly topK?: number | undefined
  /** Largest number of extracted facts, and of added records, 1..256; default 64. The receipt counts those left out. */
  readonly maxFacts?: number | undefined
  readonly customInstructions?: string | undefined
  /**
   * Extracts facts instead of the model; a fact may have tags, links, metadata and a time. Unlike the model, it is also given the turns of
   * tools. The model, if there is one, still decides how the facts change memory; without a model, each fact is added.
   */
  readonly customExtract?:
    | ((messages: ReadonlyArray<Message>) => Effect.Effect<ReadonlyArray<Fact>, MemoryError.MemoryError>)
    | undefined
  readonly session?: string | undefined
  /**
   * Sequence number of the first turn within the session, or of each turn. Without `infer`, turns that are already stored are not stored
   * again.
   */
  readonly sequence?: number | ReadonlyArray<number> | undefined
  /**
   * Name of the conversation within the session in which `sequence` counts. Default: the session has only one. An outbox puts this before
   * its own name of the conversation.
   */
  readonly line?: string | undefined
  /** Replaces the store's `apply` for the batch, which must be written whole or not at all; the caller may add rows of its own. */
  readonly apply?: Apply | undefined
}

/** Applies a batch as `MemoryStore.apply` does. */
export type Apply = (
  viewer: Viewer.Any,
  mutations: ReadonlyArray<MemoryMutation>,
  provenance: MemoryStore.Provenance
) => Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError>

/** A part of the work, such as a retriever of a search (its `leg`), that failed without failing the call. */
export const Failure = Schema.Struct({ leg: Schema.String, error: MemoryError.MemoryError })
/** A failure, as `Failure` decodes it. */
export interface Failure extends Schema.Schema.Type<typeof Failure> {}

/** Counts of the items that exceeded the limits of one run and are therefore not in the receipt's mutations. */
export const LeftOut = Schema.Struct({
  /** Facts beyond `maxFacts`, or beyond 262,144 characters in all. */
  facts: Schema.NonNegativeInt,
  /** Decisions of the model beyond `maxFacts` added or 128 changed records. */
  decisions: Schema.NonNegativeInt,
  /** UTF-16 units of the conversation that the model was not shown: turns before the last ones, and the ends of the longest turns. */
  characters: Schema.NonNegativeInt
})
/** Counts, as `LeftOut` decodes them. */
export interface LeftOut extends Schema.Schema.Type<typeof LeftOut> {}

/** The parts of a receipt that its seal signs. */
const Sealed = Schema.Struct({
  viewer: Schema.Union(Viewer.System, Viewer.Stored),
  mutations: Schema.Array(MemoryMutation),
  /** Outcomes of the mutations; empty for a plan. */
  applied: Schema.Array(Applied)
})
interface Sealed extends Schema.Schema.Type<typeof Sealed> {}

/** A receipt of `remember` or `plan`: the viewer, the planned mutations and their outcomes. Encodable; `undo` reverses it. */
export const Receipt = Schema.Struct({
  ...Sealed.fields,
  /**
   * The store's signature of `viewer`, `mutations` and `applied`. `undo` rejects a receipt without a seal, and one that was altered.
   * Receipts of versions before seals have none, and can no longer be undone.
   */
  seal: Schema.optional(Schema.String),
  /** Parts of the work that failed; absent if none did. */
  failures: Schema.optional(Schema.Array(Failure)),
  /** Counts of the items that were left out; absent if none were. */
  leftOut: Schema.optional(LeftOut)
})
/** A receipt, as `Receipt` decodes it. */
export interface Receipt extends Schema.Schema.Type<typeof Receipt> {}

/** Operations of `MemoryPipeline`. */
export interface Service {
  /**
   * Extracts facts, reconciles them with related memories and writes the result. Fails with `invalid_draft` if a value is no message. Fails
   * with `model`, which is retryable, and changes nothing if the model's answer is prose, JSON of another shape or longer than 262,144
   * characters. An explicit empty list means that there are no facts.
   */
  readonly remember: (
    viewer: Viewer.Any,
    messages: ReadonlyArray<Message>,
    options: Options
  ) => Effect.Effect<Receipt, MemoryError.MemoryError>
  /** Does all that `remember` does except for the writing; the receipt has no outcomes. */
  readonly plan: (
    viewer: Viewer.Any,
    messages: ReadonlyArray<Message>,
    options: Options
  ) => Effect.Effect<Receipt, MemoryError.MemoryError>
  /**
   * Reverts the writes of a receipt: restores content, times and links, as new revisions. Fails with `not_owned` if the receipt has no
   * valid seal of this store (see `Receipt.seal`), and with `conflict` if a record has changed since; then nothing is changed.
   */
  readonly undo: (receipt: Receipt) => Effect.Effect<void, MemoryError.MemoryError>
  /** Embeds the text and searches; the result counts what was left out. Without an embedding model the search is lexical. */
  readonly recall: (viewer: Viewer.Any, query: MemoryQuery) => Effect.Effect<SearchResult, MemoryError.MemoryError>
  /** Computes vectors for these records of the viewer's tenant now, rather than in `embedMissing`. Returns their number. */
  readonly embed: (
    viewer: Viewer.Any,
    records: ReadonlyArray<MemoryRecord>
  ) => Effect.Effect<number, MemoryError.MemoryError>
  /** Computes the missing vectors of every tenant. Returns their number. */
  readonly embedMissing: Effect.Effect<number, MemoryError.MemoryError>
}

/** Schema of the fields that each message must have to be processed at all. */
const Messages = Schema.Array(Schema.Struct({ role: Role, content: Schema.String }))

/** Tag of the pipeline. */
export class MemoryPipeline extends Context.Tag("@memory/MemoryPipeline")<MemoryPipeline, Service>() {}

/** Makes the pipeline over the store, the `Completion` and the `Embedder` of the context. */
export const make: Effect.Effect<Service, never, MemoryStore.MemoryStore | Completion | Embedder> = Effect.gen(
  function*() {
    const store = yield* MemoryStore.MemoryStore
    const redaction = yield* Redaction.over(store)
    const completion = Redaction.completion(redaction, yield* Completion)
    const embedder = Redaction.embedder(redaction, yield* Embedder)
    const kinds = yield* MemoryKind.Kinds
    const embedding = EmbeddingSync.make(store, embedder)
    const remember = RememberRun.make({ store, completion, embedder, embedding, kinds })

    const through = (op: string, write: boolean): Service["remember"] => (viewer, messages, options) =>
      Viewer.required(
        op,
        viewer,
        (viewer) =>
          Effect.zipRight(
            check(op, Messages, messages),
            redaction === undefined ? remember(viewer, messages, options, write) : Effect.flatMap(
              Redaction.messages(redaction, viewer, messages),
              (messages) => remember(viewer, messages, redacting(redaction, viewer, options), write)
            )
          )
      ).pipe(
        Effect.tap(() =>
          options.infer === false ? Effect.void : Metric.incrementBy(tokensExtracted, tokensOf(messages))
        ),
        Effect.tap(({ applied, mutations }) => EventLoop.pacer()(1_024 * (applied.length + mutations.length))),
        Effect.flatMap(({ applied, failures, leftOut, mutations }) =>
          Effect.map(seal(store, { viewer, mutations, applied }), (seal): Receipt => ({
            viewer,
            mutations,
            applied,
            seal,
            ...(failures.length > 0 && { failures }),
            ...(leftOut && leftOut.facts + leftOut.decisions + leftOut.characters > 0 && { leftOut })
          }))
        ),
        // the receipt reports it too, but an outbox passes no receipt on
        Effect.tap(({ leftOut }) => leftOut && Effect.logWarning("a reading reached its limits", leftOut)),
        Effect.withSpan(`MemoryPipeline.${op}`)
      )

    return {
      remember: through("remember", true),
      plan: through("plan", false),
      undo: (receipt) =>
        Effect.gen(function*() {
          yield* verify(store, receipt)
          const mutations = inverse(receipt, yield* Clock.currentTimeMillis)
          if (mutations.length > 0) yield* store.apply(receipt.viewer, mutations)
        }).pipe(Effect.withSpan("MemoryPipeline.undo")),
      recall: (viewer, query) =>
        EmbeddingSync.recall(embedding, query, (query) => store.search(viewer, query)).pipe(
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

/** Provides `MemoryPipeline` over a store, a `Completion` and an `Embedder`. */
export const layer: Layer.Layer<MemoryPipeline, never, MemoryStore.MemoryStore | Completion | Embedder> = Layer.effect(
  MemoryPipeline,
  make
)

/**
 * Signs the parts of a receipt. Dies if they cannot be encoded, since such a receipt could not be stored.
 *
 * @internal
 */
export const seal = (
  store: Pick<MemoryStore.Service, "sign">,
  parts: Sealed
): Effect.Effect<string, MemoryError.MemoryError> =>
  Effect.flatMap(
    Effect.orDie(encodeSealed(sealedParts(parts))),
    (encoded) => store.sign(purpose, canonicalJson(encoded))
  )

/** Fails with `not_owned` unless `store` sealed exactly this receipt. `undo` calls it first. */
export const verify = (
  store: Pick<MemoryStore.Service, "sign">,
  receipt: Receipt
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    if (receipt.seal === undefined) return yield* refused("the receipt has no seal")
    const encoded = encodeSealed(sealedParts(receipt))
    const isOurs = Either.isRight(encoded) &&
      receipt.seal === (yield* store.sign(purpose, canonicalJson(encoded.right)))
    if (!isOurs) return yield* refused("the receipt was changed, or another store made it")
  })

/**
 * Returns the mutations of an `undo`, which restore each record as it was before the receipt. Records that have expired since are
 * forgotten.
 */
export const inverse = ({ applied }: Pick<Receipt, "applied">, now: number): ReadonlyArray<MemoryMutation> =>
  inverseOf(applied, now)

const sealedParts = ({ applied, mutations, viewer }: Sealed): Sealed => ({ applied, mutations, viewer })

// compiled at its first call, to keep the import of the package fast
const encodeSealed = (sealed: Sealed) => Schema.encodeEither(Sealed)(sealed)

/** Redacts the facts of a caller's `customExtract`, and the mutations for a caller's `apply`; a store redacts by itself. */
const redacting = (redaction: Redaction.Service, viewer: Viewer.Any, options: Options): Options => {
  const { apply, customExtract } = options
  return {
    ...options,
    apply: apply &&
      ((by, mutations, provenance) =>
        Effect.flatMap(
          Redaction.mutations(redaction, viewer, mutations),
          (mutations) => apply(by, mutations, provenance)
        )),
    customExtract: customExtract &&
      ((messages) => Effect.flatMap(customExtract(messages), (facts) => Redaction.facts(redaction, viewer, facts)))
  }
}

const tokensExtracted = Metric.counter("memory_tokens_extracted", {
  description: "Tokens of conversation that were read for facts",
  incremental: true
})

/** Estimates the tokens of messages. */
const tokensOf = (messages: ReadonlyArray<Message>): number =>
  tokensIn(messages.reduce((sum, { content }) => sum + content.length, 0))

/** The purpose of the store's signature. */
const purpose = "receipt"

const refused = (why: string) =>
  MemoryError.make("not_owned", {
    op: "undo",
    message: `${why}: undo a receipt as \`remember\` returned it, with the store that it was made on`
  })
