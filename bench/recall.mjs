/**
 * `MemoryPipeline.recall`, hybrid, end to end over 10,000 records: in memory and over a vault, each asked by who sees all
 * and by who sees 1/50. The peer is what one writes oneself: MiniSearch and brute-force cosine, their ranks fused; it has
 * the same texts, the same vectors, and the words that the stores' analyzer makes of them. CPU time of the process, by turns; ratios travel better than milliseconds.
 */
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { Context, Effect, Layer } from "effect"
import MiniSearch from "minisearch"
import { Analyzer, Completion, Embedder, Markdown, MemoryPipeline, MemoryStore, Viewer } from "../dist/index.js"
import { Fusion } from "../dist/ranking.js"
import { notes, queries } from "./corpus.mjs"
import { cpu as cpuOfProcess } from "./measure.mjs"

const count = Number(process.argv[2] ?? 10_000)
const places = 50
const limit = 10
const turns = 5
const place = (n) => ({ userId: `user${n % places}` })
const everyone = Viewer.everyone()
const viewers = Array.from({ length: places }, (_, n) => Viewer.make(place(n)))
const all = notes(count)
const questions = queries(200)

const cpu = Effect.sync(cpuOfProcess)
const timed = (effect) =>
  Effect.gen(function*() {
    const start = yield* cpu
    const value = yield* effect
    return { value, ms: (yield* cpu) - start }
  })

const inVault = Layer.unwrapScoped(
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped({ prefix: "effect-memory-bench-" })),
    (root) => Markdown.layer({ root })
  )
)

/** What is asked, by name: each takes a question and its number. */
const ours = (name, store) =>
  Effect.gen(function*() {
    const layer = MemoryPipeline.layer.pipe(
      Layer.provide(Completion.layerNone),
      Layer.provideMerge(Embedder.layerWordVectors),
      Layer.provideMerge(store)
    )
    const context = yield* Layer.build(layer)
    const memory = Context.get(context, MemoryStore.MemoryStore)
    const pipeline = Context.get(context, MemoryPipeline.MemoryPipeline)
    const embedder = Context.get(context, Embedder.Embedder)
    for (let n = 0; n < count; n += 500) {
      const some = all.slice(n, n + 500).map(({ body, id, summary, tags }) => (
        { scope: place(id), kind: "reference", summary, body, tags }
      ))
      yield* memory.put(everyone, some)
    }
    const vectors = yield* timed(pipeline.embedMissing)
    const made = (yield* embedder.embed(questions, "search")).map((vector) => Array.from(vector))
    const search = (viewer, text, n) =>
      memory.search(viewer, { text, mode: "hybrid", embedding: { model: embedder.model, vector: made[n] }, limit })
    return {
      name,
      embedMissing: vectors.ms,
      asks: {
        "recall": (text) => pipeline.recall(everyone, { text, limit }),
        "of it embedding": (text) => embedder.embed([text], "search"),
        "of it search": (text, n) => search(everyone, text, n),
        "lexical": (text) => pipeline.recall(everyone, { text, mode: "lexical", limit }),
        "recall 1/50": (text, n) => pipeline.recall(viewers[n % places], { text, limit })
      }
    }
  })

/** Unit vectors and a loop over them, in one array. */
const byHand = Effect.gen(function*() {
  const { embed } = yield* Embedder.Embedder
  const analyzer = Analyzer.make()
  const index = new MiniSearch({
    fields: ["summary", "body", "tags"],
    storeFields: ["place"],
    tokenize: analyzer.index,
    processTerm: (term) => term,
    searchOptions: { tokenize: analyzer.query }
  })
  index.addAll(all.map((note) => ({ ...note, tags: note.tags.join(" "), place: note.id % places })))
  const vectors = yield* embed(all.map(({ body, summary, tags }) => `${summary}\n${body}\n${tags.join(" ")}`), "add")
  const dimensions = vectors[0].length
  const matrix = new Float32Array(count * dimensions)
  vectors.forEach((vector, n) => matrix.set(vector, n * dimensions))
  const cosines = (query, ids) => {
    const scores = ids.map((id) => {
      let score = 0
      for (let i = 0, at = id * dimensions; i < dimensions; i++) score += query[i] * matrix[at + i]
      return { id, score }
    })
    return scores.sort((a, b) => b.score - a.score).slice(0, 100)
  }
  const ids = all.map(({ id }) => id)
  const scopes = viewers.map((_, place) => ids.filter((id) => id % places === place))
  const ask = (text, ids, filter) =>
    Effect.map(embed([text], "search"), ([query]) =>
      Fusion.reciprocalRank([
        { name: "words", hits: index.search(text, { filter }).slice(0, 100) },
        { name: "vectors", hits: cosines(query, ids) }
      ]).slice(0, limit).map(({ id }) => all[id]))
  return {
    name: "MiniSearch and a loop",
    asks: {
      "recall": (text) => ask(text, ids),
      "recall 1/50": (text, n) => ask(text, scopes[n % places], (hit) => hit.place === n % places)
    }
  }
}).pipe(Effect.provide(Embedder.layerWordVectors))

const program = Effect.gen(function*() {
  const memory = yield* ours("in memory", MemoryStore.layerInMemory)
  const vault = yield* ours("vault", inVault)
  const engines = [memory, vault, yield* byHand]
  const sums = new Map()
  for (let turn = -1; turn < turns; turn++) {
    for (const { asks, name } of engines) {
      for (const [what, ask] of Object.entries(asks)) {
        const { ms } = yield* timed(Effect.forEach(questions, ask, { discard: true }))
        if (turn >= 0) sums.set(`${name} ${what}`, (sums.get(`${name} ${what}`) ?? 0) + ms) // the first is to warm up
      }
    }
  }
  const shown = (ms) => ms === undefined ? "–" : Number((ms / turns / questions.length).toPrecision(3))
  console.log(`Node ${process.version}; ${count} records, 100 dimensions; CPU ms a question, ${limit} hits`)
  console.table(engines.map(({ asks, name }) => ({
    name,
    ...Object.fromEntries(
      Object.keys(memory.asks).map((what) => [what, asks[what] && shown(sums.get(`${name} ${what}`))])
    )
  })))
  for (const { embedMissing, name } of [memory, vault]) {
    console.log(`embedMissing, ${name}: ${Math.round(embedMissing)} ms`)
  }
})

await Effect.runPromise(Effect.scoped(program).pipe(Effect.provide(NodeContext.layer)))
