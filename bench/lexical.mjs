/**
 * `MemoryIndex` against MiniSearch and SQLite FTS5: build, query, query with 1/50 of the notes in scope, add one, remove
 * one, memory. CPU time of the process, engines by turns, so that what else the machine does falls on all. Absolute
 * figures are the machine's; the ratios are the result. Queries are "any of these words" for all three.
 */
import Database from "better-sqlite3"
import MiniSearch from "minisearch"
import { Analyzer, MemoryId, MemoryIndex, MemoryRecord, Viewer } from "../dist/index.js"
import { facts, notes, queries } from "./corpus.mjs"

const places = 50
const now = 1_700_000_000_000
const limit = 10
const place = (n) => `user${n % places}`

const cpu = () => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1_000
}
/** CPU milliseconds. */
const timed = (run) => {
  const start = cpu()
  run()
  return cpu() - start
}
const memory = () => {
  globalThis.gc?.()
  const { arrayBuffers, heapUsed } = process.memoryUsage()
  return (heapUsed + arrayBuffers) / 2 ** 20
}

const toRecord = (note) =>
  new MemoryRecord.MemoryRecord({
    id: MemoryId.stableId(`note ${note.id}`),
    scope: { userId: place(note.id) },
    kind: "note",
    summary: note.summary,
    body: note.body,
    tags: note.tags,
    importance: 0.5,
    links: [],
    data: {},
    metadata: {},
    source: { origin: "user", trust: 1 },
    createdAt: now - note.id,
    validAt: 0,
    revision: 1
  }, { disableValidation: true })

const ours = (index) => {
  const everyone = Viewer.everyone()
  const viewers = Array.from({ length: places }, (_, n) => Viewer.make({ userId: place(n) }))
  return {
    prepare: toRecord,
    add: (record) => index.add(record),
    remove: (record) => index.remove(record.id),
    search: (text) => index.search(everyone, { text, limit }, now).hits.length,
    scoped: (text, n) => index.search(viewers[n % places], { text, limit }, now).hits.length
  }
}

/** The plain tokenizer, as the others have; and the analyzer that stores rank with. */
const engines = {
  "effect-memory": () => ours(MemoryIndex.make()),
  "effect-memory, stems": () => ours(MemoryIndex.make({ analyzer: Analyzer.make() })),
  MiniSearch: () => {
    const index = new MiniSearch({ fields: ["summary", "body", "tags"], storeFields: ["userId"] })
    return {
      prepare: (note) => ({ ...note, tags: note.tags.join(" "), userId: place(note.id) }),
      add: (note) => index.add(note),
      remove: (note) => index.remove(note),
      search: (text) => index.search(text).slice(0, limit).length,
      scoped: (text, n) => index.search(text, { filter: (hit) => hit.userId === place(n) }).slice(0, limit).length
    }
  },
  FTS5: () => {
    const db = new Database(":memory:")
    db.exec("CREATE VIRTUAL TABLE note USING fts5(summary, body, tags, userId UNINDEXED, tokenize = 'unicode61')")
    const insert = db.prepare("INSERT INTO note (rowid, summary, body, tags, userId) VALUES (?, ?, ?, ?, ?)")
    const remove = db.prepare("DELETE FROM note WHERE rowid = ?")
    const search = db.prepare("SELECT rowid FROM note WHERE note MATCH ? ORDER BY bm25(note) LIMIT ?")
    const scoped = db.prepare("SELECT rowid FROM note WHERE note MATCH ? AND userId = ? ORDER BY bm25(note) LIMIT ?")
    const any = (text) => text.split(" ").map((word) => `"${word}"`).join(" OR ")
    return {
      prepare: (note) => [note.id, note.summary, note.body, note.tags.join(" "), place(note.id)],
      bulk: (load) => db.transaction(load)(),
      add: (row) => insert.run(...row),
      remove: (row) => remove.run(row[0]),
      search: (text) => search.all(any(text), limit).length,
      scoped: (text, n) => scoped.all(any(text), place(n), limit).length
    }
  }
}

const mean = (total, count) => total / count

const measure = (count, asked) => {
  const all = notes(count + 200)
  const questions = queries(500)
  const rows = Object.entries(engines).map(([name, make]) => {
    const before = memory()
    const engine = make()
    const items = all.map(engine.prepare)
    const loaded = memory()
    const load = () => {
      for (let n = 0; n < count; n++) engine.add(items[n])
    }
    const build = timed(() => engine.bulk ? engine.bulk(load) : load())
    return {
      name,
      engine,
      items,
      build,
      held: memory() - loaded,
      before,
      query: 0,
      queries: 0,
      scoped: 0,
      scopes: 0,
      add: 0,
      remove: 0
    }
  })
  for (const row of rows) for (const text of questions.slice(0, 20)) row.engine.search(text)
  // by turns: a slow engine gets its share of questions, a fast one all of them in every turn
  for (let turn = 0; turn < 5; turn++) {
    for (const row of rows) {
      const share = row.name.startsWith("effect-memory") ? questions.length : asked
      const some = Array.from({ length: share }, (_, n) => questions[(turn * asked + n) % questions.length])
      row.query += timed(() => {
        for (const text of some) row.engine.search(text)
      })
      row.queries += share
      const repeat = row.name.startsWith("effect-memory") ? 10 : 1
      row.scoped += timed(() => {
        for (let r = 0; r < repeat; r++) some.forEach((text, n) => row.engine.scoped(text, n))
      })
      row.scopes += share * repeat
      const more = row.items.slice(count)
      row.add += timed(() => {
        for (const item of more) row.engine.add(item)
      })
      row.remove += timed(() => {
        for (const item of more) row.engine.remove(item)
      })
    }
  }
  return rows.map((row) => ({
    engine: row.name,
    "build s": row.build / 1_000,
    "query ms": mean(row.query, row.queries),
    "1/50 ms": mean(row.scoped, row.scopes),
    "add ms": row.add / 1_000,
    "remove ms": row.remove / 1_000,
    "heap MB": row.name === "FTS5" ? Number.NaN : row.held
  }))
}

const shown = (number) =>
  typeof number !== "number" ? number : Number.isNaN(number) ? "–" : Number(number.toPrecision(3))
const table = (rows) =>
  console.table(rows.map((row) => Object.fromEntries(Object.entries(row).map(([key, value]) => [key, shown(value)]))))

console.log(
  `Node ${process.version}; ${facts.sentences} sentences; CPU time, ${limit} hits wanted; another machine has other figures, ratios travel better`
)
for (const count of [10_000, 100_000]) {
  const rows = measure(count, count > 50_000 ? 20 : 100)
  const [ours, ...peers] = rows
  console.log(`\n${count} notes`)
  table(rows)
  table(peers.map((peer) => ({
    engine: `${peer.engine} ÷ effect-memory`,
    ...Object.fromEntries(Object.keys(ours).slice(1).map((key) => [key.replace(/ \w+$/, ""), peer[key] / ours[key]]))
  })))
  console.log(`unscoped ÷ scoped: ${shown(ours["query ms"] / ours["1/50 ms"])}`)
}
