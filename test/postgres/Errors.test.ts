import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as net from "node:net"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import { Postgres } from "../../src/postgres.ts"
import { refuses } from "../../src/testing/Law.ts"
import { ada, draft, get, listed, put, the } from "../../src/testing/Sample.ts"
import { type Cluster, hasClusters, throwAway } from "./Cluster.ts"
import { ask, place, report } from "./Server.ts"
import { holding, isReal, isSilent, named, opened, placeOf, raw, someoneWaits } from "./World.ts"

// printed once per run
console.log(`${report()}${hasClusters ? "" : "; no programs of a server here: no restart, passwords, replicas"}`)

const secret = "s3cr3t-Pa55"

/** Opens a store on a URL, which must fail, and returns the error. */
const refused = (url: string, options: Partial<Postgres.Options> = {}) =>
  Effect.flip(Effect.scoped(Postgres.make({ url: Redacted.make(url), connectTimeout: "2 seconds", ...options })))

describe("opening a PostgreSQL store", () => {
  for (
    const [what, url] of [
      ["a text that is no url", `${secret}@`],
      ["a url of another database", `mysql://ada:${secret}@127.0.0.1/memory`],
      ["an invalid port", `postgres://ada:${secret}@127.0.0.1:99999/memory`],
      ["an invalid escape", `postgres://ada:${secret}%zz@127.0.0.1/memory`]
    ] as const
  ) {
    it.live(`the option \`url\` with ${what} makes opening fail with \`unsupported\`; the error omits the url`, () =>
      Effect.gen(function*() {
        const error = yield* refused(url)
        assert.strictEqual(error.reason, "unsupported")
        assert.include(error.message, "postgres://user:password@host:port/database")
        isSilent(error, secret, url)
      }))
  }

  it.live("a refused connection makes opening fail with `unavailable`; the error omits the `url`", () =>
    Effect.gen(function*() {
      const port = yield* Effect.async<number>((resume) => {
        const probe = net.createServer().listen(0, "127.0.0.1", () => {
          const at = probe.address()
          probe.close(() => resume(Effect.succeed(typeof at === "object" && at !== null ? at.port : 0)))
        })
      })
      const url = `postgres://ada:${secret}@127.0.0.1:${port}/memory`
      const error = yield* refused(url)
      assert.strictEqual(error.reason, "unavailable")
      assert.include(error.message, "ECONNREFUSED")
      isSilent(error, secret, url)
    }))

  it.live("opening fails with `unavailable` if the server does not respond within `connectTimeout`", () =>
    Effect.scoped(Effect.gen(function*() {
      const sockets = new Set<net.Socket>()
      const mute = yield* Effect.acquireRelease(
        Effect.async<net.Server>((resume) => {
          const made = net.createServer((socket) => sockets.add(socket))
          made.listen(0, "127.0.0.1", () => resume(Effect.succeed(made)))
        }),
        (made) =>
          Effect.sync(() => {
            for (const socket of sockets) socket.destroy()
            made.close()
          })
      )
      const at = mute.address()
      const url = `postgres://ada:${secret}@127.0.0.1:${typeof at === "object" && at !== null ? at.port : 0}/memory`
      const error = yield* refused(url, { connectTimeout: "200 millis" })
      assert.strictEqual(error.reason, "unavailable")
      isSilent(error, secret, url)
    })))

  it.live("opening fails with the error `unavailable`, not with a defect, if a certificate file is missing", () =>
    Effect.gen(function*() {
      const url = `postgres://ada:${secret}@127.0.0.1:5432/memory?sslmode=verify-full&sslrootcert=/no/such.pem`
      const error = yield* refused(url)
      assert.strictEqual(error.reason, "unavailable")
      assert.include(error.message, "a file that the url names")
      isSilent(error, secret, url)
    }))

  it.live("opening fails with `unsupported` if the schema name is empty, too long, reserved, or contains a control character or lone surrogate", () =>
    Effect.gen(function*() {
      for (const schema of ["", "x".repeat(64), "é".repeat(32), "$user", "pg_temp", "a\0b", "a\nb", "\ud800"]) {
        const error = yield* refused(`postgres://ada:${secret}@127.0.0.1:1/memory`, { schema })
        assert.deepStrictEqual([error.reason, error.op], ["unsupported", "make"], JSON.stringify(schema))
      }
    }))
})

if (isReal) {
  describe("a busy PostgreSQL server", () => {
    it.scopedLive("a statement that exceeds `statementTimeout` fails with `unavailable`, and later calls work", () =>
      Effect.gen(function*() {
        const at = yield* place
        const patient = yield* opened(at)
        const { id } = yield* put(patient, draft("tea"))
        const store = yield* opened(at, { statementTimeout: "500 millis" })
        const error = yield* Effect.scoped(Effect.zipRight(
          holding(at, "LOCK TABLE memory_records"),
          refuses("unavailable", put(store, draft("coffee")))
        ))
        assert.include(error.message, "statementTimeout")
        isSilent(error, "coffee", Redacted.value(at.url))
        assert.deepStrictEqual(yield* listed(patient, ada), ["tea"])
        // on a busy machine any statement may exceed the timeout
        const goesOn = <A>(call: Effect.Effect<A, MemoryError>) =>
          Effect.retry(call, { while: ({ reason }) => reason === "unavailable" })
        assert.strictEqual((yield* goesOn(get(store, ada, id)))?.body, "tea")
        yield* goesOn(put(store, draft("coffee")))
        assert.include(yield* listed(patient, ada), "coffee")
      }))

    it.scopedLive("a call that gets no connection within `connectTimeout` fails with `unavailable`, and later calls work", () =>
      Effect.gen(function*() {
        const at = named(yield* place)
        const store = yield* opened(at, { maxConnections: 1, connectTimeout: "200 millis" })
        const { id } = yield* put(store, draft("tea"))
        const waiting = yield* Effect.scoped(Effect.gen(function*() {
          yield* holding(at, "LOCK TABLE memory_records")
          const waiting = yield* Effect.forkDaemon(put(store, draft("coffee")))
          yield* someoneWaits(at)
          const error = yield* refuses("unavailable", get(store, ada, id))
          isSilent(error, Redacted.value(at.url))
          return waiting
        }))
        assert.strictEqual((yield* Fiber.join(waiting)).body, "coffee")
        assert.strictEqual((yield* get(store, ada, id))?.body, "tea")
      }))
  })

  describe("opening a PostgreSQL store", () => {
    it.scopedLive("opening fails with `unavailable` if the database does not exist, and the error does not contain the `url`", () =>
      Effect.gen(function*() {
        const { url } = yield* place
        const all = new URL(Redacted.value(url))
        all.pathname = "/no_such_database"
        const error = yield* refused(all.href)
        assert.strictEqual(error.reason, "unavailable")
        assert.include(error.message, "no such database")
        isSilent(error, all.href)
      }))
  })
}

