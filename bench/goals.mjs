/**
 * The goals of `bench.mjs`. Each is a ratio of one run, or a bound in milliseconds or MB, over the figures of all sections.
 *
 * ```text
 * of       the figure, out of those of all sections; undefined: it was not measured
 * atLeast  the ratio has to be as large; how many times as fast as a peer we are
 * atMost   the figure may be as large
 * isAim    missing it is reported, and is no failure
 * where    where the time goes, by a profile, if the goal is missed
 * ```
 */

import { least, time } from "./measure.mjs"

const figureOf = (section, row, name) => (figures) => figures[section]?.[row]?.[name]
const ratio = (theirs, ours, of = time) => (figures) => {
  const [a, b] = [of(theirs(figures)), of(ours(figures))]
  return a === undefined || b === undefined ? undefined : a / b
}

/** How many times as fast we are as a peer in a row of a section. */
const faster = (section, row, name, peer, goal) => ({
  title: `${row}, ${name}: ${peer} ÷ ours`,
  of: ratio(figureOf(section, row, peer), figureOf(section, row, name), least),
  ...goal
})

/** How much more one row costs than another one of ours. */
const within = (title, section, row, name, other, most, more) => ({
  title,
  of: ratio(figureOf(section, row, name), figureOf(section, ...other)),
  atMost: most,
  ...more
})

const growths = [
  ...["put", "get", "update", "forget and restore", "put and purge", "search", "search by vector", "whyNot", "list"],
  ...["list, who sees all", "list after a put", "list of an empty kind", "stream, first page", "history", "links"],
  ...["touch", "uses", "compact", "pending", "remember, who sees all"],
  ...["service: put", "service: search", "service: index", "service: context"]
]

/** The cost in the largest store over that in the smallest. */
const growth = (row) => ({
  title: `${row}: largest store ÷ smallest`,
  of: (figures) => {
    const all = figures.growth?.[`growth: ${row}`]
    if (all === undefined) return undefined
    const sizes = Object.keys(all).map(Number).sort((a, b) => a - b)
    return time(all[sizes.at(-1)]) / time(all[sizes[0]])
  },
  atMost: 2
})

/** Where the time goes, by the profiles of the operations that miss their goals. */
const profiles = {
  query:
    "two thirds in the loop over postings, some 5 ns each: 48,000 postings and 37,000 matches a question, which are counted exactly",
  sessions: "38 % in that loop, 17 % reading sessions off the matches, 12 % choosing the best 40",
  kinds: "a test of a column for each match",
  where: "the most promising matches are looked at until enough pass",
  weights:
    "the matches that the other factors may lift are listed and given a bound each; more of them where texts repeat",
  build: "terms are found by hash and put into lists per scope, in JavaScript; FTS5 is C and has one list",
  memory: "postings are pairs of 32-bit numbers in blocks whose size is a power of two",
  put: "20 % collecting garbage, 18 % making the file, 20 % in fibers, 7 % forcing it to disk",
  open: "bodies and JSON of the snapshot 160 ms, the index 70, the look at each file 65",
  stalls: "collecting garbage, and steps whose code is not compiled yet"
}

const clauses = ["with kinds", "with tags", "with where", "with weights"]

