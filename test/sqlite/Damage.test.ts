import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as fs from "node:fs"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { Sqlite } from "../../src/sqlite.ts"
import type * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { times } from "../vault/Program.ts"
import { all, bob, damageIndex, draft, file, opened, raw } from "./File.ts"

/** The bytes of a file with records, tombstones, revisions, links and uses. */
const sample = Effect.scoped(Effect.gen(function*() {
  const filename = yield* file
  yield* Effect.scoped(Effect.gen(function*() {
    const store = yield* opened(filename)
    const put = yield* store.put(
      bob,
      Array.from({ length: 40 }, (_, n) => ({ ...draft(`note ${n} about [[note ${n + 1}]]`), summary: `note ${n}` }))
    )
    for (const { record } of put.slice(0, 9)) yield* store.update(bob, record.id, { tags: ["seen"] })
    yield* store.forget(bob, put.slice(9, 12).map(({ record }) => record.id))
    yield* store.touch(bob, put.slice(20, 25).map(({ record }) => record.id))
  }))
  return fs.readFileSync(filename)
}))

/** Calls operations of a store, one after another, even if an earlier one has failed. Dies if an operation dies. */
const used = (store: MemoryStore.Service) =>
  Effect.gen(function*() {
    const tried = <A>(name: string, self: Effect.Effect<A, MemoryError.MemoryError>) => typed(name, self)
    const listed = yield* tried("all", all(store))
    const [first] = listed ?? []
    yield* tried("list", store.list(bob, { forgotten: true }))
    yield* tried("search", store.search(bob, { text: "about note 7" }))
    yield* tried("system", store.search(Viewer.system(), { text: "note" }))
    if (first !== undefined) {
      yield* tried("get", store.get(bob, [first.id]))
      yield* tried("history", store.history(bob, first.id))
      yield* tried("links", store.links(bob, first.id))
      yield* tried("uses", store.uses(bob, [first.id]))
      yield* tried("update", store.update(bob, first.id, { tags: ["again"] }))
      yield* tried("purge", store.forget(bob, [first.id], { purge: true }))
    }
    yield* tried("put", store.put(bob, [draft("new")]))
    yield* tried("tenants", store.tenants)
    yield* tried("compact", store.compact)
  })

/** Runs a call, which may fail only with a `MemoryError`. */
const typed = <A>(name: string, self: Effect.Effect<A, MemoryError.MemoryError>) =>
  Effect.map(Effect.exit(self), (exit) => {
    if (exit._tag === "Success") return exit.value
    assert.isTrue(Cause.isFailType(exit.cause), `${name}: ${Cause.pretty(exit.cause)}`)
    return undefined
  })

/** Opens and uses a damaged file. Returns the reason of the failure if the file cannot be opened. */
const survives = (filename: string) =>
  Effect.scoped(Effect.gen(function*() {
    const result = yield* Effect.either(
      opened(filename).pipe(
        Effect.catchAllDefect((defect) => Effect.die(new Error("opening died", { cause: defect })))
      )
    )
    if (result._tag === "Left") return result.left.reason
    yield* used(result.right)
    return undefined
  }))

