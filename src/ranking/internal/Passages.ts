/**
 * Passages: a long body in pieces of a few sentences, so that the record is ranked, and shown, by the one that answers.
 *
 * ```text
 * passage     paragraphs up to 600 characters together; a longer one is cut after a sentence, else between words
 * words(r)    BM25 of r, or nine tenths of that of its best passage with the summary and tags of r, if that is more
 * ```
 *
 * Only long records have passages (`isLong`).
 */
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import { buildDoc, type Doc, explain } from "../Bm25.ts"
import type { Tokenizer } from "../Tokenizer.ts"

/** Greatest length of a passage, in UTF-16 units. */
const wanted = 600
/** Weight of a passage beside a record of its own: one of many matches a question more easily by chance. */
const worth = 0.9

/** Place of a passage in the body, in UTF-16 units. */
export interface Passage {
  readonly start: number
  readonly end: number
}

/** Cuts a body into passages, in their order; white space between them belongs to none. */
export const passagesOf = (body: string): ReadonlyArray<Passage> => {
  const passages: Array<Passage> = []
  let start = body.search(/\S/)
  while (start >= 0 && start < body.length) {
    const end = start + cut(body.slice(start, start + wanted + 1))
    const trimmed = start + body.slice(start, end).trimEnd().length
    passages.push({ start, end: trimmed })
    const next = body.slice(end).search(/\S/)
    start = next < 0 ? -1 : end + next
  }
  return passages
}

/** Length of the first passage of a text, of which it is given a character more than a passage may have. */
const cut = (text: string): number => {
  if (text.length <= wanted) return text.length
  for (const end of ends) {
    const last = Array.from(text.matchAll(end), ({ 0: mark, index }) => index + mark.length).findLast((at) =>
      at <= wanted
    )
    if (last !== undefined && last > wanted / 4) return last
  }
  return isHigh(text.charCodeAt(wanted - 1)) ? wanted - 1 : wanted
}
/** The ends of paragraphs, of sentences, of lines, of words. */
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

/** Characters of bodies whose passages are kept, those that were asked for last. */
const room = 2_000_000

/** The passages of long records, read when they are asked for. */
export class Passages {
  readonly #tokenizer: Tokenizer
  readonly #read = new Map<MemoryRecord, ReadonlyArray<Read>>()
  #held = 0

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer
  }

  /** Returns those of a tokenizer: all that use it share them. */
  static of(tokenizer: Tokenizer): Passages {
    const known = all.get(tokenizer) ?? new Passages(tokenizer)
    all.set(tokenizer, known)
    return known
  }

  /** Returns what the best passage of a record is worth, beside the BM25 of records. */
  score(record: MemoryRecord, weights: Weights, slope: number): number {
    return worth * bestOf(this.#passagesOf(record), weights, slope).score
  }

  /** Returns the best passage of a record; the first of equals, `undefined` where none has a term. */
  best(record: MemoryRecord, weights: Weights, slope: number): Passage | undefined {
    return bestOf(this.#passagesOf(record), weights, slope).passage
  }

  forget(record: MemoryRecord): void {
    if (this.#read.delete(record)) this.#held -= record.body.length
  }

  #passagesOf(record: MemoryRecord): ReadonlyArray<Read> {
    const passages = this.#read.get(record) ?? read(record, this.#tokenizer)
    this.forget(record)
    this.#read.set(record, passages)
    this.#held += record.body.length
    for (const oldest of this.#read.keys()) {
      if (this.#held <= room || oldest === record) break
      this.forget(oldest)
    }
    return passages
  }
}

const all = new WeakMap<Tokenizer, Passages>()
