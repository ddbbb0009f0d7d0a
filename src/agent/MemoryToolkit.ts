/**
 * Adapters for @effect/ai, exported as `effect-memory/ai`. They offer the memory tools as a Toolkit, and models of @effect/ai as
 * `Completion` and `Embedder`. The module is separate because @effect/ai is an optional peer dependency.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryService, Viewer } from "effect-memory"
 * import * as MemoryToolkit from "effect-memory/ai"
 *
 * const program = Effect.gen(function*() {
 *   const { handle } = yield* MemoryToolkit.toolkit
 *   const { isFailure } = yield* handle("remember", { scope: "user", kind: "user", summary: "Drinks tea", body: "Tea." })
 *   return isFailure
 * }).pipe(MemoryService.as(Viewer.make({ userId: "ada" })), Effect.provide(MemoryToolkit.layer))
 * const isFailure = await program.pipe(Effect.provide(MemoryService.layerTest()), Effect.runPromise)
 *
 * isFailure // => false
 * ```
 */
import * as EmbeddingModel from "@effect/ai/EmbeddingModel"
import * as LanguageModel from "@effect/ai/LanguageModel"
import * as Model from "@effect/ai/Model"
import * as Prompt from "@effect/ai/Prompt"
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { Viewer } from "../domain/Viewer.ts"
import * as MemoryService from "../harness/MemoryService.ts"
import * as Threads from "../harness/Threads.ts"
import * as Completion from "../host/Completion.ts"
import * as Embedder from "../host/Embedder.ts"
import * as MemoryTool from "../host/MemoryTool.ts"
import { CurrentThread, turnOf } from "./MemoryToolkit/ThreadChat.ts"
import * as MemoryTools from "./MemoryTools.ts"
import * as ThreadTools from "./ThreadTools.ts"

export { chat, type ChatOptions, CurrentThread } from "./MemoryToolkit/ThreadChat.ts"

/**
 * A memory tool as a tool of @effect/ai. A call returns text for the model. The type accepts any parameters, since the tool validates its
 * parameters itself.
 */
export type AiTool = Tool.Tool<string, {
  readonly parameters: Schema.Struct<{}>
  readonly success: typeof Schema.String
  readonly failure: typeof MemoryTool.Failure
  readonly failureMode: "return"
}>

/**
 * Makes a toolkit of memory tools. The model receives the `text` of each result. Failures, including those for invalid arguments, are
 * returned to the model as results, so the turn goes on.
 */
export const make = (
  tools: ReadonlyArray<MemoryTool.MemoryTool>
): Effect.Effect<Toolkit.WithHandler<Readonly<Record<string, AiTool>>>> => {
  const toolkit = Toolkit.make(...tools.map(toolOf))
  const handlers = Object.fromEntries(tools.map(({ call, name }) => [
    name,
    (input: unknown) => Effect.map(call(input), ({ text }) => text)
  ]))
  return Effect.flatMap(toolkit.toContext(handlers), (context) => Effect.provide(toolkit, context))
}

/**
 * Makes a Schema that has the given JSON schema and accepts every value. The tool validates its parameters itself, since a validation error
 * of @effect/ai would end the turn.
 */
const lenient = <Fields extends Schema.Struct.Fields>(jsonSchema: MemoryTool.MemoryTool["jsonSchema"]) =>
  Schema.Unknown.annotations({ jsonSchema }) as unknown as Schema.Struct<Fields> // typed as a struct, but decodes any value

/** A tool with typed parameters. The model receives failures as results, including failures for invalid parameters. */
export type ToolOf<Name extends string, Fields extends Schema.Struct.Fields> = Tool.Tool<Name, {
  readonly parameters: Schema.Struct<Fields>
  readonly success: typeof Schema.String
  readonly failure: typeof MemoryTool.Failure
  readonly failureMode: "return"
}>

const declared = <const Name extends string, Fields extends Schema.Struct.Fields>(
  { description, idempotent, input, name, writes }: {
    readonly name: Name
    readonly description: string
    readonly input: Schema.Struct<Fields> & Schema.Schema.AnyNoContext
    readonly writes: boolean
  } & MemoryTool.Hints
): ToolOf<Name, Fields> =>
  Tool.make(name, { description, success: Schema.String, failure: MemoryTool.Failure, failureMode: "return" })
    .setParameters(lenient<Fields>(MemoryTool.jsonSchemaOf(input)))
    .annotate(Tool.Readonly, !writes)
    .annotate(Tool.Destructive, writes)
    .annotate(Tool.Idempotent, idempotent ?? !writes)
    .annotate(Tool.OpenWorld, false)

const { forget, recall, remember } = MemoryTools.declarations

/**
 * The tools `remember` and `recall` as a toolkit of @effect/ai. `layer` handles the calls. `Toolkit.merge` combines this toolkit with
 * others. Each call checks which scopes its viewer may write. Invalid parameters are reported to the model as results.
 */
export const toolkit = Toolkit.make(declared(remember), declared(recall))

/** The tools of `toolkit`, and the tool `forget`. Without `MemorySpec.allowForget`, a call of `forget` fails with `unsupported`. */
export const toolkitWithForget = Toolkit.make(declared(remember), declared(recall), declared(forget))

