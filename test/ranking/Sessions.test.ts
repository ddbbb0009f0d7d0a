/** Searches over thousands of turns in hundreds of sessions, compared with the formulas computed one record at a time. */
import { assert, describe, it } from "@effect/vitest"
import type { MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import { byRecency, type MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Bm25 from "../../src/ranking/Bm25.ts"
import * as Ranker from "../../src/ranking/internal/Ranker.ts"
import * as MemoryIndex from "../../src/ranking/MemoryIndex.ts"
import * as Scorer from "../../src/ranking/Scorer.ts"
import { tokenise } from "../../src/ranking/Tokenizer.ts"
import { times } from "../vault/Program.ts"
import { random } from "./random.ts"
import { passes, record, seen } from "./world.ts"

const users = ["ada", "bob", "zoe"]
const now = 1_000
const vocabulary = Array.from({ length: 60 }, (_, n) => `word${n}`)

/** Makes an index of sessions with at most 12 turns each, some of them removed or expired, and of records without a session. */
const worldOf = (size: number, { below, next, of }: ReturnType<typeof random>) => {
  const index = MemoryIndex.make()
  const records = new Map<number, MemoryRecord>()
  const word = () => vocabulary[Math.floor(next() ** 3 * vocabulary.length)]!
  for (let n = 0; n < size; n++) {
    const isTurn = next() < 0.9
    const words = Array.from({ length: 1 + below(12) }, word).join(" ")
    const made = record(`${n}`, {
      scope: { userId: users[n % users.length]! },
      kind: of(["note", "user"]),
      summary: "turn",
      summaryDerived: true,
      body: next() < 0.2 ? `${words}?` : words,
      importance: next(),
      // sessions of different users have the same names
      source: {
        origin: "user",
        trust: 1,
        ...(isTurn && { session: `s${Math.floor(n / 36)}`, sequence: Math.floor(n / 3) % 12 })
      },
      createdAt: below(500),
      ...(next() < 0.02 && { expiresAt: 1 })
    })
    records.set(n, made)
    index.add(made)
    if (next() < 0.03) {
      const gone = below(n + 1)
      const one = records.get(gone)
      if (one !== undefined) index.remove(one.id)
      records.delete(gone)
    }
  }
  const docs = new Map(Array.from(records.values(), (one) => [one, Bm25.buildDoc(one, one)]))
  return { index, docs }
}

const sessionOf = ({ scope, source: { session } }: MemoryRecord) =>
  session === undefined ? undefined : `${JSON.stringify(scope)} ${session}`

/** Returns the expected hits, best first, as `[id, score]`, computed one record at a time. */
const foundIn = (
  docs: ReadonlyMap<MemoryRecord, Bm25.Doc<MemoryRecord>>,
  viewer: Viewer.Any,
  query: MemoryQuery & { readonly text: string }
) => {
  const visible = seen(docs.keys(), viewer, now)
  const isMeant = passes(viewer, query, now)
  const words = Bm25.bm25(query.text, visible.map((one) => docs.get(one)!))
  const scores = new Map(words.map(({ id, score }) => [id, score]))
  const bySession = new Map<string, Array<MemoryRecord>>()
  for (const one of visible) {
    const name = sessionOf(one)
    if (name !== undefined) bySession.set(name, [...bySession.get(name) ?? [], one])
  }
  const turnsAt = (one: MemoryRecord, distances: ReadonlyArray<number>) =>
    (bySession.get(sessionOf(one) ?? "") ?? [])
      .filter(({ source }) => distances.includes(source.sequence! - one.source.sequence!))
  const has = (term: string) => (one: MemoryRecord) => docs.get(one)!.terms.has(term)
  const terms = Array.from(new Set(tokenise(query.text)), (term) => {
    const df = visible.filter(has(term)).length
    const held = new Set(Array.from(bySession).flatMap(([name, turns]) => turns.some(has(term)) ? [name] : []))
    const rarity = held.size > 0 ? Bm25.idf(bySession.size, held.size) : 0
    return { term, weight: df > 0 ? Bm25.idf(visible.length, df) : 0, held, rarity }
  })
  const wholeWeight = terms.reduce((sum, { weight }) => sum + weight, 0)
  const wholeRarity = terms.reduce((sum, { rarity }) => sum + rarity, 0)
  const wordsAt = (one: MemoryRecord, distance: number) =>
    Math.max(0, ...turnsAt(one, [distance]).map((other) => scores.get(other) ?? 0))
  const signalsOf = (one: MemoryRecord): Ranker.Signals => {
    const around = [one, ...turnsAt(one, [-2, -1, 1, 2])]
    const before = turnsAt(one, [-1])[0]
    const isHeld = ({ held }: typeof terms[number]) => held.has(sessionOf(one) ?? "")
    const isNear = ({ term }: typeof terms[number]) => around.some(has(term))
    return {
      words: scores.get(one) ?? 0,
      isTurn: sessionOf(one) !== undefined,
      neighbours: (wordsAt(one, -1) + wordsAt(one, 1)) / 2 + (wordsAt(one, -2) + wordsAt(one, 2)) / 4,
      session: terms.filter(isHeld).reduce((sum, { rarity }) => sum + rarity, 0) / wholeRarity,
      reply: before !== undefined && Ranker.isQuestion(before.body) ? scores.get(before) ?? 0 : 0,
      coverage: terms.filter(isNear).reduce((sum, { weight }) => sum + weight, 0) / wholeWeight,
      isSpeaker: false,
      isQuestion: Ranker.isQuestion(one.body),
      isFirstPerson: false,
      namesTime: false,
      validAt: one.validAt,
      length: docs.get(one)!.length
    }
  }
  const matches = words.filter(({ id }) => isMeant(id)).sort((a, b) => b.score - a.score || byRecency(a.id, b.id))
  const best = matches[0]?.score ?? 0
  const chosen = matches.slice(0, 40).map(({ id }) => id)
  const beside = chosen.slice(0, 10).flatMap((one) => turnsAt(one, [-2, -1, 1, 2])).filter(isMeant)
  const candidates = new Set([...chosen, ...beside])
  const { rank } = Ranker.make(query.text, now, { conversation: 1, ranker: 1 })
  const ranks = new Map(Array.from(candidates, (one) => [one, rank(signalsOf(one), best)]))
  const lowest = Math.min(...ranks.values())
  for (const { id, score } of matches) if (!ranks.has(id)) ranks.set(id, score / best * lowest)
  const most = Math.max(...Array.from(candidates, (one) => ranks.get(one)!))
  const weigh = Scorer.score(query)
  return Array.from(ranks)
    .map(([one, value]) => {
      const relevance = Bm25.relevanceOf(value, most)
      const kind = MemoryKind.find(MemoryKind.Kinds.defaultValue(), one.kind)
      return { one, value, score: weigh({ record: one, relevance, kind, now }).score }
    })
    .filter(({ score }) => score >= (query.minScore ?? 0))
    .sort((a, b) => b.value - a.value || byRecency(a.one, b.one))
    .map(({ one, score }) => [one.id, score] as const)
}

const queries = times(60, 600)

describe("search among thousands of turns in hundreds of sessions", () => {
  it("search gives the same hits and scores as a computation record by record, and the same count unless reported as inexact", () => {
    const any = random(15)
    const { below, maybe, of } = any
    const { docs, index } = worldOf(4_000, any)
    let [most, rest] = [0, 0]
    for (let n = 0; n < queries; n++) {
      const query = {
        // for a query of one word many turns have equal scores
        text: n % 10 === 0
          ? "word0"
          : Array.from({ length: 1 + below(5) }, () => vocabulary[below(n % 2 === 0 ? 8 : 60)]!).join(" "),
        limit: of([1, 10, 70, 700]),
        fold: false,
        kinds: maybe(0.2, () => ["note"]),
        minImportance: maybe(0.2, () => 0.5),
        minScore: maybe(0.4, () => of([0.05, 0.2, 0.5]))
      }
      const viewer = of([Viewer.everyone(), Viewer.make({ userId: "ada" })])
      const expected = foundIn(docs, viewer, query)
      const { hits, leftOut } = index.search(viewer, query, now)
      const about = `${n}: ${JSON.stringify([viewer, query])}`
      const found = hits.map(({ record, score }) => [record.id, score] as const)
      assert.deepStrictEqual(found, expected.slice(0, query.limit), about)
      const isCounted = leftOut.exact === undefined
      if (!isCounted) assert.isAtMost(leftOut.limit, expected.length - hits.length, about)
      else assert.strictEqual(leftOut.limit, expected.length - hits.length, about)
      most = Math.max(most, expected.length)
      if (query.minScore !== undefined && leftOut.limit > 0 && isCounted) rest++
    }
    assert.isAbove(most, 2_000)
    assert.isAbove(rest, 3)
  })
})

describe("search among turns with `minScore`", () => {
  const any = random(16)
  const { index } = worldOf(4_000, any)
  const ask = (query: MemoryQuery) =>
    index.search(Viewer.everyone(), { text: "word0 word1", fold: false, minScore: 0.05, ...query }, now)
  const countOf = (query: MemoryQuery) => {
    const { hits, leftOut } = ask(query)
    return hits.length + leftOut.limit
  }

  it("every match with a score of at least `minScore` is counted, whatever the limit", () => {
    for (const weights of [undefined, { recency: 0.3 }]) {
      const all = ask({ limit: 5_000, weights }).hits.length
      assert.isAbove(all, 1_000)
      for (const limit of [1, 10, 200]) assert.strictEqual(countOf({ limit, weights }), all)
    }
  })
})

it("weights apply to every match, even if a conversation turn is visible", () => {
  const index = MemoryIndex.make()
  for (let n = 0; n < 60; n++) index.add(record(`${n}`, { body: `tea tea tea item${n}`, importance: 0 }))
  index.add(record("key", { body: `KEY FACT tea ${"long other words ".repeat(20)}`, importance: 1 }))
  const query = { text: "tea", fold: false, weights: { importance: 10 } }
  for (const isTurn of [false, true]) {
    const source = { origin: "user", trust: 1, session: "s", sequence: 0 } as const
    if (isTurn) index.add(record("turn", { body: "hello tea", importance: 0, source }))
    for (const limit of [1, 5, 40, 100]) {
      const { hits: [first] } = index.search(Viewer.system(), { ...query, limit }, now)
      assert.match(first?.record.body ?? "", /^KEY FACT/, `limit ${limit}`)
    }
  }
})

it("a search finds all 60 records with the query's word, or as many as the limit, each with a score above 0", () => {
  const index = MemoryIndex.make()
  for (let n = 0; n < 60; n++) {
    const turn = (sequence: number, body: string) =>
      record(`${n} ${sequence}`, {
        ...{ scope: { userId: "ada" }, kind: "note", summary: "turn", summaryDerived: true, body, importance: 0 },
        source: { origin: "user", trust: 1, session: `s${n}`, sequence }
      })
    index.add(turn(0, `harbour ${"boat ".repeat(n)}`))
    index.add(turn(1, "Is it?"))
  }
  const viewer = Viewer.make({ userId: "ada" })
  for (const limit of [10, 45, 60, 100]) {
    const query = { text: "harbour", weights: { conversation: 0 }, fold: false, limit }
    const { hits } = index.search(viewer, query, now)
    const matches = hits.filter(({ record, score }) => record.body.startsWith("harbour") && score > 0)
    assert.lengthOf(matches, Math.min(limit, 60), `limit ${limit}`)
  }
})
