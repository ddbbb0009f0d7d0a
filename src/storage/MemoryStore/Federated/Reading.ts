/** What a federation answers of all its stores together: hits, pages, neighbours. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { Absence, MemoryFilter, MemoryQuery, Page } from "../../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { byRecency, isExpired, isValidAt, type MemoryRecord, recencyOf } from "../../../domain/MemoryRecord.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import * as Cursor from "../../../ranking/Cursor.ts"
import { defaultLimit } from "../../../ranking/MemoryIndex.ts"
import * as Calls from "../../Calls.ts"
import { check } from "../../Check.ts"
import { Query } from "../../internal/Reads.ts"
import * as Links from "../../Links.ts"
import * as Members from "./Members.ts"
import * as Merging from "./Merging.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** All at once; `limitOf` says how many each may give. Fails where every store did. */
export const search = (
  members: Members.Members,
  viewer: Viewer.Any,
  query: MemoryQuery,
  limitOf: (member: Members.Member) => number
): Io<Merging.Merged> =>
  Effect.gen(function*() {
    yield* check("search", Query, query)
    const asked = yield* Effect.forEach(
      members,
      (member) =>
        Effect.map(
          Effect.either(
            MemoryError.mortal("search")(
              member.store.search(viewer, { ...query, limit: limitOf(member), budget: undefined })
            )
          ),
          (result) => ({ member, result })
        ),
      { concurrency: "unbounded" }
    )
    const failed = asked.flatMap(({ member, result }) =>
      Either.isLeft(result) ? [{ leg: member.name, error: result.left }] : []
    )
    const refused = failed.find(({ error }) => isRefusal(error))
    if (refused) return yield* refused.error
    if (failed.length === members.length) return yield* none("search", failed)
    const answered = asked.flatMap(({ member, result }) =>
      Either.isRight(result) ? [{ member, result: result.right }] : []
    )
    const owner = yield* ownerIn(
      answered.map(({ member }) => member),
      viewer,
      answered.map(({ result }) => result.hits.map(({ record }) => record.id))
    )
    const { absent, result } = Merging.merge(
      answered.map(({ member, result }) => ({ store: member.name, isMirror: member.mirror !== undefined, result })),
      query,
      (id) => owner(id)?.name
    )
    return { absent, result: { ...result, failures: [...result.failures, ...failed] } }
  })

/** As the store says whose it is, or how it fared among the hits of all. */
export const whyNot = (
  members: Members.Members,
  viewer: Viewer.Any,
  id: MemoryId,
  query: MemoryQuery
): Io<Option.Option<Absence>> =>
  Effect.gen(function*() {
    const store = yield* Members.holder(members, viewer, id)
    const { limit = defaultLimit } = query
    const { absent, result } = yield* search(members, viewer, { ...query, limit }, () => limit)
    const own = yield* store.whyNot(viewer, id, { ...query, budget: undefined })
    if (result.hits.some(({ record }) => record.id === id)) return Option.none()
    return Option.orElse(own, () => Option.fromNullable(absent.get(id)))
  })

/**
 * A page of all, by recency: each store goes on from one place, which is what a cursor of ours says. Cost: a page of each,
 * and another where copies took the room. Fails where any does, which is not to be taken for absence. A viewer is shown the
 * trash of the stores that take writes: nothing else can be restored here.
 */
export const list = (
  members: Members.Members,
  viewer: Viewer.Any,
  filter: MemoryFilter
): Io<Page<MemoryRecord>> =>
  Effect.gen(function*() {
    const { limit = defaultLimit } = filter
    const items: Array<MemoryRecord> = []
    const cursor = (last: MemoryRecord) => Cursor.make(viewer, filter, { id: last.id, recency: recencyOf(last) })
    for (let after = filter.after;;) {
      const pages = yield* Effect.forEach(members, ({ store }) => store.list(viewer, { ...filter, after }), {
        concurrency: "unbounded"
      })
      const owner = yield* ownerIn(members, viewer, pages.map(({ items }) => items.map(({ id }) => id)))
      const [end] = pages.flatMap((page) => page.next === undefined ? [] : page.items.slice(-1)).sort(byRecency)
      const isShown = ({ writable }: Members.Member) => filter.forgotten !== true || writable || Viewer.isSystem(viewer)
      const own = pages.flatMap(({ items }, n) =>
        isShown(members[n]!) ? items.filter(({ id }) => owner(id) === members[n]) : []
      )
      // beyond the end of one page there may be more of it that comes before
      items.push(...own.filter((record) => end === undefined || byRecency(record, end) <= 0).sort(byRecency))
      if (items.length > limit) return { items: items.slice(0, limit), next: cursor(items[limit - 1]!) }
      if (end === undefined) return { items }
      after = cursor(end)
    }
  })

export const stream = (
  members: Effect.Effect<Members.Members>,
  viewer: Viewer.Any,
  filter: MemoryFilter
): Stream.Stream<MemoryRecord, MemoryError.MemoryError> =>
  Calls.stream((viewer, filter) => Effect.flatMap(members, (all) => list(all, viewer, filter)), viewer, filter)

/** Where one store alone has anything to show, its own; else cost: reading all that the viewer sees. */
export const links = (
  members: Members.Members,
  viewer: Viewer.Any,
  id: MemoryId
): Io<Links.Neighbours> =>
  Effect.gen(function*() {
    const store = yield* Members.holder(members, viewer, id)
    const shelves = yield* Effect.filter(
      members,
      ({ store }) => Effect.map(store.list(viewer, { limit: 1 }), ({ items }) => items.length > 0),
      { concurrency: "unbounded" }
    )
    if (shelves.length <= 1) return yield* (shelves[0]?.store ?? store).links(viewer, id)
    const now = yield* Clock.currentTimeMillis
    const all = Links.make()
    yield* Stream.runForEach(
      stream(Effect.succeed(members), viewer, { limit: 1_000 }),
      (record) => Effect.sync(() => all.set(record.id, record))
    )
    return all.seen((record) => !isExpired(record, now) && isValidAt(record, now))(id)
  })

/** Of ids that each of them gave. What only the first gave is surely its own. */
const ownerIn = (
  members: Members.Members,
  viewer: Viewer.Any,
  ids: ReadonlyArray<ReadonlyArray<MemoryId>>
): Effect.Effect<(id: MemoryId) => Members.Member | undefined> => {
  const [firsts = [], ...others] = ids
  const first = new Set(firsts)
  const unclear = Array.from(new Set(others.flat())).filter((id) => !first.has(id))
  const givers = new Map(ids.flatMap((given, n) => given.map((id) => [id, members[n]] as const)))
  return Effect.map(
    Effect.all(unclear.length === 0 ? [] : [Members.find(members, viewer, unclear)]),
    ([held]) => (id) => first.has(id) ? members[0] : held?.(id).by ?? givers.get(id)
  )
}

/** What one store takes for no question is none: the others have nothing to hold against it. */
const isRefusal = ({ reason }: MemoryError.MemoryError): boolean =>
  reason === "invalid_draft" || reason === "invalid_id"

/** Where no store answered: the reason that they share, else `unavailable`. */
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
