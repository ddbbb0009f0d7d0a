/**
 * Finds the related memories of new facts, that is, memories that the facts may change. A related memory has exactly the scope of the
 * facts. Messages stored word for word are left out. The best matches of each fact come first. If fewer than `topK` memories match, the
 * newest memories follow, since even a memory that has no word in common with a fact may contradict the fact. This module also computes
 * the vectors of facts.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { MemoryFilter, MemoryQuery, SearchResult } from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { Applied, MemoryMutation } from "../../domain/MemoryMutation.ts"
import { collapseSpace, embeddingText, isExpired, type MemoryRecord, type Trust } from "../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type * as Embedder from "../../host/Embedder.ts"
import type * as EventLoop from "../../host/EventLoop.ts"
import type * as EmbeddingSync from "../../storage/EmbeddingSync.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import { type Fact, maxCharacters, turnMark } from "../Extraction.ts"
import type { Failure } from "../MemoryPipeline.ts"

/** The input of `find`: the facts, and the scope in which to find the related memories. */
export interface Wanted {
  readonly scope: MemoryScope.MemoryScope
  /** One query per fact, with the fact's vector and text. Only the first 1,024 UTF-16 units of a text are searched for. */
  readonly queries: ReadonlyArray<Query>
  /** Largest number of memories to find for each fact, 1..1,000. */
  readonly topK: number
  /** Trust level of the facts. A lower number means more trust. Facts may not change a memory that is more trusted. */
  readonly trust: Trust
  /** Kinds with structured data. Facts may not change records of these kinds, since a fact is only a text. */
  readonly typed: ReadonlySet<string>
  /** Current time, epoch milliseconds. */
  readonly now: number
  /** Called with the amount of work done since the last call. After enough work, waits while other tasks of the event loop run. */
  readonly paced: EventLoop.Pacer
}

/** The query that finds the memories related to one fact. */
export interface Query extends Pick<MemoryQuery, "embedding"> {
  readonly text: string
}

/** The related memories that were found. */
export interface Found {
  /**
   * The records that the facts may change: at most 1,000 records, with 262,144 characters in all. The matches of the first fact come first,
   * then the other matches of the second fact, and so on. The matches of each fact are ordered best first.
   */
  readonly records: ReadonlyArray<MemoryRecord>
  /** Records that have the same text as a fact but are more trusted. A fact with such a record is not stored again. */
  readonly repeated: ReadonlyArray<MemoryRecord>
  /** Retrievers that failed in a search. Each retriever is listed once. */
  readonly failures: SearchResult["failures"]
}

/**
 * Finds the memories related to the facts. If the results for the single facts exceed the limits of `Found.records`, those with the best
 * ranks are kept.
 */
export const find = (
  store: MemoryStore.Service,
  viewer: Viewer.Any,
  { now, paced, queries, scope, topK, trust, typed }: Wanted
): Effect.Effect<Found, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const failures = new Map<string, SearchResult["failures"][number]>()
    const filter = { ...exactly(scope), asOf: now }
    const asker = yield* narrowed(viewer, scope)
    const isSentence = (record: MemoryRecord) =>
      !typed.has(record.kind) && record.source.origin !== "instructions" && !isExpired(record, now)
    const isOpen = (record: MemoryRecord) => isSentence(record) && record.source.trust >= trust
    const repeated = new Map<MemoryId, MemoryRecord>()

    /** Finds the `topK` best memories that one fact may change. If a search finds too few, the limit is raised, up to 1,000. */
    const best = (
      { embedding, text }: Query,
      limit = topK
    ): Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError.MemoryError> =>
      Effect.gen(function*() {
        const query = { text: text.slice(0, maxQueryLength), ...(embedding && { embedding }), ...filter, limit }
        const { failures: failed, hits, leftOut } = yield* store.search(asker, query)
        yield* paced(8 * (hits.length + leftOut.limit + leftOut.folded))
        for (const failure of failed) failures.set(failure.leg, failure)
        const records = hits.map(({ record }) => record).filter(isSentence)
        for (const record of records) {
          if (!isOpen(record) && collapseSpace(text) === collapseSpace(embeddingText(record))) {
            repeated.set(record.id, record)
          }
        }
        const open = records.filter(isOpen).slice(0, topK)
        if (open.length === topK || leftOut.limit === 0 || limit === maxMemories) return open
        return yield* best({ text, embedding }, Math.min(limit * 10, maxMemories))
      })

    const lists: Array<ReadonlyArray<MemoryRecord>> = []
    for (const query of queries) lists.push(yield* best(query))
    const { all, take } = collector()
    for (let rank = 0; rank < topK; rank++) {
      for (const list of lists) take(list[rank])
      yield* paced(8 * lists.length)
    }
    if (all.size < topK) {
      const { items } = yield* store.list(asker, { ...filter, limit: 100 })
      for (const record of items.filter(isOpen)) if (all.size < topK) take(record)
    }
    const found = new Map<MemoryId, MemoryRecord>()
    for (const list of [...lists, Array.from(all.values())]) {
      for (const record of list) if (all.has(record.id)) found.set(record.id, record)
      yield* paced(8 * list.length)
    }
    return {
      records: Array.from(found.values()),
      repeated: Array.from(repeated.values()),
      failures: Array.from(failures.values())
    }
  })