export const goals = [
  faster("words", "query", "index", "FlexSearch", { atLeast: 8, where: profiles.query }),
  faster("words", "query", "index", "FTS5", { atLeast: 30, where: profiles.query }),
  faster("words", "query", "index", "FlexSearch", { atLeast: 15, isAim: true }),
  faster("words", "query", "index", "FTS5", { atLeast: 50, isAim: true }),
  faster("words", "query", "index", "MiniSearch", { atLeast: 150, isAim: true }),
  {
    title: "query, store: ms beyond 1.5 times the index",
    of: ({ words }) => words && time(words.query.store) - 1.5 * time(words.query.index),
    atMost: 0.2,
    isAim: true
  },
  within("query, index: in sessions ÷ not", "words", "query", "index, sessions", ["query", "index"], 2, {
    where: profiles.sessions
  }),
  within("query, store: in sessions ÷ not", "words", "query", "store, sessions", ["query", "store"], 2),
  ...["words", "million"].flatMap((section) =>
    clauses.map((clause) =>
      within(
        `query ${clause}, ${section === "million" ? "in the largest index" : "index"} ÷ plain query`,
        section,
        "clauses of the index",
        clause,
        ["clauses of the index", "plain query"],
        1.5,
        { where: profiles[clause.slice("with ".length)] }
      )
    )
  ),
  faster("words", "build", "index", "FTS5", { atLeast: 1, isAim: true, where: profiles.build }),
  within("build: store ÷ index", "words", "build", "store", ["build", "index"], 2.5, { isAim: true }),
  { title: "add one, index: ms", of: ({ words }) => time(words?.["add one"].index), atMost: 0.05, isAim: true },
  { title: "add one, store: ms", of: ({ words }) => time(words?.["add one"].store), atMost: 0.25, isAim: true },
  {
    title: "memory of the index: MB",
    of: ({ words }) => words?.heap.index.mb,
    atMost: 60,
    isAim: true,
    where: profiles.memory
  },
  {
    title: "put of 20,000 in one call: ms of CPU",
    of: ({ stalls }) => stalls?.["stall: put of 20,000 in one call"].store.cpu,
    atMost: 2_000
  },
  faster("vectors", "vectors: query", "effect-memory", "sqlite-vec, 8 bits", { atLeast: 8, isAim: true }),
  faster("vectors", "vectors: query", "effect-memory", "sqlite-vec, 32 bits", { atLeast: 12, isAim: true }),
  {
    title: "open a vault with its snapshot: ms of CPU",
    of: ({ opening }) => time(opening?.["vault: open"]["with its snapshot"]),
    atMost: 150,
    isAim: true,
    where: profiles.open
  },
  within("put, vault ÷ SQLite", "durable", "vault: put", "vault", ["vault: put", "SQLite, WAL, full"], 10, {
    where: profiles.put
  }),
  {
    title: "batch of 64, vault: ms a record",
    of: ({ durable }) => time(durable?.["vault: batch of 64"].vault),
    atMost: 1
  },
  {
    title: "64 puts at once, vault: ms a record",
    of: ({ durable }) => time(durable?.["vault: 64 puts at once"].vault),
    atMost: 1
  },
  within("put, vault ÷ SQLite, aim", "durable", "vault: put", "vault", ["vault: put", "SQLite, WAL, full"], 3, {
    isAim: true
  }),
  faster("service", "service: search by vector", "service", "LangGraph, in memory", { atLeast: 20, isAim: true }),
  {
    title: "put, service: ms",
    of: ({ service }) => time(service?.["service: put"].service),
    atMost: 0.15,
    isAim: true
  },
  {
    title: "first links, in the largest store: ms of CPU",
    of: ({ links }) => links?.["first links"].store.cpu,
    atMost: 2_000
  },
  {
    title: "first links, in the largest store: longest stall, ms",
    of: ({ links }) => links?.["first links"].store.stall,
    atMost: 50
  },
  { title: "10,000 tenants of two records: MB", of: ({ tenants }) => tenants?.tenants.memory.mb, atMost: 40 },
  {
    title: "10,000 tenants of two records: compact, ms",
    of: ({ tenants }) => tenants?.tenants.compact.cpu,
    atMost: 100
  },
  ...["list of an empty kind", "list after a put"].map((row) => ({
    title: `${row}, in the largest store: ms`,
    of: ({ growth }) => growth && time(Object.values(growth[`growth: ${row}`]).at(-1)),
    atMost: 2,
    isAim: true
  })),
  ...growths.map(growth),
  ...["stalls", "vault stalls"].map((section) => ({
    title: `longest stall of any operation, ${section === "stalls" ? "in memory" : "vault"}: ms`,
    of: (figures) => figures[section] && Math.max(...Object.values(figures[section]).flatMap(Object.values).map(time)),
    atMost: 50,
    where: profiles.stalls
  }))
]
