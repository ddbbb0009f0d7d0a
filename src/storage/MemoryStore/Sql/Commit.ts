/**
 * Writes a batch, that is, all writes of one transaction. Most statements write many rows. The batch changes rows, revisions, names, record
 * counts and partition versions. A partition is a group of scopes that are indexed together: see `Rows.partitionOf`.
 */
import * as Effect from "effect/Effect"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { hashOf, recencyOf } from "../../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../../domain/MemoryScope.ts"
import * as OutlineIndex from "../../../ranking/internal/OutlineIndex.ts"
import type { Entry, Stored, Write } from "../../Engine.ts"
import { revisionsKept } from "../../Revision.ts"
import { batchSize, type Database, type Dialect, keys, type Query, text } from "./Database.ts"
import { type Cells, insert, type Statement } from "./Insert.ts"
import { contentOf, idColumns, nameKey, partitionOf, scopeKey } from "./Rows.ts"

/** A batch: the writes of one transaction. */
export interface Batch {
  readonly tenant: string
  readonly now: number
  /** The existing rows of the records that are written. */
  readonly rows: ReadonlyMap<MemoryId, Stored>
  readonly writes: ReadonlyArray<Write>
  /** Whether to write without notifying the listeners of changes. */
  readonly isQuiet: boolean
  /** Random id of the engine, stored with its changes. The engine's feed skips these changes: its listeners already have them. */
  readonly writer: string
}

/** The effect of a batch on one record, which may be written several times in the batch. */
interface Outcome {
  readonly id: MemoryId
  readonly before: Stored | undefined
  /** The index entry after the batch; `undefined` if the record is erased. */
  after: Entry | undefined
  /** Revisions to add, oldest first. */
  revisions: Array<Stored>
  /** Whether the batch erases the revisions that existed before it. */
  isErased: boolean
}

type Io<A> = Effect.Effect<A, MemoryError>

/** Writes a batch within a transaction. Also erases the vectors of an erased record, unless another record has the same text. */
export const commit = (query: Query, database: Database, batch: Batch): Io<void> =>
  Effect.gen(function*() {
    const tenant = text(batch.tenant)
    const outcomes = outcomesOf(batch)
    const versions = yield* incrementVersions(query, tenant, outcomes)
    const erased = hashesWhere(outcomes, ({ isErased }) => isErased)
    const statements = [
      ...eraseRows(tenant, outcomes, versions),
      ...storeRows(tenant, outcomes, versions),
      ...replaceNames(tenant, outcomes),
      ...updateCounts(tenant, outcomes),
      // stores the hashes of replaced texts in `memory_litter`. A later compaction erases the vectors of texts that no record has any more
      ...insertOrphans(tenant, Array.from(hashesWhere(outcomes, isEdited)).sort().map((hash) => [hash])),
      ...batch.isQuiet ? [] : logChanges(database.dialect, tenant, batch)
    ]
    for (const [sql, parameters] of statements) yield* query(sql, parameters)
    if (erased.size > 0) yield* sweep(query, database, tenant, erased)
  })

const outcomesOf = ({ rows, writes }: Batch): ReadonlyArray<Outcome> => {
  const outcomes = new Map<MemoryId, Outcome>()
  for (const { id, next } of writes) {
    const before = rows.get(id)
    const outcome: Outcome = outcomes.get(id) ?? { id, before, after: undefined, revisions: [], isErased: false }
    outcomes.set(id, outcome)
    outcome.after = next
    if (next === undefined) {
      outcome.isErased = true
      outcome.revisions = []
    } else outcome.revisions.push(next.stored)
  }
  return Array.from(outcomes.values())
}

const partitionIn = (stored: Stored | undefined): string | undefined => stored && partitionOf(stored.record.scope)

/**
 * Increments the version of each partition that is written, and returns the new versions. The row of each version stays locked until the
 * transaction ends. The next writer of the partition therefore waits for this batch.
 */
const incrementVersions = (
  query: Query,
  tenant: string,
  outcomes: ReadonlyArray<Outcome>
): Io<ReadonlyMap<string, number>> => {
  const totals = new Map<string, number>()
  const add = (stored: Stored | undefined, by: number) => {
    const partition = partitionIn(stored)
    if (partition !== undefined) totals.set(partition, (totals.get(partition) ?? 0) + by)
  }
  for (const { after, before } of outcomes) {
    add(before, -1)
    add(after?.stored, 1)
  }
  const rows = Array.from(totals, ([partition, by]) => [text(partition), by] as const)
    .sort(([a], [b]) => a < b ? -1 : 1) // all writers use the same order, which prevents deadlocks
  return Effect.gen(function*() {
    const versions = new Map<string, number>()
    for (const [partition, by] of rows) {
      const [row] = yield* query(
        `INSERT INTO memory_partitions AS p (tenant, partition, version, floor, total) VALUES (?, ?, 1, 0, ?)
         ON CONFLICT (tenant, partition) DO UPDATE SET version = p.version + 1, total = p.total + excluded.total
         RETURNING version`,
        [tenant, partition, by]
      )
      versions.set(partition, Number(row![0])) // RETURNING returns one row
    }
    return versions
  })
}

