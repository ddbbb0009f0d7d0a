/**
 * Many stores are a store. A write goes to one, a change to the store that holds the id, a search to all at once.
 * Each entry's layer is built on its own, even where two entries name the same one.
 *
 * ```text
 * id        of the first store that holds it, those that mirror coming last: what others hold of it is a copy, which
 *           counts for nothing but `alsoIn`
 * put       to the route's, or the primary; equal to what lives in the same store: `duplicate`
 * batch     over several stores: see `Writing`
 * mirror    see `Copying`
 * search    each store's best, by its own scores: see `Merging`. A store that fails is among `failures`; all fail: it fails
 * get, list a store that fails is not taken for one that has nothing: they fail, but for what was found by id elsewhere
 * trash     each store's own, as long as its own layer says
 * ```
 *
 * Stores are those of `MemoryStore.make`, or what stands on them: a page of all goes on from one place in each of them.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SubscriptionRef from "effect/SubscriptionRef"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { MemoryQuery, SearchResult } from "../../domain/MemoryFilter.ts"
import * as MemoryKind from "../../domain/MemoryKind.ts"
import type { Draft, MemoryRecord } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import * as Calls from "../Calls.ts"
import * as MemoryStore from "../MemoryStore.ts"
import * as Minting from "../Minting.ts"
import * as ViewerCheck from "../ViewerCheck.ts"
import * as Configuration from "./Federated/Configuration.ts"
import * as Copying from "./Federated/Copying.ts"
import * as Members from "./Federated/Members.ts"
import * as Reading from "./Federated/Reading.ts"
import * as Together from "./Federated/Together.ts"
import * as Writing from "./Federated/Writing.ts"

export interface Entry<out E = never, out R = never> {
  readonly layer: Layer.Layer<MemoryStore.MemoryStore, E, R>
  /** Shown to the model in the tools' descriptions. */
  readonly description?: string | undefined
  /** 1..1,000, default 3. */
  readonly maxResults?: number | undefined
  /** Takes new records, and changes of those it holds. Default false. */
  readonly writable?: boolean | undefined
  /** What was written elsewhere and goes here too, from then on; needs no `writable`. Never asked of the library's own rows. */
  readonly mirror?: ((record: MemoryRecord) => boolean) | undefined
}

export interface Options<Name extends string> {
  /** Default: the first that is writable. */
  readonly primary?: Name | undefined
  /** Where a draft goes. Default: to the primary. */
  readonly route?: ((draft: Draft) => Name | undefined) | undefined
}

export interface Named extends Pick<Entry, "description"> {
  readonly name: string
  readonly maxResults: number
  readonly writable: boolean
  /** Reads are the store's alone. New records go to it, changes to the store that holds the id; mirrors follow. */
  readonly store: MemoryStore.Service
}

