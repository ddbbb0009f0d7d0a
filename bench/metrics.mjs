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

/** A source of numbers 0..1 that is the same for the same seed. */
const random = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
}

const samples = 2_000

/**
 * The 95 % interval of a mean, by 2,000 samples of whole groups: questions of one conversation are alike, and so are not drawn
 * one by one. Of fewer than three groups single values are drawn. Seeded: the same values give the same interval.
 */
export const interval = (values, groups) => {
  const byGroup = new Map()
  values.forEach((value, i) => {
    if (!byGroup.has(groups[i])) byGroup.set(groups[i], [])
    byGroup.get(groups[i]).push(value)
  })
  const all = byGroup.size < 3 ? values.map((value) => [value]) : Array.from(byGroup.values())
  const sums = all.map((some) => [some.reduce((sum, value) => sum + value, 0), some.length])
  const next = random(1)
  const means = Array.from({ length: samples }, () => {
    let [sum, count] = [0, 0]
    for (let i = 0; i < sums.length; i++) {
      const [one, size] = sums[Math.floor(next() * sums.length)]
      sum += one
      count += size
    }
    return share(sum, count)
  }).sort((a, b) => a - b)
  return [means[Math.floor(0.025 * samples)], means[Math.ceil(0.975 * samples) - 1]]
}

const discounted = (gains) => gains.reduce((sum, gain, i) => sum + gain / Math.log2(i + 2), 0)

const share = (part, whole) => whole === 0 ? 0 : part / whole
