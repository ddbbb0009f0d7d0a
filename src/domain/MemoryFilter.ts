/** Filters and queries. `list` takes a filter, which selects records. `search` takes a query, which also ranks the records. */
import * as Schema from "effect/Schema"
import { VAD } from "./Emotion.ts"
import { MemoryError } from "./MemoryError.ts"
import { MemoryId } from "./MemoryId.ts"
import * as MemoryKind from "./MemoryKind.ts"
import { embeddingText, foldCase, isValidAt, MemoryRecord, Millis, Tag, Trust, Unit } from "./MemoryRecord.ts"
import { matchesScope, MemoryScope } from "./MemoryScope.ts"
import type { Json, JsonObject } from "./Payload.ts"

/** Schema of a time range: `from` inclusive, `until` exclusive, in epoch milliseconds. */
const Range = Schema.Struct({ from: Schema.optional(Millis), until: Schema.optional(Millis) })
const Scalar = Schema.Union(Schema.String, Schema.Number, Schema.Boolean)

/** Schema of a condition on the value at a path in a record. `gte` and `lt` hold only if value and bound have the same type. */
export const Condition = Schema.Union(
  Schema.Struct({ eq: Scalar }),
  Schema.Struct({
    in: Schema.NonEmptyArray(Scalar),
    /** Whether the condition also holds for a record without a value at the path. Default false. */
    orAbsent: Schema.optional(Schema.Boolean)
  }),
  Schema.Struct({ gte: Schema.Union(Schema.String, Schema.Number) }),
  Schema.Struct({ lt: Schema.Union(Schema.String, Schema.Number) }),
  Schema.Struct({ exists: Schema.Boolean }),
  /** Holds if the value is a number within the bounds, which are inclusive. */
  Schema.Struct({ between: Schema.Tuple(Schema.JsonNumber, Schema.JsonNumber) }),
  /** Holds if the record has a value at the path, and the value is not equal to `ne`. */
  Schema.Struct({ ne: Scalar })
).annotations({ title: "a condition, such as { eq: 5 }" })

/** Schema of a limit: a whole number, 1..1,000. */
export const Limit = Schema.Int.pipe(Schema.between(1, 1000))

/** Schema of a query for beliefs, for `BeliefMemory`. */
export const BeliefQuery = Schema.Struct({
  /** Subject that a belief must have, compared exactly. Default: any. */
  subject: Schema.optional(Schema.String),
  /** Predicate that a belief must have, compared exactly. Default: any. */
  predicate: Schema.optional(Schema.String),
  /** Domain that a belief must have, compared exactly. Default: any. */
  domain: Schema.optional(Schema.String),
  /** Lowest confidence of a belief, 0..1, inclusive. Default 0. `Payload.confidenceOf` has the number of each level, such as `high`. */
  minConfidence: Schema.optional(Unit),
  /** Whether beliefs that were superseded or are no longer valid are returned too. Default false, but `System` always gets them. */
  includeSuperseded: Schema.optional(Schema.Boolean),
  /** Field to order by. Default `confidence`. Beliefs with equal values are ordered newest first. */
  orderBy: Schema.optional(Schema.Literal("confidence", "createdAt", "updatedAt")),
  /** Direction of the order. Default `desc`, which puts the most confident, or the newest, belief first. */
  order: Schema.optional(Schema.Literal("asc", "desc")),
  /** Largest number of beliefs to return, 1..1,000. Default: all. */
  limit: Schema.optional(Limit)
})
/** A query for beliefs, as its schema decodes it. The beliefs that meet all conditions of the query are returned. */
export interface BeliefQuery extends Schema.Schema.Type<typeof BeliefQuery> {}

