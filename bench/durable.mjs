/**
 * Writes that survive a crash: a put, a batch of 64 and an update on a vault, against SQLite in WAL mode that forces each
 * transaction to disk (`synchronous = FULL`) and indexes the same texts with FTS5. By turns, in one process, after as many
 * writes as it takes for the code to be compiled. CPU time is user and system; the vault's fsync and that of SQLite are in the
 * wall time. `at once`: 64 writers of one record each, who come at the same time.
 *
 *   node durable.mjs
 */
import { NodeContext } from "@effect/platform-node"
import Database from "better-sqlite3"
import { Effect, Layer } from "effect"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Markdown, MemoryStore, Viewer } from "../dist/index.js"

const system = Viewer.system()
const words = readFileSync(new URL("../node_modules/effect/src/Effect.ts", import.meta.url), "utf8").match(
  /[a-z]{3,}/gi
)
const draft = (n) => ({
  scope: { userId: `user-${n % 50}` },
  kind: "project",
  summary: `Note ${n}: ${words.slice(n % 500, n % 500 + 6).join(" ")}`,
  body: bodyOf(n)
})
const bodyOf = (n) => Array.from({ length: 70 }, (_, k) => words[(n * 31 + k * 7) % words.length]).join(" ")

/** Operations by name: how often each is run and timed, how many records it writes, and how it is prepared. */
const rows = [
  { name: "put", title: "put", times: 600, records: 1 },
  { name: "batch", title: "batch of 64", times: 40, records: 64 },
  { name: "together", title: "64 at once", times: 40, records: 64 },
  { name: "update", title: "update", times: 600, records: 1 }
]
/** Writes that are not timed, of each row. */
const warming = 400

const vault = (store) => {
  const ids = []
  return {
    put: (n) => Effect.map(store.put(system, [draft(n)]), ([{ record }]) => ids.push(record.id)),
    batch: (n) => store.put(system, Array.from({ length: 64 }, (_, i) => draft(100_000 + n * 64 + i))),
    together: (n) =>
      Effect.forEach(
        Array.from({ length: 64 }, (_, i) => draft(1_000_000 + n * 64 + i)),
        (one) => store.put(system, [one]),
        {
          concurrency: "unbounded"
        }
      ),
    update: (n) => store.update(system, ids[n % ids.length], { body: bodyOf(n + 7) })
  }
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
  const put = db.transaction(insert)
  const batch = db.transaction((n) => {
    for (let i = 0; i < 64; i++) insert(100_000 + n * 64 + i)
  })
  const update = db.transaction((id, body) => {
    const old = read.get(id)
    drop.run(id, old.summary, old.body)
    edit.run(body, id)
    text.run(id, old.summary, body)
  })
  return {
    put: (n) => Effect.sync(() => put(n)),
    batch: (n) => Effect.sync(() => batch(n)),
    together: (n) =>
      Effect.sync(() => {
        for (let i = 0; i < 64; i++) put(1_000_000 + n * 64 + i)
      }),
    update: (n) => Effect.sync(() => update(1 + n % 200, bodyOf(n + 7)))
  }
}

const folder = mkdtempSync(join(tmpdir(), "durable-"))
const timed = (write, first, times) =>
  Effect.gen(function*() {
    const cpu = process.cpuUsage()
    const start = performance.now()
    for (let n = first; n < first + times; n++) yield* write(n)
    const { system: kernel, user } = process.cpuUsage(cpu)
    return { wall: performance.now() - start, cpu: (user + kernel) / 1000 }
  })

await Effect.runPromise(
  Effect.gen(function*() {
    const engines = [["vault", vault(yield* MemoryStore.MemoryStore)], ["SQLite", sqlite(join(folder, "notes.db"))]]
    const parts = 10
    console.log("milliseconds a record; times: ours by SQLite's".padEnd(52) + "wall      cpu")
    for (const { name, records, times, title } of rows) {
      const each = times / parts
      const spent = new Map(engines.map(([engine]) => [engine, { wall: 0, cpu: 0 }]))
      for (const [, engine] of engines) yield* timed(engine[name], times, Math.ceil(warming / records)) // to warm up
      for (let part = 1; part <= parts; part++) {
        for (const [who, engine] of engines) {
          const { cpu, wall } = yield* timed(engine[name], (part - 1) * each, each)
          spent.get(who).cpu += cpu / times / records
          spent.get(who).wall += wall / times / records
        }
      }
      for (const [who, { cpu, wall }] of spent) {
        console.log(
          `${title.padEnd(14)} ${who.padEnd(34)} ${wall.toFixed(3).padStart(8)} ${cpu.toFixed(3).padStart(8)}`
        )
      }
      const [ours, theirs] = [spent.get("vault"), spent.get("SQLite")]
      console.log(
        `${title.padEnd(14)} ${"times".padEnd(34)} ${(ours.wall / theirs.wall).toFixed(1).padStart(8)} ${
          (ours.cpu / theirs.cpu).toFixed(1).padStart(8)
        }`
      )
    }
  }).pipe(
    Effect.provide(
      Markdown.layer({ root: join(folder, "vault"), poll: Infinity }).pipe(Layer.provide(NodeContext.layer))
    )
  )
)
rmSync(folder, { recursive: true })