const versionOf = (versions: ReadonlyMap<string, number>, stored: Stored): number =>
  versions.get(text(partitionOf(stored.record.scope)))! // `versions` has every partition of the batch

/**
 * Makes the statements that erase records. The table `memory_gone` gets the ids of these records, and of records that move to another
 * partition. Each process then removes the records from its cached partition.
 */
const eraseRows = (
  tenant: string,
  outcomes: ReadonlyArray<Outcome>,
  versions: ReadonlyMap<string, number>
): ReadonlyArray<Statement> => {
  const left = outcomes.flatMap(({ after, before, id }) => {
    const partition = partitionIn(before)
    return before === undefined || partition === undefined || partition === partitionIn(after?.stored)
      ? []
      : [[text(partition), versionOf(versions, before), id]]
  })
  const erased = outcomes.flatMap(({ before, id, isErased }) => isErased && before !== undefined ? [id] : [])
  return [
    ...insertErased(tenant, left),
    ...["memory_records", "memory_revisions", "memory_uses"].flatMap((table) => remove(table, tenant, erased))
  ]
}

const insertErased = insert({ table: "memory_gone", columns: { partition: "text", version: "number", id: "text" } })

const remove = (table: string, tenant: string, ids: ReadonlyArray<MemoryId>): ReadonlyArray<Statement> =>
  Array.from(
    { length: Math.ceil(ids.length / batchSize) },
    (_, n) => [
      `DELETE FROM ${table} WHERE tenant = ? AND id {in}`,
      [tenant, keys(ids.slice(n * batchSize, (n + 1) * batchSize))]
    ]
  )

const storeRows = (
  tenant: string,
  outcomes: ReadonlyArray<Outcome>,
  versions: ReadonlyMap<string, number>
): ReadonlyArray<Statement> => {
  // excludes the current revision, which is in `memory_records`
  const earlier = outcomes.flatMap(({ before, isErased, revisions }) =>
    [...before !== undefined && !isErased ? [before] : [], ...revisions].slice(-revisionsKept, -1)
  )
  return [
    ...intoRecords(tenant, outcomes.flatMap(({ after }) => after === undefined ? [] : [rowOf(after, versions)])),
    ...intoRevisions(
      tenant,
      earlier.map(({ dedupeKey = null, forgotten, record }) => [
        record.id,
        record.revision,
        forgotten ? 1 : 0,
        dedupeKey,
        contentOf(record)
      ])
    ),
    ...outcomes.flatMap(({ after, id }): ReadonlyArray<Statement> => {
      const last = (after?.stored.record.revision ?? 0) - revisionsKept
      return last > 0
        ? [["DELETE FROM memory_revisions WHERE tenant = ? AND id = ? AND revision <= ?", [tenant, id, last]]]
        : []
    })
  ]
}

const intoRecords = insert({
  table: "memory_records",
  columns: {
    id: "text",
    revision: "integer",
    forgotten: "integer",
    partition: "text",
    version: "number",
    scope: "text",
    kind: "text",
    recency: "number",
    expires_at: "number",
    dedupe: "text",
    hash: "text",
    entry: "text",
    content: "text"
  },
  conflict: `(tenant, id) DO UPDATE SET
    revision = excluded.revision, forgotten = excluded.forgotten, partition = excluded.partition,
    version = excluded.version, scope = excluded.scope, kind = excluded.kind, recency = excluded.recency,
    expires_at = excluded.expires_at, dedupe = excluded.dedupe, hash = excluded.hash, entry = excluded.entry,
    content = excluded.content`
})

const intoRevisions = insert({
  table: "memory_revisions",
  columns: { id: "text", revision: "integer", forgotten: "integer", dedupe: "text", content: "text" }
})

const rowOf = (entry: Entry, versions: ReadonlyMap<string, number>): Cells => {
  const { stored, terms } = entry
  const { dedupeKey = null, forgotten, record } = stored
  return [
    record.id,
    record.revision,
    forgotten ? 1 : 0,
    text(partitionOf(record.scope)),
    versionOf(versions, stored),
    scopeKey(record.scope),
    text(record.kind),
    recencyOf(record),
    record.expiresAt ?? null,
    dedupeKey,
    hashOf(record),
    encodedOf(entry, terms),
    contentOf(record)
  ]
}

/** Encodes the terms and the outline of a record for the index. Returns "" for a tombstone. */
const encodedOf = ({ length, stored }: Entry, terms: ReadonlyMap<string, number>): string =>
  stored.forgotten ? "" : OutlineIndex.encode(stored.record, terms, length)

const replaceNames = (tenant: string, outcomes: ReadonlyArray<Outcome>): ReadonlyArray<Statement> => {
  const named = (role: string, id: MemoryId, names: ReadonlyArray<string>) =>
    Array.from(new Set(names), (name) => [role, nameKey(name), id])
  return [
    ...remove("memory_names", tenant, outcomes.flatMap(({ before, id }) => before === undefined ? [] : [id])),
    ...intoNames(
      tenant,
      outcomes.flatMap(({ after, id }) =>
        after === undefined ? [] : [...named("n", id, after.names), ...named("r", id, after.refersTo)]
      )
    )
  ]
}

