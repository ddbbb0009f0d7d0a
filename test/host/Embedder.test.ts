import * as EmbeddingModel from "@effect/ai/EmbeddingModel"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { layerEmbedder } from "../../src/agent/MemoryToolkit.ts"
import { sha256 } from "../../src/domain/Digest.ts"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import * as Embedder from "../../src/host/Embedder.ts"

/** Makes an embedder whose vector of a text is (its length, 1); records its calls. */
const backend = (during: Effect.Effect<void, MemoryError.MemoryError> = Effect.void) => {
  const calls: Array<ReadonlyArray<string>> = []
  const service: Embedder.Service = {
    model: "length",
    dimensions: 2,
    embed: (texts) =>
      Effect.suspend(() => {
        calls.push(texts)
        return Effect.as(during, texts.map((text) => Float32Array.of(text.length, 1)))
      })
  }
  return { calls, service }
}
const texts = (count: number) => Array.from({ length: count }, (_, n) => "x".repeat(n))

const answering = (vectors: ReadonlyArray<Float32Array>) =>
  Embedder.make({ model: "", dimensions: 2, embed: () => Effect.succeed(vectors) })

const cosine = (a: Float32Array, b: Float32Array) => a.reduce((sum, x, n) => sum + x * b[n]!, 0)
const yields = Effect.repeatN(Effect.yieldNow(), 50)

