/** Converts records to the rows of a SQL store, and back. Also reads rows by id, by name or by page, and for compaction. */
import * as Effect from "effect/Effect"
import { sha256 } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import * as Errors from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { type MemoryRecord, unchecked } from "../../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../../domain/MemoryScope.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import type { CompiledFilter, Position } from "../../../ranking/Retrieval.ts"
import type { Due, Needs, Stored } from "../../Engine.ts"
import { byTime } from "../../internal/Compaction.ts"
import { accessible, pageOf } from "../../TenantIndex.ts"
import {
  each,
  fromText,
  idOf,
  inBatches,
  keys,
  type Parameter,
  parsed,
  type Query,
  type Reading,
  type Row,
  text
} from "./Database.ts"

type Io<A> = Effect.Effect<A, MemoryError>

/**
 * Returns the name of a scope's partition. Scopes with the same first id are in the same partition. The first id is the user id. A scope
 * without a user id uses the agent id, and so on. Indexes are cached by partition.
 */
export const partitionOf = (scope: MemoryScope.MemoryScope): string => {
  if (scope === MemoryScope.Global) return MemoryScope.Global
  const field = MemoryScope.fields.find((field) => scope[field] !== undefined)!
  return MemoryScope.key({ [field]: scope[field] })
}

/** Returns the key of a scope as stored in a column. */
export const scopeKey = (scope: MemoryScope.MemoryScope): string => text(MemoryScope.key(scope))

/** Encodes a record as JSON. */
export const contentOf = (record: MemoryRecord): string => JSON.stringify(record)

type Fields = { readonly [Key in keyof MemoryRecord]: MemoryRecord[Key] }

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value)

/** Whether the JSON of a row looks like a record. Checks the types of most required fields, to detect damaged rows. */
const isRecord = (json: Partial<Fields> | null): json is Fields =>
  json !== null && typeof json.id === "string" && typeof json.kind === "string" && typeof json.body === "string" &&
  typeof json.summary === "string" && typeof json.revision === "number" && typeof json.createdAt === "number" &&
  typeof json.validAt === "number" && (json.scope === MemoryScope.Global || isIds(json.scope)) &&
  isObject(json.source) && isObject(json.data) && isObject(json.metadata) &&
  Array.isArray(json.tags) && json.tags.every((tag) => typeof tag === "string") &&
  Array.isArray(json.links) && json.links.every(isObject)

const isIds = (scope: unknown): boolean =>
  isObject(scope) && MemoryScope.fields.some((field) => field in Object(scope)) &&
  Object.values(Object(scope)).every((id) => typeof id === "string")

const recordOf = (content: unknown): Io<MemoryRecord> =>
  Effect.flatMap(
    parsed<Partial<Fields> | null>("memory_records", content),
    (json) =>
      isRecord(json) ? Effect.succeed(unchecked(json)) : Errors.make("corrupt", {
        op: "read",
        message: "a row that is no record",
        detail: { location: "memory_records" }
      })
  )

/** Decodes a row with the columns `forgotten, dedupe, content`. */
export const storedOf = ([forgotten, dedupe, content]: Row): Io<Stored> =>
  Effect.map(recordOf(content), (record) => ({
    record,
    forgotten: Number(forgotten) === 1,
    ...(dedupe !== null && { dedupeKey: String(dedupe) })
  }))

/** Reads rows by id. Calls `seen` with each row, with the partition's version when the row was written, and with the length of its JSON. */
export const rowsOf = (
  query: Query,
  tenant: string,
  ids: ReadonlyArray<MemoryId>,
  seen?: (row: Stored, version: number, length: number) => void
): Io<ReadonlyMap<MemoryId, Stored>> =>
  Effect.map(
    inBatches(Array.from(new Set(ids)), (batch) =>
      Effect.flatMap(
        query(
          `SELECT forgotten, dedupe, content, version FROM memory_records
           WHERE tenant = ? AND id {in}`,
          [text(tenant), keys(batch)]
        ),
        Effect.forEach((row) =>
          Effect.map(storedOf(row), (stored) => {
            seen?.(stored, Number(row[3]), String(row[2]).length)
            return stored
          })
        )
      )),
    (rows) => new Map(rows.map((row) => [row.record.id, row]))
  )

