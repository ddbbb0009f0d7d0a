/**
 * Takes each mutation of a batch to the store that it is about.
 *
 * ```text
 * Put of a new record      where the route says, else to the primary; the library's own row to where the batch goes
 * a change, by id          to the store that has the id; where none has, or the viewer does not see it, to where the
 *                          batch goes, which says so
 * of a mirror's own        nothing but to forget it: a copy whose record is gone can be got rid of
 * one store                its own atomicity
 * several                  what any of them would refuse is refused before anything is written; then store by store, and
 *                          where one fails those before are put back as they were: not after a crash in between, nor
 *                          what was purged, which comes last
 * ```
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as MemoryError from "../../../domain/MemoryError.ts"
import { type MemoryId, stableId } from "../../../domain/MemoryId.ts"
import type { MemoryKind } from "../../../domain/MemoryKind.ts"
import { type Applied, inverse, type MemoryMutation } from "../../../domain/MemoryMutation.ts"
import type { Draft } from "../../../domain/MemoryRecord.ts"
import { isInternal } from "../../../domain/MemoryScope.ts"
import { check } from "../../../domain/Validation.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import * as Analyzer from "../../../ranking/Analyzer.ts"
import { type Provenance, type Stored } from "../../MemoryStore.ts"
import { entryOf } from "../../Revision.ts"
import { Mutations } from "../internal/Transaction.ts"
import * as Transaction from "../internal/Transaction.ts"
import type * as Replication from "./Replication.ts"
import * as StoreRegistry from "./StoreRegistry.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The store that new records of a call go to. */
export interface Home {
  readonly primary: StoreRegistry.Member
  /** Whether internal rows are looked for in the primary alone, where the same id in another store is another row. */
  readonly isOnly: boolean
  readonly of: (draft: Draft) => Io<StoreRegistry.Member>
}

/** The writes of a federation. */
export interface WriteRouter {
  /** Writes a batch. Fails with `read_only` without a `home`. */
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
  copying: Replication.Replication
): Effect.Effect<WriteRouter> =>
  Effect.gen(function*() {
    const locks = yield* Effect.replicateEffect(Effect.makeSemaphore(1), stripes)
    const mirroring = yield* Effect.makeSemaphore(1)
    /** Runs an effect alone with these ids, so that an absent one stays so until it is written. Other ids are not held up. */
    const alone =
      (ids: ReadonlyArray<MemoryId | undefined>) => <A, E>(self: Effect.Effect<A, E>): Effect.Effect<A, E> =>
        Array.from(new Set(ids.flatMap((id) => id === undefined ? [] : [stripeOf(id)])))
          .sort((a, b) => b - a) // the lowest is the outermost, and taken first
          .reduce((self, stripe) => locks[stripe]!.withPermits(1)(self), self)

    const write: WriteRouter["write"] = (op, members, home, viewer, mutations, provenance = {}) =>
      Effect.gen(function*() {
        if (home === undefined) {
          return yield* MemoryError.make("read_only", { op, message: "none of the stores takes writes" })
        }
        const batch = (yield* check(op, Mutations, { mutations, ...provenance })).mutations
        return yield* Effect.gen(function*() {
          const moment = copying.moment()
          const ids = Array.from(new Set(batch.map(idOf).filter((id) => id !== undefined)))
          const located = yield* StoreRegistry.locate(members, Viewer.tenantOf(viewer), ids)
          const parts = yield* parted(op, located, home, viewer, batch)
          return yield* Effect.uninterruptible(
            written(op, members, parts, viewer, batch, provenance, { ...located, moment })
          )
        }).pipe(alone(batch.map(idOf)))
      })

    const written = (
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
        const told: Array<Replication.Written> = []
        const answers = yield* apply(op, kinds, parts, viewer, batch, provenance, located)
        parts.forEach(({ member, places }, n) =>
          answers[n]!.forEach((one, i) => {
            applied[places[i]!] = one
            told.push({ applied: one, holder: member, mutation: batch[places[i]!]! })
          })
        )
        // one at a time, so that what is copied last is what was written last
        const copied = copying.follow(members, Viewer.tenantOf(viewer), told, located)
        yield* members.some(({ mirror }) => mirror !== undefined) ? mirroring.withPermits(1)(copied) : Effect.void
        return applied
      })

    return { write } satisfies WriteRouter
  })

/** Number of stripes that ids are locked by; two ids of one stripe wait for each other. */
const stripes = 64
const stripeOf = (id: MemoryId): number =>
  Array.from(id).reduce((sum, letter) => sum * 31 + letter.charCodeAt(0) | 0, 0) & (stripes - 1)