export interface Service {
  /** In the order given; then by arrival. */
  readonly stores: Effect.Effect<ReadonlyArray<Named>>
  /** `not_found`, naming those there are. */
  readonly get: (name: string) => Effect.Effect<Named, MemoryError.MemoryError>
  /** A store that leaves with the scope. A name in use is refused with `invalid_id`. */
  readonly attach: <E, R>(
    name: string,
    entry: Entry<E, R>
  ) => Effect.Effect<Named, MemoryError.MemoryError | E, R | Scope.Scope>
  /**
   * In some of the stores: `[]` and none both mean all; a name twice counts once; an unknown one is `not_found`, naming
   * those there are, before any is asked. Each gives at most `maxResults`, 1..1,000, or its own; all of it is cut to
   * `query.limit` where that is said.
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

export class Federated extends Context.Tag("@memory/Federated")<Federated, Service>() {}

interface Entries {
  readonly [name: string]: Entry<unknown, unknown>
}
type ErrorOf<S extends Entries> = { [N in keyof S]: S[N] extends Entry<infer E, unknown> ? E : never }[keyof S]
type ContextOf<S extends Entries> = { [N in keyof S]: S[N] extends Entry<unknown, infer R> ? R : never }[keyof S]

/** `invalid_draft`, with every violation, where there is no entry, or one does not fit. Without a writable one it is read-only. */
export const layer = <const S extends Entries>(
  entries: S,
  options: Options<keyof S & string> = {}
): Layer.Layer<MemoryStore.MemoryStore | Federated, MemoryError.MemoryError | ErrorOf<S>, ContextOf<S>> =>
  Layer.scopedContext(make(Object.entries(entries), options)) as Layer.Layer<
    MemoryStore.MemoryStore | Federated,
    MemoryError.MemoryError | ErrorOf<S>,
    ContextOf<S>
  > // `make` fails with what it says, or an entry does, and needs what the entries need

/** Importance .75 and more: seed 4's secondary persistence. */
export const important = (record: MemoryRecord): boolean => record.importance >= 0.75

const make = (entries: ReadonlyArray<readonly [string, Entry<unknown, unknown>]>, options: Options<string>) =>
  Effect.gen(function*() {
    yield* Configuration.refuse([
      ...Configuration.configured(entries, options),
      ...entries.flatMap(([name, entry]) => Configuration.issuesOf(name, entry))
    ])
    const kinds = yield* MemoryKind.Kinds
    const copying = Copying.make()
    const { write } = yield* Writing.make(kinds, copying)
    const scope = yield* Effect.scope
    const minting = yield* Minting.make
    const first = yield* Effect.forEach(entries, ([name, entry]) => built(name, entry, scope, minting))
    yield* Configuration.refuse(first.flatMap(Configuration.misfits))
    const members = yield* SubscriptionRef.make<Members.Members>(first)

    /** New records of a call that is about one store go to it; the federation's own to the route's, or the primary. */
    const writes = (only?: string) =>
      Calls.writes((op, viewer, mutations, provenance) =>
        Effect.gen(function*() {
          const all = yield* members
          const named = (name: string) =>
            Effect.filterOrFail(
              memberOf(op, all, name),
              ({ writable }) => writable,
              () => MemoryError.make("read_only", { op, message: `${name} is read-only` })
            )
          const primary = only ?? options.primary ?? all.find(({ writable }) => writable)?.name
          const home: Writing.Home | undefined = primary === undefined ? undefined : {
            primary: yield* named(primary),
            isOnly: only !== undefined,
            of: (draft) => Effect.flatMap(routed(draft), (name) => named(only ?? name ?? primary))
          }
          return yield* write(op, Members.ranked(all), home, viewer, mutations, provenance)
        }).pipe(Effect.withSpan(`Federated.${op}`))
      )
    /** Somebody's own: what it throws is not worth a defect. */
    const routed = (draft: Draft) =>
      Effect.try({
        try: () => options.route?.(draft),
        // the thrown message may quote the draft, so it is kept in the cause only
        catch: (cause) =>
          MemoryError.make("invalid_draft", {
            op: "route",
            message: "route: the function threw",
            detail: { issues: ["route: the function threw"] },
            cause
          })
      })
    const toNamed = ({ description, maxResults, name, store, writable }: Members.Member): Named => ({
      name,
      description,
      maxResults,
      writable,
      store: ViewerCheck.make({ ...store, ...writes(name), capabilities: { ...store.capabilities, writable } })
    })

    const federated: Service = {
      stores: Effect.map(members, (all) => all.map(toNamed)),
      get: (name) => Effect.flatMap(members, (all) => Effect.map(memberOf("get", all, name), toNamed)),
      attach: (name, entry) =>
        Effect.gen(function*() {
          const free = Effect.filterOrFail(
            members,
            (all) => all.every((member) => member.name !== name),
            () => MemoryError.make("invalid_id", { op: "attach", message: "there is a store of this name already" })
          )
          yield* free
          if (!Configuration.isName(name)) {
            return yield* MemoryError.make("invalid_id", {
              op: "attach",
              message: `a name has ${Configuration.nameRule}`
            })
          }
          yield* Configuration.refuse(Configuration.issuesOf(name, entry))
          const member = yield* built(name, entry, yield* Effect.scope, minting)
          yield* Configuration.refuse(Configuration.misfits(member))
          yield* Effect.acquireRelease(
            SubscriptionRef.updateEffect(members, (all) => Effect.as(free, [...all, member])),
            () => SubscriptionRef.update(members, (all) => all.filter((one) => one !== member))
          )
          return toNamed(member)
        }).pipe(Effect.withSpan("Federated.attach")),
      search: (viewer, query, { maxResults, stores = [] } = {}) =>
        Effect.gen(function*() {
          if (!Viewer.isAny(viewer)) return yield* Viewer.notViewer("search")
          const all = yield* members
          const asked = new Set(yield* Effect.forEach(stores, (name) => memberOf("search", all, name)))
          const { result } = yield* Reading.search(
            Members.ranked(all).filter((member) => asked.size === 0 || asked.has(member)),
            viewer,
            query,
            (member) => maxResults ?? member.maxResults
          )
          return result
        }).pipe(Effect.withSpan("Federated.search"))
    }
    const primary = first.find(({ name, writable }) =>
      options.primary === undefined ? writable : name === options.primary
    )
    const store = Together.make(members, first, primary?.store, copying, writes())
    return Context.make(MemoryStore.MemoryStore, store).pipe(Context.add(Federated, federated))
  })

/** In a memo map of its own; its ids go up with the others'. */
const built = <E, R>(name: string, entry: Entry<E, R>, scope: Scope.Scope, minting: Minting.Service) =>
  Effect.gen(function*() {
    const context = yield* Effect.provideService(Layer.buildWithScope(entry.layer, scope), Minting.Shared, minting)
    const gone = yield* Deferred.make<void>()
    yield* Scope.addFinalizer(scope, Deferred.succeed(gone, undefined))
    return {
      name,
      description: entry.description,
      maxResults: entry.maxResults ?? 3,
      writable: entry.writable === true,
      mirror: entry.mirror,
      store: Context.get(context, MemoryStore.MemoryStore),
      gone: Deferred.await(gone)
    } satisfies Members.Member
  })

const memberOf = (op: string, members: Members.Members, name: string) => {
  const member = members.find((member) => member.name === name)
  return member
    ? Effect.succeed(member)
    : MemoryError.make("not_found", {
      op,
      message: `there is no store of this name; the stores are: ${members.map(({ name }) => name).join(", ")}`
    })
}
