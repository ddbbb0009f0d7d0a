import { assert, describe, it } from "@effect/vitest"
import { mean, measure, type Metrics } from "../../bench/metrics.mjs"

const near = (actual: Metrics, expected: Partial<Metrics>) => {
  for (const [name, value] of Object.entries(expected)) {
    assert.closeTo(actual[name as keyof Metrics], value, 1e-9, name) // a key of Metrics, since `expected` is Partial<Metrics>
  }
}
const grades = (...all: ReadonlyArray<readonly [string, number]>) => new Map(all)
const others = (count: number) => Array.from({ length: count }, (_, n) => `other ${n}`)

describe("retrieval metrics", () => {
  it("all metrics are 1 if the only relevant document is ranked first", () =>
    near(measure(["a"], grades(["a", 3])), { "recall@5": 1, "recall@10": 1, "recall@20": 1, "ndcg@10": 1, mrr: 1 }))

  it("all metrics are 0, and not NaN, if there are no results or no relevant documents", () => {
    const nothing = { "recall@5": 0, "recall@10": 0, "recall@20": 0, "ndcg@10": 0, mrr: 0 }
    near(measure([], grades(["a", 1])), nothing)
    near(measure(["b"], grades(["a", 1])), nothing)
    near(measure(["a"], grades(["a", 0], ["b", -1])), nothing)
    near(mean([]), nothing)
  })

  it("recall@k is the share of the relevant documents that are among the first k results", () => {
    const ranking = ["a", ...others(4), "b", ...others(10).map((id) => `${id}'`), "c"]
    near(measure(ranking, grades(["a", 1], ["b", 1], ["c", 1], ["lost", 1])), {
      "recall@5": 1 / 4,
      "recall@10": 2 / 4,
      "recall@20": 3 / 4,
      mrr: 1
    })
  })

  it("NDCG is the sum of grade / log2(rank + 1), divided by the same sum for the documents in ideal order", () => {
    near(measure(["b", "x", "a"], grades(["a", 5], ["b", 2], ["c", 1])), {
      "ndcg@10": (2 + 5 / Math.log2(4)) / (5 + 2 / Math.log2(3) + 1 / Math.log2(4)),
      mrr: 1
    })
    near(measure([...others(10), "a"], grades(["a", 1])), { "ndcg@10": 0, mrr: 1 / 11 })
  })

  it("the ideal order of NDCG@10 has only ten documents, even if more are relevant", () => {
    const ids = others(12)
    near(measure(ids, new Map(ids.map((id) => [id, 1]))), { "ndcg@10": 1, "recall@10": 10 / 12 })
  })

  it("a document that occurs twice in a ranking counts once", () =>
    near(measure(["a", "a", "b"], grades(["a", 1], ["b", 1])), { "recall@5": 1, "ndcg@10": 1 }))

  it("the mean of several questions gives every question the same weight", () =>
    near(mean([measure(["a"], grades(["a", 1])), measure(["b", "a"], grades(["a", 1]))]), { "recall@5": 1, mrr: 0.75 }))
})