const intoNames = insert({ table: "memory_names", columns: { role: "text", name: "text", id: "text" } })

/** Makes the statements that update the number of records of each scope and kind. Tombstones are not counted. */
const updateCounts = (tenant: string, outcomes: ReadonlyArray<Outcome>): ReadonlyArray<Statement> => {
  const totals = new Map<string, { readonly record: Stored["record"]; by: number }>()
  const add = (stored: Stored | undefined, by: number) => {
    if (stored === undefined) return
    const { record } = stored
    const key = `${MemoryScope.key(record.scope)}\n${record.kind}`
    const total = totals.get(key) ?? { record, by: 0 }
    totals.set(key, total)
    if (!stored.forgotten) total.by += by
  }
  for (const { after, before } of outcomes) {
    add(before, -1)
    add(after?.stored, 1)
  }
  const rows = Array.from(totals.values(), ({ by, record: { kind, scope } }): Cells => [
    scopeKey(scope),
    text(kind),
    text(partitionOf(scope)),
    ...idColumns(scope),
    by
  ])
  return intoScopes(tenant, rows.sort((a, b) => `${a[0]}\n${a[1]}` < `${b[0]}\n${b[1]}` ? -1 : 1))
}

const intoScopes = insert({
  table: "memory_scopes",
  columns: {
    scope: "text",
    kind: "text",
    partition: "text",
    user_id: "text",
    agent_id: "text",
    run_id: "text",
    session_id: "text",
    actor_id: "text",
    total: "integer"
  },
  conflict: "(tenant, scope, kind) DO UPDATE SET total = t.total + excluded.total"
})

const isEdited = ({ after, before, isErased }: Outcome): boolean =>
  !isErased && before !== undefined && after !== undefined && hashOf(after.stored.record) !== hashOf(before.record)

/**
 * Returns the hashes of the texts that records had before the batch. Only records whose outcome passes `isMeant` count. The library's own
 * records never count, since they have no vectors.
 */
const hashesWhere = (
  outcomes: ReadonlyArray<Outcome>,
  isMeant: (outcome: Outcome) => boolean
): ReadonlySet<string> =>
  new Set(
    outcomes.flatMap((outcome) =>
      outcome.before !== undefined && !MemoryScope.isInternal(outcome.before.record.scope) && isMeant(outcome)
        ? [hashOf(outcome.before.record)]
        : []
    )
  )

const insertOrphans = insert({
  table: "memory_litter",
  columns: { hash: "text" },
  conflict: "(tenant, hash) DO NOTHING"
})

/** Locks the vectors of a tenant until the transaction ends, so that no text is erased while its vector is attached. */
export const lockVectors = (query: Query, { lock }: Database, tenant: string): Io<void> =>
  lock(query, tenant, { ids: [], dedupeKeys: ["memory_vectors"], revisions: [] })

/** Erases the vectors of texts with these hashes, unless a record still has the text. `tenant` must be encoded by `text`. */
export const sweep = (query: Query, database: Database, tenant: string, hashes: Iterable<string>): Io<void> =>
  Effect.gen(function*() {
    yield* lockVectors(query, database, tenant)
    const models = yield* query(
      `DELETE FROM memory_vectors WHERE tenant = ? AND hash {in} AND NOT EXISTS
         (SELECT 1 FROM memory_records AS r WHERE r.tenant = memory_vectors.tenant AND r.hash = memory_vectors.hash)
       RETURNING model`,
      [tenant, keys(hashes)]
    )
    for (const model of new Set(models.map(([model]) => String(model)))) {
      // a model without vectors gets 0 dimensions, so that new vectors may have any dimensions. Caches notice the new version
      yield* query(
        `UPDATE memory_models SET version = version + 1, dimensions = 0 WHERE tenant = ? AND model = ? AND NOT EXISTS
           (SELECT 1 FROM memory_vectors AS v WHERE v.tenant = memory_models.tenant AND v.model = memory_models.model)`,
        [tenant, model]
      )
    }
  })

/** Makes the statements that log the changes of a batch, in order. Listeners in other processes read this log. */
const logChanges = (
  { position }: Dialect,
  tenant: string,
  { now, rows, writer, writes }: Batch
): ReadonlyArray<Statement> => {
  const current = new Map<MemoryId, Stored | undefined>(rows)
  const changed = writes.map(({ id, next }, n): Cells => {
    const before = current.get(id)
    current.set(id, next?.stored)
    const shown = before !== undefined && !before.forgotten
      ? JSON.stringify({ scope: before.record.scope, expiresAt: before.record.expiresAt })
      : null
    const revision = next === undefined || next.stored.forgotten ? null : next.stored.record.revision
    return [n, writer, now, id, shown, revision]
  })
  const intoChanges = insert({
    table: "memory_changes",
    columns: { n: "integer", writer: "text", at: "number", id: "text", before: "text", revision: "integer" },
    set: { position }
  })
  return intoChanges(tenant, changed)
}
