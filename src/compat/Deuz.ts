/**
 * The memory interface of Deuz's SDK, `@deuz-sdk/core/memory`, for code that was written for Deuz. The interface has `MemoryStore`,
 * `remember`, `planMemory`, `recall`, the tools and the pure helpers. A vault (folder of Markdown files) that Deuz wrote needs no adapter:
 * `Markdown.layer` opens the vault unchanged.
 *
 * The argument `seams` contains the store, the model and the embedder, as in Deuz. In this module, `seams` also contains `run`, the
 * function that runs effects. Time and new ids come from Effect's `Clock` and `Random`. `docs/compat.md` lists the deliberate differences
 * from Deuz, with a test of each. For example, the fields `asOf` and `filter` of a query are applied. Changes and deletions by id require
 * the scope of the caller. A contradicted fact is marked as no longer valid, not deleted. A repeated fact is stored once.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Deuz } from "effect-memory/compat"
 *
 * const store = await Deuz.createInMemoryMemoryStore().pipe(Effect.scoped, Effect.runPromise)
 * const seams = { store, run: Effect.runPromise }
 * const scope = { userId: "ada" }
 * const customExtract = () => [{ text: "Ada is a vegetarian" }]
 * await Deuz.remember([{ role: "user", content: "I just went vegetarian." }], scope, seams, { customExtract })
 *
 * const found = await Deuz.recall({ scope, text: "Is Ada vegetarian?" }, seams)
 *
 * found.hits.map(({ record }) => record.body) // => ["Ada is a vegetarian"]
 * ```
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Arr from "effect/Array"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as EffectScope from "effect/Scope"
import * as MemoryTools from "../agent/MemoryTools.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryQuery as OurQuery, SearchResult } from "../domain/MemoryFilter.ts"
import { foreign, MemoryId } from "../domain/MemoryId.ts"
import { type Draft, embeddingText, type MemoryRecord as OurRecord } from "../domain/MemoryRecord.ts"
import { Global, type Ids, key } from "../domain/MemoryScope.ts"
import * as OurScope from "../domain/MemoryScope.ts"
import * as Message from "../domain/Message.ts"
import { definedFields, type JsonObject } from "../domain/Payload.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { MemoryService } from "../harness/MemoryService.ts"
import * as Completion from "../host/Completion.ts"
import * as OurEmbedder from "../host/Embedder.ts"
import type { MemoryTool } from "../host/MemoryTool.ts"
import type { Fact } from "../pipeline/Extraction.ts"
import * as MemoryPipeline from "../pipeline/MemoryPipeline.ts"
import type { Input } from "../ranking/Scorer.ts"
import * as Store from "../storage/MemoryStore.ts"
import * as Markdown from "../storage/MemoryStore/Markdown.ts"
import * as Promises from "./Promises.ts"

/** The ids of a memory's scope. At least one id is required. Elsewhere in this library, `chatId` is called `sessionId`. */
export interface MemoryScope {
  readonly userId?: string | undefined
  readonly agentId?: string | undefined
  readonly runId?: string | undefined
  readonly actorId?: string | undefined
  readonly chatId?: string | undefined
}

/** The kind of a memory: `semantic`, `episodic`, `working` or `procedural`, as in Deuz, or any other kind of this library. */
export type MemoryKind = string

/** A memory in Deuz's format. Times are epoch milliseconds; the store sets `createdAt`. */
export interface MemoryRecord {
  /** The id: any text of at most 1,024 UTF-16 units. This library stores the id in the field `source.reference` of the record. */
  readonly id: string
  readonly text: string
  readonly kind: MemoryKind
  readonly scope: MemoryScope
  /** Importance, 0..1. */
  readonly importance?: number | undefined
  readonly metadata?: JsonObject | undefined
  readonly createdAt?: number | undefined
  readonly validAt?: number | undefined
  readonly invalidAt?: number | undefined
  readonly expiresAt?: number | undefined
}

