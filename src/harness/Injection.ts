/**
 * What bears on a turn, as a block for the end of it: when it is looked for, by what, and how it is shown. Made anew for
 * every call and kept nowhere.
 */
import * as Effect from "effect/Effect"
import * as MemoryError from "../domain/MemoryError.ts"
import type { SearchResult } from "../domain/MemoryFilter.ts"
import type { Message } from "../domain/Message.ts"
import type { Viewer } from "../domain/Viewer.ts"
import * as Tokenizer from "../ranking/Tokenizer.ts"
import * as PromptBlock from "./PromptBlock.ts"

export interface InjectionConfig {
  /** Default `userTurn`: the last message is a user's, and no tool's result. */
  readonly trigger?: "userTurn" | "everyTurn" | ((turn: ReadonlyArray<Message>) => boolean) | undefined
  /**
   * Default `queryOf`: the last user text; where the last message is not a user's, the last assistant text. `undefined`
   * or blank: nothing this time.
   */
  readonly query?: ((turn: ReadonlyArray<Message>) => string | undefined) | undefined
  /** Default `PromptBlock.render`, within the budget. */
  readonly format?: ((result: SearchResult) => PromptBlock.PromptBlock) | undefined
  /** 1..1,000, default 5. */
  readonly maxEntries?: number | undefined
  /** In tokens of about four characters: of the whole block, or, with a `format`, of the records. Default none. */
  readonly budget?: number | undefined
}

export interface Search {
  (viewer: Viewer, query: {
    readonly text: string
    readonly limit: number
    readonly budget: number | undefined
  }): Effect.Effect<SearchResult, MemoryError.MemoryError>
}

export interface Inject {
  /** An empty block where there is nothing to say. A callback that throws is `invalid_draft`: the caller goes on without. */
  (viewer: Viewer, turn: ReadonlyArray<Message>): Effect.Effect<PromptBlock.PromptBlock, MemoryError.MemoryError>
}

export const make = (search: Search, config: InjectionConfig = {}): Inject => {
  const { budget, format, maxEntries = 5, query = queryOf, trigger = "userTurn" } = config
  const wanted = trigger === "everyTurn" ? () => true : trigger === "userTurn" ? isUserTurn : trigger
  // the block's own budget lets a short record pass where a long one does not fit; a search's ends at the first
  const maxChars = budget === undefined ? undefined : budget * 4
  const asked = { limit: maxEntries, budget: format && budget }
  const shown = format ?? ((result: SearchResult) => PromptBlock.render(result, { maxChars }))

  return (viewer, turn) =>
    Effect.gen(function*() {
      if (!(yield* attempt("trigger", () => wanted(turn)))) return PromptBlock.empty
      const text = yield* attempt("query", () => query(turn)?.trim())
      if (!text) return PromptBlock.empty
      const result = yield* search(viewer, { text, ...asked })
      return yield* attempt("format", () => shown(result))
    })
}

/**
 * Without our own blocks. A last user text that asks for nothing by itself ("?", "ok", "and why?") is taken together with
 * the one before it; `undefined` where that, too, has no word to look for.
 */
export const queryOf = (turn: ReadonlyArray<Message>): string | undefined => {
  const said = (role: Message["role"]) =>
    turn.filter((message) => message.role === role && message.tool !== true)
      .map((message) => PromptBlock.strip(message).content.trim())
      .filter((text) => text !== "")
  if (!isUserTurn(turn)) return said("assistant").at(-1)
  const texts = said("user").slice(-2)
  const queries = [texts.slice(-1).join(), texts.join("\n")]
  return queries.find(hasTopic) ?? queries.find(hasWord)
}

const isUserTurn = (turn: ReadonlyArray<Message>): boolean => {
  const last = turn.at(-1)
  return last?.role === "user" && last.tool !== true
}

/** What says go on, and about nothing. */
const assent = new Set(
  ("again alright carry continue done exactly fine go good great hello hey hi more next nice no nope ok okay perfect please " +
    "right sure thank thanks thx yeah yep yes").split(" ")
)
const saysMore = (tokenizer: Tokenizer.Tokenizer) => (text: string): boolean =>
  tokenizer(text).some((term) => !assent.has(term))
const hasTopic = saysMore(Tokenizer.make({ stopwords: "wide" }))
/** "Who am I?" has no other words, and is a question. */
const hasWord = saysMore(Tokenizer.tokenise)

const attempt = <A>(part: string, run: () => A): Effect.Effect<A, MemoryError.MemoryError> =>
  Effect.try({
    try: run,
    catch: (cause) => {
      const message = `the ${part} of the injection threw` // the thrown message may quote the turn, so it is kept in the cause only
      return MemoryError.make("invalid_draft", { op: "inject", message, detail: { issues: [message] }, cause })
    }
  })
