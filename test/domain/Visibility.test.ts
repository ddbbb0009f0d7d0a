import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as MemoryScope from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"

const { constant, constantFrom, oneof, option, property, record } = FastCheck

/** Generates one of six ids, so that scopes often coincide. Among them are both Unicode forms of one id, and ids that contain a `/`. */
const id = constantFrom("ada", "bob", "zoë".normalize("NFC"), "zoë".normalize("NFD"), "org/ada", "ada/agentId=pilot")
const ids = record(
  { userId: id, agentId: id, runId: id, sessionId: id, actorId: id },
  { requiredKeys: [] }
) satisfies FastCheck.Arbitrary<MemoryScope.Ids>

const isNobody = (ids: MemoryScope.Ids) => MemoryScope.fields.every((field) => ids[field] === undefined)
const scope: FastCheck.Arbitrary<MemoryScope.MemoryScope> = oneof(
  { weight: 8, arbitrary: ids.map((ids): MemoryScope.MemoryScope => isNobody(ids) ? MemoryScope.Global : ids) },
  { weight: 1, arbitrary: constant<MemoryScope.MemoryScope>(MemoryScope.Internal) },
  { weight: 1, arbitrary: constant<MemoryScope.MemoryScope>(MemoryScope.Global) }
)
const tenant = option(constantFrom("acme", "zoë".normalize("NFD")), { nil: undefined }).map((tenant) =>
  tenant === undefined ? {} : { tenant }
)
const viewer: FastCheck.Arbitrary<Viewer.Any> = FastCheck.tuple(ids, tenant, constantFrom("exact", "within", "wide"))
  .map(([ids, tenant, reach]) => {
    if (reach === "exact") return Viewer.make({ ...ids, ...tenant })
    if (reach === "within" && !isNobody(ids)) return Viewer.make({ ...ids, ...tenant, reach })
    const name = tenant.tenant ?? "default"
    return ids.actorId === undefined ? Viewer.everyone(name) : Viewer.system(name)
  })

describe("Visibility", () => {
  it("Viewer.includes and Viewer.sees return the same result for every viewer and scope", () => {
    FastCheck.assert(
      property(viewer, scope, (viewer, scope) => {
        assert.strictEqual(Viewer.includes(Viewer.visibilityOf(viewer))(scope), Viewer.sees(viewer, scope))
      }),
      { seed: 1, numRuns: 20_000 }
    )
  })

  it("Viewer.includes returns true for the scope with the same ids as the viewer, in any order and Unicode form", () => {
    FastCheck.assert(
      property(ids, (ids) => {
        const reversed = Object.fromEntries(
          Object.entries(ids).reverse().map(([field, id]) => [field, id.normalize("NFD")])
        )
        const own: MemoryScope.MemoryScope = isNobody(ids) ? MemoryScope.Global : reversed
        assert.isTrue(Viewer.includes(Viewer.visibilityOf(Viewer.make(ids)))(own))
      }),
      { seed: 2, numRuns: 2_000 }
    )
  })

  it("a viewer of reach `exact` that has n ids sees exactly 2^n scopes", () => {
    FastCheck.assert(
      property(ids, (ids) => {
        const visibility = Viewer.visibilityOf(Viewer.make(ids))
        assert.strictEqual(visibility._tag, "Scopes")
        const keys = visibility._tag === "Scopes" ? visibility.keys : []
        assert.lengthOf(keys, 2 ** MemoryScope.fields.filter((field) => ids[field] !== undefined).length)
        assert.lengthOf(Array.from(new Set(keys)), keys.length)
      }),
      { seed: 3, numRuns: 500 }
    )
  })

  it("the access filter of Viewer.system has the time -Infinity; the access filter of Viewer.everyone has the given time", () => {
    assert.deepStrictEqual(Viewer.accessFilterOf(Viewer.system("zoë".normalize("NFD")), 5), {
      tenant: "zoë".normalize("NFC"),
      visibility: { _tag: "All" },
      now: -Infinity
    })
    assert.deepStrictEqual(Viewer.accessFilterOf(Viewer.everyone(), 5), {
      tenant: "default",
      visibility: { _tag: "Everyone" },
      now: 5
    })
  })
})
