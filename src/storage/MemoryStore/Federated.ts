/**
 * Combines several stores into one. A new record is written to one store. An update is written to the store that has the record. A search
 * reads all stores in parallel. A mirror is a store that receives copies of the records of other stores. Each layer is built separately, so
 * two entries with the same layer have different stores.
 *
 * ```text
 * id        belongs to the first store that has a record with this id; mirrors come last. Records with the same id in later stores
 *           are copies; `alsoIn` of a hit names the other stores that found a copy or a near-duplicate of its record
 * put       writes a new record to the store that `route` names, else to the primary; looks for duplicates only in that store
 * batch     over several stores: see `WriteRouter`
 * mirror    see `Replication`
 * search    merges the best hits of each store by their own scores: see `Queries`. A store that fails is listed in
 *           `failures`; the search fails if all stores fail, or if one store refuses the query as invalid
 * get, list fail if one store fails; but `get` succeeds if the other stores have all of the ids
 * redaction is done by each store. If the federation is built with a redaction, every store that gets writes must have this redaction.
 *           If all stores that get writes share one redaction, every store attached later that gets writes must have it, too
 * trash     is kept by each store, for the time that its own layer sets
 * ```
 *
 * All stores must be made by `MemoryStore.make`, or be built on such stores. They then list records in the same order, as a cursor
 * requires.
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

/** The configuration of a member store, and a member store with its name. */
export type { Entry, Named } from "./Federated/StoreRegistry.ts"

/** Options of `layer`. */
export interface Options<Name extends string> {
  /** Name of the primary store. Default: the first writable store. */
  readonly primary?: Name | undefined
  /** Returns the name of the store that gets the new record of a draft. Default, also for the result `undefined`: the primary. */
  readonly route?: ((draft: Draft) => Name | undefined) | undefined
}

