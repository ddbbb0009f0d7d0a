/** Read access to threads: pages of messages, the newest messages, search by words, and the list of threads. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../domain/MemoryError.ts"
import { Limit } from "../../domain/MemoryFilter.ts"
import { tokensIn } from "../../domain/PromptText.ts"
import * as Validation from "../../domain/Validation.ts"
import type { ThreadIndex } from "./ThreadIndex.ts"
import * as ThreadRows from "./ThreadRows.ts"

/**
 * Schema of a range of messages: from the sequence number `from`, inclusive, to `before`, exclusive. If the range has more than `limit`
 * messages, the first ones are read if `from` is set, and otherwise the last ones. The default range is the whole thread.
 */
export const Range = Schema.Struct({
  /** Largest number of messages to read. Default 50. */
  limit: Schema.optional(Limit),
  before: Schema.optional(Schema.NonNegativeInt),
  from: Schema.optional(Schema.NonNegativeInt)
})
/** A range of messages, as `Range` decodes it. */
export interface Range extends Schema.Schema.Type<typeof Range> {}

/** A page of messages. */
export interface Page {
  /** Messages, in conversation order. */
  readonly items: ReadonlyArray<ThreadRows.ThreadMessage>
  /** Total number of messages of the thread; 0 if the thread does not exist. */
  readonly length: number
}

/** The newest messages of a thread, selected by a budget. */
export interface Window {
  /** The selected messages, in conversation order. */
  readonly items: ReadonlyArray<ThreadRows.ThreadMessage>
  /** Number of earlier messages in the thread. `Threads.search` can find these messages. */
  readonly leftOut: number
}

/** A message that a search found. */
export interface Found {
  readonly message: ThreadRows.ThreadMessage
  /** Score, 0..1; the best message has score 1. */
  readonly score: number
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

const Query = Schema.Struct({ text: Schema.String, limit: Schema.optional(Limit) })
const Listing = Schema.Struct({ limit: Schema.optional(Limit) })
const Budget = Schema.Struct({ budget: Schema.Number.pipe(Schema.greaterThanOrEqualTo(0)) })

const messagesOf = (
  rows: ThreadRows.Rows,
  { data: { generation } }: ThreadRows.Head,
  from: number,
  end: number
): Io<ReadonlyArray<ThreadRows.ThreadMessage>> =>
  Effect.map(
    ThreadRows.messages(rows, generation, from, end),
    (found) => found.map(({ data, message, sequence }) => ({ ...message, sequence, ...(data && { data }) }))
  )

/** Reads messages of a thread. */
export const messages = (
  rows: ThreadRows.Rows,
  name: string,
  range: Range
): Effect.Effect<Page, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { before = Infinity, from, limit = 50 } = yield* Validation.check("messages", Range, range)
    const head = yield* ThreadRows.headOf(rows, name)
    if (Option.isNone(head)) return { items: [], length: 0 }
    const { length } = head.value.data
    const end = Math.min(length, before, from === undefined ? Infinity : from + limit)
    return { items: yield* messagesOf(rows, head.value, Math.max(0, from ?? end - limit), end), length }
  })

/** Returns the number of characters of a message's text or of its `data` as JSON, whichever is larger. */
const sizeOf = ({ content, data }: ThreadRows.ThreadMessage): number =>
  Math.max(content.length, data === undefined ? 0 : JSON.stringify(data).length)

/** Whether the user or the system wrote a message. A window begins with such a message if possible, so each tool result has its call. */
const isOpening = ({ role }: ThreadRows.ThreadMessage): boolean => role === "user" || role === "system"

/** Number of messages that `window` reads per step. Each step goes further back in the thread. */
const atATime = 50

/**
 * Reads the newest messages that fit into a budget of tokens, and always the last message. May exceed the budget or leave out fitting
 * messages, to begin with a message of the user or the system.
 */
