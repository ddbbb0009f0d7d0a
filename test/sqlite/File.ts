/** Helpers of the SQLite tests: a file on a real disk, stores in it, and the programs that share it. */
import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import { assert } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as fs from "node:fs"
import * as path from "node:path"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import type { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { Sqlite } from "../../src/sqlite.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { place } from "../vault/Place.ts"
import { type Program, program } from "../vault/Program.ts"

export const bob = Viewer.make({ agentId: "Bob" })
export const draft = (body: string) => ({ scope: { agentId: "Bob" }, kind: "reference", body })

/** Path of a file that does not exist yet, in a folder that is removed when the scope closes. */
export const file: Effect.Effect<string, never, Scope.Scope> = Effect.map(place, (root) => path.join(root, "memory.db"))

/** Opens a store in the file until the scope closes. */
export const opened = (
  filename: string,
  options: Partial<Sqlite.Options> = {}
): Effect.Effect<MemoryStore.Service, MemoryError, Scope.Scope> =>
  Effect.map(Layer.build(Sqlite.layer({ filename, ...options })), Context.get(MemoryStore.MemoryStore))

/** An empty in-memory store. */
export const inMemory: Effect.Effect<MemoryStore.Service, never, Scope.Scope> = Effect.map(
  Layer.build(Layer.fresh(MemoryStore.layerInMemory)),
  Context.get(MemoryStore.MemoryStore)
)

/** Returns every record that Bob sees. */
export const all = (store: MemoryStore.Service): Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError> =>
  Effect.map(Stream.runCollect(store.stream(bob, { limit: 1_000 })), Chunk.toReadonlyArray)

/** Returns the bodies of the records, sorted. */
export const bodies = (records: ReadonlyArray<MemoryRecord>): ReadonlyArray<string> =>
  records.map(({ body }) => body).sort()

/** Runs statements on the file, not through the store, on a connection that is closed afterwards; returns the rows of the last. */
export const raw = (filename: string, ...statements: ReadonlyArray<string>) =>
  Effect.scoped(Effect.gen(function*() {
    const sql = yield* SqliteClient.make({ filename, disableWAL: true })
    let rows: ReadonlyArray<Record<string, unknown>> = []
    for (const statement of statements) rows = yield* sql.unsafe<Record<string, unknown>>(statement)
    return rows
  })).pipe(Effect.provide(Reactivity.layer), Effect.orDie)

/** Changes one byte of an entry in the root page of an index. */
export const damageIndex = (filename: string, index: string) =>
  Effect.gen(function*() {
    const [found] = yield* raw(filename, `SELECT rootpage FROM sqlite_master WHERE name = '${index}'`)
    const [{ page_size: size } = { page_size: 4_096 }] = yield* raw(filename, "PRAGMA page_size")
    const bytes = fs.readFileSync(filename)
    bytes[Number(found?.["rootpage"]) * Number(size) - 4]! ^= 1 // the last bytes of a page belong to an entry
    fs.writeFileSync(filename, bytes)
  })

/** Asserts that SQLite's integrity check passes, and that the stored counts equal the counts of the rows. */
export const sound = (filename: string) =>
  Effect.gen(function*() {
    assert.deepStrictEqual(yield* raw(filename, "PRAGMA integrity_check"), [{ integrity_check: "ok" }])
    const counted = yield* raw(
      filename,
      "SELECT scope, kind, total FROM memory_scopes WHERE total <> 0 ORDER BY scope, kind"
    )
    const there = yield* raw(
      filename,
      "SELECT scope, kind, count(*) AS total FROM memory_records WHERE forgotten = 0 GROUP BY 1, 2 ORDER BY 1, 2"
    )
    assert.deepStrictEqual(counted, there)
    const partitions = yield* raw(
      filename,
      "SELECT partition, total FROM memory_partitions WHERE total <> 0 ORDER BY 1"
    )
    const held = yield* raw(
      filename,
      "SELECT partition, count(*) AS total FROM memory_records GROUP BY 1 ORDER BY 1"
    )
    assert.deepStrictEqual(partitions, held)
  })

/** Asserts that `store` and `copy`, a new store with the same records, find the same records with the same scores for each question. */
export const answersAsNew = (
  store: MemoryStore.Service,
  copy: MemoryStore.Service,
  questions: ReadonlyArray<string>
): Effect.Effect<void, MemoryError> =>
  Effect.gen(function*() {
    const answers = (store: MemoryStore.Service) =>
      Effect.forEach(questions, (text) =>
        Effect.map(
          store.search(bob, { text, limit: 10 }),
          ({ hits }) => hits.map(({ record, score }) => [record.id, score])
        ))
    assert.deepStrictEqual(yield* answers(store), yield* answers(copy))
  })

/** Returns the bytes of each file of a folder, by name, in base64. */
export const bytesOf = (folder: string): ReadonlyArray<readonly [string, string]> =>
  fs.readdirSync(folder).sort().map((name) => [name, fs.readFileSync(path.join(folder, name), "base64")])

/** Runs a program of `processes/`. */
export const child = <A, I>(name: string, args: ReadonlyArray<string>, line: Schema.Schema<A, I>) =>
  program(path.join(import.meta.dirname, "processes", name), args, line)

const Reply = Schema.Struct({
  ok: Schema.optional(Schema.Unknown),
  failed: Schema.optional(Schema.Struct({ op: Schema.String, reason: Schema.String, message: Schema.String })),
  died: Schema.optional(Schema.String)
})

/** A process that executes commands on a store: see `processes/peer.mjs`. */
export interface Peer {
  /** Sends a command; returns the reply. */
  readonly ask: (op: string, ...args: ReadonlyArray<unknown>) => Effect.Effect<typeof Reply.Type>
  /** Sends a command that must succeed; returns its result. */
  readonly tell: (op: string, ...args: ReadonlyArray<unknown>) => Effect.Effect<unknown>
  readonly process: Program<typeof Reply.Type>
}

export const peer: Effect.Effect<Peer, never, Scope.Scope> = Effect.gen(function*() {
  const process = yield* child("peer.mjs", [], Reply)
  const ask: Peer["ask"] = (...command) => Effect.zipRight(process.tell(JSON.stringify(command) + "\n"), process.line)
  return {
    ask,
    tell: (op, ...args) =>
      Effect.map(ask(op, ...args), (reply) => {
        if (reply.failed !== undefined || reply.died !== undefined) assert.fail(`${op}: ${JSON.stringify(reply)}`)
        return reply.ok
      }),
    process
  }
})
