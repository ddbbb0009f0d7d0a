/**
 * A vault: opened, to the first answer, with and without its snapshot, against the plain way of it, which reads each file in turn,
 * parses its frontmatter with `yaml` and indexes it (a new process each); and writes that survive a crash, against SQLite in WAL
 * mode that forces each transaction to disk (`synchronous = FULL`) and indexes the same texts with FTS5 (one process, by turns).
 */
import { NodeContext } from "@effect/platform-node"
import Database from "better-sqlite3"
import { Context, Effect, Layer } from "effect"
import { readdirSync, readFileSync, rmSync, utimesSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { parse } from "yaml"
import { Markdown, MemoryRecord, MemoryStore, Viewer } from "../../dist/index.js"
import { MemoryIndex } from "../../dist/ranking.js"
import { built, child, folder, printed, race, summary, watch } from "../measure.mjs"

const system = Viewer.system()
const words = readFileSync(new URL("../../node_modules/effect/src/Effect.ts", import.meta.url), "utf8").match(
  /[a-z]{3,}/gi
)
const bodyOf = (n) => Array.from({ length: 70 }, (_, k) => words[(n * 31 + k * 7) % words.length]).join(" ")
const draft = (n) => ({
  scope: { userId: `user-${n % 50}` },
  kind: "project",
  summary: `Note ${n}: ${words.slice(n % 500, n % 500 + 6).join(" ")}`,
  body: bodyOf(n),
  tags: [`t${n % 30}`]
})
const question = { text: "deploy friday release", limit: 10 }

const layerOf = (root) => Markdown.layer({ root, poll: Infinity }).pipe(Layer.provide(NodeContext.layer))
const files = (folder) =>
  readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".md") && !name.includes(".effect-memory"))

/** What a process of its own does, by the name that it is started with. */
const modes = {
  fill: (root, count) =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      for (let n = 0; n < count; n += 500) {
        yield* store.put(system, Array.from({ length: Math.min(500, count - n) }, (_, i) => draft(n + i)))
      }
    }).pipe(Effect.provide(layerOf(root)), Effect.runPromise),
  open: (root) =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const { hits } = yield* store.search(system, question)
      if (hits.length === 0) throw new Error("no hits")
    }).pipe(Effect.provide(layerOf(root)), Effect.runPromise),
  use: (root) =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      yield* store.put(system, [draft(1_000_000)])
      yield* store.search(system, question)
      yield* store.compact
    }).pipe(Effect.provide(layerOf(root)), Effect.runPromise),
  plain: async (root) => {
    const index = MemoryIndex.make()
    for (const name of files(root)) {
      const text = await readFile(join(root, name), "utf8")
      const end = text.indexOf("\n---\n", 4)
      const { agentId, userId, ...matter } = parse(text.slice(4, end))
      index.add(
        new MemoryRecord.MemoryRecord({
          ...matter,
          scope: { userId },
          body: text.slice(end + 6),
          tags: matter.tags ?? [],
          links: [],
          data: {},
          metadata: {},
          source: { origin: "user", trust: 1 },
          createdAt: Date.parse(matter.createdAt),
          validAt: Date.parse(matter.createdAt)
        }, { disableValidation: true })
      )
    }
    if (index.search(system, question, Date.now()).hits.length === 0) throw new Error("no hits")
  }
}

/** Measures how long a vault of `count` files takes to open. */
export const opening = (count) => {
  const root = folder()
  const run = child(import.meta.filename)
  run("fill", root, count)
  const old = Date.now() / 1000 - 3600 // as if written an hour ago
  for (const name of files(root)) utimesSync(join(root, name), old, old)
  const samples = { "with its snapshot": [], "without a snapshot": [], "read, parsed and indexed in turn": [] }
  for (let turn = 0; turn < 3; turn++) {
    samples["read, parsed and indexed in turn"].push(run("plain", root))
    rmSync(join(root, ".effect-memory/snapshot"), { force: true, recursive: true })
    samples["without a snapshot"].push(run("open", root))
    samples["with its snapshot"].push(run("open", root))
  }
  return { "vault: open": Object.fromEntries(Object.entries(samples).map(([name, all]) => [name, summary(all)])) }
}

/**
 * Measures the longest time for which a vault of `count` files holds the event loop, in milliseconds. An empty vault is opened before:
 * the first one in a process loads the modules of vaults, which is no work of a vault's.
 */
export const stalls = (count) => {
  const root = folder()
  const run = child(import.meta.filename)
  const figures = {}
  const held = (name, { stall, ...rest }) => figures[`stall: vault, ${name}`] = { vault: { median: stall, ...rest } }
  held("filled by batches of 500", run("fill", root, count))
  held("opened with its snapshot", run("open", root))
  held("a put, a search and the end of the scope", run("use", root))
  rmSync(join(root, ".effect-memory/snapshot"), { force: true, recursive: true })
  held("opened without a snapshot", run("open", root))
  return figures
}

