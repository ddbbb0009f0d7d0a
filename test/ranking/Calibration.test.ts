import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Embedding, MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import { type MemoryRecord, textHash } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryIndex from "../../src/ranking/MemoryIndex.ts"
import * as EmbeddingSync from "../../src/storage/EmbeddingSync.ts"
import { layerInMemory, MemoryStore } from "../../src/storage/MemoryStore.ts"
import * as World from "./world.ts"

const ada = { userId: "ada" }
const viewer = Viewer.everyone()
/** Returns a vector whose cosine with the query's vector (1, 0) is `cosine`. */
const at = (cosine: number) => Float32Array.of(cosine, Math.sqrt(1 - cosine * cosine))

interface Turn {
  readonly cosine: number
  readonly body?: string
  readonly session?: string
  readonly sequence?: number
  readonly scope?: MemoryRecord["scope"]
}

/** Returns the explanation of each hit, by body. Searches for "tea" by words and vector, unless `query` overrides this. */
const relevances = (
  turns: Record<string, Turn>,
  query: Partial<MemoryQuery> = {},
  calibration: Partial<Embedding> = {}
) => {
  const index = MemoryIndex.make()
  for (const [name, { body = name, cosine, scope = ada, sequence, session }] of Object.entries(turns)) {
    const record = World.record(name, {
      body,
      summary: body,
      scope,
      source: { origin: "user", trust: 1, session, sequence }
    })
    index.add(record)
    index.attach("m", textHash(record), at(cosine))
  }
  const embedding = { model: "m", vector: [1, 0], ...calibration }
  const { hits } = index.search(viewer, { text: "tea", embedding, explain: true, ...query }, 0)
  return Object.fromEntries(hits.map(({ explanation, record: { body } }) => [body, explanation!]))
}

describe("vector relevance in hybrid search", () => {
  it("the vector relevance of a conversation turn is at least 80% of the cosine between the query and an adjacent turn", () => {
    const turns = {
      asked: { cosine: 1, session: "s", sequence: 4 },
      next: { cosine: 0.1, session: "s", sequence: 5 },
      before: { cosine: 0.9, session: "s", sequence: 3 },
      beyond: { cosine: 0.1, session: "s", sequence: 6 },
      elsewhere: { cosine: 0.1, session: "t", sequence: 5 },
      theirs: { cosine: 0.1, session: "s", sequence: 5, scope: { userId: "bob" } },
      note: { cosine: 0.1 }
    }
    const near = (query: Partial<MemoryQuery>) =>
      Object.entries(relevances(turns, query)).map(([body, { relevance }]) => [body, relevance!.toFixed(2)])
    const alone = [["asked", "1.00"], ["before", "0.90"]]
    assert.sameDeepMembers(near({}), [
      ...alone,
      ["next", "0.80"],
      ...["beyond", "elsewhere", "theirs", "note"].map((body) => [body, "0.10"])
    ])
    const others = ["next", "beyond", "elsewhere", "theirs", "note"]
    const lonely = [...alone, ...others.map((body) => [body, "0.10"])]
    assert.sameDeepMembers(near({ weights: { conversation: 0 } }), lonely)
    assert.sameDeepMembers(near({ weights: { ranker: 0 } }), lonely)
    assert.closeTo(relevances(turns)["next"]!["cosine:lent"]!, 0.8, 1e-6)
  })

  it("weights.vector of a query overrides the vector weight that the query's embedding sets", () => {
    const turns = { tea: { cosine: 0, body: "tea" }, ocean: { cosine: 1 } }
    const ocean = (query: Partial<MemoryQuery>, calibration: Partial<Embedding>) =>
      relevances(turns, query, calibration)["ocean"]?.["relevance"]
    assert.closeTo(ocean({}, {})!, 0.4 / 1.4, 1e-9)
    assert.closeTo(ocean({}, { weight: 3 })!, 3 / 4, 1e-9)
    assert.closeTo(ocean({ weights: { vector: 1 } }, { weight: 3 })!, 1 / 2, 1e-9)
    assert.isUndefined(ocean({}, { weight: 0 }))
  })

  it("vectors find only records whose cosine is above the `floor` of the query's embedding", () => {
    const turns = { best: { cosine: 0.9 }, middle: { cosine: 0.8 }, floor: { cosine: 0.7 }, tea: { cosine: 0.2 } }
    const found = relevances(turns, { mode: "hybrid" }, { floor: 0.7, weight: 1 })
    assert.sameMembers(Object.keys(found), ["best", "middle", "tea"])
    assert.closeTo(found["best"]!["relevance"]!, 1 / 2, 1e-6)
    assert.closeTo(found["middle"]!["relevance"]!, 1 / 4, 1e-6)
    assert.closeTo(found["tea"]!["relevance"]!, 1 / 2, 1e-6)
  })
})

/** An embedding model whose vectors lie close together, as those of many encoders do. */
const crowded: Embedder.Service = {
  model: "crowded",
  dimensions: 40,
  calibration: { weight: 1.5 },
  embed: (texts) =>
    Effect.succeed(texts.map((text, n) => {
      const vector = new Float32Array(40).fill(0)
      vector[0] = 3
      vector[1 + (n + text.length) % 39] = 1
      return vector
    }))
}

describe("Embedder.calibrate", () => {
  it.effect("`calibrate` sets `floor` to the model's median cosine of unrelated texts, and keeps `weight`", () =>
    Effect.gen(function*() {
      const { calibration } = yield* Embedder.calibrate(crowded)
      assert.closeTo(calibration!.floor!, 0.9, 1e-6)
      assert.strictEqual(calibration!.weight, 1.5)
      const none = yield* Effect.provide(Embedder.Embedder, Embedder.layerNone)
      assert.strictEqual(yield* Embedder.calibrate(none), none)
    }))

  it.effect("the embedding of a query contains the calibration of the embedder", () =>
    Effect.gen(function*() {
      const embedder = yield* Effect.flatMap(Embedder.make(crowded), Embedder.calibrate)
      const query = yield* EmbeddingSync.make(yield* MemoryStore, embedder).query("tea")
      assert.deepStrictEqual({ ...query, vector: [] }, { model: "crowded", vector: [], ...embedder.calibration! })
    }).pipe(Effect.provide(layerInMemory)))
})