const filter = {
  /** Selects the records of this scope and of narrower scopes; `Global` selects only the records of `Global` (see `matchesScope`). */
  scope: Schema.optional(MemoryScope),
  kinds: Schema.optional(Schema.Array(MemoryKind.Name)),
  /** Tags to look for, regardless of case. A record must have at least one of these tags. */
  tags: Schema.optional(Schema.Array(Tag)),
  ids: Schema.optional(Schema.Array(MemoryId)),
  createdAt: Schema.optional(Range),
  validAt: Schema.optional(Range),
  minImportance: Schema.optional(Unit),
  /** Highest trust number of a record. A higher number means less trusted. Default 3, so that every record passes. */
  maxTrust: Schema.optional(Trust),
  /** Time, epoch ms, at which records must be valid: `validAt` ≤ `asOf` < `invalidAt`. Default now, or any time for the viewer `System`. */
  asOf: Schema.optional(Millis),
  /** Whether records that are no longer valid at `asOf` (`invalidAt` ≤ `asOf`) are included. Default false. */
  closed: Schema.optional(Schema.Boolean),
  /**
   * Conditions by path. All must hold. A path is a list of keys joined by dots; the first key is `data`, `metadata` or `scope`.
   * Examples: `{ "data.subject": { eq: "Ada" } }`; `{ "scope.sessionId": { exists: false } }` for records without a session.
   */
  where: Schema.optional(
    Schema.Record({ key: Schema.String.pipe(Schema.pattern(/^(?:data|metadata|scope)\../)), value: Condition })
  ),
  /** Largest number of records to return, 1..1,000. Default 20. */
  limit: Schema.optional(Limit)
}

/** Schema of a cursor: an opaque text that selects the next page of a list, for the same viewer and filter. Only `limit` may differ. */
export const Cursor = Schema.String.pipe(Schema.brand("@memory/Cursor"))

/** Schema of a filter. A record must satisfy all fields of the filter. Results are in the order of `MemoryRecord.byRecency`. */
export const MemoryFilter = Schema.Struct({
  ...filter,
  /**
   * Whether forgotten records are listed instead of live records. Default false. The list has the forgotten records that the viewer can
   * restore, the most recently forgotten first. Without `asOf`, records that are no longer valid are included. Only `list` and `stream`
   * accept this field. A search with this field fails with `invalid_draft`.
   */
  forgotten: Schema.optional(Schema.Boolean),
  after: Schema.optional(Cursor)
})
/** A filter, as its schema decodes it. */
export interface MemoryFilter extends Schema.Schema.Type<typeof MemoryFilter> {}
/** Schema of a filter in which unknown fields are errors, since a misspelled condition would select more records. @internal */
export const ExactFilter: Schema.Schema<MemoryFilter, typeof MemoryFilter.Encoded> = MemoryFilter.annotations({
  parseOptions: { onExcessProperty: "error" }
})

/** Schema of a weight, 0..1,000,000. A part of a score with weight 0 does not count. */
const Weight = Schema.Number.pipe(Schema.between(0, 1_000_000))
/** Schema of the relative weights of the parts of a score. A weight is 0 by default, unless its own comment states another default. */
export const Weights = Schema.partial(Schema.Struct({
  /** Weight of the match by words. Default 1. */
  lexical: Weight,
  /** Weight of the match by vectors. Default: the `weight` of the query's embedding, or .4 if there is none. */
  vector: Weight,
  recency: Weight,
  importance: Weight,
  confidence: Weight,
  /**
   * Weight of the conversation around a message. The scores of the neighbouring messages and of the whole session add to the score of the
   * message. Default 1. Not used for records without a session.
   */
  conversation: Weight,
  /**
   * Weight of all features of the ranker except the matched words. These features are conversation, speaker, times and form of the text.
   * Default 1. With 0, words are scored by BM25 alone.
   */
  ranker: Weight,
  /** Weight of the links that `GraphMemory.search` follows. Default 1. A store's own search follows no links. */
  graph: Weight,
  emotion: Weight
}))
/** Weights, as their schema decodes them. */
export interface Weights extends Schema.Schema.Type<typeof Weights> {}

/**
 * Schema of a vector: one or more finite numbers. A loop checks the numbers. A check of each number by a schema would take longer than a
 * whole search.
 */
const Vector = Schema.declare(
  (input: unknown): input is ReadonlyArray<number> => {
    if (!Array.isArray(input)) return false
    for (let n = 0; n < input.length; n++) if (!Number.isFinite(input[n])) return false // `every` would skip holes in a sparse array
    return input.length > 0
  },
  {
    message: () => "expected finite numbers, at least one",
    arbitrary: () => (fc) => fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 1 })
  }
)

