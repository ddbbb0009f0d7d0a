/**
 * Compaction erases expired records and old tombstones. A tombstone is the row of a forgotten record. The trash consists of all tombstones.
 * The class `Texts` finds orphaned vectors, that is, vectors whose text no record has any more.
 *
 * Laws: Compaction erases a tombstone that is older than the store's option `trash`. An expired record is erased whatever the value of
 * `trash` is. A viewer can restore every forgotten record that `list` shows to the viewer:
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryStore, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* MemoryStore.MemoryStore
 *   yield* store.put(ada, [{ scope: { userId: "ada" }, kind: "reference", body: "The key lies under the mat." }])
 *   const { items } = yield* store.list(ada, {})
 *   yield* store.forget(ada, items.map(({ id }) => id))
 *
 *   const trash = yield* store.list(ada, { forgotten: true })
 *   yield* store.apply(ada, trash.items.map(({ id, revision }) => ({ _tag: "Restore", id, revision })))
 *   return (yield* store.list(ada, {})).items.map(({ body }) => body)
 * })
 *
 * const restored = await program.pipe(Effect.provide(MemoryStore.layerInMemory), Effect.runPromise)
 *
 * restored // => ["The key lies under the mat."]
 * ```
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../domain/MemoryError.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import { embeddingText, hashOf, isExpired, type MemoryRecord } from "../../domain/MemoryRecord.ts"
import { isInternal } from "../../domain/MemoryScope.ts"
import type { Embeddings } from "../../ranking/VectorIndex.ts"
import { erasableAt, type Lifetime, lifetimeOf } from "../Revision.ts"
import type { Decision, Due, Engine, Found, Stored, Unembedded, Write } from "./EngineContract.ts"

/** Number of rows that are read and erased in one batch. */
const batchSize = 1_000

/** The result of a compaction. */
export interface Compacted {
  /** Number of rows that were erased. */
  readonly count: number
  /** Time from which the next row may be erased, in epoch milliseconds; `Infinity` if there is no such row. */
  readonly nextExpiry: number
}

/**
 * Erases expired records and old tombstones. Then runs the engine's `vectors.prune`, which erases vectors of texts that no record has any
 * more. Asks the engine for the rows that can be erased, and for at most `batchSize` other rows.
 */
export const compact = (
  engine: Pick<Engine, "due" | "transact" | "vectors">
): Effect.Effect<Compacted, MemoryError> =>
  Effect.gen(function*() {
    let count = 0
    let last: Due | undefined
    let nextExpiry: number | undefined
    while (nextExpiry === undefined) {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* engine.due(last, batchSize)
      const dueNow = rows.filter(({ at }) => at <= now)
      count += yield* erase(engine, dueNow)
      last = dueNow.at(-1)
      if (dueNow.length < batchSize) nextExpiry = rows[dueNow.length]?.at ?? Infinity
    }
    if (engine.vectors?.prune) yield* engine.vectors.prune
    return { count, nextExpiry }
  })

/** Erases rows, in one transaction per tenant. Rows that have changed meanwhile are skipped. Returns the number of erased rows. */
const erase = (engine: Pick<Engine, "transact">, rows: ReadonlyArray<Due>): Effect.Effect<number, MemoryError> =>
  Effect.gen(function*() {
    let count = 0
    const tenants = new Map<string, Array<Due>>()
    for (const row of rows) {
      const others = tenants.get(row.tenant)
      if (others) others.push(row)
      else tenants.set(row.tenant, [row])
    }
    for (const [tenant, due] of tenants) {
      const needs = { ids: due.map(({ id }) => id), dedupeKeys: [], revisions: [] }
      count += yield* engine.transact(tenant, needs, (found) => Either.right(decided(due, found)))
    }
    return count
  })

/** Returns the decision to erase those rows of `due` that have not changed since `due` was read. */
const decided = (due: ReadonlyArray<Due>, { now, rows }: Found): Decision<number> => {
  const writes = due.flatMap(({ id, revision }): ReadonlyArray<Write> => {
    const row = rows.get(id)
    const isUnchanged = row?.record.revision === revision && (row.forgotten || isExpired(row.record, now))
    return isUnchanged ? [{ id, next: undefined }] : []
  })
  return { writes, answer: writes.length, isQuiet: true }
}

/** Orders rows by the time `at`, then by tenant, then by id. */
export const byTime = (a: Due, b: Due): number => a.at - b.at || compare(a.tenant, b.tenant) || compare(a.id, b.id)

const compare = (a: string, b: string): number => a < b ? -1 : a > b ? 1 : 0