/** A cluster that asks for a password over TCP, with a database that no store can use, and roles that can open only some stores or none. */
const withPasswords = Effect.gen(function*() {
  const cluster = yield* throwAway
  const [row] = yield* ask(
    cluster.url,
    `ALTER ROLE postgres PASSWORD '${secret}'`,
    `CREATE ROLE crowded LOGIN PASSWORD '${secret}' CONNECTION LIMIT 0`,
    `CREATE ROLE reader LOGIN PASSWORD '${secret}'`,
    "ALTER ROLE reader SET default_transaction_read_only = on",
    `CREATE ROLE guest LOGIN PASSWORD '${secret}'`,
    "CREATE SCHEMA given AUTHORIZATION guest",
    "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    "SHOW hba_file"
  )
  fs.writeFileSync(String(row?.[0]), "host all all 127.0.0.1/32 scram-sha-256\n")
  yield* ask(cluster.url, "SELECT pg_reload_conf()")
  return cluster
})

const urlOf = ({ port }: Cluster, user: string, password: string, rest = "postgres") =>
  `postgres://${user}:${password}@127.0.0.1:${port}/${rest}`

if (hasClusters) {
  // `layer` of @effect/vitest would change `it` for the files that this worker runs next
  describe("a PostgreSQL server with passwords", () => {
    const scope = Effect.runSync(Scope.make())
    let cluster: Cluster
    beforeAll(async () => {
      cluster = await Effect.runPromise(Scope.extend(withPasswords, scope))
    })
    afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))

    for (
      const [what, user, password, rest, reason, says] of [
        ["a wrong password", "postgres", "wrong-Pa55", "postgres", "unavailable", "user or the password"],
        ["no password", "postgres", "", "postgres", "unavailable", "password"],
        ["an unknown user", "nobody", secret, "postgres", "unavailable", "user or the password"],
        ["a role without a free connection", "crowded", secret, "postgres", "unavailable", "no connection left"],
        ["a role that only reads", "reader", secret, "postgres", "read_only", "default_transaction_read_only"],
        ["a role that may not create a schema", "guest", secret, "postgres", "read_only", "does not write"],
        ["a database that cannot hold every text", "postgres", secret, "latin", "unsupported", "ENCODING 'UTF8'"],
        [
          "SSL, which the server does not support",
          "postgres",
          secret,
          "postgres?sslmode=verify-full",
          "unavailable",
          "SSL"
        ]
      ] as const
    ) {
      it.live(`opening a store with ${what} fails with ${reason}, and the error contains no password`, () =>
        Effect.gen(function*() {
          const url = urlOf(cluster, user, password, rest)
          const error = yield* refused(url, { schema: "memories" })
          assert.strictEqual(error.reason, reason, error.message)
          assert.include(error.message, says)
          isSilent(error, secret, "wrong-Pa55", url)
        }))
    }

    it.scopedLive("a role that may not create a schema can open a store in a schema that it owns", () =>
      Effect.gen(function*() {
        const store = yield* opened(placeOf(urlOf(cluster, "guest", secret), "given"))
        yield* put(store, draft("tea"))
        assert.deepStrictEqual(yield* listed(store, ada), ["tea"])
      }))

    it.scopedLive("a role that may not create tables can open a store whose tables it owns", () =>
      Effect.gen(function*() {
        const at = placeOf(urlOf(cluster, "guest", secret), "given")
        const written = yield* Effect.scoped(Effect.flatMap(opened(at), (store) => put(store, draft("coffee"))))
        const admin = placeOf(urlOf(cluster, "postgres", secret), "public")
        yield* raw(admin, "REVOKE CREATE ON SCHEMA given FROM guest")
        const store = yield* opened(at)
        assert.strictEqual((yield* the(store, ada, written.id)).body, "coffee")
        yield* raw(admin, "GRANT CREATE ON SCHEMA given TO guest")
      }))

    it.scopedLive("new connections of an open store fail with `unavailable` while the password in the store's `url` is wrong", () =>
      Effect.gen(function*() {
        const at = placeOf(urlOf(cluster, "guest", secret), "given")
        const store = yield* opened(at)
        const admin = placeOf(urlOf(cluster, "postgres", secret), "public")
        yield* raw(
          admin,
          "ALTER ROLE guest PASSWORD 'another'",
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guest'"
        )
        const error = yield* refuses("unavailable", Effect.forever(listed(store, ada)))
        isSilent(error, secret)
        yield* raw(admin, `ALTER ROLE guest PASSWORD '${secret}'`)
        yield* Effect.retry(listed(store, ada), { while: ({ reason }) => reason === "unavailable" })
      }))
  })
}
