/**
 * A model's decisions about facts and their neighbours: read from its answer, and attributed to the facts that they are about
 * by the words that both share. The model knows neighbours by temporary ids only.
 *
 * Cost of an attribution: each text is cut into words once, and a comparison looks only at texts that share a word.
 */
import * as Effect from "effect/Effect"
import type * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { values } from "../domain/JsonText.ts"
import type { MemoryError } from "../domain/MemoryError.ts"
import { collapseSpace, embeddingText, type MemoryRecord } from "../domain/MemoryRecord.ts"
import type * as EventLoop from "../host/EventLoop.ts"
import * as Tokenizer from "../ranking/Tokenizer.ts"
import * as Answer from "./Answer.ts"
import { clean, type Fact } from "./Extraction.ts"

/** The change that a decision asks for; `NOOP` asks for none. */
export const Event = Schema.Literal("ADD", "UPDATE", "DELETE", "NOOP")

/** The model's decision about one fact. `id` is the temporary id of a neighbour: "0", "1", … */
export const Decision = Schema.Struct({
  event: Event,
  id: Schema.optional(Schema.String),
  text: Schema.optional(Schema.String),
  kind: Schema.optional(Schema.String),
  /** Importance of the fact, 0..1. Taken from the extraction; the model is not asked for it. */
  importance: Schema.optional(Schema.Number)
})
export interface Decision extends Schema.Schema.Type<typeof Decision> {}

/**
 * Returns the decisions in an answer, or a retryable `model` failure if the text is not an answer. Returns no decisions
 * for an explicit empty list, and where every change names an id that was not shown, since models make those up. Finds
 * what `parseDecision` finds, and also a single decision in place of a list. `existing` is the number of neighbours shown.
 */
export const readDecision = (
  answer: string,
  existing: number
): Either.Either<ReadonlyArray<Decision>, MemoryError> =>
  Answer.read(answer, {
    op: "reconcile",
    name: "memory",
    items: (list) => list.flatMap((item) => toDecision(item, existing)),
    isItem: (value) => toDecision(value, existing).length > 0 || namesUnknown(value, existing),
    isAnswer: (item) => namesUnknown(item, existing)
  })

/**
 * Returns the decisions in an answer, or none if there are none; never fails. Lists under `memory` are tried before bare
 * arrays, and the first that holds a decision counts. `existing` is the number of neighbours shown.
 */
export const parseDecision = (answer: string, existing: number): ReadonlyArray<Decision> => {
  const said = values(answer)
  const named = said.flatMap((value) =>
    Answer.isObject(value) && Array.isArray(value["memory"]) ? [value["memory"]] : []
  )
  const lists: ReadonlyArray<unknown> = named.length > 0 ? named : said
  for (const list of lists) {
    const decisions = Array.isArray(list) ? list.flatMap((item) => toDecision(item, existing)) : []
    if (decisions.length > 0) return decisions
  }
  return []
}

/** Parses a temporary id into the neighbour's index; `Infinity` for anything else. */
export const indexOf = (id: unknown): number =>
  typeof id === "number" && Number.isInteger(id) && id >= 0
    ? id
    : typeof id === "string" && /^(?:0|[1-9]\d{0,8})$/.test(id.trim())
    ? Number(id)
    : Infinity

const eventOf = (item: unknown): typeof Event.Type | undefined => {
  if (!Answer.isObject(item) || typeof item["event"] !== "string") return undefined
  const said = item["event"].trim().toUpperCase()
  const event = said === "NONE" ? "NOOP" : said
  return isEvent(event) ? event : undefined
}

/** Whether the item asks to change a record that was not shown. */
const namesUnknown = (item: unknown, existing: number): boolean => {
  const event = eventOf(item)
  if ((event !== "UPDATE" && event !== "DELETE") || !Answer.isObject(item)) return false
  const { id } = item
  return (typeof id === "number" || (typeof id === "string" && id.trim() !== "")) && indexOf(id) >= existing
}

const toDecision = (item: unknown, existing: number): ReadonlyArray<Decision> => {
  const event = eventOf(item)
  if (event === undefined || !Answer.isObject(item)) return []
  const [fact] = clean([item])
  const content = fact && { text: fact.text, ...(fact.kind !== undefined && { kind: fact.kind }) }
  if (event === "ADD") return content ? [{ event, ...content }] : []
  const index = indexOf(item["id"])
  const known = index < existing ? { id: String(index) } : undefined
  if (event === "NOOP") return [{ event, ...known, ...content }]
  return known && (event === "DELETE" || content) ? [{ event, ...known, ...content }] : []
}

const isEvent = Schema.is(Event)

/** Returns the distinct words of a text. */
export type WordsOf = (text: string) => ReadonlySet<string>

