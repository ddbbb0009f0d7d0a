/**
 * Tests of a record's file: Unicode line separators are kept, frontmatter that is too large is refused, and a folder that is no scope
 * belongs to the scope above it.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Viewer from "../../src/domain/Viewer.ts"
import { opened, place } from "./Place.ts"

const bob = Viewer.make({ agentId: "Bob" })
const draft = { scope: { agentId: "Bob" }, kind: "reference", body: "tea" }

describe("a record's file", () => {
  it.scopedLive("a record's file keeps the Unicode line separators U+2028 and U+2029 in the summary and the tags", () =>
    Effect.gen(function*() {
      const root = yield* place
      const summary = "a\u2028---\u2028b"
      const tags = ["\u2028---\u2028", "\u2029---"]
      const id = yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        return (yield* store.put(bob, [{ ...draft, summary, tags, metadata: { k: summary } }]))[0]!.record.id
      }))
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.issues, [])
      const found = Option.getOrUndefined((yield* store.get(bob, [id]))[0]!)
      assert.strictEqual(found?.summary, summary)
      assert.deepStrictEqual(found?.tags, tags)
    }))

  it.scopedLive("`put` fails with `invalid_draft` and stores no record if the record's frontmatter would be too large", () =>
    Effect.gen(function*() {
      const { store } = yield* opened(yield* place)
      const error = yield* Effect.flip(store.put(bob, [{ ...draft, metadata: { k: "y".repeat(300_000) } }]))
      assert.strictEqual(error.reason, "invalid_draft")
      assert.deepStrictEqual((yield* store.list(bob, {})).items, [])
    }))

  it.scopedLive("the file users/ada/journal/diary.md belongs to the scope of users/ada, since journal is not the folder of a scope", () =>
    Effect.gen(function*() {
      const root = yield* place
      fs.mkdirSync(path.join(root, "users/ada/journal"), { recursive: true })
      fs.writeFileSync(path.join(root, "users/ada/journal/diary.md"), "Dear diary")
      const { store } = yield* opened(root)
      assert.lengthOf((yield* store.list(Viewer.make({ userId: "bob" }), {})).items, 0)
      assert.lengthOf((yield* store.list(Viewer.make({ userId: "ada" }), {})).items, 1)
    }))
})
