/** A chat of @effect/ai whose messages are stored in a thread, so that the chat can go on after a restart. */
import * as AiError from "@effect/ai/AiError"
import * as Chat from "@effect/ai/Chat"
import * as Prompt from "@effect/ai/Prompt"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Encoding from "effect/Encoding"
import * as Exit from "effect/Exit"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../domain/MemoryError.ts"
import * as MemoryScope from "../../domain/MemoryScope.ts"
import { Message } from "../../domain/Message.ts"
import { type Json, maxDepth } from "../../domain/Payload.ts"
import * as Viewer from "../../domain/Viewer.ts"
import * as MemoryService from "../../harness/MemoryService.ts"
import * as Threads from "../../harness/Threads.ts"

/**
 * The name of the running chat's thread, for tools that the chat calls. Default: `undefined`, the value outside of a chat. A
 * `Context.Reference`, so it never appears in `R`.
 */
export class CurrentThread extends Context.Reference<CurrentThread>()("@memory/CurrentThread", {
  defaultValue: (): string | undefined => undefined
}) {}

/** Options of `chat`. */
export interface ChatOptions {
  /** System message, sent before all other messages and not stored in the thread. Default: none. */
  readonly system?: string | undefined
  /** Budget for the stored messages that each call sends to the model, in tokens. Four characters count as one token. Default 32,000. */
  readonly budget?: number | undefined
}

/**
 * Makes a chat for the current viewer, on one of the viewer's threads. Each call sends the model the newest messages of the thread, which
 * `Threads.window` selects for the budget. Messages that other processes appended are included. A complete answer is appended to the thread
 * together with its prompt. If a call fails, or if the process dies before the answer is complete, nothing is stored. If the consumer ends
 * a stream early, the received part is stored. Tool calls without a result are left out of that part. If the part cannot be stored, only a
 * warning is logged.
 *
 * The parameters and results of tools are stored as JSON, as `JSON.stringify` writes them, so the next call sends `null` for a result that is
 * `undefined`. What is nested more than 58 levels deep becomes JSON text.
 *
 * A chat belongs to the viewer for whom it was made, so make a chat for each viewer. A call by a viewer with other threads fails with the
 * reason `not_owned`. Such a call would put results of the caller's tools into the thread of the chat's viewer.
 *
 * If the calling viewer has other threads, or if the thread cannot be read or written, the call fails with an `AiError` of module
 * `ThreadChat`. The `cause` of this error is the `MemoryError`.
 */
export const chat = (
  thread: string,
  { budget = 32_000, system }: ChatOptions = {}
): Effect.Effect<
  Chat.Service,
  MemoryError.MemoryError,
  Threads.Threads | MemoryService.CurrentViewer
