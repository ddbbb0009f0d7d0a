/** Tests the isolation test itself, which must detect each of these stores and agents: each lets a viewer notice other viewers. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import { Cursor, type SearchResult } from "../../src/domain/MemoryFilter.ts"
import type { MemoryId } from "../../src/domain/MemoryId.ts"
import { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import type * as Agent from "./Agent.ts"
import * as Attack from "./Attack.ts"
import { patience, short, sizes } from "./Sizes.ts"
import { everyone } from "./World.ts"

/** Makes a store in memory with some operations replaced. */
const broken = (breaks: (store: MemoryStore.Service) => Partial<MemoryStore.Service>) =>
  Layer.effect(
    MemoryStore.MemoryStore,
    Effect.map(MemoryStore.MemoryStore, (store) => ({ ...store, ...breaks(store) }))
  ).pipe(Layer.provide(MemoryStore.layerInMemory))

/** Returns a viewer who sees the records of all users of the tenant, whatever their scope. */
const all = (viewer: Viewer.Any) => Viewer.isSystem(viewer) ? viewer : everyone(viewer.tenant)
const searching = (
  change: (mine: SearchResult, everybodys: SearchResult) => SearchResult,
  isMeant: (query: Parameters<MemoryStore.Service["search"]>[1]) => boolean = () => true
) =>
  broken((store) => ({
    search: (viewer, query) =>
      isMeant(query)
        ? Effect.zipWith(
          store.search(viewer, query),
          store.search(all(viewer), { ...query, limit: 1_000, budget: undefined }),
          change
        )
        : store.search(viewer, query)
  }))
const sizeOf = (store: MemoryStore.Service, viewer: Viewer.Any) => Stream.runCount(store.stream(all(viewer), {}))
const isForeign = (store: MemoryStore.Service, viewer: Viewer.Any, id: MemoryId) =>
  Effect.map(
    store.get(Viewer.system(viewer.tenant), [id]),
    ([record]) => Option.isSome(record!) && !Viewer.sees(viewer, record.value.scope)
  )
const foreignIsSaid = (store: MemoryStore.Service, viewer: Viewer.Any, id: MemoryId, op: string) =>
  Effect.flatMap(
    isForeign(store, viewer, id),
    (said) => said ? MemoryError.make("not_owned", { op, id, message: "this record is somebody else's" }) : Effect.void
  )

