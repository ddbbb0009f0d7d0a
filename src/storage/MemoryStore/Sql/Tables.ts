/**
 * The tables of a SQL store, and the migrations from earlier releases.
 *
 * ```text
 * meta         version of the tables, fingerprint of the analyzer, secret
 * records      a row for each record or tombstone: its text, its terms and outline, and the columns of its indexes
 * revisions    up to nineteen earlier revisions of each record
 * names        hashes of the names of a record (role n), and of the names and ids that it refers to (role r)
 * scopes       the number of records of each scope and kind
 * partitions   a version for each partition (see `Rows.partitionOf`). Each batch that writes to a partition increments the version
 * gone         ids of records that a batch erased, or moved out of a partition. Each id has the partition's version after the batch
 * vectors      vectors, by model and hash of the text
 * models       dimensions of each model
 * litter       hashes of texts that may belong to no record any more, so that their vectors can be erased
 * uses         use counts of records
 * changes      recent writes, for listeners in other processes
 * ```
 *
 * The tables can be distributed by tenant without changes. The tenant is the first column of every primary key, except in `meta`. No key
 * comes from a sequence, and there are no foreign keys.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import * as Errors from "../../../domain/MemoryError.ts"
import type { Database, Dialect, Query } from "./Database.ts"

type Step = (dialect: Dialect) => ReadonlyArray<string>

/** The migrations, in order. The first one creates the tables. A released migration is never edited. */
const steps: ReadonlyArray<Step> = [
  ({ bytes, exact }) => [
    `CREATE TABLE memory_records (
      tenant text ${exact} NOT NULL, id text ${exact} NOT NULL, revision integer NOT NULL, forgotten integer NOT NULL,
      partition text ${exact} NOT NULL, version double precision NOT NULL, scope text ${exact} NOT NULL, kind text ${exact} NOT NULL,
      recency double precision NOT NULL, expires_at double precision, dedupe text ${exact}, hash text ${exact} NOT NULL,
      entry text NOT NULL, content text NOT NULL, PRIMARY KEY (tenant, id))`,
    "CREATE INDEX memory_records_version ON memory_records (tenant, partition, version, id)",
    "CREATE INDEX memory_records_scope ON memory_records (tenant, scope, forgotten, recency DESC, id)",
    "CREATE INDEX memory_records_recency ON memory_records (tenant, forgotten, recency DESC, id)",
    "CREATE INDEX memory_records_hash ON memory_records (tenant, hash)",
    "CREATE INDEX memory_records_dedupe ON memory_records (tenant, dedupe) WHERE dedupe IS NOT NULL",
    "CREATE INDEX memory_records_expiry ON memory_records (expires_at, tenant, id) WHERE expires_at IS NOT NULL",
    "CREATE INDEX memory_records_trash ON memory_records (recency, tenant, id) WHERE forgotten = 1",
    `CREATE TABLE memory_revisions (
      tenant text ${exact} NOT NULL, id text ${exact} NOT NULL, revision integer NOT NULL, forgotten integer NOT NULL,
      dedupe text ${exact}, content text NOT NULL, PRIMARY KEY (tenant, id, revision))`,
    `CREATE TABLE memory_names (
      tenant text ${exact} NOT NULL, role text ${exact} NOT NULL, name text ${exact} NOT NULL, id text ${exact} NOT NULL,
      PRIMARY KEY (tenant, name, role, id))`,
    "CREATE INDEX memory_names_id ON memory_names (tenant, id)",
    `CREATE TABLE memory_scopes (
      tenant text ${exact} NOT NULL, scope text ${exact} NOT NULL, kind text ${exact} NOT NULL, partition text ${exact} NOT NULL,
      user_id text ${exact}, agent_id text ${exact}, run_id text ${exact}, session_id text ${exact}, actor_id text ${exact},
      total integer NOT NULL, PRIMARY KEY (tenant, scope, kind))`,
    "CREATE INDEX memory_scopes_total ON memory_scopes (tenant, kind, total)",
    "CREATE INDEX memory_scopes_scope ON memory_scopes (scope, tenant)",
    ...["user_id", "agent_id", "run_id", "session_id", "actor_id"].map((field) =>
      `CREATE INDEX memory_scopes_${field} ON memory_scopes (tenant, ${field}) WHERE ${field} IS NOT NULL`
    ),
    `CREATE TABLE memory_partitions (
      tenant text ${exact} NOT NULL, partition text ${exact} NOT NULL, version double precision NOT NULL,
      floor double precision NOT NULL, total integer NOT NULL, PRIMARY KEY (tenant, partition))`,
    `CREATE TABLE memory_gone (
      tenant text ${exact} NOT NULL, partition text ${exact} NOT NULL, version double precision NOT NULL,
      id text ${exact} NOT NULL, PRIMARY KEY (tenant, partition, version, id))`,
    `CREATE TABLE memory_models (
      tenant text ${exact} NOT NULL, model text ${exact} NOT NULL, dimensions integer NOT NULL, version double precision NOT NULL,
      PRIMARY KEY (tenant, model))`,
    `CREATE TABLE memory_vectors (
      tenant text ${exact} NOT NULL, model text ${exact} NOT NULL, hash text ${exact} NOT NULL, vector ${bytes} NOT NULL,
      PRIMARY KEY (tenant, model, hash))`,
    "CREATE INDEX memory_vectors_hash ON memory_vectors (tenant, hash)",
    `CREATE TABLE memory_litter (
      tenant text ${exact} NOT NULL, hash text ${exact} NOT NULL, PRIMARY KEY (tenant, hash))`,
    `CREATE TABLE memory_uses (
      tenant text ${exact} NOT NULL, id text ${exact} NOT NULL, uses integer NOT NULL, accessed_at double precision,
      PRIMARY KEY (tenant, id))`,
    `CREATE TABLE memory_changes (
      tenant text ${exact} NOT NULL, position double precision NOT NULL, n integer NOT NULL, writer text ${exact} NOT NULL,
      at double precision NOT NULL, id text ${exact} NOT NULL, before text, revision integer,
      PRIMARY KEY (tenant, position, writer, n))`,
    "CREATE INDEX memory_changes_at ON memory_changes (at)",
    "CREATE INDEX memory_changes_position ON memory_changes (position)"
  ]
]