> =>
  Effect.gen(function*() {
    const threads = yield* Threads.Threads
    const viewer = yield* MemoryService.CurrentViewer
    const inner = yield* Chat.empty
    const calls = yield* Effect.makeSemaphore(1)
    const before = system === undefined ? [] : [Prompt.makeMessage("system", { content: system })]

    /**
     * Replaces the history of `inner` by the system message and the newest messages of the thread. Returns the length of the history. Fails
     * with `not_owned` if the calling viewer has other threads than the chat's viewer.
     */
    const follow = Effect.gen(function*() {
      const caller = yield* Effect.serviceOption(MemoryService.CurrentViewer)
      if (Option.isSome(caller) && !isSameThread(caller.value, viewer)) {
        const message = "the chat was made for another viewer: make one for the viewer that calls"
        return yield* MemoryError.make("not_owned", { op: "chat", message })
      }
      const window = yield* threads.window(viewer, thread, budget)
      const all = [...before, ...yield* Effect.forEach(window.items, messageOf)]
      yield* Ref.set(inner.history, Prompt.fromMessages(all))
      return all.length
    })

    /** Appends the new messages of the history to the thread, after `kept` has changed them. `length` is the number of old messages. */
    const keep = (
      length: number,
      kept: (said: ReadonlyArray<Prompt.Message>) => ReadonlyArray<Prompt.Message> = identity
    ) =>
      Effect.gen(function*() {
        const { content } = yield* Ref.get(inner.history)
        const said = yield* Effect.forEach(kept(content.slice(length)), newMessageOf)
        if (said.length > 0) yield* threads.append(viewer, thread, said)
      })

    const kept = <A, E, R>(call: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.mapError(follow, failed).pipe(
        Effect.flatMap((length) => Effect.tap(call, Effect.mapError(keep(length), failed))),
        calls.withPermits(1),
        Effect.provideService(CurrentThread, thread)
      ) as Effect.Effect<A, E, R> // the cast is safe, since the error type `E` of every model call includes `AiError`

    const keptStream = <A, E, R>(answer: Stream.Stream<A, E, R>): Stream.Stream<A, E, R> =>
      Stream.unwrapScoped(Effect.gen(function*() {
        yield* Effect.acquireRelease(calls.take(1), () => calls.release(1))
        const length = yield* Effect.mapError(follow, failed)
        const open = new Map<string, string>()
        let isKept = false
        const end = Effect.suspend(() => {
          isKept = true
          return Effect.mapError(keep(length), failed)
        })
        yield* Effect.addFinalizer((exit) =>
          Effect.suspend(() =>
            isKept || isFailed(exit) ? Effect.void : keep(length, (said) => withOpen(answered(said), open))
          ).pipe(
            Effect.catchAll((error) => Effect.logWarning("a part of an answer was not kept", error))
          )
        )
        return Stream.concat(
          Stream.tap(Stream.provideService(answer, CurrentThread, thread), (part) =>
            Effect.sync(() => follows(open, part))),
          Stream.execute(end)
        )
      })) as Stream.Stream<A, E, R> // the cast is safe, since the error type `E` of every model call includes `AiError`

    yield* follow
    return Chat.Chat.of({
      ...inner,
      generateText: (options) =>
        kept(inner.generateText(options)),
      generateObject: (options) => kept(inner.generateObject(options)),
      streamText: (options) => keptStream(inner.streamText(options))
    })
  }).pipe(Effect.withSpan("ThreadChat.make", { attributes: { thread } }))

/** Whether two viewers have the same threads. */
const isSameThread = (one: Viewer.Viewer, other: Viewer.Viewer): boolean =>
  Viewer.tenantOf(one) === Viewer.tenantOf(other) &&
  MemoryScope.key(Viewer.subjectOf(one)) === MemoryScope.key(Viewer.subjectOf(other))

/** Whether a stream failed. False if the consumer ended the stream. */
const isFailed = (exit: Exit.Exit<unknown, unknown>): boolean =>
  Exit.isFailure(exit) && !Cause.isInterruptedOnly(exit.cause)

/** Removes tool calls without a result, since providers reject a prompt with such a call. */
const answered = (said: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  const results = new Set(
    said.flatMap(({ content }) => typeof content === "string" ? [] : Array.from<Prompt.Part>(content)).flatMap((part) =>
      part.type === "tool-result" ? [part.id] : []
    )
  )
  return said.flatMap((message): ReadonlyArray<Prompt.Message> => {
    if (message.role !== "assistant") return [message]
    const content = message.content.filter((part) => part.type !== "tool-call" || results.has(part.id))
    return content.length === 0 ? [] : [Prompt.makeMessage("assistant", { ...message, content })]
  })
}

/** Updates `open` with the next part of a streamed answer. `open` has the received part of each unfinished text, by the text's id. */
const follows = (open: Map<string, string>, part: unknown): void => {
  const { delta, id, type } = part as Partial<Record<"type" | "id" | "delta", string>> // each kind of part has some of these fields
  if (id === undefined) return
  if (type === "text-start") open.set(id, "")
  if (type === "text-delta") open.set(id, (open.get(id) ?? "") + (delta ?? ""))
  if (type === "text-end") open.delete(id)
}

/** Adds the unfinished texts of a stream that the consumer ended early. The chat of @effect/ai leaves such texts out of its history. */
const withOpen = (
  said: ReadonlyArray<Prompt.Message>,
  open: ReadonlyMap<string, string>
): ReadonlyArray<Prompt.Message> => {
  const whole = said.flatMap((message) =>
    message.role === "assistant" ? message.content.flatMap((part) => part.type === "text" ? [part.text] : []) : []
  ) // `whole` may contain a complete text of which the consumer read only the beginning
  const parts = Array.from(open.values()).filter((text) => text !== "" && !whole.some((all) => all.startsWith(text)))
    .map((text) => Prompt.makePart("text", { text }))
  if (parts.length === 0) return said
  const last = said.at(-1)
  return last?.role === "assistant"
    ? [...said.slice(0, -1), Prompt.makeMessage("assistant", { ...last, content: [...last.content, ...parts] })]
    : [...said, Prompt.makeMessage("assistant", { content: parts })]
}

const failed = (cause: MemoryError.MemoryError): AiError.AiError =>
  new AiError.UnknownError({ module: "ThreadChat", method: cause.op, description: cause.message, cause })

/** Encodes a prompt as JSON that the field `data` of a message can hold. */
const encode = (prompt: Prompt.Prompt) =>
  Effect.map(Schema.encode(Prompt.Prompt)(prompt), (encoded) => jsonOf(encoded, maxDepth - 1))
const decode = Schema.decodeUnknown(Prompt.Prompt)

/**
 * Converts a value to JSON as `JSON.stringify` does. Bytes become base64, a `BigInt` becomes its digits, and `undefined` becomes `null`.
 * Lone surrogates become U+FFFD. A key `__proto__` is left out. Objects and arrays below `depth` levels become their JSON text. Never
 * throws: a value that `JSON.stringify` refuses, such as a cycle, becomes `unwritable`.
 */
const jsonOf = (value: unknown, depth: number): Json => {
  try {
    return storable(JSON.parse(JSON.stringify(value, writable) ?? "null"), depth) // a function or a symbol has no JSON text
  } catch {
    return unwritable
  }
}

/** Depth that is left for the parameters or the result of a tool, below the six levels of a message's `data` around them. */
const valueDepth = maxDepth - 6

const unwritable = "[a value that JSON cannot express]"

/** Replaces bytes and `BigInt`s for `JSON.stringify`. Reads the original from `this`, since `value` is what `toJSON` returned. */
function writable(this: Readonly<Record<string, unknown>>, key: string, value: unknown): unknown {
  const original = this[key]
  return original instanceof Uint8Array
    ? Encoding.encodeBase64(original)
    : typeof value === "bigint"
    ? `${value}`
    : value
}

/** Changes JSON so that the schema `JsonObject` accepts it as a field. */
const storable = (json: Json, depth: number): Json =>
  typeof json === "string"
    ? json.toWellFormed()
    : typeof json !== "object" || json === null
    ? json
    : depth === 0
    ? JSON.stringify(json)
    : Array.isArray(json)
    ? json.map((value: Json) => storable(value, depth - 1))
    : Object.fromEntries(
      Object.entries(json).filter(([key]) => key !== "__proto__").map(([key, value]) => [
        key.toWellFormed(),
        storable(value, depth - 1)
      ])
    )

/** Makes the parameters and the result of a tool JSON, one by one, so that a value which JSON cannot express spoils no other. */
const withJson = (message: Prompt.Message): Prompt.Message =>
  message.role === "assistant"
    ? Prompt.makeMessage("assistant", { ...message, content: message.content.map(partWithJson) })
    : message.role === "tool"
    ? Prompt.makeMessage("tool", { ...message, content: message.content.map(partWithJson) })
    : message

const partWithJson = <A extends Prompt.Part>(part: A): A =>
  part.type === "tool-call"
    ? { ...part, params: jsonOf(part.params, valueDepth) }
    : part.type === "tool-result"
    ? { ...part, result: jsonOf(part.result, valueDepth) }
    : part

/**
 * Converts a message of a prompt to a message of a thread. `content` has the text of the message. If `content` alone does not restore the
 * message, `data` has the whole message as JSON.
 */
const newMessageOf = (said: Prompt.Message): Effect.Effect<Threads.NewMessage, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const message = withJson(said)
    const turn: Message = turnOf(message)
    const plain = Prompt.fromMessages([plainOf(turn)])
    const whole = yield* Effect.mapError(encode(Prompt.fromMessages([message])), unreadable("append"))
    const isPlain = JSON.stringify(yield* Effect.orDie(encode(plain))) === JSON.stringify(whole)
    return isPlain ? turn : { ...turn, data: { prompt: whole } }
  })