const mutants: Readonly<Record<string, ReturnType<typeof broken>>> = {
  "scores depend on the words of invisible records": searching((mine, { hits }) => ({
    ...mine,
    hits: mine.hits.map((hit) => hits.find(({ record }) => record.id === hit.record.id) ?? hit)
  }), ({ text }) => text !== undefined),
  "scores are divided by the number of hits of all viewers": searching((mine, { hits }) => ({
    ...mine,
    hits: mine.hits.map((hit) => ({ ...hit, score: Math.min(1, hit.score / Math.max(hits.length, 1)) }))
  })),
  "`search` applies the limit before the viewer check": broken((store) => ({
    search: (viewer, query) =>
      Effect.map(store.search(all(viewer), query), (result) => ({
        ...result,
        hits: result.hits.filter(({ record }) => Viewer.sees(viewer, record.scope))
      }))
  })),
  "a search by vector applies the limit before the viewer check": broken((store) => ({
    search: (viewer, query) =>
      query.embedding === undefined
        ? store.search(viewer, query)
        : Effect.map(store.search(all(viewer), query), (result) => ({
          ...result,
          hits: result.hits.filter(({ record }) => Viewer.sees(viewer, record.scope))
        }))
  })),
  "`leftOut` counts invisible hits": searching((mine, { hits }) => ({
    ...mine,
    leftOut: {
      ...mine.leftOut,
      limit: mine.leftOut.limit + Math.max(0, hits.length - mine.hits.length - mine.leftOut.limit)
    }
  })),
  "the field `awaiting` of a search result counts invisible records": searching((mine, { awaiting }) => ({
    ...mine,
    ...(mine.awaiting !== undefined && { awaiting: awaiting ?? 0 })
  })),
  "leftOut.folded counts invisible near-duplicates": searching((mine, { leftOut }) => ({
    ...mine,
    leftOut: { ...mine.leftOut, folded: leftOut.folded }
  })),
  "an update of an invisible record fails with `not_owned`": broken((store) => ({
    update: (viewer, id, patch, options) =>
      Effect.zipRight(foreignIsSaid(store, viewer, id, "update"), store.update(viewer, id, patch, options))
  })),
  "a forget of an invisible record fails": broken((store) => ({
    forget: (viewer, ids, options) =>
      Effect.zipRight(
        Effect.forEach(ids, (id) => foreignIsSaid(store, viewer, id, "forget")),
        store.forget(viewer, ids, options)
      )
  })),
  "an error contains the number of records in the tenant": broken((store) => ({
    update: (viewer, id, patch, options) =>
      store.update(viewer, id, patch, options).pipe(
        MemoryError.catchReason("not_found", (error) =>
          Effect.flatMap(sizeOf(store, viewer), (size) =>
            MemoryError.make("not_found", { op: error.op, id, message: `none of ${size} records` })))
      )
  })),
  "a conflict contains the revision of an invisible record": broken((store) => ({
    apply: (viewer, mutations, provenance) =>
      Effect.gen(function*() {
        for (const mutation of mutations) {
          if (mutation._tag === "Put" || mutation.ifRevision === undefined) continue
          const [held] = yield* store.get(all(viewer), [mutation.id])
          if (Option.isSome(held!) && held.value.revision !== mutation.ifRevision) {
            const detail = { expected: mutation.ifRevision, actual: held.value.revision }
            return yield* MemoryError.make("conflict", { op: "apply", id: mutation.id, message: "moved", detail })
          }
        }
        return yield* store.apply(viewer, mutations, provenance)
      })
  })),
  "the error for an id in use names its owner": broken((store) => ({
    put: (viewer, drafts, options) =>
      store.put(viewer, drafts, options).pipe(
        MemoryError.catchReason("invalid_id", ({ id, op }) =>
          MemoryError.make("invalid_id", { op, ...(id && { id }), message: "this id is bob's" }))
      )
  })),
  "the list of forgotten records contains invisible ones": broken((store) => ({
    list: (viewer, filter) => store.list(filter.forgotten === true ? all(viewer) : viewer, filter)
  })),
  "the last page has a cursor if invisible records follow": broken((store) => ({
    list: (viewer, filter) =>
      Effect.zipWith(store.list(viewer, filter), store.list(all(viewer), filter), (mine, everybodys) => ({
        ...mine,
        ...(everybodys.next !== undefined && { next: mine.next ?? everybodys.next })
      })).pipe(Effect.catchAll(() => store.list(viewer, filter)))
  })),
  "cursors of other viewers are accepted": broken((store) => ({
    list: (viewer, filter) =>
      store.list(viewer, filter).pipe(
        MemoryError.catchReason("invalid_draft", (error) =>
          filter.after === undefined ? error : Effect.flatMap(
            store.get(Viewer.system(viewer.tenant), [filter.after.split("-")[1] as MemoryId]), // a cursor contains the id of its record
            ([place]) => Option.isSome(place!) ? store.list(viewer, { ...filter, after: undefined }) : error
          ))
      )
  })),
  "cursors contain the number of records of all viewers": broken((store) => ({
    list: (viewer, filter) =>
      Effect.zipWith(store.list(viewer, filter), sizeOf(store, viewer), ({ next, ...page }, size) => ({
        ...page,
        ...(next !== undefined && { next: Cursor.make(`${size}.${next}`) })
      }))
  })),
  "`changes` emits writes of invisible records": broken((store) => ({
    changes: (viewer) => store.changes(all(viewer))
  })),
  "`changes` emits Forgotten for an invisible record": broken((store) => ({
    changes: (viewer) =>
      Stream.merge(
        store.changes(viewer),
        Stream.filter(store.changes(all(viewer)), ({ _tag }) => _tag === "Forgotten")
      )
  })),
  "uses are counted for all viewers together": broken((store) => {
    let touched = 0
    return {
      touch: (viewer, ids) =>
        Effect.tap(store.touch(viewer, ids), () => Effect.sync(() => void (touched += ids.length))),
      uses: (viewer, ids) =>
        Effect.map(
          store.uses(viewer, ids),
          (uses) => uses.map((use) => use.count === 0 ? use : { ...use, count: touched })
        )
    }
  }),
  "`get` ignores the tenant": broken((store) => ({
    get: (viewer, ids) =>
      Effect.gen(function*() {
        const found = [...yield* store.get(viewer, ids)]
        for (const tenant of yield* store.tenants) {
          const others = yield* store.get(
            Viewer.isSystem(viewer) ? Viewer.system(tenant) : new Viewer.Viewer({ ...viewer, tenant }),
            ids
          )
          others.forEach((other, n) => void (found[n] = Option.orElse(found[n]!, () => other)))
        }
        return found
      })
  })),
  "`history` returns an invisible record": broken((store) => ({
    history: (viewer, id, limit) => store.history(all(viewer), id, limit)
  })),
  "`whyNot` distinguishes an invisible record from an absent one": broken((store) => ({
    whyNot: (viewer, id, query) => store.whyNot(all(viewer), id, query)
  })),
  "`links` returns invisible records": broken((store) => ({ links: (viewer, id) => store.links(all(viewer), id) })),
  "a [[wikilink]] resolves to an invisible record": broken((store) => ({
    links: (viewer, id) =>
      Effect.gen(function*() {
        const { from, to } = yield* store.links(all(viewer), id)
        const near = [id, ...from.map(({ id }) => id), ...to.map(({ id }) => id)]
        const visible = yield* store.get(viewer, near)
        const ids = visible.flatMap((record) => Option.isSome(record) ? [record.value.id] : [])
        return {
          to: to.filter((link) => ids.includes(id) && ids.includes(link.id)),
          from: from.filter((link) => ids.includes(id) && ids.includes(link.id))
        }
      })
  })),
  "`put` deduplicates against invisible records": broken((store) => ({
    put: (viewer, drafts, options) =>
      Effect.gen(function*() {
        const [draft] = drafts
        const { items } = yield* store.list(all(viewer), { limit: 1_000 })
        const equal = items.find(({ body, kind }) => body === draft?.body && kind === draft.kind && kind === "user")
        if (drafts.length !== 1 || draft?.id || !equal || Viewer.sees(viewer, equal.scope)) {
          return yield* store.put(viewer, drafts, options)
        }
        return [{ record: equal, outcome: "duplicate" }]
      })
  })),
  "a write changes the time of equal records in other scopes": broken((store) => ({
    get: (viewer, ids) =>
      Effect.gen(function*() {
        const { items } = yield* store.list(all(viewer), { limit: 1 })
        const [latest] = items
        return (yield* store.get(viewer, ids)).map(Option.map((record) =>
          latest && latest.body === record.body
            ? new MemoryRecord({ ...record, updatedAt: latest.updatedAt ?? latest.createdAt }, {
              disableValidation: true
            })
            : record
        ))
      })
  })),
  "`forget` removes the record with the given id in every tenant": broken((store) => ({
    forget: (viewer, ids, options) =>
      Effect.tap(
        store.forget(viewer, ids, options),
        () =>
          Effect.flatMap(store.tenants, Effect.forEach((tenant) => store.forget(Viewer.system(tenant), ids, options)))
      )
  }))
}

