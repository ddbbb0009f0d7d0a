/**
 * Routes each mutation of a batch to the store that it concerns.
 *
 * ```text
 * put of a new record   is written to the store that `route` names, else to the primary. A row that the library keeps for itself
 *                       goes to the store of the other mutations in its batch (the first, if there are several), else to the primary
 * change by id          is written to the store that has the id. If no store has the id, or the viewer may not see the record,
 *                       the change goes where a row of the library would go, and that store reports the record as missing
 * change of a copy      fails in a read-only mirror. Only forgetting succeeds, so that a copy whose record is gone can be removed
 * batch for one store   is atomic, since that store applies it as one batch
 * for several stores    is first checked as a whole; if the check fails, nothing is written. Then it is written store by store. If
 *                       one store fails, the writes to earlier stores are rolled back, unless the process crashes in between.
 *                       Purges cannot be rolled back, so they are written last
 * ```
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as MemoryError from "../../../domain/MemoryError.ts"
import { type MemoryId, stableId } from "../../../domain/MemoryId.ts"
import type { MemoryKind } from "../../../domain/MemoryKind.ts"
import { type Applied, inverse, isPurge, type MemoryMutation } from "../../../domain/MemoryMutation.ts"
import type { Draft } from "../../../domain/MemoryRecord.ts"
import { isInternal } from "../../../domain/MemoryScope.ts"
import { check } from "../../../domain/Validation.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import * as Analyzer from "../../../ranking/Analyzer.ts"
import type { Provenance, Stored } from "../../MemoryStore.ts"
import { entryOf } from "../../Revision.ts"
import { Mutations } from "../internal/Transaction.ts"
import * as Transaction from "../internal/Transaction.ts"
import type * as Replication from "./Replication.ts"
import * as StoreRegistry from "./StoreRegistry.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The stores to which a call writes new records. */
export interface Home {
  readonly primary: StoreRegistry.Member
  /**
   * Whether all new records go to `primary`. Rows with the library's own state then go to `primary`, too. If another store has a row with
   * the same id, that is a different row.
   */
  readonly isOnly: boolean
  readonly of: (draft: Draft) => Io<StoreRegistry.Member>
}

/** The write operation of a federation. */
export interface WriteRouter {
  /** Writes a batch. Fails with `read_only` if `home` is `undefined`. */
  readonly write: (
    op: string,
    members: StoreRegistry.Members,
    home: Home | undefined,
    viewer: Viewer.Any,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: Provenance
  ) => Io<ReadonlyArray<Applied>>
}

