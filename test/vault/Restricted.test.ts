/** Tests of notes whose frontmatter says who may see them, but cannot be read: nobody else ever sees such a note. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Viewer from "../../src/domain/Viewer.ts"
import { ada, bob, found, listed } from "../../src/testing/Sample.ts"
import { opened, place } from "./Place.ts"

const note = "---\nuserId: ada\nmood: good\n---\nAda's secret diary\n"
const unreadable: Readonly<Record<string, string>> = {
  "a syntax error": note.replace("good", "good: very"),
  "a duplicate key": note.replace("mood: good", "mood: good\nmood: bad"),
  "a tab as indent": note.replace("mood", "\tmood"),
  "no end": note.replace("good\n---", "good"),
  "a merge conflict": note.replace("mood: good", "<<<<<<< HEAD\nmood: bad\n=======\nmood: well\n>>>>>>> b"),
  "a list of users": note.replace("ada", "[ada, bob]"),
  "a map as user": note.replace("ada", "{name: ada}")
}

describe("a note whose frontmatter names a user", () => {
  for (const [name, text] of Object.entries(unreadable)) {
    it.scopedLive(`a note whose frontmatter has ${name} is an issue, and no other user sees the note`, () =>
      Effect.gen(function*() {
        const root = yield* place
        const file = path.join(root, "Diary.md")
        const hidden = (vault: Effect.Effect.Success<ReturnType<typeof opened>>) =>
          Effect.gen(function*() {
            assert.deepStrictEqual(yield* listed(vault.store, bob), [])
            assert.deepStrictEqual(yield* found(vault.store, bob, { text: "diary" }), [])
            assert.deepStrictEqual(yield* listed(vault.store, Viewer.make({})), [])
            assert.deepStrictEqual((yield* vault.vault.issues).map(({ path }) => path), ["Diary.md"])
          })
        yield* Effect.scoped(Effect.gen(function*() {
          fs.writeFileSync(file, text)
          yield* hidden(yield* opened(root)) // the vault has never read the note
          fs.writeFileSync(file, note)
        }))
        yield* Effect.scoped(Effect.gen(function*() {
          const vault = yield* opened(root)
          assert.deepStrictEqual(yield* listed(vault.store, ada), ["Ada's secret diary"])
          const { items: [record] } = yield* vault.store.list(ada, {})
          yield* vault.store.update(ada, record!.id, { importance: 0.9 })
          fs.writeFileSync(file, text)
          yield* vault.vault.refresh
          yield* hidden(vault)
          assert.deepStrictEqual(yield* listed(vault.store, ada), ["Ada's secret diary"])
        }))
        yield* hidden(yield* opened(root))
        assert.strictEqual(fs.readFileSync(file, "utf8"), text)
      }))
  }
})
