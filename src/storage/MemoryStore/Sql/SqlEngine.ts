/**
 * An engine over a SQL database. The database stores the rows and their index terms. Each process caches recently searched indexes.
 *
 * A write is one transaction. The transaction locks the ids that it needs, even ids without a row. It also locks the version of each
 * partition to which it writes. A partition is the rows of one user, or of one agent: see `Rows.partitionOf`. Batches of different users do
 * not wait for each other if the database supports several writers. The module `Postgres` states the exceptions.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import * as Errors from "../../../domain/MemoryError.ts"
import { isInternal } from "../../../domain/MemoryScope.ts"
import * as Validation from "../../../domain/Validation.ts"
import * as SecureRandom from "../../../host/SecureRandom.ts"
import * as Analyzer from "../../../ranking/Analyzer.ts"
import { encode } from "../../../ranking/internal/OutlineIndex.ts"
import { fingerprint } from "../../../ranking/Tokenizer.ts"
import * as ChangeFeed from "../../ChangeFeed.ts"
import type { Decide, Engine, Entry, Found, Needs, Stored, Write } from "../../Engine.ts"
import { byAge, defaultTrash, isLive, revisionsKept } from "../../Revision.ts"
import { commit } from "./Commit.ts"
import { type Database, each, fromText, type Query } from "./Database.ts"
import * as Feed from "./Feed.ts"
import * as IndexCache from "./IndexCache.ts"
import * as Rows from "./Rows.ts"
import { metaOf, migrate, setMeta } from "./Tables.ts"
import * as VectorTable from "./VectorTable.ts"

/** Options of every store in a SQL database. */
export interface Options {
  /** Shortest time for which a forgotten record can be restored, unless the record expires earlier. Default 30 days. */
  readonly trash?: Duration.DurationInput | undefined
  /** Time between two polls for writes of other processes. Used only while a stream of changes is open. Default 500 ms. */
  readonly poll?: Duration.DurationInput | undefined
  /**
   * Largest size in bytes of the indexes that this process caches. Default 80 MB. The size is estimated: 1,000 bytes per record, and 1.2
   * bytes per number of a vector. An index with fewer than 262,144 numbers needs 4 bytes for each. The partitions of a single search may
   * exceed this size, until a later search evicts them. Recently read texts may take another eighth of this size.
   */
  readonly cacheSize?: number | undefined
}

type Io<A> = Effect.Effect<A, MemoryError>

interface Context {
  readonly name: string
  readonly database: Database
  /** Fingerprint of the configured analyzer. */
  readonly analyzer: string
  readonly writer: string
  readonly changeFeed: ChangeFeed.ChangeFeed
}

/** Makes an engine. Creates or migrates the tables if necessary. `name` is used in the engine's errors. */
export const make = (
  name: string,
  database: Database,
  { cacheSize = 80_000_000, poll = "500 millis", trash = defaultTrash }: Options = {}
): Io<Engine> =>
  Effect.gen(function*() {
    yield* Validation.refuseOptions(`${name}.make`, [
      ...Validation.timeIssues("poll", poll, { least: 1 }),
      ...Validation.timeIssues("trash", trash, { least: 0, infinite: true }),
      ...Validation.countIssues("cacheSize", cacheSize, 0)
    ])
    yield* migrate(name, database, yield* SecureRandom.secret)
    const analyzer = yield* Analyzer.Analyzer
    const context: Context = {
      name,
      database,
      analyzer: fingerprint(analyzer.index),
      writer: (yield* SecureRandom.secret).slice(0, 16),
      changeFeed: ChangeFeed.make()
    }
    const secret = yield* database.transaction((query) => begun(query, context))
    const indexes = IndexCache.make(database, analyzer, cacheSize)
    const { query, reading } = database
    return {
      capabilities: { writable: true, durable: true, shared: true, history: true },
      secret,
      analyzer: metaOf(query, "analyzer"),
      reindex: (made, entryOf) => reindex(database, made, entryOf),
      read: indexes.read,
      revisions: (tenant, id, limit) =>
        Effect.flatMap(reading, ({ query }) => Rows.revisions(query, tenant, id, limit)),
      transact: (tenant, needs, decide) => transact(context, tenant, needs, decide),
      page: (access, compiled, after, limit) =>
        Effect.flatMap(reading, (source) => Rows.page(source, access, compiled, after, limit)),
      match: (access, compiled, question) =>
        indexes.ask(access, (index, texts) => index.match(access, compiled, question, texts)),
      named: (access, compiled, names) =>
        Effect.flatMap(reading, (source) => Rows.byName(source, "n", access, compiled, names)),
      referring: (access, compiled, keys) =>
        Effect.flatMap(reading, (source) => Rows.byName(source, "r", access, compiled, keys)),
      due: (after, limit) => Rows.due(database, Duration.toMillis(trash), after, limit),
      overCap: (tenant, caps) => Rows.overCap(database, tenant, caps),
      tenants: names(query, "SELECT DISTINCT tenant FROM memory_partitions WHERE total > 0", []),
      tenantsWith: (scope) =>
        names(query, "SELECT DISTINCT tenant FROM memory_scopes WHERE scope = ? AND total > 0", [Rows.scopeKey(scope)]),
      changes: (tenant, convert) =>
        Stream.merge(
          context.changeFeed.stream(tenant, convert),
          Feed.others(database, { tenant, writer: context.writer, poll: Duration.decode(poll) }, convert)
        ),
      uses: VectorTable.uses(database),
      vectors: {
        ...VectorTable.make(database, indexes),
        prune: Effect.zipRight(VectorTable.prune(database), Feed.prune(database))
      }
    }
  })

