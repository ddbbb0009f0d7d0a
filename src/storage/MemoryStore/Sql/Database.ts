/**
 * A SQL database as the engine asks it: statements in the common part of SQLite's and PostgreSQL's language, and transactions.
 *
 * A `?` stands for a parameter. `{each}` is a table of the elements of a JSON array that a parameter holds, in its column
 * `value`: many rows are written by one statement. `x {in}` tells whether x is one of the keys of a JSON array, by look-ups.
 * `{vector}` is the column `vector` as hexadecimal digits, since the buffers that drivers return pile up outside of V8's heap.
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
/** The columns of a row, in their order. */
export type Row = ReadonlyArray<unknown>

/** Runs a statement, and returns its rows: the columns in their order. */
export type Query = (
  sql: string,
  parameters?: ReadonlyArray<Parameter>
) => Effect.Effect<ReadonlyArray<Row>, MemoryError>

/** The parts of a statement in which the two languages differ. */
export interface Dialect {
  readonly name: "sqlite" | "postgres"
  /** The text that stands for `{each}`. */
  readonly each: string
  /** The text that stands for `{in}`. */
  readonly in: string
  /** The text that stands for `{vector}`. */
  readonly vector: string
  /**
   * Expression that identifies the history of the database: it changes where a fail-over or a restore may have lost commits. NULL: not
   * known, as on a standby.
   */
  readonly history: string
  /** Type of a column of bytes. */
  readonly bytes: string
  /** Collation of a text column by which it is ordered and compared by its bytes. */
  readonly exact: string
  /** Expression of the position of a new change: the id of the transaction in PostgreSQL, a counter in SQLite. */
  readonly position: string
  /** Expression of a snapshot, as a text that begins with a position below which every transaction has ended. */
  readonly moment: string
  /** Condition that a change is not visible in the snapshot of the first parameter, and is visible in that of the second. */
  readonly isBetween: string
  /** Returns the statements that keep roles other than the owner of the tables from the rows of foreign tenants. */
  readonly guards: (tables: ReadonlyArray<string>) => ReadonlyArray<string>
}

/** A database that an engine is made over. */
export interface Database {
  readonly dialect: Dialect
  readonly query: Query
  /** Chooses the database that the reads of one call go to: a replica, if there is one that is current enough. */
  readonly reading: Effect.Effect<Reading>
  /** Locks the rows and keys of a batch, absent ones too, until the transaction ends. Does nothing where there is one writer. */
  readonly lock: (query: Query, tenant: string, needs: Needs) => Effect.Effect<void, MemoryError>
  /**
   * Runs `body` in a transaction. In PostgreSQL writers of the same rows wait, in SQLite all writers do. After a conflict with
   * another writer it is rolled back and `body` runs again, so `body` has no effects but its queries. A failure, a defect and an
   * interruption roll it back. `committed` runs after the commit, and before the connection has another use; nothing interrupts it.
   */
  readonly transaction: <A>(
    body: (query: Query) => Effect.Effect<A, MemoryError>,
    committed?: (answer: A) => Effect.Effect<void>
  ) => Effect.Effect<A, MemoryError>
}

/** A database as one call reads it. */
export interface Reading extends Pick<Database, "query"> {
  /** `Dialect.history` of the primary, where a replica is read. */
  readonly history?: string | undefined
}

/** A connection of a driver, as far as it is used. */
export type Session = Pick<Connection, "executeValues" | "executeRaw" | "executeUnprepared">

/** Runs each statement on a connection that is reserved for it alone. */
export type Once = Pick<Session, "executeValues" | "executeRaw">

