/**
 * Queries over all stores of a federation: hits, pages, neighbours, vectors.
 *
 * The hits of several stores are merged into one list:
 *
 * ```text
 * hits of each store, scores 0..1  →  drop copies of other stores' records  →  sort by score, then newest first, then id
 *   →  drop near-duplicates of a better hit  →  limit  →  budget
 * ```
 *
 * The scores of a store are relative to its best hit, which has a score of about 1. So the hits of one store do not displace the hits of
 * all other stores. But the best hits of two stores rank equally, even if one of them matches the query far better. Exceptions: in mode
 * `vector`, the scores of a store are cosines. Weights such as `recency` add parts that are not relative to the best hit.
 */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { Absence, Hit, MemoryFilter, MemoryQuery, Page, SearchResult } from "../../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { byRecency, isExpired, isValidAt, type MemoryRecord } from "../../../domain/MemoryRecord.ts"
import { check } from "../../../domain/Validation.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import { defaultLimit, fitting } from "../../../ranking/MemoryIndex.ts"
import { saysTheSame } from "../../../ranking/NearDuplicate.ts"
import * as Retrieval from "../../../ranking/Retrieval.ts"
import * as Links from "../../Links.ts"
import type * as Vectors from "../../Vectors.ts"
import { legal } from "../../Vectors.ts"
import { Query } from "../internal/Reads.ts"
import * as StoreRegistry from "./StoreRegistry.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Searches all members in parallel. Each returns at most `limitOf(member)` hits. Fails if the query is invalid or all members fail. */
export const search = (
  members: StoreRegistry.Members,
  viewer: Viewer.Any,
  query: MemoryQuery,
  limitOf: (member: StoreRegistry.Member) => number
): Io<Merged> =>
  Effect.gen(function*() {
    yield* check("search", Query, query)
    const outcomes = yield* Effect.forEach(
      members,
      (member) =>
        Effect.map(
          Effect.either(
            MemoryError.contain("search")(
              member.store.search(viewer, { ...query, limit: limitOf(member), budget: undefined })
            )
          ),
          (result) => ({ member, result })
        ),
      { concurrency: "unbounded" }
    )
    const failed = outcomes.flatMap(({ member, result }) =>
      Either.isLeft(result) ? [{ leg: member.name, error: result.left }] : []
    )
    const refused = failed.find(({ error }) => isRefusal(error))
    if (refused) return yield* refused.error
    if (failed.length === members.length) return yield* none("search", failed)
    const answered = outcomes.flatMap(({ member, result }) =>
      Either.isRight(result) ? [{ member, result: result.right }] : []
    )
    const owner = yield* ownerIn(
      answered.map(({ member }) => member),
      viewer,
      answered.map(({ result }) => result.hits.map(({ record }) => record.id))
    )
    const { absent, result } = merge(
      answered.map(({ member, result }) => ({ store: member.name, isMirror: member.mirror !== undefined, result })),
      query,
      (id) => owner(id)?.name
    )
    return { absent, result: { ...result, failures: [...result.failures, ...failed] } }
  })

/**
 * Returns why a record is not among the merged hits; `None` if it is. The reason comes from the store that the record belongs to. If the
 * record is a hit of that store, the reason is why merging removed it.
 */
export const whyNot = (
  members: StoreRegistry.Members,
  viewer: Viewer.Any,
  id: MemoryId,
  query: MemoryQuery
): Io<Option.Option<Absence>> =>
  Effect.gen(function*() {
    const store = yield* StoreRegistry.ownerStore(members, viewer, id)
    const { limit = defaultLimit } = query
    const { absent, result } = yield* search(members, viewer, { ...query, limit }, () => limit)
    const own = yield* store.whyNot(viewer, id, { ...query, budget: undefined })
    if (result.hits.some(({ record }) => record.id === id)) return Option.none()
    return Option.orElse(own, () => Option.fromNullable(absent.get(id)))
  })

/**
 * Returns a page of the records of all members, newest first. Every store continues from the same cursor. Fails if any member fails, since
 * its records would be missing. Cost: one or two pages of each store, and more if many of the records are copies. The trash contains only
 * records of writable stores, because the federation cannot restore others. The viewer `System` sees the trash of all stores.
 */
