/**
 * What a note is about, by rule, and how much two have in common. Pure and deterministic.
 *
 * ```text
 * keywords    10 most frequent words that are no stopwords; of equals the earlier
 * tags        of 12 subjects, the 5 first in the table whose words the text has
 * entities    10 first: [[names]], files, identifiers, Capitalised Phrases; no addresses and no long numbers
 * context     its first sentence, or 200 characters, cut at a word
 * similarity  .6 Jaccard(keywords) + .4 Jaccard(entities), over what at least one of them has; 0 of nothing. To 6 places
 * ```
 */
import { deriveSummary } from "../../domain/MemoryRecord.ts"
import type { Note } from "../../domain/Payload.ts"
import * as Wikilink from "../../domain/Wikilink.ts"
import * as Tokenizer from "../../ranking/Tokenizer.ts"

export interface Attributes extends Note {
  /** At most 5 of `subjects`. */
  readonly tags: ReadonlyArray<string>
}

export const attributesOf = (text: string): Attributes => ({
  keywords: keywordsOf(text),
  tags: Object.entries(table).flatMap(([subject, words]) => words.test(text) ? [subject] : []).slice(0, 5),
  entities: entitiesOf(text),
  context: contextOf(text)
})

/** 0..1, the same both ways; never NaN. */
export const similarity = (a: Note, b: Note): number => {
  const parts = [
    { weight: 0.6, share: jaccard(a.keywords, b.keywords) },
    { weight: 0.4, share: jaccard(a.entities, b.entities) }
  ].flatMap(({ share, weight }) => share === undefined ? [] : [{ share, weight }])
  const total = parts.reduce((sum, { weight }) => sum + weight, 0)
  const mean = total === 0 ? 0 : parts.reduce((sum, { share, weight }) => sum + share * weight, 0) / total
  return Math.min(1, Math.round(mean * 1e6) / 1e6) // .82, and no .8200000000000001 for a hand to read
}

/** Of the first, those that the second has too, whatever the case. */
export const shared = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): ReadonlyArray<string> => {
  const known = new Set(b.map(fold))
  return a.filter((one) => known.has(fold(one)))
}

const fold = (text: string): string => text.normalize("NFC").toLowerCase()

/** Jaccard similarity of two sets, in any case of letters, 0..1; `undefined` where both are empty. */
const jaccard = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): number | undefined => {
  const union = new Set([...a, ...b].map(fold))
  return union.size === 0 ? undefined : new Set(shared(a, b).map(fold)).size / union.size
}

/** UTF-16 units of a keyword or an entity. */
const longest = 64

const tokenise = Tokenizer.make({ stopwords: "wide" })

const keywordsOf = (text: string): ReadonlyArray<string> => {
  const counts = new Map<string, number>()
  for (const word of tokenise(text)) {
    if (word.length <= longest) counts.set(word, (counts.get(word) ?? 0) + 1)
  }
  return Array.from(counts).sort(([, a], [, b]) => b - a).slice(0, 10).map(([word]) => word)
}

const contextOf = (text: string): string => {
  const line = text.slice(0, 4_096).replace(/\s+/g, " ").trim()
  const end = /[.!?…](?= )|[。！？]/.exec(line)
  const sentence = end === null ? line : line.slice(0, end.index + 1)
  return sentence.length <= 200 ? sentence : deriveSummary(line)
}

const file = /^[\w./-]*\w\.[a-z][a-z0-9]{0,4}$/i
const identifier = /^(?:[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|\w+_\w+|\w+\(\))$/
const capitalised = /^\p{Lu}[\p{L}\p{N}]+$/u
const isPrivate = (word: string): boolean => word.includes("@") || /\d{5,}|\d{3}[-. ]\d{3,}/.test(word)

const entitiesOf = (text: string): ReadonlyArray<string> => {
  const found = new Map<string, string>()
  const keep = (entity: string) => {
    if (entity.length > 1 && entity.length <= longest && !isPrivate(entity) && !found.has(fold(entity))) {
      found.set(fold(entity), entity)
    }
  }
  for (const { target } of Wikilink.parse(text)) keep(target)
  let phrase: Array<string> = []
  let isFirst = true
  let startsSentence = true
  const end = () => {
    // one word that begins a sentence is a word, not a name
    if (phrase.length > 1 || (phrase.length === 1 && !startsSentence)) keep(phrase.join(" "))
    phrase = []
  }
  for (const [whole] of text.matchAll(/\S+/g)) {
    const word = whole.replace(/^[^\p{L}\p{N}_]+|[^\p{L}\p{N}_)]+$/gu, "").replace(/(?<!\()\)+$/, "")
    const isName = capitalised.test(word) && !identifier.test(word) &&
      (phrase.length > 0 || tokenise(word).length > 0) // no phrase begins with The
    if (isName) {
      if (phrase.length === 0) startsSentence = isFirst
      phrase.push(word)
    } else {
      end()
      if (file.test(word) || identifier.test(word)) keep(word)
    }
    isFirst = /[.!?:。！？]["')\]]*$/.test(whole)
    if (isFirst || /[,;)\]]$/.test(whole)) end()
  }
  end()
  return Array.from(found.values()).slice(0, 10)
}

const table = {
  error: /\b(?:errors?|exceptions?|bugs?|fail(?:s|ed|ures?)?|crash(?:es|ed)?|broken)\b/i,
  decision: /\b(?:decid(?:e|ed|es)|decisions?|chose|chosen|agreed)\b/i,
  preference: /\b(?:prefers?|preferred|likes?|loves?|hates?|favou?rites?)\b/i,
  plan: /\b(?:plans?|planned|goals?|todo|roadmap|deadlines?|milestones?)\b/i,
  question: /\?|\b(?:how to|why|unclear|unknown)\b/i,
  security: /\b(?:security|passwords?|secrets?|auth\w*|vulnerab\w*|encrypt\w*|permissions?)\b/i,
  performance: /\b(?:performance|slow(?:er)?|fast(?:er)?|latency|throughput|optimi[sz]\w*|cach(?:e|ed|ing))\b/i,
  test: /\b(?:tests?|tested|testing|coverage|assertions?|regressions?)\b/i,
  data: /\b(?:data|databases?|sql|schemas?|tables?|migrations?|quer(?:y|ies))\b/i,
  design: /\b(?:design(?:s|ed)?|architectures?|patterns?|interfaces?|modules?)\b/i,
  code: /\b(?:code|functions?|class(?:es)?|apis?|refactor\w*|librar(?:y|ies)|typescript|javascript|python)\b/i,
  people: /\b(?:teams?|customers?|users?|colleagues?|meetings?|friends?|family)\b/i
}

export const subjects: ReadonlyArray<string> = Object.keys(table)
