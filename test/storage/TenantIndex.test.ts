import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as EventLoop from "../../src/host/EventLoop.ts"
import { MemoryKind, MemoryRecord } from "../../src/index.ts"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import { Cache } from "../../src/storage/internal/MemoryEngine.ts"
import * as TenantIndex from "../../src/storage/TenantIndex.ts"
import { id, system } from "../../src/testing/Sample.ts"
import * as world from "../ranking/world.ts"

const record = (name: string, body: string) => world.record(name, { scope: "global", kind: "reference", body })
const row = (record: MemoryRecord.MemoryRecord) => ({ record, forgotten: false })
const made = () =>
  TenantIndex.make({ kinds: MemoryKind.Kinds.defaultValue(), analyzer: Analyzer.make(), embeddings: undefined })

/** Text so long that indexing pauses after every record. */
const filler = " filler".repeat(9_000)

describe("a TenantIndex that yields to the event loop while it is built", () => {
  it.live("the finished index contains each current row once, even if rows change during the build", () =>
    Effect.gen(function*() {
      const tenantIndex = made()
      for (let n = 0; n < 8; n++) tenantIndex.set(id(`${n}`), row(record(`${n}`, `old${n}${filler}`)))
      const first = yield* Effect.fork(tenantIndex.prepared)
      const second = yield* Effect.fork(tenantIndex.prepared)
      yield* EventLoop.pause
      for (const n of [0, 7]) tenantIndex.set(id(`${n}`), row(record(`${n}`, `new${n}`)))
      for (const n of [1, 6]) tenantIndex.set(id(`${n}`), undefined)
      tenantIndex.set(id("8"), row(record("8", "new8")))
      yield* Effect.all([Fiber.join(first), Fiber.join(second)])
      const index = tenantIndex.index()
      assert.strictEqual(index.size, 7)
      const found = (text: string) =>
        index.search(system, { text, limit: 20 }, 0).hits.map(({ record }) => record.summary).sort()
      assert.deepStrictEqual(found("old0 old1 old2 old3 old4 old5 old6 old7"), ["2", "3", "4", "5"])
      assert.deepStrictEqual(found("new0 new7 new8"), ["0", "7", "8"])
      assert.isTrue(tenantIndex.isBuilt())
    }))

  it.live("a call of `index` completes an unfinished build at once, without yielding", () =>
    Effect.gen(function*() {
      const tenantIndex = made()
      for (let n = 0; n < 4; n++) tenantIndex.set(id(`${n}`), row(record(`${n}`, `old${n}${filler}`)))
      const building = yield* Effect.fork(tenantIndex.prepared)
      yield* EventLoop.pause
      const index = tenantIndex.index()
      assert.strictEqual(index.size, 4)
      yield* Fiber.join(building)
      assert.strictEqual(tenantIndex.index(), index)
    }))

  it.live("a caller waits until the index is sorted, even if an earlier caller was interrupted during the sorting", () =>
    Effect.gen(function*() {
      const tenantIndex = made()
      tenantIndex.set(id("first"), row(record("first", "tea")))
      const index = tenantIndex.index()
      const { sorting } = index
      let isSorting = false
      Object.assign(index, {
        sorting() {
          isSorting = true
          return sorting()
        }
      })
      const count = 20_000
      for (let n = 0; n < count; n++) {
        tenantIndex.set(id(`${n}`), row(world.record(`${n}`, { createdAt: (n * 7_919) % count })))
      }
      const first = yield* Effect.fork(tenantIndex.prepared)
      while (!isSorting) yield* EventLoop.pause
      yield* Fiber.interrupt(first)
      assert.isFalse(sorting().next().done)
      yield* tenantIndex.prepared
      assert.isTrue(sorting().next().done)
    }))
})

