/** Converts texts into vectors, either with a model that you provide, or offline with word vectors (`layerWordVectors`). */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Arr from "effect/Array"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Layer from "effect/Layer"
import * as MemoryError from "../domain/MemoryError.ts"
import * as Validation from "../domain/Validation.ts"
import * as Tokenizer from "../ranking/Tokenizer.ts"
import { cosineSimilarity } from "../ranking/VectorIndex.ts"

/** Reason for embedding: `add` for a new text, `update` for a changed text, `search` for a query. Some models embed queries differently. */
export type Purpose = "add" | "search" | "update"

/** An embedding model. */
export interface Service {
  /** Name of the model. Vectors are stored under this name. Models with different vectors must have different names. */
  readonly model: string
  /** Number of dimensions of each vector; 0 if the model makes no vectors. */
  readonly dimensions: number
  /** Settings that convert the model's cosines into scores. `calibrate` measures the setting `floor`. Default: see `Calibration`. */
  readonly calibration?: Calibration | undefined
  /** Returns one vector per text, in order. The vectors must not be changed. Fails with `model`. There is no timeout. */
  readonly embed: (
    texts: ReadonlyArray<string>,
    purpose: Purpose
  ) => Effect.Effect<ReadonlyArray<Float32Array>, MemoryError.MemoryError>
}

/** Settings that convert a model's cosine similarities into the scores of searches that use vectors. */
export interface Calibration {
  /** Typical cosine of two unrelated texts, 0 or more and less than 1. Vectors find only texts with a higher cosine. Default 0. */
  readonly floor?: number | undefined
  /** Weight of vectors in a search, compared with 1 for words. Default 0.4. Use 1 or more if the model ranks better than words. */
  readonly weight?: number | undefined
}

/** The tag of the embedding model. */
export class Embedder extends Context.Tag("@memory/Embedder")<Embedder, Service>() {}

/** Options of `make`. */
export interface Options {
  /** Largest number of texts in one call of the wrapped model. Default 32. */
  readonly batch?: number | undefined
  /** Largest number of concurrent calls of the wrapped model, counting the calls of all callers. Default 4. */
  readonly concurrency?: number | undefined
  /** Largest number of cached vectors; the least recently used is evicted. Default 1,000 (1.5 MB at 384 dimensions); 0 for no cache. */
  readonly cache?: number | undefined
}

/**
 * Wraps a model (`primitives`): adds batches, bounded concurrency and a cache. Concurrent requests for the same text and purpose share one
 * call of the model. Dies if an option is invalid, or if the model's `dimensions` are not a whole number of 1 or more. `embed` fails with
 * `model` if the model returns a wrong number of vectors or of dimensions, or a number that is not finite.
 */
export const make = (primitives: Service, options: Options = {}): Effect.Effect<Service> =>
  Effect.map(
    Effect.zipRight(checked(primitives, options), Effect.makeSemaphore(options.concurrency ?? 4)),
    (permits) => {
      const { calibration, dimensions, model } = primitives
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
      return traced({ model, dimensions, calibration, embed: cached(cache, batch, ask) })
    }
  )

/** Dies if the dimensions or an option of `make` are invalid. Some invalid values would make `embed` wait or loop for ever. */
const checked = ({ dimensions }: Service, { batch, cache, concurrency }: Options): Effect.Effect<void> =>
  Effect.orDie(Validation.refuseOptions("Embedder.make", [
    ...Validation.countIssues("dimensions", dimensions, 1),
    ...batch === Infinity ? [] : Validation.countIssues("batch", batch, 1),
    ...concurrency === Infinity ? [] : Validation.countIssues("concurrency", concurrency, 1),
    ...cache === Infinity ? [] : Validation.countIssues("cache", cache, 0)
  ]))

/**
 * Returns a copy of the embedder with a measured `floor`. The `floor` is the median cosine of all pairs of sixteen unrelated sentences,
 * clamped to 0..0.95. The `weight` is unchanged. Calls `embed` once, and fails if this call fails. An embedder without vectors (0
 * dimensions) is returned unchanged.
 */
