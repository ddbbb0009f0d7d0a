import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Message from "../../src/domain/Message.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, listed } from "../../src/testing/Sample.ts"
import { opened, place } from "./Place.ts"

const Json = Schema.parseJson(MemoryPipeline.Receipt)

/** Opens a vault with one pipeline, and closes it after use. */
const using = <A, E>(
  root: string,
  use: (pipeline: MemoryPipeline.Service, store: MemoryStore.Service) => Effect.Effect<A, E>
) =>
  Effect.scoped(Effect.gen(function*() {
    const { store } = yield* opened(root)
    const layers = Layer.mergeAll(
      Layer.succeed(MemoryStore.MemoryStore, store),
      Completion.layerScripted([{ facts: ["x"] }, { memory: [{ event: "ADD", text: "Ada moved to Porto" }] }]),
      Embedder.layerNone
    )
    return yield* use(yield* Effect.provide(MemoryPipeline.make, layers), store)
  }))

describe("the receipt that `remember` returns, in a vault", () => {
  it.scopedLive("`undo` of a receipt works after the vault is reopened, but fails with `not_owned` in another vault", () =>
    Effect.gen(function*() {
      const [root, elsewhere] = [yield* place, yield* place]
      const json = yield* using(root, (pipeline) =>
        Effect.flatMap(
          pipeline.remember(ada, [Message.user("I moved to Porto.")], { scope: { userId: "ada" } }),
          Schema.encode(Json)
        ))
      const receipt = yield* Schema.decode(Json)(json)
      const error = yield* using(elsewhere, (pipeline) => Effect.flip(pipeline.undo(receipt)))
      assert.strictEqual(error.reason, "not_owned")
      const left = yield* using(root, (pipeline, store) => Effect.zipRight(pipeline.undo(receipt), listed(store, ada)))
      assert.deepStrictEqual(left, [])
    }))
})
