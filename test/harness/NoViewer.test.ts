/** Calls with a value that is not a Viewer, in some cases with the fields of one. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { manager, world } from "./Managed.ts"

const said = [Message.user("I drink tea.")]
const ada = Viewer.make({ userId: "ada", agentId: "pilot" })
/** Values that are not viewers, although some of them compile as one. */
const others = [
  undefined,
  null,
  {},
  { userId: "ada" },
  { tenant: "default", userId: "ada", reach: "exact" },
  { tenant: "default", reach: "everyone" },
  Object.create(Viewer.Viewer.prototype)
] as ReadonlyArray<Viewer.Viewer> // not viewers, in spite of the type

describe("a value that is not a Viewer", () => {
  it.scoped("MemoryService operations called with the value fail with `invalid_scope`, and add or remove no waiting message", () =>
    Effect.gen(function*() {
      const memory = yield* MemoryService.MemoryService
      const { outboxes } = yield* manager
      const { status } = outboxes.get("notes")!
      yield* memory.turnEnd(said).pipe(MemoryService.as(ada))
      for (const other of others) {
        const calls: ReadonlyArray<MemoryService.Operation<unknown>> = [
          memory.put({ scope: { userId: "ada" }, kind: "user", body: "tea" }),
          memory.search({ text: "tea" }),
          memory.forgetAll({}, { purge: true }),
          memory.remember(said, { scope: { userId: "ada" }, infer: false }),
          memory.plan(said, { scope: { userId: "ada" }, infer: false }),
          memory.recall({ text: "tea" }),
          memory.turnEnd(said)
        ]
        for (const call of calls) {
          assert.strictEqual((yield* Effect.flip(MemoryService.as(other)(call))).reason, "invalid_scope")
        }
      }
      assert.strictEqual((yield* status).waiting, 1)
      yield* memory.forgetAll({}, { purge: true }).pipe(MemoryService.as(ada))
      yield* memory.flush
      assert.strictEqual((yield* status).waiting, 0)
    }).pipe(Effect.provide(world({
      config: { extraction: { notes: { trigger: ExtractionTrigger.sessionEnd } } }
    }))))

  it.scoped("is refused by the operations of MemoryPipeline and Outbox", () =>
    Effect.gen(function*() {
      const pipeline = yield* MemoryPipeline.MemoryPipeline
      const outbox = (yield* manager).outboxes.get("notes")!
      for (const other of others) {
        const calls = [
          pipeline.remember(other, said, { scope: { userId: "ada" }, infer: false }),
          pipeline.plan(other, said, { scope: { userId: "ada" }, infer: false }),
          pipeline.recall(other, { text: "tea" }),
          pipeline.embed(other, []),
          outbox.append(other, "s", said),
          outbox.sessionEnd(other, "s")
        ]
        for (const call of calls) assert.strictEqual((yield* Effect.flip(call)).reason, "invalid_scope")
      }
    }).pipe(
      Effect.provide(MemoryPipeline.layer.pipe(
        Layer.provide([MemoryStore.layerInMemory, Embedder.layerHash(), Completion.layerNone])
      )),
      Effect.provide(world({ config: { extraction: { notes: { trigger: ExtractionTrigger.sessionEnd } } } }))
    ))
})
