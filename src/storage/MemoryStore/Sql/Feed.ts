/**
 * The stream of changes that other engines make after the subscription, in this process or another. The stream polls the table of changes.
 */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { Change, Event } from "../../Engine.ts"
import { revisionsKept } from "../../Revision.ts"
import { batchSize, type Database, idOf, parsed, type Row, text } from "./Database.ts"
import { revisions } from "./Rows.ts"

/** The tenant and engine of a feed, and how often it polls. */
export interface Options {
  readonly tenant: string
  /** Random id of the engine. The feed skips the changes of this engine, since its listeners are notified directly. */
  readonly writer: string
  /** Time between two polls. */
  readonly poll: Duration.Duration
}

/** Least time in milliseconds for which a change is kept in the table. A listener that polls at shorter intervals misses no change. */
const kept = 3_600_000
/**
 * Number of the newest versions of a partition for which the table `memory_gone` has ids. These are the ids of records that were erased or
 * moved to another partition. A process needs these ids to update its cached partition. If the cache is older, the partition is read anew.
 */
const behind = 10_000

/** Deletes old changes, and old entries of `memory_gone`. Runs with each compaction. */
export const prune = ({ transaction }: Database): Effect.Effect<void, MemoryError> =>
  transaction((query) => pruned(query))

const pruned = (query: Database["query"]): Effect.Effect<void, MemoryError> =>
  Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    // keeps the last change, since SQLite computes the position of the next change from it
    yield* query(
      "DELETE FROM memory_changes WHERE at < ? AND position < (SELECT max(last.position) FROM memory_changes AS last)",
      [now - kept]
    )
    const trimmed = yield* query(
      `DELETE FROM memory_gone WHERE EXISTS
         (SELECT 1 FROM memory_partitions AS p WHERE p.tenant = memory_gone.tenant AND p.partition = memory_gone.partition
            AND memory_gone.version < p.version - CAST(? AS double precision))
       RETURNING tenant, partition`,
      [behind]
    )
    for (const key of new Set(trimmed.map((row) => JSON.stringify(row)))) {
      const [tenant, partition] = JSON.parse(key) as [string, string] // each key encodes a tenant and a partition
      yield* query("UPDATE memory_partitions SET floor = version - ? WHERE tenant = ? AND partition = ?", [
        behind,
        tenant,
        partition
      ])
    }
  })

/**
 * Streams each change of another engine once, if `convert` returns a value for the change. A poll reads the changes that were committed
 * between two snapshots. A change is therefore not missed if its transaction commits late. An open transaction does not delay other
 * changes. The changes of one record come in the order of their commits.
 */
export const others = <A>(
  database: Database,
  { poll, tenant, writer }: Options,
  convert: (event: Event, now: number) => A | undefined
): Stream.Stream<A, MemoryError> =>
  Stream.unwrap(
    Effect.map(snapshotOf(database), (last) =>
      Stream.paginateChunkEffect<PollState, A, MemoryError, never>(
        { after: last, until: last, startAfter: beginning },
        (state) =>
          Effect.gen(function*() {
            const isNew = state.after === state.until
            if (isNew) {
              yield* Effect.sleep(poll)
            }
            const until = isNew ? yield* snapshotOf(database) : state.until
            const rows = state.after === until ? [] : yield* rowsOf(database, tenant, { ...state, until })
            const now = yield* Clock.currentTimeMillis
            const converted: Array<A> = []
            for (const row of rows) {
              if (row[2] === writer) {
                continue
              }
              const change = convert(yield* changeOf(database, tenant, row), now)
              if (change !== undefined) {
                converted.push(change)
              }
            }
            const end = rows.at(-1)
            const next: PollState = end === undefined || rows.length < batchSize
              ? { after: until, until, startAfter: beginning }
              : { after: state.after, until, startAfter: [Number(end[0]), Number(end[1])] }
            return [Chunk.unsafeFromArray(converted), Option.some(next)] as const
          }).pipe(
            // polls again from the same snapshot if the database was unavailable, so that the stream survives a lost connection
            Effect.retry({
              while: ({ reason }) => reason === "unavailable",
              schedule: Schedule.spaced(poll)
            })
          )
      ))
  )

/** A poll reads the changes between the snapshots `after` and `until`. The poll starts after the position `startAfter`. */
interface PollState {
  readonly after: string
  readonly until: string
  readonly startAfter: FeedPosition
}
type FeedPosition = readonly [position: number, n: number]
const beginning: FeedPosition = [-1, -1]

const snapshotOf = ({ dialect, query }: Database): Effect.Effect<string, MemoryError> =>
  Effect.map(query(`SELECT ${dialect.snapshot}`), ([row]) => String(row![0])) // the statement returns exactly one row

const rowsOf = (
  { dialect, query }: Database,
  tenant: string,
  { after, startAfter: [position, n], until }: PollState
): Effect.Effect<ReadonlyArray<Row>, MemoryError> =>
  query(
    `SELECT position, n, writer, id, before, revision FROM memory_changes
     WHERE tenant = ? AND position >= ? AND ${dialect.isBetween} AND (position > ? OR (position = ? AND n > ?))
     ORDER BY position, n LIMIT ?`,
    // a snapshot starts with the position below which every transaction has ended; `parseFloat` reads only this position
    [text(tenant), Number.parseFloat(after), after, until, position, position, n, batchSize]
  )

const changeOf = (
  { query }: Database,
  tenant: string,
  [, , , id, before, revision]: Row
): Effect.Effect<Change, MemoryError> =>
  Effect.gen(function*() {
    const own = idOf(id)
    const known = before === null ? undefined : yield* parsed<NonNullable<Change["before"]>>("memory_changes", before)
    const after = revision === null ? undefined : yield* recordAt(query, tenant, own, Number(revision))
    return { id: own, before: known, after, by: "there" }
  })

/** Returns a revision of a record, or the earliest kept revision after it. `undefined` for a tombstone, or if there is no such revision. */
const recordAt = (query: Database["query"], tenant: string, id: MemoryId, revision: number) =>
  Effect.gen(function*() {
    const all = yield* revisions(query, tenant, id, revisionsKept)
    const row = all.findLast(({ record }) => record.revision >= revision)
    return row === undefined || row.forgotten ? undefined : row.record
  })