/** Version of the tables that this release reads and writes. */
export const current = steps.length

/**
 * Returns the version of the tables; 0 if `memory_meta` has no version yet. Fails if `memory_meta` is missing, or with `unsupported` if a
 * later release made the tables.
 */
export const checkVersion = (name: string, query: Query): Effect.Effect<number, MemoryError> =>
  Effect.gen(function*() {
    const version = Number((yield* metaOf(query, "version")) ?? 0)
    if (version <= current) return version
    return yield* Errors.make("unsupported", {
      op: "make",
      message: `${name}: its tables are of version ${version}, this release knows ${current}. Use a later release`
    })
  })

/**
 * Creates or migrates the tables, in one transaction. Stores `secret` if the tables have no secret. Fails if a later release made the
 * tables, and then changes nothing. Tables of the current version only cost one query, without a lock or a right to create tables.
 */
export const migrate = (name: string, database: Database, secret: string): Effect.Effect<void, MemoryError> =>
  Effect.gen(function*() {
    const known = yield* Effect.option(checkVersion(name, database.query)) // fails if there are no tables yet
    if (Option.contains(known, current)) return
    yield* database.transaction((query) =>
      Effect.gen(function*() {
        yield* database.lock(query, "", { ids: [], dedupeKeys: ["memory_meta"], revisions: [] })
        yield* query("CREATE TABLE IF NOT EXISTS memory_meta (name text PRIMARY KEY, value text NOT NULL)")
        const version = yield* checkVersion(name, query)
        if (version === current) return
        const statements = steps.map((step) => step(database.dialect))
        for (const statement of statements.slice(version).flat()) yield* query(statement)
        const tables = statements.flat().flatMap((statement) => /^CREATE TABLE (\w+)/.exec(statement)?.[1] ?? [])
        for (const statement of database.dialect.guards(tables)) yield* query(statement)
        yield* setMeta(query, "version", String(current))
        yield* query("INSERT INTO memory_meta (name, value) VALUES ('secret', ?) ON CONFLICT (name) DO NOTHING", [
          secret
        ])
      })
    )
  })

/** Reads a value of `memory_meta`. */
export const metaOf = (query: Query, name: string): Effect.Effect<string | undefined, MemoryError> =>
  Effect.map(
    query("SELECT value FROM memory_meta WHERE name = ?", [name]),
    ([row]) => row === undefined ? undefined : String(row[0])
  )

/** Writes a value of `memory_meta`. */
export const setMeta = (query: Query, name: string, value: string): Effect.Effect<void, MemoryError> =>
  Effect.asVoid(
    query(
      "INSERT INTO memory_meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
      [
        name,
        value
      ]
    )
  )
