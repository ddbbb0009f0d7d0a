/**
 * Connections that avoid two flaws of the PostgreSQL driver. First, the driver cancels an interrupted statement through the same pool. If
 * the pool is busy, the cancellation may arrive late and cancel the next statement of the connection. Second, the driver waits for ever if
 * the server does not answer. Here, an interrupted statement gets time to end by itself. A connection without an answer is closed.
 */
import type { Connection } from "@effect/sql/SqlConnection"
import type { SqlError } from "@effect/sql/SqlError"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { sleepLive } from "../../../host/EventLoop.ts"
import type { Driver, Once, Session } from "../Sql/Database.ts"

/**
 * Guards the connections of a driver. If a caller is interrupted while it waits for a connection, the caller returns at once. The
 * connection is released when it arrives. A statement may run for `patience` plus at most one second, and for at most `gracePeriod` after
 * its caller is interrupted. Then the connection is closed, and the server rolls back what was not committed.
 */
export const guarded = (
  reserve: Effect.Effect<Connection, SqlError, Scope.Scope>,
  patience: Duration.Duration
): { readonly reserve: Driver["reserve"]; readonly once: Once } => {
  const watched = watch(patience)
  /** Runs a statement in a separate fiber, so that interrupting the caller does not interrupt the statement. */
  const bounded = <A>(connection: Connection, statement: Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(
        Effect.forkDaemon(watched(connection, statement)),
        (running) => Effect.onInterrupt(restore(Fiber.join(running)), () => closeAfterGracePeriod(connection, running))
      )
    )
  const session = (connection: Connection): Session => ({
    executeValues: (sql, parameters) => bounded(connection, connection.executeValues(sql, parameters)),
    executeRaw: (sql, parameters) => bounded(connection, connection.executeRaw(sql, parameters)),
    executeUnprepared: (sql, parameters, rows) =>
      bounded(connection, connection.executeUnprepared(sql, parameters, rows))
  })
  /** Runs a statement in one separate fiber, which also reserves and releases the connection. */
  const once = <A>(statement: (connection: Connection) => Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.suspend(() => {
        let connection: Connection | undefined
        let isWanted = true
        const run = Effect.scoped(Effect.flatMap(reserve, (reserved) => {
          connection = reserved
          return isWanted ? watched(reserved, statement(reserved)) : Effect.interrupt
        }))
        return Effect.flatMap(Effect.forkDaemon(run), (running) =>
          Effect.onInterrupt(restore(Fiber.join(running)), () => {
            isWanted = false
            return connection === undefined ? Effect.void : closeAfterGracePeriod(connection, running)
          }))
      })
    )
  return {
    once: {
      executeValues: (sql, parameters) => once((connection) => connection.executeValues(sql, parameters)),
      executeRaw: (sql, parameters) => once((connection) => connection.executeRaw(sql, parameters))
    },
    reserve: Effect.uninterruptibleMask(() =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const reserving = yield* Effect.forkDaemon(Scope.extend(reserve, scope))
        const release = Effect.zipRight(Fiber.await(reserving), Scope.close(scope, Exit.void))
        const connection = yield* Effect.onInterrupt(
          Effect.interruptible(Fiber.join(reserving)),
          () => Effect.forkDaemon(release)
        )
        yield* Effect.addFinalizer((exit) => Scope.close(scope, exit))
        return session(connection)
      })
    )
  }
}

/** Time that a statement may run after its caller is interrupted. Most statements end in this time, so their connections stay open. */
const gracePeriod = Duration.millis(250)

/** Waits for a statement whose caller was interrupted. Closes the connection if the statement still runs after `gracePeriod`. */
const closeAfterGracePeriod = (connection: Connection, running: Fiber.Fiber<unknown, unknown>): Effect.Effect<void> =>
  Effect.gen(function*() {
    const limit = yield* Effect.forkDaemon(
      Effect.interruptible(Effect.zipRight(sleepLive(gracePeriod), closeSocket(connection)))
    )
    yield* Fiber.await(running)
    yield* Fiber.interrupt(limit)
  })

/**
 * Makes a function that runs a statement with a time limit. A statement that takes longer than `patience` loses its connection. One fiber
 * checks all statements once a second. A timer for each statement would cost more than the statement.
 */
const watch = (patience: Duration.Duration) => {
  const clock = Clock.make() // the real clock, since servers do not follow a TestClock
  const startTimes = new Map<Connection, bigint>()
  let isWatched = false
  const checkOnce: Effect.Effect<void> = Effect.flatMap(sleepLive("1 second"), () =>
    Effect.suspend(() => {
      const limit = clock.unsafeCurrentTimeNanos() - BigInt(Math.ceil(Duration.toMillis(patience) * 1e6))
      const overdue = Array.from(startTimes).flatMap(([connection, time]) => time <= limit ? [connection] : [])
      isWatched = startTimes.size > 0
      return Effect.zipRight(
        Effect.forEach(overdue, closeSocket, { discard: true }),
        isWatched ? checkOnce : Effect.void
      )
    }))
  return <A>(connection: Connection, statement: Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> =>
    Effect.suspend(() => {
      startTimes.set(connection, clock.unsafeCurrentTimeNanos())
      const run = Effect.ensuring(statement, Effect.sync(() => startTimes.delete(connection)))
      if (isWatched) return run
      isWatched = true
      return Effect.zipRight(Effect.forkDaemon(checkOnce), run)
    })
}

/** Closes the socket of a connection. Its pending statements then fail, and the pool removes the connection. */
const closeSocket = (connection: Connection): Effect.Effect<void> =>
  Effect.sync(() => {
    // the driver has no method that closes a connection, but a connection exposes its socket
    const { pg } = connection as { readonly pg?: { readonly connection?: { readonly stream?: Socket } } }
    pg?.connection?.stream?.destroy()
  })

interface Socket {
  readonly destroy: () => void
}
