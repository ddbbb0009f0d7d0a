/** Memory around a model call of Deuz's chat: recall before the call and extraction after it. The chat goes on if one of them fails. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import type * as MemoryManager from "../../src/harness/MemoryManager.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as PromptBlock from "../../src/harness/PromptBlock.ts"
import * as Completion from "../../src/host/Completion.ts"
import { bob, broken, literal, manager, type Setup, world } from "../harness/Managed.ts"

const of = (sessionId: string) => Viewer.make({ userId: "ada", sessionId })
const said = [Message.user("I live in Porto")]

/** The calls of memory around a turn of Ada's chat: the context that is sent to the model, and the extraction from the turn. */
const chat = (sessionId: string) =>
  Effect.map(MemoryService.MemoryService, (memory) => ({
    sent: (messages: ReadonlyArray<Message.Message>) =>
      Effect.map(memory.context(messages), ({ text }) => text).pipe(MemoryService.as(of(sessionId))),
    ended: (messages: ReadonlyArray<Message.Message>) => memory.turnEnd(messages).pipe(MemoryService.as(of(sessionId))),
    flush: memory.flush
  }))

const law = (
  title: string,
  setup: Setup,
  check: Effect.Effect<void, unknown, MemoryService.MemoryService | MemoryManager.MemoryManager>
) => it.effect(title, () => Effect.provide(check, world(setup)))

/** Makes a model whose first call fails. */
const failingFirst = () => {
  let calls = 0
  return Completion.layerScripted((prompt) =>
    ++calls === 1 ? MemoryError.make("model", { op: "complete", message: "overloaded" }) : literal(prompt)
  )
}

const extracting = { extraction: { notes: true } }

describe("Deuz's chat", () => {
  law(
    "a chat's context contains what the same user said in another chat, but nothing that another user said",
    { config: { extraction: { notes: { options: { scope: { userId: "ada" } } } } } },
    Effect.gen(function*() {
      const [first, second] = [yield* chat("one"), yield* chat("two")]
      yield* first.ended(said)
      yield* first.flush
      assert.include(yield* second.sent([Message.user("What is in Porto?")]), "I live in Porto")
      const memory = yield* MemoryService.MemoryService
      const his = yield* memory.context([Message.user("What is in Porto?")]).pipe(MemoryService.as(bob))
      assert.strictEqual(his.text, "")
    })
  )

  law(
    "memories that were injected into a user's message are not extracted again from that message",
    { config: extracting },
    Effect.gen(function*() {
      const one = yield* chat("one")
      yield* one.ended(said)
      yield* one.flush
      const block = yield* one.sent([Message.user("Porto?")])
      const sent = Message.user(`Porto?\n\n${block}`)
      assert.strictEqual(PromptBlock.strip(sent).content, "Porto?")
      yield* one.ended([sent])
      yield* one.flush
      const { hits } = yield* (yield* manager).search(of("one"), "Porto", { maxSearchResults: 10 })
      assert.deepStrictEqual(hits.map(({ record }) => record.body).sort(), ["I live in Porto", "Porto?"])
    })
  )

  law(
    "`context` returns an empty text if the search in the store fails",
    { stores: { notes: { layer: broken("search"), writable: true } } },
    Effect.gen(function*() {
      assert.strictEqual(yield* (yield* chat("one")).sent([Message.user("Porto?")]), "")
    })
  )

  law(
    "the next flush extracts the messages of a turn whose extraction failed",
    {
      config: extracting,
      completion: failingFirst()
    },
    Effect.gen(function*() {
      const one = yield* chat("one")
      yield* one.ended(said)
      assert.strictEqual((yield* Effect.flip(one.flush)).reason, "model")
      yield* one.flush
      assert.include(yield* one.sent([Message.user("Porto?")]), "I live in Porto")
    })
  )

  law(
    "no memory is added to the prompt if extraction and injection are off",
    { config: { injection: false } },
    Effect.gen(function*() {
      const one = yield* chat("one")
      yield* (yield* manager).add(of("one"), [{ scope: { userId: "ada" }, kind: "user", body: "I live in Porto" }])
      assert.lengthOf((yield* (yield* manager).search(of("one"), "Porto")).hits, 1)
      yield* one.ended(said)
      yield* one.flush
      assert.strictEqual(yield* one.sent([Message.user("Porto?")]), "")
    })
  )
})