/** The registry of the member stores, with a function that searches some of them. */
export interface Service extends StoreRegistry.Registry {
  /**
   * Searches the stores named in `stores`. Searches all stores if `stores` is absent or empty. Repeated names count once. An unknown name
   * fails with `not_found`, before any store is searched. The error lists the known names. Each store returns at most `maxResults` hits
   * (1..1,000; default: the setting of the store). The merged result has at most `query.limit` hits, if that is given.
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

/** The service tag of a federation's registry and search. */
export class Federated extends Context.Tag("@memory/Federated")<Federated, Service>() {}

/** The configurations of the member stores, by name. */
export interface Entries {
  readonly [name: string]: StoreRegistry.Entry<unknown, unknown>
}
/** The errors of the entries' layers. */
export type ErrorOf<S extends Entries> = {
  [N in keyof S]: S[N] extends StoreRegistry.Entry<infer E, unknown> ? E : never
}[keyof S]
/** The services that the entries' layers require. */
export type ContextOf<S extends Entries> = {
  [N in keyof S]: S[N] extends StoreRegistry.Entry<unknown, infer R> ? R : never
}[keyof S]

/**
 * Builds the federation. Fails with `invalid_draft` if there are no entries, or if an entry or option is invalid. The error lists the
 * violations found. Without a writable store, the federation is read-only.
 */
export const layer = <const S extends Entries>(
  entries: S,
  options: Options<keyof S & string> = {}
): Layer.Layer<MemoryStore.MemoryStore | Federated, MemoryError.MemoryError | ErrorOf<S>, ContextOf<S>> =>
  Layer.scopedContext(make(Object.entries(entries), options)) as Layer.Layer<
    MemoryStore.MemoryStore | Federated,
    MemoryError.MemoryError | ErrorOf<S>,
    ContextOf<S>
  > // cast, since `Object.entries` loses the types of the errors and requirements of the entries' layers

/** Whether a record's importance is 0.75 or more. An entry with this function as `mirror` gets copies of such records. */
export const important = (record: MemoryRecord): boolean => record.importance >= 0.75

/** The dependencies of a federation's write operations. */
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
    const router = yield* WriteRouter.make(yield* MemoryKind.registered, copying)
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

/** Makes the write operations of the federation. All new records go to the member store `only`, if it is given. */
const writes = (writing: Writing, only?: string): Pick<MemoryStore.Service, "apply" | "put" | "update" | "forget"> =>
  makeStore.writes((op, viewer, mutations, provenance) =>
    Effect.gen(function*() {
      const all = yield* writing.members
      const home = yield* homeOf(writing, op, all, only)
      return yield* writing.router.write(op, StoreRegistry.ranked(all), home, viewer, mutations, provenance)
    }).pipe(Effect.withSpan(`Federated.${op}`))
  )

/**
 * Returns where a call writes new records: to `only`, else to the store that `route` names, else to the primary. Returns `undefined`
 * without `only` and primary.
 */
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

/** Calls the application's function `route`. An exception becomes the error `invalid_draft`, not a defect. */
const routed = ({ route }: Options<string>, draft: Draft) =>
  Effect.try({
    try: () => route?.(draft),
    // the exception's message may quote the draft, so it is kept in the cause only
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
  store: checkingViewer({
    ...store,
    ...writes(writing, name),
    ...(writable ? {} : withoutWrites(name, store)),
    capabilities: { ...store.capabilities, writable, messages: writable && store.capabilities.messages }
  })
})

/**
 * Returns the `ingest` and `reader` of a read-only member. The member accepts no messages, and `reader.transact` fails with `read_only`.
 */
const withoutWrites = (
  name: string,
  { reader }: MemoryStore.Service
): Pick<MemoryStore.Service, "ingest" | "reader"> => ({
  ingest: Option.none(),
  reader: Option.map(reader, (one) => ({
    ...one,
    transact: () => MemoryError.make("read_only", { op: "transact", message: `the store ${name} takes no writes` })
  }))
})

/** Searches the stores named in `stores`, or all stores if the list is empty. */
const searchIn = (
  members: Effect.Effect<StoreRegistry.Members>,
  viewer: Viewer.Any,
  query: MemoryQuery,
  { maxResults, stores = [] }: NonNullable<Parameters<Service["search"]>[2]> = {}
): Effect.Effect<SearchResult, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    if (!Viewer.isAny(viewer)) return yield* Viewer.notViewer("search")
    const all = yield* members
    const requested = new Set(yield* Effect.forEach(stores, (name) => StoreRegistry.memberOf("search", all, name)))
    const { result } = yield* Queries.search(
      StoreRegistry.ranked(all).filter((member) => requested.size === 0 || requested.has(member)),
      viewer,
      query,
      (member) => maxResults ?? member.maxResults
    )
    return result
  }).pipe(Effect.withSpan("Federated.search"))

/** The dependencies of `federationOf`. */
interface Parts {
  readonly members: SubscriptionRef.SubscriptionRef<StoreRegistry.Members>
  /** The stores that the federation was built with. */
  readonly first: StoreRegistry.Members
  readonly primary: MemoryStore.Service | undefined
  /** Combined redaction (see `Redaction.combine`) of the stores that get writes, or of all stores if none gets writes. */
  readonly redaction: Option.Option<Redaction.Service>
  readonly copying: Replication.Replication
}

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
        (all) => Effect.flatMap(StoreRegistry.ownerStore(all, viewer, id), (store) => store.history(viewer, id, limit))
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
    // mirrors are compacted first, so that an expired copy is erased before its record. What mirrors erase is not counted
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
    reader: Option.none(), // none, since several stores may have a row with the same id
    sign: (primary ?? first[0]!.store).sign, // a federation has at least one store
    ingest: primary?.ingest ?? Option.none(),
    tools: (viewer) => first.flatMap(({ store }) => store.tools(viewer))
  })
}

/**
 * Returns the capabilities of the federation, computed from the stores with which it was built. `writable` is true if at least one store is
 * writable, and `vector` if at least one has it. `history` is true if all stores have it. `durable` and `shared` are true if there are
 * writable stores and all of them have the capability. `messages` is that of the primary.
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
