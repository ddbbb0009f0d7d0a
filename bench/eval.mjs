/** Retrieval quality: a test collection put into a store, every question asked, the answers measured. `--help` says how. */
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { Cause, Effect, Exit, Layer, Option } from "effect"
import { parseArgs } from "node:util"
import * as Memory from "../dist/index.js"
import { load, Refusal } from "./dataset.mjs"
import { mean, measure, names } from "./metrics.mjs"

const help = `npm run eval -- DIR [options]

Puts every document of DIR into a new store, asks every query, prints recall, nDCG and MRR.
Without options: as the product does it.

  DIR                     docs.jsonl, queries.jsonl, qrels.tsv (bench/dataset.mjs)
  --store memory|vault    default memory; vault is a folder of markdown, made for this and removed
  --mode lexical|vector|hybrid
                          default hybrid with an embedder, else lexical
  --embedder none|words   default none, and words where the mode needs one
  --analyzer NAME         default the product's, which is stem
                            plain       short stopword list, no stems
                            stem        stems; of a query the wide stopword list is dropped, unless nothing is left
                            wide        wide stopword list, no stems
                            stem-wide   wide stopword list, stems
  --exclude-category N    leaves these queries out
  --json                  the last line is one JSON object
  --help

MRR looks at the first 20. Exit code 2: the command or the data is wrong.`

const analyzers = {
  plain: { stem: false, stopwords: "short", query: "short" },
  stem: { stem: true, stopwords: "short", query: "wide" },
  wide: { stem: false, stopwords: "wide", query: "wide" },
  "stem-wide": { stem: true, stopwords: "wide", query: "wide" }
}
const choices = {
  store: ["memory", "vault"],
  mode: ["lexical", "vector", "hybrid"],
  embedder: ["none", "words"],
  analyzer: Object.keys(analyzers)
}
const string = { type: "string" }
const boolean = { type: "boolean" }

/** The command, or a `Refusal`. */
const read = (args) => {
  const options = { ...Object.fromEntries(Object.keys(choices).map((name) => [name, string])) }
  const { positionals, values } = parse({
    args,
    allowPositionals: true,
    options: { ...options, "exclude-category": string, json: boolean, help: boolean }
  })
  if (values.help) return { help: true }
  for (const [name, allowed] of Object.entries(choices)) {
    if (values[name] !== undefined && !allowed.includes(values[name])) {
      throw new Refusal(`--${name} ${values[name]}: expected ${allowed.join(", ")}`)
    }
  }
  if (positionals.length !== 1) throw new Refusal("expected one folder")
  const mode = values.mode ?? (values.embedder === "words" ? "hybrid" : "lexical")
  const embedder = values.embedder ?? (mode === "lexical" ? "none" : "words")
  if (mode !== "lexical" && embedder === "none") throw new Refusal(`--mode ${mode} needs an embedder`)
  const exclude = values["exclude-category"]
  return { ...values, folder: positionals[0], store: values.store ?? "memory", mode, embedder, exclude }
}

const parse = (config) => {
  try {
    return parseArgs(config)
  } catch (error) {
    throw new Refusal(error.message)
  }
}

/** Store, and the pipeline where vectors are wanted. */
const layerOf = ({ analyzer, embedder, store }) => {
  const base = store === "memory" ? Memory.MemoryStore.layerInMemory : Layer.unwrapScoped(
    Effect.map(
      Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped({ prefix: "effect-memory-eval-" })),
      (root) => Memory.Markdown.layer({ root })
    )
  )
  const layer = analyzer === undefined
    ? base
    : Layer.provide(base, supported(Memory.Analyzer?.layer, "--analyzer")(analyzers[analyzer]))
  if (embedder === "none") return layer
  const words = supported(Memory.Embedder?.layerWordVectors, "--embedder words")
  return supported(Memory.MemoryPipeline?.layer, "--embedder words").pipe(
    Layer.provide([Memory.Completion?.layerNone, words]),
    Layer.provideMerge(layer)
  )
}

const supported = (feature, name) => {
  if (feature === undefined) throw new Refusal(`${name} is not supported by this build`)
  return feature
}

/** One scope per conversation, and one for what is of none. */
const scopes = (documents) => {
  const numbers = new Map(
    Array.from(new Set(documents.map(({ conv }) => conv)), (conv, n) => [conv, { userId: `conv-${n}` }])
  )
  const everyone = Memory.Viewer.everyone()
  return {
    all: Array.from(numbers),
    viewer: (conv) => {
      const scope = numbers.get(conv)
      if (scope !== undefined) return Memory.Viewer.make(scope)
      if (conv === undefined) return everyone
      throw new Refusal(`no document of conversation ${conv}`)
    }
  }
}

