/**
 * Makes memories from conversations. `remember` extracts facts from messages, compares the facts with related memories, and writes the
 * result. It returns a receipt. `undo` reverts the writes of a receipt. `recall` searches.
 *
 * A harness may store a receipt as JSON, or pass it to a client. So each receipt has a seal: the store's signature of the viewer, the
 * mutations and their outcomes. The seal proves to `undo` that the store has really written these outcomes for that viewer. A receipt can
 * be encoded and decoded without breaking its seal. The seal is valid as long as the store keeps the secret with which it signs. A vault
 * keeps its secret across restarts. A store in memory gets a new secret each time it is made.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Predicate from "effect/Predicate"
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
import { check, refuseOptions, timeIssues } from "../domain/Validation.ts"
import * as Viewer from "../domain/Viewer.ts"
import { Completion } from "../host/Completion.ts"
import { Embedder } from "../host/Embedder.ts"
import * as EventLoop from "../host/EventLoop.ts"
import * as Redaction from "../host/Redaction.ts"
import * as EmbeddingSync from "../storage/EmbeddingSync.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import { type Fact, MaxFacts } from "./Extraction.ts"
import * as RememberRun from "./MemoryPipeline/RememberRun.ts"

/**
 * Options of `remember` and `plan`. The default of `origin` is `pipeline`. The trust level of the written records is `trust`, default 1. A
 * higher level means less trusted. The level is at least 1. The level is 3 if one of the processed messages is from a tool. The level is at
 * least 2 if the viewer has a user id and the scope has none (see `Viewer.trustIn`).
 */
export interface Options extends MemoryStore.Provenance {
  /** Scope of all written records. Facts are compared only with memories of exactly this scope. */
  readonly scope: MemoryScope
  /** Scopes that may be written although other users share them (see `Viewer.mayWrite`). Default: none. */
  readonly sharedWrites?: Viewer.SharedWrites | undefined
  /** Whether a model extracts facts. If false, messages are stored word for word, and their vectors are computed later. Default true. */
  readonly infer?: boolean | undefined
  /** Treatment of superseded records. `soft` ends their validity, and `hard` forgets them. Default `soft`. */
  readonly supersede?: "soft" | "hard" | undefined
  /**
   * Time until the written records expire. A changed record that already has a time of expiry keeps that time. If this option is absent or
   * 0, no time of expiry is set.
   */
  readonly ttl?: Duration.DurationInput | undefined
  /**
   * Kind for facts that have no kind, an unknown kind, or a kind that requires `data`. Default `semantic`. With `infer: false`: kind of the
   * messages, default `episodic`.
   */
  readonly kind?: string | undefined
  /**
   * Largest number of related memories per fact, 1..1,000; default 5. All facts of a run together have at most 1,000 related memories, with
   * at most 262,144 characters in all.
   */
  readonly topK?: number | undefined
  /** Largest number of facts, and of records added for facts, 1..256; default 64. `Receipt.leftOut` counts the others. */
  readonly maxFacts?: number | undefined
  readonly customInstructions?: string | undefined
  /**
   * Extracts facts in place of the model. A fact may have tags, links, metadata and `validAt`. The function also receives the messages of
   * tools and of the system, which a model does not receive. If there is a model, it still decides how the facts change memories. Without a
   * model, each fact is added, unless a memory has the same text.
   */
  readonly customExtract?:
    | ((messages: ReadonlyArray<Message>) => Effect.Effect<ReadonlyArray<Fact>, MemoryError.MemoryError>)
    | undefined
  readonly session?: string | undefined
  /**
   * Sequence number of the first message within its session, or a list with one number per message. If it is given, a run with
   * `infer: false` skips messages whose numbers are already stored, and fails with `invalid_draft` if two messages have the same number.
   */
  readonly sequence?: number | ReadonlyArray<number> | undefined
  /**
   * Name of the conversation. Needed if a session has several conversations that each count `sequence` separately. Default: the session is
   * one conversation. An outbox (a queue of messages to be remembered) makes a name for each of its conversations. If an outbox has this
   * option, each of these names also contains the text of the option.
   */
  readonly conversation?: string | undefined
  /**
   * Writes the batch of mutations in place of the store's `apply`. The function must write the whole batch or nothing. It may write other
   * rows together with the batch.
   */
  readonly apply?: Apply | undefined
}

/** Writes a batch of mutations, all or none, as `MemoryStore.apply` does. */
export type Apply = (
  viewer: Viewer.Any,
  mutations: ReadonlyArray<MemoryMutation>,
  provenance: MemoryStore.Provenance
) => Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError>