/** A query of a store. */
export interface MemoryQuery {
  readonly scope: MemoryScope
  readonly text?: string | undefined
  /** Vector of the query, with the name of its model. */
  readonly embedding?: OurQuery["embedding"]
  readonly kind?: MemoryKind | undefined
  /** Largest number of hits, 1..1,000. Default 5. */
  readonly topK?: number | undefined
  /** Time, epoch milliseconds, at which the results must be valid. Default now. */
  readonly asOf?: number | undefined
  /** Metadata fields and the values that they must have. */
  readonly filter?: { readonly [key: string]: string | number | boolean } | undefined
}

/** A memory that a search found, with its score, 0 to 1. */
export interface MemoryHit {
  readonly record: MemoryRecord
  readonly score: number
}

/** A store with Deuz's interface. A method that takes ids also takes a scope, and affects only records that this scope sees. */
export interface MemoryStore {
  /**
   * Stores records, and replaces stored records with the same ids. Rejects with `invalid_id` if the scope does not see a record to replace.
   * The records of one scope are written all or not at all.
   */
  upsert(records: ReadonlyArray<MemoryRecord>): Promise<void>
  /** Returns the record with an id, or `null` if the scope sees no such record. */
  get(id: string, scope: MemoryScope): Promise<MemoryRecord | null>
  /** Finds records, best first. */
  search(query: MemoryQuery): Promise<ReadonlyArray<MemoryHit>>
  /** Returns records, newest first. `limit`: 1..1,000, default 20. */
  list(
    scope: MemoryScope,
    opts?: { readonly kind?: MemoryKind | undefined; readonly limit?: number | undefined }
  ): Promise<ReadonlyArray<MemoryRecord>>
  /** Forgets records. Returns for each id whether its record existed. */
  delete(ids: ReadonlyArray<string>, scope: MemoryScope): Promise<ReadonlyArray<boolean>>
  /** Changes fields of a record. Rejects with `not_found` if the scope sees no record with the id. */
  update(
    id: string,
    patch: Partial<Pick<MemoryRecord, "text" | "importance" | "metadata" | "invalidAt" | "expiresAt">>,
    scope: MemoryScope
  ): Promise<void>
}

/** A language model: a function that takes a prompt and returns the text of the answer. */
export type MemoryLLM = (prompt: Completion.Prompt) => Promise<string>

/** The dependencies of `remember` and `recall`: the store, the models and the function that runs effects. */
export interface MemorySeams {
  readonly store: Store.Service
  /** Function that runs effects, such as `Effect.runPromise`. */
  readonly run: Promises.Run
  /**
   * Model that extracts facts and decides how each fact changes the stored memories. Not required with `customExtract` or `infer: false`.
   */
  readonly llm?: MemoryLLM | undefined
  /** Embedder, for example from `createEmbedder`. Without an embedder, searches compare words only, unless the query has `embedding`. */
  readonly embedder?: Layer.Layer<OurEmbedder.Embedder> | undefined
}

/** Options of `remember`. */
export interface RememberOptions {
  /** Whether to extract facts. If false, each turn is stored word for word. Default true. */
  readonly infer?: boolean | undefined
  /** Whether to write the changes. If false, the changes are only planned. Default true. */
  readonly apply?: boolean | undefined
  /** Largest number of related memories with which each fact is compared. Default 5. */
  readonly topK?: number | undefined
  /** Treatment of contradicted memories: `soft` marks them as no longer valid, `hard` forgets them. Default `soft`. */
  readonly supersede?: "soft" | "hard" | undefined
  /** Time in milliseconds after which the written memories expire. Default: no expiry. */
  readonly ttlMs?: number | undefined
  readonly kind?: MemoryKind | undefined
  /** Additional instructions for the prompt that asks the model for facts. */
  readonly customInstructions?: string | undefined
  /** Function that extracts the facts instead of the model. */
  readonly customExtract?: ((messages: ReadonlyArray<Message.Message>) => ReadonlyArray<Fact>) | undefined
}

