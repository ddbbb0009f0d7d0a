/**
 * A store in PostgreSQL, for any number of processes on any number of machines. It has its own subpath because it needs a driver: `npm
 * install @effect/sql-pg@0 @effect/sql@0 @effect/experimental@0 @effect/platform@0`. The server must be PostgreSQL 13 or later, and needs
 * no extension.
 *
 * Laws: batches of different users do not wait for each other. There are three exceptions. A batch with more than 128 ids and dedupe keys
 * locks its whole tenant until its transaction ends. Batches of one tenant that purge records wait for each other. So do batches of one
 * tenant that edit different records with the same text. Writes of other instances are visible at once, unless a `replica` is set. The
 * stream `changes` reports them within the time `poll`. Several instances may start at the same time. The store never takes part in a
 * transaction of the caller.
 *
 * ```ts
 * import { Redacted } from "effect"
 * import { Postgres } from "effect-memory/postgres"
 *
 * export const Store = Postgres.layer({ url: Redacted.make("postgres://localhost/memory"), maxConnections: 10 })
 * ```
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as MemoryError from "../../domain/MemoryError.ts"
import * as Validation from "../../domain/Validation.ts"
import type { Engine } from "../Engine.ts"
import type * as MemoryStore from "../MemoryStore.ts"
import { guarded } from "./Postgres/Connection.ts"
import { type Ask, watchStandby } from "./Postgres/Replica.ts"
import { codeOf, type Database, type Dialect, each, fromDriver, messageOf, type Once, text } from "./Sql/Database.ts"
import type * as SqlEngine from "./Sql/SqlEngine.ts"
import * as SqlStore from "./Sql/SqlStore.ts"

/** Options of a store in PostgreSQL. */
export interface Options extends SqlEngine.Options {
  /** URL of the server, `postgres://user:password@host:port/database`. Never printed. */
  readonly url: Redacted.Redacted
  /** Schema of the tables, created if missing. Default `public`. */
  readonly schema?: string | undefined
  /** Largest number of connections to each of the servers (the primary and the `replica`). Default 10. */
  readonly maxConnections?: number | undefined
  /** Time that a call waits for a connection before it fails with `unavailable`, at least 1 ms. Default 5 seconds. */
  readonly connectTimeout?: Duration.DurationInput | undefined
  /** Time that a statement may take before it fails with `unavailable`, at least 1 ms. Default 30 seconds. */
  readonly statementTimeout?: Duration.DurationInput | undefined
  /** A standby server for reads. Default: none; all reads go to the primary. */
  readonly replica?: ReplicaOptions | undefined
}

/** The standby server for reads, and how old its answers may be. */
export interface ReplicaOptions {
  /**
   * URL of the standby. It must have the same database and user as the URL of the primary. The user needs the same rights on the schema.
   * Never printed.
   */
  readonly url: Redacted.Redacted
  /**
   * Largest age of an answer, at least 1 ms. A write of another process becomes visible after this time at the latest, a write of this
   * process at once. Reads go to the primary while the standby is further behind than this, or does not answer. Writes, `changes`,
   * the use counts, tenants, compaction, and the list of models always use the primary.
   */
  readonly staleness: Duration.DurationInput
}

const functions = SqlStore.over("postgres", (options: Options) => open(options))

/** Makes only the engine, for callers that wrap the engine before they make a store from it. */
export const engine: (options: Options) => Effect.Effect<Engine, MemoryError.MemoryError, Scope.Scope> =
  functions.engine

/** Makes a store in a database. While the store is used, it compacts itself once an hour. */
export const make: (options: Options) => Effect.Effect<MemoryStore.Service, MemoryError.MemoryError, Scope.Scope> =
  functions.make

/** A store in the database, connected until the Effect scope of the layer closes. */
export const layer: (options: Options) => Layer.Layer<MemoryStore.MemoryStore, MemoryError.MemoryError> =
  functions.layer

/**
 * Rebuilds the index of a database with the configured analyzer. Run `reindex` after a change of the analyzer; until then, the database
 * cannot be opened. No other instance may be connected while `reindex` runs. Cost: reads and writes every row.
 */
export const reindex: (options: Options) => Effect.Effect<void, MemoryError.MemoryError> = functions.reindex

/** SQL expression for the id of the transaction that wrote a change. */
const xid = "CAST(CAST(CAST(position AS bigint) AS text) AS xid8)"

/**
 * SQL expression for the timeline of the server's log, followed by the server's start time. The value changes if the server is promoted,
 * restored or restarted. Data that were cached before are then invalid. On a standby, the value is NULL.
 */
const timeline = `CASE WHEN pg_is_in_recovery() THEN NULL
  ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || CAST(pg_postmaster_start_time() AS text) END`