/**
 * Handles the calls of `toolkit` and of `toolkitWithForget`, guarded by the write limit and the plugins. The limit counts the writes since
 * the last `MemoryService.turnStart`, so call that before each prompt of the user. A call acts for the viewer that `MemoryService.as`
 * provides to the effect that handles the call. A call without a viewer publishes a `memory_viewer_missing` event. The model then receives
 * the failure `not_owned`.
 */
export const layer: Layer.Layer<
  Tool.HandlersFor<typeof toolkitWithForget["tools"]>,
  never,
  MemoryService.MemoryService
> = Layer.effectContext(
  Effect.flatMap(MemoryService.MemoryService, (memory) => {
    const handled = (name: keyof typeof MemoryTools.declarations) =>
      handler(
        memory,
        name,
        (viewer) => Effect.provideService(MemoryTools.make(viewer), MemoryService.MemoryService, memory)
      )
    return toolkitWithForget.toContext({
      remember: handled("remember"),
      recall: handled("recall"),
      forget: handled("forget")
    })
  }).pipe(withoutCaller)
)

/**
 * The tool `search_thread` as a toolkit of @effect/ai. A model searches its own conversation with this tool, including messages too old for
 * its prompt. `layerThread` handles the calls. `Toolkit.merge` combines this toolkit with others.
 */
export const threadToolkit = Toolkit.make(declared(ThreadTools.declaration))

/**
 * Handles the calls of `threadToolkit`, guarded by the plugins. A call searches the thread of the chat in which the model made the call.
 * `chat` makes such a chat. A call outside of a chat fails with `unsupported`. A call acts for the viewer that `MemoryService.as` provides
 * to the effect that handles the call. A call without a viewer fails with `not_owned`.
 */
export const layerThread: Layer.Layer<
  Tool.HandlersFor<typeof threadToolkit["tools"]>,
  never,
  MemoryService.MemoryService | Threads.Threads
> = Layer.effectContext(
  Effect.gen(function*() {
    const memory = yield* MemoryService.MemoryService
    const threads = yield* Threads.Threads
    const search = handler(memory, ThreadTools.declaration.name, (viewer) =>
      Effect.gen(function*() {
        const thread = yield* CurrentThread
        return thread === undefined ? [] : yield* ThreadTools.make(viewer, thread)
      }).pipe(
        Effect.provideService(MemoryService.MemoryService, memory),
        Effect.provideService(Threads.Threads, threads)
      ))
    return yield* threadToolkit.toContext({ search_thread: search })
  }).pipe(withoutCaller)
)

/** Makes the handler of the tool `name`. Each call makes the tools of the current viewer, and passes the parameters to the tool `name`. */
function handler(
  memory: MemoryService.Service,
  name: string,
  toolsOf: (viewer: Viewer) => Effect.Effect<ReadonlyArray<MemoryTool.MemoryTool>>
) {
  return (parameters: unknown) =>
    Effect.gen(function*() {
      const viewer = yield* Effect.serviceOption(MemoryService.CurrentViewer)
      if (Option.isNone(viewer)) {
        yield* memory.viewerMissing(`the tool ${name}`)
        return yield* Effect.fail(MemoryTool.failure("not_owned", "there is nobody for whom memory could be used here"))
      }
      const tool = (yield* toolsOf(viewer.value)).find((tool) => tool.name === name)
      if (tool === undefined) {
        return yield* Effect.fail(MemoryTool.failure("unsupported", `there is no tool ${name} here`))
      }
      return (yield* tool.call(parameters)).text
    })
}

/**
 * Removes the viewer and the thread from the context in which handlers are made. Otherwise, a handler would use this viewer and this thread
 * for calls that provide none.
 */
function withoutCaller<A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
  return Effect.mapInputContext(
    self,
    (context: Context.Context<R>) =>
      Context.omit(MemoryService.CurrentViewer, CurrentThread)(
        context as Context.Context<R | MemoryService.CurrentViewer | CurrentThread> // the context may also contain a viewer and a thread
      ) as Context.Context<R>
  ) // the cast is safe: `R` requires neither `CurrentViewer` nor `CurrentThread`
}

/**
 * Provides a `Completion` over a `LanguageModel`. The result is the text of the model's answer. A failure has the reason `model`, and the
 * original error as `cause`. The name of the model is the `Model.ProviderName` in the context, by default `language-model`.
 */
export const layerCompletion: Layer.Layer<Completion.Completion, never, LanguageModel.LanguageModel> = Layer.effect(
  Completion.Completion,
  Effect.gen(function*() {
    const { generateText } = yield* LanguageModel.LanguageModel
    const provider = yield* Effect.serviceOption(Model.ProviderName)
    return Completion.make({
      model: Option.getOrElse(provider, () => "language-model"),
      complete: (prompt) =>
        generateText({ prompt: messages(prompt) }).pipe(
          Effect.mapBoth({ onSuccess: ({ text }) => text, onFailure: failed("Completion.complete", "language") })
        )
    })
  })
)