/** The driver of one kind of database. */
export interface Driver {
  readonly dialect: Dialect
  /** Reserves a connection until the scope closes, apart from any transaction that the caller may be in. */
  readonly reserve: Effect.Effect<Session, SqlError, Scope.Scope>
  /** Runs a statement on a connection of its own. Default: one that is reserved for it. */
  readonly once?: Once | undefined
  /** The statement that begins a transaction. */
  readonly begin: string
  /** Translates a statement to the driver's syntax. The first 1,000 statements are kept until the next failure. */
  readonly written: (sql: string) => string
  /** Makes the error that tells a failure of the driver. */
  readonly failureOf: (op: string, cause: unknown) => MemoryError
  /** Whether other writers were in the way, so that the same may succeed a moment later. */
  readonly isInTheWay: (error: MemoryError) => boolean
  /** Milliseconds between two attempts. */
  readonly pause: number
  /** Largest number of attempts after the first. */
  readonly attempts: number
  readonly lock: Database["lock"]
  readonly replica?: Replica | undefined
}

/** A copy of the database that follows it. */
export interface Replica {
  readonly once: Once
  /** Whether a call that begins now may read it. */
  readonly isCurrent: Effect.Effect<boolean>
  /** `Dialect.history` of the primary when the replica was last found to be current. */
  readonly history: Effect.Effect<string | undefined>
  /** Runs after each transaction, however it ended: from then on the replica has to catch up. */
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
    // a driver that is interrupted while it connects may lose the connection
    Effect.scoped(
      Effect.flatMap(Effect.uninterruptible(Effect.mapError(reserve, (error) => failureOf(op, error.cause))), use)
    )
  const run = (connection: Session, op: string, sql: string) =>
    Effect.try({
      try: () => connection.executeUnprepared(sql, [], undefined), // a connection that was closed may throw
      catch: (cause) => failureOf(op, cause)
    }).pipe(Effect.flatMap(Effect.mapError((error) => failureOf(op, error.cause))))
  const queryOf = (connection: Once): Query => (sql, parameters = []) =>
    Effect.mapError(
      // INSERT, DELETE and UPDATE have no rows to read; the driver is faster if it is not asked for any
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
          // the connection is lost if ROLLBACK fails, and the server rolls back
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
  // questions that the replica does not answer go to the primary, which is at least as current
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

/** Pattern of a statement that writes, and returns no rows. */
const isSilent = /^(?:INSERT|DELETE|UPDATE)\b(?!.*\bRETURNING\b)/s
const none: ReadonlyArray<Row> = []

/** Number of translated statements that are kept; a page over many scopes is a statement of its own. */
const mostStatements = 1_000

/** Returns the code of a driver's failure; "" where it has none. */
export const codeOf = (cause: unknown): string =>
  typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : ""

/** Returns the message of a driver's failure. */
export const messageOf = (cause: unknown): string => cause instanceof Error ? cause.message : String(cause)

/** Encodes a text as a key. Its characters are those that every database keeps: no NUL, and no half of a character. */
export const text = (key: string): string => plain.test(key) ? key : JSON.stringify(key).slice(1, -1)
// keys without characters that JSON escapes are their own encoding
const plain = /^[\x20-\x21\x23-\x5b\x5d-\x7e]*$/

/** Decodes what `text` encoded. A damaged key that is no JSON is returned as it is. */
export const fromText = (key: string): string => {
  if (!key.includes("\\")) return key
  try {
    return JSON.parse(`"${key}"`)
  } catch {
    return key
  }
}

/** Returns the id in a column that this library wrote. */
export const idOf = (column: unknown): MemoryId => MemoryId.make(String(column), { disableValidation: true })

/** Encodes the elements of `{each}`, each a row. */
export const each = (rows: ReadonlyArray<ReadonlyArray<string | number | null>>): string => JSON.stringify(rows)

/** Encodes the keys of `{in}`. */
export const keys = (all: Iterable<string>): string => JSON.stringify(Array.from(all, text))

/** Rows of one statement: enough to make up for the round trip, and few enough for one parameter of JSON. */
export const atATime = 500

/** Calls a function with up to `atATime` values at a time, and returns all that it returned. */
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

/** Parses JSON that this library wrote; fails with `corrupt` where it is none. */
export const parsed = <A>(location: string, json: unknown): Effect.Effect<A, MemoryError> =>
  Effect.try({
    try: () => JSON.parse(String(json)) as A, // it has the type that was written
    catch: (cause) =>
      Errors.make("corrupt", { op: "read", message: "a row that is no JSON", detail: { location }, cause })
  })
