/** The vectors of a SQL store, by model and hash of the text, and the use counts of its records. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import { embeddingText, isExpired } from "../../../domain/MemoryRecord.ts"
import { Internal } from "../../../domain/MemoryScope.ts"
import { invalid } from "../../../domain/Validation.ts"
import type { EngineUses, EngineVectors, Unembedded } from "../../Engine.ts"
import { lockVectors, sweep } from "./Commit.ts"
import { batchSize, type Database, each, fromText, keys, text } from "./Database.ts"
import type { IndexCache } from "./IndexCache.ts"
import { dimensionsOf } from "./IndexCache/PartitionVersions.ts"
import { partitionOf, storedOf, vectorsOf } from "./Rows.ts"

type Io<A> = Effect.Effect<A, MemoryError>

/** Makes the vectors of an engine, stored in the tables `memory_vectors` and `memory_models`. */
export const make = (database: Database, indexes: IndexCache): EngineVectors => {
  const { query } = database
  const scanPositions: ScanPositions = new Map()
  return {
    models: (tenant) =>
      Effect.map(
        query("SELECT model FROM memory_models WHERE tenant = ? AND dimensions > 0", [text(tenant)]),
        (rows) => rows.map(([model]) => fromText(String(model)))
      ),
    dimensions: (tenant, model, expected) =>
      expected !== undefined && indexes.dimensions(tenant, model) === expected
        ? Effect.succeed(expected)
        : dimensionsOf(database, tenant, model),
    pending: (tenant, model, limit) => pending(database, scanPositions, tenant, model, limit),
    attach: (tenant, model, vectors) => attach(database, tenant, model, vectors),
    read: (tenant, model, hashes) =>
      Effect.map(
        Effect.flatMap(database.reading, (source) => vectorsOf(source, tenant, model, hashes)),
        (found) => hashes.map((hash) => Option.fromNullable(found.get(hash)))
      ),
    near: (access, compiled, model, vector, depth) =>
      indexes.ask(
        access,
        (index, texts, vectors) => index.near(access, compiled, model, vector, depth, texts, vectors),
        { model, dimensions: vector.length }
      )
  }
}

/** Hash of a text, by tenant and model. The next search for texts without a vector starts after this hash. */
type ScanPositions = Map<string, string>

/** Largest number of entries in `ScanPositions`. A search without an entry starts at the first hash. */
const maxPositions = 10_000

/**
 * Returns up to `limit` texts that have no vector of a model. Scans the hashes of the tenant's texts in batches, starting with the batch in
 * which the last call stopped. A call that finds fewer than `limit` texts scans all hashes. The scan needs two index lookups per row.
 */
const pending = (
  { query }: Database,
  scanPositions: ScanPositions,
  tenant: string,
  model: string,
  limit: number
): Io<ReadonlyArray<Unembedded>> =>
  Effect.gen(function*() {
    if (limit <= 0) return []
    const now = yield* Clock.currentTimeMillis
    const key = `${text(tenant)}\n${text(model)}`
    const start = scanPositions.get(key) ?? ""
    scanPositions.delete(key)
    // `forgotten + 0` keeps the planner from using an index on `forgotten`. A planner without statistics would scan all live rows with this
    // index, instead of looking up the hashes
    const live = "tenant = ? AND forgotten + 0 = 0 AND partition <> ? AND hash"
    const found = new Map<string, Unembedded>()
    // scans two ranges: from the hash where the last call stopped to the end, then from the beginning to that hash
    for (const [first, end] of start === "" ? [["", ""]] : [[start, ""], ["", start]]) {
      for (let after = first!;;) {
        // other conditions or a DISTINCT might make the planner sort all hashes, instead of reading a few of them in order
        const hashes = yield* query(
          `SELECT hash FROM memory_records WHERE tenant = ? AND hash > ?${end === "" ? "" : " AND hash <= ?"}
           ORDER BY hash LIMIT ?`,
          [text(tenant), after, ...end === "" ? [] : [end!], batchSize]
        )
        const kept = yield* query(
          `SELECT e.value->>0, (SELECT 1 FROM memory_vectors WHERE tenant = ? AND model = ? AND hash = e.value->>0)
           FROM {each} AS e`,
          [text(tenant), text(model), each(Array.from(new Set(hashes.map(([hash]) => String(hash))), (hash) => [hash]))]
        )
        const lacking = kept.flatMap(([hash, found]) => found === null ? [String(hash)] : [])
        const rows = lacking.length === 0 ? [] : yield* query(
          `SELECT forgotten, dedupe, content, hash FROM memory_records WHERE ${live} {in}`,
          [text(tenant), text(partitionOf(Internal)), keys(lacking)]
        )
        for (const row of rows) {
          const { record } = yield* storedOf(row)
          const hash = String(row[3])
          if (!isExpired(record, now)) found.set(hash, { hash, text: embeddingText(record) })
          if (found.size < limit) continue
          scanPositions.set(key, after)
          const [oldest] = scanPositions.keys()
          if (scanPositions.size > maxPositions && oldest !== undefined) scanPositions.delete(oldest)
          return Array.from(found.values())
        }
        if (hashes.length < batchSize) break
        after = String(hashes.at(-1)![0]) // `hashes` is a full batch, so it has a last row
      }
    }
    return Array.from(found.values())
  })

