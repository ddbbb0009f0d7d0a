import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import type { Embedding, MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import type { MemoryId } from "../../src/domain/MemoryId.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import { byRecency, type MemoryRecord, textHash } from "../../src/domain/MemoryRecord.ts"
import { key } from "../../src/domain/MemoryScope.ts"
import type * as Viewer from "../../src/domain/Viewer.ts"
import * as Fusion from "../../src/ranking/Fusion.ts"
import * as MemoryIndex from "../../src/ranking/MemoryIndex.ts"
import * as Scorer from "../../src/ranking/Scorer.ts"
import { cosineSimilarity, Embeddings } from "../../src/ranking/VectorIndex.ts"
import * as World from "./world.ts"

const { array, constantFrom, integer, oneof, record, tuple } = FastCheck

/** Vectors by model and text hash. */
type Known = Map<string, Float32Array>
const dimensions = { m: 3, n: 2, none: 2 } as const
const model = constantFrom<"m" | "n" | "none">("m", "m", "n", "none")
const numbers = (length: number) => array(constantFrom(-1, 0, 0, 0.5, 1, 3), { minLength: length, maxLength: length })

const query: FastCheck.Arbitrary<MemoryQuery> = model.chain((model) =>
  tuple(
    World.query,
    numbers(dimensions[model]),
    constantFrom("vector" as const, "hybrid" as const, "lexical" as const, undefined),
    constantFrom<Array<MemoryQuery["weights"]>>(
      undefined,
      undefined,
      { vector: 0 },
      { lexical: 0 },
      { lexical: 0, vector: 0 },
      { vector: 2, recency: 1, conversation: 2 }
    ),
    constantFrom(undefined, undefined, 0.1, 0.6),
    constantFrom<Array<Partial<Embedding>>>({}, {}, { floor: 0.3 }, { weight: 2 }, { floor: 0.6, weight: 0 })
  ).map(([query, vector, mode, weights, minScore, calibration]) => ({
    ...query,
    mode,
    weights: weights ?? query.weights,
    minScore,
    embedding: { model, vector, ...calibration }
  }))
)

/** The expected hits: the formulas of hybrid search, computed by scanning all records. */
const found = (
  records: Iterable<MemoryRecord>,
  vectors: Known,
  viewer: Viewer.Any,
  query: MemoryQuery,
  now: number
) => {
  const { embedding, mode, text, weights } = query
  const { conversation = 1, lexical = 1, ranker = 1, vector = embedding?.weight ?? 0.4 } = weights ?? {}
  if (embedding === undefined || mode === "lexical" || (mode !== "vector" && vector === 0)) {
    return { ...World.found(records, viewer, query, now), awaiting: undefined }
  }
  const all = Array.from(records)
  const visible = World.seen(all, viewer, now)
  const passing = visible.filter(World.passes(viewer, query, now))
  const vectorOf = (record: MemoryRecord) => vectors.get(`${embedding.model} ${textHash(record)}`)
  const cosineOf = (record: MemoryRecord) => {
    const own = vectorOf(record)
    return own === undefined ? 0 : cosineSimilarity(Float32Array.from(embedding.vector), own)
  }
  const isMatched = text !== undefined && mode !== "vector" && lexical > 0
  const words = new Map(
    isMatched
      ? World.ranked(visible, query, World.passes(viewer, query, now), now).map(({ id, score }) => [id, score])
      : []
  )
  const best = Math.max(0, ...words.values())
  const { floor = 0 } = embedding
  const isNear = (record: MemoryRecord) => cosineOf(record) > floor
  const closest = Math.max(0, ...passing.filter(isNear).map(cosineOf))
  const isNextTo = ({ scope, source: { sequence, session } }: MemoryRecord) => (other: MemoryRecord) =>
    session !== undefined && other.source.session === session && key(other.scope) === key(scope) &&
    Math.abs(other.source.sequence! - sequence!) === 1
  const lent = (record: MemoryRecord) =>
    0.8 * Math.min(1, conversation * ranker) *
    Math.max(0, ...passing.filter(isNear).filter(isNextTo(record)).map(cosineOf))
  const kinds = MemoryKind.Kinds.defaultValue()
  const weigh = Scorer.score(query, vector + (isMatched ? lexical : 0))
  const matching = passing
    .filter((record) => words.has(record) || isNear(record))
    .map((record) => {
      const relevance = isMatched
        ? Fusion.byScore([
          { weight: lexical, score: words.get(record) ?? 0, best },
          {
            weight: vector,
            score: Math.max(0, Math.max(cosineOf(record), lent(record)) - floor),
            best: closest - floor
          }
        ])
        : cosineOf(record)
      const kind = MemoryKind.find(kinds, record.kind)
      return { id: record, score: weights ? weigh({ record, relevance, kind, now }).score : relevance }
    })
    .filter(({ score }) => score >= (query.minScore ?? 0))
    .sort((a, b) => b.score - a.score || byRecency(a.id, b.id))
  const awaiting = passing.filter((record) => vectorOf(record) === undefined).length
  return { ...World.cut(matching, query, true), awaiting }
}

interface State {
  readonly index: MemoryIndex.MemoryIndex
  readonly embeddings: Embeddings
  readonly records: Map<MemoryId, MemoryRecord>
  readonly vectors: Known
}
interface Act {
  readonly text: string
  readonly run: (state: State) => void
}
const act = (name: string, about: unknown, run: Act["run"]): Act => ({ text: `${name} ${JSON.stringify(about)}`, run })

const add = World.anyRecord(12).map((one) =>
  act("add", one, ({ index, records }) => {
    index.add(one)
    records.set(one.id, one)
  })
)
const remove = integer({ min: 0, max: 12 }).map((n) =>
  act("remove", n, ({ index, records }) => {
    index.remove(World.id(String(n)))
    records.delete(World.id(String(n)))
  })
)
/** Attaches a vector to the text of one of the records, if there are any. */
const attach = constantFrom<Array<"m" | "n">>("m", "m", "n").chain((model) =>
  tuple(integer({ min: 0, max: 11 }), numbers(dimensions[model])).map(([n, vector]) =>
    act("attach", [model, n, vector], ({ index, records, vectors }) => {
      const one = Array.from(records.values())[n % Math.max(1, records.size)]
      if (one === undefined) return
      const key = `${model} ${textHash(one)}`
      index.attach(model, textHash(one), Float32Array.from(vector))
      if (!vectors.has(key)) vectors.set(key, Float32Array.from(vector))
    })
  )
)
/** Erases the vectors of texts that no record has any more, as a store does after a purge. */
const sweep = constantFrom(
  act("sweep", "", ({ embeddings, records, vectors }) => {
    const live = new Set(Array.from(records.values(), textHash))
    embeddings.retain((hash) => live.has(hash))
    for (const key of vectors.keys()) if (!live.has(key.split(" ")[1]!)) vectors.delete(key)
  })
)
const ask = record({ viewer: World.viewer, query, now: World.time })
const search = ask.map(({ now, query, viewer }) =>
  act("search", [viewer, query, now], ({ index, records, vectors }) => {
    const { awaiting, hits, leftOut } = index.search(viewer, query, now)
    const expected = found(records.values(), vectors, viewer, query, now)
    assert.deepStrictEqual(hits.map(({ record, score }) => [record.id, score]), expected.hits.map((hit) => [...hit]))
    assert.deepStrictEqual(leftOut, { limit: expected.limit, budget: expected.budget, folded: expected.folded })
    assert.strictEqual(awaiting, expected.awaiting)
    const { hits: explained } = index.search(viewer, { ...query, explain: true }, now)
    assert.deepStrictEqual(explained.map(({ score }) => score), hits.map(({ score }) => score))
    assert.isTrue(explained.every(({ explanation }) => Object.values(explanation!).every(Number.isFinite)))
  })
)
const whyNot = tuple(integer({ min: 0, max: 12 }), ask).map(([n, { now, query, viewer }]) =>
  act("whyNot", [n, viewer, query, now], ({ index }) => {
    const id = World.id(String(n))
    const { hits } = index.search(viewer, query, now)
    assert.strictEqual(index.whyNot(viewer, id, query, now) === undefined, hits.some(({ record }) => record.id === id))
  })
)

const begun = (): State => {
  const embeddings = new Embeddings()
  return { embeddings, index: MemoryIndex.make({ embeddings }), records: new Map(), vectors: new Map() }
}

describe("vector search and hybrid search", () => {
  it("search results after random changes equal the scoring formulas applied to a plain list of records", () => {
    const any = oneof(
      { weight: 6, arbitrary: add },
      { weight: 1, arbitrary: remove },
      { weight: 5, arbitrary: attach },
      { weight: 1, arbitrary: sweep },
      { weight: 4, arbitrary: search },
      { weight: 1, arbitrary: whyNot }
    )
    FastCheck.assert(
      FastCheck.property(array(any, { minLength: 20, maxLength: 120, size: "max" }), (acts) => {
        const state = begun()
        for (const act of acts) act.run(state)
      }),
      { seed: 7, numRuns: 150 }
    )
  })

  it("search results do not depend on records and vectors that the viewer does not see", () => {
    const attached = array(tuple(constantFrom<Array<"m" | "n">>("m", "n"), integer({ min: 0, max: 30 }), numbers(3)), {
      maxLength: 40,
      size: "max"
    })
    FastCheck.assert(
      FastCheck.property(
        array(World.anyRecord(30), { maxLength: 20, size: "max" }),
        attached,
        ask,
        (some, attached, asked) => {
          const { now, query, viewer } = asked
          const all = Array.from(new Map(some.map((one) => [one.id, one])).values())
          const [full, own] = [begun().index, begun().index]
          for (const one of all) full.add(one)
          const seen = World.seen(all, viewer, now)
          for (const one of seen) own.add(one)
          const texts = new Set(seen.map(textHash))
          for (const [model, n, vector] of attached) {
            const one = all[n % Math.max(1, all.length)]
            if (one === undefined) continue
            const own32 = () => Float32Array.from(vector.slice(0, dimensions[model]))
            full.attach(model, textHash(one), own32())
            if (texts.has(textHash(one))) own.attach(model, textHash(one), own32())
          }
          const explained = { ...query, explain: true }
          assert.deepStrictEqual(full.search(viewer, explained, now), own.search(viewer, explained, now))
        }
      ),
      { seed: 8, numRuns: 400 }
    )
  })
})
