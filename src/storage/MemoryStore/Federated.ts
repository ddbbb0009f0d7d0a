/**
 * Makes one store of many stores. A write goes to one, a change to the store that holds the id, a search to all at once.
 * Each entry's layer is built on its own, even where two entries name the same one.
 *
 * ```text
 * id        of the first store that holds it, those that mirror coming last: what others hold of it is a copy, which
 *           counts for nothing but `alsoIn`
 * put       to the route's, or the primary; equal to what lives in the same store: `duplicate`
 * batch     over several stores: see `WriteRouter`
 * mirror    see `Replication`
 * search    each store's best, by its own scores: see `Queries`. A store that fails is among `failures`; all fail: it fails
 * get, list a store that fails is not taken for one that has nothing: they fail, but for what was found by id elsewhere
 * redaction each store's own; a store that is written to has that of the federation, if it was built with one, and one that
 *           joins later the one that those there have in common
 * trash     each store's own, as long as its own layer says
 * ```
 *
 * The stores have to be those of `MemoryStore.make`, or built on them: a page of all goes on from one place in each of them.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as SubscriptionRef from "effect/SubscriptionRef"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { MemoryQuery, SearchResult } from "../../domain/MemoryFilter.ts"
import * as MemoryKind from "../../domain/MemoryKind.ts"
import type { Draft, MemoryRecord } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import * as Redaction from "../../host/Redaction.ts"
import { defaultLimit } from "../../ranking/MemoryIndex.ts"
import { checkingViewer } from "./internal/makeStore.ts"
import * as makeStore from "./internal/makeStore.ts"

import * as MemoryStore from "../MemoryStore.ts"
import * as Queries from "./Federated/Queries.ts"
import * as Replication from "./Federated/Replication.ts"
import * as StoreRegistry from "./Federated/StoreRegistry.ts"
import * as WriteRouter from "./Federated/WriteRouter.ts"
import * as Transaction from "./internal/Transaction.ts"

/** A store to take in, and a store of the federation by its name. */
export type { Entry, Named } from "./Federated/StoreRegistry.ts"

/** Options of `layer`. */
export interface Options<Name extends string> {
  /** Name of the primary. Default: the first store that is writable. */
  readonly primary?: Name | undefined
  /** Returns the name of the store that a draft goes to; `undefined`: the primary. Default: all drafts go to the primary. */
  readonly route?: ((draft: Draft) => Name | undefined) | undefined
}

/** The registry of the named stores, and a search of some of them by name. */
export interface Service extends StoreRegistry.Registry {
  /**
   * Searches some of the stores: `[]` and none both mean all, and a name twice counts once. An unknown name fails with
   * `not_found`, which lists the names, before any store is asked. Each gives at most `maxResults`, 1..1,000, or its own;
   * all of it is cut to `query.limit` if that is given.
   */
  readonly search: (
    viewer: Viewer.Any,
    query: MemoryQuery,
    options?: {
      readonly stores?: ReadonlyArray<string> | undefined
      readonly maxResults?: number | undefined
    }
  ) => Effect.Effect<SearchResult, MemoryError.MemoryError>
}

/** The service tag of the registry and its search. */
export class Federated extends Context.Tag("@memory/Federated")<Federated, Service>() {}

/** The member stores of a federation by their names. */
export interface Entries {
  readonly [name: string]: StoreRegistry.Entry<unknown, unknown>
}
/** The errors with which the layers of the entries fail. */
export type ErrorOf<S extends Entries> = {
  [N in keyof S]: S[N] extends StoreRegistry.Entry<infer E, unknown> ? E : never
}[keyof S]
/** The services that the layers of the entries require. */
export type ContextOf<S extends Entries> = {
  [N in keyof S]: S[N] extends StoreRegistry.Entry<unknown, infer R> ? R : never
}[keyof S]

/**
 * Builds the federation. Fails with `invalid_draft`, every violation listed, without an entry or if one does not fit. Without a
 * writable store the federation is read-only.
 */
export const layer = <const S extends Entries>(
  entries: S,
  options: Options<keyof S & string> = {}
): Layer.Layer<MemoryStore.MemoryStore | Federated, MemoryError.MemoryError | ErrorOf<S>, ContextOf<S>> =>
  Layer.scopedContext(make(Object.entries(entries), options)) as Layer.Layer<
    MemoryStore.MemoryStore | Federated,
    MemoryError.MemoryError | ErrorOf<S>,
    ContextOf<S>
  > // `make` fails with what it says, or an entry does, and needs what the entries need

/** Whether a record's importance is .75 or more: a rule for `mirror`, so that only what is important is copied. */
export const important = (record: MemoryRecord): boolean => record.importance >= 0.75