const dialect: Dialect = {
  name: "postgres",
  each: "jsonb_array_elements(CAST(? AS jsonb))",
  // the keys form an array, because the planner would expect a hundred rows from a set, and then scan the table
  in: "= ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(? AS jsonb))))",
  vector: "encode(vector, 'hex')",
  history: "NULL",
  bytes: "bytea",
  exact: `COLLATE "C"`,
  position: "CAST(CAST(pg_current_xact_id() AS text) AS double precision)",
  // transactions do not commit in the order of their ids, so a snapshot tells which transactions had committed
  snapshot: "CAST(pg_current_snapshot() AS text)",
  isBetween: `NOT pg_visible_in_snapshot(${xid}, CAST(? AS pg_snapshot))
    AND pg_visible_in_snapshot(${xid}, CAST(? AS pg_snapshot))`,
  emptyLog: undefined, // the server vacuums its tables, and keeps its log for standbys and backups
  // row-level security: a role sees the tenant in the setting `effect_memory.tenant`, and nothing in `memory_meta`. The owner sees all rows
  guards: (tables) => [
    "ALTER TABLE memory_meta ENABLE ROW LEVEL SECURITY",
    ...tables.flatMap((table) => [
      `ALTER TABLE ${table} ENABLE ROW LEVEL SECURITY`,
      `DROP POLICY IF EXISTS memory_tenant ON ${table}`,
      `CREATE POLICY memory_tenant ON ${table} USING (tenant = current_setting('effect_memory.tenant', true))`
    ])
  ]
}

const open = (options: Options): Effect.Effect<Database, MemoryError.MemoryError, Scope.Scope> =>
  Effect.gen(function*() {
    const { connectTimeout = "5 seconds", maxConnections = 10, schema = "public", statementTimeout = "30 seconds" } =
      options
    yield* Validation.refuseOptions("postgres.make", [
      ...Validation.timeIssues("connectTimeout", connectTimeout, { least: 1 }),
      ...Validation.timeIssues("statementTimeout", statementTimeout, { least: 1 }),
      ...Validation.timeIssues("replica.staleness", options.replica?.staleness, { least: 1, infinite: true }),
      ...Validation.countIssues("maxConnections", maxConnections, 1)
    ])
    yield* checkSchema(schema)
    const url = yield* urlOf(options.url)
    const standby = options.replica === undefined ? undefined : yield* urlOf(options.replica.url)
    const failure = failuresOf(url, ...standby === undefined ? [] : [standby])
    const { PgClient, Reactivity } = yield* driver
    const connect = (size: number, settings: ReadonlyArray<string>, to = url) =>
      PgClient.make({
        url: Redacted.make(withSettings(to, settings)),
        maxConnections: size,
        connectTimeout,
        applicationName: "effect-memory"
      }).pipe(
        Effect.provide(Reactivity.layer),
        Effect.mapError(({ cause }) => failure("make", cause)),
        Effect.catchAllDefect((cause) => Effect.fail(failure("make", cause)))
      )
    const { history, settings } = yield* Effect.scoped(Effect.gen(function*() {
      const { reserve } = yield* connect(1, [])
      const connection = yield* Effect.mapError(reserve, ({ cause }) => failure("make", cause))
      return yield* prepare(
        schema,
        (sql, parameters) =>
          Effect.mapError(connection.executeValues(sql, parameters), ({ cause }) => failure("make", cause))
      )
    }))
    const time = Duration.toMillis(statementTimeout)
    const own = [`search_path=${identifier(schema)}`, `statement_timeout=${time}`, ...settings]
    // longer than the server's own time limit, so that the server ends a slow statement before the client does
    const patience = Duration.sum(Duration.millis(time), "5 seconds")
    const { once, reserve } = guarded((yield* connect(maxConnections, own)).reserve, patience)
    const askOf = ({ executeValues }: Once): Ask => (sql, parameters) =>
      Effect.mapError(executeValues(sql, parameters), ({ cause }) => failure("read", cause))
    const replicaAt = (url: URL, { staleness }: ReplicaOptions) =>
      Effect.gen(function*() {
        const parent = yield* Effect.scope
        let connected: Once | undefined
        // connects to the standby; tried again for each statement until a connection succeeds
        const joined = Effect.gen(function*() {
          const scope = yield* Scope.fork(parent, ExecutionStrategy.sequential)
          const { reserve } = yield* connect(maxConnections, own, url).pipe(
            Scope.extend(scope),
            Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
          )
          return connected = guarded(reserve, patience).once
        })
        const standby: Ask = (sql, parameters) =>
          Effect.flatMap(
            Effect.suspend(() => connected === undefined ? joined : Effect.succeed(connected)),
            (once) => askOf(once)(sql, parameters)
          )
        return {
          // `connected` is set, because reads go to the standby only after a successful check of the standby
          once: {
            executeValues: (sql: string, parameters: ReadonlyArray<unknown>) =>
              connected!.executeValues(sql, parameters),
            executeRaw: (sql: string, parameters: ReadonlyArray<unknown>) => connected!.executeRaw(sql, parameters)
          },
          ...(yield* watchStandby(askOf(once), standby, Duration.decode(staleness), history))
        }
      })
    return fromDriver({
      dialect: { ...dialect, history },
      reserve,
      once,
      replica: standby && options.replica && (yield* replicaAt(standby, options.replica)),
      // READ COMMITTED lets a transaction that waited for a lock see what other transactions committed meanwhile
      begin: "BEGIN ISOLATION LEVEL READ COMMITTED",
      written: numbered,
      failureOf: failure,
      isConflict: ({ cause }) => ["40001", "40P01"].includes(codeOf(cause)),
      pause: 5,
      attempts: 20,
      lock: (query, tenant, { dedupeKeys, ids }) => {
        const all = [...ids, ...dedupeKeys]
        // a large batch locks the whole tenant, since the server's table of locks is limited in size
        return all.length > maxRowLocks
          ? Effect.asVoid(query("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", [text(tenant)]))
          : Effect.asVoid(query(
            `SELECT pg_advisory_xact_lock_shared(hashtextextended(?, 0)), (SELECT count(pg_advisory_xact_lock(l.k)) FROM
               (SELECT DISTINCT hashtextextended(e.value->>0, 1) AS k FROM {each} AS e ORDER BY k) AS l)`,
            [text(tenant), each(all.map((key) => [text(`${tenant}\n${key}`)]))]
          ))
      }
    })
  })