/** Returns up to `limit` rows of `sorted` that follow the row `after`. `sorted` must be in the order of `byTime`. */
export const dueAfter = (sorted: ReadonlyArray<Due>, after: Due | undefined, limit: number): ReadonlyArray<Due> => {
  const from = after === undefined ? 0 : sorted.findIndex((row) => byTime(row, after) > 0)
  return from < 0 ? [] : sorted.slice(from, from + limit)
}

/**
 * A heap of rows, ordered by the time from which a row may be erased. A row that changes becomes outdated, but stays in the heap at first.
 * `next` removes outdated rows at the top of the heap. `add` removes all outdated rows when the heap has become large.
 */
export interface DueQueue {
  /** Adds a row. Cost on average: logarithmic in the size of the heap. */
  readonly add: (row: Due) => void
  /** Returns at most `limit` rows that follow the row `after`, in order. Also visits all rows before these. */
  readonly next: (after: Due | undefined, limit: number) => ReadonlyArray<Due>
}

/** Makes an empty queue. `isCurrent` returns whether a row is unchanged since it was added. */
export const makeDueQueue = (isCurrent: (row: Due) => boolean): DueQueue => {
  let heap: Array<Due> = []
  /** Size of the heap at which `add` removes the rows that have changed since they were added. */
  let full = 1_024

  const swap = (i: number, j: number) => {
    const row = heap[i]!
    heap[i] = heap[j]!
    heap[j] = row
  }
  const up = (from: number) => {
    let at = from
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (byTime(heap[at]!, heap[parent]!) >= 0) return
      swap(at, parent)
      at = parent
    }
  }
  const down = () => {
    let at = 0
    for (;;) {
      let smallest = at
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < heap.length && byTime(heap[child]!, heap[smallest]!) < 0) smallest = child
      }
      if (smallest === at) return
      swap(at, smallest)
      at = smallest
    }
  }
  const add = (row: Due) => {
    heap.push(row)
    up(heap.length - 1)
  }
  const pop = (): Due | undefined => {
    const first = heap[0]
    const last = heap.pop()
    if (first === undefined || last === undefined || heap.length === 0) return first
    heap[0] = last
    down()
    return first
  }

  return {
    add(row) {
      if (heap.length >= full) {
        heap = heap.filter(isCurrent).sort(byTime) // a sorted array is a valid heap
        full = 1_024 + 2 * heap.length
      }
      add(row)
    },
    next(after, limit) {
      const seen: Array<Due> = []
      const found: Array<Due> = []
      while (found.length < limit) {
        const row = pop()
        if (row === undefined) break
        const last = seen.at(-1)
        if (!isCurrent(row) || (last && byTime(last, row) === 0)) continue // skips changed rows and duplicates
        seen.push(row)
        if (after === undefined || byTime(row, after) > 0) found.push(row)
      }
      for (const row of seen) add(row)
      return found
    }
  }
}

/**
 * Returns the lifetimes of all rows that expire and of all tombstones. A lifetime has the fields that determine when a row may be erased.
 *
 * Exception: a backend may report a record as forgotten although only the record's file is missing. Such a record must not be erased. Its
 * newest revision is not a tombstone. So `newest` reads the newest revision of each unexpired row that is reported as forgotten and is old
 * enough to be erased. If this revision is not a tombstone, the row is left out. `newest` is absent if the backend keeps no revisions.
 */
export const lifetimesOf = (
  rows: Stream.Stream<Stored, MemoryError>,
  trash: number,
  newest: ((id: MemoryId) => Effect.Effect<Stored | undefined, MemoryError>) | undefined
): Effect.Effect<ReadonlyArray<Lifetime>, MemoryError> =>
  Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    const all: Array<Lifetime> = []
    // rows are handled in chunks, because running an effect for each row is slow
    yield* Stream.runForEachChunk(rows, (chunk) =>
      Effect.sync(() => {
        for (const row of chunk) if (row.forgotten || row.record.expiresAt !== undefined) all.push(lifetimeOf(row))
      }))
    return yield* Effect.filter(all, (lifetime) => {
      const { expiresAt = Infinity, forgotten, id } = lifetime
      const isDoubtful = forgotten && expiresAt > now && erasableAt(lifetime, trash) <= now
      return isDoubtful && newest
        ? Effect.map(newest(id), (row) => row?.forgotten === true)
        : Effect.succeed(true)
    })
  })

/** The progress of a search through a tenant's texts. The search finds the texts that have no vector of a certain model. */
interface TextsToCheck {
  /** Iterates over the hashes of texts that were not checked yet. Texts that are added meanwhile are included. */
  readonly rest: Iterator<string>
  /** Hashes of texts to check again: those without a vector at the last check, and those added after this object was made. */
  readonly seen: Set<string>
  /**
   * Value of the counter `Embeddings.removals` when this object was made. If `Embeddings.retain` removes vectors later, the value of the
   * counter differs, and a new object replaces this one. `Texts.erase` does not change the counter.
   */
  readonly removals: number
}