describe("a damaged SQLite file", () => {
  it.scoped("a truncated file never causes a defect: opening and use succeed or fail with a MemoryError", () =>
    Effect.gen(function*() {
      const bytes = yield* sample
      const filename = yield* file
      const reasons = new Map<string | undefined, number>()
      for (let n = 0; n < times(12, 400); n++) {
        fs.writeFileSync(filename, bytes.subarray(0, yield* Random.nextIntBetween(1, bytes.length)))
        const reason = yield* survives(filename)
        reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
        for (const end of ["-wal", "-shm"]) fs.rmSync(filename + end, { force: true })
      }
      assert.isAbove(reasons.get("corrupt") ?? 0, 0)
      assert.includeMembers(["corrupt", "io", undefined], Array.from(reasons.keys()))
    }).pipe(Effect.withRandom(Random.make("cut"))))

  it.scoped("a file with changed bytes never causes a defect: opening and use succeed or fail with a MemoryError", () =>
    Effect.gen(function*() {
      const bytes = yield* sample
      const filename = yield* file
      for (let n = 0; n < times(15, 2_000); n++) {
        const damaged = Buffer.from(bytes)
        for (let flips = yield* Random.nextIntBetween(1, 60); flips > 0; flips--) {
          damaged[yield* Random.nextIntBetween(0, bytes.length)] = yield* Random.nextIntBetween(0, 256)
        }
        fs.writeFileSync(filename, damaged)
        yield* survives(filename)
        for (const end of ["-wal", "-shm"]) fs.rmSync(filename + end, { force: true })
      }
    }).pipe(Effect.withRandom(Random.make("flip"))))

  it.scoped("`Sqlite.verify` names an index that lacks an entry for a row, and finds no problem in an undamaged file", () =>
    Effect.gen(function*() {
      const filename = yield* file
      fs.writeFileSync(filename, yield* sample)
      assert.deepStrictEqual(yield* Sqlite.verify({ filename }), [])
      yield* damageIndex(filename, "memory_records_hash")
      const [problem] = yield* Sqlite.verify({ filename })
      assert.match(problem ?? "", /missing from index memory_records_hash/)
    }))

  it.scoped("`Sqlite.verify` finds a problem in a file with an unreadable page of any table or index", () =>
    Effect.gen(function*() {
      const bytes = yield* sample
      const filename = yield* file
      fs.writeFileSync(filename, bytes)
      const roots = yield* raw(filename, "SELECT name, rootpage FROM sqlite_master WHERE rootpage > 1")
      assert.isAbove(roots.length, 10)
      for (const { name, rootpage } of roots) {
        const damaged = Buffer.from(bytes)
        damaged.fill(0x5a, (Number(rootpage) - 1) * 4_096, (Number(rootpage) - 1) * 4_096 + 16)
        fs.writeFileSync(filename, damaged)
        const found = yield* Effect.either(Sqlite.verify({ filename }))
        if (found._tag === "Left") assert.strictEqual(found.left.reason, "corrupt", `${name}`)
        else assert.isNotEmpty(found.right, `${name}`)
      }
    }))

  it.scoped("`Sqlite.verify` fails with `io` for a missing file and creates none, and with `corrupt` for a file that is no database", () =>
    Effect.gen(function*() {
      const filename = yield* file
      assert.strictEqual((yield* Effect.flip(Sqlite.verify({ filename }))).reason, "io")
      assert.isFalse(fs.existsSync(filename))
      fs.writeFileSync(filename, "no database ".repeat(1_000))
      assert.strictEqual((yield* Effect.flip(Sqlite.verify({ filename }))).reason, "corrupt")
      for (const blank of ["", "  "]) {
        assert.strictEqual((yield* Effect.flip(Sqlite.verify({ filename: blank }))).reason, "invalid_draft")
      }
      assert.deepStrictEqual(yield* Sqlite.verify({ filename: ":memory:" }), [])
    }))

  it.scoped("a file with invalid rows or a missing table causes at most a MemoryError, never a defect", () =>
    Effect.gen(function*() {
      const bytes = yield* sample
      let tried = 0
      const isTried = () => tried++ % times(4, 1) === 0
      for (const table of ["memory_records", "memory_revisions"]) {
        for (const value of ["", "{", "null", "7", "[]", "{}", "{\"id\":7}", "{\"id\":\"x\",\"scope\":null}"]) {
          if (!isTried()) continue
          const filename = yield* file
          fs.writeFileSync(filename, bytes)
          yield* raw(filename, `UPDATE ${table} SET content = '${value}'`)
          yield* survives(filename)
        }
      }
      for (const column of ["entry", "scope", "kind", "partition", "hash", "tenant", "id"]) {
        for (const value of ["\\", "{", "[1,2]", "null", "[1,[\"a\"],null]", "[1,[\"a\",2],{}]", "7"]) {
          if (!isTried()) continue
          const filename = yield* file
          fs.writeFileSync(filename, bytes)
          yield* raw(filename, `UPDATE OR IGNORE memory_records SET ${column} = '${value}'`)
          yield* survives(filename)
        }
      }
      for (const table of ["memory_names", "memory_scopes", "memory_partitions", "memory_changes", "memory_meta"]) {
        const filename = yield* file
        fs.writeFileSync(filename, bytes)
        yield* raw(filename, `DROP TABLE ${table}`)
        yield* survives(filename)
      }
    }))
})
