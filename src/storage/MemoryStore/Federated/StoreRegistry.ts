/**
 * Keeps the member stores of a federation, with their names and configuration. Attaches and detaches stores. Finds the store that an id
 * belongs to.
 */
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as SubscriptionRef from "effect/SubscriptionRef"
import * as MemoryError from "../../../domain/MemoryError.ts"
import { Limit } from "../../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import { invalid } from "../../../domain/Validation.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import * as Redaction from "../../../host/Redaction.ts"
import * as MemoryStore from "../../MemoryStore.ts"
import * as Transaction from "../internal/Transaction.ts"

/** The configuration of a member store: its layer, and how the federation may use it. */
export interface Entry<out E = never, out R = never> {
  readonly layer: Layer.Layer<MemoryStore.MemoryStore, E, R>
  /** Description of the store, which the model reads in the descriptions of the tools. */
  readonly description?: string | undefined
  /** Largest number of hits that `Federated.search` takes from the store, 1..1,000, unless the call sets `maxResults`. Default 3. */
  readonly maxResults?: number | undefined
  /** Whether the federation may write new records to the store, and change records in it. Default false. */
  readonly writable?: boolean | undefined
  /**
   * Makes the store a mirror, even without `writable`. A record that is written to another store is copied to the mirror if the function
   * returns true, or if the mirror has a copy already. Records written before the mirror was added are copied only when they are written
   * again. Rows with the library's own state are never copied.
   */
  readonly mirror?: ((record: MemoryRecord) => boolean) | undefined
}

/** A member store with its name. */
export interface Named extends Pick<Entry, "description"> {
  readonly name: string
  readonly maxResults: number
  readonly writable: boolean
  /**
   * The store as part of the federation. Reads use only this store. Writes fail unless `writable` is true. New records are written to this
   * store. A change by id is written to the member store that has the id, even if that is another store. Every write updates the mirrors.
   */
  readonly store: MemoryStore.Service
}

/** The member stores, by name. */
export interface Registry {
  /** All stores: first those of the layer, in the order of its `entries`; then attached stores, in the order of attachment. */
  readonly stores: Effect.Effect<ReadonlyArray<Named>>
  /** Returns the store with this name. If there is none, fails with `not_found`; the error lists the stores' names. */
  readonly get: (name: string) => Effect.Effect<Named, MemoryError.MemoryError>
  /** Adds a store until the Effect scope closes. Fails with `invalid_id` for a bad or used name, and `invalid_draft` for a bad entry. */
  readonly attach: <E, R>(
    name: string,
    entry: Entry<E, R>
  ) => Effect.Effect<Named, MemoryError.MemoryError | E, R | Scope.Scope>
}

interface Dependencies {
  readonly members: SubscriptionRef.SubscriptionRef<Members>
  readonly idGenerator: Transaction.IdGenerator
  /** The common redaction of all stores that get writes, or of all stores if none gets writes. `undefined` if there is none. */
  readonly redaction: Redaction.Service | undefined
  readonly toNamed: (member: Member) => Named
}

/** Builds the stores with which a federation starts. Fails with `invalid_draft` if the configuration is invalid. */
export const begin = (
  entries: ReadonlyArray<readonly [string, Entry<unknown, unknown>]>,
  primary: string | undefined,
  idGenerator: Transaction.IdGenerator
) =>
  Effect.gen(function*() {
    yield* refuse([
      ...configured(entries, primary),
      ...entries.flatMap(([name, entry]) => issuesOf(name, entry))
    ])
    const scope = yield* Effect.scope
    const redaction = yield* Redaction.Redaction
    const first = yield* Effect.forEach(entries, ([name, entry]) => built(name, entry, scope, idGenerator))
    yield* refuse(first.flatMap((member) => conflictsOf(member, redaction)))
    return first
  })

/** Makes the registry, which lists the stores, finds a store by name, and attaches further ones. */
export const make = (dependencies: Dependencies): Registry => {
  const { members, toNamed } = dependencies
  return {
    stores: Effect.map(members, (all) => all.map(toNamed)),
    get: (name) => Effect.flatMap(members, (all) => Effect.map(memberOf("get", all, name), toNamed)),
    attach: (name, entry) => Effect.withSpan(attach(dependencies, name, entry), "Federated.attach")
  }
}