const attach = (
  database: Database,
  tenant: string,
  model: string,
  vectors: ReadonlyArray<readonly [hash: string, vector: Float32Array]>
): Io<void> => {
  const [first] = vectors
  if (first === undefined) return Effect.void
  const dimensions = first[1].length
  return database.transaction((query) =>
    Effect.gen(function*() {
      yield* lockVectors(query, database, text(tenant))
      const [row] = yield* query(
        `INSERT INTO memory_models AS m (tenant, model, dimensions, version) VALUES (?, ?, ?, 1)
         ON CONFLICT (tenant, model) DO UPDATE SET version = m.version + 1,
           dimensions = CASE WHEN m.dimensions = 0 THEN excluded.dimensions ELSE m.dimensions END RETURNING dimensions`,
        [text(tenant), text(model), dimensions]
      )
      if (Number(row?.[0]) !== dimensions) {
        return yield* invalid("attach", `vector: expected ${row?.[0]} dimensions`)
      }
      for (let at = 0; at < vectors.length; at += batchSize) {
        const batch = vectors.slice(at, at + batchSize)
        const bytes = new Uint8Array(batch.length * dimensions * 4)
        batch.forEach(([, vector], n) =>
          bytes.set(new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength), n * dimensions * 4)
        )
        yield* query(
          `INSERT INTO memory_vectors (tenant, model, hash, vector)
           SELECT ?, ?, e.value->>0, substr(b.bytes, CAST(e.value->>1 AS integer), ${dimensions * 4})
           FROM (SELECT CAST(? AS ${database.dialect.bytes}) AS bytes) AS b, {each} AS e WHERE true
           ON CONFLICT (tenant, model, hash) DO NOTHING`,
          [text(tenant), text(model), bytes, each(batch.map(([hash], n) => [hash, n * dimensions * 4 + 1]))]
        )
        // a text may have been erased while its vector was computed; its hash is stored, so that compaction erases the vector
        yield* query(
          `INSERT INTO memory_litter (tenant, hash) SELECT ?, e.value->>0 FROM {each} AS e
           WHERE NOT EXISTS (SELECT 1 FROM memory_records AS r WHERE r.tenant = ? AND r.hash = e.value->>0)
           ON CONFLICT (tenant, hash) DO NOTHING`,
          [text(tenant), each(batch.map(([hash]) => [hash])), text(tenant)]
        )
      }
    })
  )
}

/** Erases the vectors of texts that no record has any more. Checks only the texts in the table `memory_litter`. */
export const prune = (database: Database): Io<void> =>
  Effect.gen(function*() {
    for (;;) {
      const rows = yield* database.query("SELECT tenant, hash FROM memory_litter ORDER BY tenant, hash LIMIT ?", [
        batchSize
      ])
      const tenants = new Map<string, Array<string>>()
      for (const [tenant, hash] of rows) {
        const hashes = tenants.get(String(tenant)) ?? []
        hashes.push(String(hash))
        tenants.set(String(tenant), hashes)
      }
      for (const [tenant, hashes] of tenants) {
        yield* database.transaction((query) =>
          Effect.zipRight(
            sweep(query, database, tenant, hashes),
            query("DELETE FROM memory_litter WHERE tenant = ? AND hash {in}", [
              tenant,
              keys(hashes)
            ])
          )
        )
      }
      if (rows.length < batchSize) return
    }
  })

/** Makes the use counts of an engine. Each statement writes rows in the order of the ids, which prevents deadlocks. */
export const uses = ({ query }: Database): EngineUses => ({
  touch: (tenant, ids, now) =>
    Effect.asVoid(query(
      `INSERT INTO memory_uses AS u (tenant, id, uses, accessed_at)
       SELECT r.tenant, r.id, CAST(e.value->>1 AS integer), CAST(? AS double precision)
       FROM {each} AS e JOIN memory_records AS r ON r.tenant = ? AND r.id = e.value->>0 WHERE true ORDER BY r.id
       ON CONFLICT (tenant, id) DO UPDATE SET uses = u.uses + excluded.uses, accessed_at = excluded.accessed_at`,
      [now, each(Array.from(counted(ids))), text(tenant)]
    )),
  read: (tenant, ids) =>
    Effect.map(
      query(
        "SELECT id, uses, accessed_at FROM memory_uses WHERE tenant = ? AND id {in}",
        [text(tenant), keys(ids)]
      ),
      (rows) => {
        const found = new Map(rows.map(([id, count, at]) => [
          String(id),
          { count: Number(count), ...(at !== null && { accessedAt: Number(at) }) }
        ]))
        return ids.map((id) => found.get(id) ?? { count: 0 })
      }
    ),
  set: (tenant, all) =>
    Effect.asVoid(query(
      `INSERT INTO memory_uses AS u (tenant, id, uses, accessed_at)
       SELECT r.tenant, r.id, CAST(e.value->>1 AS integer), CAST(e.value->>2 AS double precision)
       FROM {each} AS e JOIN memory_records AS r ON r.tenant = ? AND r.id = e.value->>0 WHERE true ORDER BY r.id
       ON CONFLICT (tenant, id) DO UPDATE SET uses = excluded.uses, accessed_at = excluded.accessed_at`,
      [each(all.map(([id, { accessedAt = null, count }]) => [id, count, accessedAt])), text(tenant)]
    ))
})

const counted = (ids: ReadonlyArray<string>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1)
  return counts
}
