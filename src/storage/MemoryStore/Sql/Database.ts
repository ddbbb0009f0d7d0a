/**
 * The interface between the engine and a SQL database: transactions and queries. The queries use the SQL that SQLite and PostgreSQL share.
 *
 * Statements contain placeholders. `?` is a parameter. `{each}` is a table with a row for each element of a JSON array, in the column
 * `value`. One statement can thus write many rows. `x {in}` is the condition that `x` is one of the keys in a JSON array. The database can
 * use an index for this condition. Both arrays are parameters. `{vector}` is the column `vector` as hexadecimal text. Bytes would be
 * returned in buffers, which accumulate outside of V8's heap.
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
/** A row, with its columns in the order in which the statement names them. */
export type Row = ReadonlyArray<unknown>

/** Runs a statement, and returns its rows. */
export type Query = (
  sql: string,
  parameters?: ReadonlyArray<Parameter>
) => Effect.Effect<ReadonlyArray<Row>, MemoryError>

/** The parts of SQL in which SQLite and PostgreSQL differ. */
export interface Dialect {
  readonly name: "sqlite" | "postgres"
  /** SQL that replaces `{each}` in statements: a table with the elements of a JSON array. */
  readonly each: string
  /** SQL that replaces `{in}` in statements: the condition that a value is one of the keys in a JSON array. */
  readonly in: string
  /** SQL that replaces `{vector}` in statements: the column `vector` in hexadecimal digits. */
  readonly vector: string
  /**
   * SQL expression for an id of the database's history. The id changes if a fail-over or a restore may have lost commits. All cached
   * versions of rows are then invalid. The id is `NULL` if it is unknown, for example on a standby. It is also `NULL` in SQLite, where the
   * history never changes.
   */
  readonly history: string
  /** Type of a column for bytes. */
  readonly bytes: string
  /** Collation that orders and compares a text column by its bytes. */
  readonly exact: string
  /** SQL expression for the position of a new change. In PostgreSQL, this is the transaction's id. In SQLite, it is a counter. */
  readonly position: string
  /** SQL for a snapshot of the database, as text. The text starts with a position. All transactions below this position have ended. */
  readonly snapshot: string
  /** SQL condition with two snapshots as parameters. True for a change that only the second snapshot contains. */
  readonly isBetween: string
  /** SQL that removes erased texts from the log of writes, as far as no other process reads it; `undefined` if the store cannot do so. */
  readonly emptyLog: string | undefined
  /**
   * Returns the statements that set up row-level security, none in SQLite. A role then sees only one tenant's rows, except the tables'
   * owner and roles that bypass such security.
   */
  readonly guards: (tables: ReadonlyArray<string>) => ReadonlyArray<string>
}

/** The database that an engine uses. */
export interface Database {
  readonly dialect: Dialect
  readonly query: Query
  /** Chooses the database from which one call reads: the replica if it is recent enough, otherwise the primary. */
  readonly reading: Effect.Effect<Reading>
  /**
   * Locks the rows and keys that a batch needs, until the transaction ends. Rows that do not exist yet are locked, too. Does nothing in
   * SQLite, which has only one writer at a time.
   */
  readonly lock: (query: Query, tenant: string, needs: Needs) => Effect.Effect<void, MemoryError>
  /**
   * Runs `body` in a transaction. PostgreSQL waits for writers of the same rows, SQLite for all writers. The transaction is rolled back if
   * `body` fails, dies or is interrupted. If another writer causes a conflict, `body` runs again, up to `Driver.attempts` times. So `body`
   * must have no effects except its queries. `committed` runs after the commit, before the connection is used again, and cannot be
   * interrupted.
   */
  readonly transaction: <A>(
    body: (query: Query) => Effect.Effect<A, MemoryError>,
    committed?: (answer: A) => Effect.Effect<void>
  ) => Effect.Effect<A, MemoryError>
}

/** The database from which one call reads. */
export interface Reading extends Pick<Database, "query"> {
  /** The primary's `Dialect.history`, if this database is a replica. */
  readonly history?: string | undefined
}

/** The methods of a driver's connection that this library uses. */
export type Session = Pick<Connection, "executeValues" | "executeRaw" | "executeUnprepared">

/** The methods that run one statement each, on a connection that is reserved for this statement only. */
export type Once = Pick<Session, "executeValues" | "executeRaw">

/** The driver of one kind of database. */
export interface Driver {
  readonly dialect: Dialect
  /** Reserves a connection until the Effect scope closes. The connection is not part of a transaction of the caller. */
  readonly reserve: Effect.Effect<Session, SqlError, Scope.Scope>
  /** Runs a single statement on any connection. Default: reserves a connection for each statement. */
  readonly once?: Once | undefined
  /** Statement that begins a transaction. */
  readonly begin: string
  /** Translates a statement to the driver's syntax. The caller caches up to 1,000 translations. */
  readonly written: (sql: string) => string
  /** Converts a failure of the driver to an error. */
  readonly failureOf: (op: string, cause: unknown) => MemoryError
  /** Whether the error is a conflict with other writers, so that a retry may succeed. */
  readonly isConflict: (error: MemoryError) => boolean
  /** Milliseconds between two attempts of a transaction or query. */
  readonly pause: number
  /** Largest number of retries of a transaction or query. */
  readonly attempts: number
  readonly lock: Database["lock"]
  readonly replica?: Replica | undefined
}