/**
 * Returns a viewer for a search in the scope. This viewer sees all records of the scope. It sees only records that the given viewer also
 * sees, and usually far fewer. So the search costs less, and its document frequencies count fewer records. Returns the given viewer if it
 * is `System`, has reach `exact`, or does not see the scope.
 */
const narrowed = (
  viewer: Viewer.Any,
  scope: MemoryScope.MemoryScope
): Effect.Effect<Viewer.Any, MemoryError.MemoryError> =>
  Viewer.isSystem(viewer) || viewer.reach === "exact" || !Viewer.sees(viewer, scope)
    ? Effect.succeed(viewer)
    : Viewer.decode({
      ...(scope !== MemoryScope.Global && scope),
      tenant: viewer.tenant,
      // reach `within` stays, since reach `exact` would also show broader scopes, which the given viewer does not see
      reach: viewer.reach === "within" ? "within" : "exact"
    })

/**
 * Makes a collection of at most 1,000 different records, with at most 262,144 characters together. `take` adds a record if there is room.
 * The caller adds the best match of every fact first, then the second-best matches, and so on.
 */
const collector = () => {
  const all = new Map<MemoryId, MemoryRecord>()
  const seen = new Set<MemoryId>()
  let room = maxCharacters
  return {
    all,
    take: (record: MemoryRecord | undefined): void => {
      if (record === undefined || seen.has(record.id) || all.size === maxMemories) return
      seen.add(record.id)
      const { length } = embeddingText(record)
      if (length > room) return
      room -= length
      all.set(record.id, record)
    }
  }
}

/** Fails with `conflict` if one of the records was changed since it was read. */
export const requireUnchanged = (
  store: MemoryStore.Service,
  viewer: Viewer.Any,
  records: ReadonlyArray<MemoryRecord>
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const current = yield* store.get(viewer, records.map(({ id }) => id))
    for (const [i, { id, revision: expected }] of records.entries()) {
      const actual = Option.match(current[i]!, { onNone: () => 0, onSome: ({ revision }) => revision }) // `get` returns one result per id
      if (actual !== expected) {
        const message = `expected revision ${expected}, found ${actual}`
        return yield* MemoryError.make("conflict", { op: "remember", id, message, detail: { expected, actual } })
      }
    }
  })

/** Largest number of related memories of all facts together, and largest limit of one search. */
const maxMemories = 1_000
/** Greatest length of a search text, in UTF-16 units. The rest of a longer fact is not searched for. */
const maxQueryLength = 1_024

/** Returns the filter for records of exactly this scope, without messages stored word for word. */
const exactly = (scope: MemoryScope.MemoryScope): Pick<MemoryFilter, "scope" | "where"> => ({
  scope,
  where: {
    [`metadata.${turnMark}`]: { exists: false },
    ...(scope !== MemoryScope.Global && MemoryScope.notNarrower(scope))
  }
})

/*
 * The vectors of facts are computed once per run, and are used to search for related memories. If a fact is written unchanged, its vector
 * is also stored. If vectors cannot be computed, the run searches by words only, and reports a failure named `vector`.
 */

/** A value, and the failures that occurred while it was computed. */
export interface Outcome<A> {
  readonly value: A
  readonly failures: ReadonlyArray<Failure>
}

/** Computes and stores the vectors of one run's facts. */
export interface FactVectors {
  /** Computes a vector for each fact. The keys of the map are the texts of the facts in Unicode form NFC. */
  readonly of: (
    facts: ReadonlyArray<Fact>,
    paced: EventLoop.Pacer
  ) => Effect.Effect<Outcome<EmbeddingSync.VectorsByText>>
  /** Stores the vectors of added and reworded records. Computes the vectors that `known` lacks, and returns their number. */
  readonly keep: (
    tenant: string,
    mutations: ReadonlyArray<MemoryMutation>,
    applied: ReadonlyArray<Applied>,
    known: EmbeddingSync.VectorsByText,
    paced: EventLoop.Pacer
  ) => Effect.Effect<Outcome<number>>
}

/** Makes the `FactVectors`. Its methods do nothing if there is no embedding model, or no store for vectors. */
export const makeVectors = (embedding: EmbeddingSync.EmbeddingSync): FactVectors =>
  embedding.active ? madeBy(embedding) : noVectors

const noVectors: FactVectors = {
  of: () => Effect.succeed({ value: new Map(), failures: [] }),
  keep: () => Effect.succeed({ value: 0, failures: [] })
}

const madeBy = (embedding: EmbeddingSync.EmbeddingSync): FactVectors => ({
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
        record && isMeant(mutations[i]!, outcome) ? [record] : [] // `applied` has one result per mutation
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

/** Largest number of UTF-16 units that are embedded in one call. A longer text is embedded in a call of its own. */
const portion = 32_768

/** Splits items into groups of consecutive items. A group has at most `portion` UTF-16 units. A longer item is a group of its own. */
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
