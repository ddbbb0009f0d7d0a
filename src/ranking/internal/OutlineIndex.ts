/**
 * An index of records whose texts stay in a database. It keeps the term counts and the outline of each record, and gives the same answers
 * as `MemoryIndex`. A search may need texts, to rank passages of long records or to test the filter's `where`. The caller must then read
 * these texts from the database.
 */
import { type Filtered, matches as matching } from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import { hashOf, type MemoryRecord } from "../../domain/MemoryRecord.ts"
import { Global, isInternal } from "../../domain/MemoryScope.ts"
import type * as Viewer from "../../domain/Viewer.ts"
import type { CompiledFilter, Matches, Near, Question } from "../Retrieval.ts"
import type { Tokenizer } from "../Tokenizer.ts"
import { cosineTo } from "../VectorIndex.ts"
import { CompactVectors } from "./CompactVectors.ts"
import { Matcher } from "./Matcher.ts"
import { isLong, type Outline, OutlineFact } from "./Outline.ts"
import { type Form, formOf } from "./Ranker.ts"

/** Records that the caller has read so far, by id; `undefined` for a record that no longer exists. */
export type Texts = ReadonlyMap<MemoryId, MemoryRecord | undefined>

/** Vectors that the caller has read so far, by hash of the text; `undefined` for a vector that no longer exists. */
export type Vectors = ReadonlyMap<string, Float32Array | undefined>

/** The result of a call. `Wanting`: the caller must read the records with these ids and the vectors with these hashes, and call again. */
export type Answer<A> =
  | { readonly _tag: "Answered"; readonly answer: A }
  | { readonly _tag: "Wanting"; readonly ids: ReadonlyArray<MemoryId>; readonly hashes: ReadonlyArray<string> }

/** An outline as the index keeps it. This is a class so that all instances share one hidden class in V8. */
class Indexed implements Outline {
  readonly id: Outline["id"]
  readonly scope: Outline["scope"]
  readonly kind: Outline["kind"]
  readonly tags: Outline["tags"]
  readonly importance: Outline["importance"]
  readonly confidence: Outline["confidence"]
  readonly data: Outline["data"]
  readonly metadata: Outline["metadata"]
  readonly source: Outline["source"]
  readonly createdAt: Outline["createdAt"]
  readonly updatedAt: Outline["updatedAt"]
  readonly validAt: Outline["validAt"]
  readonly invalidAt: Outline["invalidAt"]
  readonly expiresAt: Outline["expiresAt"]
  readonly size: Outline["size"]
  readonly form: Form
  readonly hash: string
  /**
   * Version of the record's partition right after the record was written. A partition is a group of scopes that are indexed together. The
   * table `memory_partitions` has the current version of each partition.
   */
  readonly version: number

  constructor(packed: EncodedOutline, version: number, scope: Outline["scope"]) {
    const { actorId, emotion } = packed
    this.id = packed.id
    this.scope = scope
    this.kind = packed.kind
    this.tags = packed.tags ?? none
    this.importance = packed.importance
    this.confidence = packed.confidence
    this.data = emotion === undefined ? nothing : { emotion }
    this.metadata = actorId === undefined ? nothing : { actorId }
    this.source = shared(packed.source)
    this.createdAt = packed.createdAt
    this.updatedAt = packed.updatedAt
    this.validAt = packed.validAt
    this.invalidAt = packed.invalidAt
    this.expiresAt = packed.expiresAt
    this.size = packed.size
    this.form = forms[packed.form]! // `decode` checked that the number has three bits
    this.hash = packed.hash
    this.version = version
  }
}

/** The `Fact` of a record in an `OutlineIndex`. The property `record` is `undefined` if `known` does not find the record in RAM. */
class IndexedFact extends OutlineFact {
  declare readonly outline: Indexed
  readonly #known: (outline: Indexed) => MemoryRecord | undefined
  #record: MemoryRecord | undefined

  constructor(outline: Indexed, length: number, known: (outline: Indexed) => MemoryRecord | undefined) {
    super(outline, length)
    this.#known = known
  }

  /**
   * The record with its texts; `undefined` if `known` does not find the record in RAM. A found record is kept, so that it cannot change
   * while an answer is assembled.
   */
  get record(): MemoryRecord | undefined {
    return this.#record ??= this.#known(this.outline)
  }
}

/** An index of outlines and vectors. A call may need texts or vectors that the index lacks. The result then tells which ones to read. */
export class OutlineIndex {
  /** The vectors of each model. */
  readonly #vectors = new Map<string, CompactVectors>()
  readonly #matcher: Matcher<Indexed>
  /** Number of records that were added since the postings were last packed. A compaction sets it to the number of all records. */
  #unpacked = 0
  // the next four fields are the state of the current call
  #texts: Texts = new Map()
  #wanted = new Set<MemoryId>()
  #hashes = new Set<string>()
  #passesBare: (record: Filtered) => boolean = () => true

