import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as path from "node:path"
import * as Viewer from "../../src/domain/Viewer.ts"
import { bob, bytesOf, draft, file, opened } from "./File.ts"

describe("a purge in a SQLite file", () => {
  it.scopedLive("a purge erases the texts of all revisions of a record from every file of the store", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const store = yield* opened(filename)
      const other = yield* opened(filename)
      const long = (word: string) => `${word} ${"filler ".repeat(2_000)}`
      const [kept] = yield* store.put(bob, [draft("Bob keeps this")])
      const [secret] = yield* store.put(bob, [draft(long("quagga"))])
      yield* other.update(bob, secret!.record.id, { body: long("zebra") })
      yield* store.update(bob, secret!.record.id, { body: "okapi" })
      yield* store.search(bob, { text: "okapi" })
      const isThere = (word: string) =>
        bytesOf(path.dirname(filename)).some(([, bytes]) =>
          Buffer.from(bytes, "base64").toString("latin1").includes(word)
        )
      assert.deepStrictEqual(["quagga", "zebra", "okapi"].map(isThere), [true, true, true])
      yield* store.forget(Viewer.system(), [secret!.record.id], { purge: true })
      assert.deepStrictEqual(["quagga", "zebra", "okapi"].map(isThere), [false, false, false])
      assert.isTrue(isThere("Bob keeps this"))
      assert.strictEqual((yield* other.get(bob, [kept!.record.id])).length, 1)
    }))
})
