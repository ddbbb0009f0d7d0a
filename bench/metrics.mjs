/**
 * How good a ranking is, one question at a time. Pure.
 *
 * ```text
 * recall@k   relevant documents among the first k, of all that are relevant
 * ndcg@10    Σ grade / log2(rank + 1) over the first 10, of the most that it could be; gains linear, grades as given
 * mrr        1 / rank of the first relevant document, 0 where none was found
 * ```
 *
 * Relevant is what has a grade above 0. Ranks from 1. A document that is ranked twice counts once.
 */

export const names = ["recall@5", "recall@10", "recall@20", "ndcg@10", "mrr"]

/** Of one ranking, best first, against the grades by document; all 0 where nothing is relevant. */
export const measure = (ranking, grades) => {
  const ranked = Array.from(new Set(ranking))
  const relevant = new Set(Array.from(grades).flatMap(([id, grade]) => grade > 0 ? [id] : []))
  const recall = (k) => share(ranked.slice(0, k).filter((id) => relevant.has(id)).length, relevant.size)
  const gains = ranked.map((id) => Math.max(0, grades.get(id) ?? 0))
  const ideal = Array.from(grades.values()).filter((grade) => grade > 0).sort((a, b) => b - a)
  return {
    "recall@5": recall(5),
    "recall@10": recall(10),
    "recall@20": recall(20),
    "ndcg@10": share(discounted(gains.slice(0, 10)), discounted(ideal.slice(0, 10))),
    mrr: share(1, ranked.findIndex((id) => relevant.has(id)) + 1)
  }
}

/** Of any number of questions; every one counts the same. */
export const mean = (all) =>
  Object.fromEntries(names.map((name) => [name, share(all.reduce((sum, one) => sum + one[name], 0), all.length)]))

const discounted = (gains) => gains.reduce((sum, gain, i) => sum + gain / Math.log2(i + 2), 0)

const share = (part, whole) => whole === 0 ? 0 : part / whole