/** A replica of the database. */
export interface Replica {
  readonly once: Once
  /** Whether the replica is recent enough for a call that starts now. */
  readonly isCurrent: Effect.Effect<boolean>
  /** The value of `Dialect.history` that the primary had when a check last found the replica recent enough. `undefined` if none has. */
  readonly history: Effect.Effect<string | undefined>
  /**
   * Runs after each transaction. Reads then go to the primary until the replica has the writes. A failed transaction counts, too, since its
   * commit may have succeeded.
   */
  readonly afterWrite: Effect.Effect<void>
}

/** Makes the database that uses a driver. */
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
    if (statements.size < maxStatements) statements.set(sql, made)
    return made
  }
  const patiently = <A>(self: Effect.Effect<A, MemoryError>, left = driver.attempts): Effect.Effect<A, MemoryError> =>
    Effect.catchIf(
      self,
      (error) => left > 0 && driver.isConflict(error),
      () => Effect.zipRight(sleepLive(driver.pause), Effect.suspend(() => patiently(self, left - 1)))
    )
  const using = <A>(
    reserve: Driver["reserve"],
    op: string,
    use: (connection: Session) => Effect.Effect<A, MemoryError>
  ) =>
    // uninterruptible, since a driver that is interrupted while it connects may never close the connection
    Effect.scoped(
      Effect.flatMap(Effect.uninterruptible(Effect.mapError(reserve, (error) => failureOf(op, error.cause))), use)
    )
  const run = (connection: Session, op: string, sql: string) =>
    Effect.try({
      try: () => connection.executeUnprepared(sql, [], undefined), // throws if the connection was closed
      catch: (cause) => failureOf(op, cause)
    }).pipe(Effect.flatMap(Effect.mapError((error) => failureOf(op, error.cause))))
  const queryOf = (connection: Once): Query => (sql, parameters = []) =>
    Effect.mapError(
      // `executeRaw` is faster for statements that return no rows, since it does not parse rows
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
          // ignores a failure of ROLLBACK: the database has then rolled back already, or does so when it notices the lost connection
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
  // asks the primary, which is at least as recent, if the replica is unavailable
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
    transaction: (body, committed) => Effect.ensuring(transaction(body, committed), replica.afterWrite)
  }
}

/** Matches a statement that writes rows, but returns none. */
const isSilent = /^(?:INSERT|DELETE|UPDATE)\b(?!.*\bRETURNING\b)/s
const none: ReadonlyArray<Row> = []

/**
 * Largest number of translated statements in the cache. A limit is necessary: a statement that reads from many scopes has a different text
 * for each number of scopes.
 */
const maxStatements = 1_000

/** Returns the error code of a driver's failure; "" if it has none. */
export const codeOf = (cause: unknown): string =>
  typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : ""

/** Returns the message of a driver's failure. */
export const messageOf = (cause: unknown): string => cause instanceof Error ? cause.message : String(cause)

/** Encodes a text as a key without NUL and without lone surrogates, which some databases cannot store. */
export const text = (key: string): string => plain.test(key) ? key : JSON.stringify(key).slice(1, -1)
// matches keys that need no encoding, since JSON escapes none of their characters
const plain = /^[\x20-\x21\x23-\x5b\x5d-\x7e]*$/

/** Decodes a key that `text` encoded. Returns a damaged key unchanged. */
export const fromText = (key: string): string => {
  if (!key.includes("\\")) return key
  try {
    return JSON.parse(`"${key}"`)
  } catch {
    return key
  }
}

/** Returns the id in a column. Does not validate it, since this library wrote the column. */
export const idOf = (column: unknown): MemoryId => MemoryId.make(String(column), { disableValidation: true })

/** Encodes rows as the parameter of `{each}` in a statement. */
export const each = (rows: ReadonlyArray<ReadonlyArray<string | number | null>>): string => JSON.stringify(rows)

/** Encodes keys as the parameter of `{in}` in a statement. */
export const keys = (all: Iterable<string>): string => JSON.stringify(Array.from(all, text))

/** Size of the parts into which a long list is divided, one statement for each part. Keeps round trips rare, and JSON parameters small. */
export const batchSize = 500

/** Calls a function with at most `batchSize` values at a time, and concatenates the results. */
export const inBatches = <A, B>(
  all: ReadonlyArray<A>,
  call: (batch: ReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, MemoryError>
): Effect.Effect<ReadonlyArray<B>, MemoryError> =>
  all.length === 0
    ? Effect.succeed([])
    : all.length <= batchSize
    ? call(all)
    : Effect.gen(function*() {
      const found: Array<B> = []
      for (let at = 0; at < all.length; at += batchSize) {
        for (const one of yield* call(all.slice(at, at + batchSize))) found.push(one)
      }
      return found
    })

/** Parses JSON that this library wrote. Fails with `corrupt` if the JSON is invalid. */
export const parsed = <A>(location: string, json: unknown): Effect.Effect<A, MemoryError> =>
  Effect.try({
    try: () => JSON.parse(String(json)) as A, // the caller states the type that was written
    catch: (cause) =>
      Errors.make("corrupt", { op: "read", message: "a row that is no JSON", detail: { location }, cause })
  })