interface Abilities {
  /** Settings of each connection. */
  readonly settings: ReadonlyArray<string>
  readonly history: Dialect["history"]
}

/** Checks that the server can keep a store, creates the schema if missing, and returns the features of the server. */
const prepare = (schema: string, ask: Ask): Effect.Effect<Abilities, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const [row = []] = yield* ask(
      `SELECT current_setting('server_version_num'), current_setting('server_encoding'), pg_is_in_recovery(),
         current_setting('transaction_read_only'), EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)`,
      [schema]
    )
    const [version, encoding, isStandby, isReadOnly, schemaExists] = row.map(String)
    if (Number(version) < 130_000) {
      return yield* unsupported(`the server is of version ${version}. Expected PostgreSQL 13 or later`)
    }
    if (encoding !== "UTF8") {
      return yield* unsupported(
        `the database is encoded in ${encoding}, which not every text can be. Expected one that was created with ENCODING 'UTF8'`
      )
    }
    if (isStandby === "true" || isReadOnly === "on") {
      return yield* MemoryError.make("read_only", {
        op: "make",
        message: isStandby === "true"
          ? "postgres: the server is a standby, and does not write. Use the url of the primary, or promote it"
          : "postgres: the role or the database is set to default_transaction_read_only. Use another role, or set it off"
      })
    }
    if (schemaExists === "false") {
      yield* ask(`CREATE SCHEMA IF NOT EXISTS ${identifier(schema)}`, []).pipe(
        // two sessions may create the schema at the same time; one of them then fails, but the schema exists
        Effect.catchIf(({ cause }) => ["23505", "42P06"].includes(codeOf(cause)), () => Effect.void)
      )
    }
    // lets the server end the statement of a client that has disconnected; skipped if the server lacks this setting
    const watching = "client_connection_check_interval"
    const canWatch = yield* Effect.option(ask("SELECT set_config($1, '1000', false)", [watching]))
    // `timeline` fails on servers whose log has no timelines; the history is then unknown (NULL)
    const history = yield* ask(`SELECT ${timeline}`, []).pipe(
      Effect.as(timeline),
      Effect.catchIf(({ reason }) => reason !== "unavailable", () => Effect.succeed("NULL"))
    )
    return { settings: Option.isSome(canWatch) ? [`${watching}=1000`] : [], history }
  })

const unsupported = (message: string): MemoryError.MemoryError =>
  MemoryError.make("unsupported", { op: "make", message: `postgres: ${message}` })

/** Largest number of ids and dedupe keys that a batch locks one by one. A larger batch locks its whole tenant. */
const maxRowLocks = 128

/** Loads the driver only when a store is made, since the driver is an optional dependency. */
const driver = Effect.tryPromise({
  try: async () => ({
    PgClient: await import("@effect/sql-pg/PgClient"),
    Reactivity: await import("@effect/experimental/Reactivity")
  }),
  catch: (cause) =>
    MemoryError.make("unsupported", {
      op: "make",
      message:
        "postgres: the driver is missing. npm install @effect/sql-pg@^0.53 @effect/sql@^0.52 @effect/experimental@^0.61",
      cause
    })
})

