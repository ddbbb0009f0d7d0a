/**
 * The PostgreSQL that the tests run on: the one that `EFFECT_MEMORY_TEST_PG_URL` names, else one of this machine, else PGlite, which is
 * PostgreSQL in WebAssembly and needs no installation. `EFFECT_MEMORY_TEST_PG_URL=pglite` forces PGlite. The choice is made when a test
 * file is collected, so that no test is skipped.
 */
import * as Reactivity from "@effect/experimental/Reactivity"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import { Postgres } from "../../src/postgres.ts"
import type { MemoryStore } from "../../src/storage/MemoryStore.ts"

export interface Server {
  readonly name: "EFFECT_MEMORY_TEST_PG_URL" | "the server of this machine" | "PGlite"
  /** The version that the server states; a fixed text for PGlite. */
  readonly version: string
  /** The address of the server; `undefined` for PGlite, where each store has its own server. */
  readonly url: string | undefined
}

/** A schema on a server, in which a test opens a store. */
export interface Place {
  readonly url: Redacted.Redacted
  readonly schema: string
  /** Maximum number of connections of a store. */
  readonly maxConnections: number
}

/** Connects to a server until the scope closes; fails as the driver does. */
export const connect = (url: string) =>
  Effect.provide(
    PgClient.make({ url: Redacted.make(url), maxConnections: 1, connectTimeout: "5 seconds" }),
    Reactivity.layer
  )

/** Runs statements in order on a new connection; returns the rows of the last as arrays. */
export const ask = (url: string, ...statements: ReadonlyArray<string>) =>
  Effect.scoped(Effect.gen(function*() {
    const sql = yield* connect(url)
    let rows: ReadonlyArray<ReadonlyArray<unknown>> = []
    for (const statement of statements) rows = yield* sql.unsafe(statement).values
    return rows
  }))

const versionOf = (url: string) =>
  Effect.map(ask(url, "SHOW server_version"), ([row]) => `PostgreSQL ${String(row?.[0])}`)

const found: Effect.Effect<Server> = Effect.gen(function*() {
  const given = process.env["EFFECT_MEMORY_TEST_PG_URL"]
  if (given !== undefined && given !== "pglite") {
    return { name: "EFFECT_MEMORY_TEST_PG_URL", version: yield* Effect.orDie(versionOf(given)), url: given } as const
  }
  for (const database of given === undefined ? ["test", "postgres"] : []) {
    const url = `postgres://postgres@127.0.0.1:5432/${database}`
    const version = yield* Effect.option(versionOf(url))
    if (version._tag === "Some") return { name: "the server of this machine", version: version.value, url } as const
  }
  return { name: "PGlite", version: "PostgreSQL 18, one connection at a time", url: undefined } as const
})

export const server: Server = await Effect.runPromise(found)

/** Describes the server that the tests ran on; printed once per run. */
export const report = (): string =>
  `postgres tests: ${server.name} (${server.version})${
    server.url === undefined
      ? "; not shown: several connections at once, several instances, interruption, restart, passwords, replicas, clusters"
      : ""
  }`

/** Adds settings to a URL. Every connection that is opened with the URL starts with them. */
export const withSettings = (url: string, ...settings: ReadonlyArray<string>): string => {
  const all = new URL(url)
  const given = all.searchParams.get("options")
  const own = settings.map((setting) => `-c ${setting}`)
  all.searchParams.set("options", [...given === null ? [] : [given], ...own].join(" "))
  return all.href
}

let places = 0

const quoted = (schema: string): string => `"${schema.replaceAll("\"", "\"\"")}"`

/** Emptied schemas that no store uses at the moment. They are reused, since creating the tables takes longer than most tests. */
const spareSchemas: Array<string> = []

/** Connections by URL that stay open until the process ends, since connecting takes longer than most statements. */
const standing = new Map<string, Promise<PgClient.PgClient>>()
const standingAt = (url: string) =>
  Effect.promise(() => {
    const known = standing.get(url) ??
      Effect.runPromise(Effect.flatMap(Scope.make(), (scope) => Scope.extend(connect(url), scope)))
    standing.set(url, known)
    return known
  })

/** Deletes the rows of a store's tables except `memory_meta`; returns `false` if there are no such tables: the schema must be dropped. */
const empty = (url: string, schema: string) =>
  Effect.gen(function*() {
    const sql = yield* standingAt(url)
    const tables = yield* sql.unsafe(
      `SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
       WHERE n.nspname = '${schema}' AND c.relkind = 'r' AND c.relname LIKE 'memory\\_%' AND c.relname <> 'memory_meta'`
    ).values
    if (tables.length === 0) return false
    yield* sql.unsafe(tables.map(([table]) => `DELETE FROM ${quoted(schema)}.${String(table)}`).join("; "))
    return true
  })

/** An empty schema of a server. No other caller gets it until the scope closes. */
const ofServer = (url: string): Effect.Effect<Place, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => spareSchemas.pop() ?? `memory_test_${process.pid}_${places++}`),
      (name) =>
        Effect.orDie(Effect.flatMap(empty(url, name), (isSpare) =>
          isSpare
            ? Effect.sync(() => void spareSchemas.push(name))
            : ask(url, `DROP SCHEMA IF EXISTS ${quoted(name)} CASCADE`)))
    ),
    (schema) => ({
      // the server need not wait for the disk, since no test simulates a power failure
      url: Redacted.make(withSettings(url, "synchronous_commit=off")),
      schema,
      maxConnections: 10
    })
  )

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Drops the schemas of test processes that have ended. */
const tidy = (url: string) =>
  Effect.gen(function*() {
    const schemas = yield* ask(url, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'memory\\_test\\_%'")
    for (const name of schemas.map(([name]) => String(name))) {
      if (!isAlive(Number(name.split("_")[2]))) yield* ask(url, `DROP SCHEMA IF EXISTS ${quoted(name)} CASCADE`)
    }
  })
if (server.url !== undefined) await Effect.runPromise(Effect.option(tidy(server.url)))

/** PGlite servers that no store uses at the moment. Each has one schema, since all of its connections share one session. */
const spare: Array<Lite> = []

interface Lite {
  readonly url: string
  readonly clear: () => Promise<unknown>
}

const startLite = async (): Promise<Lite> => {
  const { PGlite } = await import("@electric-sql/pglite")
  const { PGLiteSocketServer } = await import("@electric-sql/pglite-socket")
  const db = await PGlite.create()
  const socket = new PGLiteSocketServer({ db, host: "127.0.0.1", port: 0, maxConnections: 20 })
  await socket.start()
  return {
    url: `postgres://postgres@${socket.getServerConn()}/postgres`,
    clear: () => db.exec("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
  }
}

const ofLite: Effect.Effect<Place, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.promise(async () => spare.pop() ?? await startLite()),
    (lite) =>
      Effect.promise(async () => {
        await lite.clear()
        spare.push(lite)
      })
  ),
  ({ url }) => ({ url: Redacted.make(url), schema: "public", maxConnections: 1 })
)

/** An empty place for a store, cleared when the scope closes. On a real server several stores may share it. */
export const place: Effect.Effect<Place, never, Scope.Scope> = Effect.suspend(() =>
  server.url === undefined ? ofLite : ofServer(server.url)
)

/**
 * A layer whose every build makes an empty store in its own schema. The store polls hourly, since no other process writes there, and laws
 * that advance the clock by days would otherwise poll all along.
 */
export const postgres: Layer.Layer<MemoryStore, MemoryError> = Layer.unwrapScoped(
  Effect.map(place, (place) => Postgres.layer({ ...place, poll: "1 hour" }))
)