/** Reads vectors by the hash of their text. */
export const vectorsOf = (
  { query }: Reading,
  tenant: string,
  model: string,
  hashes: ReadonlyArray<string>
): Io<ReadonlyMap<string, Float32Array>> =>
  Effect.flatMap(
    inBatches(Array.from(new Set(hashes)), (batch) =>
      // looks up each hash separately. Otherwise a planner without statistics would scan all vectors
      query(
        `SELECT e.value->>0, (SELECT {vector} FROM memory_vectors WHERE tenant = ? AND model = ? AND hash = e.value->>0)
         FROM {each} AS e`,
        [text(tenant), text(model), each(batch.map((hash) => [hash]))]
      )),
    (rows) =>
      Effect.try({
        try: () =>
          new Map(
            rows.flatMap(([hash, vector]) => vector === null ? [] : [[String(hash), vectorOf(String(vector))] as const])
          ),
        catch: (cause) =>
          Errors.make("corrupt", {
            op: "read",
            message: "a row that is no vector",
            detail: { location: "memory_vectors" },
            cause
          })
      })
  )

/** Decodes a vector from hexadecimal digits. `Buffer` is five times as fast as a loop. */
const vectorOf = (digits: string): Float32Array => {
  const bytes = new ArrayBuffer(digits.length / 2)
  Buffer.from(bytes).write(digits, "hex")
  return new Float32Array(bytes)
}

/** Reads up to `limit` revisions of a record, the current one first. */
export const revisions = (query: Query, tenant: string, id: MemoryId, limit: number): Io<ReadonlyArray<Stored>> =>
  Effect.flatMap(
    query(
      `SELECT forgotten, dedupe, content FROM (
         SELECT revision, forgotten, dedupe, content FROM memory_records WHERE tenant = ? AND id = ?
         UNION ALL SELECT revision, forgotten, dedupe, content FROM memory_revisions WHERE tenant = ? AND id = ?
       ) AS kept ORDER BY revision DESC LIMIT ?`,
      [text(tenant), id, text(tenant), id, limit]
    ),
    Effect.forEach(storedOf)
  )

/** The rows that a batch depends on, read in one statement. */
export interface Gathered {
  /** Fingerprint of the analyzer that made the stored index. */
  readonly analyzer: string
  /** The rows with the ids of the batch, tombstones included. */
  readonly rows: ReadonlyMap<MemoryId, Stored>
  /** Rows that have one of the dedupe keys of the batch. Tombstones are left out. */
  readonly withDedupeKeys: ReadonlyArray<Stored>
}

/** Reads, in one statement, the rows with the ids or dedupe keys of a batch, and the fingerprint of the analyzer. */
export const gather = (
  query: Query,
  tenant: string,
  { dedupeKeys, ids }: Pick<Needs, "dedupeKeys" | "ids">
): Io<Gathered> =>
  Effect.gen(function*() {
    const found = yield* query(
      `SELECT 'a', 0, NULL, value FROM memory_meta WHERE name = 'analyzer'
       UNION ALL SELECT 'r', forgotten, dedupe, content FROM memory_records
         WHERE tenant = ? AND id {in}
       UNION ALL SELECT 'h', forgotten, dedupe, content FROM memory_records
         WHERE tenant = ? AND dedupe IS NOT NULL AND dedupe {in}`,
      [text(tenant), keys(ids), text(tenant), keys(dedupeKeys)]
    )
    let analyzer = ""
    const rows = new Map<MemoryId, Stored>()
    const withDedupeKeys: Array<Stored> = []
    for (const [part, ...row] of found) {
      if (part === "a") {
        analyzer = String(row[2])
        continue
      }
      const stored = yield* storedOf(row)
      if (part === "r") rows.set(stored.record.id, stored)
      else if (!stored.forgotten) withDedupeKeys.push(stored)
    }
    return { analyzer, rows, withDedupeKeys }
  })

/** Finds visible records that pass the filter. Role `n`: the records have one of the names. Role `r`: they refer to one of the names. */
export const byName = (
  { query }: Reading,
  role: "n" | "r",
  access: Viewer.AccessFilter,
  compiled: CompiledFilter,
  names: ReadonlyArray<string>
): Io<ReadonlyArray<MemoryRecord>> =>
  Effect.gen(function*() {
    const ids = yield* inBatches(Array.from(new Set(names)), (batch) =>
      query(
        `SELECT DISTINCT id FROM memory_names
         WHERE tenant = ? AND name {in} AND role = ?`,
        [text(access.tenant), keys(batch.map(nameKey)), role]
      ))
    const rows = yield* rowsOf(
      query,
      access.tenant,
      ids.map(([id]) => idOf(id))
    )
    return accessible(access, compiled, Array.from(rows.values()).flatMap((row) => row.forgotten ? [] : [row.record]))
  })

