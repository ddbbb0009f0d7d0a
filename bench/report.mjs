/** The document of a run of `bench.mjs`, and its plot. */
import { least, time } from "./measure.mjs"

const shown = (value) =>
  value === undefined || Number.isNaN(value)
    ? "–"
    : Math.abs(value) >= 1_000
    ? Math.round(value).toLocaleString("en-US")
    : Math.abs(value) >= 100
    ? value.toFixed(0)
    : String(Number(value.toPrecision(2)))

const isMet = ({ atLeast, atMost }, value) => atLeast === undefined ? value <= atMost : value >= atLeast

const table = (head, rows) =>
  [head, head.map((_, n) => n === 0 ? "---" : "---:"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n")

/** The lines of a run that the README repeats, between two marks. */
export const summaryOf = (text) => /<!-- summary -->\n([^]*?)\n?<!-- \/summary -->/.exec(text)?.[1]

/** Words, in times as fast as each peer, the best turn of each. */
const summary = ({ words }) => {
  const peers = ["MiniSearch", "FlexSearch", "FTS5"]
  const times = (row, name) => peers.map((peer) => shown(least(words[row]?.[peer]) / least(words[row]?.[name])))
  return table(["times as fast as", ...peers], [
    ...["index", "index, sessions", "store", "store, sessions"].flatMap((name) =>
      ["query", "query in 1/50", "build", "add one"].map((row) => [`${name}: ${row}`, ...times(row, name)])
    )
  ])
}

const goalsOf = (figures, goals) =>
  table(
    ["goal", "measured", "wanted", ""],
    goals.flatMap((goal) => {
      const value = goal.of(figures)
      if (value === undefined || Number.isNaN(value)) return []
      const wanted = `${goal.atLeast === undefined ? "≤" : "≥"} ${shown(goal.atLeast ?? goal.atMost)}`
      const missed = `${goal.isAim === true ? "aim missed" : "**missed**"}, ${
        shown(Math.max(value / (goal.atLeast ?? goal.atMost), (goal.atLeast ?? goal.atMost) / value))
      } times off`
      return [[
        goal.title,
        shown(value),
        wanted,
        isMet(goal, value) ? "met" : `${missed}${goal.where ? `: ${goal.where}` : ""}`
      ]]
    })
  )

const cell = (figure) => {
  if (figure === undefined) return "–"
  if (figure.mb !== undefined) return `${shown(figure.mb)} MB`
  if (figure.share !== undefined) return shown(figure.share)
  const range = figure.min === undefined ? "" : ` (${shown(figure.min)}–${shown(figure.max)})`
  const stall = figure.stall === undefined ? "" : `, stall ${shown(figure.stall)}`
  const clock = figure.clock === undefined ? "" : `, by the clock ${shown(figure.clock)}`
  return `${shown(time(figure))}${range}, ${shown(figure.wall)}${stall}${clock}`
}

/** The tables of a section: one for each set of contestants. */
const section = (title, rows) => {
  const tables = new Map()
  for (const [row, all] of Object.entries(rows)) {
    const names = Object.keys(all)
    const key = names.join()
    const lines = tables.get(key) ?? { names, lines: [] }
    lines.lines.push([row, ...names.map((name) => cell(all[name]))])
    tables.set(key, lines)
  }
  return [`### ${title}`, ...Array.from(tables.values(), ({ lines, names }) => table(["", ...names], lines))].join(
    "\n\n"
  )
}

/** The document. */
export const report = (figures, goals, { full, machine }) =>
  [
    "# Benchmarks",
    `Written by \`npm run bench${full ? " -- --full" : ""}\` on ${
      new Date().toISOString().slice(0, 10)
    }; ${machine}. Another machine has other figures; the ratios travel better.`,
    ...full && figures.words && figures.vectors && figures.service && figures.durable
      ? ["![times as fast as the peers](benchmarks.svg)"]
      : [],
    "A figure is milliseconds of CPU time a call (user and system, garbage collection and compiler included): the median of several turns, the smallest and the largest of them, then the wall time. Contestants take turns, so that what else the machine does falls on all. How many times as fast one is as another goes by the best turn of each: a collection of garbage, most of it not its own, falls on the one whose turn it is. A stall is the longest time between two iterations of the event loop, by the CPU time of its thread; by the clock it also counts how long that thread waited for a processor that other processes, or the threads that collect garbage, had. `bench/rows` says what each of them does.",
    ...figures.words === undefined ? [] : [
      "## Search by words, beside three engines",
      "All are given the same tokens, those of the stores' analyzer, and are asked for any of the words of a question, ten hits. Below 1 we are slower. FTS5 is C; FlexSearch does not rank by BM25 (the last row of its section below). Notes in sessions are also ranked by speaker, time and what was said around a turn.",
      `<!-- summary -->\n${summary(figures)}\n<!-- /summary -->`
    ],
    "## Goals",
    goalsOf(figures, goals),
    "## All figures",
    ...Object.entries(figures).map(([name, rows]) => section(name, rows))
  ].join("\n\n") + "\n"

/** A plot of how many times as fast as its peers the library is, on a logarithmic scale. */
export const plot = ({ durable, service, vectors, words }) => {
  const bars = [
    ...["MiniSearch", "FTS5", "FlexSearch"].flatMap((peer) => [
      [`query, index: ${peer}`, least(words.query[peer]) / least(words.query.index)],
      [`query, store: ${peer}`, least(words.query[peer]) / least(words.query.store)],
      [`build, index: ${peer}`, least(words.build[peer]) / least(words.build.index)],
      [`add one, index: ${peer}`, least(words["add one"][peer]) / least(words["add one"].index)]
    ]),
    ...["sqlite-vec, 32 bits", "sqlite-vec, 8 bits", "hnswlib"].map((peer) => [
      `query by vector: ${peer}`,
      least(vectors["vectors: query"][peer]) / least(vectors["vectors: query"]["effect-memory"])
    ]),
    ...["service: search by vector", "service: put"].map((row) => [
      `${row}: LangGraph`,
      least(service[row]["LangGraph, in memory"]) / least(service[row].service)
    ]),
    ...["put", "batch of 64", "update"].map((row) => [
      `vault, ${row}: SQLite`,
      least(durable[`vault: ${row}`]["SQLite, WAL, full"]) / least(durable[`vault: ${row}`].vault)
    ])
  ]
  const [left, width, height] = [230, 420, 20]
  const x = (value) => left + width * (Math.log10(Math.min(1_000, Math.max(0.01, value))) + 2) / 5
  const lines = [0.01, 0.1, 1, 10, 100, 1_000].map((value) =>
    `<line x1="${x(value)}" x2="${x(value)}" y1="24" y2="${30 + bars.length * height}" stroke="#888" stroke-width="${
      value === 1 ? 2 : 0.5
    }"/><text x="${x(value)}" y="16" text-anchor="middle">${value}</text>`
  )
  const rows = bars.map(([title, value], n) => {
    const [from, to] = [Math.min(x(1), x(value)), Math.max(x(1), x(value))]
    const y = 30 + n * height
    return `<text x="${left - 8}" y="${y + 13}" text-anchor="end">${title}</text><rect x="${from.toFixed(1)}" y="${
      y + 3
    }" width="${(to - from).toFixed(1)}" height="${height - 6}" fill="${value >= 1 ? "#2a7" : "#c52"}"/><text x="${
      (to + 5).toFixed(1)
    }" y="${y + 13}">${shown(value)}</text>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" width="720" height="${
    40 + bars.length * height
  }" font-family="sans-serif" font-size="11" fill="#777">
<title>Times as fast as the peer; below 1 slower</title>
${[...lines, ...rows].join("\n")}
</svg>
`
}
