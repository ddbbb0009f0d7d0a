/** Helpers of the PostgreSQL tests: opening stores, running statements beside them, and checking that errors leak no secret. */
import * as Reactivity from "@effect/experimental/Reactivity"
import * as PgClient from "@effect/sql-pg/PgClient"
import { assert } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { inspect } from "node:util"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import { Postgres } from "../../src/postgres.ts"
import { MemoryStore, type Service } from "../../src/storage/MemoryStore.ts"
import { ask, type Place, server } from "./Server.ts"

/**
 * Whether the tests run on a real server and not on PGlite. On a real server a store can have several connections, and several stores can
 * share a schema.
 */
export const isReal = server.url !== undefined

/** Opens a store until the scope closes. */
export const opened = (
  place: Place,
  options: Partial<Postgres.Options> = {}
): Effect.Effect<Service, MemoryError, Scope.Scope> =>
  Effect.map(Layer.build(Postgres.layer({ ...place, ...options })), Context.get(MemoryStore))

/** Returns the place (where a store keeps its tables) of a schema on the server with this URL. */
export const placeOf = (url: string, schema: string): Place => ({
  url: Redacted.make(url),
  schema,
  maxConnections: 10
})

let schemas = 0

/** A schema that does not exist yet, dropped when the scope closes; for tests that need a new schema or change its tables. */
export const noSchema: Effect.Effect<Place, never, Scope.Scope> = Effect.suspend(() => {
  const schema = `memory_test_${process.pid}_own_${schemas++}`
  return Effect.acquireRelease(
    Effect.succeed(placeOf(server.url!, schema)), // only used on a real server, which has a url
    ({ url }) => Effect.orDie(ask(Redacted.value(url), `DROP SCHEMA IF EXISTS ${schema} CASCADE`))
  )
})

/** Runs statements in the schema of a place, not through its store; returns the rows of the last. */
export const raw = ({ schema, url }: Place, ...statements: ReadonlyArray<string>) =>
  Effect.orDie(ask(Redacted.value(url), `SET search_path TO "${schema}"`, ...statements))

/** Opens a connection with an open transaction, and runs the statements in it. Rolls back when the scope closes. */
export const holding = ({ schema, url }: Place, ...statements: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const sql = yield* Effect.provide(PgClient.make({ url, maxConnections: 1 }), Reactivity.layer)
    const connection = yield* sql.reserve
    const run = (statement: string) => connection.executeUnprepared(statement, [], undefined)
    yield* run(`SET search_path TO "${schema}"`)
    yield* run("BEGIN")
    yield* Effect.addFinalizer(() => Effect.ignore(run("ROLLBACK")))
    for (const statement of statements) yield* run(statement)
    return run
  }).pipe(Effect.orDie)

/** The real clock, since a server takes real time even under a `TestClock`. */
const realTime = Clock.make()

/** Waits until the condition holds, polling every 10 ms. Vitest's timeout ends a test that hangs. */
export const eventually = <E, R>(condition: Effect.Effect<boolean, E, R>): Effect.Effect<void, E, R> =>
  condition.pipe(
    Effect.repeat({ until: (holds) => holds, schedule: Schedule.spaced("10 millis") }),
    Effect.withClock(realTime),
    Effect.asVoid
  )

/** Returns the place with an `application_name` in its URL, so that its connections can be told from those of other tests. */
export const named = (at: Place): Place => {
  const url = new URL(Redacted.value(at.url))
  url.searchParams.set("application_name", at.schema)
  return { ...at, url: Redacted.make(url.href) }
}

/** Counts a place's connections that wait for a lock. The place must come from `named`. */
export const waiters = (at: Place) =>
  Effect.map(
    raw(at, `SELECT count(*) FROM pg_stat_activity WHERE ${isOf(at)} AND wait_event_type = 'Lock'`),
    ([row]) => Number(row?.[0])
  )

/** Waits until a connection to a place that `named` has made waits for a lock. */
export const someoneWaits = (at: Place) => eventually(Effect.map(waiters(at), (count) => count > 0))

/** Terminates every connection to a place that `named` has made, from a connection with another name. */
export const dropConnections = (at: Place) => {
  const url = new URL(Redacted.value(at.url))
  url.searchParams.delete("application_name")
  return Effect.orDie(ask(url.href, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${isOf(at)}`))
}

const isOf = ({ schema }: Place): string => `application_name = '${schema}' AND pid <> pg_backend_pid()`

/** Returns an error as text, printed in several ways, with its hidden properties, stack and cause. */
const printed = (error: unknown): string =>
  [
    String(error),
    JSON.stringify(error),
    JSON.stringify(Object.getOwnPropertyDescriptors(error)),
    inspect(error, { depth: null, showHidden: true }),
    Cause.pretty(Cause.fail(error)),
    Cause.pretty(Cause.fail(error), { renderErrorCause: true }),
    error instanceof Error ? `${error.stack} ${inspect(error.cause, { depth: null, showHidden: true })}` : ""
  ].join("\n")

/** Asserts that the error contains none of these secrets, in any form that `printed` returns. */
export const isSilent = (error: unknown, ...secrets: ReadonlyArray<string>): void => {
  const all = printed(error)
  for (const secret of secrets) assert.notInclude(all, secret)
}