const attach = <E, R>({ members, idGenerator, redaction, toNamed }: Dependencies, name: string, entry: Entry<E, R>) =>
  Effect.gen(function*() {
    const free = Effect.filterOrFail(
      members,
      (all) => all.every((member) => member.name !== name),
      () => MemoryError.make("invalid_id", { op: "attach", message: "there is a store of this name already" })
    )
    yield* free
    if (!isName(name)) {
      return yield* MemoryError.make("invalid_id", { op: "attach", message: `a name has ${nameRule}` })
    }
    yield* refuse(issuesOf(name, entry))
    const member = yield* built(name, entry, yield* Effect.scope, idGenerator).pipe(
      Effect.provideService(Redaction.Redaction, redaction ?? (yield* Redaction.Redaction))
    )
    yield* refuse(conflictsOf(member, redaction))
    yield* Effect.acquireRelease(
      SubscriptionRef.updateEffect(members, (all) => Effect.as(free, [...all, member])),
      () => SubscriptionRef.update(members, (all) => all.filter((one) => one !== member))
    )
    return toNamed(member)
  })

/**
 * Builds the store of an entry. Each layer is built with its own memo map, so two entries with the same layer get separate stores. All
 * stores share one id generator, so the ids of a tenant sort in the order of their generation.
 */
const built = <E, R>(name: string, entry: Entry<E, R>, scope: Scope.Scope, idGenerator: Transaction.IdGenerator) =>
  Effect.gen(function*() {
    const context = yield* Effect.provideService(
      Layer.buildWithScope(entry.layer, scope),
      Transaction.SharedIdGenerator,
      idGenerator
    )
    const detached = yield* Deferred.make<void>()
    yield* Scope.addFinalizer(scope, Deferred.succeed(detached, undefined))
    return {
      name,
      description: entry.description,
      maxResults: entry.maxResults ?? 3,
      writable: entry.writable === true,
      mirror: entry.mirror,
      store: Context.get(context, MemoryStore.MemoryStore),
      detached: Deferred.await(detached)
    } satisfies Member
  })

/** Returns the member with this name. If there is none, fails with `not_found`. The error lists the names of all members. */
export const memberOf = (op: string, members: Members, name: string) => {
  const member = members.find((member) => member.name === name)
  return member
    ? Effect.succeed(member)
    : MemoryError.make("not_found", {
      op,
      message: `there is no store of this name; the stores are: ${members.map(({ name }) => name).join(", ")}`
    })
}

/** A member store, with its configuration. */
export interface Member {
  readonly name: string
  readonly description: string | undefined
  readonly maxResults: number
  readonly writable: boolean
  readonly mirror: ((record: MemoryRecord) => boolean) | undefined
  readonly store: MemoryStore.Service
  /** Completes when the store is detached from the federation. */
  readonly detached: Effect.Effect<void>
}

/** The members, in the order of `Registry.stores` or in that of `ranked`. */
export type Members = ReadonlyArray<Member>

/** Orders members for finding the owner of an id. Mirrors come last, since their records may be copies. */
export const ranked = (members: Members): Members => [
  ...members.filter(({ mirror }) => mirror === undefined),
  ...members.filter(({ mirror }) => mirror !== undefined)
]

/** The member that has an id. */
export interface Ownership {
  /** The first member that has the id. The record may be forgotten, or hidden from the viewer. Later members with the id have copies. */
  readonly owner: Member | undefined
  /** The record in `owner`, even if the viewer may not see the record. */
  readonly record: MemoryRecord | undefined
  /** The members before `owner` that failed to answer, and so may have the id. Without an `owner`, all members are considered. */
  readonly unanswered: ReadonlyArray<{ readonly member: Member; readonly error: MemoryError.MemoryError }>
}

/** Finds the member that has each id. All members are asked in parallel. Cost: one `get` of each member. */
export const findOwners = (
  members: Members,
  viewer: Viewer.Any,
  ids: ReadonlyArray<MemoryId>
): Effect.Effect<(id: MemoryId) => Ownership> => {
  if (ids.length === 0) return Effect.succeed(() => noOwner)
  const system = Viewer.system(viewer.tenant)
  return Effect.map(
    Effect.forEach(members, (member) => Effect.either(member.store.get(system, ids)), { concurrency: "unbounded" }),
    (answers) => ownersFrom(members, ids, answers)
  )
}

