/** Compaction: erases what has expired, and what has been in the trash long enough. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { MemoryError } from "../../domain/MemoryError.ts"
import { isExpired } from "../../domain/MemoryRecord.ts"
import type { Decision, Due, Engine, Found, Write } from "../Engine.ts"

/** Rows that compaction asks for at a time. */
const atATime = 1_000

export interface Compacted {
  /** Number of rows that were erased. */
  readonly count: number
  /** Earliest time at which a row that is left is to be erased, in epoch milliseconds; `Infinity` if none is. */
  readonly nextExpiry: number
}

/** Erases what is due, and asks the engine to prune its vectors. Cost: the rows that are due, and one look beyond them. */
export const compact = (
  engine: Pick<Engine, "due" | "transact" | "vectors">
): Effect.Effect<Compacted, MemoryError> =>
  Effect.gen(function*() {
    let count = 0
    let last: Due | undefined
    let nextExpiry: number | undefined
    while (nextExpiry === undefined) {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* engine.due(last, atATime)
      const ripe = rows.filter(({ at }) => at <= now)
      count += yield* erase(engine, ripe)
      last = ripe.at(-1)
      if (ripe.length < atATime) nextExpiry = rows[ripe.length]?.at ?? Infinity
    }
    if (engine.vectors?.prune) yield* engine.vectors.prune
    return { count, nextExpiry }
  })

/** One transaction for each tenant. */
const erase = (engine: Pick<Engine, "transact">, rows: ReadonlyArray<Due>): Effect.Effect<number, MemoryError> =>
  Effect.gen(function*() {
    let count = 0
    const tenants = new Map<string, Array<Due>>()
    for (const row of rows) {
      const others = tenants.get(row.tenant)
      if (others) others.push(row)
      else tenants.set(row.tenant, [row])
    }
    for (const [tenant, due] of tenants) {
      const needs = { ids: due.map(({ id }) => id), dedupeKeys: [], revisions: [] }
      count += yield* engine.transact(tenant, needs, (found) => Either.right(decided(due, found)))
    }
    return count
  })

/** Erases those of the rows that still are what they were. */
const decided = (due: ReadonlyArray<Due>, { now, rows }: Found): Decision<number> => {
  const writes = due.flatMap(({ id, revision }): ReadonlyArray<Write> => {
    const row = rows.get(id)
    const isStill = row?.record.revision === revision && (row.forgotten || isExpired(row.record, now))
    return isStill ? [{ id, next: undefined }] : []
  })
  return { writes, answer: writes.length, isQuiet: true }
}
