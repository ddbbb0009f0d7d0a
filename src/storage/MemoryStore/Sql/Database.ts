/**
 * The interface between the engine and a SQL database: queries, in the SQL that SQLite and PostgreSQL share, and transactions.
 *
 * A `?` stands for a parameter. `{each}` is a table with a column `value`, which has a row for each element of a JSON array in a parameter,
 * so that one statement can write many rows. `x {in}` tells whether x is one of the keys in a JSON array, by index lookups. `{vector}` is
 * the column `vector` in hexadecimal digits, since the buffers that drivers would return accumulate outside of V8's heap.
 */
import type { Connection } from "@effect/sql/SqlConnection"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import * as Errors from "../../../domain/MemoryError.ts"
import { MemoryId } from "../../../domain/MemoryId.ts"
import { sleepLive } from "../../../host/EventLoop.ts"
import type { Needs } from "../../Engine.ts"

/** A value for a `?` in a statement. */
export type Parameter = string | number | null | Uint8Array
/** The columns of a row, in the order of the statement. */
export type Row = ReadonlyArray<unknown>

/** Runs a statement, and returns its rows, each with the columns in the order of the statement. */
export type Query = (
  sql: string,
  parameters?: ReadonlyArray<Parameter>
) => Effect.Effect<ReadonlyArray<Row>, MemoryError>

/** The parts of SQL in which the two databases differ. */
export interface Dialect {
  readonly name: "sqlite" | "postgres"
  /** SQL that replaces `{each}`. */
  readonly each: string
  /** SQL that replaces `{in}`. */
  readonly in: string
  /** SQL that replaces `{vector}`. */
  readonly vector: string
  /**
   * Expression that identifies the history of the database. Its value changes when a fail-over or a restore may have lost commits. `NULL`
   * if unknown, as on a standby.
   */
  readonly history: string
  /** Type of a column for bytes. */
  readonly bytes: string
  /** Collation with which a text column is ordered and compared by its bytes. */
  readonly exact: string
  /** Expression for the position of a new change: in PostgreSQL the id of the transaction, in SQLite a counter. */
  readonly position: string
  /** Expression for a snapshot, as a text that starts with a position below which every transaction has ended. */
  readonly moment: string
  /** Condition that a change is visible in the snapshot of the second parameter, but not in that of the first. */
  readonly isBetween: string
  /** Returns the statements that restrict roles other than the tables' owner to the rows of one tenant. */
  readonly guards: (tables: ReadonlyArray<string>) => ReadonlyArray<string>
}

/** The database of an engine. */
export interface Database {
  readonly dialect: Dialect
  readonly query: Query
  /** Chooses where the reads of one call go: to a replica that is current enough, else to the primary. */
  readonly reading: Effect.Effect<Reading>
  /**
   * Locks the rows and keys of a batch until the transaction ends, even those that do not exist. Does nothing in a database with a single
   * writer.
   */
  readonly lock: (query: Query, tenant: string, needs: Needs) => Effect.Effect<void, MemoryError>
  /**
   * Runs `body` in a transaction. In PostgreSQL it waits for writers of the same rows, in SQLite for all writers. After a conflict with
   * another writer it is rolled back and `body` runs again, so `body` must have no effects but its queries. A failure, defect or
   * interruption rolls back. `committed` runs after the commit and before the connection is used again; it cannot be interrupted.
   */
  readonly transaction: <A>(
    body: (query: Query) => Effect.Effect<A, MemoryError>,
    committed?: (answer: A) => Effect.Effect<void>
  ) => Effect.Effect<A, MemoryError>
}

/** The database from which one call reads. */
export interface Reading extends Pick<Database, "query"> {
  /** `Dialect.history` of the primary, if this is a replica. */
  readonly history?: string | undefined
}

/** The methods of a driver's connection that are used. */
export type Session = Pick<Connection, "executeValues" | "executeRaw" | "executeUnprepared">

/** Runs each statement on a connection that is reserved just for it. */
export type Once = Pick<Session, "executeValues" | "executeRaw">

