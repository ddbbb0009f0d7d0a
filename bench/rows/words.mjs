/**
 * Search by words: `MemoryIndex`, and the store in memory around it, against MiniSearch, FlexSearch and SQLite FTS5.
 *
 * Every engine is given the same tokens. The stores' analyzer makes them, once for each note and each question; joined by blanks they
 * are what all index and are asked, and each engine's tokenizer splits at the blanks and does nothing else. So no engine stems,
 * drops or scores a word that another does not, and to each question as many notes match in all that rank by BM25, which is checked.
 * Questions are "any of these words", ten hits wanted. The notes lie in 50 scopes.
 */
import Database from "better-sqlite3"
import { Context, Effect, Layer } from "effect"
import FlexSearch from "flexsearch"
import MiniSearch from "minisearch"
import { Analyzer, MemoryId, MemoryRecord, MemoryStore, Viewer } from "../../dist/index.js"
import { MemoryIndex } from "../../dist/ranking.js"
import { notes, queries } from "../corpus.mjs"
import { built, heap, race, timed } from "../measure.mjs"

const places = 50
/** Number of turns in a session, for notes in sessions. */
const turnsOfSession = 20
const now = 1_700_000_000_000
const limit = 10
/** Notes beside the collection, which are added to it one by one: more than `race` calls for. */
const more = 1_000
const place = (n) => `user${n % places}`

const split = (text) => text === "" ? [] : text.split(" ")
const given = { index: split, query: split }
const analyzer = Analyzer.make()

/** Makes one text per note, as a copy that keeps no other memory alive. */
const tokens = ({ body, id, summary, tags }) => ({
  id,
  text: Buffer.from([summary, body, ...tags].flatMap((text) => analyzer.index(text)).join(" ")).toString()
})
/** Removes repeated words of a question, since our engine counts them once. */
const asked = (text) => Array.from(new Set(analyzer.query(text))).join(" ")

const idOf = (n) => MemoryId.stableId(`note ${n}`)
const everyone = Viewer.everyone()
const viewers = Array.from({ length: places }, (_, n) => Viewer.make({ userId: place(n) }))
const session = (n) => ({
  session: `${place(n)} ${Math.floor(n / places / turnsOfSession)}`,
  sequence: Math.floor(n / places) % turnsOfSession
})
const kinds = ["reference", "project", "user", "feedback"]
const tag = (n) => `tag${n % 7}`

/** What a query may have beside its words; each is held to the time of the query with words alone. */
const clauses = {
  "with kinds": { kinds: ["reference"] },
  "with tags": { tags: ["tag3"] },
  "with where": { where: { "metadata.colour": { eq: "red" } } },
  "with weights": { weights: { recency: 0.3, importance: 0.3 } }
}

export const recordOf = ({ id, text }, hasSessions) =>
  new MemoryRecord.MemoryRecord({
    id: idOf(id),
    scope: { userId: place(id) },
    kind: kinds[id % kinds.length],
    summary: "note",
    summaryDerived: true, // the summary adds no text to the body
    body: text,
    tags: [tag(id)],
    importance: (id % 10) / 10,
    links: [],
    data: {},
    metadata: { colour: id % 3 === 0 ? "red" : "blue" },
    source: { origin: "user", trust: 1, ...(hasSessions && session(id)) },
    createdAt: now - id,
    validAt: 0,
    revision: 1
  }, { disableValidation: true })

const ours = (hasSessions) => (items) => {
  const index = MemoryIndex.make({ analyzer: given })
  const records = items.map((item) => recordOf(item, hasSessions))
  const numbers = new Map(records.map(({ id }, n) => [id, n]))
  const ask = (viewer, text, more) => index.search(viewer, { text, limit, ...more }, now)
  return {
    load: (count) => records.slice(0, count).forEach((record) => index.add(record)),
    add: (n) => index.add(records[n]),
    remove: (n) => index.remove(records[n].id),
    search: (text) => ask(everyone, text).hits.map(({ record }) => numbers.get(record.id)),
    matches: (text) => {
      // turns beside a match are found as well, unless words alone rank
      const { hits, leftOut } = ask(everyone, text, { weights: { ranker: 0 } })
      return hits.length + leftOut.limit + leftOut.folded
    },
    ask: (text, more) => ask(everyone, text, more),
    askOne: (text, n) => ask(viewers[n % places], text)
  }
}