describe("Embedder.make", () => {
  it.effect("`embed` requests vectors in batches, and returns vectors in the order of the texts", () =>
    Effect.gen(function*() {
      const { calls, service } = backend()
      const { embed } = yield* Embedder.make(service)
      const vectors = yield* embed(texts(70), "add")
      assert.deepStrictEqual(vectors.map(([length]) => length), texts(70).map(({ length }) => length))
      assert.deepStrictEqual(calls.map(({ length }) => length), [32, 32, 6])
    }))

  it.effect("invalid options such as `batch: 0` or `concurrency: NaN` cause a defect with the reason `invalid_draft`", () =>
    Effect.gen(function*() {
      const { service } = backend()
      const wrong = [NaN, 0, -1, 1.5].flatMap((count) => [{ batch: count }, { concurrency: count }])
      for (const options of [...wrong, { cache: NaN }, { cache: -1 }]) {
        const defect = yield* Effect.flip(Effect.catchAllDefect(Embedder.make(service, options), Effect.fail))
        assert.deepInclude(defect, { reason: "invalid_draft" })
      }
      yield* Embedder.make(service, { batch: Infinity, concurrency: Infinity, cache: Infinity })
    }))

  it.effect("dimensions that are not a whole number of 1 or more cause a defect with the reason `invalid_draft`", () =>
    Effect.gen(function*() {
      const { service } = backend()
      for (const dimensions of [0, -1, 1.5, NaN, Infinity]) {
        const made = Embedder.make({ ...service, dimensions })
        const provided = Effect.scoped(Layer.build(layerEmbedder({ model: "length", dimensions }))).pipe(
          Effect.provide(Layer.effect(
            EmbeddingModel.EmbeddingModel,
            EmbeddingModel.make({ embedMany: () => Effect.succeed([]) })
          ))
        )
        for (const self of [Effect.asVoid(made), Effect.asVoid(provided)]) {
          const defect = yield* Effect.flip(Effect.catchAllDefect(self, Effect.fail))
          assert.deepInclude(defect, {
            reason: "invalid_draft",
            message: "dimensions: expected a whole number, 1 or more"
          })
        }
      }
    }))

  it.effect("`embed` of no texts makes no request to the model", () =>
    Effect.gen(function*() {
      const { calls, service } = backend()
      const { embed } = yield* Embedder.make(service)
      assert.deepStrictEqual(yield* embed([], "add"), [])
      assert.deepStrictEqual(calls, [])
    }))

  it.effect("a text is requested once per purpose (such as add or search), however often the text occurs", () =>
    Effect.gen(function*() {
      const { calls, service } = backend()
      const { embed } = yield* Embedder.make(service)
      assert.lengthOf(yield* embed(["a", "b", "a"], "add"), 3)
      yield* embed(["b", "a"], "add")
      yield* embed(["a", "c"], "search")
      assert.deepStrictEqual(calls, [["a", "b"], ["a", "c"]])
    }))

  it.effect("the option `cache` limits the number of recently used texts whose vectors are cached", () =>
    Effect.gen(function*() {
      const { calls, service } = backend()
      const { embed } = yield* Embedder.make(service, { cache: 2 })
      for (const text of ["a", "b", "a", "c", "a", "b"]) yield* embed([text], "add")
      assert.deepStrictEqual(calls.flat(), ["a", "b", "c", "b"])
      const none = backend()
      const uncached = yield* Embedder.make(none.service, { cache: 0 })
      for (const text of ["a", "a"]) yield* uncached.embed([text], "add")
      assert.deepStrictEqual(none.calls.flat(), ["a", "a"])
    }))

  it.effect("all callers of `embed` together make at most `concurrency` requests at once", () =>
    Effect.gen(function*() {
      let now = 0
      let most = 0
      const { calls, service } = backend(
        Effect.acquireUseRelease(
          Effect.sync(() => most = Math.max(most, ++now)),
          () => yields,
          () => Effect.sync(() => now--)
        )
      )
      const { embed } = yield* Embedder.make(service, { batch: 1, concurrency: 3 })
      yield* Effect.all([embed(texts(10), "add"), embed(texts(10), "search")], { concurrency: 2 })
      assert.deepStrictEqual([calls.length, most], [20, 3])
    }))

  it.effect("a second caller for the same text waits for the first request instead of sending another request", () =>
    Effect.gen(function*() {
      const latch = yield* Deferred.make<void>()
      const { calls, service } = backend(Deferred.await(latch))
      const { embed } = yield* Embedder.make(service, { cache: 0 })
      const first = yield* Effect.fork(embed(["a", "b"], "add"))
      const second = yield* Effect.fork(embed(["c", "b"], "add"))
      yield* yields
      yield* Deferred.succeed(latch, undefined)
      assert.lengthOf(yield* Fiber.join(first), 2)
      assert.lengthOf(yield* Fiber.join(second), 2)
      assert.deepStrictEqual(calls, [["a", "b"], ["c"]])
    }))

  it.effect("a caller that waits for a shared request sends its own request if the sender is interrupted", () =>
    Effect.gen(function*() {
      const latch = yield* Deferred.make<void>()
      const { calls, service } = backend(Deferred.await(latch))
      const { embed } = yield* Embedder.make(service)
      const first = yield* Effect.fork(embed(["a"], "add"))
      yield* yields
      const second = yield* Effect.fork(embed(["a"], "add"))
      yield* yields
      yield* Fiber.interrupt(first)
      yield* Deferred.succeed(latch, undefined)
      assert.deepStrictEqual(yield* Fiber.join(second), [Float32Array.of(1, 1)])
      assert.deepStrictEqual(calls, [["a"], ["a"]])
    }))

  it.effect("a caller receives all its vectors even if an earlier caller for the same texts is interrupted at any step", () =>
    Effect.gen(function*() {
      const { service } = backend(Effect.repeatN(Effect.yieldNow(), 5))
      for (let steps = 0; steps < 60; steps++) {
        const { embed } = yield* Embedder.make(service, { batch: 2, concurrency: 1 })
        const first = yield* Effect.fork(embed(texts(6), "add"))
        const second = yield* Effect.fork(embed(texts(8), "add"))
        yield* Effect.repeatN(Effect.yieldNow(), steps)
        yield* Fiber.interruptFork(first)
        assert.lengthOf(yield* Fiber.join(second), 8)
        assert.lengthOf(yield* embed(texts(6), "add"), 6)
      }
    }))

  it.effect("all callers that wait for a failed request fail, and a later call sends a new request", () =>
    Effect.gen(function*() {
      let down = true
      const { calls, service } = backend(
        Effect.zipRight(
          yields,
          Effect.suspend(() => down ? Effect.fail(MemoryError.make("model", { op: "test", message: "" })) : Effect.void)
        )
      )
      const { embed } = yield* Embedder.make(service)
      const errors = yield* Effect.all([Effect.flip(embed(["a"], "add")), Effect.flip(embed(["a"], "add"))], {
        concurrency: 2
      })
      assert.deepStrictEqual(errors.map(({ reason }) => reason), ["model", "model"])
      down = false
      assert.lengthOf(yield* embed(["a"], "add"), 1)
      assert.lengthOf(calls, 2)
    }))

  it.effect("a failed call of `embed` can be repeated, and the repeated call returns all vectors", () =>
    Effect.gen(function*() {
      let down = true
      const error = MemoryError.make("model", { op: "test", message: "" })
      const { service } = backend(Effect.suspend(() => down ? Effect.fail(error) : Effect.void))
      const { embed } = yield* Embedder.make(service, { batch: 1 })
      yield* Effect.flip(embed(texts(20), "add"))
      down = false
      assert.lengthOf(yield* embed(texts(20), "add"), 20)
    }))

  it.effect("`embed` fails with the reason `model` if the model returns missing or invalid vectors", () =>
    Effect.gen(function*() {
      const wrong = [
        [[], "0 vectors for 1 texts"],
        [[Float32Array.of(1)], "1 dimensions, not 2"],
        [[Float32Array.of(1, NaN)], "not finite"],
        [[Float32Array.of(1, Infinity)], "not finite"]
      ] as const
      for (const [vectors, message] of wrong) {
        const { embed } = yield* answering(vectors)
        const error = yield* Effect.flip(embed(["a"], "add"))
        assert.strictEqual(error.reason, "model")
        assert.include(error.message, message)
      }
    }))
})