export const list = (
  members: StoreRegistry.Members,
  viewer: Viewer.Any,
  filter: MemoryFilter
): Io<Page<MemoryRecord>> =>
  Effect.gen(function*() {
    const { limit = defaultLimit } = filter
    const items: Array<MemoryRecord> = []
    const cursor = (last: MemoryRecord) => Retrieval.makeCursor(viewer, filter, Retrieval.positionOf(last))
    for (let after = filter.after;;) {
      const pages = yield* Effect.forEach(members, ({ store }) => store.list(viewer, { ...filter, after }), {
        concurrency: "unbounded"
      })
      const owner = yield* ownerIn(members, viewer, pages.map(({ items }) => items.map(({ id }) => id)))
      const [end] = pages.flatMap((page) => page.next === undefined ? [] : page.items.slice(-1)).sort(byRecency)
      const isShown = ({ writable }: StoreRegistry.Member) =>
        filter.forgotten !== true || writable || Viewer.isSystem(viewer)
      const own = pages.flatMap(({ items }, n) =>
        isShown(members[n]!) ? items.filter(({ id }) => owner(id) === members[n]) : []
      )
      // each page is complete only up to its last record. `end` is the newest last record of the pages that have a next page. Records after
      // `end` wait for the next round, since unread records may come before them
      items.push(...own.filter((record) => end === undefined || byRecency(record, end) <= 0).sort(byRecency))
      if (items.length > limit) return { items: items.slice(0, limit), next: cursor(items[limit - 1]!) }
      if (end === undefined) return { items }
      after = cursor(end)
    }
  })

/** Streams every page of `list`. Each page is read from the members that exist at that time. */
export const stream = (
  members: Effect.Effect<StoreRegistry.Members>,
  viewer: Viewer.Any,
  filter: MemoryFilter
): Stream.Stream<MemoryRecord, MemoryError.MemoryError> =>
  Stream.paginateChunkEffect(
    filter.after,
    (after) =>
      Effect.map(
        Effect.flatMap(members, (all) => list(all, viewer, { ...filter, after })),
        ({ items, next }) => [Chunk.fromIterable(items), Option.fromNullable(next)] as const
      )
  )

/**
 * Returns the neighbours of a record. Asks a single store if at most one store has records that the viewer sees. Otherwise reads these
 * records from all stores.
 */
export const links = (
  members: StoreRegistry.Members,
  viewer: Viewer.Any,
  id: MemoryId
): Io<Links.Neighbours> =>
  Effect.gen(function*() {
    const store = yield* StoreRegistry.ownerStore(members, viewer, id)
    const nonEmpty = yield* Effect.filter(
      members,
      ({ store }) => Effect.map(store.list(viewer, { limit: 1 }), ({ items }) => items.length > 0),
      { concurrency: "unbounded" }
    )
    if (nonEmpty.length <= 1) return yield* (nonEmpty[0]?.store ?? store).links(viewer, id)
    const now = yield* Clock.currentTimeMillis
    const all = Links.make()
    yield* Stream.runForEach(
      stream(Effect.succeed(members), viewer, { limit: 1_000 }),
      (record) => Effect.sync(() => all.set(record.id, record))
    )
    return all.seen((record) => !isExpired(record, now) && isValidAt(record, now))(id)
  })

/**
 * Returns a function that finds the member to which an id belongs. `ids[n]` are the ids that `members[n]` returned. Ids that the first
 * member returned belong to the first member. For other ids, all members are asked.
 */
const ownerIn = (
  members: StoreRegistry.Members,
  viewer: Viewer.Any,
  ids: ReadonlyArray<ReadonlyArray<MemoryId>>
): Effect.Effect<(id: MemoryId) => StoreRegistry.Member | undefined> => {
  const [firsts = [], ...others] = ids
  const first = new Set(firsts)
  const ambiguous = Array.from(new Set(others.flat())).filter((id) => !first.has(id))
  const returnedBy = new Map(ids.flatMap((returned, n) => returned.map((id) => [id, members[n]] as const)))
  return Effect.map(
    Effect.all(ambiguous.length === 0 ? [] : [StoreRegistry.findOwners(members, viewer, ambiguous)]),
    ([ownershipOf]) => (id) => first.has(id) ? members[0] : ownershipOf?.(id).owner ?? returnedBy.get(id)
  )
}

