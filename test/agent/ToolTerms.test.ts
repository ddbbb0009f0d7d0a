import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as FastCheck from "effect/FastCheck"
import * as StoreTools from "../../src/agent/StoreTools.ts"
import { matches } from "../../src/domain/MemoryFilter.ts"
import { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import { Global } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemorySpec from "../../src/harness/MemorySpec.ts"

describe("ToolTerms", () => {
  const ids = FastCheck.record({
    userId: FastCheck.constantFrom("ada", "bob"),
    agentId: FastCheck.constant("pilot"),
    runId: FastCheck.constantFrom("run-7", "run-8"),
    sessionId: FastCheck.constant("s"),
    actorId: FastCheck.constant("eve")
  }, { requiredKeys: [] })

  const [note] = FastCheck.sample(Arbitrary.make(MemoryRecord), { seed: 1, numRuns: 1 })

  it("each scope offered for writes may be written by the viewer under the spec; each visible scope except `actor` is offered for reads", () => {
    const scope = FastCheck.oneof(
      FastCheck.constant("global" as const),
      ids.filter((scope) => Object.keys(scope).length > 0)
    )
    FastCheck.assert(
      FastCheck.property(
        ids,
        FastCheck.constantFrom("exact" as const, "within" as const),
        scope,
        FastCheck.subarray(["agent" as const, "global" as const]),
        FastCheck.constantFrom("allow" as const, "deny" as const),
        (fields, reach, scope, sharedWrites, globalWrites) => {
          const viewer = Object.keys(fields).length === 0 ? Viewer.make({}) : Viewer.make({ ...fields, reach })
          const spec = MemorySpec.make({ sharedWrites, globalWrites })
          for (const [name, own] of StoreTools.writable(viewer, spec)) {
            assert.isTrue(Viewer.sees(viewer, own))
            assert.isTrue(Viewer.mayWrite(viewer, own, spec.sharedWrites))
            assert.isTrue(own !== Global || globalWrites === "allow")
            assert.strictEqual(StoreTools.nameOf(own), name)
          }
          const record = new MemoryRecord({ ...note!, scope }, { disableValidation: true })
          const named = StoreTools.nameOf(scope)
          assert.isTrue(
            !Viewer.sees(viewer, scope) || named === "actor" || StoreTools.readable(viewer).includes(named)
          )
          for (const name of StoreTools.Name.literals) {
            assert.strictEqual(matches(StoreTools.only(name), undefined)(record), named === name)
          }
        }
      ),
      { seed: 1, numRuns: 1_000, examples: [[{}, "exact", "global", ["global"], "deny"]] }
    )
  })
})