/** Makes the router of a federation's writes. */
export const make = (
  kinds: ReadonlyMap<string, MemoryKind>,
  replication: Replication.Replication
): Effect.Effect<WriteRouter> =>
  Effect.gen(function*() {
    const locks = yield* Effect.replicateEffect(Effect.makeSemaphore(1), stripes)
    const mirroring = yield* Effect.makeSemaphore(1)
    /**
     * Runs an effect while holding the locks of these ids. Even ids without a row are locked, so that no other writer creates such a row
     * meanwhile. All ids share 64 locks (stripes). These locks make writers wait for each other only if their ids share a lock.
     */
    const withIdLocks =
      (ids: ReadonlyArray<MemoryId | undefined>) => <A, E>(self: Effect.Effect<A, E>): Effect.Effect<A, E> =>
        Array.from(new Set(ids.flatMap((id) => id === undefined ? [] : [stripeOf(id)])))
          .sort((a, b) => b - a) // the lowest lock is taken first. All writers take locks in ascending order, so there is no deadlock
          .reduce((self, stripe) => locks[stripe]!.withPermits(1)(self), self)

    const write: WriteRouter["write"] = (op, members, home, viewer, mutations, provenance = {}) =>
      Effect.gen(function*() {
        if (home === undefined) {
          return yield* MemoryError.make("read_only", { op, message: "none of the stores takes writes" })
        }
        const batch = (yield* check(op, Mutations, { mutations, ...provenance })).mutations
        return yield* Effect.gen(function*() {
          const copyEpoch = replication.copyEpoch()
          const ids = Array.from(new Set(batch.map(idOf).filter((id) => id !== undefined)))
          const located = yield* StoreRegistry.locate(members, Viewer.tenantOf(viewer), ids)
          const parts = yield* partsOf(op, located, home, viewer, batch)
          return yield* Effect.uninterruptible(
            applyAndReplicate(op, members, parts, viewer, batch, provenance, { ...located, copyEpoch })
          )
        }).pipe(withIdLocks(batch.map(idOf)))
      })

    const applyAndReplicate = (
      op: string,
      members: StoreRegistry.Members,
      parts: ReadonlyArray<Part>,
      viewer: Viewer.Any,
      batch: ReadonlyArray<MemoryMutation>,
      provenance: Provenance,
      located: Replication.Before
    ) =>
      Effect.gen(function*() {
        const applied: Array<Applied> = []
        const written: Array<Replication.Written> = []
        const answers = yield* apply(op, kinds, parts, viewer, batch, provenance, located)
        parts.forEach(({ member, indexes }, n) =>
          answers[n]!.forEach((one, i) => {
            applied[indexes[i]!] = one
            written.push({ applied: one, member, mutation: batch[indexes[i]!]! })
          })
        )
        // copies are written batch by batch, in the order of the batches
        const copied = replication.follow(members, Viewer.tenantOf(viewer), written, located)
        yield* members.some(({ mirror }) => mirror !== undefined) ? mirroring.withPermits(1)(copied) : Effect.void
        return applied
      })

    return { write } satisfies WriteRouter
  })

/** Number of locks that all ids share. Writers of ids with the same lock wait for each other. */
const stripes = 64
const stripeOf = (id: MemoryId): number =>
  Array.from(id).reduce((sum, letter) => sum * 31 + letter.charCodeAt(0) | 0, 0) & (stripes - 1)

/** Groups the mutations by store. Groups that can be rolled back come first. */
const partsOf = (
  op: string,
  located: StoreRegistry.Located,
  home: Home,
  viewer: Viewer.Any,
  batch: ReadonlyArray<MemoryMutation>
): Io<ReadonlyArray<Part>> =>
  Effect.gen(function*() {
    const ids = batch.map(idOf)
    const homes = new Map<MemoryId, StoreRegistry.Member>()
    if (home.isOnly) { for (const id of yield* internal(home.primary, located, batch)) homes.set(id, home.primary) }
    const parts = new Map<StoreRegistry.Member, Part>()
    const targets: Array<StoreRegistry.Member | undefined> = []
    for (const [n, mutation] of batch.entries()) {
      const id = ids[n]
      const ownership = id === undefined ? undefined : located.ownerOf(id)
      // a change of a hidden record is routed like a change of a missing record, so that the viewer cannot tell them apart
      const isHidden = mutation._tag !== "Put" && ownership?.record && !Viewer.sees(viewer, ownership.record.scope)
      const owner = ownership === undefined || isHidden ? undefined : homes.get(id!) ?? (yield* ownerToWrite(ownership))
      const mayWrite = owner !== undefined &&
        (owner.writable || (owner.mirror !== undefined && mutation._tag === "Forget"))
      if (owner !== undefined && !mayWrite) yield* refused(op, owner, located, viewer, mutation)
      const target = mayWrite
        ? owner
        : mutation._tag !== "Put" || isInternal(mutation.draft.scope)
        ? undefined
        : yield* home.of(mutation.draft)
      if (id !== undefined && target !== undefined && mutation._tag === "Put") homes.set(id, target)
      targets.push(target)
    }
    const fallback = targets.find((target) => target !== undefined) ?? home.primary
    targets.forEach((target = fallback, n) => {
      const part = parts.get(target) ?? { member: target, indexes: [] }
      parts.set(target, part)
      part.indexes.push(n)
    })
    return Array.from(parts.values()).sort((a, b) =>
      Number(isIrreversible(a, batch)) - Number(isIrreversible(b, batch))
    )
  })

