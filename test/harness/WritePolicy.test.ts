import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import type { MemoryMutation } from "../../src/domain/MemoryMutation.ts"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, draft, heard, reason, run, service } from "./Service.ts"

describe("global records in MemoryService", () => {
  const seed = Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    const [rule] = yield* store.put(Viewer.system(), [{ scope: "global", kind: "feedback", body: "Use tabs" }])
    const [file] = yield* store.put(Viewer.system(), [{
      scope: "global",
      kind: "reference",
      body: "AGENTS",
      tags: ["instructions"]
    }], {
      origin: "instructions",
      trust: 0
    })
    return { rule: rule!.record, file: file!.record }
  })
  const attempts = (id: MemoryId.MemoryId) =>
    Effect.map(service, (memory): ReadonlyArray<MemoryService.Operation<unknown>> => [
      memory.put(draft("x", { id })),
      memory.update(id, { body: "x" }),
      memory.forget(id),
      memory.forget(id, { purge: true }),
      memory.apply([{ _tag: "Put", draft: draft("fine") }, { _tag: "Update", id, patch: { body: "x" } }]),
      memory.apply([{ _tag: "Forget", id }]),
      memory.apply([{ _tag: "Restore", id, revision: 1 }]),
      memory.apply([{ _tag: "Restore", id, revision: 0 }])
    ])

  it.effect("may be changed by default", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { rule } = yield* seed
      yield* memory.put(draft("Use spaces", { scope: "global" }))
      yield* memory.update(rule.id, { body: "x" })
      assert.isTrue(yield* memory.forget(rule.id))
    }).pipe(run(ada)))

  it.effect("cannot be changed under `globalWrites: deny`; every attempt fails with `not_owned`", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { rule } = yield* seed
      for (const attempt of yield* attempts(rule.id)) assert.strictEqual(yield* reason(attempt), "not_owned")
      assert.strictEqual(yield* reason(memory.put(draft("x", { scope: "global" }))), "not_owned")
      assert.strictEqual(
        yield* reason(memory.apply([{ _tag: "Put", draft: draft("x", { scope: "global" }) }])),
        "not_owned"
      )
      assert.deepStrictEqual((yield* memory.list({ kinds: ["feedback", "user"] })).items, [rule])
    }).pipe(run(ada, { spec: { globalWrites: "deny" } })))

  it.effect("a record that is no longer Global cannot be restored to a Global revision under `globalWrites: deny`", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      const { rule } = yield* seed
      yield* store.put(Viewer.system(), [draft("mine", { id: rule.id })])
      assert.strictEqual(yield* reason(memory.apply([{ _tag: "Restore", id: rule.id, revision: 1 }])), "not_owned")
      yield* store.put(Viewer.system(), [draft("Bob's now", { id: rule.id, scope: { userId: "bob" } })])
      assert.strictEqual(yield* reason(memory.apply([{ _tag: "Restore", id: rule.id, revision: 1 }])), "not_found")
      yield* store.put(Viewer.system(), [{ ...draft("back"), scope: "global", id: rule.id }])
      yield* store.forget(Viewer.system(), [rule.id])
      assert.strictEqual(yield* reason(memory.apply([{ _tag: "Restore", id: rule.id, revision: 1 }])), "not_owned")
    }).pipe(run(ada, { spec: { globalWrites: "deny" } })))

  for (const globalWrites of ["allow", "deny"] as const) {
    it.effect(`a write to global instructions fails with \`read_only\` under \`globalWrites: ${globalWrites}\``, () =>
      Effect.gen(function*() {
        const { file } = yield* seed
        for (const attempt of yield* attempts(file.id)) assert.strictEqual(yield* reason(attempt), "read_only")
      }).pipe(run(ada, { spec: { globalWrites } })))
  }
})

describe("MemoryService under `globalWrites: deny`", () => {
  it.effect("`globalWrites: deny` forbids the purge of a forgotten Global record", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      const system = Viewer.system()
      const [all] = yield* store.put(system, [{ scope: "global", kind: "user", body: "all" }])
      const { id } = all!.record
      yield* store.forget(system, [id])
      const error = yield* Effect.flip(memory.apply([{ _tag: "Forget", id, purge: true }]))
      assert.strictEqual(error.reason, "not_owned")
      assert.lengthOf(yield* store.history(system, id), 2)
    }).pipe(run(ada, { spec: { globalWrites: "deny" } })))
})