/** Finds the member that has each id. `answers` are the members' answers to a read of all `ids`. */
const ownersFrom = (
  members: Members,
  ids: ReadonlyArray<MemoryId>,
  answers: ReadonlyArray<Either.Either<ReadonlyArray<Option.Option<MemoryRecord>>, MemoryError.MemoryError>>
): (id: MemoryId) => Ownership => {
  const owners = new Map<MemoryId, Ownership>()
  for (const [n, id] of ids.entries()) {
    const unanswered: Array<Ownership["unanswered"][number]> = []
    let record: MemoryRecord | undefined
    const at = answers.findIndex((answer, m) => {
      if (Either.isRight(answer)) record = Option.getOrUndefined(answer.right[n]!)
      else unanswered.push({ member: members[m]!, error: answer.left })
      return record !== undefined
    })
    owners.set(id, { owner: members[at], record, unanswered })
  }
  return (id) => owners.get(id) ?? noOwner
}

/** Rows of one member by id. Every requested id is a key. Its value is `undefined` if the member has no such row. */
export type Rows = ReadonlyMap<MemoryId, MemoryStore.Stored | undefined>

/** The rows with the ids of a batch, by member. The rows are read once, and used by all steps of a write. */
export interface Located {
  readonly ownerOf: (id: MemoryId) => Ownership
  readonly rows: ReadonlyMap<Member, Either.Either<Rows, MemoryError.MemoryError>>
}

/** Reads the rows with these ids from all members in parallel. Cost: one read of each member. */
export const locate = (
  members: Members,
  tenant: string,
  ids: ReadonlyArray<MemoryId>
): Effect.Effect<Located> =>
  Effect.map(
    Effect.forEach(members, (member) => Effect.either(rowsOf(member, tenant, ids)), { concurrency: "unbounded" }),
    (answers) => ({
      ownerOf: ownersFrom(
        members,
        ids,
        answers.map(Either.map((rows) => ids.map((id) => Option.fromNullable(rows.get(id)?.record))))
      ),
      rows: new Map(members.map((member, n) => [member, answers[n]!]))
    })
  )

/** Reads rows of a member, including tombstones. A store without `reader` (a federation) is read by its operations, as `System`. */
export const rowsOf = (
  { store }: Member,
  tenant: string,
  ids: ReadonlyArray<MemoryId>
): Effect.Effect<Rows, MemoryError.MemoryError> => {
  if (ids.length === 0) return Effect.succeed(new Map())
  const answer = Option.match(store.reader, {
    onSome: ({ read }) => read(tenant, ids),
    onNone: () => rowsSeen(store, tenant, ids)
  })
  return Effect.map(answer, (rows) => new Map(ids.map((id, n) => [id, Option.getOrUndefined(rows[n]!)])))
}

/** Reads rows with a store's operations, as the viewer `System`. `get` also returns forgotten records; the trash tells which these are. */
const rowsSeen = (store: MemoryStore.Service, tenant: string, ids: ReadonlyArray<MemoryId>) =>
  Effect.gen(function*() {
    const system = Viewer.system(tenant)
    const records = yield* store.get(system, ids)
    const found = Array.from(new Set(records.flatMap((record) => Option.isSome(record) ? [record.value.id] : [])))
    const trash = found.length === 0
      ? Chunk.empty<MemoryRecord>()
      : yield* Stream.runCollect(store.stream(system, { forgotten: true, ids: found, limit: 1_000 }))
    const forgotten = new Set(Chunk.map(trash, ({ id }) => id))
    return records.map(Option.map((record): MemoryStore.Stored => ({ record, forgotten: forgotten.has(record.id) })))
  })

/** Returns the revisions that a member has of a record, newest first. */
export const revisionsOf = (
  { store }: Member,
  tenant: string,
  id: MemoryId
): Effect.Effect<ReadonlyArray<MemoryStore.Stored>, MemoryError.MemoryError> =>
  Option.match(store.reader, {
    onSome: ({ revisions }) => revisions(tenant, id, 1_000),
    onNone: () =>
      Effect.map(
        store.history(Viewer.system(tenant), id, 1_000),
        // `forgotten` may be wrong here; a restore uses only the record
        (records) => records.map((record) => ({ record, forgotten: false }))
      )
  })

const noOwner: Ownership = { owner: undefined, record: undefined, unanswered: [] }

