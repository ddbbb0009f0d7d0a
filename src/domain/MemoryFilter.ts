/** Which records are meant, and how they are asked for. */
import * as Schema from "effect/Schema"
import { VAD } from "./Emotion.ts"
import { MemoryError } from "./MemoryError.ts"
import { MemoryId } from "./MemoryId.ts"
import * as MemoryKind from "./MemoryKind.ts"
import { embeddingText, foldCase, isValidAt, MemoryRecord, Millis, Tag, Trust, Unit } from "./MemoryRecord.ts"
import { fields, Global, matchesScope, MemoryScope } from "./MemoryScope.ts"
import type { Json, JsonObject } from "./Payload.ts"

/** From `from`, before `until`. */
const Range = Schema.Struct({ from: Schema.optional(Millis), until: Schema.optional(Millis) })
const Scalar = Schema.Union(Schema.String, Schema.Number, Schema.Boolean)

export const Condition = Schema.Union(
  Schema.Struct({ eq: Scalar }),
  Schema.Struct({
    in: Schema.NonEmptyArray(Scalar),
    /** Whether a record that has nothing at the path passes, too. Default false. */
    orAbsent: Schema.optional(Schema.Boolean)
  }),
  Schema.Struct({ gte: Schema.Union(Schema.String, Schema.Number) }),
  Schema.Struct({ lt: Schema.Union(Schema.String, Schema.Number) }),
  Schema.Struct({ exists: Schema.Boolean }),
  /** Both inclusive. */
  Schema.Struct({ between: Schema.Tuple(Schema.JsonNumber, Schema.JsonNumber) }),
  /** There, and another. */
  Schema.Struct({ ne: Scalar })
)

/** 1..1,000. Zero, negative, fractional and NaN are refused. */
export const Limit = Schema.Int.pipe(Schema.between(1, 1000))

const filter = {
  /** Narrows to this scope and what is narrower; never widens what the viewer sees. */
  scope: Schema.optional(MemoryScope),
  kinds: Schema.optional(Schema.Array(MemoryKind.Name)),
  /** Any of them, whatever the case. */
  tags: Schema.optional(Schema.Array(Tag)),
  ids: Schema.optional(Schema.Array(MemoryId)),
  createdAt: Schema.optional(Range),
  validAt: Schema.optional(Range),
  minImportance: Schema.optional(Unit),
  /** Default 3: all. */
  maxTrust: Schema.optional(Trust),
  /** What was true then, closed records included. Default now. */
  asOf: Schema.optional(Millis),
  /** Also what has ceased to be true by then. Default false. */
  closed: Schema.optional(Schema.Boolean),
  /**
   * Dotted paths below `data`, `metadata` or `scope`; all must hold. `{ "data.subject": { eq: "Ada" } }`, or, of what is
   * no session's, `{ "scope.sessionId": { exists: false } }`.
   */
  where: Schema.optional(
    Schema.Record({ key: Schema.String.pipe(Schema.pattern(/^(?:data|metadata|scope)\../)), value: Condition })
  ),
  /** Default 20. */
  limit: Schema.optional(Limit)
}

/** Opaque; good for the same viewer and filter only. */
export const Cursor = Schema.String.pipe(Schema.brand("@memory/Cursor"))

/** By recency: `updatedAt ?? createdAt` newest first, then id. */
export const MemoryFilter = Schema.Struct({
  ...filter,
  /**
   * The trash instead of what is there: forgotten records that the viewer can restore, newest forgotten first. Closed
   * records are among them, unless `asOf` says when they have to be true. Of `list` and `stream` only: a search refuses it
   * with `invalid_draft`. Default false.
   */
  forgotten: Schema.optional(Schema.Boolean),
  after: Schema.optional(Cursor)
})
export interface MemoryFilter extends Schema.Schema.Type<typeof MemoryFilter> {}

/** Each 0..1,000,000, 0 switches off. Those of the score are relative to one another: legs, then factors; 1 and .4, the rest 0. */
const Weight = Schema.Number.pipe(Schema.between(0, 1_000_000))
export const Weights = Schema.partial(Schema.Struct({
  /** Default 1. */
  lexical: Weight,
  /** Default what the embedding says, else .4. */
  vector: Weight,
  recency: Weight,
  importance: Weight,
  confidence: Weight,
  /** What the turns around a turn, and its session, say for it. Default 1; of records without a session nothing. */
  conversation: Weight,
  /** All that ranks a match but its words: conversation, speaker, times, form. Default 1; 0: BM25 alone. */
  ranker: Weight,
  /** What a link lends in `GraphMemory.search`, default 1; a store's own search follows none. */
  graph: Weight,
  emotion: Weight
}))
export interface Weights extends Schema.Schema.Type<typeof Weights> {}