/**
 * Returns the ids in a batch that belong to rows with the library's own state. Either the batch itself puts such a row, or the primary has
 * such a row.
 */
const internal = (
  primary: StoreRegistry.Member,
  located: StoreRegistry.Located,
  batch: ReadonlyArray<MemoryMutation>
) =>
  Effect.gen(function*() {
    const puts = batch.flatMap((mutation) =>
      mutation._tag === "Put" && mutation.draft.id !== undefined && isInternal(mutation.draft.scope)
        ? [mutation.draft.id]
        : []
    )
    const ids = batch.flatMap((mutation) => mutation._tag === "Put" ? [] : [mutation.id])
    const rows = ids.length === 0 ? undefined : yield* located.rows.get(primary)! // `located` contains the answer of every member
    return [...puts, ...ids.filter((id) => isInternal(rows?.get(id)?.record.scope ?? {}))]
  })

/**
 * Returns the member that has an id. Fails if a member that may have the id did not answer, because no id may be written to two stores.
 * Failures of read-only mirrors are ignored, since the federation writes only copies to them.
 */
const ownerToWrite = ({ owner, unanswered }: StoreRegistry.Ownership): Io<StoreRegistry.Member | undefined> =>
  unanswered.find(({ member }) => member.writable || member.mirror === undefined)?.error ?? Effect.succeed(owner)

/**
 * Fails if a mutation changes a record in a read-only member. If the viewer does not see the record, a put fails, because its id is taken;
 * other changes count as changes of a missing record. A put may use the id of a forgotten copy in a mirror. Such a copy may outlive its
 * record, because each store has its own `trash` time.
 */
const refused = (
  op: string,
  member: StoreRegistry.Member,
  located: StoreRegistry.Located,
  viewer: Viewer.Any,
  mutation: MemoryMutation
): Io<void> =>
  Effect.gen(function*() {
    const id = idOf(mutation)!
    const { mirror, name, store } = member
    const rows = yield* located.rows.get(member)! // `located` contains the answer of every member
    const isLeft = mutation._tag === "Put" && mirror !== undefined && rows.get(id)?.forgotten === true
    const [found] = yield* store.get(viewer, [id])
    if (!isLeft && Option.isSome(found!)) {
      return yield* MemoryError.make("read_only", { op, id, message: `${name} is read-only` })
    }
    if (mutation._tag === "Put" && (mutation.ifRevision ?? 0) > 0) {
      const expected = mutation.ifRevision ?? 0
      const message = `expected revision ${expected}, found 0`
      return yield* MemoryError.make("conflict", { op, id, message, detail: { expected, actual: 0 } })
    }
    if (mutation._tag === "Put" && !isLeft) {
      return yield* MemoryError.make("invalid_id", { op, id, message: "this id cannot be used" })
    }
  })

/** Whether a part of a batch cannot be rolled back: it purges a record, or its store has no history and one of its mutations has an id. */
const isIrreversible = ({ member, indexes }: Part, batch: ReadonlyArray<MemoryMutation>): boolean =>
  indexes.some((n) => {
    const mutation = batch[n]!
    return isPurge(mutation) || idOf(mutation) !== undefined && !member.store.capabilities.history
  })

/** The mutations of a batch for one store. `indexes` are their positions in the batch. */
interface Part {
  readonly member: StoreRegistry.Member
  readonly indexes: Array<number>
}

/** Returns the id that a mutation names; `undefined` for a put of a draft without an id. */
const idOf = (mutation: MemoryMutation): MemoryId | undefined =>
  mutation._tag === "Put" ? mutation.draft.id : mutation.id

