import { assert, describe, it } from "@effect/vitest"
import * as RevisionDiff from "../../src/inspector/RevisionDiff.ts"
import { record } from "../ranking/world.ts"

describe("RevisionDiff.between", () => {
  it("lists the scopes of a record that was put into another scope", () => {
    const before = record("tea")
    const after = record("tea", { scope: { userId: "ada", sessionId: "s" }, revision: 2, updatedAt: 5 })
    assert.deepStrictEqual(RevisionDiff.between(before, after), {
      fields: [{ field: "scope", before: `{"userId":"ada"}`, after: `{"sessionId":"s","userId":"ada"}` }],
      lines: []
    })
    assert.deepStrictEqual(RevisionDiff.between(before, record("tea", { revision: 2, updatedAt: 5 })).fields, [])
  })
})