const names = (query: Query, sql: string, parameters: ReadonlyArray<string>): Stream.Stream<string, MemoryError> =>
  Stream.fromIterableEffect(
    Effect.map(query(sql, parameters), (rows) => rows.map(([tenant]) => fromText(String(tenant))))
  )

/** Stores the analyzer's fingerprint if the store has no rows yet, and returns the store's secret. */
const begun = (query: Query, { analyzer }: Context): Io<string | undefined> =>
  Effect.gen(function*() {
    const [row] = yield* query("SELECT 1 FROM memory_records LIMIT 1")
    if (row === undefined) yield* setMeta(query, "analyzer", analyzer)
    return yield* metaOf(query, "secret")
  })

const transact = <A>(context: Context, tenant: string, needs: Needs, decide: Decide<A>): Io<A> => {
  const { changeFeed, database, name, writer } = context
  return Effect.map(
    database.transaction(
      (query) =>
        Effect.gen(function*() {
          yield* database.lock(query, tenant, needs)
          const gathered = yield* Rows.gather(query, tenant, needs)
          if (gathered.analyzer !== context.analyzer) return yield* otherAnalyzer(name)
          const found = yield* foundIn(query, tenant, needs, gathered)
          const { answer, isQuiet = false, writes } = yield* (decide.paced ?? decide)(found)
          if (writes.length > 0) {
            yield* commit(query, database, { tenant, now: found.now, rows: found.rows, writes, isQuiet, writer })
          }
          return { answer, found, writes, isQuiet }
        }),
      // this function runs right after the commit and cannot be interrupted, so that committed changes are always published
      ({ found, isQuiet, writes }) =>
        isQuiet || writes.length === 0
          ? Effect.void
          : changeFeed.publish(tenant, ChangeFeed.changesOf(found.rows, writes))
    ).pipe(Effect.tap(({ found, writes }) => isPurge(found.rows, writes) ? emptyLog(database) : Effect.void)),
    ({ answer }) => answer
  )
}

/** Whether writes purge a record that is not one of the library's own, such as a message that waits for extraction. */
const isPurge = (rows: Found["rows"], writes: ReadonlyArray<Write>): boolean =>
  writes.some(({ id, next }) => {
    const scope = rows.get(id)?.record.scope
    return next === undefined && scope !== undefined && !isInternal(scope)
  })

/** Removes erased texts from the log of writes. Best effort: the texts stay in the log while another process reads it. */
const emptyLog = ({ dialect, query }: Database): Effect.Effect<void> =>
  dialect.emptyLog === undefined
    ? Effect.void
    : Effect.catchAll(query(dialect.emptyLog), (error) =>
      Effect.logWarning("a purged text may still be in the log of writes", error))

const otherAnalyzer = (name: string) =>
  Errors.make("unsupported", {
    op: "commit",
    message: `${name}: another process has made its index by another analyzer. Provide that one, and open it again`
  })

const foundIn = (
  query: Query,
  tenant: string,
  { dedupeKeys, ids, revisions }: Needs,
  { withDedupeKeys, rows }: Rows.Gathered
): Io<Found> =>
  Effect.gen(function*() {
    const kept = yield* Effect.forEach(
      revisions,
      (id) => Effect.map(Rows.revisions(query, tenant, id, revisionsKept), (all) => [id, all] as const)
    )
    const now = yield* Clock.currentTimeMillis
    const liveWith = (key: string) =>
      withDedupeKeys.flatMap((row) => row.dedupeKey === key && isLive(row, now) ? [row.record] : [])
        .sort(byAge).slice(0, ids.length + 1)
    return {
      now,
      rows,
      byDedupeKey: new Map(dedupeKeys.map((key) => [key, liveWith(key)])),
      revisions: new Map(kept)
    }
  })

/** Number of rows that are read and indexed in one batch. */
const reindexed = 200

/** Replaces the stored terms of every row by the terms of the configured analyzer. */
const reindex = (database: Database, analyzer: string, entryOf: (stored: Stored) => Entry): Io<void> =>
  database.transaction((query) =>
    Effect.gen(function*() {
      let [tenant, id] = ["", ""]
      for (;;) {
        const rows = yield* query(
          `SELECT tenant, id, forgotten, dedupe, content FROM memory_records
           WHERE (tenant, id) > (?, ?) ORDER BY tenant, id LIMIT ?`,
          [tenant, id, reindexed]
        )
        const entries = yield* Effect.forEach(rows, ([tenant, id, ...row]) =>
          Effect.map(Rows.storedOf(row), (stored) => {
            const entry = entryOf(stored)
            const words = stored.forgotten ? "" : encode(stored.record, entry.terms, entry.length)
            return [String(tenant), String(id), words]
          }))
        yield* query(
          `UPDATE memory_records SET entry = e.value->>2 FROM {each} AS e
           WHERE memory_records.tenant = e.value->>0 AND memory_records.id = e.value->>1`,
          [each(entries)]
        )
        const last = rows.at(-1)
        if (last === undefined) break
        ;[tenant, id] = [String(last[0]), String(last[1])]
      }
      yield* query("UPDATE memory_partitions SET version = version + 1, floor = version + 1")
      yield* setMeta(query, "analyzer", analyzer)
    })
  )