const sqlite = (file) => {
  const db = new Database(file)
  db.pragma("journal_mode = WAL")
  db.pragma("synchronous = FULL")
  db.exec(`create table notes (id integer primary key, scope text, kind text, summary text, body text, revision int);
    create virtual table texts using fts5(summary, body, content='notes', content_rowid='id')`)
  const note = db.prepare("insert into notes (scope, kind, summary, body, revision) values (?, ?, ?, ?, 1)")
  const text = db.prepare("insert into texts (rowid, summary, body) values (?, ?, ?)")
  const read = db.prepare("select * from notes where id = ?")
  const drop = db.prepare("insert into texts (texts, rowid, summary, body) values ('delete', ?, ?, ?)")
  const edit = db.prepare("update notes set body = ?, revision = revision + 1 where id = ?")
  const insert = (n) => {
    const { body, kind, scope, summary } = draft(n)
    const { lastInsertRowid } = note.run(scope.userId, kind, summary, body)
    text.run(lastInsertRowid, summary, body)
  }
  return {
    put: db.transaction(insert),
    batch: db.transaction((n) => {
      for (let i = 0; i < 64; i++) insert(n * 64 + i)
    }),
    update: db.transaction((n) => {
      const id = 1 + n % 100
      const old = read.get(id)
      drop.run(id, old.summary, old.body)
      edit.run(bodyOf(n + 7), id)
      text.run(id, old.summary, bodyOf(n + 7))
    })
  }
}

const perRecord = (figures, records) =>
  Object.fromEntries(
    Object.entries(figures).map(([name, figure]) => [
      name,
      Object.fromEntries(Object.entries(figure).map(([key, value]) => [key, value / records]))
    ])
  )

/** Puts of each contestant before any is measured: an agent that runs for long has its code compiled. */
const warmUp = 2_000

/** Measures durable writes: a put, a batch of 64 (per record), many puts at once and an update. */
export const durable = async () => {
  const place = folder()
  const store = Context.get(await built(layerOf(join(place, "vault"))), MemoryStore.MemoryStore)
  const db = sqlite(join(place, "notes.db"))
  const ids = []
  const calls = (call) => (first, count) =>
    Effect.runPromise(
      Effect.forEach(Array.from({ length: count }, (_, n) => first + n), call, { discard: true })
    )
  const theirs = (call) => (first, count) => {
    for (let n = first; n < first + count; n++) call(n)
  }
  /** Writes drafts, each with a number of its own, since a draft that was written before is only a duplicate. */
  const putAll = (drafts) =>
    Effect.map(store.put(system, drafts), (applied) => {
      if (applied.some(({ outcome }) => outcome !== "created")) throw new Error("a draft was not written")
      return applied
    })
  const put = (n) => Effect.map(putAll([draft(n)]), ([{ record }]) => ids.push(record.id))
  const long = { most: 400, stretch: 400 } // long turns, since what a file system takes for a new file varies
  await calls(put)(1_000_000, warmUp)
  theirs(db.put)(1_000_000, warmUp)
  const rows = {
    "vault: put": await race([
      { name: "vault", calls: calls(put) },
      { name: "SQLite, WAL, full", calls: theirs(db.put) }
    ], long),
    "vault: 64 puts at once": perRecord(
      await race([
        {
          name: "vault",
          calls: calls((n) =>
            Effect.all(Array.from({ length: 64 }, (_, i) => put(2_000_000 + n * 64 + i)), { concurrency: "unbounded" })
          )
        },
        { name: "SQLite, WAL, full", calls: theirs(db.batch) }
      ], { most: 10 }),
      64
    ),
    "vault: batch of 64": perRecord(
      await race([
        {
          name: "vault",
          calls: calls((n) => putAll(Array.from({ length: 64 }, (_, i) => draft(3_000_000 + n * 64 + i))))
        },
        { name: "SQLite, WAL, full", calls: theirs(db.batch) }
      ], { most: 10 }),
      64
    ),
    "vault: update": await race([
      { name: "vault", calls: calls((n) => store.update(system, ids[n % 100], { body: bodyOf(n + 7) })) },
      { name: "SQLite, WAL, full", calls: theirs(db.update) }
    ], long)
  }
  return rows
}

const [, self, mode, root, count] = process.argv
if (self === import.meta.filename) {
  await Effect.runPromise(Effect.scoped(Layer.build(layerOf(folder()))))
  await new Promise(setImmediate)
  const end = watch()
  await printed(() => modes[mode](root, Number(count)), end)
}
