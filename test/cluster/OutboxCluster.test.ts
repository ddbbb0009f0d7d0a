import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { user } from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import { pause } from "../../src/host/EventLoop.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { model } from "../harness/Outboxes.ts"
import { outboxLaws } from "../harness/OutboxLaws.ts"
import { server } from "../postgres/Server.ts"
import { opened } from "./Clusters.ts"
import * as Kill from "./Kill.ts"

describe("an OutboxCluster", () => {
  for (const { check, title } of outboxLaws) {
    it.scopedLive(title, () => Effect.provide(Effect.scoped(check(opened)), MemoryStore.layerInMemory))
  }

  it.scopedLive("the cluster's Effect scope does not close while an answer of the model is being written", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const order: Array<string> = []
      const [reached, gate] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const slow: MemoryStore.Service = {
        ...store,
        apply: (viewer, mutations, provenance) =>
          mutations.some(({ _tag, ...rest }) =>
              _tag === "Put" && "draft" in rest && rest.draft.data?.["row"] === "plan"
            )
            ? Deferred.succeed(reached, undefined).pipe(
              Effect.zipRight(Deferred.await(gate)),
              Effect.zipRight(store.apply(viewer, mutations, provenance)),
              Effect.tap(() => Effect.sync(() => order.push("kept")))
            )
            : store.apply(viewer, mutations, provenance)
      }
      const scope = yield* Scope.make()
      const outbox = yield* Scope.extend(opened(slow, model(), { trigger: ExtractionTrigger.invocation }), scope)
      yield* outbox.append(Viewer.make({ userId: "ada" }), "s", [user("I drink tea")])
      yield* Deferred.await(reached)
      const closing = yield* Effect.fork(
        Effect.tap(Scope.close(scope, Exit.void), () => Effect.sync(() => order.push("given away")))
      )
      yield* Effect.repeatN(pause, 100)
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(closing)
      assert.deepStrictEqual(order, ["kept", "given away"])
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))
})

// two runners need a PostgreSQL server; a run without one reports that these tests were left out
if (server.url !== undefined) Kill.suite(server.url)
