/** The memories with which MemoryPipeline.remember compares a fact, and the number of records that it searches for them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import { Global, type MemoryScope } from "../../src/domain/MemoryScope.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import type { Engine } from "../../src/storage/Engine.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { layerOf } from "../storage/engines.ts"

const others = 300
const ada = { userId: "ada" }
const both = { userId: "ada", agentId: "tutor" }

/** Wraps an engine so that `sizes` receives the number of documents that each query searches. */
const noting = (sizes: Array<number>) => (engine: Engine): Engine => ({
  ...engine,
  match: (access, asked, question) =>
    Effect.tap(engine.match(access, asked, question), ({ documents }) => Effect.sync(() => sizes.push(documents))),
  page: (access, asked, after, limit) =>
    Effect.tap(
      engine.match(access, asked, { terms: undefined, includeIds: [], depth: 1, minScore: 0 }),
      ({ documents }) => Effect.sync(() => sizes.push(documents))
    ).pipe(Effect.zipRight(engine.page(access, asked, after, limit)))
})

/**
 * Remembers a fact; returns the prompts that showed memories to the model, the number of documents that each query searched, and the
 * outcomes of the mutations.
 */
const remembered = (viewer: Viewer.Any, scope: MemoryScope, more: ReadonlyArray<Draft> = []) => {
  const shown: Array<string> = []
  const sizes: Array<number> = []
  return Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    const pipeline = yield* MemoryPipeline.MemoryPipeline
    const of = (scope: MemoryScope, n: number) => ({ scope, kind: "semantic", body: `Tea number ${n} is green tea` })
    yield* store.put(Viewer.system(), [
      ...Array.from({ length: others }, (_, n) => of({ userId: `other ${n % 7}` }, n)),
      ...[1, 2, 3].map((n) => of(ada, n)),
      ...[1, 2].map((n) => of({ userId: "ada", agentId: "tutor" }, n)),
      of(Global, 0),
      ...more
    ])
    const { applied } = yield* pipeline.remember(viewer, [Message.user("I drink green tea.")], {
      scope,
      sharedWrites: ["global"]
    })
    return { shown, sizes, outcomes: applied.map(({ outcome }) => outcome) }
  }).pipe(Effect.provide(MemoryPipeline.layer.pipe(Layer.provideMerge(Layer.mergeAll(
    layerOf(noting(sizes)),
    Embedder.layerNone,
    Completion.layerScripted(({ user }) => {
      if (!user.startsWith("EXISTING:")) return { facts: ["Drinks green tea"] }
      shown.push(user)
      return { memory: [{ event: "ADD", text: "Drinks green tea" }] }
    })
  )))))
}

describe("the search for related memories of a fact", () => {
  it.effect("the search covers the fact's scope and either the broader scopes or, for a viewer of reach `within`, the narrower scopes", () =>
    Effect.gen(function*() {
      const own = yield* remembered(Viewer.make(ada), ada)
      assert.lengthOf(own.shown, 1)
      assert.deepStrictEqual(own.sizes, [4, 4]) // two searches: by the fact's words, and of the newest
      assert.deepStrictEqual(yield* remembered(Viewer.everyone(), ada), own)
      // a viewer of reach within also searches narrower scopes, but no broader ones
      assert.deepStrictEqual((yield* remembered(Viewer.make({ ...ada, reach: "within" }), ada)).sizes, [5, 5])
      assert.deepStrictEqual((yield* remembered(Viewer.make({ agentId: "tutor", reach: "within" }), both)).sizes, [
        2,
        2
      ])
      assert.deepStrictEqual((yield* remembered(Viewer.everyone(), Global)).sizes, [1, 1])
    }))

  it.effect("the order of the found memories does not depend on records that the viewer does not see", () =>
    Effect.gen(function*() {
      const viewer = Viewer.make({ ...both, reach: "within" })
      const drafts = ["Green tea", "Black tea, black coffee", "Green grass"].map((body) => ({
        scope: both,
        kind: "semantic",
        body
      }))
      // an unseen record would change the document frequency of its word if it counted
      const { shown } = yield* remembered(viewer, both, drafts)
      for (const scope of [ada, Global, { userId: "other" }, { agentId: "tutor" }] as const) {
        for (const body of ["green", "drinks", "tea"]) {
          const unseen = Array.from({ length: 20 }, (_, n) => ({ scope, kind: "semantic", body: `${body} ${n}` }))
          assert.deepStrictEqual((yield* remembered(viewer, both, [...drafts, ...unseen])).shown, shown)
        }
      }
    }))

  it.effect("`remember` fails with `invalid_scope` if the viewer does not see the scope", () =>
    Effect.gen(function*() {
      for (const viewer of [Viewer.make({ userId: "bob" }), Viewer.make({ userId: "bob", reach: "within" })]) {
        const error = yield* Effect.flip(remembered(viewer, ada))
        assert.strictEqual(error.reason, "invalid_scope")
      }
    }))
})
