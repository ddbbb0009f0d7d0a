/**
 * Finds the fact that a decision is about, and the fact that replaces a deleted record, by the words that they share.
 *
 * Cost: each text is cut into words once, and a comparison looks only at texts that share a word.
 */
import * as Effect from "effect/Effect"
import { embeddingText, type MemoryRecord } from "../domain/MemoryRecord.ts"
import type * as EventLoop from "../host/EventLoop.ts"
import * as Tokenizer from "../ranking/Tokenizer.ts"
import { type Decision, indexOf } from "./Decision.ts"
import type { Fact } from "./Extraction.ts"

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
  const repeated = new Set(facts.map(({ text }) => collapse(text)))
  const kept = decisions.filter(({ event, id }) => {
    const record = event === "DELETE" ? existing[indexOf(id)] : undefined
    return record === undefined || !repeated.has(collapse(embeddingText(record)))
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
    append(saying, collapse(text), place)
    for (const word of words) append(holding, word, place)
  }

  return (text, min = 0, open) => {
    const isOpen = (place: number) => open === undefined || open.has(all[place]!)
    const same = saying.get(collapse(text))?.find(isOpen)
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

/** As `MemoryRecord.dedupeKey` has it: NFC, white space collapsed. */
export const collapse = (text: string): string => text.normalize("NFC").replace(/\s+/g, " ").trim()

/** Below this share of words in common, two texts are not about the same. */
const least = 0.01
/** A NOOP is often said of every memory there is: it speaks of a fact only where most words are the same. */
const alike = 0.5

const tokenise = Tokenizer.make({ stem: true })