describe("Embedder.layerHash", () => {
  const embed = (...texts: ReadonlyArray<string>) =>
    Effect.flatMap(Embedder.Embedder, (_) => _.embed(texts, "add")).pipe(Effect.provide(Embedder.layerHash()))

  it.effect("two texts get similar vectors from Embedder.layerHash if they share words, and dissimilar vectors if they share none", () =>
    Effect.gen(function*() {
      const [tea, again, teas, coffee] = yield* embed(
        "Ada drinks green tea",
        "Ada drinks green tea",
        "green teas are drunk",
        "Bob sails boats"
      )
      assert.deepStrictEqual(tea, again)
      assert.closeTo(cosine(tea!, tea!), 1, 1e-6)
      assert.isAbove(cosine(tea!, teas!), .3)
      assert.isBelow(Math.abs(cosine(tea!, coffee!)), .3)
    }))

  it.effect("Embedder.layerHash gives a text without words the zero vector", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* embed("", "?!"), [new Float32Array(256), new Float32Array(256)])
    }))

  it.effect("the model name of Embedder.layerHash contains the number of dimensions", () =>
    Effect.gen(function*() {
      const { dimensions, embed, model } = yield* Effect.provide(
        Embedder.Embedder,
        Embedder.layerHash({ dimensions: 64 })
      )
      assert.deepStrictEqual([model, dimensions, (yield* embed(["tea"], "add"))[0]!.length], ["hash-64", 64, 64])
    }))
})

describe("Embedder.layerWordVectors", () => {
  const embed = (...texts: ReadonlyArray<string>) => Effect.flatMap(Embedder.Embedder, (_) => _.embed(texts, "add"))
  const provided = Effect.provide(Layer.provide(Embedder.layerWordVectors, NodeFileSystem.layer))

  it.effect("word vectors are most similar for texts with equal words, then for texts with related words", () =>
    Effect.gen(function*() {
      const [home, city, moved, tea] = yield* embed(
        "which city is home?",
        "Ada's home is the city",
        "Ada moved to Lisbon",
        "Bob drinks coffee with milk"
      )
      assert.isAbove(cosine(home!, city!), cosine(home!, moved!))
      assert.isAbove(cosine(home!, moved!), cosine(home!, tea!))
    }).pipe(provided))

  it.effect("Embedder.layerWordVectors returns a vector of Euclidean norm 1, or the zero vector if no word is known", () =>
    Effect.gen(function*() {
      const [tea, long, ...zero] = yield* embed("tea", "tea ".repeat(10_000), "", "the of", "xqzzv 東京 \ud800")
      assert.closeTo(cosine(tea!, tea!), 1, 1e-6)
      assert.closeTo(cosine(tea!, long!), 1, 1e-5)
      assert.deepStrictEqual(zero, zero.map(() => new Float32Array(100)))
      assert.strictEqual(cosine(tea!, zero[0]!), 0)
    }).pipe(provided))

  it.effect("the model glove-100d-20k-1 gives a fixed text a vector whose digest equals the one written in this test", () =>
    Effect.gen(function*() {
      const { dimensions, model } = yield* Embedder.Embedder
      const [vector] = yield* embed("Caroline adopted a dog in the spring")
      const digest = sha256(Array.from(vector!, (x) => x.toFixed(4)).join())
      assert.deepStrictEqual([model, dimensions, digest.slice(0, 8)], ["glove-100d-20k-1", 100, "330ae325"])
    }).pipe(provided))

  it.effect("Embedder.layerWordVectors fails if a file is missing or incomplete", () =>
    Effect.gen(function*() {
      const build = (files: Partial<FileSystem.FileSystem>) =>
        Effect.flip(Layer.build(Layer.provide(Embedder.layerWordVectors, FileSystem.layerNoop(files))))
      assert.strictEqual((yield* build({})).reason, "io")
      const short = {
        readFileString: () => Effect.succeed("tea\n"),
        readFile: () => Effect.succeed(new Uint8Array(99))
      }
      assert.strictEqual((yield* build(short)).reason, "corrupt")
    }).pipe(Effect.scoped))
})

it.effect("Embedder.layerNone has 0 dimensions and returns empty vectors", () =>
  Effect.gen(function*() {
    const { dimensions, embed, model } = yield* Embedder.Embedder
    assert.deepStrictEqual([model, dimensions], ["none", 0])
    assert.deepStrictEqual(yield* embed(["a"], "add"), [new Float32Array(0)])
  }).pipe(Effect.provide(Embedder.layerNone)))