/**
 * Provides an `Embedder` over an embedding model of @effect/ai. The caller gives the model's name and dimensions, since @effect/ai does not
 * report them. Both are stored with vectors. Queries and documents are embedded in the same way. The layer dies if `dimensions` is not a
 * whole number of 1 or more.
 */
export const layerEmbedder = (
  { dimensions, model }: { readonly model: string; readonly dimensions: number }
): Layer.Layer<Embedder.Embedder, never, EmbeddingModel.EmbeddingModel> =>
  Layer.effect(
    Embedder.Embedder,
    Effect.flatMap(EmbeddingModel.EmbeddingModel, ({ embedMany }) =>
      Embedder.make({
        model,
        dimensions,
        embed: (texts) =>
          Effect.mapBoth(embedMany(texts), {
            onSuccess: (vectors) => vectors.map((vector) => Float32Array.from(vector)),
            onFailure: failed("Embedder.embed", "embedding")
          })
      }))
  )

const injected = (otherwise: Option.Option<Viewer>) =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.gen(function*() {
      const model = yield* LanguageModel.LanguageModel
      const { context, viewerMissing } = yield* MemoryService.MemoryService

      const informed = <A extends { readonly prompt: Prompt.RawInput }>(options: A): Effect.Effect<A> =>
        Effect.gen(function*() {
          const viewer = Option.orElse(yield* Effect.serviceOption(MemoryService.CurrentViewer), () => otherwise)
          const prompt = Prompt.make(options.prompt)
          if (Option.isNone(viewer)) {
            yield* viewerMissing("injection")
            return { ...options, prompt }
          }
          const { text } = yield* context(prompt.content.map(turnOf)).pipe(MemoryService.as(viewer.value))
          return { ...options, prompt: text === "" ? prompt : withEnding(prompt, text) }
        })

      return LanguageModel.LanguageModel.of({
        generateText: (options) => Effect.flatMap(informed(options), (options) => model.generateText(options)),
        generateObject: (options) => Effect.flatMap(informed(options), (options) => model.generateObject(options)),
        streamText: (options) => Stream.unwrap(Effect.map(informed(options), (options) => model.streamText(options)))
      })
    })
  )

/**
 * Wraps the provided `LanguageModel`, so that memories are added to the prompt of each call. `MemoryService.context` finds the memories.
 * The memories are added at the end of the last user message. All text above stays byte for byte the same, so a provider's prompt cache
 * still matches. The memories are added for one call only. Neither the caller's prompt nor the history of a `Chat` contains them. If
 * nothing is found, the prompt is unchanged.
 *
 * One layer serves many users. A call acts for the viewer that `MemoryService.as` provides when the call or the stream runs. A viewer that
 * is provided only when a stream is constructed has no effect. A call without a viewer gets no memories, and publishes a
 * `memory_viewer_missing` event. A program with one user can use `layerInjectedFor`.
 *
 * Provide `layerCompletion` with the original model, not with the wrapped one. The library extracts memories with `layerCompletion`. Added
 * memories would only lengthen the prompts of these extractions.
 */
export const layerInjected: Layer.Layer<
  LanguageModel.LanguageModel,
  never,
  LanguageModel.LanguageModel | MemoryService.MemoryService
> = injected(Option.none())

/** Works like `layerInjected`, for programs with one user. A call without a viewer acts for the given viewer. */
export const layerInjectedFor = (
  viewer: Viewer
): Layer.Layer<
  LanguageModel.LanguageModel,
  never,
  LanguageModel.LanguageModel | MemoryService.MemoryService
> => injected(Option.some(viewer))

/** Appends a text to the last user message, after a blank line. A prompt without a user message stays as it is. */
const withEnding = (prompt: Prompt.Prompt, text: string): Prompt.Prompt => {
  const last = prompt.content.findLastIndex(({ role }) => role === "user")
  const part = Prompt.makePart("text", { text: `\n\n${text}` })
  return Prompt.fromMessages(
    prompt.content.map((message, at) =>
      at === last && message.role === "user" ? { ...message, content: [...message.content, part] } : message
    )
  )
}

/** Converts a prompt to messages. Omits an empty system message, since some providers reject it. */
const messages = ({ system, user }: Completion.Prompt): Prompt.RawInput => [
  ...(system === "" ? [] : [{ role: "system" as const, content: system }]),
  { role: "user", content: user }
]

const toolOf = (tool: MemoryTool.MemoryTool): AiTool => {
  const { description, jsonSchema, name, writes } = tool
  return Tool.make(name, { description, success: Schema.String, failure: MemoryTool.Failure, failureMode: "return" })
    .setParameters(lenient<{}>(jsonSchema))
    .annotate(Tool.Readonly, !writes)
    .annotate(Tool.Destructive, tool.destructive ?? writes)
    .annotate(Tool.Idempotent, tool.idempotent ?? !writes)
    .annotate(Tool.OpenWorld, tool.openWorld ?? false)
}

const failed = (op: string, kind: string) => (cause: { readonly _tag: string }) =>
  MemoryError.make("model", { op, message: `the ${kind} model failed (${cause._tag})`, cause })