/** Returns the key of a name in `memory_names`. The key is a hash, since a name can be as long as a summary. */
export const nameKey = (name: string): string => sha256(name).slice(0, 32)

/** A SQL condition on `memory_records` or `memory_scopes`, with its parameters. */
interface Condition {
  readonly sql: string
  readonly parameters: ReadonlyArray<Parameter>
}

/**
 * Returns conditions for the rows that the viewer sees. A row must pass one of them. If `isTrash` is true, they select tombstones;
 * otherwise, all other rows. A list of scopes gives one condition per scope, since a database index returns the rows of one scope in order.
 */
const partsOf = (query: Query, access: Viewer.AccessFilter, isTrash: boolean): Io<ReadonlyArray<Condition>> => {
  const { tenant, visibility } = access
  const forgotten = isTrash ? 1 : 0
  const part = (sql: string, ...parameters: ReadonlyArray<Parameter>): Condition => ({
    sql: `tenant = ? AND forgotten = ${forgotten}${sql}`,
    parameters: [text(tenant), ...parameters]
  })
  switch (visibility._tag) {
    case "All":
      return Effect.succeed([part("")])
    case "Everyone":
      return Effect.succeed([part(" AND partition <> ?", text(partitionOf(MemoryScope.Internal)))])
    case "Scopes":
      return Effect.map(
        query(
          `SELECT DISTINCT scope FROM memory_scopes WHERE tenant = ? AND scope {in}`,
          [text(tenant), keys(visibility.keys)]
        ),
        (scopes) => scopes.map(([scope]) => part(" AND scope = ?", String(scope)))
      )
    case "Within": {
      const { sql, parameters } = having(visibility.ids)
      return Effect.succeed([
        part(` AND scope IN (SELECT scope FROM memory_scopes WHERE tenant = ?${sql})`, text(tenant), ...parameters)
      ])
    }
  }
}

const columns = {
  userId: "user_id",
  agentId: "agent_id",
  runId: "run_id",
  sessionId: "session_id",
  actorId: "actor_id"
}

/** Returns the SQL condition for scopes that have all of these ids. */
export const having = (ids: MemoryScope.Ids): Condition => {
  const present = MemoryScope.fields.filter((field) => ids[field] !== undefined)
  return {
    sql: present.map((field) => ` AND ${columns[field]} = ?`).join(""),
    parameters: present.map((field) => text(ids[field]!.normalize("NFC")))
  }
}

/** Returns the ids of a scope as cells, one for each column. */
export const idColumns = (scope: MemoryScope.MemoryScope): ReadonlyArray<string | null> =>
  MemoryScope.fields.map((field) => {
    const id = scope === MemoryScope.Global ? undefined : scope[field]
    return id === undefined ? null : text(id.normalize("NFC"))
  })

/** Largest number of rows that one statement of `page` returns. */
const maxRowsPerStatement = 1_000

/** Returns up to `limit` records that pass the filter, newest first, then by id. Starts after the position `after`. */
export const page = (
  { query }: Reading,
  access: Viewer.AccessFilter,
  compiled: CompiledFilter,
  after: Position | undefined,
  limit: number
): Io<ReadonlyArray<MemoryRecord>> =>
  Effect.gen(function*() {
    const { forgotten, ids } = compiled.filter
    if (ids !== undefined) {
      const rows = yield* rowsOf(query, access.tenant, ids)
      return pageOf(Array.from(rows.values()), access, compiled, after, limit)
    }
    const parts = yield* partsOf(query, access, forgotten === true)
    const found: Array<MemoryRecord> = []
    if (parts.length === 0) return found
    let from = after
    for (let size = Math.min(maxRowsPerStatement, limit);; size = Math.min(maxRowsPerStatement, 4 * size)) {
      const rows = yield* rowsAfter(query, parts, access.now, from, size)
      const records = yield* Effect.forEach(rows, ([, , content]) => recordOf(content))
      for (const record of accessible(access, compiled, records)) if (found.push(record) === limit) return found
      const last = rows.at(-1)
      if (last === undefined || rows.length < size) return found
      from = { recency: Number(last[1]), id: idOf(last[0]) }
    }
  })

