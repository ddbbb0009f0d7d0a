import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { stableId } from "../../src/domain/MemoryId.ts"
import { collapseSpace as collapse, embeddingText, MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import type { Fact } from "../../src/pipeline/Extraction.ts"
import * as Reconciliation from "../../src/pipeline/Reconciliation.ts"
import { type Decision, indexOf, makeNearest } from "../../src/pipeline/Reconciliation.ts"
import * as Tokenizer from "../../src/ranking/Tokenizer.ts"

/** Returns all decisions of `Reconciliation.attribute`, the added facts last. */
const attribute = (...args: Parameters<typeof Reconciliation.attribute>) => Reconciliation.attribute(...args).flat()

const record = (body: string): MemoryRecord =>
  new MemoryRecord({
    id: stableId(body),
    scope: { userId: "ada" },
    kind: "semantic",
    summary: "s",
    summaryDerived: true,
    body,
    tags: [],
    importance: 0.5,
    links: [],
    data: {},
    metadata: {},
    source: { origin: "pipeline", trust: 1 },
    createdAt: 0,
    validAt: 0,
    revision: 1
  })

const tokenise = Tokenizer.make({ stem: true })
/** Specification of the function that `makeNearest` returns: compares the text with every other text. */
const nearest = <A extends { readonly text: string }>(
  text: string,
  all: ReadonlyArray<A>,
  min = 0
): A | undefined => {
  const words = new Set(tokenise(text))
  let best: A | undefined
  let most = -1
  for (const one of all) {
    const others = new Set(tokenise(one.text))
    const both = Array.from(others).filter((word) => words.has(word)).length
    const jaccard = both === 0 ? 0 : both / (words.size + others.size - both)
    const share = collapse(one.text) === collapse(text) ? 2 : jaccard
    if (share > most && share >= min) {
      best = one
      most = share
    }
  }
  return best
}
/** Specification of `attribute`, made with `nearest`. */
const attributePairwise = (
  decisions: ReadonlyArray<Decision>,
  facts: ReadonlyArray<Fact>,
  existing: ReadonlyArray<MemoryRecord>
): ReadonlyArray<Decision> => {
  const repeated = new Set(facts.map(({ text }) => collapse(text)))
  const kept = decisions.filter(({ event, id }) => {
    const record = event === "DELETE" ? existing[indexOf(id)] : undefined
    return record === undefined || !repeated.has(collapse(embeddingText(record)))
  })
  const silent = new Set(facts)
  const attributed = kept.map((decision): Decision => {
    if (decision.event === "DELETE") return decision
    const record = existing[indexOf(decision.id)]
    const text = decision.text ?? (record && embeddingText(record))
    const min = decision.event === "NOOP" ? 0.5 : facts.length === 1 ? 0 : 0.01
    const fact = text === undefined ? undefined : nearest(text, facts, min)
    if (fact === undefined) return decision
    silent.delete(fact)
    return { ...fact, ...decision }
  })
  const rescued = kept.flatMap(({ event, id }): ReadonlyArray<Decision> => {
    const record = event === "DELETE" ? existing[indexOf(id)] : undefined
    const fact = record && nearest(embeddingText(record), Array.from(silent))
    if (fact === undefined) return []
    silent.delete(fact)
    return [{ ...fact, event: "ADD" }]
  })
  return [...attributed, ...rescued]
}

const word = FastCheck.constantFrom("Ada", "lives", "living", "the", "Porto", "tea", "green", "東京", "é", "x", "42")
const text = FastCheck.array(word, { minLength: 1, maxLength: 6 }).chain((words) =>
  FastCheck.constantFrom(" ", "  ", ", ").map((space) => words.join(space))
)
const fact = FastCheck.record({ text, kind: FastCheck.constantFrom("semantic", "project") }, { requiredKeys: ["text"] })
const decision: FastCheck.Arbitrary<Decision> = FastCheck.record({
  event: FastCheck.constantFrom("ADD" as const, "UPDATE" as const, "DELETE" as const, "NOOP" as const),
  id: FastCheck.constantFrom("0", "1", "2", "3", "9"),
  text
}, { requiredKeys: ["event"] })

describe("`makeNearest`, which finds the most similar fact", () => {
  it("`makeNearest` finds the same fact as a comparison of the text with every fact", () => {
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(fact, { maxLength: 12 }),
        text,
        FastCheck.constantFrom(0, 0.01, 0.5),
        FastCheck.array(FastCheck.nat(11)),
        (all, text, min, closed) => {
          assert.strictEqual(makeNearest(all)(text, min), nearest(text, all, min))
          const open = new Set(all.filter((_, place) => !closed.includes(place)))
          assert.strictEqual(makeNearest(all)(text, min, open), nearest(text, Array.from(open), min))
        }
      ),
      { numRuns: 5_000, seed: 11 }
    )
  })
})

describe("`attribute`, which assigns decisions to facts", () => {
  it("`attribute` returns the same decisions as its specification, which compares texts with every fact", () => {
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(decision, { maxLength: 8 }),
        FastCheck.array(fact, { maxLength: 8 }),
        FastCheck.array(text, { maxLength: 4 }),
        (decisions, facts, bodies) => {
          const existing = bodies.map(record)
          assert.deepStrictEqual(
            attribute(decisions, facts, existing),
            attributePairwise(decisions, facts, existing)
          )
        }
      ),
      { numRuns: 5_000, seed: 12 }
    )
  })

  it("the average number of times that `attribute` reads a fact's text is the same for 20 facts as for 200", () => {
    const reads = (count: number) => {
      let total = 0
      const facts = Array.from({ length: count }, (_, n) => ({
        get text() {
          total++
          return `Ada owns the boat number ${n} of harbour ${n % 7}`
        }
      }))
      const decisions = Array.from({ length: count }, (_, n): Decision => ({
        event: "ADD",
        text: `Ada has the boat number ${n} in harbour ${n % 7}`
      }))
      assert.lengthOf(attribute(decisions, facts, []), count)
      return total / count
    }
    assert.strictEqual(reads(200), reads(20))
  })
})