export const calibrate = (embedder: Service): Effect.Effect<Service, MemoryError.MemoryError> =>
  embedder.dimensions === 0
    ? Effect.succeed(embedder)
    : Effect.map(embedder.embed(unrelated, "add"), (vectors) => {
      const cosines = vectors.flatMap((one, n) => vectors.slice(0, n).map((other) => cosineSimilarity(one, other)))
      const median = cosines.sort((a, b) => a - b)[cosines.length >> 1] ?? 0
      return { ...embedder, calibration: { ...embedder.calibration, floor: Math.min(0.95, Math.max(0, median)) } }
    })

const unrelated = [
  "The kettle is on the stove.",
  "Parliament passed the budget late on Tuesday.",
  "She teaches mathematics at a school in the north.",
  "The compiler reports an error in line twelve.",
  "Whales sing to each other over great distances.",
  "He paid the invoice by bank transfer.",
  "Snow is expected in the mountains tonight.",
  "The violin needs a new string.",
  "Our flight leaves from gate seven.",
  "Bread rises faster in a warm kitchen.",
  "The striker scored twice before half-time.",
  "Take one tablet after each meal.",
  "The old bridge was built of stone.",
  "I like the colour of your jacket.",
  "The server restarts every night at three.",
  "Grandmother grows tomatoes behind the house."
]

/**
 * Embeds offline, without a model. The vector of a text is the weighted mean of the GloVe vectors of its words, scaled to Euclidean norm 1.
 * The order of the words makes no difference. Stopwords (such as `not`) and unknown words are ignored. A text with no other words has the
 * zero vector. The vectors come from a table of 20,000 English words, in 100 dimensions. The table (2 MB) is read from the package's
 * folder. The layer fails with `io` if the folder is missing, for example in bundled code. The layer fails with `corrupt` if the table is
 * incomplete.
 */
export const layerWordVectors: Layer.Layer<Embedder, MemoryError.MemoryError, FileSystem.FileSystem> = Layer.effect(
  Embedder,
  Effect.gen(function*() {
    const vectorOf = yield* loadWordVectors
    return traced({
      model: wordModel,
      dimensions: wordDimensions,
      embed: (texts) => Effect.forEach(texts, (text) => Effect.sync(() => vectorOf(text)))
    })
  })
)

/** Error message for a missing `Embedder`, with the layer to provide. @internal */
export const missing = "there is nothing to embed with: provide an Embedder to the layer that asks it, " +
  "MemoryService.layer().pipe(Layer.provide(Embedder.layerWordVectors))"

/** Provides an embedder that makes no vectors. A search then uses words only, unless its query contains a vector (`embedding`). */
export const layerNone: Layer.Layer<Embedder> = Layer.succeed(Embedder, {
  model: "none",
  dimensions: 0,
  embed: (texts) => Effect.succeed(texts.map(() => new Float32Array(0)))
})

/**
 * Embeds by hashing, for tests. Equal texts have equal vectors, and texts that share more words have more similar vectors. The hash of each
 * word stem selects one component of the vector; 1 or -1 is added to this component (feature hashing, Weinberger et al. 2009). The vector
 * is scaled to Euclidean norm 1. Stopwords are ignored. A text with no other words has the zero vector. Default: 256 dimensions.
 */
export const layerHash = (
  { dimensions = 256 }: { readonly dimensions?: number | undefined } = {}
): Layer.Layer<Embedder> =>
  Layer.succeed(Embedder, {
    model: `hash-${dimensions}`,
    dimensions,
    embed: (texts) => Effect.sync(() => texts.map((text) => hashed(text, dimensions)))
  })

