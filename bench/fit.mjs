/** Fits the weights of the ranker: what `src/ranking/internal/Ranker.ts` should hold. `--help` says how. */
import { parseArgs } from "node:util"
import { load, Refusal } from "./dataset.mjs"
import { measure } from "./metrics.mjs"

const help = `npm run fit -- DIR... [options]

Stores the documents of each DIR as the library does, takes the candidates of every question with their clues, and fits
the weights: a listwise loss (softmax over the candidates of a question, the relevant ones as they should be), each weight
held to 0 or above. First by cross-validation: fitted without a conversation of each DIR, recall@10 on those. Then on all.
Nothing is written, and nothing is drawn by chance: the same folders print the same weights.

  --exclude-category N   leaves these queries out
  --decay X              the price of a weight's square, default .5
  --help`

/** Candidates of a question that are asked for: more than are ever shown. */
const depth = 64
const steps = 400

const main = async () => {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { "exclude-category": { type: "string" }, decay: { type: "string" }, help: { type: "boolean" } }
  })
  if (values.help) return console.log(help)
  if (positionals.length === 0) throw new Refusal("expected a folder")
  const decay = Number(values.decay ?? 0.5)
  const sets = []
  for (const folder of positionals) {
    const data = load(folder, { exclude: values["exclude-category"] })
    sets.push(await examplesOf(folder, data))
  }
  const features = sets[0].features
  const folds = Math.max(...sets.map(({ conversations }) => conversations.length))
  const held = sets.map(() => [])
  for (let fold = 0; fold < folds; fold++) {
    const isHeld = ({ conversations }, { conv }) => conversations.indexOf(conv) === fold
    const weights = fit(sets.flatMap((set) => set.examples.filter((one) => !isHeld(set, one))), features.length, decay)
    sets.forEach((set, n) =>
      held[n].push(...set.examples.filter((one) => isHeld(set, one)).map((one) => recall(one, weights)))
    )
  }
  const weights = fit(sets.flatMap(({ examples }) => examples), features.length, decay)
  sets.forEach(({ examples, folder }, n) => {
    const fitted = examples.map((one) => recall(one, weights))
    console.log(
      `${folder}: recall@10 ${average(held[n])} held out by conversation, ${
        average(fitted)
      } fitted, of ${examples.length}`
    )
  })
  features.forEach((feature, i) => console.log(`  ${feature}: ${Math.round(100 * weights[i]) / 100}`))
}

const average = (values) => (values.reduce((sum, value) => sum + value, 0) / values.length).toFixed(4)

/** The questions of a collection, each with the values of its candidates' features, and which of them are relevant. */
const examplesOf = async (folder, data) => {
  const { MemoryIndex } = await import("../dist/ranking.js")
  const Viewer = await import("../dist/domain/Viewer.js")
  const Ranker = await import("../dist/ranking/internal/Ranker.js")
  const { recordsOf } = await import("./evaluation.mjs")
  const { analyzer, conversations, ids } = await recordsOf(data)
  const features = Object.keys(Ranker.weights)
  const examples = conversations.flatMap(({ conv, records, viewer }) => {
    const index = MemoryIndex.make({ analyzer })
    for (const record of records) index.add(record)
    const now = Math.max(...records.map(({ createdAt }) => createdAt))
    const compiled = { filter: {}, at: now, passes: () => true }
    return data.queries.filter((query) => query.conv === conv).map(({ grades, text }) => {
      const ranked = Ranker.questionRanker(text, viewer, now, { ranker: 1, conversation: 1 }, true)
      const { bestWords, candidates } = index.match(Viewer.accessFilterOf(viewer, now), compiled, {
        terms: Array.from(new Set(analyzer.query(text))),
        ranker: { isTimely: true, read: () => ranked },
        minScore: 0,
        depth: 4 * depth,
        includeIds: []
      })
      const isTurn = candidates.some(({ signals }) => signals.isTurn)
      const rows = isTurn ? candidates : []
      return {
        conv,
        grades,
        ids: rows.map(({ fact }) => ids.get(fact.id)),
        values: rows.map(({ signals }) => {
          const values = Ranker.valuesOf(signals, bestWords, ranked.times, Ranker.asksWhen(text))
          return features.map((feature) => values[feature])
        })
      }
    })
  })
  return { folder, features, examples, conversations: conversations.map(({ conv }) => conv) }
}

const rankOf = (values, weights) => values.reduce((sum, value, i) => sum + value * weights[i], 0)

const recall = ({ grades, ids, values }, weights) => {
  const ranked = ids.map((id, i) => [id, rankOf(values[i], weights)]).sort((a, b) => b[1] - a[1])
  return measure(ranked.map(([id]) => id), grades)["recall@10"]
}

/** The weights of least loss, by gradient descent with momentum, each weight cut off at 0. */
const fit = (examples, size, decay) => {
  const usable = examples.flatMap(({ grades, ids, values }) => {
    const isRelevant = ids.map((id) => (grades.get(id) ?? 0) > 0)
    const count = isRelevant.filter(Boolean).length
    return count > 0 && count < ids.length ? [{ values, targets: isRelevant.map((is) => is ? 1 / count : 0) }] : []
  })
  const weights = new Float64Array(size).fill(1)
  const [mean, square] = [new Float64Array(size), new Float64Array(size)]
  for (let step = 1; step <= steps; step++) {
    const gradient = Float64Array.from(weights, (weight) => 2 * decay * weight)
    for (const { targets, values } of usable) {
      const ranks = values.map((one) => rankOf(one, weights))
      const most = ranks.reduce((most, rank) => Math.max(most, rank), -Infinity)
      const shares = ranks.map((rank) => Math.exp(rank - most))
      const sum = shares.reduce((sum, share) => sum + share, 0)
      values.forEach((one, i) => {
        const error = shares[i] / sum - targets[i]
        one.forEach((value, j) => gradient[j] += error * value)
      })
    }
    const rate = 0.1 * Math.min(1, 4 * (1 - step / (steps + 1)))
    for (let j = 0; j < size; j++) {
      mean[j] = 0.9 * mean[j] + 0.1 * gradient[j]
      square[j] = 0.99 * square[j] + 0.01 * gradient[j] ** 2
      const scaled = mean[j] / (1 - 0.9 ** step) / (Math.sqrt(square[j] / (1 - 0.99 ** step)) + 1e-9)
      weights[j] = Math.max(0, weights[j] - rate * scaled)
    }
  }
  return weights
}

main().catch((error) => {
  if (!(error instanceof Refusal)) throw error
  console.error(`${error.message}\n--help says how.`)
  process.exitCode = 2
})
