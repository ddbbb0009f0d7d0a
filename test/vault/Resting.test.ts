/** An unused vault stops polling, and the first call afterwards sees the edits made meanwhile. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import * as fs from "node:fs"
import * as path from "node:path"
import type * as Markdown from "../../src/storage/MemoryStore/Markdown.ts"
import { listen } from "../../src/testing/Listener.ts"
import { ada, draft, listed, put } from "../../src/testing/Sample.ts"
import { files, opened, place } from "./Place.ts"

const edit = (root: string, from: string, to: string) =>
  Effect.sync(() => {
    const [name, text] = Object.entries(files(root)).find(([, text]) => text.includes(from))!
    fs.writeFileSync(path.join(root, name), text.replaceAll(from, to))
  })

/** Advances the clock by 200 seconds, one at a time with a scan in between, after which an unused vault has stopped polling. */
const rest = (vault: Markdown.VaultService) =>
  Effect.forEach(
    Array.from({ length: 200 }),
    () => Effect.zipRight(TestClock.adjust("1 second"), vault.refresh),
    { discard: true }
  )

describe("a vault that has stopped polling because it was not used", () => {
  it.scoped("the first call of the store already sees the edits that were made by hand since the polling stopped", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store, vault } = yield* opened(root, { poll: "1 second" })
      yield* put(store, draft("green tea"))
      yield* rest(vault)
      yield* edit(root, "green tea", "black tea")
      assert.deepStrictEqual(yield* listed(store, ada), ["black tea"])
      yield* rest(vault)
      yield* edit(root, "black tea", "white tea")
      const answers = yield* Effect.all([listed(store, ada), listed(store, ada)], { concurrency: "unbounded" })
      assert.deepStrictEqual(answers, [["white tea"], ["white tea"]])
    }))

  it.scoped("`refresh` reports a hand edit to a subscriber who subscribed after the polling stopped", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store, vault } = yield* opened(root, { poll: "1 second" })
      yield* put(store, draft("green tea"))
      yield* rest(vault)
      const told = yield* listen(store, ada)
      yield* edit(root, "green tea", "black tea")
      yield* vault.refresh
      assert.deepStrictEqual(
        (yield* told).map((change) => change._tag === "Written" && [change.by, change.record.body]),
        [["there", "black tea"]]
      )
    }))
})
