import { assert, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import type { MemoryQuery, SearchResult } from "../../src/domain/MemoryFilter.ts"
import { type MemoryRecord, textHash } from "../../src/domain/MemoryRecord.ts"
import type { MemoryScope } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import * as MemoryIndex from "../../src/ranking/MemoryIndex.ts"
import { times } from "../vault/Program.ts"
import * as World from "./world.ts"

const { array, constantFrom, integer, record, shuffledSubarray } = FastCheck
const day = 86_400_000
const now = 1_700_000_000_000

const word = constantFrom(
  ..."tea green kettle boat harbour race red lantern garden I May yesterday rope sail 8.1.2".split(" ")
)
const sentence = array(word, { minLength: 2, maxLength: 9 }).map((words) => `${words.join(" ")}.`)
const body = FastCheck.oneof(
  { weight: 8, arbitrary: sentence },
  { weight: 1, arbitrary: sentence.map((text) => `${text}?`) },
  { weight: 1, arbitrary: array(sentence, { minLength: 100, maxLength: 120 }).map((all) => all.join(" ")) }
)
const turn = record({
  body,
  session: constantFrom(undefined, "s", "t"),
  sequence: integer({ min: 0, max: 8 }),
  actor: constantFrom(undefined, "Ada", "Ada Byron", "Bob", "May", "anna"),
  days: integer({ min: 0, max: 9 })
})
type Turn = typeof turn extends FastCheck.Arbitrary<infer A> ? A : never
const mine = { userId: "me" }
const theirs = constantFrom<Array<MemoryScope>>({ userId: "you" }, { userId: "me", agentId: "x" }, { userId: "Ada" })

const made = (
  name: string,
  { actor, body, days, sequence, session }: Turn,
  scope: MemoryScope
) =>
  World.record(name, {
    scope,
    body,
    summary: body.slice(0, 40),
    summaryDerived: true,
    createdAt: now - days * day,
    validAt: now - days * day,
    source: { origin: "user", trust: 1, actor, session, ...(session !== undefined && { sequence }) }
  })

const questions = [
  "green tea and kettles",
  "What did Ada say about the harbour?",
  "When did May sail?",
  "my lantern, yesterday",
  "Who raced last week, Anna or Ade?",
  "8.1.2"
]
const variants: ReadonlyArray<Partial<MemoryQuery>> = [
  {},
  { limit: 3 },
  { weights: { recency: 0.5 } },
  { weights: { conversation: 0 } },
  { weights: { ranker: 0 } },
  { minScore: 0.3 }
]

/** Returns the fields of a search result whose values depend on the ranking. */
const told = ({ confidence, hits, leftOut }: SearchResult) => ({
  confidence,
  leftOut,
  hits: hits.map(({ explanation, passage, record, score }) => ({ id: record.id, score, explanation, passage }))
})

it("search results depend only on the visible records, not on how the index was built", () => {
  const analyzer = Analyzer.make()
  const world = record({
    seen: array(turn, { minLength: 3, maxLength: 30 }),
    hidden: array(record({ turn, scope: theirs }), { maxLength: 20 })
  }).chain(({ hidden, seen }) => {
    const visible = seen.map((one, n) => made(`seen ${n}`, one, mine))
    const all = [...visible, ...hidden.map(({ scope, turn }, n) => made(`hidden ${n}`, turn, scope))]
    return shuffledSubarray(all, { minLength: all.length }).map((shuffled) => ({ visible, shuffled }))
  })
  const indexed = (records: Iterable<MemoryRecord>) => {
    const index = MemoryIndex.make({ analyzer })
    for (const one of records) index.add(one)
    return index
  }
  FastCheck.assert(
    FastCheck.property(world, ({ shuffled, visible }) => {
      const plain = indexed(visible)
      const other = indexed(shuffled)
      for (const one of shuffled.slice(0, 5)) {
        other.remove(one.id)
        other.add(one)
      }
      const restored = MemoryIndex.make({ analyzer })
      const byId = new Map(shuffled.map((one) => [one.id, one]))
      assert.isTrue(restored.restore(other.encode(), (id) => byId.get(id)))
      const viewer = Viewer.make(mine)
      for (const text of questions) {
        for (const variant of variants) {
          const query = { text, explain: true, confidence: true, limit: 40, ...variant }
          const result = plain.search(viewer, query, now)
          const expected = told(result)
          assert.deepStrictEqual(told(other.search(viewer, query, now)), expected)
          assert.deepStrictEqual(told(restored.search(viewer, query, now)), expected)
          for (const { explanation, score } of result.hits) {
            assert.isTrue(score >= 0 && score <= 1 && Object.values(explanation!).every(Number.isFinite))
            const shares = Object.entries(explanation!).filter(([key]) => key.startsWith("rank:"))
            if (shares.length === 0) continue
            assert.closeTo(shares.reduce((sum, [, share]) => sum + share, 0), explanation!["relevance"]!, 1e-9)
          }
          for (const { id } of visible.slice(0, 5)) {
            const isShown = result.hits.some(({ record }) => record.id === id)
            assert.strictEqual(plain.whyNot(viewer, id, query, now) === undefined, isShown)
          }
        }
      }
    }),
    { seed: 13, numRuns: times(12, 100) }
  )
})

it("the first hits of a search are the same for the limits 5, 40, 120 and 300, with and without vectors", () => {
  const turns = FastCheck.sample(turn, { seed: 3, numRuns: 300 })
  const index = MemoryIndex.make({ analyzer: Analyzer.make() })
  turns.forEach((one, n) => {
    const record = made(`turn ${n}`, { ...one, body: `Turn ${n}. ${one.body}` }, mine)
    index.add(record)
    index.attach("m", textHash(record), Float32Array.of(Math.cos(n), Math.sin(n)))
  })
  for (const text of questions) {
    for (const embedding of [undefined, { model: "m", vector: [1, 0] }]) {
      const answers = [5, 40, 120, 300].map((limit) =>
        told(index.search(Viewer.make(mine), { text, embedding, explain: true, limit }, now)).hits
      )
      for (const [n, more] of answers.slice(1).entries()) {
        const less = answers[n]!
        assert.deepStrictEqual(more.slice(0, less.length), less, text)
      }
      assert.strictEqual(answers[3]!.length > answers[1]!.length || answers[3]!.length < 40, true)
    }
  }
})
