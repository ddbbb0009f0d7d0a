/**
 * Search by words: `MemoryIndex` and the store around it against MiniSearch, FlexSearch and SQLite FTS5.
 *
 * Every engine is given the same tokens. The stores' analyzer makes them, once for each note and each question; joined by
 * blanks they are what all index and are asked, and each engine's tokenizer splits at the blanks and does nothing else. So
 * no engine stems, drops or scores a word that another does not, and to each question as many notes match in all that
 * rank by BM25, which is checked. What the analyzer costs is printed beside the table.
 *
 * CPU time of the process, engines by turns, so that what else the machine does falls on all. Absolute figures are the
 * machine's; the ratios are the result. Questions are "any of these words" for all.
 *
 *   node --expose-gc lexical.mjs [notes…]      default 10000 100000
 */
import Database from "better-sqlite3"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import FlexSearch from "flexsearch"
import MiniSearch from "minisearch"
import { Analyzer, MemoryId, MemoryIndex, MemoryRecord, MemoryStore, Viewer } from "../dist/index.js"
import { facts, notes, queries } from "./corpus.mjs"
import { cpu } from "./measure.mjs"

const counts = process.argv.length > 2 ? process.argv.slice(2).map(Number) : [10_000, 100_000]
const places = 50
/** Number of turns in a session, for notes in sessions. */
const turnsOfSession = 20
const now = 1_700_000_000_000
const limit = 10
const more = 200
const place = (n) => `user${n % places}`

/** CPU milliseconds. */
const timed = async (run) => {
  const start = cpu()
  await run()
  return cpu() - start
}
const memory = () => {
  globalThis.gc?.()
  const { arrayBuffers, heapUsed } = process.memoryUsage()
  return (heapUsed + arrayBuffers) / 2 ** 20
}

const analyzer = Analyzer.make()
const split = (text) => text === "" ? [] : text.split(" ")
const given = { index: split, query: split }

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

/** Runs the step for each item in order, with its place. */
const each = (items, f) => {
  for (const [n, item] of items.entries()) f(item, n)
}

const ours = (hasSessions) => () => {
  const index = MemoryIndex.make({ analyzer: given })
  const numbers = new Map()
  const hits = (viewer, text) =>
    index.search(viewer, { text, limit }, now).hits.map(({ record }) => numbers.get(record.id))
  return {
    prepare: ({ id, text }) => {
      numbers.set(idOf(id), id)
      return new MemoryRecord.MemoryRecord({
        id: idOf(id),
        scope: { userId: place(id) },
        kind: "note",
        summary: "note",
        summaryDerived: true, // the summary adds no text to the body
        body: text,
        tags: [],
        importance: 0.5,
        links: [],
        data: {},
        metadata: {},
        source: { origin: "user", trust: 1, ...(hasSessions && session(id)) },
        createdAt: now - id,
        validAt: 0,
        revision: 1
      }, { disableValidation: true })
    },
    load: (records) => each(records, (record) => index.add(record)),
    add: (records) => each(records, (record) => index.add(record)),
    remove: (records) => each(records, (record) => index.remove(record.id)),
    search: (text) => hits(everyone, text),
    matches: (text) => {
      // turns beside a match are found as well, unless words alone rank
      const { hits, leftOut } = index.search(everyone, { text, limit, weights: { ranker: 0 } }, now)
      return hits.length + leftOut.limit + leftOut.folded
    },
    ask: (texts) => each(texts, (text) => index.search(everyone, { text, limit }, now)),
    askScoped: (texts) => each(texts, (text, n) => index.search(viewers[n % places], { text, limit }, now))
  }
}

