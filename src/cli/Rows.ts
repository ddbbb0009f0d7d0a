/** All rows of a store, read without access control: records, tombstones (forgotten records) and internal rows of every tenant. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../domain/MemoryError.ts"
import { isInternal } from "../domain/MemoryScope.ts"
import * as ThreadRows from "../harness/Threads/ThreadRows.ts"
import * as EventLoop from "../host/EventLoop.ts"
import { rowsOf, sideOf } from "../storage/Copy/Lineage.ts"
import type { Stored } from "../storage/Engine.ts"
import type { Service } from "../storage/MemoryStore.ts"

/** Number of rows that are read at a time. */
const page = 1_000

/**
 * Streams all rows of a tenant. Other tasks of the event loop run after each page. Fails with `unsupported` if the store does not expose
 * its rows.
 */
export const of = (store: Service, tenant: string): Stream.Stream<Stored, MemoryError> =>
  Stream.unwrap(Effect.map(sideOf(store), (side) => rowsOf(side, tenant, page))).pipe(
    Stream.mapChunksEffect((rows) => Effect.as(EventLoop.pause, rows))
  )

/** Returns `named` if it is given, and otherwise all tenants of the store. */
export const tenantsOf = (
  store: Service,
  named?: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<string>, MemoryError> =>
  named === undefined ? Effect.map(store.tenants, (all) => Array.from(new Set(all)).sort()) : Effect.succeed(named)

/** Counts the rows of the named tenants, or of all tenants if `named` is absent. Cost: reads every counted row. */
export const count = (store: Service, named?: ReadonlyArray<string>): Effect.Effect<number, MemoryError> =>
  Effect.flatMap(
    tenantsOf(store, named),
    (tenants) =>
      Effect.reduce(tenants, 0, (sum, tenant) => Effect.map(Stream.runCount(of(store, tenant)), (count) => sum + count))
  )

const readThread = Schema.decodeUnknownEither(ThreadRows.ThreadData)

/** Counts the threads of the named tenants (default: all tenants), and the messages in these threads. Reads every row of the tenants. */
export const threads = (
  store: Service,
  named?: ReadonlyArray<string>
): Effect.Effect<{ readonly threads: number; readonly messages: number }, MemoryError> =>
  Effect.gen(function*() {
    const sums = { threads: 0, messages: 0 }
    for (const tenant of yield* tenantsOf(store, named)) {
      yield* Stream.runForEach(of(store, tenant), ({ forgotten, record }) =>
        Effect.sync(() => {
          if (forgotten || record.kind !== ThreadRows.kind || !isInternal(record.scope)) return
          const thread = readThread(record.data)
          if (Either.isLeft(thread)) return
          sums.threads++
          sums.messages += thread.right.length
        }))
    }
    return sums
  })
