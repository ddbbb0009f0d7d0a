import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import * as ToolScope from "../../src/agent/ToolScope.ts"
import { matches } from "../../src/domain/MemoryFilter.ts"
import { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"

describe("ToolScope", () => {
  const ids = FastCheck.record({
    userId: FastCheck.constantFrom("ada", "bob"),
    agentId: FastCheck.constant("pilot"),
    runId: FastCheck.constantFrom("run-7", "run-8"),
    sessionId: FastCheck.constant("s"),
    actorId: FastCheck.constant("eve")
  }, { requiredKeys: [] })

  const [note] = FastCheck.sample(Arbitrary.make(MemoryRecord), { seed: 1, numRuns: 1 })

  it("what a viewer may write it sees, what it sees goes by a name that it may read, and what goes by a name is told from all else by its filter", () => {
    const scope = FastCheck.oneof(
      FastCheck.constant("global" as const),
      ids.filter((scope) => Object.keys(scope).length > 0)
    )
    FastCheck.assert(
      FastCheck.property(
        ids,
        FastCheck.constantFrom("exact" as const, "within" as const),
        scope,
        (fields, reach, scope) => {
          const viewer = Viewer.make({ ...fields, reach })
          for (const name of ToolScope.writable(viewer)) {
            const own = Option.getOrThrow(ToolScope.scopeOf(viewer, name))
            assert.isTrue(Viewer.sees(viewer, own))
            assert.strictEqual(ToolScope.nameOf(own), name)
          }
          const record = new MemoryRecord({ ...note!, scope }, { disableValidation: true })
          const named = ToolScope.nameOf(scope)
          assert.isTrue(
            !Viewer.sees(viewer, scope) || named === "actor" || ToolScope.readable(viewer).includes(named)
          )
          for (const name of ToolScope.Name.literals) {
            assert.strictEqual(matches(ToolScope.only(name), undefined)(record), named === name)
          }
        }
      ),
      { seed: 1, numRuns: 1_000 }
    )
  })
})