/** Makes a function that returns the distinct words of a text, and remembers them per text for as long as it lives. */
export const makeWordsOf = (): WordsOf => {
  const known = new Map<string, ReadonlySet<string>>()
  return (text) => {
    const found = known.get(text)
    if (found !== undefined) return found
    const words = new Set(tokenise(text))
    known.set(text, words)
    return words
  }
}

/** Cuts these texts into words ahead of time, with pauses for the event loop. */
export const cut = (texts: ReadonlyArray<string>, paced: EventLoop.Pacer): Effect.Effect<WordsOf> =>
  Effect.suspend(() => {
    const wordsOf = makeWordsOf()
    const step = (text: string) => {
      wordsOf(text)
      return paced(text.length)
    }
    return Effect.as(Effect.forEach(texts, step, { discard: true }), wordsOf)
  })

/**
 * Gives each decision the kind and the importance of the fact it speaks of: the one with its text, else with most of
 * its words. A record that a fact repeats is not deleted for it; a fact that nothing speaks of is added where something
 * is deleted, since that is what it was deleted for.
 */
export const attribute = (
  decisions: ReadonlyArray<Decision>,
  facts: ReadonlyArray<Fact>,
  existing: ReadonlyArray<MemoryRecord>,
  wordsOf: WordsOf = makeWordsOf()
): ReadonlyArray<Decision> => {
  const among = makeNearest(facts, wordsOf)
  const repeated = new Set(facts.map(({ text }) => collapseSpace(text)))
  const kept = decisions.filter(({ event, id }) => {
    const record = event === "DELETE" ? existing[indexOf(id)] : undefined
    return record === undefined || !repeated.has(collapseSpace(embeddingText(record)))
  })
  const silent = new Set(facts)
  // many decisions may be about the same text
  const spoken = new Map<string, Fact | undefined>()
  const meant = (text: string, min: number): Fact | undefined => {
    const key = `${min} ${text}`
    if (!spoken.has(key)) spoken.set(key, among(text, min))
    return spoken.get(key)
  }
  const attributed = kept.map((decision): Decision => {
    if (decision.event === "DELETE") return decision
    const record = existing[indexOf(decision.id)]
    const text = decision.text ?? (record && embeddingText(record))
    const fact = text === undefined
      ? undefined
      : meant(text, decision.event === "NOOP" ? alike : facts.length === 1 ? 0 : least)
    if (fact === undefined) return decision
    silent.delete(fact)
    return { ...fact, ...decision }
  })
  const rescued = kept.flatMap(({ event, id }): ReadonlyArray<Decision> => {
    const record = event === "DELETE" ? existing[indexOf(id)] : undefined
    const fact = record && among(embeddingText(record), 0, silent)
    if (fact === undefined) return []
    silent.delete(fact)
    return [{ ...fact, event: "ADD" }]
  })
  return [...attributed, ...rescued]
}

/**
 * Returns the candidate that shares the most words with `text` (Jaccard), the first of equals; none if the best share is
 * below `min`, 0..1, default 0. With `open`, only candidates that it holds count; it is in the order of `all`.
 */
export type Nearest<A> = (text: string, min?: number, open?: ReadonlySet<A>) => A | undefined

/** Makes a function that finds the nearest of these candidates. */
export const makeNearest = <A extends { readonly text: string }>(
  all: ReadonlyArray<A>,
  wordsOf: WordsOf = makeWordsOf()
): Nearest<A> => {
  const sizes: Array<number> = []
  const saying = new Map<string, Array<number>>()
  const holding = new Map<string, Array<number>>()
  for (const [place, { text }] of all.entries()) {
    const words = wordsOf(text)
    sizes.push(words.size)
    append(saying, collapseSpace(text), place)
    for (const word of words) append(holding, word, place)
  }

  return (text, min = 0, open) => {
    const isOpen = (place: number) => open === undefined || open.has(all[place]!)
    const same = saying.get(collapseSpace(text))?.find(isOpen)
    if (same !== undefined) return all[same]

    const words = wordsOf(text)
    const shared = new Map<number, number>()
    for (const word of words) {
      for (const place of holding.get(word) ?? []) shared.set(place, (shared.get(place) ?? 0) + 1)
    }
    let best = -1
    let most = 0
    for (const [place, both] of shared) {
      const share = both / (words.size + sizes[place]! - both) // Jaccard: 0..1
      if (share < min || share < most || (share === most && place > best) || !isOpen(place)) continue
      best = place
      most = share
    }
    if (best >= 0) return all[best]
    if (min > 0) return undefined
    return open === undefined ? all[0] : open.values().next().value
  }
}

const append = (lists: Map<string, Array<number>>, key: string, place: number): void => {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [place])
  else list.push(place)
}

/** Two texts that have a smaller share of words in common are not about the same. */
const least = 0.01
/** Models often answer NOOP for every memory there is: it speaks of a fact only if at least this share of words is the same. */
const alike = 0.5

const tokenise = Tokenizer.make({ stem: true })