const messageOf = ({ data, ...turn }: Threads.ThreadMessage): Effect.Effect<Prompt.Message, MemoryError.MemoryError> =>
  data?.["prompt"] === undefined
    ? Effect.succeed(plainOf(turn))
    : Effect.mapBoth(decode(data["prompt"]), {
      onFailure: unreadable("messages"),
      onSuccess: ({ content }) => content[0] ?? plainOf(turn)
    })

/** Makes a prompt message with only text. The text of a tool becomes a user message, since a tool message cannot be plain text. */
const plainOf = ({ content, role }: Pick<Message, "content" | "role">): Prompt.Message =>
  role === "system"
    ? Prompt.makeMessage("system", { content })
    : role === "assistant"
    ? Prompt.makeMessage("assistant", { content: [Prompt.makePart("text", { text: content })] })
    : Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: content })] })

const unreadable = (op: string) => (cause: unknown) =>
  MemoryError.make("corrupt", {
    op,
    message: "a message of the thread is no message of a prompt",
    detail: { location: "thread" },
    cause
  })

/**
 * Converts a message of a prompt to a `Message`, which has only text. `tool` is true for a message of a tool, and for a message with tool
 * calls but without text.
 */
export const turnOf = (message: Prompt.Message): Message => {
  if (message.role === "system") return new Message({ role: "system", content: message.content })
  const parts: ReadonlyArray<Prompt.Part> = message.content
  const content = parts.flatMap((part) =>
    part.type === "text"
      ? [part.text]
      : message.role === "tool" && part.type === "tool-result"
      ? [typeof part.result === "string" ? part.result : JSON.stringify(jsonOf(part.result, valueDepth))]
      : []
  ).join("\n")
  const tool = message.role === "tool" || (content === "" && parts.some(({ type }) => type.startsWith("tool-")))
  return new Message({ role: message.role, content, ...(tool && { tool }) })
}