/** Schema of a failed part of a call that succeeded as a whole. `leg` names the part, such as one retriever of a search. */
export const Failure = Schema.Struct({ leg: Schema.String, error: MemoryError.MemoryError })
/** A failure, as `Failure` decodes it. */
export interface Failure extends Schema.Schema.Type<typeof Failure> {}

/** Schema of the numbers of items that one run left out because of its limits. */
export const LeftOut = Schema.Struct({
  /** Number of facts left out, because there were more than `maxFacts` or their total length exceeded 262,144 characters. */
  facts: Schema.NonNegativeInt,
  /**
   * Number of the model's decisions left out, because they exceeded `maxFacts` added records or 128 changed records. A fact that is added
   * for a DELETE (see law 2 of `Reconciliation`) counts as an added record.
   */
  decisions: Schema.NonNegativeInt,
  /** Number of UTF-16 units of the conversation that did not fit into the prompt. */
  characters: Schema.NonNegativeInt
})
/** Counts, as `LeftOut` decodes them. */
export interface LeftOut extends Schema.Schema.Type<typeof LeftOut> {}

/** Schema of the fields of a receipt that the store signs. The signature is the receipt's seal. */
const Sealed = Schema.Struct({
  viewer: Schema.Union(Viewer.System, Viewer.Stored),
  mutations: Schema.Array(MemoryMutation),
  /** Outcomes of the mutations; empty for a plan, which writes nothing. */
  applied: Schema.Array(Applied)
})
interface Sealed extends Schema.Schema.Type<typeof Sealed> {}

/** Schema of a receipt of `remember` or `plan`, with the mutations and their outcomes. `undo` reverts the mutations. */
export const Receipt = Schema.Struct({
  ...Sealed.fields,
  /**
   * The store's signature of `viewer`, `mutations` and `applied`. `undo` fails if one of these fields was changed after the sealing. `undo`
   * also fails if the receipt has no seal, like the receipts of early versions.
   */
  seal: Schema.optional(Schema.String),
  /** Parts of the work that failed; absent if no part failed. */
  failures: Schema.optional(Schema.Array(Failure)),
  /** Counts of the items that were left out; absent if no item was left out. */
  leftOut: Schema.optional(LeftOut)
})
/** A receipt, as `Receipt` decodes it. */
export interface Receipt extends Schema.Schema.Type<typeof Receipt> {}

/** Operations of `MemoryPipeline`. */
export interface Service {
  /**
   * Extracts facts, compares them with related memories and writes the result. Fails with `invalid_draft` if an item of `messages` is no
   * message, if `options` is no object, if a list `sequence` has not one number per message, or if `sequence`, `maxFacts` or `ttl` is
   * invalid. Fails with `model`, which is retryable, if the model's answer is prose, JSON of another shape or longer than 262,144
   * characters. Nothing is then written. An explicit empty list in the answer means that there are no facts.
   */
  readonly remember: (
    viewer: Viewer.Any,
    messages: ReadonlyArray<Message>,
    options: Options
  ) => Effect.Effect<Receipt, MemoryError.MemoryError>
  /** Does the same as `remember`, but writes nothing. The receipt has no outcomes. */
  readonly plan: (
    viewer: Viewer.Any,
    messages: ReadonlyArray<Message>,
    options: Options
  ) => Effect.Effect<Receipt, MemoryError.MemoryError>
  /**
   * Reverts the writes of a receipt. Each changed or forgotten record gets a new revision with the content, times and links that it had
   * before these writes. The added records are forgotten. Fails with `not_owned` if the receipt has no valid seal of this store. Fails with
   * `conflict` if a record was changed after the writes. A failed `undo` writes nothing.
   */
  readonly undo: (receipt: Receipt) => Effect.Effect<void, MemoryError.MemoryError>
  /**
   * Searches by words and, if there is an embedding model, by the vector of the query's text. `mode` and `embedding` of the query can
   * change this. `SearchResult.leftOut` counts the hits that were found but not returned.
   */
  readonly recall: (viewer: Viewer.Any, query: MemoryQuery) => Effect.Effect<SearchResult, MemoryError.MemoryError>
  /** Computes and stores the vectors of records of the viewer's tenant. Returns the number of embedded texts. */
  readonly embed: (
    viewer: Viewer.Any,
    records: ReadonlyArray<MemoryRecord>
  ) => Effect.Effect<number, MemoryError.MemoryError>
  /** Computes and stores the missing vectors of every tenant. Returns the number of computed vectors. */
  readonly embedMissing: Effect.Effect<number, MemoryError.MemoryError>
}

/** Schema of messages. It has only the fields that every message must have. */
const Messages = Schema.Array(Schema.Struct({ role: Role, content: Schema.String }))

const isMaxFacts = Schema.is(MaxFacts)

