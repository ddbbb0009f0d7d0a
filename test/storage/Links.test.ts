import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import { byRecency, MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import * as MemoryScope from "../../src/domain/MemoryScope.ts"
import * as Wikilink from "../../src/domain/Wikilink.ts"
import { KeyIndex } from "../../src/storage/internal/RecordNames.ts"
import * as Links from "../../src/storage/Links.ts"

const id = (name: string) => MemoryId.stableId(name)
const record = (name: string, fields: Partial<MemoryRecord> = {}): MemoryRecord =>
  new MemoryRecord({
    id: id(name),
    scope: "global",
    kind: "reference",
    summary: name,
    body: "",
    tags: [],
    importance: 0.5,
    links: [],
    data: {},
    metadata: {},
    source: { origin: "file", trust: 2 },
    createdAt: 0,
    validAt: 0,
    revision: 1,
    ...fields
  })
const ends = (links: Links.Links, name: string, sees: (record: MemoryRecord) => boolean = () => true) => {
  const { from, to } = links.seen(sees)(id(name))
  return { to: to.map(({ id }) => id), from: from.map(({ id }) => id) }
}

/** Returns the expected neighbours, by scanning every link of every record. */
const plainly = (all: ReadonlyArray<MemoryRecord>, self: MemoryId.MemoryId): Links.Neighbours => {
  const sorted = all.slice().sort(byRecency)
  const meant = (target: string, by: MemoryRecord) => {
    const others = sorted.filter(({ id }) => id !== by.id)
    const whole = Wikilink.nameOf(target)
    // `split` returns at least one part
    const byName = [whole, whole.split("/").at(-1)!].map((name) =>
      others.filter(({ source, summary }) => [summary, source.reference ?? ""].map(Wikilink.nameOf).includes(name))
    )
    const bearers = byName.find(({ length }) => length > 0) ?? []
    const near = bearers.find(({ scope }) => MemoryScope.key(scope) === MemoryScope.key(by.scope))
    return sorted.find(({ id }) => id === target) ?? near ?? bearers[0]
  }
  const edges = sorted.flatMap((by) => [
    ...by.links.map((link) => ({ ...link, by: by.id })),
    ...Wikilink.parse(by.body).map(({ target }) => ({
      by: by.id,
      to: meant(target, by)?.id,
      type: "wikilink",
      weight: 1
    }))
  ]).filter(({ by, to }) => by !== to && sorted.some(({ id }) => id === to))
    .filter(({ by, to, type }, n, all) =>
      n === all.findIndex((edge) => edge.by === by && edge.to === to && edge.type === type)
    )
  return {
    // `edges` has only edges with a target
    to: edges.filter(({ by }) => by === self).map(({ to, type, weight }) => ({ id: to!, type, weight })),
    from: edges.filter(({ to }) => to === self).map(({ by, type, weight }) => ({ id: by, type, weight }))
  }
}

describe("the index of links", () => {
  it("the index finds the same links as a scan of all records, for every viewer and after random changes", () => {
    const { array, boolean, constantFrom, integer, oneof, option, tuple } = FastCheck
    const slot = integer({ min: 0, max: 7 })
    const name = constantFrom("Tea", "tea", "Cup", "Garden/Tea", "a/Cup", "Straße")
    const target = oneof(
      name,
      constantFrom("TEA#leaf", "x/tea", "garden/tea|t", "STRASSE"),
      slot.map((n) => id(`${n}`))
    )
    const any = tuple(
      slot,
      FastCheck.record({
        scope: constantFrom<MemoryScope.MemoryScope>("global", { userId: "ada" }, { userId: "bob" }),
        summary: name,
        body: array(target, { maxLength: 4 }).map((targets) => targets.map((target) => `[[${target}]]`).join(" ")),
        links: array(
          FastCheck.record({
            to: slot.map((n) => id(`${n}`)),
            type: constantFrom("x", "wikilink"),
            weight: constantFrom(0.5, 1)
          }),
          { maxLength: 2 }
        ),
        source: option(name, { nil: undefined }).map((reference) => ({
          origin: "file" as const,
          trust: 2 as const,
          ...(reference !== undefined && { reference })
        })),
        createdAt: integer({ min: 0, max: 3 })
      }),
      boolean()
    )
    const viewer = constantFrom<(record: MemoryRecord) => boolean>(
      () => true,
      ({ scope }) => scope === "global" || scope.userId === "ada",
      ({ scope }) => scope !== "global"
    )
    let found = 0
    FastCheck.assert(
      FastCheck.property(array(any, { minLength: 4, maxLength: 24 }), viewer, (course, sees) => {
        const links = Links.make()
        const world = new Map<MemoryId.MemoryId, MemoryRecord>()
        for (const [n, fields, isGone] of course) {
          const next = isGone && world.has(id(`${n}`)) ? undefined : record(`${n}`, fields)
          if (next) world.set(next.id, next)
          else world.delete(id(`${n}`))
          links.set(id(`${n}`), next)
          const seen = Array.from(world.values()).filter(sees)
          const ask = links.seen(sees)
          for (let slot = 0; slot < 8; slot++) {
            const at = id(`${slot}`)
            const expected = seen.some((record) => record.id === at) ? plainly(seen, at) : { to: [], from: [] }
            found += expected.from.length
            assert.deepStrictEqual(ask(at), expected)
          }
        }
      }),
      { seed: 2, numRuns: 200 }
    )
    assert.isAbove(found, 5_000)
  })

  it("a [[wikilink]] leads to the file with that title, path or `source.reference`; among equally deep files, the shortest path wins", () => {
    const links = Links.make()
    const file = (name: string, reference: string, fields: Partial<MemoryRecord> = {}) =>
      links.set(id(name), record(name, { source: { origin: "file", trust: 2, reference }, ...fields }))
    file("one", "Garden/Tea.md", { summary: "Tea" })
    file("two", "Kitchen/Tea.md", { summary: "Tea", createdAt: 1 })
    file("three", "f1c2", { metadata: { links: ["[[garden/tea]]", "tea", 7], other: "[[two]]" } })
    links.set(id("user"), record("user", { source: { origin: "user", trust: 1, reference: "secret" } }))
    file("four", "four.md", { body: "[[Garden/Tea]] [[Tea]] [[f1c2]] [[secret]] [[Cellar/Tea]]" })
    assert.deepStrictEqual(ends(links, "four").to, [id("one"), id("three")])
    assert.deepStrictEqual(ends(links, "two").from, [])
    assert.deepStrictEqual(ends(links, "three"), { to: [id("one")], from: [id("four")] })
  })

  it("the index separates the records and links of two names that have the same hash", () => {
    const [one, other] = ["x224bqckw93p", "x22h6qcn2u6u"] as const
    assert.strictEqual(Wikilink.hash(one), Wikilink.hash(other))
    const index = Links.makeIndex()
    const records = [
      record(one),
      record(other),
      record("to one", { body: `[[${one}]]` }),
      record("to other", { body: `[[${other.toUpperCase()}]]` })
    ]
    for (const record of records) index.add(record)
    const names = (found: ReadonlyArray<MemoryRecord>) => found.map(({ summary }) => summary)
    assert.deepStrictEqual(names(index.named([one], () => true)), [one])
    assert.deepStrictEqual(names(index.named([other], () => true)), [other])
    assert.deepStrictEqual(names(index.referring([one], () => true)), ["to one"])
    assert.deepStrictEqual(names(index.referring([other], () => true)), ["to other"])
    index.remove(records[0]!)
    index.remove(records[2]!)
    assert.deepStrictEqual(names(index.named([one, other], () => true)), [other])
    assert.deepStrictEqual(names(index.referring([one, other], () => true)), ["to other"])
  })

  it("each of ten thousand records named Hub contains [[hub]], which links to the newest other Hub of the same scope", () => {
    const links = Links.make()
    for (let n = 0; n < 10_000; n++) {
      links.set(
        id(`${n}`),
        record(`${n}`, { summary: "Hub", body: "[[hub]]", createdAt: n, scope: { userId: `${n % 3}` } })
      )
    }
    assert.lengthOf(ends(links, "9999").from, 3_333)
    assert.lengthOf(ends(links, "0").from, 0)
  })
})

describe("KeyIndex", () => {
  it("`get` of a KeyIndex returns the objects of every key, even if 15,000 keys fill several tables", () => {
    const index = new KeyIndex<{ n: number }>()
    const all = Array.from({ length: 20_000 }, (_, n) => ({ key: Math.imul(n % 15_000, 0x01000193), n }))
    for (const one of all) index.add(one.key, one)
    for (const one of all) if (one.n % 3 === 0) index.remove(one.key, one)
    const expected = new Map<number, Array<{ n: number }>>()
    for (const one of all) expected.set(one.key, (expected.get(one.key) ?? []).concat(one.n % 3 === 0 ? [] : [one]))
    for (const [key, some] of expected) assert.deepStrictEqual(Array.from(index.get(key)), some)
  })

  it("`get` of a KeyIndex returns each present object once, in the order in which the objects were added", () => {
    const { array, boolean, constantFrom, integer, property, tuple } = FastCheck
    const objects = Array.from({ length: 5 }, (_, n) => ({ n }))
    FastCheck.assert(
      property(
        array(tuple(constantFrom(0, 1, 256, -1, -2147483648), integer({ min: 0, max: 4 }), boolean()), {
          maxLength: 40
        }),
        (course) => {
          const index = new KeyIndex<{ n: number }>()
          const plain = new Map<number, Set<{ n: number }>>()
          for (const [key, n, isThere] of course) {
            const set = plain.get(key) ?? new Set()
            plain.set(key, set)
            if (isThere) {
              index.add(key, objects[n]!)
              set.add(objects[n]!)
            } else {
              index.remove(key, objects[n]!)
              set.delete(objects[n]!)
            }
            for (const [key, set] of plain) assert.deepStrictEqual(Array.from(index.get(key)), Array.from(set))
          }
        }
      ),
      { seed: 1, numRuns: 300 }
    )
  })
})