/** Whether an error means that a store refuses the query as invalid. The whole search then fails with this error. */
const isRefusal = ({ reason }: MemoryError.MemoryError): boolean =>
  reason === "invalid_draft" || reason === "invalid_id"

/** Returns the error of a query that no store answered. It is the first error if all reasons are equal, else `unavailable`. */
const none = (
  op: string,
  failures: ReadonlyArray<{ readonly leg: string; readonly error: MemoryError.MemoryError }>
): MemoryError.MemoryError => {
  const [first] = failures
  return first && failures.every(({ error }) => error.reason === first.error.reason)
    ? first.error
    : MemoryError.make("unavailable", {
      op,
      message: `no store answered: ${failures.map(({ error, leg }) => `${leg}: ${error.message}`).join("; ")}`
    })
}

/** The search result of one store. */
interface Answer {
  readonly store: string
  /** Whether the store is a mirror; most records of a mirror are copies. */
  readonly isMirror: boolean
  readonly result: SearchResult
}

/** The merged search result of all stores. */
interface Merged {
  readonly result: SearchResult
  /** The reason why merging removed a hit of a store, by the id of the hit's record. */
  readonly absent: ReadonlyMap<MemoryId, Absence>
}

/**
 * Merges the results of the stores. `ownerOf` returns the name of the store that a record belongs to. The `leftOut` counts of a store
 * include copies. So each count is multiplied by the fraction of the store's hits that are not copies. The counts of a mirror without hits
 * are ignored.
 */
const merge = (
  answers: ReadonlyArray<Answer>,
  query: MemoryQuery,
  ownerOf: (id: MemoryId) => string | undefined
): Merged => {
  const own = new Map<MemoryId, Hit>()
  const alsoIn = new Map<MemoryId, Set<string>>()
  const isAlsoIn = (id: MemoryId, store: string) => alsoIn.set(id, (alsoIn.get(id) ?? new Set()).add(store))
  const left = { limit: 0, budget: 0, folded: 0 }
  let awaiting: number | undefined
  let isExact = true

  for (const { isMirror, result, store } of answers) {
    const ours = result.hits.filter(({ record }) => ownerOf(record.id) === store)
    for (const hit of ours) own.set(hit.record.id, { ...hit, store })
    for (const { record } of result.hits) if (ownerOf(record.id) !== store) isAlsoIn(record.id, store)
    const part = result.hits.length > 0 ? ours.length / result.hits.length : isMirror ? 0 : 1
    left.limit += Math.round(part * result.leftOut.limit)
    if (result.leftOut.exact === false || (part < 1 && result.leftOut.limit > 0 && !(isMirror && part === 0))) {
      isExact = false // an estimate
    }
    left.folded += Math.round(part * result.leftOut.folded)
    if (result.awaiting !== undefined) awaiting = (awaiting ?? 0) + Math.round(part * result.awaiting)
  }

  const absent = new Map<MemoryId, Absence>()
  const distinct: Array<Hit> = []
  const isFolded = query.fold !== false &&
    (query.text !== undefined || (query.embedding !== undefined && query.mode !== "lexical"))
  for (const hit of Array.from(own.values()).sort((a, b) => b.score - a.score || byRecency(a.record, b.record))) {
    const { id } = hit.record
    // hits of the same store are not compared, since each store has already removed its own near-duplicates
    const better = isFolded &&
      distinct.find(({ record, store }) => store !== hit.store && saysTheSame(record, hit.record))
    if (!better) distinct.push(hit)
    else {
      absent.set(id, "folded")
      // every hit in `own` has a `store`
      for (const store of [hit.store!, ...alsoIn.get(id) ?? []]) isAlsoIn(better.record.id, store)
    }
  }
  left.folded += absent.size
  const sure = answers.flatMap(({ result: { confidence } }) => confidence === undefined ? [] : [confidence])
  const { limit = Infinity } = query
  const shown = distinct.slice(0, limit)
  const affordable = fitting(shown, query.budget)
  distinct.forEach(({ record }, n) => {
    if (n >= affordable) absent.set(record.id, n < limit ? "beyond_budget" : "beyond_limit")
  })
  left.limit += distinct.length - shown.length
  left.budget += shown.length - affordable

  return {
    absent,
    result: {
      hits: shown.slice(0, affordable).map((hit) => {
        const others = Array.from(alsoIn.get(hit.record.id) ?? []).filter((store) => store !== hit.store)
        return others.length > 0 ? { ...hit, alsoIn: others } : hit
      }),
      leftOut: {
        ...left,
        ...(!isExact && { exact: false as const })
      },
      ...(awaiting !== undefined && { awaiting }),
      ...(query.confidence === true && sure.length > 0 && { confidence: Math.max(...sure) }),
      failures: failuresOf(answers)
    }
  }
}