/** The driver of one kind of database. */
export interface Driver {
  readonly dialect: Dialect
  /** Reserves a connection until the scope closes; it is independent of any transaction of the caller. */
  readonly reserve: Effect.Effect<Session, SqlError, Scope.Scope>
  /** Runs a statement on a connection of its own. Default: by `reserve`. */
  readonly once?: Once | undefined
  /** Statement that begins a transaction. */
  readonly begin: string
  /** Translates a statement to the driver's syntax. The first 1,000 statements are cached until the next failure. */
  readonly written: (sql: string) => string
  /** Converts a failure of the driver to an error. */
  readonly failureOf: (op: string, cause: unknown) => MemoryError
  /** Whether the error is a conflict with other writers, so that a retry may succeed. */
  readonly isInTheWay: (error: MemoryError) => boolean
  /** Milliseconds between two attempts. */
  readonly pause: number
  /** Largest number of retries. */
  readonly attempts: number
  readonly lock: Database["lock"]
  readonly replica?: Replica | undefined
}

/** A replica of the database. */
export interface Replica {
  readonly once: Once
  /** Whether a call that starts now may read from the replica. */
  readonly isCurrent: Effect.Effect<boolean>
  /** `Dialect.history` of the primary at the last check that found the replica current. */
  readonly history: Effect.Effect<string | undefined>
  /** Runs after each transaction, even a failed one; the replica is then not current until it has caught up. */
  readonly wrote: Effect.Effect<void>
}

/** Makes the database of a driver. */
export const fromDriver = (driver: Driver): Database => {
  const { begin, dialect, lock, replica, reserve } = driver
  const statements = new Map<string, string>()
  const failureOf: Driver["failureOf"] = (op, cause) => {
    statements.clear()
    return driver.failureOf(op, cause)
  }
  const written = (sql: string): string => {
    const known = statements.get(sql)
    if (known !== undefined) return known
    const made = driver.written(
      sql.replaceAll("{each}", dialect.each).replaceAll("{in}", dialect.in).replaceAll("{vector}", dialect.vector)
    )
    if (statements.size < mostStatements) statements.set(sql, made)
    return made
  }
  const patiently = <A>(self: Effect.Effect<A, MemoryError>, left = driver.attempts): Effect.Effect<A, MemoryError> =>
    Effect.catchIf(
      self,
      (error) => left > 0 && driver.isInTheWay(error),
      () => Effect.zipRight(sleepLive(driver.pause), Effect.suspend(() => patiently(self, left - 1)))
    )
  const using = <A>(
    reserve: Driver["reserve"],
    op: string,
    use: (connection: Session) => Effect.Effect<A, MemoryError>
  ) =>
    // uninterruptible, since a driver that is interrupted while it connects may leak the connection
    Effect.scoped(
      Effect.flatMap(Effect.uninterruptible(Effect.mapError(reserve, (error) => failureOf(op, error.cause))), use)
    )
  const run = (connection: Session, op: string, sql: string) =>
    Effect.try({
      try: () => connection.executeUnprepared(sql, [], undefined), // may throw if the connection was closed
      catch: (cause) => failureOf(op, cause)
    }).pipe(Effect.flatMap(Effect.mapError((error) => failureOf(op, error.cause))))
  const queryOf = (connection: Once): Query => (sql, parameters = []) =>
    Effect.mapError(
      // INSERT, DELETE and UPDATE return no rows; the driver is faster if it need not parse any
      isSilent.test(sql)
        ? Effect.as(connection.executeRaw(written(sql), parameters), none)
        : connection.executeValues(written(sql), parameters),
      (error) => failureOf("query", error.cause)
    )
  const attempt: Database["transaction"] = (body, committed) =>
    using(reserve, "commit", (connection) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function*() {
          yield* run(connection, "commit", begin)
          const exit = yield* Effect.exit(restore(body(queryOf(connection))))
          const ended = Exit.isSuccess(exit) ? yield* Effect.either(run(connection, "commit", "COMMIT")) : undefined
          // a failed ROLLBACK means that the connection is lost, so the server rolls back
          if (ended?._tag !== "Right") yield* Effect.option(run(connection, "commit", "ROLLBACK"))
          if (ended?._tag === "Left") return yield* ended.left
          if (Exit.isSuccess(exit) && committed !== undefined) yield* committed(exit.value)
          return yield* exit
        })
      ))
  const { once } = driver
  const first: Query = once === undefined
    ? (sql, parameters) => using(reserve, "read", (connection) => queryOf(connection)(sql, parameters))
    : queryOf(once)
  const query: Query = (sql, parameters) => patiently(first(sql, parameters))
  const transaction: Database["transaction"] = (body, committed) => patiently(attempt(body, committed))
  if (replica === undefined) return { dialect, query, reading: Effect.succeed({ query }), lock, transaction }
  const asked: Query = (sql, parameters) => patiently(queryOf(replica.once)(sql, parameters))
  // queries go to the primary, which is at least as current, if the replica is unavailable
  const elsewhere: Query = (sql, parameters) =>
    Effect.catchIf(asked(sql, parameters), ({ reason }) => reason === "unavailable", () => query(sql, parameters))
  return {
    dialect,
    query,
    reading: Effect.zipWith(
      replica.isCurrent,
      replica.history,
      (isCurrent, history) => isCurrent ? { query: elsewhere, history } : { query }
    ),
    lock,
    transaction: (body, committed) => Effect.ensuring(transaction(body, committed), replica.wrote)
  }
}