  /**
   * `tokenizer` must be the tokenizer that counted the terms of the records. `known` returns the record of an outline, with its texts, if
   * the process has this record in RAM.
   */
  constructor(tokenizer: Tokenizer, known: (outline: Indexed) => MemoryRecord | undefined = () => undefined) {
    this.#matcher = new Matcher({
      tokenizer,
      factOf: (outline, length) => new IndexedFact(outline, length, known),
      textOf: (outline) => known(outline) ?? this.#textOf(outline.id),
      passes: (compiled, outline) => {
        if (!this.#passesBare(outline)) return false
        if (compiled.filter.where === undefined) return true
        const text = known(outline) ?? this.#textOf(outline.id)
        return text !== undefined && compiled.passes(text)
      }
    })
  }

  get size(): number {
    return this.#matcher.docs.size
  }

  /** The outlines of all records, in any order. */
  get outlines(): ReadonlyArray<Indexed> {
    return this.#matcher.records
  }

  has(id: MemoryId): boolean {
    return this.#matcher.get(id) !== undefined
  }

  /** Adds a record that `encode` encoded, or replaces the record with its id. Returns the id. Throws if `decode` finds damage. */
  add(encoded: string, version: number): MemoryId {
    const { length, packed, terms } = decode(encoded)
    this.remove(packed.id)
    const { index } = this.#matcher
    const doc = index.addCounted(packed.scope, terms, length, packed.expiresAt ?? Infinity)
    for (const vectors of this.#vectors.values()) vectors.waiting.add(packed.id)
    this.#unpacked++
    this.#matcher.add(doc, new Indexed(packed, version, index.scope(index.scopeOf(doc)))) // equal scopes share one object
    return packed.id
  }

  remove(id: MemoryId): void {
    const { index } = this.#matcher
    this.#matcher.remove(id)
    if (this.#matcher.index !== index) this.#unpacked = this.size // a compaction replaced the index, and unpacked all postings
    for (const vectors of this.#vectors.values()) vectors.remove(id)
  }

  /** Packs all postings if those of at least 1,000 records, and of at least half of all records, are unpacked (see `#unpacked`). */
  pack(): void {
    if (this.#unpacked < packedFrom || this.#unpacked < this.size / 2) return
    this.#unpacked = 0
    this.#matcher.index.pack()
  }

  /** Returns the number of dimensions of a model; `undefined` if the index keeps no vectors of the model. */
  dimensions(model: string): number | undefined {
    return this.#vectors.get(model)?.dimensions
  }

  /**
   * Returns the id and text hash of each record that has no vector of the model. Leaves out records of the scope `Internal`. The first call
   * for a model scans all records. From then on, the index keeps the vectors that `attach` adds, and a call scans only the records without
   * a vector.
   */
  withoutVector(model: string, dimensions: number): ReadonlyArray<readonly [id: MemoryId, hash: string]> {
    let vectors = this.#vectors.get(model)
    if (vectors === undefined) {
      vectors = new CompactVectors(dimensions)
      this.#vectors.set(model, vectors)
      for (const { id } of this.outlines) vectors.waiting.add(id)
    }
    return Array.from(vectors.waiting).flatMap((id) => {
      const { hash = "", scope = Global } = this.#matcher.get(id) ?? {}
      return isInternal(scope) ? [] : [[id, hash] as const]
    })
  }

  /**
   * Adds the missing vector of a record. Does nothing if the record now has another hash, or the model other dimensions or none. Throws a
   * RangeError if there is no room.
   */
  attach(model: string, id: MemoryId, hash: string, vector: Float32Array): void {
    const vectors = this.#vectors.get(model)
    const isIts = this.#matcher.get(id)?.hash === hash
    if (isIts && vectors?.dimensions === vector.length && vectors.waiting.has(id)) vectors.add(id, hash, vector)
  }

  /** Removes all vectors of a model. */
  detach(model: string): void {
    this.#vectors.delete(model)
  }

  match(access: Viewer.AccessFilter, compiled: CompiledFilter, question: Question, texts: Texts): Answer<Matches> {
    return this.#answer(compiled, texts, () => this.#matcher.match(access, compiled, question))
  }

  near(
    access: Viewer.AccessFilter,
    compiled: CompiledFilter,
    model: string,
    vector: Float32Array,
    depth: number,
    texts: Texts,
    read: Vectors
  ): Answer<Near> {
    return this.#answer(compiled, texts, () => this.#near(access, compiled, model, vector, depth, read))
  }

  #near(
    access: Viewer.AccessFilter,
    compiled: CompiledFilter,
    model: string,
    vector: Float32Array,
    depth: number,
    read: Vectors
  ): Near {
    const { docs } = this.#matcher
    const vectors = this.#vectors.get(model)
    const { few, has } = this.#matcher.visibleRecords(access, compiled, vectors === undefined)
    const awaiting = vectors === undefined ? few?.length ?? 0 : Array.from(vectors.waiting).filter(has).length
    const close = vectors?.dimensions === vector.length ? vectors.candidates(vector, depth, few, has) : []
    const cosineOf = cosineTo(vector)
    const found: Array<{ readonly doc: number; readonly cosine: number }> = []
    for (const id of close) {
      const doc = docs.get(id)! // every record with a vector has a doc id
      const { hash } = this.#matcher.recordOf(doc)
      const cached = vectors?.get(hash)
      const own = cached?.vector ?? read.get(hash)
      if (own === undefined) {
        if (!read.has(hash)) this.#hashes.add(hash)
        continue
      }
      if (cached === undefined) vectors?.keep(hash, own)
      const cosine = cosineOf(own, cached?.square)
      if (cosine > 0) found.push({ doc, cosine })
    }
    const { newestFirst, recordOf } = this.#matcher
    found.sort((a, b) => b.cosine - a.cosine || newestFirst(recordOf(a.doc).id, recordOf(b.doc).id))
    const hits = found.slice(0, depth).map(({ cosine, doc }) => ({ fact: this.#matcher.factOf(doc), cosine }))
    return { hits, awaiting, exact: true, known: (hash) => vectors?.get(hash)?.vector }
  }

  #answer<A>({ at, filter, passes }: CompiledFilter, texts: Texts, ask: () => A): Answer<A> {
    this.#texts = texts
    this.#wanted = new Set()
    this.#hashes = new Set()
    this.#passesBare = filter.where === undefined ? passes : matching({ ...filter, where: undefined }, at)
    const answer = ask()
    this.#texts = new Map()
    return this.#wanted.size + this.#hashes.size > 0
      ? { _tag: "Wanting", ids: Array.from(this.#wanted), hashes: Array.from(this.#hashes) }
      : { _tag: "Answered", answer }
  }

  #textOf(id: MemoryId): MemoryRecord | undefined {
    const text = this.#texts.get(id)
    if (text === undefined && !this.#texts.has(id)) this.#wanted.add(id)
    return text
  }
}

/** Smallest number of added records for which `pack` packs the postings. The unpacked postings of 1,000 records take about 1 MB. */
const packedFrom = 1_000

/** The parts of an encoded record, decoded. */
interface IndexedWords {
  /** Number of terms of the text, repeated ones included, as `isCounted` in `Tokenizer.ts` counts them. */
  readonly length: number
  /** Each term followed by its code: twice the number of occurrences of the term, plus 1 if the term is a whole tag. */
  readonly terms: ReadonlyArray<string | number>
  readonly packed: EncodedOutline
}

/** Encodes the term counts and the outline of a record as JSON. */
export const encode = (record: MemoryRecord, terms: ReadonlyMap<string, number>, length: number): string => {
  const {
    body,
    createdAt,
    data,
    expiresAt,
    id,
    importance,
    invalidAt,
    kind,
    metadata,
    scope,
    source,
    tags,
    updatedAt
  } = record
  const { isFirstPerson, isQuestion, namesTime } = formOf(body)
  const { actor, origin, sequence, session, trust } = source
  const { confidence, validAt } = record
  return JSON.stringify([
    length,
    Array.from(terms).flat(),
    {
      id,
      scope,
      kind,
      source: { origin, trust, session, actor, sequence },
      createdAt,
      updatedAt,
      validAt,
      invalidAt,
      expiresAt,
      importance,
      confidence,
      tags: tags.length > 0 ? tags : undefined,
      emotion: data["emotion"],
      actorId: metadata["actorId"],
      size: isLong(record) ? body.length : undefined,
      form: (isQuestion ? 1 : 0) + (isFirstPerson ? 2 : 0) + (namesTime ? 4 : 0),
      hash: hashOf(record)
    }
  ])
}

type EncodedOutline = Omit<Outline, "tags" | "data" | "metadata" | "form" | "hash"> & {
  readonly tags?: ReadonlyArray<string>
  readonly emotion?: Outline["data"][string]
  readonly actorId?: Outline["metadata"][string]
  readonly form: number
  readonly hash: string
}

const decode = (encoded: string): IndexedWords => {
  // the cast is safe, since `encode` wrote values of these types
  const [length, terms, packed] = JSON.parse(encoded) as [number, ReadonlyArray<string | number>, EncodedOutline]
  const { form, hash, id, kind, scope, source } = packed
  // checks some of the fields on which ranking relies, since a damaged row may lack them
  if (
    typeof id !== "string" || typeof kind !== "string" || typeof hash !== "string" || forms[form] === undefined ||
    typeof scope !== "object" && scope !== Global || scope === null || typeof source !== "object" ||
    !Array.isArray(terms)
  ) throw new TypeError("expected an encoded outline")
  return { length, terms, packed }
}

/** Returns one shared object for all equal sources, to save memory. Sources with a session, actor or sequence are not shared. */
const shared = (source: Outline["source"]): Outline["source"] => {
  const { actor, origin, sequence, session, trust } = source
  if (session !== undefined || actor !== undefined || sequence !== undefined) return source
  const key = `${origin} ${trust}`
  const known = sources.get(key)
  if (known !== undefined) return known
  sources.set(key, source)
  return source
}
const sources = new Map<string, Outline["source"]>()

const none: ReadonlyArray<string> = []
const nothing: Outline["data"] = {}
const forms: ReadonlyArray<Form> = Array.from({ length: 8 }, (_, bits) => ({
  isQuestion: (bits & 1) !== 0,
  isFirstPerson: (bits & 2) !== 0,
  namesTime: (bits & 4) !== 0
}))
