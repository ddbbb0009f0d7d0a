/**
 * Whether a database answers as memory does: the documents of each collection are stored in memory and copied into SQLite and
 * PostgreSQL, and every query is asked of all three.
 *
 *   npm run same -- DIR… [--url postgres://…]
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import { Effect, Redacted } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { Postgres } from "../dist/postgres.js"
import { Sqlite } from "../dist/sqlite.js"
import { load, Refusal } from "./dataset.mjs"
import { compare } from "./evaluation.mjs"

const { positionals, values } = parseArgs({ allowPositionals: true, options: { url: { type: "string" } } })
const url = values.url ?? process.env.EFFECT_MEMORY_TEST_PG_URL ?? "postgres://postgres@127.0.0.1:5432/test"

const schema = `same_${process.pid}`
const drop = Effect.flatMap(PgClient.PgClient, (sql) => sql.unsafe(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)).pipe(
  Effect.provide(PgClient.layer({ url: Redacted.make(url) }))
)

try {
  if (positionals.length === 0) throw new Refusal("npm run same -- DIR… [--url postgres://…]")
  for (const dir of positionals) {
    const folder = mkdtempSync(join(tmpdir(), "effect-memory-same-"))
    const found = await compare(load(dir), {
      SQLite: Sqlite.layer({ filename: join(folder, "memory.db") }),
      PostgreSQL: Postgres.layer({ url: Redacted.make(url), schema })
    }, () => {})
    await Effect.runPromise(drop)
    rmSync(folder, { recursive: true })
    for (const [name, { differing, queries, records }] of Object.entries(found)) {
      console.log(
        `${dir}: ${name} answers ${
          queries - differing.length
        } of ${queries} queries as memory does (${records} records)`
      )
      if (differing.length > 0) process.exitCode = 1
    }
  }
} catch (error) {
  if (!(error instanceof Refusal)) throw error
  console.error(error.message)
  process.exitCode = 1
}