/** The whole store: checks, revisions, spans and the index. Its calls are Effects, which `running` runs. */
const store = (hasSessions) => async (items) => {
  const layer = Layer.provide(MemoryStore.layerInMemory, Layer.succeed(Analyzer.Analyzer, given))
  const memory = Context.get(await built(layer), MemoryStore.MemoryStore)
  const numbers = new Map(items.map((_, n) => [idOf(n), n]))
  const drafts = items.map(({ id, text }) => ({
    id: idOf(id),
    scope: { userId: place(id) },
    kind: "reference",
    body: text,
    summary: "note",
    ...(hasSessions && { source: session(id) })
  }))
  const put = (all) => memory.put(everyone, all)
  const ask = (viewer, text) => memory.search(viewer, { text, limit })
  return {
    running: Effect.runPromise,
    load: (count) =>
      Effect.forEach(
        Array.from({ length: Math.ceil(count / 500) }, (_, n) => drafts.slice(n * 500, Math.min(count, n * 500 + 500))),
        put,
        { discard: true }
      ).pipe(Effect.zipRight(ask(everyone, "x"))), // which builds the index
    add: (n) => put([drafts[n]]),
    search: (text) => Effect.map(ask(everyone, text), ({ hits }) => hits.map(({ record }) => numbers.get(record.id))),
    ask: (text) => ask(everyone, text),
    askOne: (text, n) => ask(viewers[n % places], text)
  }
}

const miniSearch = (items) => {
  const index = new MiniSearch({
    fields: ["text"],
    storeFields: ["userId"],
    tokenize: split,
    processTerm: (term) => term
  })
  const all = items.map((note) => ({ ...note, userId: place(note.id) }))
  return {
    load: (count) => index.addAll(all.slice(0, count)),
    add: (n) => index.add(all[n]),
    remove: (n) => index.remove(all[n]),
    search: (text) => index.search(text).slice(0, limit).map(({ id }) => id),
    matches: (text) => index.search(text).length,
    ask: (text) => index.search(text).slice(0, limit),
    askOne: (text, n) => index.search(text, { filter: (hit) => hit.userId === place(n) }).slice(0, limit)
  }
}

/** Ranks by where a word stands, not by BM25; `suggest` makes its "all of these words" into "any". */
const flexSearch = (items) => {
  const index = new FlexSearch.Index({ tokenize: "strict", encode: split })
  const add = ({ id, text }) => index.add(id, text)
  return {
    load: (count) => items.slice(0, count).forEach(add),
    add: (n) => add(items[n]),
    search: (text) => index.search(text, { limit, suggest: true }),
    ask: (text) => index.search(text, { limit, suggest: true })
  }
}

/** FTS5 with the `ascii` tokenizer, which keeps ASCII letters, digits and all other code points: here it splits at blanks. */
const fts5 = (items) => {
  const db = new Database(":memory:")
  db.exec("CREATE VIRTUAL TABLE note USING fts5(text, userId UNINDEXED, tokenize = 'ascii')")
  const insert = db.prepare("INSERT INTO note (rowid, text, userId) VALUES (?, ?, ?)")
  const erase = db.prepare("DELETE FROM note WHERE rowid = ?")
  const search = db.prepare("SELECT rowid FROM note WHERE note MATCH ? ORDER BY bm25(note) LIMIT ?")
  const scoped = db.prepare("SELECT rowid FROM note WHERE note MATCH ? AND userId = ? ORDER BY bm25(note) LIMIT ?")
  const count = db.prepare("SELECT count(*) AS matches FROM note WHERE note MATCH ?")
  const any = (text) => split(text).map((word) => `"${word}"`).join(" OR ")
  const add = ({ id, text }) => insert.run(id, text, place(id))
  return {
    load: (count) => db.transaction(() => items.slice(0, count).forEach(add))(),
    add: (n) => add(items[n]),
    remove: (n) => erase.run(n),
    search: (text) => search.all(any(text), limit).map(({ rowid }) => rowid),
    matches: (text) => count.get(any(text)).matches,
    ask: (text) => search.all(any(text), limit),
    askOne: (text, n) => scoped.all(any(text), place(n), limit)
  }
}