const traced = ({ calibration, dimensions, embed, model }: Service): Service => ({
  model,
  dimensions,
  ...(calibration && { calibration }),
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

const stemsOf = Tokenizer.make({ stem: true })

const hashed = (text: string, dimensions: number): Float32Array => {
  const vector = new Float32Array(dimensions)
  for (const term of stemsOf(text)) {
    let hash = 2_166_136_261 // FNV-1a, 32 bits
    for (let at = 0; at < term.length; at++) hash = Math.imul(hash ^ term.charCodeAt(at), 16_777_619)
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 0 // the high bits are mixed in, since the low bits collide for similar words
    vector[(hash >>> 1) % dimensions]! += hash & 1 ? 1 : -1
  }
  const length = Math.hypot(...vector)
  return length === 0 ? vector : vector.map((x) => x / length)
}

type Vectors = ReadonlyArray<Float32Array>
type Embed = Service["embed"]

/**
 * Adds a cache of at most `limit` vectors, keyed by purpose and text. `ask` receives at most `batch` texts per call, without duplicates.
 * The vectors that `ask` returns are shared between callers, not copied.
 *
 * Law: while one caller requests a text, all other callers of this text wait for the result. If the request fails, all these callers fail,
 * and the failure is not cached. If the requesting caller is interrupted, the waiting callers request the text themselves.
 */
const cached = (limit: number, batch: number, ask: Embed): Embed => {
  const kept = recentlyUsed(limit)
  const underWay = new Map<string, Pending>()

  const embed: Embed = (texts, purpose) =>
    Effect.uninterruptibleMask((restore) => {
      const vectors = new Map<string, Float32Array>()
      const mine: Array<Claim> = []
      const others: Array<Claim> = []
      for (const text of new Set(texts)) {
        const key = `${purpose}\n${text}`
        const vector = kept.get(key)
        const pending = underWay.get(key)
        if (vector) vectors.set(text, vector)
        else if (pending) others.push({ text, key, pending })
        else {
          const claim: Claim = { text, key, pending: Deferred.unsafeMake(FiberId.none) }
          underWay.set(key, claim.pending)
          mine.push(claim)
        }
      }

      const settle = (claims: ReadonlyArray<Claim>, exit: Exit.Exit<Vectors, MemoryError.MemoryError>) =>
        Effect.sync(() => {
          for (const [n, { key, pending, text }] of claims.entries()) {
            if (underWay.get(key) !== pending) continue // this text was settled when its batch ended
            underWay.delete(key)
            if (Exit.isSuccess(exit)) {
              vectors.set(text, exit.value[n]!)
              kept.set(key, exit.value[n]!)
            }
            const stopped = Exit.isInterrupted(exit)
            Deferred.unsafeDone(pending, stopped ? Exit.succeed(undefined) : Exit.map(exit, (all) => all[n]))
          }
        })
      const asked = Effect.forEach(
        Arr.chunksOf(mine, batch),
        (claims) => Effect.onExit(ask(claims.map(({ text }) => text), purpose), (exit) => settle(claims, exit)),
        { concurrency: "unbounded", discard: true }
      )

      const awaited = Effect.gen(function*() {
        const left: Array<string> = []
        for (const { pending, text } of others) {
          const vector = yield* Deferred.await(pending)
          if (vector) vectors.set(text, vector)
          else left.push(text)
        }
        const again = left.length > 0 ? yield* embed(left, purpose) : []
        for (const [n, text] of left.entries()) vectors.set(text, again[n]!)
        return texts.map((text) => vectors.get(text)!)
      })

      return restore(asked).pipe(
        Effect.ensuring(settle(mine, Exit.interrupt(FiberId.none))), // settles the texts of batches that were not started
        Effect.zipRight(restore(awaited))
      )
    })
  return embed
}

/** The awaited vector of a text. The value is `undefined` if the caller that requested the vector was interrupted. */
type Pending = Deferred.Deferred<Float32Array | undefined, MemoryError.MemoryError>

/** A text whose vector this caller requests or waits for. */
interface Claim {
  readonly text: string
  readonly key: string
  readonly pending: Pending
}

/** Makes an LRU map of at most `limit` vectors. */
const recentlyUsed = (limit: number) => {
  const entries = new Map<string, Float32Array>()
  return {
    get: (key: string): Float32Array | undefined => {
      const vector = entries.get(key)
      if (vector && entries.delete(key)) entries.set(key, vector)
      return vector
    },
    set: (key: string, vector: Float32Array): void => {
      entries.set(key, vector)
      if (entries.size > limit) { for (const oldest of entries.keys()) return void entries.delete(oldest) }
    }
  }
}

/** Model name of the word vectors. Increase its last number whenever the table, the tokenizer or the weights change. */
const wordModel = "glove-100d-20k-1"
const wordDimensions = 100

/**
 * Reads the table of word vectors (2 MB). Returns a function that embeds a text as the weighted mean of the vectors of its words. Rare
 * words weigh more. Repeated words count each time. Stopwords (such as `not`) and words that are not in the table are ignored. Word order
 * makes no difference. The function takes 5 µs for a short text.
 *
 * ```text
 * v(text) = Σ a / (a + p(w)) · v(w),  then scaled to norm 1  a = 10⁻³
 * p(w)    = 1 / (H · (rank(w) + 2.7)),  Σ p = 1              rank 1 = the most frequent
 * ```
 *
 * Here v(w) is the vector of the word w, scaled to norm 1. p(w) is the frequency of w, estimated from its rank by the Zipf–Mandelbrot law.
 *
 * This method resembles smooth inverse frequency (Arora, Liang and Ma 2017). The common component of all vectors is not removed here, since
 * its removal made searches of dialogue find less.
 */
const loadWordVectors: Effect.Effect<(text: string) => Float32Array, MemoryError.MemoryError, FileSystem.FileSystem> =
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const [words, bytes] = yield* Effect.all([
      fs.readFileString(pathOf("glove100-top20k.words.txt")),
      fs.readFile(pathOf("glove100-top20k.i8"))
    ]).pipe(
      Effect.mapError((cause) =>
        MemoryError.make("io", { op: loading, message: "no word vectors beside the code", cause })
      )
    )
    const ranks = new Map(words.trimEnd().split("\n").map((word, rank) => [word, rank]))
    if (bytes.length !== ranks.size * wordDimensions) {
      const location = "assets/word-vectors"
      return yield* MemoryError.make("corrupt", {
        op: loading,
        message: "the word vectors are not whole",
        detail: { location }
      })
    }
    return meanOf(ranks, new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length))
  }).pipe(Effect.withSpan("WordVectors.load"))