describe("the write rules", () => {
  const refused = [
    { spec: { globalWrites: "deny" }, origin: "user" },
    { spec: {}, origin: "agent" },
    { spec: {}, origin: "pipeline" }
  ] as const
  for (const { origin, spec } of refused) {
    const rules = `${JSON.stringify(spec)} and origin \`${origin}\``
    for (const end of ["forgotten", "expired"]) {
      it.effect(`a Put cannot take the id of ${end === "expired" ? "an" : "a"} ${end} Global record with ${rules}`, () =>
        Effect.gen(function*() {
          const memory = yield* service
          const store = yield* MemoryStore.MemoryStore
          const system = Viewer.system()
          const [all] = yield* store.put(system, [{
            scope: "global",
            kind: "user",
            body: "all",
            ...(end === "expired" && { expiresAt: 1_000 })
          }])
          const { id } = all!.record
          yield* end === "expired" ? TestClock.adjust("2 seconds") : store.forget(system, [id])
          const attempts: ReadonlyArray<MemoryService.Operation<unknown>> = [
            memory.put(draft("mine", { id }), { origin }),
            memory.apply([{ _tag: "Put", draft: draft("fine") }, { _tag: "Put", draft: draft("mine", { id }) }], {
              origin
            })
          ]
          for (const attempt of attempts) assert.strictEqual(yield* reason(attempt), "not_owned")
          assert.lengthOf((yield* memory.list({})).items, 0)
          const [last] = yield* store.history(system, id)
          assert.strictEqual(last!.scope, "global")
        }).pipe(run(ada, { spec })))
    }

    it.effect(`a Put may take the id of a forgotten record of the viewer, or an unused id, with ${rules}`, () =>
      Effect.gen(function*() {
        const memory = yield* service
        const { record } = yield* memory.put(draft("old"))
        yield* memory.forget(record.id)
        for (const id of [record.id, MemoryId.stableId("unused")]) {
          assert.strictEqual((yield* memory.put(draft(`new ${id}`, { id }), { origin })).outcome, "created")
        }
      }).pipe(run(ada, { spec })))

    it.effect(`malformed drafts and mutations fail as they do without rules, with ${rules}`, () =>
      Effect.gen(function*() {
        const memory = yield* service
        const store = yield* MemoryStore.MemoryStore
        const drafts: ReadonlyArray<unknown> = [
          null,
          undefined,
          5,
          {},
          { kind: "user", body: "x" },
          { scope: null, kind: "user", body: "x" },
          { scope: { userId: 5 }, kind: "user", body: "x" },
          { scope: {}, kind: "user", body: "x" },
          { scope: "global ", kind: "user", body: "x" },
          { scope: { userId: "ada" }, id: 5, kind: "user", body: "x" }
        ]
        const batches: ReadonlyArray<unknown> = [
          {},
          [null],
          ["Put"],
          [{}],
          [{ _tag: "Put" }],
          [{ _tag: "Nope", id: MemoryId.stableId("a") }],
          [{ _tag: "Restore", id: MemoryId.stableId("a"), revision: "1" }],
          [{ _tag: "Forget" }],
          ...drafts.map((draft) => [{ _tag: "Put", draft }])
        ]
        const asDrafts = drafts as ReadonlyArray<Draft> // not drafts, in spite of the type
        const asBatches = batches as ReadonlyArray<ReadonlyArray<MemoryMutation>> // not mutations, either
        const ruled = [
          ...yield* Effect.forEach(asDrafts, (draft) => reason(memory.put(draft, { origin }))),
          ...yield* Effect.forEach(asBatches, (batch) => reason(memory.apply(batch, { origin })))
        ]
        const others = [
          ...yield* Effect.forEach(asDrafts, (draft) => reason(store.put(ada, [draft], { origin }))),
          ...yield* Effect.forEach(asBatches, (batch) => reason(store.apply(ada, batch, { origin })))
        ]
        assert.deepStrictEqual(ruled, others)
        assert.include(ruled, "invalid_draft")
      }).pipe(run(ada, { spec })))
  }
})

