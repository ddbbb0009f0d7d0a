import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { stores } from "../stores.ts"

const ada = Viewer.make({ userId: "ada" })
const mallory = Viewer.make({ userId: "mallory" })
const scope = { userId: "ada" }
const said = [Message.user("I moved to Lisbon."), Message.user("I drink tea.")]

/** Puts a record of another viewer, Mallory, under each id that the planned additions have. */
const squat = (store: MemoryStore.Service, { mutations }: MemoryPipeline.Receipt) =>
  Effect.gen(function*() {
    const ids = mutations.flatMap((mutation) => mutation._tag === "Put" ? mutation.draft.id ?? [] : [])
    assert.isNotEmpty(ids)
    yield* store.put(mallory, ids.map((id) => ({ id, scope: { userId: "mallory" }, kind: "reference", body: "taken" })))
    return ids
  })

const moved = ({ user }: Completion.Prompt) =>
  user.startsWith("EXISTING:")
    ? { memory: [{ event: "DELETE", id: "0" }, { event: "ADD", text: "Ada lives in Lisbon" }] }
    : { facts: [{ text: "Ada lives in Lisbon", kind: "episodic" }] }

for (const [name, layer] of Object.entries(stores)) {
  const test = (
    title: string,
    check: Effect.Effect<void, unknown, MemoryPipeline.MemoryPipeline | MemoryStore.MemoryStore>
  ) =>
    it.scoped(title, () =>
      Effect.provide(
        check,
        MemoryPipeline.layer.pipe(
          Layer.provide([Completion.layerScripted(moved), Embedder.layerNone]),
          Layer.provideMerge(layer)
        )
      ))

  describe(`ids that MemoryPipeline derives (${name})`, () => {
    test(
      "a message whose derived id is taken by another viewer's record is remembered once, under another id",
      Effect.gen(function*() {
        const pipeline = yield* MemoryPipeline.MemoryPipeline
        const store = yield* MemoryStore.MemoryStore
        const options = { scope, infer: false, session: "monday", sequence: 0 }
        yield* squat(store, yield* pipeline.plan(ada, said, options))
        assert.lengthOf((yield* pipeline.remember(ada, said, options)).applied, 2)
        assert.lengthOf((yield* pipeline.remember(ada, said, options)).applied, 0)
        assert.lengthOf((yield* store.list(ada, {})).items, 2)
        assert.lengthOf((yield* store.list(mallory, {})).items, 2)
      })
    )

    test(
      "a superseding record whose derived id is taken by another viewer's record gets another id",
      Effect.gen(function*() {
        const pipeline = yield* MemoryPipeline.MemoryPipeline
        const store = yield* MemoryStore.MemoryStore
        const [old] = yield* store.put(ada, [{ scope, kind: "semantic", body: "Ada lives in Rome" }])
        const taken = yield* squat(store, yield* pipeline.plan(ada, said, { scope }))
        const { applied } = yield* pipeline.remember(ada, said, { scope })
        const [closed, heir] = ["updated", "created"].map((outcome) =>
          applied.find((one) => one.outcome === outcome)?.record
        )
        assert.strictEqual(closed?.id, old!.record.id)
        assert.strictEqual(closed?.supersededBy, heir?.id)
        assert.notInclude(taken, heir?.id)
      })
    )
  })
}
