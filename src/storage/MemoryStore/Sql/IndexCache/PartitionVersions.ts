/**
 * Reads the current versions of the partitions that a viewer sees. A partition contains the rows of one user of a tenant. Rows without a
 * user are in the partition of their agent, and so on. The cache of indexes then reads only the partitions that have a new version.
 */
import * as Effect from "effect/Effect"
import type { MemoryError } from "../../../../domain/MemoryError.ts"
import * as MemoryScope from "../../../../domain/MemoryScope.ts"
import type * as Viewer from "../../../../domain/Viewer.ts"
import { keys, type Reading, type Row, text } from "../Database.ts"
import { having, partitionOf } from "../Rows.ts"

type Io<A> = Effect.Effect<A, MemoryError>

/** The versions of partitions, by the partition's name. */
export type Wanted = ReadonlyMap<string, number>

/** The current versions of the visible partitions. */
export interface PartitionVersions {
  readonly wanted: Wanted
  /** Id of the database's history (see `Dialect.history`); `undefined` if unknown. A new id means that commits may have been lost. */
  readonly history: string | undefined
  /** Dimensions and version of the requested model's vectors. Without vectors, the dimensions are 0. */
  readonly vectors: { readonly dimensions: number; readonly version: number }
}

/** Reads the value of `Dialect.history` in a separate statement. */
export const historyOf = ({ query }: Reading, history: string): Io<string | undefined> =>
  history === "NULL"
    ? Effect.succeed(undefined)
    : Effect.map(query(`SELECT ${history}`), ([row]) => typeof row?.[0] === "string" ? row[0] : undefined)

/** Returns the dimensions of a model's vectors; `undefined` if the model has no vectors. */
export const dimensionsOf = ({ query }: Reading, tenant: string, model: string): Io<number | undefined> =>
  Effect.map(
    query("SELECT dimensions FROM memory_models WHERE tenant = ? AND model = ? AND dimensions > 0", [
      text(tenant),
      text(model)
    ]),
    ([row]) => row === undefined ? undefined : Number(row[0])
  )

/** Returns the versions of the visible partitions. */
export const versionsOf = (
  { query }: Reading,
  { tenant, visibility }: Viewer.AccessFilter,
  history: string,
  model: string | undefined
): Io<PartitionVersions> => {
  const select = model === undefined
    ? `SELECT p.partition, p.version, ${history} FROM memory_partitions AS p WHERE p.tenant = ? AND `
    : `SELECT p.partition, p.version, ${history}, m.dimensions, m.version FROM memory_partitions AS p
       LEFT JOIN memory_models AS m ON m.tenant = p.tenant AND m.model = ? WHERE p.tenant = ? AND `
  const asked = [...model === undefined ? [] : [text(model)], text(tenant)]
  const only = (partitions: ReadonlyArray<string>) =>
    // PostgreSQL plans a list of parameters twice as fast as `{in}`
    partitions.length > 0 && partitions.length <= 8
      ? query(`${select}p.partition IN (${partitions.map(() => "?").join(", ")})`, [...asked, ...partitions.map(text)])
      : query(`${select}p.partition {in}`, [...asked, keys(partitions)])
  const rows = (): Io<ReadonlyArray<Row>> => {
    switch (visibility._tag) {
      case "All":
        return query(`${select}1 = 1`, asked)
      case "Everyone":
        return query(`${select}p.partition <> ?`, [...asked, text(partitionOf(MemoryScope.Internal))])
      case "Scopes":
        return only(Array.from(new Set(visibility.keys.map(firstId))))
      case "Within": {
        const { userId } = visibility.ids
        if (userId !== undefined) return only([partitionOf({ userId })])
        const { parameters, sql } = having(visibility.ids)
        return query(
          `${select}p.partition IN (SELECT partition FROM memory_scopes WHERE tenant = ?${sql})`,
          [...asked, text(tenant), ...parameters]
        )
      }
    }
  }
  return Effect.map(rows(), (found) => ({
    wanted: new Map(found.map(([partition, version]) => [String(partition), Number(version)])),
    history: typeof found[0]?.[2] === "string" ? found[0][2] : undefined,
    vectors: { dimensions: Number(found[0]?.[3] ?? 0), version: Number(found[0]?.[4] ?? 0) }
  }))
}

/** Returns the first id of a scope's key, which is the name of the scope's partition. */
const firstId = (key: string): string => /^(?:\\\/|[^/])*/.exec(key)![0] // never null, since the pattern also matches an empty text