/** A message of a conversation. */
export interface Turn {
  readonly role: "user" | "assistant" | "tool"
  readonly content: string
}

/** Makes a store with Deuz's interface from a store of this library. A call rejects with `invalid_scope` if its scope has no id. */
export const toStore = (store: Store.Service, run: Promises.Run): MemoryStore => ({
  upsert: (records) => run(upsert(store, records)),
  get: (id, scope) =>
    run(
      Effect.flatMap(viewerOf(scope), (viewer) =>
        Effect.map(store.get(viewer, [idOf(id)]), ([found]) =>
          found && Option.isSome(found) ? toRecord(found.value) : null))
    ),
  search: (query) =>
    run(
      Effect.flatMap(viewerOf(query.scope), (viewer) =>
        Effect.map(store.search(viewer, queryOf(query)), ({ hits }) =>
          hits.map(({ record, score }) => ({ record: toRecord(record), score }))))
    ),
  list: (scope, { kind, limit } = {}) =>
    run(
      Effect.flatMap(viewerOf(scope), (viewer) =>
        Effect.map(store.list(viewer, { ...kindsOf(kind), ...definedFields({ limit }) }), ({ items }) =>
          items.map(toRecord)))
    ),
  delete: (ids, scope) => run(Effect.flatMap(viewerOf(scope), (viewer) => store.forget(viewer, ids.map(idOf)))),
  update: (id, { text, ...fields }, scope) =>
    run(
      Effect.flatMap(viewerOf(scope), (viewer) =>
        Effect.asVoid(store.update(viewer, idOf(id), definedFields({ ...fields, body: text }))))
    )
})

/**
 * Copies the records of a scope from one of Deuz's own stores to a store of this library. Records with exactly the same scope are written
 * together. Returns the number of records. Fails with `io` if `list` of Deuz's store fails.
 */
export const copyStore = (
  deuz: { readonly list: (scope: MemoryScope, opts?: { limit?: number }) => Promise<ReadonlyArray<MemoryRecord>> },
  scope: MemoryScope,
  store: Store.Service
): Effect.Effect<number, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const records = yield* Effect.tryPromise({
      try: () => deuz.list(scope, { limit: Number.MAX_SAFE_INTEGER }),
      catch: (cause) =>
        MemoryError.make("io", { op: "copyStore", message: "the store does not list its records", cause })
    })
    yield* upsert(store, records)
    return records.length
  })

/**
 * Extracts facts from messages, compares the facts with stored memories, and writes the changes. With `apply: false`, nothing is written.
 * Returns a receipt; `MemoryPipeline.undo` reverts the changes of a receipt. Deuz's own `remember` returns only the receipt's `mutations`.
 */
export const remember = (
  messages: ReadonlyArray<Turn>,
  scope: MemoryScope,
  seams: MemorySeams,
  { apply = true, customExtract, ttlMs, ...options }: RememberOptions = {}
): Promise<MemoryPipeline.Receipt> =>
  seams.run(Effect.gen(function*() {
    const viewer = yield* viewerOf(scope)
    const pipeline = yield* pipelineOf(seams)
    return yield* pipeline[apply ? "remember" : "plan"](viewer, messages.map((turn) => new Message.Message(turn)), {
      ...options,
      scope: idsOf(scope),
      ttl: ttlMs,
      customExtract: customExtract && ((turns) => Effect.sync(() => customExtract(turns)))
    })
  }))

/** Returns a receipt with the changes that `remember` would make, and writes nothing. */
export const planMemory = (
  messages: ReadonlyArray<Turn>,
  scope: MemoryScope,
  seams: MemorySeams,
  options: Omit<RememberOptions, "apply"> = {}
): Promise<MemoryPipeline.Receipt> => remember(messages, scope, seams, { ...options, apply: false })

