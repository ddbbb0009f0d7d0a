/**
 * Vectors of facts: made once, to search by and to keep with what is stored as it was said. They are the better way and
 * not the only one: what goes wrong is a failure of the `vector` leg, and the words remain.
 */
import * as Effect from "effect/Effect"
import type * as MemoryError from "../domain/MemoryError.ts"
import type { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import type * as Embedder from "../host/Embedder.ts"
import type * as EventLoop from "../host/EventLoop.ts"
import type * as Embedding from "../storage/Embedding.ts"
import type { Fact } from "./Extraction.ts"
import type { Failure } from "./MemoryPipeline.ts"

export interface Outcome<A> {
  readonly value: A
  readonly failures: ReadonlyArray<Failure>
}

export interface FactVectors {
  /** By the fact's text in NFC. */
  readonly of: (facts: ReadonlyArray<Fact>, paced: EventLoop.Pacer) => Effect.Effect<Outcome<Embedding.Vectors>>
  /** Keeps those of what was added or reworded; those that `known` has not are made. How many were made. */
  readonly keep: (
    tenant: string,
    mutations: ReadonlyArray<MemoryMutation>,
    applied: ReadonlyArray<Applied>,
    known: Embedding.Vectors,
    paced: EventLoop.Pacer
  ) => Effect.Effect<Outcome<number>>
}

export const make = (embedding: Embedding.Embedding): FactVectors => ({
  of: (facts, paced) =>
    tolerated(
      Effect.gen(function*() {
        const known = new Map<string, Float32Array>()
        for (const texts of portions(facts.map(({ text }) => text.normalize("NFC")), ({ length }) => length)) {
          for (const [text, vector] of yield* embedding.of(texts, "add")) known.set(text, vector)
          yield* paced(lengthOf(texts, ({ length }) => length))
        }
        return known
      }),
      new Map()
    ),
  keep: (tenant, mutations, applied, known, paced) => {
    const records = (isMeant: (mutation: MemoryMutation, outcome: Applied["outcome"]) => boolean) =>
      applied.flatMap(({ outcome, record }, i): ReadonlyArray<MemoryRecord> =>
        record && isMeant(mutations[i]!, outcome) ? [record] : [] // one for each
      )
    const added = records(({ _tag }, outcome) => _tag === "Put" && outcome !== "duplicate")
    const reworded = records((mutation) => mutation._tag === "Update" && mutation.patch.body !== undefined)
    const keepAll = (records: ReadonlyArray<MemoryRecord>, purpose: Embedder.Purpose) =>
      Effect.reduce(portions(records, ({ body }) => body.length), 0, (made, records) =>
        Effect.zipLeft(
          Effect.map(embedding.keep(tenant, records, purpose, known), (more) => made + more),
          paced(lengthOf(records, ({ body }) => body.length))
        ))
    return tolerated(Effect.zipWith(keepAll(added, "add"), keepAll(reworded, "update"), (a, b) => a + b), 0)
  }
})

const tolerated = <A>(self: Effect.Effect<A, MemoryError.MemoryError>, otherwise: A): Effect.Effect<Outcome<A>> =>
  Effect.match(self, {
    onFailure: (error) => ({ value: otherwise, failures: [{ leg: "vector", error }] }),
    onSuccess: (value) => ({ value, failures: [] })
  })

/** UTF-16 units that are embedded in one call. */
const portion = 32_768

/** Runs of at most a portion each; what is longer is a run of its own. */
const portions = <A>(all: ReadonlyArray<A>, length: (one: A) => number): ReadonlyArray<ReadonlyArray<A>> => {
  const runs: Array<Array<A>> = []
  let room = 0
  for (const one of all) {
    if (length(one) > room || runs.length === 0) {
      runs.push([])
      room = portion
    }
    room -= length(one)
    runs.at(-1)?.push(one)
  }
  return runs
}

const lengthOf = <A>(all: ReadonlyArray<A>, length: (one: A) => number): number =>
  all.reduce((sum, one) => sum + length(one), 0)
