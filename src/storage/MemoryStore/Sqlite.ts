/**
 * A store in one SQLite file, for several processes on one machine. It has its own subpath because it needs a driver:
 * `npm install @effect/sql-sqlite-node@0 @effect/sql@0 @effect/experimental@0 @effect/platform@0`.
 *
 * Laws: an acknowledged write is on disk (write-ahead log, synchronised at each commit). Only one process writes at a time. A writer that
 * waits for other processes longer than the option `patience` fails with `unavailable`. A file that a later release has written is refused
 * and left unchanged.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryStore, Viewer } from "effect-memory"
 * import { Sqlite } from "effect-memory/sqlite"
 *
 * const ada = Viewer.make({ userId: "ada" })
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* MemoryStore.MemoryStore
 *   yield* store.put(ada, [{ scope: { userId: "ada" }, kind: "user", body: "Drinks tea, never coffee." }])
 *   const { hits } = yield* store.search(ada, { text: "tea?" })
 *   return hits.map(({ record }) => record.body)
 * })
 *
 * const found = await program.pipe(
 *   Effect.provide(Sqlite.layer({ filename: ":memory:" })),
 *   Effect.runPromise
 * )
 *
 * found // => ["Drinks tea, never coffee."]
 * ```
 */
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as MemoryError from "../../domain/MemoryError.ts"
import * as Validation from "../../domain/Validation.ts"
import type { Engine } from "../Engine.ts"
import type * as MemoryStore from "../MemoryStore.ts"
import { codeOf, type Database, type Dialect, fromDriver, messageOf, type Session } from "./Sql/Database.ts"
import type * as SqlEngine from "./Sql/SqlEngine.ts"
import * as SqlStore from "./Sql/SqlStore.ts"
import { checkVersion } from "./Sql/Tables.ts"

/** Options of a store in a SQLite file. */
export interface Options extends SqlEngine.Options {
  /** Path of the file. A missing file is created; its folder must exist. `:memory:` makes a store that is lost when the layer closes. */
  readonly filename: string
  /**
   * Milliseconds that a call waits for a file that other processes have locked. Then the call fails with `unavailable`. Default 30,000. On
   * a busy machine the call may wait longer, since the time is measured by counting pauses of 2 ms.
   */
  readonly patience?: number | undefined
}

const functions = SqlStore.over("sqlite", (options: Options) => open(options))

/** Makes only the engine, for callers that wrap the engine before they make a store from it. */
export const engine: (options: Options) => Effect.Effect<Engine, MemoryError.MemoryError, Scope.Scope> =
  functions.engine

/** Makes a store in a file. While the store is used, it compacts itself once an hour. */
export const make: (options: Options) => Effect.Effect<MemoryStore.Service, MemoryError.MemoryError, Scope.Scope> =
  functions.make

/** A store in the file, open until the Effect scope of the layer closes. */
export const layer: (options: Options) => Layer.Layer<MemoryStore.MemoryStore, MemoryError.MemoryError> =
  functions.layer

/**
 * Rebuilds the index of a file with the configured analyzer. Run `reindex` after a change of the analyzer; until then, the file cannot be
 * opened. No other process may have the file open while `reindex` runs. Cost: reads and writes every row.
 */
export const reindex: (options: Options) => Effect.Effect<void, MemoryError.MemoryError> = functions.reindex

/**
 * Checks a file with SQLite's `integrity_check`, for example whether each index has an entry for every row. Returns at most 100 problems.
 * Returns an empty list for `:memory:`. Fails with `corrupt` if SQLite cannot check the file, for example since it is no database, with
 * `io` if the file is missing, and with `read_only` if SQLite cannot make its log beside the file. The file itself stays unchanged. The log,
 * `-wal` and `-shm`, may remain until the store is opened and closed. Cost: reads the whole file once or twice, and blocks the event loop.
 */