/** Finds memories, best first: by words, and also by meaning if there is an embedder. `formatMemoriesForPrompt` renders the result. */
export const recall = (query: MemoryQuery, seams: MemorySeams): Promise<SearchResult> =>
  seams.run(Effect.gen(function*() {
    const pipeline = yield* pipelineOf(seams)
    return yield* pipeline.recall(yield* viewerOf(query.scope), queryOf(query))
  }))

/**
 * Makes the tools `memory_append`, `memory_search`, `memory_update`, `memory_delete` and `memory_view` for a scope. Makes none if the spec
 * of the `MemoryService` has `enabled: false`.
 */
export const createMemoryTools = (
  scope: MemoryScope
): Effect.Effect<ReadonlyArray<MemoryTool>, MemoryError.MemoryError, MemoryService> =>
  Effect.flatMap(viewerOf(scope), MemoryTools.makeRecords)

/**
 * Provides an `Embedder` over a function that returns promises. The function receives texts in batches, and its vectors are cached. If a
 * promise rejects, embedding fails with the reason `model`.
 */
export const createEmbedder = (
  { dimensions, embed, model }: {
    readonly model: string
    readonly dimensions: number
    readonly embed: (
      texts: ReadonlyArray<string>,
      action: OurEmbedder.Purpose
    ) => Promise<{ readonly vectors: ReadonlyArray<ArrayLike<number>> }>
  }
): Layer.Layer<OurEmbedder.Embedder> =>
  Layer.effect(
    OurEmbedder.Embedder,
    OurEmbedder.make({
      model,
      dimensions,
      embed: (texts, action) =>
        Effect.tryPromise({
          try: async () => (await embed(texts, action)).vectors.map((vector) => Float32Array.from(vector)),
          catch: (cause) => MemoryError.make("model", { op: "embed", message: "the embedding model failed", cause })
        })
    })
  )

/** Makes an in-memory store for the field `store` of `MemorySeams`. `toStore` converts the store to Deuz's interface. */
export const createInMemoryMemoryStore = (): Effect.Effect<Store.Service, never, EffectScope.Scope> =>
  storeOf(Store.layerInMemory)

/**
 * Opens a vault (folder of Markdown files) for the field `store` of `MemorySeams`. The vault may be new, or may be written by Deuz. The
 * vault closes with the Effect scope.
 */
export const createMarkdownMemoryStore = (
  { dir, ...options }: { readonly dir: string } & Omit<Markdown.Options, "root">
): Effect.Effect<
  Store.Service,
  MemoryError.MemoryError,
  FileSystem.FileSystem | Path.Path | EffectScope.Scope
> => storeOf(Markdown.layer({ ...options, root: dir }))

/** Throws if the scope has no id. */
export const assertScope = (scope: MemoryScope): void => OurScope.assertScope(idsOf(scope))

/** Whether the record's scope has every id of `scope`. */
export const matchesScope = (record: Pick<MemoryRecord, "scope">, scope: MemoryScope): boolean =>
  OurScope.matchesScope(idsOf(record.scope), idsOf(scope))