/** The whole store: checks, revisions, spans and the index. Its heap includes the records. */
const store = (hasSessions) => async () => {
  const layer = Layer.provide(Layer.fresh(MemoryStore.layerInMemory), Layer.succeed(Analyzer.Analyzer, given))
  const scope = await Effect.runPromise(Scope.make())
  const memory = Context.get(await Effect.runPromise(Layer.buildWithScope(layer, scope)), MemoryStore.MemoryStore)
  const numbers = new Map()
  const run = Effect.runPromise
  return {
    prepare: ({ id, text }) => {
      numbers.set(idOf(id), id)
      return {
        id: idOf(id),
        scope: { userId: place(id) },
        kind: "reference",
        body: text,
        summary: "note",
        ...(hasSessions && { source: session(id) })
      }
    },
    load: (drafts) =>
      run(
        Effect.forEach(
          Array.from({ length: Math.ceil(drafts.length / 500) }, (_, n) => drafts.slice(n * 500, (n + 1) * 500)),
          (some) => memory.put(everyone, some),
          { discard: true }
        ).pipe(Effect.zipRight(memory.search(everyone, { text: "x", limit })))
      ), // which builds the index
    add: (drafts) => run(Effect.forEach(drafts, (draft) => memory.put(everyone, [draft]), { discard: true })),
    remove: (drafts) => run(Effect.forEach(drafts, ({ id }) => memory.forget(everyone, [id]), { discard: true })),
    search: (text) =>
      run(Effect.map(
        memory.search(everyone, { text, limit }),
        ({ hits }) => hits.map(({ record }) => numbers.get(record.id))
      )),
    ask: (texts) => run(Effect.forEach(texts, (text) => memory.search(everyone, { text, limit }), { discard: true })),
    askScoped: (texts) =>
      run(Effect.forEach(texts, (text, n) => memory.search(viewers[n % places], { text, limit }), { discard: true })),
    close: () => run(Scope.close(scope, Exit.void)) // its hourly maintenance would keep the process alive
  }
}

const miniSearch = () => {
  const index = new MiniSearch({
    fields: ["text"],
    storeFields: ["userId"],
    tokenize: split,
    processTerm: (term) => term
  })
  return {
    prepare: (note) => ({ ...note, userId: place(note.id) }),
    load: (items) => index.addAll(items),
    add: (items) => each(items, (item) => index.add(item)),
    remove: (items) => each(items, (item) => index.remove(item)),
    search: (text) => index.search(text).slice(0, limit).map(({ id }) => id),
    matches: (text) => index.search(text).length,
    ask: (texts) => each(texts, (text) => index.search(text).slice(0, limit)),
    askScoped: (texts) =>
      each(texts, (text, n) => index.search(text, { filter: (hit) => hit.userId === place(n) }).slice(0, limit))
  }
}

/** Ranks by where a word stands, not by BM25; `suggest` makes its "all of these words" into "any". */
const flexSearch = () => {
  const index = new FlexSearch.Index({ tokenize: "strict", encode: split })
  return {
    changes: 10, // to remove one it looks through all words
    prepare: (note) => note,
    load: (items) => each(items, ({ id, text }) => index.add(id, text)),
    add: (items) => each(items, ({ id, text }) => index.add(id, text)),
    remove: (items) => each(items, ({ id }) => index.remove(id)),
    search: (text) => index.search(text, { limit, suggest: true }),
    ask: (texts) => each(texts, (text) => index.search(text, { limit, suggest: true }))
  }
}