/** Changes of an agent, by name. Each makes the events or one sort of answer depend on calls of other viewers. */
const agents: Readonly<Record<string, (agent: Agent.Agent) => Agent.Agent>> = {
  "an event names the last viewer that called": (agent) => {
    let last: Viewer.Viewer | undefined
    return {
      ask: (viewer, call, id) =>
        Effect.suspend(() => {
          last = viewer
          return agent.ask(viewer, call, id)
        }),
      events: Stream.map(
        agent.events,
        (event) => event.viewer === null ? event : { ...event, viewer: last ?? event.viewer }
      )
    }
  },
  "the write limit counts the writes of all viewers": (agent) => {
    let writes = 0
    const turns = new Map<string, number>()
    return {
      ...agent,
      ask: (viewer, call, id) =>
        Effect.suspend(() => {
          const run = JSON.stringify(viewer)
          if (call.ask === "turn" || !turns.has(run)) turns.set(run, writes)
          const isWrite = call.ask === "tool" && ["memory_append", "add_memory", "remember"].includes(call.tool)
          return isWrite && ++writes > 2 + turns.get(run)!
            ? MemoryError.make("rate_limited", { op: "tool", message: "wait", detail: { retryAfter: null } })
            : agent.ask(viewer, call, id)
        })
    }
  },
  "the memory index in the prompt counts the memories of all viewers": (agent) => {
    let appended = 0
    return {
      ...agent,
      ask: (viewer, call, id) =>
        Effect.map(agent.ask(viewer, call, id), (answer) => {
          if (call.ask === "tool" && call.tool === "memory_append") appended++
          return call.ask === "index" ? { answer, appended } : answer
        })
    }
  }
}
/** Stores, each of which reveals records of other viewers, or that they exist, to the agent above it. */
const below: Readonly<Record<string, ReturnType<typeof broken>>> = {
  "the memory index in the prompt and the tool `memory_view` show invisible records": broken((store) => ({
    list: (viewer, filter) => store.list(all(viewer), filter)
  })),
  "the model and the context get invisible records": broken((store) => ({
    search: (viewer, query) => store.search(all(viewer), query)
  })),
  "a tool distinguishes an invisible record from an absent one": broken((store) => ({
    get: (viewer, ids) =>
      Effect.zipRight(
        Effect.forEach(ids, (id) => foreignIsSaid(store, viewer, id, "get")),
        store.get(viewer, ids)
      )
  }))
}

const few = { ...sizes.agents, agents: true, shrinks: 0 }

describe("the isolation test detects an agent in which", () => {
  for (const [name, breaks] of Object.entries(agents)) {
    it.effect(name, () =>
      Effect.gen(function*() {
        const { found } = yield* Attack.attack(name, MemoryStore.layerInMemory, { ...few, breaks })
        assert.isDefined(found, "it was not caught")
      }), patience)
  }
  for (const [name, store] of Object.entries(below)) {
    it.effect(name, () =>
      Effect.gen(function*() {
        const { found } = yield* Attack.attack(name, store, few)
        assert.isDefined(found, "it was not caught")
      }), patience)
  }
})
describe("the isolation test detects a store in which", () => {
  for (const [name, store] of Object.entries(mutants)) {
    it.effect(name, () =>
      Effect.gen(function*() {
        const { found } = yield* Attack.attack(name, store, { ...short, shrinks: 0 })
        assert.isDefined(found, "it was not caught")
      }), patience)
  }
})
