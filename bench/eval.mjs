/** Retrieval quality: a test collection put into a store, every question asked, the answers measured. `--help` says how. */
import { readFileSync, writeFileSync } from "node:fs"
import { parseArgs } from "node:util"
import { load, Refusal } from "./dataset.mjs"
import { interval, mean, names } from "./metrics.mjs"

const help = `npm run eval -- DIR [options]

Puts every document of DIR into a new store, turns of a conversation as messages with speaker and time, asks every
query, prints recall, nDCG and MRR, the 95 % interval of each by conversation, and how long a query takes.
Without options: as the product does it.

  DIR                     docs.jsonl, queries.jsonl, qrels.tsv (bench/dataset.mjs)
  --store memory|vault    default memory; vault is a folder of markdown, made for this and removed
  --mode lexical|vector|hybrid
                          default hybrid with an embedder, else lexical
  --embedder none|words|FILE
                          default none, and words where the mode needs one; FILE is a module whose default export is
                          the layer of an embedder, as bench/sentence-encoder.mjs
  --analyzer NAME         default the product's, which is stem
                            plain       short stopword list, no stems
                            stem        stems; of a query the wide stopword list is dropped, unless nothing is left
                            wide        wide stopword list, no stems
                            stem-wide   wide stopword list, stems
  --exclude-category N    leaves these queries out
  --unanswerable N        queries of this category have no answer: prints how well the confidence of a result tells them
                          from the others (AUC: how often the answerable one of two has more), and measures the others
  --save FILE             writes the measures of every query, for --compare
  --compare FILE          prints by how much each measure is better than those saved, with the paired 95 % interval
  --json                  the last line is one JSON object
  --help

MRR looks at the first 20. Exit code 2: the command or the data is wrong.`

const choices = {
  store: ["memory", "vault"],
  mode: ["lexical", "vector", "hybrid"],
  analyzer: ["plain", "stem", "wide", "stem-wide"]
}
const string = { type: "string" }
const boolean = { type: "boolean" }

/** The command, or a `Refusal`. */
const read = (args) => {
  const options = { ...Object.fromEntries(Object.keys(choices).map((name) => [name, string])) }
  const { positionals, values } = parse({
    args,
    allowPositionals: true,
    options: {
      ...options,
      embedder: string,
      "exclude-category": string,
      unanswerable: string,
      save: string,
      compare: string,
      json: boolean,
      help: boolean
    }
  })
  if (values.help) return { help: true }
  for (const [name, allowed] of Object.entries(choices)) {
    if (values[name] !== undefined && !allowed.includes(values[name])) {
      throw new Refusal(`--${name} ${values[name]}: expected ${allowed.join(", ")}`)
    }
  }
  if (positionals.length !== 1) throw new Refusal("expected one folder")
  const mode = values.mode ?? ((values.embedder ?? "none") === "none" ? "lexical" : "hybrid")
  const embedder = values.embedder ?? (mode === "lexical" ? "none" : "words")
  if (mode !== "lexical" && embedder === "none") throw new Refusal(`--mode ${mode} needs an embedder`)
  if (!["none", "words"].includes(embedder) && !/\.m?js$/.test(embedder)) {
    throw new Refusal(`--embedder ${embedder}: expected none, words or a module's file`)
  }
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

const row = (name, cells) => [name.padEnd(8), ...cells.map((cell) => cell.padStart(9))].join(" ")
const range = (ends) => ends.map((end) => end.toFixed(3).replace(/^0/, "")).join("–")

const saved = (path) => {
  try {
    return new Map(JSON.parse(readFileSync(path, "utf8")).map((one) => [one.id, one]))
  } catch (error) {
    throw new Refusal(`cannot read ${path}: ${error.message}`)
  }
}

/** By how much each measure is better than before, over the queries of both. */
const comparison = (measured, before) => {
  const both = measured.filter(({ id }) => before.has(id))
  const groups = both.map(({ conv }) => conv)
  const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(4)}`
  return names.map((name) => {
    const gains = both.map((one) => one[name] - before.get(one.id)[name])
    const [from, to] = interval(gains, groups)
    const gain = gains.reduce((sum, one) => sum + one, 0) / (gains.length || 1)
    return `${name.padEnd(10)} ${signed(gain)}  [${signed(from)} ${signed(to)}]  over ${gains.length} queries of both`
  }).join("\n")
}

/** How often one of the first numbers is above one of the others; equal ones count half. */
const auc = (above, below) =>
  above.reduce((sum, a) => below.reduce((sum, b) => sum + (a > b ? 1 : a === b ? 0.5 : 0), sum), 0) /
  (above.length * below.length)

const latency = (measured) => {
  const all = measured.map(({ ms }) => ms).sort((a, b) => a - b)
  const at = (share) => all[Math.min(all.length - 1, Math.floor(share * all.length))].toFixed(2)
  return `a query takes ${at(0.5)} ms (median), ${at(0.95)} ms (95th of 100)`
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
  // the library is loaded only after command and data are validated, so that a refusal is immediate
  const { evaluate } = await import("./evaluation.mjs")
  const { unanswerable } = command
  const before = command.compare === undefined ? undefined : saved(command.compare)
  const { failure, measured: all = [] } = await evaluate(data, command, progress)
  if (failure !== undefined) {
    console.error(failure)
    return void (process.exitCode = 1)
  }
  const measured = all.filter(({ category }) => unanswerable === undefined || category !== unanswerable)
  const result = summary(measured)
  console.log(table(result))
  const groups = measured.map(({ conv }) => conv)
  console.log(row("95 %", names.map((name) => range(interval(measured.map((one) => one[name]), groups)))))
  if (before !== undefined) console.log(comparison(measured, before))
  console.log(latency(measured))
  if (unanswerable !== undefined) {
    const [less, more] = [all.filter(({ category }) => category === unanswerable), measured]
      .map((some) => some.map(({ sure }) => sure))
    result.auc = auc(more, less)
    console.log(
      `confidence tells ${more.length} answerable from ${less.length} other queries: AUC ${result.auc.toFixed(3)}`
    )
  }
  if (command.save !== undefined) writeFileSync(command.save, JSON.stringify(measured))
  if (command.json) console.log(JSON.stringify(result))
}

main().catch((error) => {
  if (!(error instanceof Refusal)) throw error
  console.error(`${error.message}\n--help says how.`)
  process.exitCode = 2
})
