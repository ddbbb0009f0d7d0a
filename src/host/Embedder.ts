/** Text to vectors. */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MemoryError from "../domain/MemoryError.ts"
import * as Tokenizer from "../ranking/Tokenizer.ts"
import * as VectorCache from "./VectorCache.ts"
import * as WordVectors from "./WordVectors.ts"

/** Some models embed a question otherwise than what answers it. */
export type Purpose = "add" | "search" | "update"

export interface Service {
  /** Part of every vector's key: what changes its vectors changes its name. */
  readonly model: string
  /** 0: there are no vectors. */
  readonly dimensions: number
  /** One vector per text, in order, not to be written to: callers may share them. Fails with `model`. */
  readonly embed: (
    texts: ReadonlyArray<string>,
    purpose: Purpose
  ) => Effect.Effect<ReadonlyArray<Float32Array>, MemoryError.MemoryError>
}

export class Embedder extends Context.Tag("@memory/Embedder")<Embedder, Service>() {}

export interface Options {
  /** Texts per call, default 32. */
  readonly batch?: number | undefined
  /** Calls at a time, of all callers together; default 4. */
  readonly concurrency?: number | undefined
  /** Vectors kept, those that were used last; default 1,000, which is 1.5 MB of 384 dimensions; 0 = none. */
  readonly cache?: number | undefined
}

/**
 * Adds batches, bounded concurrency and a cache to a backend. A text that is being embedded, for whomever, is not asked
 * for again. An answer of another count or other dimensions, or with a number that is not finite, fails with `model`.
 */
export const make = (primitives: Service, options: Options = {}): Effect.Effect<Service> =>
  Effect.map(Effect.makeSemaphore(options.concurrency ?? 4), (permits) => {
    const { dimensions, model } = primitives
    const { batch = 32, cache = 1_000 } = options
    const ask = (texts: ReadonlyArray<string>, purpose: Purpose) =>
      Effect.suspend(() => primitives.embed(texts, purpose)).pipe(
        Effect.filterOrElse(
          (vectors) => vectors.length === texts.length && vectors.every((vector) => isOf(vector, dimensions)),
          (vectors) => Effect.fail(malformed(texts.length, dimensions, vectors))
        ),
        permits.withPermits(1),
        Effect.withSpan("Embedder.call", { attributes: { model, purpose, texts: texts.length } })
      )
    return traced({ model, dimensions, embed: VectorCache.make(cache, batch, ask) })
  })

/**
 * Offline: 100-d GloVe of 20,000 English words, their weighted mean (smooth inverse frequency). Knows words, not
 * sentences. Length 1; a text without a word that it knows is 0. The table, 2 MB, is read when the layer is built: `io`
 * where it does not lie beside the code, as in a bundle.
 */
export const layerWordVectors: Layer.Layer<Embedder, MemoryError.MemoryError, FileSystem.FileSystem> = Layer.effect(
  Embedder,
  Effect.map(WordVectors.load, (vectorOf) =>
    traced({
      model: WordVectors.model,
      dimensions: WordVectors.dimensions,
      embed: (texts) => Effect.forEach(texts, (text) => Effect.sync(() => vectorOf(text)))
    }))
)

/** No vectors: searches are lexical. */
export const layerNone: Layer.Layer<Embedder> = Layer.succeed(Embedder, {
  model: "none",
  dimensions: 0,
  embed: (texts) => Effect.succeed(texts.map(() => new Float32Array(0)))
})

/**
 * For tests: equal texts are equal vectors, and shared words bring texts closer; of meaning it knows nothing. Each stem
 * adds or takes 1 where its hash says (feature hashing, Weinberger et al. 2009). Length 1; a text without words is 0.
 * Dimensions: default 256.
 */
export const layerHash = (
  { dimensions = 256 }: { readonly dimensions?: number | undefined } = {}
): Layer.Layer<Embedder> =>
  Layer.succeed(Embedder, {
    model: `hash-${dimensions}`,
    dimensions,
    embed: (texts) => Effect.sync(() => texts.map((text) => hashed(text, dimensions)))
  })

const traced = ({ dimensions, embed, model }: Service): Service => ({
  model,
  dimensions,
  embed: (texts, purpose) =>
    Effect.withSpan(Effect.suspend(() => embed(texts, purpose)), "Embedder.embed", {
      attributes: { model, purpose, texts: texts.length }
    })
})

const isOf = (vector: Float32Array, dimensions: number): boolean =>
  vector.length === dimensions && vector.every(Number.isFinite)

const malformed = (texts: number, dimensions: number, vectors: ReadonlyArray<Float32Array>) => {
  const wrong = vectors.find((vector) => vector.length !== dimensions)
  const got = vectors.length !== texts
    ? `${vectors.length} vectors for ${texts} texts`
    : wrong
    ? `a vector of ${wrong.length} dimensions, not ${dimensions}`
    : "a vector with a number that is not finite"
  return MemoryError.make("model", { op: "Embedder.embed", message: `the embedding model gave ${got}` })
}

const termsOf = Tokenizer.make({ stem: true })

const hashed = (text: string, dimensions: number): Float32Array => {
  const vector = new Float32Array(dimensions)
  for (const term of termsOf(text)) {
    let hash = 2_166_136_261 // FNV-1a, 32 bits
    for (let at = 0; at < term.length; at++) hash = Math.imul(hash ^ term.charCodeAt(at), 16_777_619)
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 0 // its low bits alone tell similar words badly apart
    vector[(hash >>> 1) % dimensions]! += hash & 1 ? 1 : -1
  }
  const length = Math.hypot(...vector)
  return length === 0 ? vector : vector.map((x) => x / length)
}