/** Assigns each mutation to a store; those that can be put back come first. */
const parted = (
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
      const there = id === undefined ? undefined : located.held(id)
      // a change of what the viewer does not see goes the way of a change of nothing, so that nothing tells them apart
      const isHidden = mutation._tag !== "Put" && there?.record && !Viewer.sees(viewer, there.record.scope)
      const at = there === undefined || isHidden ? undefined : homes.get(id!) ?? (yield* surely(there))
      const takes = at !== undefined && (at.writable || (at.mirror !== undefined && mutation._tag === "Forget"))
      if (at !== undefined && !takes) yield* refused(op, at, located, viewer, mutation)
      const target = takes
        ? at
        : mutation._tag !== "Put" || isInternal(mutation.draft.scope)
        ? undefined
        : yield* home.of(mutation.draft)
      if (id !== undefined && target !== undefined && mutation._tag === "Put") homes.set(id, target)
      targets.push(target)
    }
    const mate = targets.find((target) => target !== undefined) ?? home.primary
    targets.forEach((target = mate, n) => {
      const part = parts.get(target) ?? { member: target, places: [] }
      parts.set(target, part)
      part.places.push(n)
    })
    return Array.from(parts.values()).sort((a, b) => Number(isLasting(a, batch)) - Number(isLasting(b, batch)))
  })

/** Returns the ids of a batch that belong to internal rows: those that are there, and those that it puts. */
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
    const rows = ids.length === 0 ? undefined : yield* located.rows.get(primary)! // every member was asked
    return [...puts, ...ids.filter((id) => isInternal(rows?.get(id)?.record.scope ?? {}))]
  })

/** Returns the holder of an id, or fails where that is unsure: an id may not be written twice. Mirrors are not waited for. */
const surely = ({ by, unsure }: StoreRegistry.Held): Io<StoreRegistry.Member | undefined> =>
  unsure !== undefined && (unsure.by.writable || unsure.by.mirror === undefined)
    ? unsure.error
    : Effect.succeed(by)

/**
 * Refuses a change in a member that takes no writes; a record that the viewer does not see is absent, and its id taken. A copy in the
 * trash of a mirror takes no id, since its record has been erased: a mirror's `trash` may be the longer one.
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
    const rows = yield* located.rows.get(member)! // every member was asked
    const isLeft = mirror !== undefined && rows.get(id)?.forgotten === true
    const [found] = yield* store.get(viewer, [id])
    if (Option.isSome(found!)) return yield* MemoryError.make("read_only", { op, id, message: `${name} is read-only` })
    if (mutation._tag === "Put" && (mutation.ifRevision ?? 0) > 0) {
      const expected = mutation.ifRevision ?? 0
      const message = `expected revision ${expected}, found 0`
      return yield* MemoryError.make("conflict", { op, id, message, detail: { expected, actual: 0 } })
    }
    if (mutation._tag === "Put" && !isLeft) {
      return yield* MemoryError.make("invalid_id", { op, id, message: "this id cannot be used" })
    }
  })

/** Whether a part could not be put back once written. */
const isLasting = ({ member, places }: Part, batch: ReadonlyArray<MemoryMutation>): boolean =>
  places.some((n) => {
    const mutation = batch[n]!
    return mutation._tag === "Forget" && mutation.purge === true ||
      idOf(mutation) !== undefined && !member.store.capabilities.history
  })

/** The mutations for one store; `places` are their places in the batch. */
interface Part {
  readonly member: StoreRegistry.Member
  readonly places: Array<number>
}

/** Returns the id that a mutation names; a new record may have none. */
const idOf = (mutation: MemoryMutation): MemoryId | undefined =>
  mutation._tag === "Put" ? mutation.draft.id : mutation.id

/** Applies all parts or none, except after a crash in between. A single store does it by its own atomicity. */
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
    if (parts.length > 1) yield* wouldBe(op, kinds, parts, viewer, batch, provenance, located)
    const answers: Array<ReadonlyArray<Applied>> = []
    for (const { member, places } of parts) {
      const exit = yield* Effect.exit(member.store.apply(viewer, places.map((n) => batch[n]!), provenance))
      if (Exit.isFailure(exit)) {
        yield* undo(parts.slice(0, answers.length), answers, viewer, provenance)
        return yield* Effect.failCause(exit.cause)
      }
      answers.push(exit.value)
    }
    return answers
  })

/** Finds the first refusal before anything is written. Whether a draft is a duplicate is left to its store. */
const wouldBe = (
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
    for (const { member, places } of parts) {
      const ids = Array.from(new Set(places.map((n) => idOf(batch[n]!)).filter((id) => id !== undefined)))
      const found = yield* located.rows.get(member)! // every member was asked
      if (member.store.capabilities.history) { for (const id of ids) historic.add(id) }
      for (const id of ids) {
        const row = found.get(id)
        if (row) rows.set(id, row)
      }
      for (const n of places) {
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
    yield* plan.decide({ now: yield* Clock.currentTimeMillis, rows, holders: new Map(), revisions: past })
  })

/** Puts back what was written, except purged records, which are gone. Its failures never hide the cause of the undo. */
const undo = (
  parts: ReadonlyArray<Part>,
  answers: ReadonlyArray<ReadonlyArray<Applied>>,
  viewer: Viewer.Any,
  provenance: Provenance
): Effect.Effect<void> =>
  Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    for (const [n, { member }] of parts.entries()) {
      yield* Effect.catchAll(
        member.store.apply(Viewer.system(viewer.tenant), inverse(answers[n]!, now), provenance),
        (error) => Effect.logError(`${member.name}: half a batch could not be taken back`, error)
      )
    }
  })
