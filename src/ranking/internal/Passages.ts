/**
 * Splits long bodies into passages of a few sentences. A long record is ranked by its whole text or by its best passage, whichever has the
 * higher score. Tools show the best passage instead of the whole body.
 *
 * ```text
 * passage     whole paragraphs, 600 characters at most; if these have 150 or fewer, whole sentences; else lines, words or 600 characters
 * words(r)    BM25 of r or, if it is higher, 0.9 times the BM25 of the best passage of r; a passage includes the summary and tags of r
 * ```
 *
 * Only long records have passages (`isLong`: a body of more than 2,000 UTF-16 units).
 */
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import { buildDoc, type Doc, explain } from "../Bm25.ts"
import type { Tokenizer } from "../Tokenizer.ts"

/** Greatest length of a passage, in UTF-16 units. */
const maxLength = 600
/** Factor of a passage's score. The factor is below 1, since one of many passages may match a query by chance. */
const passageFactor = 0.9

/** The range of a passage in the body, in UTF-16 units. */
export interface Passage {
  readonly start: number
  readonly end: number
}

/** Returns the passages of a body, in order, without the white space between them. */
export const passagesOf = (body: string): ReadonlyArray<Passage> => {
  const passages: Array<Passage> = []
  let start = body.search(/\S/)
  while (start >= 0 && start < body.length) {
    const end = start + cut(body.slice(start, start + maxLength + 1))
    const trimmed = start + body.slice(start, end).trimEnd().length
    passages.push({ start, end: trimmed })
    const next = body.slice(end).search(/\S/)
    start = next < 0 ? -1 : end + next
  }
  return passages
}

/** Returns the length of a text's first passage. Only the first `maxLength` + 1 characters of the text are needed. */
const cut = (text: string): number => {
  if (text.length <= maxLength) return text.length
  for (const end of ends) {
    const last = Array.from(text.matchAll(end), ({ 0: mark, index }) => index + mark.length).findLast((at) =>
      at <= maxLength
    )
    if (last !== undefined && last > maxLength / 4) return last
  }
  return isHigh(text.charCodeAt(maxLength - 1)) ? maxLength - 1 : maxLength
}
/** Patterns at which a passage may end, best first: the end of a paragraph, a sentence, a line or a word. */
const ends = [/\n[ \t]*\n/g, /[.!?…](?=["'”’)\]]*\s)["'”’)\]]*|[。！？]/g, /\n/g, /\s/g]
const isHigh = (code: number): boolean => code >= 0xd800 && code <= 0xdbff

type Weights = ReadonlyArray<readonly [term: string, idf: number]>
interface Read extends Passage {
  readonly doc: Doc<undefined>
}

const read = ({ body, summary, summaryDerived, tags }: MemoryRecord, tokenizer: Tokenizer): ReadonlyArray<Read> =>
  passagesOf(body).map(({ end, start }) => ({
    start,
    end,
    doc: buildDoc(undefined, { summary, summaryDerived, body: body.slice(start, end), tags }, tokenizer)
  }))

const bestOf = (passages: ReadonlyArray<Read>, weights: Weights, slope: number) => {
  let best: { readonly score: number; readonly passage: Passage | undefined } = { score: 0, passage: undefined }
  for (const passage of passages) {
    const score = explain(passage.doc, weights, slope).bm25
    if (score > best.score) best = { score, passage }
  }
  return best
}

/** Greatest total length of the bodies whose passages are cached, in UTF-16 units. A single body may be longer. */
const cacheSize = 2_000_000

/** Computes the passages of long records when they are needed, and caches those of the most recently used records. */
export class Passages {
  readonly #tokenizer: Tokenizer
  readonly #cache = new Map<MemoryRecord, ReadonlyArray<Read>>()
  #cachedLength = 0

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer
  }

  /** Returns the instance for a tokenizer. All callers with the same tokenizer share one instance. */
  static of(tokenizer: Tokenizer): Passages {
    const known = all.get(tokenizer) ?? new Passages(tokenizer)
    all.set(tokenizer, known)
    return known
  }

  /** Returns the BM25 of a record's best passage, times `passageFactor`. The result can be compared with the BM25 of a whole record. */
  score(record: MemoryRecord, weights: Weights, slope: number): number {
    return passageFactor * bestOf(this.#passagesOf(record), weights, slope).score
  }

  /** Returns the best passage of a record, or the first of several best ones. Returns `undefined` if no passage contains a term. */
  best(record: MemoryRecord, weights: Weights, slope: number): Passage | undefined {
    return bestOf(this.#passagesOf(record), weights, slope).passage
  }

  forget(record: MemoryRecord): void {
    if (this.#cache.delete(record)) this.#cachedLength -= record.body.length
  }

  #passagesOf(record: MemoryRecord): ReadonlyArray<Read> {
    const passages = this.#cache.get(record) ?? read(record, this.#tokenizer)
    this.forget(record)
    this.#cache.set(record, passages)
    this.#cachedLength += record.body.length
    for (const oldest of this.#cache.keys()) {
      if (this.#cachedLength <= cacheSize || oldest === record) break
      this.forget(oldest)
    }
    return passages
  }
}

const all = new WeakMap<Tokenizer, Passages>()