/** Schema of a vector and its model. Vectors of different models are never compared. */
export const Embedding = Schema.Struct({
  model: Schema.String,
  vector: Vector,
  /**
   * A search by vector finds only records whose cosine is above this floor. The floor is at least 0 and less than 1. Default 0. The mode
   * `hybrid` subtracts the floor from each cosine.
   */
  floor: Schema.optional(Schema.Number.pipe(Schema.greaterThanOrEqualTo(0), Schema.lessThan(1))),
  /** Weight of the match by vectors, used if the query has no `weights.vector`. Default .4. */
  weight: Schema.optional(Weight)
})
/** An embedding, as its schema decodes it. */
export interface Embedding extends Schema.Schema.Type<typeof Embedding> {}

/** Schema of a query: a filter, a text or vector to search for, and settings for scores and results. */
export const MemoryQuery = Schema.Struct({
  ...filter,
  /**
   * Text to search for. Without text and embedding, every record has the relevance 1. The records are then ordered by `weights` or, without
   * weights, by recency. A text without terms has no hits by words.
   */
  text: Schema.optional(Schema.String),
  embedding: Schema.optional(Embedding),
  /** Kind of search: by words (`lexical`), by vectors (`vector`) or both (`hybrid`). Default `hybrid` with an embedding, else `lexical`. */
  mode: Schema.optional(Schema.Literal("lexical", "vector", "hybrid")),
  /** Lowest normalised score of a hit, 0..1, inclusive. */
  minScore: Schema.optional(Unit),
  weights: Schema.optional(Weights),
  /** Affect to compare with the affect of each record. Used only if `weights.emotion` is above 0. */
  emotion: Schema.optional(VAD),
  /**
   * Largest number of tokens of all hits together. Four characters count as one token. The budget is applied after `limit`. The first hit
   * that does not fit into the budget is left out, and so are all hits after it.
   */
  budget: Schema.optional(Schema.Int.pipe(Schema.positive())),
  /**
   * Whether to leave out hits that nearly repeat a better hit. `leftOut.folded` is their number. Default true. If the search uses no text
   * and no vector, such hits are kept.
   */
  fold: Schema.optional(Schema.Boolean),
  /** Whether each hit has an `explanation`. Default false. */
  explain: Schema.optional(Schema.Boolean),
  /** Whether to compute the `confidence` of the result. The result has none if no text is searched by words. Default false. */
  confidence: Schema.optional(Schema.Boolean)
})
/** A query, as its schema decodes it. */
export interface MemoryQuery extends Schema.Schema.Type<typeof MemoryQuery> {}

/** Schema of a record that a search found, with its score. */
export const Hit = Schema.Struct({
  record: MemoryRecord,
  /** Normalised score, 0..1. Only the scores of one result can be compared. */
  score: Unit,
  /**
   * The part of a long body that matches the query's text best. Present if the body has more than 2,000 characters and the record contains
   * a word of the query's text. `start` is the index of the passage in the body, in UTF-16 units.
   */
  passage: Schema.optional(Schema.Struct({ text: Schema.String, start: Schema.NonNegativeInt })),
  /** Numbers that explain the score: scores by words and by vector, and what each factor adds. Present if the query has `explain`. */
  explanation: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.Number })),
  /** Name of the member store that returned the hit. Present if the searched store is a federation. */
  store: Schema.optional(Schema.String),
  /** Names of the other member stores of the federation that found the same record, or a record that nearly repeats it. */
  alsoIn: Schema.optional(Schema.Array(Schema.String))
})
/** A hit, as its schema decodes it. */
export interface Hit extends Schema.Schema.Type<typeof Hit> {}

/** Returns the passage of a hit, or the whole body of its record if there is no passage. The summary is not included. */
export const excerptOf = ({ passage, record }: Pick<Hit, "passage" | "record">): string => passage?.text ?? record.body

/** Returns the text that tools show for a hit: the summary, then the passage or body. A summary taken from the body is left out. */
export const shownText = (hit: Pick<Hit, "passage" | "record">): string =>
  embeddingText({ ...hit.record, body: excerptOf(hit) })

/**
 * Schema of the result of a search. The best hit comes first. Hits with equal scores are ordered newest first, and then by id. `leftOut`
 * has the number of left-out hits for each cause.
 */
