/** Deuz's `MemoryStore`, `remember`, `planMemory` and `recall` over ours: promises, its scopes and its records. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import { foreign, MemoryId } from "../../src/domain/MemoryId.ts"
import type { MemoryRecord as Ours } from "../../src/domain/MemoryRecord.ts"
import { embeddingText } from "../../src/domain/MemoryRecord.ts"
import { Global, type Ids } from "../../src/domain/MemoryScope.ts"
import * as Message from "../../src/domain/Message.ts"
import { definedFields, type JsonObject } from "../../src/domain/Payload.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as PromptBlock from "../../src/harness/PromptBlock.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import type { Fact } from "../../src/pipeline/Extraction.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as Store from "../../src/storage/MemoryStore.ts"
import type { Run } from "./running.ts"

export interface MemoryScope {
  readonly userId?: string
  readonly agentId?: string
  readonly runId?: string
  readonly actorId?: string
  readonly chatId?: string
}

export interface MemoryRecord {
  readonly id: string
  readonly text: string
  readonly kind: string
  readonly scope: MemoryScope
  readonly importance?: number
  readonly metadata?: JsonObject
  readonly createdAt?: number
  readonly validAt?: number
  readonly invalidAt?: number
  readonly expiresAt?: number
}

export interface MemoryQuery {
  readonly scope: MemoryScope
  readonly text?: string
  readonly kind?: string
  readonly topK?: number
  readonly asOf?: number
  readonly filter?: { readonly [key: string]: string | number | boolean }
}

export interface MemoryStore {
  upsert(records: ReadonlyArray<MemoryRecord>): Promise<void>
  get(id: string, scope: MemoryScope): Promise<MemoryRecord | null>
  search(query: MemoryQuery): Promise<ReadonlyArray<{ readonly record: MemoryRecord; readonly score: number }>>
  list(scope: MemoryScope, opts?: { kind?: string; limit?: number }): Promise<ReadonlyArray<MemoryRecord>>
  delete(ids: ReadonlyArray<string>, scope: MemoryScope): Promise<ReadonlyArray<boolean>>
  update(id: string, patch: { readonly text: string }, scope: MemoryScope): Promise<void>
}

export interface RememberOptions {
  readonly infer?: boolean
  readonly apply?: boolean
  readonly topK?: number
  readonly supersede?: "soft" | "hard"
  readonly ttlMs?: number
  readonly kind?: string
  readonly customInstructions?: string
  readonly customExtract?: (messages: ReadonlyArray<Message.Message>) => ReadonlyArray<Fact>
}

export interface Seams {
  readonly store: Store.Service
  readonly llm?: (prompt: Completion.Prompt) => Promise<string>
  readonly embedder?: Layer.Layer<Embedder.Embedder>
}

export interface Turn {
  readonly role: "user" | "assistant" | "tool"
  readonly content: string
}

/** Fails for a scope that names nothing, as `assertScope` throws. */
const viewerOf = (scope: MemoryScope) => Viewer.decode({ ...idsOf(scope), reach: "within" })

const idsOf = ({ chatId, ...scope }: MemoryScope): Ids => definedFields({ ...scope, sessionId: chatId })

/** The id of ours that stands for one of Deuz's; one that is ours already is itself. */
const idOf = (id: string) => isOurs(id) ? id : foreign("deuz", id)
const isOurs = Schema.is(MemoryId)

const toRecord = (record: Ours): MemoryRecord => {
  const { createdAt, expiresAt, id, importance, invalidAt, kind, metadata, scope, source, validAt } = record
  const { sessionId, ...ids }: Ids = scope === Global ? {} : scope
  return definedFields({
    ...{ id: source.reference ?? id, text: embeddingText(record), kind, importance, metadata },
    ...{ createdAt, validAt, invalidAt, expiresAt },
    scope: definedFields({ ...ids, chatId: sessionId })
  })
}