describe("MemoryService.forgetAll", () => {
  it.effect("MemoryService.forgetAll forgets all matching records of the viewer, and ignores `limit`", () =>
    Effect.gen(function*() {
      const memory = yield* service
      for (let n = 0; n < 25; n++) yield* memory.put(draft(`tea ${n}`, { tags: n < 5 ? ["keep"] : ["go"] }))
      const bob = MemoryService.as(Viewer.make({ userId: "bob" }))
      yield* memory.put(draft("Bob's", { scope: { userId: "bob" }, tags: ["go"] })).pipe(bob)
      assert.strictEqual(yield* memory.forgetAll({ tags: ["go"], limit: 3 }), 20)
      assert.strictEqual(yield* memory.forgetAll({ tags: ["go"] }), 0)
      assert.lengthOf((yield* memory.list({})).items, 5)
      assert.lengthOf((yield* memory.list({}).pipe(bob)).items, 1)
    }).pipe(run(ada)))

  it.effect("MemoryService.forgetAll with `purge` erases all revisions, even of forgotten records", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      const { record: gone } = yield* memory.put(draft("long gone"))
      yield* memory.forget(gone.id)
      const { record } = yield* memory.put(draft("tea"))
      yield* memory.update(record.id, { body: "green tea" })
      const { events } = yield* heard(memory.forgetAll({}, { purge: true }))
      assert.deepInclude(events[0], { _tag: "memory_forgotten", id: record.id, purged: true })
      for (const { id } of [gone, record]) {
        assert.deepStrictEqual((yield* store.get(Viewer.system(), [id])).map(Option.getOrUndefined), [undefined])
        assert.deepStrictEqual(yield* store.history(Viewer.system(), id), [])
      }
      assert.deepStrictEqual(yield* store.tenants, [])
    }).pipe(run(ada)))

  it.effect("MemoryService.forgetAll with `purge` erases matching forgotten records of the viewer, and keeps all other forgotten records", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      const elsewhere = Viewer.make({ userId: "ada", tenant: "elsewhere" })
      const forgotten = (viewer: Viewer.Any, body: string, fields: Partial<Draft> = {}) =>
        Effect.gen(function*() {
          const [put] = yield* store.put(viewer, [draft(body, fields)])
          yield* store.forget(viewer, [put!.record.id])
        })
      const trash = (tenant?: string) =>
        Effect.map(
          store.list(Viewer.system(tenant), { forgotten: true }),
          ({ items }) => items.map(({ body }) => body).sort()
        )
      yield* forgotten(ada, "go", { tags: ["go"] })
      yield* forgotten(ada, "closed", { tags: ["go"], invalidAt: 5 })
      yield* forgotten(ada, "expired", { tags: ["go"], expiresAt: 1_000 })
      yield* forgotten(ada, "not meant")
      yield* forgotten(Viewer.make({ userId: "bob" }), "bob's", { scope: { userId: "bob" }, tags: ["go"] })
      yield* forgotten(elsewhere, "elsewhere", { tags: ["go"] })
      yield* TestClock.adjust("1 second")
      const rest = ["bob's", "not meant"]
      assert.strictEqual(yield* memory.forgetAll({ tags: ["go"] }, { purge: true }), 0)
      assert.deepStrictEqual(yield* trash(), rest)
      assert.deepStrictEqual(yield* trash("elsewhere"), ["elsewhere"])
      assert.deepStrictEqual((yield* memory.list({ forgotten: true })).items.map(({ body }) => body), ["not meant"])

      yield* memory.put(draft("stays"))
      assert.strictEqual(yield* memory.forgetAll({ forgotten: true }), 0)
      assert.deepStrictEqual(yield* trash(), rest)
      assert.strictEqual(yield* memory.forgetAll({ forgotten: true }, { purge: true }), 0)
      assert.deepStrictEqual(yield* trash(), ["bob's"])
      assert.deepStrictEqual((yield* memory.list({})).items.map(({ body }) => body), ["stays"])
    }).pipe(run(ada)))

  it.effect("records forgotten by MemoryService.forgetAll without `purge` can be restored", () =>
    Effect.gen(function*() {
      const memory = yield* service
      for (const body of ["tea", "coffee"]) yield* memory.put(draft(body))
      yield* memory.forgetAll({})
      const { items } = yield* memory.list({ forgotten: true })
      yield* memory.apply(items.map(({ id, revision }) => ({ _tag: "Restore", id, revision })))
      assert.sameMembers((yield* memory.list({})).items.map(({ body }) => body), ["tea", "coffee"])
    }).pipe(run(ada)))

  it.effect("MemoryService.forgetAll with `purge` also erases records that are expired or not valid now", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      yield* TestClock.adjust("10 seconds")
      yield* memory.put(draft("was", { validAt: 1_000, invalidAt: 5_000 }))
      yield* memory.put(draft("will be", { validAt: 20_000 }))
      yield* memory.put(draft("expires", { expiresAt: 11_000 }))
      yield* TestClock.adjust("1 seconds")
      assert.strictEqual(yield* memory.forgetAll({}, { purge: true }), 2)
      assert.deepStrictEqual(yield* store.tenants, [])
    }).pipe(run(ada)))

  it.effect("MemoryService.forgetAll with `purge` keeps Global records under `globalWrites: deny`, including instructions and forgotten records", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      yield* store.put(Viewer.system(), [{ scope: "global", kind: "user", body: "all" }])
      yield* store.put(Viewer.system(), [{ scope: "global", kind: "reference", body: "file" }], {
        origin: "instructions"
      })
      const [rule] = yield* store.put(Viewer.system(), [{ scope: "global", kind: "user", body: "a rule once" }])
      yield* store.forget(Viewer.system(), [rule!.record.id])
      yield* memory.put(draft("tea"))
      assert.strictEqual(yield* memory.forgetAll({}, { purge: true }), 1)
      assert.lengthOf((yield* memory.list({})).items, 2)
      const { items } = yield* store.list(Viewer.system(), { forgotten: true })
      assert.deepStrictEqual(items.map(({ body }) => body), ["a rule once"])
    }).pipe(run(ada, { spec: { globalWrites: "deny" } })))
})