/** Parses the URL. Errors do not quote the URL, since it contains the password. */
const urlOf = (url: Redacted.Redacted): Effect.Effect<URL, MemoryError.MemoryError> => {
  const wrong = unsupported("url is none. Expected postgres://user:password@host:port/database")
  return Effect.try({
    try: () => {
      const all = new URL(Redacted.value(url))
      decodeURIComponent(all.username + all.password + all.pathname) // an invalid escape throws here, not later in the driver
      return all
    },
    catch: () => wrong
  }).pipe(Effect.filterOrFail(({ protocol }) => /^postgres(?:ql)?:$/.test(protocol), () => wrong))
}

/** Adds settings to the parameter `options` of a URL. The server applies the settings to each connection. */
const withSettings = (url: URL, settings: ReadonlyArray<string>): string => {
  const all = new URL(url)
  const given = all.searchParams.get("options")
  const own = settings.map((setting) => `-c ${setting.replaceAll(/[\\\s]/g, "\\$&")}`)
  all.searchParams.set("options", [...given === null ? [] : [given], ...own].join(" "))
  return all.href
}

/**
 * Refuses names that the server would reject (`pg_…`), shorten or replace (`$user`), and names with control characters. Otherwise, two long
 * names could stand for the same schema.
 */
const checkSchema = (schema: string): Effect.Effect<void, MemoryError.MemoryError> => {
  const bytes = new TextEncoder().encode(schema).length
  const isPlain = Array.from(schema).every((character) => character > "\x1f" && character !== "\x7f")
  const isName = bytes >= 1 && bytes <= 63 && schema.isWellFormed() && isPlain && !/^\$user$|^pg_/.test(schema)
  return isName
    ? Effect.void
    : unsupported("schema is no name for one. Expected 1..63 bytes, no control character, not $user, not pg_…")
}

const identifier = (name: string): string => `"${name.replaceAll("\"", "\"\"")}"`

/** Replaces each `?` of a statement by a numbered parameter (`$1`), as the driver expects. */
const numbered = (sql: string): string => {
  let n = 0
  return sql.replaceAll("?", () => `$${++n}`)
}

/** A failure of the driver that is safe to log. It has a message and a code, but no rows, parameters or settings. */
class DriverError extends Error {
  override readonly name = "DriverError"
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** Makes a function that converts driver failures to errors. The passwords of `urls` are removed from the messages. */
const failuresOf = (...urls: ReadonlyArray<URL>) => {
  const secrets = urls.flatMap(({ password }) => [password, decodeURIComponent(password)])
    .filter((secret) => secret !== "")
  return (op: string, cause: unknown): MemoryError.MemoryError => {
    const rawMessage = cause instanceof AggregateError ? cause.errors.map(messageOf).join("; ") : messageOf(cause)
    const redacted = secrets.reduce((text, secret) => text.replaceAll(secret, "***"), rawMessage)
    return failureOf(op, new DriverError(codeOf(cause), redacted))
  }
}

/** Converts a failure of the driver to an error. For the codes, see postgresql.org/docs/current/errcodes-appendix.html. */
const failureOf = (op: string, cause: DriverError): MemoryError.MemoryError => {
  const { code, message } = cause
  const unavailable = (message: string) =>
    MemoryError.make("unavailable", { op, message: `postgres: ${message}`, cause })
  switch (code) {
    case "57014":
      return unavailable("a statement took longer than statementTimeout")
    case "53300":
      return unavailable("the server has no connection left")
    case "53100":
      return MemoryError.make("io", { op, message: "postgres: the server's disk is full", cause })
    case "28P01":
    case "28000":
      return unavailable("the server refuses the user or the password of the url")
    case "3D000":
      return unavailable("there is no such database")
    case "25006":
    case "42501":
      return MemoryError.make("read_only", { op, message: "postgres: the server, or the role, does not write", cause })
    case "40001":
    case "40P01":
      return unavailable("other writers were in the way, again and again")
    case "55P03":
      return unavailable("a lock was not had in time")
    case "ENOENT":
      return unavailable("a file that the url names is not there")
  }
  if (/^(08|57P|53)/.test(code) || /^E[A-Z_]+$/.test(code)) return unavailable(`the server cannot be reached (${code})`)
  if (code.startsWith("XX")) {
    return MemoryError.make("corrupt", {
      op,
      message: "postgres: the data are damaged",
      detail: { location: "server" },
      cause
    })
  }
  if (/SASL|password/.test(message)) return unavailable("the server wants another password than that of the url")
  if (/SSL/.test(message)) return unavailable("the server and the url do not agree on SSL")
  if (code === "") return unavailable("no connection was had in time, or it was lost")
  return MemoryError.make("io", { op, message: `postgres: the server says ${code}`, cause })
}