export const toStore = (store: Store.Service, run: Run): MemoryStore => ({
  upsert: (records) =>
    run(
      Effect.forEach(
        records,
        ({ id, scope, text, createdAt: _, ...fields }) =>
          Effect.flatMap(
            viewerOf(scope),
            (viewer) =>
              store.put(viewer, [{
                ...fields,
                id: idOf(id),
                scope: idsOf(scope),
                body: text,
                source: { reference: id }
              }])
          ),
        {
          discard: true
        }
      )
    ),
  get: (id, scope) =>
    run(
      Effect.flatMap(viewerOf(scope), (viewer) =>
        Effect.map(store.get(viewer, [idOf(id)]), ([found]) =>
          Option.match(found!, {
            onNone: () =>
              null,
            onSome: toRecord
          })))
    ),
  search: ({ asOf, filter = {}, kind, scope, text, topK = 5 }) =>
    run(Effect.flatMap(viewerOf(scope), (viewer) =>
      Effect.map(
        store.search(viewer, {
          ...definedFields({ asOf, text, kinds: kind === undefined ? undefined : [kind] }),
          where: Object.fromEntries(Object.entries(filter).map(([key, eq]) => [`metadata.${key}`, { eq }])),
          limit: topK
        }),
        ({ hits }) => hits.map(({ record, score }) => ({ record: toRecord(record), score }))
      ))),
  list: (scope, { kind, limit } = {}) =>
    run(Effect.flatMap(viewerOf(scope), (viewer) =>
      Effect.map(
        store.list(viewer, definedFields({ kinds: kind === undefined ? undefined : [kind], limit })),
        ({ items }) => items.map(toRecord)
      ))),
  delete: (ids, scope) => run(Effect.flatMap(viewerOf(scope), (viewer) => store.forget(viewer, ids.map(idOf)))),
  update: (id, { text }, scope) =>
    run(Effect.flatMap(viewerOf(scope), (viewer) => Effect.asVoid(store.update(viewer, idOf(id), { body: text }))))
})

const pipelineOf = ({ embedder = Embedder.layerNone, llm, store }: Seams) =>
  Effect.provide(
    MemoryPipeline.make,
    Layer.mergeAll(
      Layer.succeed(Store.MemoryStore, store),
      llm === undefined ? Completion.layerNone : Layer.succeed(
        Completion.Completion,
        Completion.make({
          model: "deuz",
          complete: (prompt) =>
            Effect.tryPromise({
              try: () => llm(prompt),
              catch: (cause) => MemoryError.make("model", { op: "llm", message: "the model failed", cause })
            })
        })
      ),
      embedder
    )
  )

const toMessage = ({ content, role }: Turn) => new Message.Message({ role, content })

/** Extracts, reconciles and writes; with `apply: false` it only plans. Returns the receipt, which has the mutations. */
export const remember = (
  messages: ReadonlyArray<Turn>,
  scope: MemoryScope,
  seams: Seams,
  { apply = true, customExtract, ttlMs, ...options }: RememberOptions,
  run: Run
): Promise<MemoryPipeline.Receipt> =>
  run(Effect.gen(function*() {
    const viewer = yield* viewerOf(scope)
    const pipeline = yield* pipelineOf(seams)
    return yield* pipeline[apply ? "remember" : "plan"](viewer, messages.map(toMessage), {
      ...options,
      scope: idsOf(scope),
      ttl: ttlMs,
      customExtract: customExtract && ((turns) => Effect.sync(() => customExtract(turns)))
    })
  }))

export const planMemory = (
  messages: ReadonlyArray<Turn>,
  scope: MemoryScope,
  seams: Seams,
  run: Run
): Promise<MemoryPipeline.Receipt> => remember(messages, scope, seams, { apply: false }, run)

export const recall = ({ scope, text, topK = 5 }: MemoryQuery, seams: Seams, run: Run) =>
  run(Effect.gen(function*() {
    const pipeline = yield* pipelineOf(seams)
    return yield* pipeline.recall(yield* viewerOf(scope), { ...definedFields({ text }), limit: topK })
  }))

export const formatMemoriesForPrompt = PromptBlock.formatMemoriesForPrompt