/** Applies all parts or none, except after a crash or if `undo` cannot roll back a part. Each part is atomic in its store. */
const apply = (
  op: string,
  kinds: ReadonlyMap<string, MemoryKind>,
  parts: ReadonlyArray<Part>,
  viewer: Viewer.Any,
  batch: ReadonlyArray<MemoryMutation>,
  provenance: Provenance,
  located: StoreRegistry.Located
): Io<ReadonlyArray<ReadonlyArray<Applied>>> =>
  Effect.gen(function*() {
    if (parts.length > 1) yield* checkWhole(op, kinds, parts, viewer, batch, provenance, located)
    const answers: Array<ReadonlyArray<Applied>> = []
    for (const { member, indexes } of parts) {
      const exit = yield* Effect.exit(member.store.apply(viewer, indexes.map((n) => batch[n]!), provenance))
      if (Exit.isFailure(exit)) {
        yield* undo(parts.slice(0, answers.length), answers, viewer, batch, provenance)
        return yield* Effect.failCause(exit.cause)
      }
      answers.push(exit.value)
    }
    return answers
  })

/**
 * Checks a batch for several stores before anything is written. Fails with the first error of the batch. Duplicates are not checked here;
 * each store looks for duplicates when it writes.
 */
const checkWhole = (
  op: string,
  kinds: ReadonlyMap<string, MemoryKind>,
  parts: ReadonlyArray<Part>,
  viewer: Viewer.Any,
  batch: ReadonlyArray<MemoryMutation>,
  provenance: Provenance,
  located: StoreRegistry.Located
): Io<void> =>
  Effect.gen(function*() {
    const tenant = Viewer.tenantOf(viewer)
    const rows = new Map<MemoryId, Stored>()
    const past = new Map<MemoryId, ReadonlyArray<Stored>>()
    const historic = new Set<MemoryId>()
    for (const { member, indexes } of parts) {
      const ids = Array.from(new Set(indexes.map((n) => idOf(batch[n]!)).filter((id) => id !== undefined)))
      const found = yield* located.rows.get(member)! // `located` contains the answer of every member
      if (member.store.capabilities.history) { for (const id of ids) historic.add(id) }
      for (const id of ids) {
        const row = found.get(id)
        if (row) rows.set(id, row)
      }
      for (const n of indexes) {
        const mutation = batch[n]!
        if (mutation._tag === "Restore") {
          past.set(mutation.id, yield* StoreRegistry.revisionsOf(member, tenant, mutation.id))
        }
      }
    }
    const plan = Transaction.plan({
      op,
      viewer,
      provenance,
      kinds,
      entryOf: entryOf(yield* Analyzer.Analyzer),
      keys: [],
      mutations: batch.map((mutation, n) => [idOf(mutation) ?? stableId(`federated ${n}`), mutation]),
      hasHistory: (id) => historic.has(id)
    })
    yield* plan.decide({ now: yield* Clock.currentTimeMillis, rows, byDedupeKey: new Map(), revisions: past })
  })

/**
 * Rolls back the parts that were written. A purge cannot be rolled back, nor can earlier mutations of the purged record. Failures are only
 * logged, so that the caller receives the original error.
 */
const undo = (
  parts: ReadonlyArray<Part>,
  answers: ReadonlyArray<ReadonlyArray<Applied>>,
  viewer: Viewer.Any,
  batch: ReadonlyArray<MemoryMutation>,
  provenance: Provenance
): Effect.Effect<void> =>
  Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    for (const [n, part] of parts.entries()) {
      const { member } = part
      const mutations = inverse(reversible(part, answers[n]!, batch), now)
      yield* Effect.catchAll(
        member.store.apply(Viewer.system(viewer.tenant), mutations, provenance),
        (error) => Effect.logError(`${member.name}: half a batch could not be taken back`, error)
      )
    }
  })

/** Returns the results of a part that can be rolled back: those of records that the part does not purge later. */
const reversible = (
  { indexes }: Part,
  answers: ReadonlyArray<Applied>,
  batch: ReadonlyArray<MemoryMutation>
): ReadonlyArray<Applied> => {
  const purges = new Map(indexes.flatMap((n, i) => isPurge(batch[n]!) ? [[idOf(batch[n]!), i] as const] : []))
  return answers.filter(({ id }, i) => i > (purges.get(id) ?? -1))
}