/** Matches a statement that writes and returns no rows. */
const isSilent = /^(?:INSERT|DELETE|UPDATE)\b(?!.*\bRETURNING\b)/s
const none: ReadonlyArray<Row> = []

/** Number of translated statements that are cached; a limit, since a page over many scopes has a statement of its own. */
const mostStatements = 1_000

/** Returns the code of a driver's failure; "" if it has none. */
export const codeOf = (cause: unknown): string =>
  typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : ""

/** Returns the message of a driver's failure. */
export const messageOf = (cause: unknown): string => cause instanceof Error ? cause.message : String(cause)

/** Encodes a text as a key that every database can store: without NUL and without lone surrogates. */
export const text = (key: string): string => plain.test(key) ? key : JSON.stringify(key).slice(1, -1)
// keys without characters that JSON escapes are stored as they are
const plain = /^[\x20-\x21\x23-\x5b\x5d-\x7e]*$/

/** Decodes a key that `text` encoded. A damaged key is returned as it is. */
export const fromText = (key: string): string => {
  if (!key.includes("\\")) return key
  try {
    return JSON.parse(`"${key}"`)
  } catch {
    return key
  }
}

/** Returns the id in a column; not validated, since this library wrote the column. */
export const idOf = (column: unknown): MemoryId => MemoryId.make(String(column), { disableValidation: true })

/** Encodes the rows for `{each}`. */
export const each = (rows: ReadonlyArray<ReadonlyArray<string | number | null>>): string => JSON.stringify(rows)

/** Encodes the keys for `{in}`. */
export const keys = (all: Iterable<string>): string => JSON.stringify(Array.from(all, text))

/** Number of rows per statement: enough to outweigh the round trip, few enough for one parameter of JSON. */
export const atATime = 500

/** Calls a function with up to `atATime` values at a time, and returns all results. */
export const inBatches = <A, B>(
  all: ReadonlyArray<A>,
  call: (batch: ReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, MemoryError>
): Effect.Effect<ReadonlyArray<B>, MemoryError> =>
  all.length === 0
    ? Effect.succeed([])
    : all.length <= atATime
    ? call(all)
    : Effect.gen(function*() {
      const found: Array<B> = []
      for (let at = 0; at < all.length; at += atATime) {
        for (const one of yield* call(all.slice(at, at + atATime))) found.push(one)
      }
      return found
    })

/** Parses JSON that this library wrote; fails with `corrupt` if it is invalid. */
export const parsed = <A>(location: string, json: unknown): Effect.Effect<A, MemoryError> =>
  Effect.try({
    try: () => JSON.parse(String(json)) as A, // the type that was written
    catch: (cause) =>
      Errors.make("corrupt", { op: "read", message: "a row that is no JSON", detail: { location }, cause })
  })