/**
 * The texts of a tenant's records, by hash. Finds the texts that have no vector. Also finds orphaned vectors, that is, vectors whose text
 * no record has any more. Leaves out the library's own records (scope `Internal`), which have no vectors.
 */
export class Texts {
  readonly #embeddings: Embeddings
  readonly #recordsByHash = new Map<string, MemoryRecord | Set<MemoryRecord>>()
  readonly #orphans: Set<string>
  readonly #toCheckByModel = new Map<string, TextsToCheck>()

  /** Makes a table without texts. A vector counts as orphaned until a record with its text is added. */
  constructor(embeddings: Embeddings) {
    this.#embeddings = embeddings
    this.#orphans = new Set(embeddings.models.flatMap((model) => Array.from(embeddings.all(model), ([hash]) => hash)))
  }

  /** Whether any record has the text with this hash. */
  has(hash: string): boolean {
    return this.#recordsByHash.has(hash)
  }

  /**
   * Whether a model has more than twice as many vectors (`vectors`) as there are texts. More than half of the vectors are then orphaned: no
   * record has their text any more.
   */
  hasManyOrphans(vectors: number): boolean {
    return vectors > 2 * this.#recordsByHash.size
  }

  /** Adds the text of a record. Returns the work done, in units of a `Pacer` (0.1 µs). */
  add(record: MemoryRecord): number {
    if (isInternal(record.scope)) return 0
    const hash = hashOf(record)
    const records = this.#recordsByHash.get(hash)
    if (records instanceof Set) records.add(record)
    else this.#recordsByHash.set(hash, records === undefined ? record : new Set([records, record]))
    if (records === undefined) {
      this.#orphans.delete(hash)
      for (const { seen } of this.#toCheckByModel.values()) seen.add(hash)
    }
    return perText + record.body.length
  }

  /** Removes a record that was added. */
  remove(record: MemoryRecord): void {
    if (isInternal(record.scope)) return
    const hash = hashOf(record)
    const records = this.#recordsByHash.get(hash)
    if (records instanceof Set && records.delete(record) && records.size > 0) return
    this.#recordsByHash.delete(hash)
    for (const { seen } of this.#toCheckByModel.values()) seen.delete(hash)
    if (this.#embeddings.has(hash)) this.#orphans.add(hash)
  }

  /** Registers new vectors, given the hashes of their texts. A vector counts as orphaned if no record has its text. */
  attached(hashes: Iterable<string>): void {
    for (const hash of hashes) if (!this.#recordsByHash.has(hash)) this.#orphans.add(hash)
  }

  /** Erases the orphaned vectors. Cost: proportional to the number of orphaned vectors. */
  erase(): void {
    this.#embeddings.drop(this.#orphans)
    this.#orphans.clear()
  }

  /**
   * Returns up to `limit` texts that have no vector of the model, each text once. Skips texts that only expired records have. After a
   * call has found that a text has a vector, later calls do not visit the text again, unless vectors are removed.
   */
  pending(model: string, limit: number, now: number): ReadonlyArray<Unembedded> {
    const found: Array<Unembedded> = []
    const addUnlessExpired = (hash: string) => {
      const records = this.#recordsByHash.get(hash)!
      const live = (records instanceof Set ? Array.from(records) : [records]).find((record) => !isExpired(record, now))
      if (live !== undefined) found.push({ hash, text: embeddingText(live) })
    }
    const { rest, seen } = this.#textsToCheck(model)
    for (const hash of seen) {
      if (found.length >= limit) return found
      if (this.#embeddings.get(model, hash) === undefined) addUnlessExpired(hash)
      else seen.delete(hash)
    }
    while (found.length < limit) {
      const { done, value: hash } = rest.next()
      if (done === true) break
      if (seen.has(hash) || this.#embeddings.get(model, hash) !== undefined) continue
      seen.add(hash)
      addUnlessExpired(hash)
    }
    return found
  }

  #textsToCheck(model: string): TextsToCheck {
    const { removals } = this.#embeddings
    const known = this.#toCheckByModel.get(model)
    if (known?.removals === removals) return known
    const made = { rest: this.#recordsByHash.keys(), seen: new Set<string>(), removals }
    // the progress is not stored for a model without vectors, since callers could invent any number of model names
    if (this.#embeddings.dimensions(model) === undefined) this.#toCheckByModel.delete(model)
    else this.#toCheckByModel.set(model, made)
    return made
  }
}

/** Fixed cost of hashing a text, in units of a `Pacer` (0.1 µs). The text's length is added to it. */
const perText = 32