const draft = (scope) => ({ sequence, session, text }) => ({
  scope,
  kind: session === undefined ? "reference" : "episodic",
  body: text.slice(0, 65_536).toWellFormed(),
  ...(session !== undefined && { source: { session, sequence } })
})

const batch = 250

/** Document ids by record id. */
const store = Effect.fnUntraced(function*(documents, { all, viewer }, tick) {
  const memory = yield* Memory.MemoryStore.MemoryStore
  const ids = new Map()
  for (const [conv, scope] of all) {
    const mine = documents.filter((doc) => doc.conv === conv && doc.text.trim() !== "")
    for (let at = 0; at < mine.length; at += batch) {
      const some = mine.slice(at, at + batch)
      const put = yield* memory.put(viewer(conv), some.map(draft(scope)))
      put.forEach(({ record }, i) => ids.set(record.id, some[i].id))
      tick("put", ids.size, documents.length)
    }
  }
  return ids
})

const run = Effect.fnUntraced(function*({ documents, queries }, { embedder, mode }, tick) {
  const memory = yield* Memory.MemoryStore.MemoryStore
  const seen = scopes(documents)
  const ids = yield* store(documents, seen, tick)
  const pipeline = embedder === "none"
    ? undefined
    : Option.getOrUndefined(yield* Effect.serviceOption(Memory.MemoryPipeline.MemoryPipeline))
  if (pipeline) yield* pipeline.embedMissing
  const search = pipeline ? pipeline.recall : memory.search

  const measured = []
  let took = 0
  for (const { category, conv, grades, text } of queries) {
    const viewer = seen.viewer(conv)
    const start = performance.now()
    const { failures, hits } = yield* search(viewer, { text, mode, limit: 20 })
    took += performance.now() - start
    if (failures.length > 0) yield* failures[0].error
    measured.push({ category, ...measure(hits.map(({ record }) => ids.get(record.id)), grades) })
    tick("ask", measured.length, queries.length)
  }
  return { measured, perSecond: queries.length / (took / 1_000) }
})

const summary = (measured) => {
  const of = (some) => ({ ...mean(some), queries: some.length })
  const categories = Array.from(new Set(measured.flatMap(({ category }) => category ?? [])))
    .sort((a, b) => a.localeCompare(b, "en", { numeric: true }))
  return {
    ...of(measured),
    categories: Object.fromEntries(
      categories.map((category) => [category, of(measured.filter((one) => one.category === category))])
    )
  }
}

const table = ({ categories, ...all }) => {
  const width = Math.max(8, ...Object.keys(categories).map((category) => category.length))
  const row = (name, cells) => [name.padEnd(width), ...cells.map((cell) => cell.padStart(9))].join(" ")
  const figures = (one) => [...names.map((name) => one[name].toFixed(4)), String(one.queries)]
  return [
    row("category", [...names, "queries"]),
    ...Object.entries(categories).map(([name, one]) => row(name, figures(one))),
    row("all", figures(all))
  ].join("\n")
}

/** A bar where somebody looks at it. */
const progress = (doing, done, of) => {
  if (!process.stderr.isTTY) return
  const full = Math.round(30 * done / of)
  process.stderr.write(
    `\r${doing} [${"#".repeat(full)}${" ".repeat(30 - full)}] ${done}/${of} \x1b[K${done === of ? "\r\x1b[K" : ""}`
  )
}

const main = async () => {
  const command = read(process.argv.slice(2))
  if (command.help) return console.log(help)
  const data = load(command.folder, command)
  const layer = layerOf(command)
  const exit = await Effect.runPromiseExit(
    run(data, command, progress).pipe(Effect.provide(layer), Effect.provide(NodeContext.layer))
  )
  if (Exit.isFailure(exit)) {
    const error = Cause.squash(exit.cause)
    if (error instanceof Refusal) throw error
    console.error(error instanceof Memory.MemoryError.MemoryError ? error.message : Cause.pretty(exit.cause))
    return void (process.exitCode = 1)
  }
  const { measured, perSecond } = exit.value
  const result = summary(measured)
  console.log(table(result))
  console.log(`${Math.round(perSecond)} queries per second`)
  if (command.json) console.log(JSON.stringify(result))
}

main().catch((error) => {
  if (!(error instanceof Refusal)) throw error
  console.error(`${error.message}\n--help says how.`)
  process.exitCode = 2
})
