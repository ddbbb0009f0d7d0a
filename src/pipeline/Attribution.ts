/** Which fact a decision speaks of, and which one takes the place of what is deleted: by the words they share. */
import { embeddingText, type MemoryRecord } from "../domain/MemoryRecord.ts"
import * as Tokenizer from "../ranking/Tokenizer.ts"
import type { Fact } from "./Extraction.ts"
import type { Decision } from "./Reconciliation.ts"

/**
 * Gives each decision the kind and the importance of the fact it speaks of: the one with its text, else with most of
 * its words. A record that a fact repeats is not deleted for it; a fact that nothing speaks of is added where something
 * is deleted, since that is what it was deleted for.
 */
export const attribute = (
  decisions: ReadonlyArray<Decision>,
  facts: ReadonlyArray<Fact>,
  existing: ReadonlyArray<MemoryRecord>
): ReadonlyArray<Decision> => {
  const repeated = new Set(facts.map(({ text }) => collapse(text)))
  const kept = decisions.filter(({ event, id }) => {
    const record = event === "DELETE" ? existing[indexOf(id)] : undefined
    return record === undefined || !repeated.has(collapse(embeddingText(record)))
  })
  const silent = new Set(facts)
  const attributed = kept.map((decision): Decision => {
    if (decision.event === "DELETE") return decision
    const record = existing[indexOf(decision.id)]
    const text = decision.text ?? (record && embeddingText(record))
    const fact = text === undefined
      ? undefined
      : nearest(text, facts, decision.event === "NOOP" ? alike : facts.length === 1 ? 0 : least)
    if (fact === undefined) return decision
    silent.delete(fact)
    return { ...fact, ...decision }
  })
  const rescued = kept.flatMap(({ event, id }): ReadonlyArray<Decision> => {
    const record = event === "DELETE" ? existing[indexOf(id)] : undefined
    const fact = record && nearest(embeddingText(record), Array.from(silent))
    if (fact === undefined) return []
    silent.delete(fact)
    return [{ ...fact, event: "ADD" }]
  })
  return [...attributed, ...rescued]
}

/** The one with most words in common, the first of equals; none below `min`, 0..1. */
export const nearest = <A extends { readonly text: string }>(
  text: string,
  all: ReadonlyArray<A>,
  min = 0
): A | undefined => {
  const words = new Set(tokenise(text))
  let best: A | undefined
  let most = -1
  for (const one of all) {
    const share = collapse(one.text) === collapse(text) ? 2 : shared(words, new Set(tokenise(one.text)))
    if (share > most && share >= min) {
      best = one
      most = share
    }
  }
  return best
}

/** `Infinity` of what is no temporary id. */
export const indexOf = (id: unknown): number =>
  typeof id === "number" && Number.isInteger(id) && id >= 0
    ? id
    : typeof id === "string" && /^(?:0|[1-9]\d{0,8})$/.test(id.trim())
    ? Number(id)
    : Infinity

/** As `MemoryRecord.dedupeKey` has it: NFC, white space collapsed. */
export const collapse = (text: string): string => text.normalize("NFC").replace(/\s+/g, " ").trim()

/** Jaccard: 0..1. */
const shared = (a: ReadonlySet<string>, b: ReadonlySet<string>): number => {
  const both = Array.from(b).filter((word) => a.has(word)).length
  return both === 0 ? 0 : both / (a.size + b.size - both)
}

/** Below this share of words in common, two texts are not about the same. */
const least = 0.01
/** A NOOP is often said of every memory there is: it speaks of a fact only where most words are the same. */
const alike = 0.5

const tokenise = Tokenizer.make({ stem: true })
