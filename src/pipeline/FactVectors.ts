/**
 * Vectors of facts, made once per reading: they serve the search for related memories, and are stored with each fact whose text
 * is kept unchanged. An error here becomes a failure of the `vector` leg; the reading goes on with lexical search.
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

/** A value, and the failures that were tolerated on the way to it. */
export interface Outcome<A> {
  readonly value: A
  readonly failures: ReadonlyArray<Failure>
}

/** The vectors of one reading's facts. */
export interface FactVectors {
  /** Makes a vector for each fact, keyed by the fact's text in NFC. */
  readonly of: (facts: ReadonlyArray<Fact>, paced: EventLoop.Pacer) => Effect.Effect<Outcome<Embedding.Vectors>>
  /** Stores a vector for each added or reworded record, making those that `known` lacks. Returns how many it made. */
  readonly keep: (
    tenant: string,
    mutations: ReadonlyArray<MemoryMutation>,
    applied: ReadonlyArray<Applied>,
    known: Embedding.Vectors,
    paced: EventLoop.Pacer
  ) => Effect.Effect<Outcome<number>>
}

/** Makes the vectors with the given model and store. */
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
        record && isMeant(mutations[i]!, outcome) ? [record] : [] // `applied` answers every mutation
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

/** Most text that is embedded in one call, in UTF-16 units; a longer single text has a call of its own. */
const portion = 32_768

/** Groups the items, in order, into runs of at most `portion` units; a longer item is a run of its own. */
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