/**
 * Returns the failures of retrievers (the search by words, the search by vectors). A failure that all stores have is listed once. In any
 * other failure, `leg` is the name of the store, a dot, and the name of the retriever.
 */
const failuresOf = (answers: ReadonlyArray<Answer>): SearchResult["failures"] => {
  const all = answers.flatMap(({ result, store }) => result.failures.map((failure) => ({ ...failure, store })))
  const isShared = ({ error, leg }: SearchResult["failures"][number]) =>
    answers.every(({ result }) => result.failures.some((one) => one.leg === leg && one.error.reason === error.reason))
  return [
    ...(answers[0]?.result.failures ?? []).filter(isShared),
    ...all.filter((one) => !isShared(one)).map(({ error, leg, store }) => ({ leg: `${store}.${leg}`, error }))
  ]
}

/** Makes the federation's `Vectors` from those of its members. Each member keeps the vectors of its own records' texts. */
export const vectorsOf = (members: Effect.Effect<StoreRegistry.Members>): Vectors.Vectors => {
  const all = Effect.map(members, (members) => members.flatMap(({ store }) => Option.toArray(store.vectors)))
  const each = <A, E>(ask: (vectors: Vectors.Vectors) => Effect.Effect<A, E>) =>
    Effect.flatMap(all, (stores) => Effect.forEach(stores, ask, { concurrency: "unbounded" }))

  return {
    pending: (tenant, model, limit) =>
      Effect.map(
        each(({ pending }) => pending(tenant, model, limit)),
        (texts) => Array.from(new Map(texts.flat().map((text) => [text.hash, text])).values()).slice(0, limit)
      ),
    // each vector goes to the members that need it for a text. If no member needs it, it goes to the members that have it; else, the
    // vector goes to the first member
    attach: (tenant, model, vectors) =>
      Effect.gen(function*() {
        const given = Array.from(vectors)
        yield* legal(model, given)
        const stores = yield* all
        const waiting = yield* Effect.forEach(stores, ({ pending }) =>
          Effect.map(pending(tenant, model), (texts) => new Set(texts.map(({ hash }) => hash))))
        const others = given.map(([hash]) =>
          hash
        ).filter((hash) => !waiting.some((hashes) => hashes.has(hash)))
        const havingVector = yield* Effect.forEach(stores, ({ read }) =>
          Effect.map(read(tenant, model, others), (found) =>
            new Set(others.filter((_, n) => Option.isSome(found[n]!)))))
        for (const [n, { attach }] of stores.entries()) {
          const isElsewhere = (hash: string) =>
            [...waiting, ...havingVector].some((hashes) => hashes.has(hash))
          const own = given.filter(([hash]) =>
            waiting[n]!.has(hash) || havingVector[n]!.has(hash) || (n === 0 && !isElsewhere(hash))
          )
          if (own.length > 0) yield* attach(tenant, model, own)
        }
      }),
    models: (tenant) => Effect.map(each(({ models }) => models(tenant)), (found) => Array.from(new Set(found.flat()))),
    read: (tenant, model, hashes) =>
      Effect.map(
        each(({ read }) => read(tenant, model, hashes)),
        (found) =>
          hashes.map((_, n) =>
            found.reduce((first, vectors) => Option.orElse(first, () => vectors[n]!), Option.none<Float32Array>())
          )
      )
  }
}