/** The dependencies of the writes of a federation. */
interface Writing {
  readonly members: SubscriptionRef.SubscriptionRef<StoreRegistry.Members>
  readonly options: Options<string>
  readonly router: WriteRouter.WriteRouter
}

const make = (
  entries: ReadonlyArray<readonly [string, StoreRegistry.Entry<unknown, unknown>]>,
  options: Options<string>
) =>
  Effect.gen(function*() {
    const copying = Replication.make()
    const router = yield* WriteRouter.make(yield* MemoryKind.Kinds, copying)
    const idGenerator = yield* Transaction.makeIdGenerator
    const first = yield* StoreRegistry.begin(entries, options.primary, idGenerator)
    const members = yield* SubscriptionRef.make<StoreRegistry.Members>(first)
    const writing: Writing = { members, options, router }
    const written = first.filter(StoreRegistry.isWritten)
    const stores = (written.length > 0 ? written : first).map(({ store }) => store)
    const carried = Redaction.combine(stores)
    const redaction = Option.getOrUndefined(
      Option.filter(carried, (one) =>
        stores.every((store) => Redaction.isSame(Option.getOrUndefined(store.redaction), one)))
    )
    const federated: Service = {
      ...StoreRegistry.make({
        members,
        idGenerator,
        redaction,
        toNamed: (member) =>
          named(writing, member)
      }),
      search: (viewer, query, options) => searchIn(members, viewer, query, options)
    }
    const primary = first.find(({ name, writable }) =>
      options.primary === undefined ? writable : name === options.primary
    )
    const store = federationOf(
      { members, first, primary: primary?.store, redaction: carried, copying },
      writes(writing)
    )
    return Context.make(MemoryStore.MemoryStore, store).pipe(Context.add(Federated, federated))
  })

/** Makes the calls that write: those of one store of the federation, `only`, or those of the federation. */
const writes = (writing: Writing, only?: string): Pick<MemoryStore.Service, "apply" | "put" | "update" | "forget"> =>
  makeStore.writes((op, viewer, mutations, provenance) =>
    Effect.gen(function*() {
      const all = yield* writing.members
      const home = yield* homeOf(writing, op, all, only)
      return yield* writing.router.write(op, StoreRegistry.ranked(all), home, viewer, mutations, provenance)
    }).pipe(Effect.withSpan(`Federated.${op}`))
  )

/** Returns where new records of a call go: to its one store, if it is about one; else to the route's, or the primary. */
const homeOf = (
  { options }: Writing,
  op: string,
  all: StoreRegistry.Members,
  only: string | undefined
): Effect.Effect<WriteRouter.Home | undefined, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const writable = (name: string) =>
      Effect.filterOrFail(
        StoreRegistry.memberOf(op, all, name),
        ({ writable }) => writable,
        () => MemoryError.make("read_only", { op, message: `${name} is read-only` })
      )
    const primary = only ?? options.primary ?? all.find(({ writable }) => writable)?.name
    if (primary === undefined) return undefined
    return {
      primary: yield* writable(primary),
      isOnly: only !== undefined,
      of: (draft) => Effect.flatMap(routed(options, draft), (name) => writable(only ?? name ?? primary))
    }
  })

/** Asks the route for the name of a store. An exception of it is a failure, not a defect, since the application wrote it. */
const routed = ({ route }: Options<string>, draft: Draft) =>
  Effect.try({
    try: () => route?.(draft),
    // the thrown message may quote the draft, so it is kept in the cause only
    catch: (cause) =>
      MemoryError.make("invalid_draft", {
        op: "route",
        message: "route: the function threw",
        detail: { issues: ["route: the function threw"] },
        cause
      })
  })

const named = (
  writing: Writing,
  { description, maxResults, name, store, writable }: StoreRegistry.Member
): StoreRegistry.Named => ({
  name,
  description,
  maxResults,
  writable,
  store: checkingViewer({ ...store, ...writes(writing, name), capabilities: { ...store.capabilities, writable } })
})

/** Searches some of the stores by name, or all. */
const searchIn = (
  members: Effect.Effect<StoreRegistry.Members>,
  viewer: Viewer.Any,
  query: MemoryQuery,
  { maxResults, stores = [] }: NonNullable<Parameters<Service["search"]>[2]> = {}
): Effect.Effect<SearchResult, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    if (!Viewer.isAny(viewer)) return yield* Viewer.notViewer("search")
    const all = yield* members
    const asked = new Set(yield* Effect.forEach(stores, (name) => StoreRegistry.memberOf("search", all, name)))
    const { result } = yield* Queries.search(
      StoreRegistry.ranked(all).filter((member) => asked.size === 0 || asked.has(member)),
      viewer,
      query,
      (member) => maxResults ?? member.maxResults
    )
    return result
  }).pipe(Effect.withSpan("Federated.search"))