const engines = {
  "index": ours(false),
  "index, sessions": ours(true),
  "store": store(false),
  "store, sessions": store(true),
  "MiniSearch": miniSearch,
  "FlexSearch": flexSearch,
  "FTS5": fts5
}

/** Returns the share of the index's ten best that are among the engine's ten best, over questions with at least ten hits. */
const overlap = (best, answers) => {
  const shares = answers.flatMap((answer, n) =>
    best[n].length < limit ? [] : [answer.filter((id) => best[n].includes(id)).length / limit]
  )
  return shares.reduce((sum, share) => sum + share, 0) / shares.length
}

/** Runs calls of an engine one after the other; those of the store as one Effect. */
const callsOf = ({ running }, call) => (first, count) => {
  const numbers = Array.from({ length: count }, (_, n) => first + n)
  if (running !== undefined) return running(Effect.forEach(numbers, call, { discard: true }))
  for (const n of numbers) call(n)
}

/** Measures all engines over `count` notes. */
export const words = async (count) => {
  const items = notes(count + more).map(tokens)
  const questions = queries(500).map(asked).filter((text) => text !== "")
  const question = (n) => questions[n % questions.length]
  const rows = {}
  const made = {}
  const note = (row, name, figure) => (rows[row] ??= {})[name] = figure
  for (const [name, make] of Object.entries(engines)) {
    const engine = made[name] = await make(items)
    const before = heap()
    const { running = (x) => x } = engine
    note("build", name, { ...await timed(() => running(engine.load(count))) })
    if (name !== "FTS5") note("heap", name, { mb: heap() - before })
  }
  for (const text of questions.slice(0, 20)) {
    const found = new Set(Object.values(made).flatMap(({ matches }) => matches === undefined ? [] : [matches(text)]))
    if (found.size !== 1) throw new Error(`${text}: not the same tokens, ${[...found].join(", ")} notes match`)
  }
  const answers = {}
  for (const [name, { running = (x) => x, search }] of Object.entries(made)) {
    answers[name] = []
    for (const text of questions.slice(0, 100)) answers[name].push(await running(search(text)))
    note("top ten as the index", name, { share: overlap(answers.index, answers[name]) })
  }
  const all = Object.entries(made)
  const raced = async (row, call, options) => {
    const contestants = all.flatMap(([name, engine]) => {
      const of = call(engine)
      return of === undefined ? [] : [{ name, calls: callsOf(engine, of) }]
    })
    for (const [name, figure] of Object.entries(await race(contestants, options))) note(row, name, figure)
  }
  // long turns, so that each has many questions: one takes an engine 1 to 100 ms
  const long = { stretch: 1_000 }
  await raced("query", ({ ask }) => (n) => ask(question(n)), long)
  await raced("query in 1/50", ({ askOne }) => askOne && ((n) => askOne(question(n), n)), long)
  const { index } = made
  const variants = [["plain query", {}], ...Object.entries(clauses)]
  rows["clauses of the index"] = await race(
    variants.map(([name, more]) => ({ name, calls: callsOf(index, (n) => index.ask(question(n), more)) })),
    { stretch: 400 }
  )
  await raced("add one", ({ add }) => (n) => add(count + n), { most: 100 })
  return rows
}

/** Measures the clauses of a query over `count` notes whose texts repeat, in the index alone. */
export const filters = async (count) => {
  const some = notes(20_000).map(tokens)
  const index = MemoryIndex.make({ analyzer: given })
  const build = await timed(() => {
    for (let n = 0; n < count; n++) index.add(recordOf({ id: n, text: some[n % some.length].text }, false))
  })
  const questions = queries(200).map(asked).filter((text) => text !== "")
  const variants = [["plain query", {}], ...Object.entries(clauses)]
  const contestants = variants.map(([name, more]) => ({
    name,
    calls: callsOf({}, (n) => index.search(everyone, { text: questions[n % questions.length], limit, ...more }, now))
  }))
  return { "clauses of the index": await race(contestants, { stretch: 400 }), "build": { index: build } }
}
