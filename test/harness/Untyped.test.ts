/** Calls of `MemoryService` with values that do not have the declared type, as a program without types may pass them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import type { MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import { Message } from "../../src/domain/Message.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as MemorySpec from "../../src/harness/MemorySpec.ts"
import * as Threads from "../../src/harness/Threads.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import type * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada } from "../../src/testing/Sample.ts"

/** An embedder that always fails. If `recall` embedded a query of unknown mode, it would then search by words only, and succeed. */
const failing = Layer.succeed(Embedder.Embedder, {
  model: "none",
  dimensions: 3,
  embed: () => MemoryError.make("model", { op: "embed", message: "down" })
})
const Live = Layer.merge(MemoryService.layer(MemorySpec.make()), Threads.layer).pipe(
  Layer.provide(failing),
  Layer.provideMerge(MemoryStore.layerInMemory)
)
const hello = Message.make({ role: "user", content: "Hello." })

describe("MemoryService, called with a value that does not have the declared type", () => {
  it.effect("`recall` fails with `invalid_draft` for a query that is no object, a text that is no string, and an unknown mode", () =>
    Effect.gen(function*() {
      const memory = yield* MemoryService.MemoryService
      for (
        const query of [undefined, null, "tea", 5, { text: "tea", mode: "fuzzy" }, { text: "tea", mode: null }, {
          text: 5
        }, { text: null }]
      ) {
        const error = yield* Effect.flip(memory.recall(query as MemoryQuery)) // not a query
        assert.strictEqual(error.reason, "invalid_draft")
      }
    }).pipe(MemoryService.as(ada), Effect.provide(Live)))

  it.effect("`remember` and `plan` fail with `invalid_draft` for messages that are no list, options that are no object, and an invalid `sequence`", () =>
    Effect.gen(function*() {
      const memory = yield* MemoryService.MemoryService
      const store = yield* MemoryStore.MemoryStore
      const scope = { userId: "ada" }
      const refused = [
        undefined,
        null,
        "tea",
        ...[-1, .5, null, "1"].flatMap((sequence) => [
          { scope, infer: false, sequence: [1, sequence] },
          { scope, infer: false, sequence }
        ])
      ]
      for (const options of refused) {
        for (const call of [memory.remember, memory.plan]) {
          const error = yield* Effect.flip(call([hello, hello], options as MemoryPipeline.Options)) // not options
          assert.strictEqual(error.reason, "invalid_draft")
        }
      }
      const sparse: Array<number> = []
      sparse.length = 2
      const error = yield* Effect.flip(memory.remember([hello, hello], { scope, infer: false, sequence: sparse }))
      assert.strictEqual(error.reason, "invalid_draft")
      for (const messages of [undefined, null, "tea", 7, [7]]) {
        const error = yield* Effect.flip(memory.remember(messages as unknown as ReadonlyArray<Message>, { scope })) // not messages
        assert.strictEqual(error.reason, "invalid_draft")
      }
      assert.isEmpty((yield* store.list(ada, {})).items)
    }).pipe(MemoryService.as(ada), Effect.provide(Live)))

  it.effect("`forgetAll` fails for an invalid filter or an unknown field, and for a `purge` that is no boolean; it forgets no record and no thread", () =>
    Effect.gen(function*() {
      const memory = yield* MemoryService.MemoryService
      const threads = yield* Threads.Threads
      yield* threads.append(ada, "monday", [hello])
      yield* memory.put({ scope: { userId: "ada" }, kind: "user", body: "Drinks tea." })
      for (const filter of [undefined, null, "tea", { scope: "ada" }, { kinds: "user" }, { kind: undefined }]) {
        for (const purge of [false, true]) {
          const error = yield* Effect.flip(memory.forgetAll(filter as never, { purge })) // not a filter
          assert.include(["invalid_draft", "invalid_scope"], error.reason)
        }
      }
      const error = yield* Effect.flip(memory.forgetAll({}, { purge: "false" as never })) // not a boolean
      assert.strictEqual(error.reason, "invalid_draft")
      assert.lengthOf((yield* memory.list({})).items, 1)
      assert.isTrue(Option.isSome(yield* threads.get(ada, "monday")))
    }).pipe(MemoryService.as(ada), Effect.provide(Live)))
})
