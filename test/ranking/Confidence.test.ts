import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Injection from "../../src/harness/Injection.ts"
import * as MemoryIndex from "../../src/ranking/MemoryIndex.ts"
import { layerInMemory, MemoryStore } from "../../src/storage/MemoryStore.ts"
import { ada, draft, put } from "../../src/testing/Sample.ts"
import * as World from "./world.ts"

const turns = [
  ["Ada", "How was the harbour festival?"],
  ["Bob", "I rowed a red boat in the harbour race and came third."],
  ["Ada", "I painted the lighthouse in the evening."],
  ["Bob", "The lanterns were lovely."]
] as const

const index = MemoryIndex.make()
turns.forEach(([actor, body], sequence) =>
  index.add(World.record(String(sequence), {
    body,
    summary: body,
    source: { origin: "user", trust: 1, actor, session: "festival", sequence }
  }))
)
const sure = (text: string) => index.search(Viewer.everyone(), { text, confidence: true }, 0).confidence!

describe("the confidence of a search result", () => {
  it("the confidence is lower if the question names a person who did not say the matching words", () => {
    assert.isAbove(sure("What did Bob row in the harbour race?"), sure("What did Ada row in the harbour race?"))
  })

  it("the confidence is lower if the question has words that no message contains, and 0 if no message matches", () => {
    assert.isAbove(sure("Who painted the lighthouse?"), sure("Who painted the lighthouse keeper's bicycle yellow?"))
    assert.strictEqual(sure("quantum chromodynamics"), 0)
  })

  it("the confidence grows with the share of the question's words that a single note contains", () => {
    const notes = MemoryIndex.make()
    for (const [n, body] of ["Ada drinks green tea.", "Bob sails.", "The office has a kettle."].entries()) {
      notes.add(World.record(String(n), { body, summary: body }))
    }
    const sure = (text: string) => notes.search(Viewer.everyone(), { text, confidence: true }, 0).confidence!
    assert.isAbove(sure("green tea"), sure("green tea from Uji in autumn"))
    assert.isAbove(sure("green tea from Uji in autumn"), sure("trains from Uji in autumn to the sea"))
  })

  it("the result has a confidence only if the query has a text and `confidence: true`", () => {
    const search = (query: object) => index.search(Viewer.everyone(), { text: "harbour", ...query }, 0)
    const { confidence, ...asked } = search({ confidence: true })
    assert.isTrue(confidence! > 0 && confidence! < 1)
    assert.deepStrictEqual(asked, search({}))
    assert.isUndefined(search({ text: undefined, confidence: true }).confidence)
  })

  it.effect("no memory is injected into a prompt if the confidence of the search is below the option `minConfidence`", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore
      yield* put(store, draft("Ada drinks green tea."))
      const blockOf = (text: string, minConfidence?: number) =>
        Effect.map(
          Injection.make(store.search, { minConfidence })(ada, [Message.user(text)]),
          ({ ids }) => ids.length
        )
      assert.strictEqual(yield* blockOf("Which trains run to Uji, and is there tea?"), 1)
      assert.strictEqual(yield* blockOf("Which trains run to Uji, and is there tea?", 0.4), 0)
      assert.strictEqual(yield* blockOf("Does Ada drink green tea?", 0.4), 1)
    }).pipe(Effect.provide(layerInMemory)))
})
