/** Vectors beside the rows: which texts have none yet, and where they go. All of it can be made again. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../domain/MemoryError.ts"
import { embeddingText, isExpired, type MemoryRecord } from "../domain/MemoryRecord.ts"
import { isInternal } from "../domain/MemoryScope.ts"
import { Embeddings, hashOf } from "../ranking/Embeddings.ts"
import { invalid } from "./Check.ts"

/** A text that has no vector of this model yet. `hash` is `MemoryRecord.textHash`. */
export interface Unembedded {
  readonly hash: string
  readonly text: string
}

export interface Vectors {
  /** Of what is live or closed, of every tenant; each text once. Default: all. */
  readonly pending: (model: string, limit?: number) => Effect.Effect<ReadonlyArray<Unembedded>, MemoryError>
  /**
   * All or none: `invalid_draft` where one is not finite or has other dimensions than the model's first. A hash that has a
   * vector keeps it. The name of a model has 1 to 500 characters.
   */
  readonly attach: (
    model: string,
    vectors: Iterable<readonly [hash: string, vector: Float32Array]>
  ) => Effect.Effect<void, MemoryError>
  /** In the order asked for, copies; `None` where there is none of this model. */
  readonly read: (
    model: string,
    hashes: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<Option.Option<Float32Array>>, MemoryError>
}

/** Where a backend keeps its vectors: in memory, for its indexes, and wherever else they outlive the process. */
export interface Sidecar {
  readonly embeddings: Embeddings
  /** Brings in what came by this model since it was last asked for: at first everything. */
  readonly follow: (model: string) => Effect.Effect<void, MemoryError>
  /** Keeps those that are new, and puts them among the embeddings; `invalid_draft` where others were first, of another length. */
  readonly append: (
    model: string,
    vectors: ReadonlyArray<readonly [hash: string, vector: Float32Array]>
  ) => Effect.Effect<void, MemoryError>
  /** Erases every other, of every model; how many. Within `exclusive`. */
  readonly retain: (hashes: ReadonlySet<string>) => Effect.Effect<number, MemoryError>
}

/** A sidecar that is gone with the process: what had a vector is pending again. */
export const inMemory = (embeddings: Embeddings = new Embeddings()): Sidecar => ({
  embeddings,
  follow: () => Effect.void,
  append: (model, vectors) =>
    Effect.sync(() => {
      for (const [hash, vector] of vectors) embeddings.set(model, hash, vector)
    }),
  retain: (hashes) => Effect.sync(() => embeddings.retain((hash) => hashes.has(hash)))
})

/** `records`: those that are live or closed, of every tenant. */
export const make = (
  { append, embeddings, follow }: Sidecar,
  records: Effect.Effect<Iterable<MemoryRecord>, MemoryError>
): Vectors => ({
  pending: (model, limit = Infinity) =>
    Effect.gen(function*() {
      yield* follow(model)
      const now = yield* Clock.currentTimeMillis
      const found = new Map<string, Unembedded>()
      for (const record of yield* records) {
        if (found.size >= limit) break
        if (isExpired(record, now) || isInternal(record.scope)) continue
        const hash = hashOf(record)
        if (embeddings.get(model, hash) === undefined) found.set(hash, { hash, text: embeddingText(record) })
      }
      return Array.from(found.values())
    }),
  attach: (model, vectors) =>
    Effect.gen(function*() {
      // of the caller's, which may change
      const all = Array.from(vectors, ([hash, vector]) => [hash, vector.slice()] as const)
      yield* legal(model, all)
      yield* follow(model)
      yield* fit(embeddings, model, all)
      yield* append(model, all)
    }),
  // theirs, to change as they like
  read: (model, hashes) =>
    Effect.map(
      follow(model),
      () =>
        hashes.map((hash) => Option.map(Option.fromNullable(embeddings.get(model, hash)), (vector) => vector.slice()))
    )
})

/** `invalid_draft` where no store could keep them. */
export const legal = (
  model: string,
  vectors: ReadonlyArray<readonly [hash: string, vector: Float32Array]>
): Effect.Effect<void, MemoryError> => {
  const [length = 1] = vectors.map(([, vector]) => vector.length)
  const issue = model === "" || model.length > 500 || !model.isWellFormed()
    ? "model: expected 1 to 500 characters"
    : vectors.some(([hash]) => !/^[0-9a-f]{64}$/.test(hash))
    ? "hash: no SHA-256"
    : vectors.some(([, vector]) => !vector.every(Number.isFinite))
    ? "vector: expected finite numbers"
    : length === 0 || vectors.some(([, vector]) => vector.length !== length)
    ? "vector: expected the same dimensions of each, and some"
    : undefined
  return issue === undefined ? Effect.void : invalid("attach", issue)
}

/** `invalid_draft` where they are not of one length, that of the model's others. */
export const fit = (
  embeddings: Embeddings,
  model: string,
  vectors: ReadonlyArray<readonly [hash: string, vector: Float32Array]>
): Effect.Effect<void, MemoryError> => {
  const dimensions = embeddings.dimensions(model) ?? vectors[0]?.[1].length
  return vectors.every(([, { length }]) => length === dimensions && length > 0)
    ? Effect.void
    : invalid("attach", `vector: expected ${dimensions} dimensions`)
}