describe("a TenantIndex that is restored from bytes", () => {
  const count = 20_000
  const rowOf = (n: number, text = `old${n % 50}`) => row(record(`${n}`, text))
  const filled = () => {
    const tenantIndex = made()
    for (let n = 0; n < count; n++) tenantIndex.set(id(`${n}`), rowOf(n))
    return tenantIndex
  }
  const encodedOf = (tenantIndex: TenantIndex.TenantIndex) => {
    const steps = tenantIndex.encoded()
    return steps && EventLoop.atOnce(steps).slice()
  }
  const change = (tenantIndex: TenantIndex.TenantIndex, n: number) => {
    tenantIndex.set(id(`${n}`), rowOf(n, "new"))
    tenantIndex.set(id(`${n + 1}`), undefined)
    tenantIndex.set(id(`${count + n}`), rowOf(count + n, "new"))
    tenantIndex.set(id(`${n}`), rowOf(n, "newer"))
  }
  const answers = (tenantIndex: TenantIndex.TenantIndex) =>
    ["new", "newer", "old7", "old8"].map((text) => {
      const { hits, leftOut } = tenantIndex.index().search(system, { text, limit: 50 }, 0)
      return [hits.map(({ record, score }) => [record.summary, score]), leftOut, tenantIndex.index().size]
    })

  it.live("a restored index contains all rows that were set before, during or after the restore", () =>
    Effect.gen(function*() {
      const first = filled()
      first.index()
      const encoded = encodedOf(first)!
      const tenantIndex = filled()
      tenantIndex.restore(encoded)
      assert.strictEqual(encodedOf(tenantIndex)?.length, encoded.length)
      const expected = filled()
      for (const n of [7, 1_007]) for (const one of [tenantIndex, expected]) change(one, n)
      const waiting = yield* Effect.fork(tenantIndex.prepared)
      const other = yield* Effect.fork(tenantIndex.prepared)
      let turns = 0
      const turning = yield* Effect.fork(Effect.forever(Effect.zipRight(EventLoop.pause, Effect.sync(() => turns++))))
      for (const n of [2_007, 7, 19_007]) {
        yield* EventLoop.pause
        for (const one of [tenantIndex, expected]) change(one, n)
      }
      yield* Effect.all([Fiber.join(waiting), Fiber.join(other)])
      assert.isAtLeast(turns, 2)
      yield* Fiber.interrupt(turning)
      assert.isFalse(tenantIndex.isBuilt())
      assert.deepStrictEqual(answers(tenantIndex), answers(expected))
      for (const one of [tenantIndex, expected]) change(one, 3_007)
      yield* tenantIndex.encodable
      const again = encodedOf(tenantIndex)!
      const third = made()
      for (const known of tenantIndex.rows()) third.set(known.record.id, known)
      third.restore(again)
      assert.deepStrictEqual(answers(third), answers(expected))
      assert.isFalse(third.isBuilt())
    }))

  it.live("`index` completes an unfinished restore at once; it builds the index anew if the bytes contain a row removed before the restore", () =>
    Effect.gen(function*() {
      const first = filled()
      first.index()
      const encoded = encodedOf(first)!
      const expected = filled()
      const tenantIndex = filled()
      tenantIndex.restore(encoded.slice())
      const waiting = yield* Effect.fork(tenantIndex.prepared)
      yield* EventLoop.pause
      for (const one of [tenantIndex, expected]) change(one, 7)
      assert.deepStrictEqual(answers(tenantIndex), answers(expected))
      assert.isFalse(tenantIndex.isBuilt())
      yield* Fiber.join(waiting)
      const lacking = filled()
      lacking.set(id("3"), undefined)
      lacking.restore(encoded.slice())
      expected.set(id("3"), undefined)
      change(lacking, 7)
      assert.deepStrictEqual(answers(lacking), answers(expected))
      assert.isTrue(lacking.isBuilt())
    }))

  it("an index that was never built has no encoding, and a restored index is encoded as the same bytes", () => {
    const tenantIndex = made()
    assert.isUndefined(tenantIndex.encoded())
    tenantIndex.set(id("a"), row(record("a", "tea")))
    assert.isUndefined(tenantIndex.encoded())
    const bytes = Uint8Array.of(1, 2, 3)
    tenantIndex.restore(bytes)
    assert.strictEqual(EventLoop.atOnce(tenantIndex.encoded()!), bytes)
  })
})