/** The parts of the federation as a store. */
interface Parts {
  readonly members: SubscriptionRef.SubscriptionRef<StoreRegistry.Members>
  /** The members at the beginning. */
  readonly first: StoreRegistry.Members
  readonly primary: MemoryStore.Service | undefined
  /** The redactions of its writable stores as one: see `Redaction.together`. */
  readonly redaction: Option.Option<Redaction.Service>
  readonly copying: Replication.Replication
}

/** Makes the federation that is a store. */
const federationOf = (
  { copying, first, members, primary, redaction }: Parts,
  writes: Pick<MemoryStore.Service, "apply" | "put" | "update" | "forget">
): MemoryStore.Service => {
  const all = Effect.map(members, StoreRegistry.ranked)
  const observed = <A>(
    op: string,
    ask: (members: StoreRegistry.Members) => Effect.Effect<A, MemoryError.MemoryError>
  ): Effect.Effect<A, MemoryError.MemoryError> => Effect.withSpan(Effect.flatMap(all, ask), `Federated.${op}`)

  return checkingViewer({
    name: "federated",
    capabilities: capabilities(first, primary),
    redaction,
    ...writes,
    get: (viewer, ids) =>
      observed("get", (all) => StoreRegistry.each(all, viewer, ids, (store, ids) => store.get(viewer, ids))),
    search: (viewer, query) =>
      observed("search", (all) => {
        const { limit = defaultLimit } = query
        return Effect.map(Queries.search(all, viewer, { ...query, limit }, () => limit), ({ result }) => result)
      }),
    list: (viewer, filter) => observed("list", (all) => Queries.list(all, viewer, filter)),
    stream: (viewer, filter) => Stream.withSpan(Queries.stream(all, viewer, filter), "Federated.stream"),
    history: (viewer, id, limit) =>
      observed(
        "history",
        (all) => Effect.flatMap(StoreRegistry.holder(all, viewer, id), (store) => store.history(viewer, id, limit))
      ),
    changes: (viewer) => Replication.changes(Stream.map(members.changes, StoreRegistry.ranked), copying, viewer),
    whyNot: (viewer, id, query) => observed("whyNot", (all) => Queries.whyNot(all, viewer, id, query)),
    links: (viewer, id) => observed("links", (all) => Queries.links(all, viewer, id)),
    touch: (viewer, ids) =>
      observed("touch", (all) =>
        Effect.asVoid(
          StoreRegistry.each(all, viewer, ids, (store, ids) => Effect.as(store.touch(viewer, ids), ids))
        )),
    uses: (viewer, ids) =>
      observed("uses", (all) => StoreRegistry.each(all, viewer, ids, (store, ids) => store.uses(viewer, ids))),
    tenants: observed("tenants", (all) =>
      Effect.map(
        Effect.forEach(all, ({ store }) => store.tenants, { concurrency: "unbounded" }),
        (tenants) => Array.from(new Set(tenants.flat()))
      )),
    // mirrors come first, so that no copy outlives its record, and are not counted
    compact: observed("compact", (all) =>
      Effect.map(
        Effect.forEach(all.slice().reverse(), ({ mirror, store }) =>
          Effect.map(store.compact, (count) => mirror ? 0 : count)),
        (counts) =>
          counts.reduce((sum, count) => sum + count, 0)
      )),
    activity: makeStore.combineActivities(Effect.map(all, (members) => members.map(({ store }) => store.activity))),
    vectors: first.some(({ store }) => Option.isSome(store.vectors))
      ? Option.some(Queries.vectorsOf(all))
      : Option.none(),
    reader: Option.none(), // absent: an id may be in several stores
    sign: (primary ?? first[0]!.store).sign, // a federation has at least one store
    ingest: primary?.ingest ?? Option.none(),
    tools: (viewer) => first.flatMap(({ store }) => store.tools(viewer))
  })
}

/**
 * Returns the capabilities of the federation, those of the stores that it begins with: durable and shared if each writable store
 * is, a history if each store has one, vectors if any store has them, messages as the primary has.
 */
const capabilities = (
  members: StoreRegistry.Members,
  primary: MemoryStore.Service | undefined
): MemoryStore.Capabilities => {
  const stores = members.map(({ store }) => store.capabilities)
  const written = members.filter(({ writable }) => writable).map(({ store }) => store.capabilities)
  return {
    writable: written.length > 0,
    vector: stores.some(({ vector }) => vector),
    durable: written.length > 0 && written.every(({ durable }) => durable),
    shared: written.length > 0 && written.every(({ shared }) => shared),
    history: stores.every(({ history }) => history),
    messages: primary?.capabilities.messages ?? false
  }
}
