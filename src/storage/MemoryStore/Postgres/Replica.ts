/**
 * Checks again and again whether a standby has replayed all that the primary's log had at a recent time. For `staleness` from that
 * time on, reads may go to the standby. After a write of this process they go to the primary until the standby has it.
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

/** Number of looks within `staleness`, and the longest pause between two, in milliseconds: soon after a write reads go back. */
const looks = 4
const farthest = 500

/** The state of the standby when it was last current. */
interface Known {
  /** Time until which the standby may be read. */
  readonly until: number
  /** Number of this process's writes that the standby has. */
  readonly writes: number
  readonly history: string | undefined
}

/** Follows the standby until the scope closes. Cost: a statement on the primary for each look, and on the standby one or more. */
export const follow = (
  primary: Ask,
  standby: Ask,
  staleness: Duration.Duration,
  history: string
): Effect.Effect<Omit<Replica, "once">, never, Scope.Scope> =>
  Effect.gen(function*() {
    const limit = Duration.toMillis(staleness)
    const pause = sleepLive(Math.min(farthest, limit / looks))
    const clock = Clock.make() // not the clock in force: a server's log goes on whatever that says
    let writes = 0
    let known: Known = { until: -Infinity, writes, history: undefined }
    const look = Effect.gen(function*() {
      const begun = { until: clock.unsafeCurrentTimeMillis() + limit, writes }
      const [row] = yield* primary(`SELECT CAST(pg_current_wal_insert_lsn() AS text), ${history}`, [])
      // a standby that was promoted has a history of its own, and must not be read
      const isThere = standby("SELECT pg_is_in_recovery() AND pg_last_wal_replay_lsn() >= CAST($1 AS pg_lsn)", [
        String(row?.[0])
      ])
      while (clock.unsafeCurrentTimeMillis() < begun.until) {
        const [found] = yield* isThere
        if (found?.[0] === true) {
          known = { ...begun, history: typeof row?.[1] === "string" ? row[1] : undefined }
          return
        }
        yield* pause
      }
    })
    // a server that does not answer lets the limit run out, and reads go to the primary
    yield* Effect.forkScoped(Effect.forever(Effect.zipRight(Effect.option(look), pause)))
    return {
      isCurrent: Effect.sync(() => known.writes === writes && clock.unsafeCurrentTimeMillis() < known.until),
      history: Effect.sync(() => known.history),
      wrote: Effect.sync(() => void writes++)
    }
  })
