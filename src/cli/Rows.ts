/** The rows of a store as its operator sees them: every record, tombstone and row of the library, of every tenant. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../domain/MemoryError.ts"
import * as EventLoop from "../host/EventLoop.ts"
import { rowsOf, sideOf } from "../storage/Copy/Lineage.ts"
import type { Stored } from "../storage/Engine.ts"
import type { Service } from "../storage/MemoryStore.ts"

/** Rows that are read at once. */
const page = 1_000

/** Streams the rows of a tenant, with a turn of the event loop after each page. Fails with `unsupported` where the store has no rows of its own. */
export const of = (store: Service, tenant: string): Stream.Stream<Stored, MemoryError> =>
  Stream.unwrap(Effect.map(sideOf(store), (side) => rowsOf(side, tenant, page))).pipe(
    Stream.mapChunksEffect((rows) => Effect.as(EventLoop.turn, rows))
  )

/** Lists the tenants to look at: the one that was named, else all. */
export const tenantsOf = (
  store: Service,
  named?: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<string>, MemoryError> =>
  named === undefined ? Effect.map(store.tenants, (all) => Array.from(new Set(all)).sort()) : Effect.succeed(named)

/** Counts the rows of the tenants. Cost: all of them are read. */
export const count = (store: Service, named?: ReadonlyArray<string>): Effect.Effect<number, MemoryError> =>
  Effect.flatMap(
    tenantsOf(store, named),
    (tenants) =>
      Effect.reduce(tenants, 0, (sum, tenant) => Effect.map(Stream.runCount(of(store, tenant)), (count) => sum + count))
  )