it.live("the index of links yields to the event loop while it is built, and includes the rows written meanwhile", () =>
  Effect.gen(function*() {
    const tenantIndex = made()
    for (let n = 0; n < 40; n++) tenantIndex.set(id(`${n}`), row(record(`Name ${n}`, `[[Name ${n + 1}]]${filler}`)))
    let turns = 0
    const other = yield* Effect.fork(Effect.forever(Effect.zipRight(EventLoop.pause, Effect.sync(() => turns++))))
    const asking = yield* Effect.fork(tenantIndex.links)
    yield* EventLoop.pause
    tenantIndex.set(id("3"), row(record("Other", "[[Name 39]]")))
    tenantIndex.set(id("39"), undefined)
    tenantIndex.set(id("new"), row(record("New", "[[name  3]]")))
    const links = yield* Fiber.join(asking)
    assert.isAtLeast(turns, 8)
    yield* Fiber.interrupt(other)
    const named = (...names: ReadonlyArray<string>) => links.named(names, () => true).map(({ summary }) => summary)
    const referring = (...keys: ReadonlyArray<string>) =>
      links.referring(keys, () => true).map(({ summary }) => summary)
    assert.deepStrictEqual(named("name 3", "other", "name 39", "name 7"), ["Other", "Name 7"])
    assert.deepStrictEqual(referring("name 3").sort(), ["Name 2", "New"])
    assert.deepStrictEqual(referring("name 39").sort(), ["Name 38", "Other"])
    assert.deepStrictEqual(referring("name 4"), [])
    assert.deepStrictEqual(links.referring(["name 3"], ({ summary }) => summary === "New").length, 1)
  }))

describe("the cache of tenant indexes", () => {
  const filled = (rows: number, body = "tea") => {
    const tenantIndex = made()
    for (let n = 0; n < rows; n++) tenantIndex.set(id(`${n}`), row(record(`${n}`, body)))
    return tenantIndex
  }

  it("the cache keeps the indexes of recently used small tenants, and of all large tenants", () => {
    const makes = new Map<string, number>()
    const cache = new Cache((tenant) => {
      makes.set(tenant, (makes.get(tenant) ?? 0) + 1)
      const [size] = tenant.split(" ")
      return size === "long" ? filled(4, "x".repeat(20_000)) : filled(Number(size))
    })
    const tenants = Array.from({ length: 300 }, (_, n) => `2 ${n}`)
    const others = ["33 rows", "long texts"]
    const made = (tenant: string) => makes.get(tenant)
    for (let round = 0; round < 3; round++) {
      for (const tenant of [...others, ...tenants]) {
        assert.strictEqual(cache.get(tenant), cache.get(tenant))
        cache.get("2 asked for again and again")
      }
    }
    assert.deepStrictEqual([...others, "2 asked for again and again"].map(made), [1, 1, 1])
    assert.deepStrictEqual(new Set(tenants.map(made)), new Set([3]))
    for (const tenant of tenants.slice(-200)) cache.get(tenant)
    assert.deepStrictEqual(new Set(tenants.slice(-200).map(made)), new Set([3]))
    cache.get("0 rows")
    cache.get("0 rows")
    assert.strictEqual(made("0 rows"), 2)
  })

  it("the cache keeps the index of a tenant that has grown large, and drops the index of a tenant without rows", () => {
    const cache = new Cache(() => filled(1))
    const grown = cache.get("grown")
    cache.keep("grown", grown, 33)
    const gone = cache.get("gone")
    cache.keep("gone", gone, 0)
    for (let n = 0; n < 300; n++) cache.get(`${n}`)
    assert.strictEqual(cache.get("grown"), grown)
    assert.strictEqual(cache.large("grown"), grown)
    assert.notStrictEqual(cache.get("gone"), gone)
    cache.keep("grown", grown, 2)
    for (let n = 0; n < 300; n++) cache.get(`${n}`)
    assert.notStrictEqual(cache.get("grown"), grown)
  })
})