const loading = "Embedder.layerWordVectors"

/** Returns the path of a file of the table. The same relative path works in `src` and in `dist`. */
const pathOf = (name: string): string =>
  decodeURIComponent(new URL(`../../assets/word-vectors/${name}`, import.meta.url).pathname)
    .replace(/^\/(?=[A-Za-z]:\/)/, "") // removes the slash that a URL has before a Windows drive letter

const meanOf = (ranks: ReadonlyMap<string, number>, table: Int8Array) => {
  const scales = scalesOf(ranks.size, table)
  return (text: string): Float32Array => {
    const sum = new Float32Array(wordDimensions)
    for (const term of wordsOf(text)) {
      const rank = ranks.get(term)
      if (rank === undefined) continue
      const scale = scales[rank]!
      const row = rank * wordDimensions
      for (let n = 0; n < wordDimensions; n++) sum[n]! += scale * table[row + n]!
    }
    const length = lengthOf(sum, 0)
    return length === 0 ? sum : sum.map((x) => x / length)
  }
}

const wordsOf = Tokenizer.make({ stopwords: "wide" })

/** Returns one factor per row of the table: the weight of the row's word divided by the norm of the row's vector. */
const scalesOf = (size: number, table: Int8Array): Float64Array => {
  const zipf = Float64Array.from({ length: size }, (_, rank) => 1 / (rank + 1 + 2.7))
  const total = zipf.reduce((sum, x) => sum + x, 0)
  return zipf.map((x, rank) => {
    const length = lengthOf(table, rank * wordDimensions)
    return length === 0 ? 0 : 1e-3 / (1e-3 + x / total) / length
  })
}

const lengthOf = (vectors: Int8Array | Float32Array, from: number): number => {
  let sum = 0
  for (let at = from; at < from + wordDimensions; at++) sum += vectors[at]! ** 2
  return Math.sqrt(sum)
}