/** Finite numbers, at least one. They are checked in one loop: a parser for each of hundreds costs more than the rest of a small search. */
const Vector = Schema.declare(
  (input: unknown): input is ReadonlyArray<number> => {
    if (!Array.isArray(input)) return false
    for (let n = 0; n < input.length; n++) if (!Number.isFinite(input[n])) return false // an element may be missing
    return input.length > 0
  },
  {
    message: () => "expected finite numbers, at least one",
    arbitrary: () => (fc) => fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 1 })
  }
)

/** Vectors of different models are never compared. */
export const Embedding = Schema.Struct({
  model: Schema.String,
  vector: Vector,
  /** Cosine up to which texts have nothing to do with one another, 0 to below 1. Default 0. Of a search by words and vectors. */
  floor: Schema.optional(Schema.Number.pipe(Schema.greaterThanOrEqualTo(0), Schema.lessThan(1))),
  /** Weight of the vectors, unless the query says. Default .4. */
  weight: Schema.optional(Weight)
})
export interface Embedding extends Schema.Schema.Type<typeof Embedding> {}

export const MemoryQuery = Schema.Struct({
  ...filter,
  /** Absent: by recency. Present without a usable token: no lexical hits. */
  text: Schema.optional(Schema.String),
  embedding: Schema.optional(Embedding),
  /** Default `hybrid` where there is an embedding, else `lexical`. */
  mode: Schema.optional(Schema.Literal("lexical", "vector", "hybrid")),
  /** 0..1 of the normalised score, inclusive. */
  minScore: Schema.optional(Unit),
  weights: Schema.optional(Weights),
  /** What congruence is measured against, where `weights.emotion` > 0. */
  emotion: Schema.optional(VAD),
  /** In tokens of about four characters; cuts after `limit`. */
  budget: Schema.optional(Schema.Int.pipe(Schema.positive())),
  /** Whether a hit that says the same as a better one is left out, and counted in `leftOut.folded`. Default true. */
  fold: Schema.optional(Schema.Boolean),
  /** Default false. */
  explain: Schema.optional(Schema.Boolean),
  /** Whether the result tells how sure it is that one of the hits answers the text. Default false. */
  confidence: Schema.optional(Schema.Boolean)
})
export interface MemoryQuery extends Schema.Schema.Type<typeof MemoryQuery> {}

export const Hit = Schema.Struct({
  record: MemoryRecord,
  /** 0..1, comparable within one result. */
  score: Unit,
  /** Of a body of more than 2,000 characters the part that bears on the text of the query, and where it begins, in UTF-16 units. */
  passage: Schema.optional(Schema.Struct({ text: Schema.String, start: Schema.NonNegativeInt })),
  /** What each leg and factor gave; with `explain`. */
  explanation: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.Number })),
  /** In a federation: where it was found, and where it was found too. */
  store: Schema.optional(Schema.String),
  alsoIn: Schema.optional(Schema.Array(Schema.String))
})
export interface Hit extends Schema.Schema.Type<typeof Hit> {}

/** Returns what is shown of a hit's body: its passage, where it has one. */
export const excerptOf = ({ passage, record }: Pick<Hit, "passage" | "record">): string => passage?.text ?? record.body

/** Returns what a tool shows of a hit: the summary, unless it is derived, and the passage or the body. */
export const shownText = (hit: Pick<Hit, "passage" | "record">): string =>
  embeddingText({ ...hit.record, body: excerptOf(hit) })

/** Best first; ties by newest, then id. What is missing is said. */
export const SearchResult = Schema.Struct({
  hits: Schema.Array(Hit),
  leftOut: Schema.Struct({
    limit: Schema.NonNegativeInt,
    budget: Schema.NonNegativeInt,
    folded: Schema.NonNegativeInt,
    /**
     * `false`: `limit` is at least so many. An index looks at the records of up to 2,048 matches; of more it looks at the most
     * promising, where `ids`, `createdAt`, `validAt`, `minImportance` or `where`, or weights with a `minScore`, ask for the record:
     * the hits and their scores are those of a look at each. A store that cannot look at all there is, as a database, may
     * not have found all of the best either.
     */
    exact: Schema.optional(Schema.Literal(false))
  }),
  /**
   * Probability that a record answers the text, 0..1, where the query asks for it: calibrated on questions of which half have
   * no answer (docs/retrieval.md). By the words, the speaker and the ranker alone: absent without a text and in mode `vector`.
   */
  confidence: Schema.optional(Unit),
  /** How many records the vector leg could not look at, having no vector of its model yet; with that leg. */
  awaiting: Schema.optional(Schema.NonNegativeInt),
  /** Legs or stores that gave no answer. */
  failures: Schema.Array(Schema.Struct({ leg: Schema.String, error: MemoryError }))
})
export interface SearchResult extends Omit<Schema.Schema.Type<typeof SearchResult>, "hits"> {
  readonly hits: ReadonlyArray<Hit>
}