/** Returns the member that has an id; `undefined` if none has it. Fails if a member failed to answer and no owner was found. */
export const ownerOrError = (
  { owner, unanswered: [first] }: Ownership
): Effect.Effect<Member | undefined, MemoryError.MemoryError> =>
  owner === undefined && first !== undefined ? first.error : Effect.succeed(owner)

/**
 * Groups `ids` by the member that has them, and calls `ask` once for each group. The results are in the order of `ids`. Ids that no member
 * has are passed to the first member, which reports them as missing.
 */
export const each = <A>(
  members: Members,
  viewer: Viewer.Any,
  ids: ReadonlyArray<MemoryId>,
  ask: (
    store: MemoryStore.Service,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<A>, MemoryError.MemoryError>
): Effect.Effect<ReadonlyArray<A>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const ownerOf = yield* findOwners(members, viewer, ids)
    const indexesByMember = new Map<Member, Array<number>>()
    for (const [n, id] of ids.entries()) {
      const member = (yield* ownerOrError(ownerOf(id))) ?? members[0]!
      indexesByMember.set(member, [...indexesByMember.get(member) ?? [], n])
    }
    const answers: Array<A> = []
    yield* Effect.forEach(indexesByMember, ([{ store }, indexes]) =>
      Effect.map(
        ask(store, indexes.map((n) => ids[n]!)),
        (all) =>
          all.forEach((answer, n) => {
            answers[indexes[n]!] = answer
          })
      ), {
      concurrency: "unbounded",
      discard: true
    })
    return answers
  })

/** Returns the store of the member that has an id, or the store of the first member if no member has the id. */
export const ownerStore = (
  members: Members,
  viewer: Viewer.Any,
  id: MemoryId
): Effect.Effect<MemoryStore.Service, MemoryError.MemoryError> =>
  findOwners(members, viewer, [id]).pipe(
    Effect.flatMap((ownerOf) => ownerOrError(ownerOf(id))),
    Effect.map((member) => (member ?? members[0]!).store)
  )

const nameRule = "1..64 characters in one line"
const isName = (name: string): boolean => /^[^\p{Cc}\u2028\u2029]{1,64}$/u.test(name) && name.isWellFormed()
const isLimit = Schema.is(Limit)

const issuesOf = (name: string, { maxResults }: Entry<unknown, unknown>): ReadonlyArray<string> => [
  ...(isName(name) ? [] : [`${JSON.stringify(name.slice(0, 64))}: a name has ${nameRule}`]),
  ...(maxResults === undefined || isLimit(maxResults) ? [] : [`${name}: maxResults: expected 1..1,000`])
]

const configured = (
  entries: ReadonlyArray<readonly [string, Entry<unknown, unknown>]>,
  primary: string | undefined
): ReadonlyArray<string> => {
  if (entries.length === 0) return ["a federation has a store, at least"]
  if (primary === undefined) return []
  const [, entry] = entries.find(([name]) => name === primary) ?? []
  return entry === undefined
    ? [`primary: there is no store ${primary}`]
    : entry.writable === true
    ? []
    : [`primary: ${primary} is read-only`]
}

/** Whether the federation ever writes to a member. */
export const isWritten = ({ mirror, writable }: Pick<Member, "mirror" | "writable">): boolean =>
  writable || mirror !== undefined

/**
 * Returns the reasons why the federation cannot write to a member, although the member is configured as writable or as a mirror. The store
 * may be read-only, or may have been built without the federation's redaction.
 */
const conflictsOf = (
  { mirror, name, store, writable }: Member,
  redaction: Redaction.Service | undefined
): ReadonlyArray<string> => {
  if (!isWritten({ mirror, writable })) return []
  const called = `${name}: ${writable ? "writable" : "a mirror"}`
  return [
    ...(store.capabilities.writable ? [] : [`${called}, but its store takes no writes`]),
    ...(redaction === undefined || Redaction.isSame(Option.getOrUndefined(store.redaction), redaction)
      ? []
      : [
        `${called}, but its store was built without the redaction of the federation: leave its own out, and build it here`
      ])
  ]
}

const refuse = ([issue, ...others]: ReadonlyArray<string>): Effect.Effect<void, MemoryError.MemoryError> =>
  issue === undefined ? Effect.void : invalid("Federated", issue, ...others)
