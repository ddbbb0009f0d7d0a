/** The index cache of a database store, during concurrent reads of two partitions. */
import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import type * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { type Database, fromDriver, type Query } from "../../src/storage/MemoryStore/Sql/Database.ts"
import { partitionOf } from "../../src/storage/MemoryStore/Sql/Rows.ts"
import * as SqlEngine from "../../src/storage/MemoryStore/Sql/SqlEngine.ts"
import { dialect } from "../../src/storage/MemoryStore/Sqlite.ts"
import { ada, bob, draft, found, id, system } from "../../src/testing/Sample.ts"
import { file, opened } from "./File.ts"

/** Holds back rows that were read from a partition, until `go` succeeds. `skip`: number of earlier reads that are let through. */
interface Gate {
  readonly partition: string
  skip: number
  readonly reached: Deferred.Deferred<void>
  readonly go: Deferred.Deferred<void>
}
const gate = (viewer: Viewer.Viewer, skip = 0) =>
  Effect.map(
    Effect.all([Deferred.make<void>(), Deferred.make<void>()]),
    ([reached, go]): Gate => ({ partition: partitionOf({ userId: viewer.userId! }), skip, reached, go })
  )

describe("the index cache of a database store", () => {
  it.scoped("a record that moves to another scope during a read of its old scope is found only in the new scope", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const writer = yield* opened(filename)
      const [old, moved] = yield* Effect.all([gate(bob), gate(ada, 1)])
      const sql = yield* SqliteClient.make({ filename })
      const database = fromDriver({
        dialect,
        reserve: sql.reserve,
        begin: "BEGIN IMMEDIATE",
        written: (sql) => sql,
        failureOf: (op, cause) => MemoryError.make("io", { op, message: "no", cause }),
        isConflict: () => false,
        pause: 0,
        attempts: 0,
        lock: () => Effect.void
      })
      const query: Query = (sql, parameters) =>
        Effect.gen(function*() {
          const rows = yield* database.query(sql, parameters)
          const held = [old, moved].find(({ partition }) =>
            sql.includes("SELECT version, id, entry") && parameters?.[1] === partition
          )
          if (held !== undefined && held.skip-- <= 0) {
            yield* Deferred.succeed(held.reached, undefined)
            yield* Deferred.await(held.go)
          }
          return rows
        })
      const gated: Database = { ...database, query, reading: Effect.succeed({ query }) }
      const store = yield* MemoryStore.make("gated", yield* SqlEngine.make("gated", gated))

      yield* writer.put(bob, [draft("wandering", { id: id("x"), scope: { userId: "bob" } })])
      const late = yield* Effect.fork(found(store, bob, { text: "wandering" }))
      yield* Deferred.await(old.reached) // the row was read from the scope of bob
      yield* writer.put(system, [draft("wandering", { id: id("x"), scope: { userId: "ada" } })])
      yield* writer.put(ada, Array.from({ length: 600 }, (_, n) => draft(`note ${n}`, { scope: { userId: "ada" } })))
      const reading = yield* Effect.fork(found(store, ada, { text: "wandering" }))
      yield* Deferred.await(moved.reached) // the row was read from the scope of ada, and more rows are to be read
      yield* Deferred.succeed(old.go, undefined)
      yield* Fiber.await(late)
      yield* Deferred.succeed(moved.go, undefined)
      assert.deepStrictEqual(yield* Fiber.join(reading), ["wandering"])
      assert.deepStrictEqual(yield* found(store, bob, { text: "wandering" }), [])
      assert.deepStrictEqual(yield* found(store, ada, { text: "wandering" }), ["wandering"])
    }).pipe(Effect.provide(Reactivity.layer)))
})