export interface Page<out A> {
  readonly items: ReadonlyArray<A>
  /** Absent on the last page. */
  readonly next?: typeof Cursor.Type | undefined
}
export const Page = <A, I, R>(item: Schema.Schema<A, I, R>) =>
  Schema.Struct({ items: Schema.Array(item), next: Schema.optional(Cursor) })

/** Why a record is not among the hits; `None` of it when it is. */
export const Absence = Schema.Literal(
  "absent",
  "expired",
  "not_valid_then",
  "scope",
  "kind",
  "tags",
  "ids",
  "time",
  "importance",
  "trust",
  "where",
  "no_match",
  "below_min_score",
  "folded",
  "beyond_limit",
  "beyond_budget"
)
export type Absence = typeof Absence.Type

/** The parts of a record that a filter looks at. */
export type Filtered = Pick<
  MemoryRecord,
  | "id"
  | "scope"
  | "kind"
  | "tags"
  | "importance"
  | "data"
  | "metadata"
  | "source"
  | "createdAt"
  | "validAt"
  | "invalidAt"
>

/** Everything a filter says but viewer, expiry, `forgotten`, limit and cursor. */
export const matches = (filter: MemoryFilter, now: number | undefined): (record: Filtered) => boolean => {
  const absence = absenceIn(filter, now)
  return (record) => absence(record) === undefined
}

/**
 * The first clause of the filter that keeps a record out, in the order that `Absence` has. Without `now` it need not be
 * true now, unless the filter says `asOf`: so the library is shown every record there is.
 */
export const absenceIn = (
  filter: Omit<MemoryFilter, "after" | "limit">,
  now: number | undefined
): (record: Filtered) => Absence | undefined => {
  const at = filter.asOf ?? now
  const tags = filter.tags && new Set(filter.tags.map(foldCase))
  const ids = filter.ids && new Set(filter.ids)
  const kinds = filter.kinds && new Set(filter.kinds)
  const conditions = Object.entries(filter.where ?? {}).map(([path, condition]) => {
    const [root, ...keys] = path.split(".") // once for a filter, since splitting costs more than reading
    return (record: Filtered) => holds(condition, valueAt(record, root, keys))
  })
  return (record) => {
    if (at !== undefined && !isValidAt(filter.closed ? { validAt: record.validAt } : record, at)) {
      return "not_valid_then"
    }
    if (filter.scope !== undefined && !matchesScope(record.scope, filter.scope)) return "scope"
    if (kinds && !kinds.has(record.kind)) return "kind"
    if (tags && !record.tags.some((tag) => tags.has(foldCase(tag)))) return "tags"
    if (ids && !ids.has(record.id)) return "ids"
    if (!within(filter.createdAt, record.createdAt) || !within(filter.validAt, record.validAt)) return "time"
    if (filter.minImportance !== undefined && record.importance < filter.minImportance) return "importance"
    if (filter.maxTrust !== undefined && record.source.trust > filter.maxTrust) return "trust"
    if (!conditions.every((isMet) => isMet(record))) return "where"
    return undefined
  }
}

/** Conditions that a record's scope has no id which `scope` lacks: it is no narrower. Values of ids do not count. @internal */
export const notNarrower = (scope: MemoryScope): Readonly<Record<string, typeof Condition.Type>> => {
  const absent = fields.filter((field) => scope === Global || scope[field] === undefined)
  return Object.fromEntries(absent.map((field) => [`scope.${field}`, { exists: false }]))
}

const within = (range: typeof Range.Type | undefined, at: number): boolean =>
  (range?.from === undefined || at >= range.from) && (range?.until === undefined || at < range.until)

const holds = (condition: typeof Condition.Type, value: Json | undefined): boolean => {
  if ("exists" in condition) return (value !== undefined) === condition.exists
  if ("eq" in condition) return value === condition.eq
  if ("ne" in condition) return value !== undefined && value !== condition.ne
  if ("between" in condition) {
    return typeof value === "number" && value >= condition.between[0] && value <= condition.between[1]
  }
  if ("in" in condition) {
    return value === undefined ? condition.orAbsent === true : condition.in.some((option) => option === value)
  }
  if ("gte" in condition) return typeof value === typeof condition.gte && value! >= condition.gte
  return typeof value === typeof condition.lt && value! < condition.lt
}

/** Reads own keys only, since a path is the caller's text. */
const valueAt = (record: Filtered, root: string | undefined, keys: ReadonlyArray<string>): Json | undefined => {
  // a scope is JSON: strings under names, or Global, which has none
  let value: Json | undefined = root === "scope" ? (record.scope as Json) : record[root as "data" | "metadata"] // as the pattern says
  for (const key of keys) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as JsonObject)[key] // an array is read by its index
  }
  return value
}