export const window = (
  rows: ThreadRows.Rows,
  name: string,
  budget: number
): Effect.Effect<Window, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    let left = (yield* Validation.check("window", Budget, { budget })).budget
    const head = yield* ThreadRows.headOf(rows, name)
    if (Option.isNone(head)) return { items: [], leftOut: 0 }
    let all: ReadonlyArray<ThreadRows.ThreadMessage> = []
    /** Number of newest messages that fit into the budget; `undefined` while all messages read so far fit. */
    let fitting: number | undefined
    for (let end = head.value.data.length; end > 0; end -= atATime) {
      const later = all.length
      const page = yield* messagesOf(rows, head.value, Math.max(0, end - atATime), end)
      all = [...page, ...all]
      const isBeyond = (message: ThreadRows.ThreadMessage, n: number) => {
        left -= tokensIn(sizeOf(message))
        return left < 0 && all.length - n > 1 // the last message is always returned
      }
      const last = fitting === undefined ? page.findLastIndex(isBeyond) : -1
      if (last >= 0) fitting = later + page.length - 1 - last
      if (fitting !== undefined && all.some(isOpening)) break
    }
    const from = all.length - (fitting ?? all.length)
    const within = all.findIndex((message, n) => n >= from && isOpening(message))
    const before = within < 0 ? all.findLastIndex(isOpening) : within
    // `before` is −1 if the thread has no user or system message: the window then begins with the first fitting message that is no tool
    // result, if there is one
    const start = before < 0 ? Math.max(from, all.findIndex(({ role }, n) => n >= from && role !== "tool")) : before
    return { items: all.slice(start), leftOut: all[start]?.sequence ?? 0 }
  })

/** Finds messages of a thread by words, best first. */
export const search = (
  rows: ThreadRows.Rows,
  indexes: ThreadIndex,
  name: string,
  query: typeof Query.Type
): Effect.Effect<ReadonlyArray<Found>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { limit = 20, text } = yield* Validation.check("search", Query, query)
    const head = yield* ThreadRows.headOf(rows, name)
    if (Option.isNone(head)) return []
    const { generation, length } = head.value.data
    const read = (from: number, end: number) => messagesOf(rows, head.value, from, end)
    const found = yield* indexes.search(generation, length, { text, limit }, read)
    return yield* Effect.map(
      Effect.forEach(found, ({ score, sequence }) =>
        Effect.map(read(sequence, sequence + 1), (all) =>
          all.map((message) => ({ message, score })))),
      (all) =>
        all.flat()
    )
  })

/** Lists threads, the last created first. */
export const list = (
  rows: ThreadRows.Rows,
  after: string | undefined,
  limit: number | undefined
): Effect.Effect<ReadonlyArray<ThreadRows.Thread>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { limit: most = 20 } = yield* Validation.check("list", Listing, { limit })
    const last = after === undefined ? Option.none() : yield* ThreadRows.headOf(rows, after)
    if (after !== undefined && Option.isNone(last)) {
      return yield* MemoryError.make("not_found", {
        op: "list",
        message: "after: there is no such thread any more. List from the beginning, or after another one"
      })
    }
    const [owner] = yield* ThreadRows.read(rows, ThreadRows.OwnerData, [rows.idOf("owner")])
    const pages = Option.match(owner!, { onNone: () => 0, onSome: ({ data }) => data.pages })
    const start = Option.match(last, { onNone: () => pages - 1, onSome: ({ data }) => data.page })
    const threads: Array<ThreadRows.Thread> = []
    for (let page = start; page >= 0 && threads.length < most; page--) {
      const [found] = yield* ThreadRows.read(rows, ThreadRows.PageData, [rows.idOf("page", page)])
      const names = Option.match(found!, { onNone: () => [], onSome: ({ data }) => data.names.toReversed() })
      const from = names.findIndex((name) => name === after) + 1
      const ids = names.slice(from, from + most - threads.length).map((name) => rows.idOf("thread", name))
      const heads = yield* ThreadRows.read(rows, ThreadRows.ThreadData, ids)
      threads.push(...heads.flatMap(Option.toArray).map(ThreadRows.threadOf))
    }
    return threads
  })
