/** Builds outboxes over a given store, with a scripted model that extracts each message as one fact. */
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import type { MemoryMutation } from "../../src/domain/MemoryMutation.ts"
import { isInternal } from "../../src/domain/MemoryScope.ts"
import { Message, user } from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Outbox from "../../src/harness/Outbox.ts"
import { nextIteration } from "../../src/harness/Outbox/OutboxScheduler.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"

export const ada = Viewer.make({ userId: "ada" })
export const bob = Viewer.make({ userId: "bob" })

/** The scripted decision of the model: adds every extracted fact. */
export const adds = ({ user }: Completion.Prompt) => ({
  memory: (JSON.parse(user.slice(user.lastIndexOf("["))) as ReadonlyArray<string>) // the facts come last in the prompt
    .map((text) => ({ event: "ADD", text }))
})

export type Extract = NonNullable<MemoryPipeline.Options["customExtract"]>

export interface Model {
  readonly extract: Extract
  /** For each call of `extract`, the contents of the messages that it received. */
  readonly calls: Array<ReadonlyArray<string>>
}

/**
 * Makes an extractor that returns one fact per message: the message's first 50 characters and the number of the call. `before` runs first,
 * and may fail, hang or die.
 */
export const model = (
  before: (contents: ReadonlyArray<string>) => Effect.Effect<unknown, MemoryError.MemoryError> = () => Effect.void
): Model => {
  const calls: Model["calls"] = []
  return {
    calls,
    extract: (messages) =>
      Effect.suspend(() => {
        const contents = messages.map(({ content }) => content)
        const call = calls.push(contents)
        return Effect.as(before(contents), contents.map((text) => ({ text: `${text.slice(0, 50)} ~${call}` })))
      })
  }
}

/** Opens an outbox over the store until the scope closes. */
export const opened = (
  store: MemoryStore.Service,
  { extract }: Pick<Model, "extract">,
  { options, ...rest }: Outbox.Options = {}
): Effect.Effect<Outbox.Service, MemoryError.MemoryError, Scope.Scope> =>
  Effect.map(
    Layer.build(
      Outbox.layer({ ...rest, options: { customExtract: extract, kind: "episodic", ...options } }).pipe(
        Layer.provide(MemoryPipeline.layer),
        Layer.provide(
          Layer.mergeAll(
            Layer.succeed(MemoryStore.MemoryStore, store),
            Completion.layerScripted(adds),
            Embedder.layerNone
          )
        )
      )
    ),
    Context.get(Outbox.Outbox)
  ).pipe(Logger.withMinimumLogLevel(LogLevel.Error)) // these tests cause failures, which would be logged as warnings

/** A trigger that never fires. */
export const never: Outbox.ExtractionConfig["trigger"] = {
  name: "never",
  fires: (events) => Stream.drain(events),
  issues: []
}

export const users = (...contents: ReadonlyArray<string>): ReadonlyArray<Message> => contents.map((text) => user(text))

const everything = (store: MemoryStore.Service, tenant?: string) =>
  Effect.map(Stream.runCollect(store.stream(Viewer.system(tenant), {})), Chunk.toReadonlyArray)

/** Returns the bodies of a tenant's memories, sorted, without the call number that `model` appends to each. */
export const remembered = (store: MemoryStore.Service, tenant?: string) =>
  Effect.map(
    everything(store, tenant),
    (all) => all.flatMap(({ body, scope }) => isInternal(scope) ? [] : [body.replace(/ ~\d+$/, "")]).sort()
  )

/** Returns the kinds of the outbox's rows in the store (`messages` or `plan`), sorted, without session rows. */
export const rows = (store: MemoryStore.Service, tenant?: string) =>
  Effect.map(
    everything(store, tenant),
    (all) =>
      all.flatMap(({ data, scope }) => isInternal(scope) && data["row"] !== "session" ? [String(data["row"])] : [])
        .sort()
  )

/** Returns the store with an `apply` that fails where `refuses` returns an error. */
export const refusing = (
  store: MemoryStore.Service,
  refuses: (mutations: ReadonlyArray<MemoryMutation>) => MemoryError.MemoryError | undefined
): MemoryStore.Service => ({
  ...store,
  apply: (viewer, mutations, provenance) =>
    Effect.suspend(() => refuses(mutations) ?? store.apply(viewer, mutations, provenance))
})

/** Whether the mutations put a memory, not only rows of the library. */
export const writes = (mutations: ReadonlyArray<MemoryMutation>): boolean =>
  mutations.some((mutation) => mutation._tag === "Put" && !isInternal(mutation.draft.scope))

export const down = MemoryError.make("unavailable", { op: "test", message: "down" })
export const refused = MemoryError.make("invalid_draft", {
  op: "test",
  message: "never",
  detail: { issues: ["never"] }
})
export const mute = MemoryError.make("model", { op: "test", message: "mute" })

/** Yields repeatedly, also to three iterations of the event loop, so that other fibers run as far as they can. */
export const settled = Effect.repeatN(Effect.zipRight(Effect.repeatN(Effect.yieldNow(), 99), nextIteration), 2).pipe(
  Effect.zipRight(Effect.repeatN(Effect.yieldNow(), 99))
)
export const moved = MemoryError.make("conflict", { op: "test", message: "moved", detail: { expected: 1, actual: 2 } })

/** Messages of one turn, of which only the last has words to extract: "new ". */
export const lastHasWords: ReadonlyArray<Message> = [
  new Message({ role: "tool", content: "42" }),
  new Message({ role: "assistant", content: "{}", tool: true }),
  user(" \n"),
  user("<memory>old</memory>"),
  user("new <memory>old</memory>")
]
