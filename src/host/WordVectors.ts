/**
 * A text as the mean of its words' vectors, the rare words counting for more. Knows words, not sentences: order and
 * negation are lost on it.
 *
 * ```text
 * v(text) = Σ a / (a + p(w)) · v(w),  then of length 1       a = 10⁻³
 * p(w)    = 1 / (H · (rank(w) + 2.7)),  Σ p = 1              rank 1 = the most frequent
 * ```
 *
 * Smooth inverse frequency (Arora, Liang and Ma 2017, without their common component: taken out as a constant it finds
 * less in dialogue), p by Zipf–Mandelbrot from the order of the table, v(w) of length 1. A word that stands twice counts
 * twice; one that the table lacks, not at all.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as MemoryError from "../domain/MemoryError.ts"
import * as Tokenizer from "../ranking/Tokenizer.ts"

/** Of the table, the words taken from a text and their weights: whoever changes one of them counts up. */
export const model = "glove-100d-20k-1"
export const dimensions = 100

/** Reads the table, 2 MB; a text without a word that it knows is the zero vector. ~5 µs a short text. */
export const load: Effect.Effect<(text: string) => Float32Array, MemoryError.MemoryError, FileSystem.FileSystem> =
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const [words, bytes] = yield* Effect.all([
      fs.readFileString(pathOf("glove100-top20k.words.txt")),
      fs.readFile(pathOf("glove100-top20k.i8"))
    ]).pipe(
      Effect.mapError((cause) => MemoryError.make("io", { op, message: "no word vectors beside the code", cause }))
    )
    const ranks = new Map(words.trimEnd().split("\n").map((word, rank) => [word, rank]))
    if (bytes.length !== ranks.size * dimensions) {
      const location = "assets/word-vectors"
      return yield* MemoryError.make("corrupt", { op, message: "the word vectors are not whole", detail: { location } })
    }
    return meanOf(ranks, new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length))
  }).pipe(Effect.withSpan("WordVectors.load"))

const op = "Embedder.layerWordVectors"

/** From `src` and from `dist` alike. */
const pathOf = (name: string): string =>
  decodeURIComponent(new URL(`../../assets/word-vectors/${name}`, import.meta.url).pathname)
    .replace(/^\/(?=[A-Za-z]:\/)/, "") // a drive of Windows

const meanOf = (ranks: ReadonlyMap<string, number>, table: Int8Array) => {
  const scales = scalesOf(ranks.size, table)
  return (text: string): Float32Array => {
    const sum = new Float32Array(dimensions)
    for (const term of termsOf(text)) {
      const rank = ranks.get(term)
      if (rank === undefined) continue
      const scale = scales[rank]!
      const row = rank * dimensions
      for (let n = 0; n < dimensions; n++) sum[n]! += scale * table[row + n]!
    }
    const length = lengthOf(sum, 0)
    return length === 0 ? sum : sum.map((x) => x / length)
  }
}

const termsOf = Tokenizer.make({ stopwords: "wide" })

/** What a row is multiplied by: its weight, and what makes its length 1. */
const scalesOf = (size: number, table: Int8Array): Float64Array => {
  const zipf = Float64Array.from({ length: size }, (_, rank) => 1 / (rank + 1 + 2.7))
  const total = zipf.reduce((sum, x) => sum + x, 0)
  return zipf.map((x, rank) => {
    const length = lengthOf(table, rank * dimensions)
    return length === 0 ? 0 : 1e-3 / (1e-3 + x / total) / length
  })
}

const lengthOf = (vectors: Int8Array | Float32Array, from: number): number => {
  let sum = 0
  for (let at = from; at < from + dimensions; at++) sum += vectors[at]! ** 2
  return Math.sqrt(sum)
}
