/**
 * Checks repeatedly whether a standby server has replayed the whole log that the primary had at the start of the check. If so, the standby
 * may be read until `staleness` has passed since the start. After a write of this process, the standby is not read until it has the write.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import { sleepLive } from "../../../host/EventLoop.ts"
import type { Replica } from "../Sql/Database.ts"

/** Runs a statement on a server, and returns its rows. */
export type Ask = (
  sql: string,
  parameters: ReadonlyArray<string>
) => Effect.Effect<ReadonlyArray<ReadonlyArray<unknown>>, MemoryError>

/** Approximate number of checks within the time `staleness`. A short `maxPause` can make the checks more frequent. */
const checks = 4
/** Longest pause between two checks, in milliseconds. A short pause lets reads return to the standby soon after a write. */
const maxPause = 500

/** The result of the last check that found the standby up to date. */
interface Known {
  /** Time until which the standby may be read. */
  readonly until: number
  /** Number of this process's writes that the standby has replayed. The standby is read only if it has replayed all writes. */
  readonly writes: number
  readonly history: string | undefined
}

/**
 * Keeps checking the standby until the Effect scope closes. Each check asks the primary once. Then it asks the standby until the standby is
 * up to date, or until `staleness` has passed since the start of the check.
 */
export const watchStandby = (
  primary: Ask,
  standby: Ask,
  staleness: Duration.Duration,
  history: string
): Effect.Effect<Omit<Replica, "once">, never, Scope.Scope> =>
  Effect.gen(function*() {
    const limit = Duration.toMillis(staleness)
    const pause = sleepLive(Math.min(maxPause, limit / checks))
    const clock = Clock.make() // the real clock, since servers do not follow a TestClock
    let writes = 0
    let known: Known = { until: -Infinity, writes, history: undefined }
    const check = Effect.gen(function*() {
      const started = { until: clock.unsafeCurrentTimeMillis() + limit, writes }
      const [row] = yield* primary(`SELECT CAST(pg_current_wal_insert_lsn() AS text), ${history}`, [])
      // false if the standby was promoted to a primary, since its data may then differ from those of the old primary
      const hasReplayed = standby("SELECT pg_is_in_recovery() AND pg_last_wal_replay_lsn() >= CAST($1 AS pg_lsn)", [
        String(row?.[0])
      ])
      while (clock.unsafeCurrentTimeMillis() < started.until) {
        const [found] = yield* hasReplayed
        if (found?.[0] === true) {
          known = { ...started, history: typeof row?.[1] === "string" ? row[1] : undefined }
          return
        }
        yield* pause
      }
    })
    // a check that fails or gets no answer does not extend `known.until`; after that time, reads go to the primary
    yield* Effect.forkScoped(Effect.forever(Effect.zipRight(Effect.option(check), pause)))
    return {
      isCurrent: Effect.sync(() => known.writes === writes && clock.unsafeCurrentTimeMillis() < known.until),
      history: Effect.sync(() => known.history),
      afterWrite: Effect.sync(() => void writes++)
    }
  })