/** FTS5 with the `ascii` tokenizer, which keeps ASCII letters, digits and all other code points: here it splits at blanks. */
const fts5 = () => {
  const db = new Database(":memory:")
  db.exec("CREATE VIRTUAL TABLE note USING fts5(text, userId UNINDEXED, tokenize = 'ascii')")
  const insert = db.prepare("INSERT INTO note (rowid, text, userId) VALUES (?, ?, ?)")
  const erase = db.prepare("DELETE FROM note WHERE rowid = ?")
  const search = db.prepare("SELECT rowid FROM note WHERE note MATCH ? ORDER BY bm25(note) LIMIT ?")
  const scoped = db.prepare("SELECT rowid FROM note WHERE note MATCH ? AND userId = ? ORDER BY bm25(note) LIMIT ?")
  const count = db.prepare("SELECT count(*) AS matches FROM note WHERE note MATCH ?")
  const any = (text) => split(text).map((word) => `"${word}"`).join(" OR ")
  return {
    prepare: ({ id, text }) => [id, text, place(id)],
    load: (rows) => db.transaction(() => each(rows, (row) => insert.run(...row)))(),
    add: (rows) => each(rows, (row) => insert.run(...row)),
    remove: (rows) => each(rows, ([id]) => erase.run(id)),
    search: (text) => search.all(any(text), limit).map(({ rowid }) => rowid),
    matches: (text) => count.get(any(text)).matches,
    ask: (texts) => each(texts, (text) => search.all(any(text), limit)),
    askScoped: (texts) => each(texts, (text, n) => scoped.all(any(text), place(n), limit))
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
/** The engines that everything is compared with. */
const peers = ["MiniSearch", "FlexSearch", "FTS5"]

/** Returns the share of the index's ten best that are among the engine's ten best, over questions with at least ten hits. */
const overlap = (best, answers) => {
  const shares = answers.flatMap((answer, n) =>
    best[n].length < limit ? [] : [answer.filter((id) => best[n].includes(id)).length / limit]
  )
  return shares.reduce((sum, share) => sum + share, 0) / shares.length
}

const measure = async (count) => {
  const texts = notes(count + more)
  let all
  let questions
  const tokenising = await timed(() => {
    all = texts.map(tokens)
    questions = queries(500).map(asked).filter((text) => text !== "")
  })
  const rows = []
  for (const [name, make] of Object.entries(engines)) {
    const engine = await make()
    const items = all.map(engine.prepare)
    const before = memory()
    const build = await timed(() => engine.load(items.slice(0, count)))
    rows.push({
      name,
      engine,
      items,
      build,
      held: memory() - before,
      asked: 0,
      scopes: 0,
      query: 0,
      scoped: 0,
      add: 0,
      remove: 0,
      changed: 0
    })
  }
  for (const text of questions.slice(0, 20)) {
    const found = new Set(rows.flatMap(({ engine }) => engine.matches === undefined ? [] : [engine.matches(text)]))
    if (found.size !== 1) throw new Error(`${text}: not the same tokens, ${[...found].join(", ")} notes match`)
  }
  const answers = []
  for (const { engine } of rows) {
    const some = []
    for (const text of questions.slice(0, 100)) some.push(await engine.search(text)) // and warms it up
    answers.push(some)
  }
  // engines take turns, each with as many questions as it answers in about the same time as the others
  for (const row of rows) {
    const ms = await timed(() => row.engine.ask(questions.slice(0, 10)))
    row.share = Math.max(20, Math.min(questions.length, Math.round(5_000 / Math.max(ms, 1))))
  }
  const turns = 5
  for (let turn = 0; turn < turns; turn++) {
    for (const row of rows) {
      const some = Array.from({ length: row.share }, (_, n) => questions[(turn * row.share + n) % questions.length])
      row.query += await timed(() => row.engine.ask(some))
      row.asked += some.length
      if (row.engine.askScoped) {
        row.scoped += await timed(() => row.engine.askScoped(some))
        row.scopes += some.length
      }
      const extra = row.items.slice(count, count + (row.engine.changes ?? more))
      row.add += await timed(() => row.engine.add(extra))
      row.remove += await timed(() => row.engine.remove(extra))
      row.changed += extra.length
    }
  }
  for (const { engine } of rows) await engine.close?.()
  return {
    tokenising,
    rows: rows.map((row, n) => ({
      engine: row.name,
      "build s": row.build / 1_000,
      "query ms": row.query / row.asked,
      "1/50 ms": row.scopes > 0 ? row.scoped / row.scopes : Number.NaN,
      "add ms": row.add / row.changed,
      "remove ms": row.remove / row.changed,
      "heap MB": row.name === "FTS5" ? Number.NaN : row.held,
      "top 10 as index": overlap(answers[0], answers[n])
    }))
  }
}

const shown = (number) =>
  typeof number !== "number" ? number : Number.isNaN(number) ? "–" : Number(number.toPrecision(3))
const table = (rows) =>
  console.table(rows.map((row) => Object.fromEntries(Object.entries(row).map(([key, value]) => [key, shown(value)]))))

console.log(
  `Node ${process.version}; ${facts.sentences} sentences; the same tokens for all; CPU time, ${limit} hits wanted; another machine has other figures, ratios travel better`
)
for (const count of counts) {
  const { rows, tokenising } = await measure(count)
  const of = (name) => rows.find(({ engine }) => engine === name)
  console.log(`\n${count} notes, made into tokens in ${shown(tokenising / 1_000)} s, which is in no row`)
  table(rows)
  console.log("how many times as fast as the peer; below 1 it is slower")
  table(
    rows.filter(({ engine }) => !peers.includes(engine)).flatMap((row) =>
      peers.map((name) => ({
        "of ours": row.engine,
        against: name,
        ...Object.fromEntries(
          ["build s", "query ms", "1/50 ms", "add ms", "remove ms", "heap MB"].map((key) => [
            key.replace(/ \w+$/, ""),
            of(name)[key] / row[key]
          ])
        )
      }))
    )
  )
}
