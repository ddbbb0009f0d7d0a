/** Random vectors from a seeded generator. */
import { Embeddings } from "../../src/ranking/VectorIndex.ts"

/** Returns a Mulberry32 generator of uniform numbers, 0 up to 1. */
export const uniform = (seed: number) => (): number => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
}

/** Returns a generator of normally distributed numbers, by the Box-Muller transform. */
export const gaussian = (seed: number) => {
  const next = uniform(seed)
  return (): number => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next())
}

/** Makes vectors that lie around `clusters` random centres; if `clusters` is 0, they lie around the origin. */
export const scattered = (count: number, dimensions: number, clusters: number, seed: number): Array<Float32Array> => {
  const next = gaussian(seed)
  const centres = Array.from({ length: clusters }, () => Float32Array.from({ length: dimensions }, next))
  return Array.from({ length: count }, (_, n) => {
    const centre = centres[n % clusters]
    return Float32Array.from(
      { length: dimensions },
      (_, i) => centre === undefined ? next() : centre[i]! + 0.3 * next()
    )
  })
}

/** Embeddings that count the lookups of vectors. */
export class CountedEmbeddings extends Embeddings {
  looked = 0
  override get(model: string, hash: string) {
    this.looked++
    return super.get(model, hash)
  }
}