const rowsAfter = (
  query: Query,
  parts: ReadonlyArray<Condition>,
  now: number,
  after: Position | undefined,
  limit: number
): Io<ReadonlyArray<Row>> => {
  // `recency <= ?` is redundant, but without this condition the database would scan the index from its beginning
  const beyond = after === undefined ? "" : " AND recency <= ? AND (recency < ? OR id > ?)"
  const position = after === undefined ? [] : [after.recency, after.recency, after.id]
  const unexpired = now === -Infinity ? "" : " AND (expires_at IS NULL OR expires_at > ?)"
  const statement = ({ sql }: Condition) =>
    `SELECT id, recency, content FROM memory_records WHERE ${sql}${beyond}${unexpired} ORDER BY recency DESC, id LIMIT ?`
  const parameters = parts.flatMap((part): ReadonlyArray<Parameter> => [
    ...part.parameters,
    ...position,
    ...(now === -Infinity ? [] : [now]),
    limit
  ])
  const [only] = parts
  return parts.length === 1 && only !== undefined
    ? query(statement(only), parameters)
    : query(
      parts.map((part) => `SELECT * FROM (${statement(part)}) AS part`).join(" UNION ALL ") +
        " ORDER BY recency DESC, id LIMIT ?",
      [...parameters, limit]
    )
}

/** SQL for the time 0. In PostgreSQL, a bare 0 would be an integer. That type is too small for times in milliseconds. */
const never = "CAST(0 AS double precision)"

/** Returns up to `limit` rows after `after`, ordered by the time from which they may be erased. A tombstone stays for `trash` ms. */
export const due = (
  { query }: Reading,
  trash: number,
  after: Due | undefined,
  limit: number
): Io<ReadonlyArray<Due>> => {
  /** Returns rows in the order of `key`: an indexed column, or `never`. `at` is SQL for the due time: `key` plus `offset` milliseconds. */
  const rows = (at: string, key: string, offset: number, where: string): Io<ReadonlyArray<Due>> =>
    Effect.map(
      query(
        `SELECT ${at}, tenant, id, revision FROM memory_records WHERE ${where}${
          after === undefined ? "" : ` AND (${key}, tenant, id) > (?, ?, ?)`
        } ORDER BY ${key === never ? "" : `${key}, `}tenant, id LIMIT ?`,
        [...after === undefined ? [] : [after.at - offset, text(after.tenant), after.id], limit]
      ),
      (found) =>
        found.map(([at, tenant, id, revision]) => ({
          at: Number(at),
          tenant: fromText(String(tenant)),
          id: idOf(id),
          revision: Number(revision)
        }))
    )
  const expiring = (where: string) => rows("expires_at", "expires_at", 0, `expires_at IS NOT NULL${where}`)
  if (trash === Infinity) return expiring("")
  // a tombstone with an expiry time is due at `expires_at` or at `end`, whichever is earlier
  const end = trash === 0 ? never : `recency + ${trash}`
  return Effect.zipWith(
    expiring(` AND (forgotten = 0 OR expires_at <= ${end})`),
    rows(end, trash === 0 ? never : "recency", trash, `forgotten = 1 AND (expires_at IS NULL OR expires_at > ${end})`),
    (expired, forgotten) => [...expired, ...forgotten].sort(byTime).slice(0, limit)
  )
}

/** Returns each pair of scope and kind with more records than the cap of the kind. */
export const overCap = (
  { query }: Reading,
  tenant: string,
  caps: ReadonlyMap<string, number>
): Io<ReadonlyArray<readonly [scope: string, kind: string]>> =>
  caps.size === 0
    ? Effect.succeed([])
    : Effect.map(
      query(
        `SELECT s.scope, s.kind FROM {each} AS e JOIN memory_scopes AS s
         ON s.tenant = ? AND s.kind = e.value->>0 AND s.total > CAST(e.value->>1 AS double precision)`,
        [each(Array.from(caps, ([kind, cap]) => [text(kind), cap])), text(tenant)]
      ),
      (rows) => rows.map(([scope, kind]) => [fromText(String(scope)), fromText(String(kind))] as const)
    )