export const verify = (
  { filename }: Pick<Options, "filename">
): Effect.Effect<ReadonlyArray<string>, MemoryError.MemoryError> =>
  filename === ":memory:" ? Effect.succeed([]) : Effect.gen(function*() {
    yield* Validation.refuseOptions("sqlite.verify", nameIssues(filename))
    const { Reactivity, SqliteClient } = yield* driver
    const client = yield* SqliteClient.make({ filename, readonly: true, disableWAL: true }).pipe(
      Effect.provide(Reactivity.layer),
      Effect.catchAllDefect((cause) => failureOf("verify", cause))
    )
    const problems = (limit: number) =>
      client.unsafe(`PRAGMA integrity_check(${limit})`).values.pipe(
        Effect.mapError(({ cause }) => failureOf("verify", cause))
      )
    // SQLite drops the problems it has found if it fails at an unreadable page; with a limit of one, it may find one before that page
    const rows = yield* MemoryError.catchReason("corrupt", () => problems(1))(problems(100))
    return rows.map(([problem]) => String(problem)).filter((problem) => problem !== "ok")
  }).pipe(Effect.scoped)

/**
 * The parts of SQL in which SQLite differs from other databases.
 *
 * @internal
 */
export const dialect: Dialect = {
  name: "sqlite",
  each: "json_each(?)",
  in: "IN (SELECT value FROM json_each(?))",
  vector: "hex(vector)",
  history: "NULL", // no id is needed: the history never changes, since the file stays open even if another file takes its name
  bytes: "blob",
  exact: "",
  // there is only one writer at a time, so positions increase in the order of commits
  position: "(SELECT coalesce(max(position), 0) + 1 FROM memory_changes)",
  snapshot: "CAST((SELECT coalesce(max(position), 0) FROM memory_changes) AS text)",
  isBetween: "position > CAST(? AS real) AND position <= CAST(? AS real)",
  emptyLog: "PRAGMA wal_checkpoint(TRUNCATE)",
  guards: () => []
}

/** Lists the violations of a file name. For a blank name, SQLite would open a temporary file, and lose its records. */
const nameIssues = (filename: string): ReadonlyArray<string> =>
  typeof filename === "string" && filename.trim() !== "" && !filename.includes("\0")
    ? []
    : ["filename: expected the path of a file, or `:memory:`"]

const open = (
  { filename, patience = 30_000 }: Options
): Effect.Effect<Database, MemoryError.MemoryError, Scope.Scope> =>
  Effect.gen(function*() {
    yield* Validation.refuseOptions("sqlite.make", [
      ...nameIssues(filename),
      ...Validation.countIssues("patience", patience, 0)
    ])
    const { Reactivity, SqliteClient } = yield* driver
    // WAL is switched on below. The driver would do so before the file's version is checked, and would not wait for other processes
    const { reserve } = yield* SqliteClient.make({ filename, disableWAL: true }).pipe(
      Effect.provide(Reactivity.layer),
      // the driver throws if it cannot open the file
      Effect.catchAllDefect((cause) => failureOf("make", cause))
    )
    let failures = 0
    const database = fromDriver({
      dialect,
      reserve: Effect.map(reserve, uninterrupted),
      begin: "BEGIN IMMEDIATE", // takes the write lock at the start, since SQLite cannot wait for this lock after a read
      // the driver caches a preparation even if it failed. So each failure gives all later statements a new text, by a comment at the end
      written: (sql) => failures === 0 ? sql : `${sql} -- ${failures}`,
      failureOf: (op, cause) => {
        failures++
        return failureOf(op, cause)
      },
      isConflict: ({ cause, reason }) => reason === "unavailable" && isBusyCode(codeOf(cause)),
      pause,
      attempts: Math.ceil(patience / pause),
      lock: () => Effect.void
    })
    // SQLite must not wait for other writers itself, since that would block the event loop; the store waits instead
    yield* database.query("PRAGMA busy_timeout = 0")
    const [meta] = yield* database.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'memory_meta'")
    if (meta !== undefined) yield* checkVersion("sqlite", database.query)
    for (const pragma of ["journal_mode = WAL", "synchronous = FULL", "cache_size = -8192", "secure_delete = ON"]) {
      yield* database.query(`PRAGMA ${pragma}`)
    }
    return database
  })