export const SearchResult = Schema.Struct({
  hits: Schema.Array(Hit),
  leftOut: Schema.Struct({
    limit: Schema.NonNegativeInt,
    budget: Schema.NonNegativeInt,
    folded: Schema.NonNegativeInt,
    /**
     * `false` if `leftOut.limit`, the number of matches beyond the limit, may be wrong. Absent if the number is exact. Case 1: more than
     * 2,048 records match, and the query has `ids`, `createdAt`, `validAt`, `minImportance` or `where`, or both `weights` and `minScore`.
     * The number may then be too low; the hits and scores are right. Case 2: the query has an `embedding`, and 100 or more records (or five
     * times the limit, if higher) match by vector or, with `minScore`, by words. The number may then be too low, and better hits may be
     * missing. A custom engine can have the same effect. Case 3: members of a federation hold copies of the same records. The number is
     * then an estimate.
     */
    exact: Schema.optional(Schema.Literal(false))
  }),
  /**
   * Probability, 0..1, that a record of the store answers the query. The probability is not computed from vectors. Present if the query has
   * `confidence` and its `text` is searched by words. Calibrated on questions, half of them without an answer (docs/retrieval.md).
   */
  confidence: Schema.optional(Unit),
  /** Number of records that have no vector yet. A search by vectors cannot find them. Present only if vectors were searched. */
  awaiting: Schema.optional(Schema.NonNegativeInt),
  /** Failures. The hits come from all other parts. `leg` names the failed part: a retriever, a member store, or `<store>.<retriever>`. */
  failures: Schema.Array(Schema.Struct({ leg: Schema.String, error: MemoryError }))
})
/** The result of a search, as its schema decodes it. */
export interface SearchResult extends Omit<Schema.Schema.Type<typeof SearchResult>, "hits"> {
  readonly hits: ReadonlyArray<Hit>
}

/** A page of a list: the items, and the cursor of the next page. */
export interface Page<out A> {
  readonly items: ReadonlyArray<A>
  /** Cursor of the next page; absent on the last page. */
  readonly next?: typeof Cursor.Type | undefined
}
/** Makes the schema of a page of items. */
export const Page = <A, I, R>(item: Schema.Schema<A, I, R>) =>
  Schema.Struct({ items: Schema.Array(item), next: Schema.optional(Cursor) })

/** Schema of the reasons why a record is not among the hits. If several apply, the earliest in this list is returned. */
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
/** A reason why a record is not among the hits. */
export type Absence = typeof Absence.Type

/** A text for each reason, to show to people after the name of the record. The word "it" in a text stands for the record. */
export const absences: Readonly<Record<Absence, string>> = {
  absent: "there is no such record, or this viewer does not see it",
  expired: "it has expired",
  not_valid_then: "it is not valid at the time asked about",
  scope: "it is in another scope",
  kind: "it is of another kind",
  tags: "it lacks a tag",
  ids: "it is not among the ids",
  time: "it is of another time",
  importance: "it is not important enough",
  trust: "it is not trusted enough",
  where: "its data does not match",
  no_match: "it has none of the words",
  below_min_score: "its score is too low",
  folded: "a better hit says the same",
  beyond_limit: "there are better hits; a higher limit shows it",
  beyond_budget: "there are better hits, which take up the budget"
}

/** The fields of a record that a filter reads. */
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

/**
 * Returns a predicate that is true for records that satisfy the filter. Viewer, expiry, `forgotten`, limit and cursor are not checked.
 * Validity is checked at `asOf` or, without `asOf`, at `now` (epoch ms). If both are undefined, validity is not checked.
 */
export const matches = (filter: MemoryFilter, now: number | undefined): (record: Filtered) => boolean => {
  const absence = absenceIn(filter, now)
  return (record) => absence(record) === undefined
}

/**
 * Returns a function that finds the first reason why the filter excludes a record. The function returns `undefined` for a record that
 * passes. Validity is checked at `asOf` or, without `asOf`, at `now` (epoch ms). If both are undefined, validity is not checked.
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
    const [root, ...keys] = path.split(".") // split once per filter, since a split costs more than a lookup in a record
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

/** Returns the value at a path in a record. Only own properties are read, so an untrusted path cannot reach a prototype. */
const valueAt = (record: Filtered, root: string | undefined, keys: ReadonlyArray<string>): Json | undefined => {
  // the cast to `Json` is safe, since a scope is a string or an object of strings
  let value: Json | undefined = root === "scope" ? (record.scope as Json) : record[root as "data" | "metadata"] // `where` has no other root
  for (const key of keys) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as JsonObject)[key] // `key` is an index or `length` if the value is an array
  }
  return value
}
