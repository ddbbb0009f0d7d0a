/** Vectors beside the rows: which texts have none yet, and where they go. All of it can be made again. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../domain/MemoryError.ts"
import { embeddingText, isExpired, type MemoryRecord } from "../domain/MemoryRecord.ts"
import { type Embeddings, hashOf } from "../ranking/Embeddings.ts"
import { invalid } from "./Check.ts"
import type { Sidecar, Unembedded, Vectors } from "./MemoryStore.ts"

type Io<A> = Effect.Effect<A, MemoryError>

/** Gone with the process. */
export const inMemory = (embeddings: Embeddings): Sidecar => ({
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
  records: Io<Iterable<MemoryRecord>>
): Vectors => ({
  pending: (model, limit = Infinity) =>
    Effect.gen(function*() {
      yield* follow(model)
      const now = yield* Clock.currentTimeMillis
      const found = new Map<string, Unembedded>()
      for (const record of yield* records) {
        if (found.size >= limit) break
        if (isExpired(record, now)) continue
        const hash = hashOf(record)
        if (embeddings.get(model, hash) === undefined) found.set(hash, { hash, text: embeddingText(record) })
      }
      return Array.from(found.values())
    }),
  attach: (model, vectors) =>
    Effect.gen(function*() {
      yield* follow(model)
      const all = Array.from(vectors)
      const dimensions = embeddings.dimensions(model) ?? all[0]?.[1].length
      const issue = all.some(([hash]) => !/^[0-9a-f]{64}$/.test(hash))
        ? "hash: no SHA-256"
        : all.some(([, vector]) => vector.length !== dimensions || vector.length === 0)
        ? `vector: expected ${dimensions} dimensions`
        : all.some(([, vector]) => !vector.every(Number.isFinite))
        ? "vector: expected finite numbers"
        : undefined
      if (issue !== undefined) return yield* invalid("attach", issue)
      // of the caller's, which may change
      yield* append(model, all.map(([hash, vector]) => [hash, vector.slice()]))
    }),
  read: (model, hashes) =>
    Effect.map(follow(model), () => hashes.map((hash) => Option.fromNullable(embeddings.get(model, hash))))
})
