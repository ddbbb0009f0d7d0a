/**
 * Connections that survive an interruption, and a server that stops answering. The driver alone cancels an interrupted statement over
 * the same pool, so that on a busy pool the cancellation may come late and hit the connection's next statement; and it waits for
 * a silent server without end.
 */
import type { Connection } from "@effect/sql/SqlConnection"
import type { SqlError } from "@effect/sql/SqlError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { sleepOutside } from "../../../host/EventLoop.ts"
import type { Session } from "../Sql/Database.ts"

/**
 * Reserves a connection until the scope closes. A caller that is interrupted while it waits for one goes at once; the connection that
 * comes later is given back. A statement whose caller was interrupted has `grace` to end, and any statement `patience`: then the connection is closed,
 * and the server undoes what was not committed.
 */
export const guarded = (
  reserve: Effect.Effect<Connection, SqlError, Scope.Scope>,
  patience: Duration.Duration
): Effect.Effect<Session, SqlError, Scope.Scope> =>
  Effect.uninterruptibleMask(() =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const coming = yield* Effect.forkDaemon(Scope.extend(reserve, scope))
      const giveBack = Effect.zipRight(Fiber.await(coming), Scope.close(scope, Exit.void))
      const connection = yield* Effect.onInterrupt(
        Effect.interruptible(Fiber.join(coming)),
        () => Effect.forkDaemon(giveBack)
      )
      yield* Effect.addFinalizer((exit) => Scope.close(scope, exit))
      return {
        executeValues: (sql, parameters) => bounded(connection, patience, connection.executeValues(sql, parameters)),
        executeRaw: (sql, parameters) => bounded(connection, patience, connection.executeRaw(sql, parameters)),
        executeUnprepared: (sql, parameters, rows) =>
          bounded(connection, patience, connection.executeUnprepared(sql, parameters, rows))
      }
    })
  )

/** Time that an interrupted statement has to end by itself, so that most connections survive it. */
const grace = Duration.millis(250)

const bounded = <A>(
  connection: Connection,
  patience: Duration.Duration,
  statement: Effect.Effect<A, SqlError>
): Effect.Effect<A, SqlError> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const running = yield* Effect.forkDaemon(statement)
      const limit = yield* Effect.forkDaemon(cutAfter(patience, connection))
      return yield* restore(Fiber.join(running)).pipe(
        Effect.onInterrupt(() =>
          Effect.gen(function*() {
            const sooner = yield* Effect.forkDaemon(cutAfter(grace, connection))
            yield* Fiber.await(running)
            yield* Fiber.interrupt(sooner)
          })
        ),
        Effect.ensuring(Fiber.interrupt(limit))
      )
    })
  )

const cutAfter = (time: Duration.Duration, connection: Connection): Effect.Effect<void> =>
  Effect.interruptible(Effect.zipRight(sleepOutside(time), cut(connection)))

/** Closes the socket: what waits for an answer fails, and the pool drops the connection. */
const cut = (connection: Connection): Effect.Effect<void> =>
  Effect.sync(() => {
    // the driver has no call for it, but its connections have their socket
    const { pg } = connection as { readonly pg?: { readonly connection?: { readonly stream?: Socket } } }
    pg?.connection?.stream?.destroy()
  })

interface Socket {
  readonly destroy: () => void
}