/** The service that embeds texts. `createEmbedder` makes a layer that provides it. */
export type Embedder = OurEmbedder.Service
/** A function that hashes a text. */
export type HashFn = (text: string) => string
/** A function that scores a memory by relevance, importance and age. */
export type MemoryScorer = (input: Input) => number
/** A decision about an extracted fact: `ADD`, `UPDATE`, `DELETE` or `NOOP`. */
export type { Decision as MemoryEvent } from "../pipeline/Reconciliation.ts"
/** A fact that was extracted. */
export type { Fact as MemoryFact } from "../pipeline/Extraction.ts"
/** A change of a store, as data. */
export type { MemoryMutation } from "../domain/MemoryMutation.ts"
/** Hashes a text by SHA-256, as hexadecimal digits. */
export { defaultHashFn } from "../domain/Digest.ts"
/** Whether a record has expired at a given time, epoch milliseconds. */
export { isExpired } from "../domain/MemoryRecord.ts"
/** Renders the result of `recall` as an escaped block for a prompt; `""` if nothing was found. */
export { formatMemoriesForPrompt } from "../harness/PromptBlock.ts"
/** `buildExtractionPrompt` builds the prompt that asks a model for facts. `parseFacts` parses the model's answer. */
export { buildExtractionPrompt, parseFacts } from "../pipeline/Extraction.ts"
/** `buildDecisionPrompt` builds the prompt for decisions about facts. `parseDecision` parses the answer. `applyEvents` makes mutations. */
export { applyEvents, buildDecisionPrompt, parseDecision } from "../pipeline/Reconciliation.ts"
/** Scores a memory: `.995^hours + importance + relevance`, not normalised. `hours` is the time since the last change of the memory. */
export { defaultMemoryScorer } from "../ranking/Scorer.ts"
/** Returns the cosine of two vectors; 0 if their lengths differ or a vector is all zeros. */
export { cosineSimilarity } from "../ranking/VectorIndex.ts"

/** Makes the viewer for a scope. Fails if the scope has no id. */
const viewerOf = (scope: MemoryScope) => Viewer.decode({ ...idsOf(scope), reach: "within" })

const idsOf = ({ chatId, ...scope }: MemoryScope): Ids => definedFields({ ...scope, sessionId: chatId })

/** Derives a record id from an id of Deuz. An id that has the format of this library is returned unchanged. */
const idOf = (id: string) => isOurs(id) ? id : foreign("deuz", id)
const isOurs = Schema.is(MemoryId)

const kindsOf = (kind: MemoryKind | undefined) => kind === undefined ? {} : { kinds: [kind] }

const queryOf = ({ asOf, embedding, filter = {}, kind, text, topK = 5 }: MemoryQuery): OurQuery => ({
  ...definedFields({ asOf, embedding, text }),
  ...kindsOf(kind),
  where: Object.fromEntries(Object.entries(filter).map(([key, eq]) => [`metadata.${key}`, { eq }])),
  limit: topK
})

const draftOf = ({ createdAt: _, id, scope, text, ...fields }: MemoryRecord): Draft => ({
  ...definedFields(fields),
  ...{ id: idOf(id), scope: idsOf(scope), body: text, source: { reference: id } }
})

/** Stores records. The records of each scope are stored in one write, on behalf of the viewer of the scope. */
const upsert = (store: Store.Service, records: ReadonlyArray<MemoryRecord>) =>
  Effect.forEach(
    Object.values(Arr.groupBy(records, ({ scope }) => key(idsOf(scope)))),
    (group) => Effect.flatMap(viewerOf(group[0].scope), (viewer) => store.put(viewer, group.map(draftOf))),
    { discard: true }
  )

const toRecord = (record: OurRecord): MemoryRecord => {
  const { createdAt, expiresAt, id, importance, invalidAt, kind, metadata, scope, source, validAt } = record
  const { sessionId, ...ids }: Ids = scope === Global ? {} : scope
  const { reference = id } = source // not an id of Deuz if the record comes from another system, such as mem0
  return definedFields({
    ...{ id: idOf(reference) === id ? reference : id, text: embeddingText(record), kind, importance, metadata },
    ...{ createdAt, validAt, invalidAt, expiresAt },
    scope: definedFields({ ...ids, chatId: sessionId })
  })
}

const pipelineOf = ({ embedder = OurEmbedder.layerNone, llm, store }: MemorySeams) =>
  Effect.provide(
    MemoryPipeline.make,
    Layer.mergeAll(
      Layer.succeed(Store.MemoryStore, store),
      llm === undefined ? Completion.layerNone : Promises.completion("deuz", llm),
      embedder
    )
  )

const storeOf = <E, R>(layer: Layer.Layer<Store.MemoryStore, E, R>) =>
  Effect.map(Layer.build(layer), (context) => Context.get(context, Store.MemoryStore))