/** Lists the violations in the options of a run over `count` messages. Each text begins with the name of an option. */
const issuesOf = (options: Options, count: number): ReadonlyArray<string> => {
  if (!Predicate.isRecord(options)) return ["options: expected an object"]
  const { maxFacts, sequence, ttl } = options
  // `Array.from` turns the holes of a sparse list into `undefined`
  const numbers = Array.isArray(sequence) ? Array.from(sequence) : sequence === undefined ? [] : [sequence]
  return [
    ...(maxFacts === undefined || isMaxFacts(maxFacts) ? [] : ["maxFacts: expected an integer of 1..256"]),
    ...(Array.isArray(sequence) && sequence.length !== count
      ? [`sequence: expected one number per message: ${count}, not ${sequence.length}`]
      : []),
    ...(numbers.every(isSequenceNumber) ? [] : ["sequence: expected integers, 0 or more"]),
    ...timeIssues("ttl", ttl, { least: 0, infinite: true })
  ]
}

const isSequenceNumber = Schema.is(Schema.NonNegativeInt)

/** Tag of the pipeline. */
export class MemoryPipeline extends Context.Tag("@memory/MemoryPipeline")<MemoryPipeline, Service>() {}

/** Makes the pipeline over the store, the `Completion` and the `Embedder` in the context. */
export const make: Effect.Effect<Service, never, MemoryStore.MemoryStore | Completion | Embedder> = Effect.gen(
  function*() {
    const store = yield* MemoryStore.MemoryStore
    const redaction = yield* Redaction.over(store)
    const completion = Redaction.completion(redaction, yield* Completion)
    const embedder = Redaction.embedder(redaction, yield* Embedder)
    const kinds = yield* MemoryKind.registered
    const embedding = EmbeddingSync.make(store, embedder)
    const remember = RememberRun.make({ store, completion, embedder, embedding, kinds })

    const through = (op: string, write: boolean): Service["remember"] => (viewer, messages, options) =>
      Viewer.required(
        op,
        viewer,
        (viewer) =>
          Effect.zipRight(
            Effect.flatMap(check(op, Messages, messages), ({ length }) => refuseOptions(op, issuesOf(options, length))),
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
        // this log is for outboxes (queues of messages to remember), which do not read `leftOut` from the receipt
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

/** Signs the fields of a receipt. Returns the signature, which is the seal. Dies if the fields cannot be encoded. @internal */
export const seal = (
  store: Pick<MemoryStore.Service, "sign">,
  parts: Sealed
): Effect.Effect<string, MemoryError.MemoryError> =>
  Effect.flatMap(
    Effect.orDie(encodeSealed(sealedParts(parts))),
    (encoded) => store.sign(purpose, canonicalJson(encoded))
  )

/** Fails with `not_owned` unless the receipt has a valid seal of `store`. `undo` calls this function first. */
export const verify = (
  store: Pick<MemoryStore.Service, "sign">,
  receipt: Receipt
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    if (!Predicate.isRecord(receipt) || receipt.seal === undefined) return yield* refused("the receipt has no seal")
    const encoded = encodeSealed(sealedParts(receipt))
    const isOurs = Either.isRight(encoded) &&
      receipt.seal === (yield* store.sign(purpose, canonicalJson(encoded.right)))
    if (!isOurs) return yield* refused("the receipt was changed, or another store made it")
  })

/**
 * Returns the mutations with which `undo` reverts the writes of a receipt. A record that these writes created needs no mutation if it has
 * expired at `now`.
 */
export const inverse = ({ applied }: Pick<Receipt, "applied">, now: number): ReadonlyArray<MemoryMutation> =>
  inverseOf(applied, now)

const sealedParts = ({ applied, mutations, viewer }: Sealed): Sealed => ({ applied, mutations, viewer })

// the encoder is compiled at the first call of this function, and not when the package is imported
const encodeSealed = (sealed: Sealed) => Schema.encodeEither(Sealed)(sealed)

/**
 * Returns options that redact: `customExtract` returns redacted facts, and `apply` receives redacted mutations. If `apply` is absent, it
 * stays absent. The pipeline then calls the `apply` of the store, which redacts the mutations only if the store has a redaction of its own.
 */
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

/** Estimates the number of tokens in messages. */
const tokensOf = (messages: ReadonlyArray<Message>): number =>
  tokensIn(messages.reduce((sum, { content }) => sum + content.length, 0))

/** The purpose that is passed to the store's `sign`. A signature for one purpose is not valid for another. */
const purpose = "receipt"

const refused = (why: string) =>
  MemoryError.make("not_owned", {
    op: "undo",
    message: `${why}: undo a receipt as \`remember\` returned it, with the store that it was made on`
  })