/**
 * Makes each statement uninterruptible. The driver caches the preparation of a statement. If a preparation were interrupted, all later
 * callers of the statement would wait for ever. Interruptions are hardly delayed, since statements run synchronously.
 */
const uninterrupted = (connection: Session): Session => ({
  executeValues: (sql, parameters) => Effect.uninterruptible(connection.executeValues(sql, parameters)),
  executeRaw: (sql, parameters) => Effect.uninterruptible(connection.executeRaw(sql, parameters)),
  executeUnprepared: (sql, parameters, rows) =>
    Effect.uninterruptible(connection.executeUnprepared(sql, parameters, rows))
})

/** Loads the driver only when a store is made, since it is an optional dependency. */
const driver = Effect.tryPromise({
  try: async () => ({
    Reactivity: await import("@effect/experimental/Reactivity"),
    SqliteClient: await import("@effect/sql-sqlite-node/SqliteClient")
  }),
  catch: (cause) =>
    MemoryError.make("unsupported", {
      op: "make",
      message: "sqlite: the driver is missing. npm install @effect/sql-sqlite-node@^0.53 @effect/sql@^0.52 " +
        "@effect/experimental@^0.61",
      cause
    })
})

/** Milliseconds between two attempts to lock a file that another process has locked. */
const pause = 2

// SQLITE_PROTOCOL also means busy: it occurs when other processes open and close the file in quick succession
const isBusyCode = (code: string): boolean => /^SQLITE_(?:BUSY|LOCKED|PROTOCOL)/.test(code)

/** Converts a failure of the driver to an error, by its code (see https://sqlite.org/rescode.html). */
const failureOf = (op: string, cause: unknown): MemoryError.MemoryError => {
  const code = codeOf(cause)
  if (isBusyCode(code)) {
    return MemoryError.make("unavailable", { op, message: "sqlite: another process is writing; try again", cause })
  }
  if (/^SQLITE_(?:READONLY|PERM|AUTH)/.test(code)) {
    return MemoryError.make("read_only", { op, message: "sqlite: the file, or its folder, cannot be written", cause })
  }
  // such an error means a damaged file: the store inserts no duplicate row, and ignores the missing table of a new file
  if (
    /^SQLITE_(?:CORRUPT|NOTADB|CONSTRAINT|MISMATCH|TOOBIG)/.test(code) ||
    code === "SQLITE_ERROR" && /no such|malformed/.test(messageOf(cause))
  ) {
    return MemoryError.make("corrupt", {
      op,
      message: "sqlite: the file is damaged, or no database",
      detail: { location: "file" },
      cause
    })
  }
  if (code.startsWith("SQLITE_FULL")) return MemoryError.make("io", { op, message: "sqlite: the disk is full", cause })
  if (code.startsWith("SQLITE_CANTOPEN") || /directory does not exist/.test(messageOf(cause))) {
    return MemoryError.make("io", { op, message: "sqlite: the file cannot be opened; is its folder there?", cause })
  }
  if (code.startsWith("ERR_DLOPEN") || /bindings file/.test(messageOf(cause))) {
    return MemoryError.make("unsupported", {
      op,
      message: "sqlite: the driver has no binary for this version of Node. npm rebuild better-sqlite3",
      cause
    })
  }
  if (/connection is not open/.test(messageOf(cause))) {
    return MemoryError.make("unavailable", { op, message: "sqlite: the store is closed", cause })
  }
  return MemoryError.make("io", { op, message: `sqlite: ${code || "the driver failed"}`, cause })
}
