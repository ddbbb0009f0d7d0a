/**
 * A batch, taken to the stores it is about.
 *
 * ```text
 * Put of a new record      where the route says, else to the primary; the library's own row to where the batch goes
 * a change, by id          to the store that has the id; where none has, to where the batch goes, which says so
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
import * as Viewer from "../../../domain/Viewer.ts"
import * as Batch from "../../Batch.ts"
import * as Below from "../../Below.ts"
import { check } from "../../Check.ts"
import type { Provenance, Stored } from "../../MemoryStore.ts"
import { Mutations } from "../../Rows.ts"
import type { Copying } from "./Copying.ts"
import * as Members from "./Members.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Where new records go. */
export interface Home {
  readonly primary: Members.Member
  readonly of: (draft: Draft) => Io<Members.Member>
}

/** What one store is to do; `places` are those in the batch. */
interface Part {
  readonly member: Members.Member
  readonly places: Array<number>
}

export interface Writing {
  /** Without a `home` nothing can be written. */
  readonly write: (
    op: string,
    members: Members.Members,
    home: Home | undefined,
    viewer: Viewer.Any,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: Provenance
  ) => Io<ReadonlyArray<Applied>>
}

export const make = (
  kinds: ReadonlyMap<string, MemoryKind>,
  copying: Copying
): Effect.Effect<Writing> =>
  Effect.map(Effect.makeSemaphore(1), (writing): Writing => {
    const write: Writing["write"] = (op, members, home, viewer, mutations, provenance = {}) =>
      Effect.gen(function*() {
        if (home === undefined) {
          return yield* MemoryError.make("read_only", { op, message: "none of the stores takes writes" })
        }
        const batch = (yield* check(op, Mutations, { mutations, ...provenance })).mutations
        const parts = yield* parted(op, members, home, viewer, batch)
        return yield* Effect.gen(function*() {
          const applied: Array<Applied> = []
          const written: Array<readonly [Applied, Members.Member]> = []
          const answers = yield* batchwise(op, parts, viewer, batch, provenance)
          parts.forEach(({ member, places }, n) =>
            answers[n]!.forEach((one, i) => {
              applied[places[i]!] = one
              written.push([one, member])
            })
          )
          yield* copying.follow(members, Viewer.tenantOf(viewer), written)
          return applied
        }).pipe(Effect.uninterruptible)
      }).pipe(writing.withPermits(1))

    const batchwise = (
      op: string,
      parts: ReadonlyArray<Part>,
      viewer: Viewer.Any,
      batch: ReadonlyArray<MemoryMutation>,
      provenance: Provenance
    ) =>
      Effect.gen(function*() {
        if (parts.length > 1) yield* wouldBe(op, kinds, parts, viewer, batch, provenance)
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

    return { write }
  })

/** Which store each mutation is for; what can be put back comes first. */
const parted = (
  op: string,
  members: Members.Members,
  home: Home,
  viewer: Viewer.Any,
  batch: ReadonlyArray<MemoryMutation>
): Io<ReadonlyArray<Part>> =>
  Effect.gen(function*() {
    const ids = batch.map(idOf)
    const held = yield* Members.find(members, viewer, Array.from(new Set(ids.filter((id) => id !== undefined))))
    const homes = new Map<MemoryId, Members.Member>()
    const parts = new Map<Members.Member, Part>()
    const targets: Array<Members.Member | undefined> = []
    for (const [n, mutation] of batch.entries()) {
      const id = ids[n]
      const at = id === undefined ? undefined : homes.get(id) ?? (yield* surely(held(id)))
      const takes = at !== undefined && (at.writable || (at.mirror !== undefined && mutation._tag === "Forget"))
      if (at !== undefined && !takes) yield* refused(op, at, viewer, mutation)
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

const idOf = (mutation: MemoryMutation) => mutation._tag === "Put" ? mutation.draft.id : mutation.id

/** A writer has to know: what a store before may hold is not written to the next. But what only mirrors is not waited for. */
const surely = ({ by, unsure }: Members.Held): Io<Members.Member | undefined> =>
  unsure !== undefined && (unsure.by.writable || unsure.by.mirror === undefined)
    ? unsure.error
    : Effect.succeed(by)

/** A change of what takes none; what the viewer does not see is absent, and its id taken. */
const refused = (
  op: string,
  { name, store }: Members.Member,
  viewer: Viewer.Any,
  mutation: MemoryMutation
): Io<void> =>
  Effect.gen(function*() {
    const id = idOf(mutation)!
    const [found] = yield* store.get(viewer, [id])
    if (Option.isSome(found!)) return yield* MemoryError.make("read_only", { op, id, message: `${name} is read-only` })
    if (mutation._tag === "Put") {
      return yield* MemoryError.make("invalid_id", { op, id, message: "this id cannot be used" })
    }
  })

/** Whether it could not be put back. */
const isLasting = ({ member, places }: Part, batch: ReadonlyArray<MemoryMutation>): boolean =>
  places.some((n) => {
    const mutation = batch[n]!
    return mutation._tag === "Forget" && mutation.purge === true ||
      idOf(mutation) !== undefined && !member.store.capabilities.history
  })

/** The first refusal of the whole, before any of it is written. Whether a draft is a duplicate is left to its store. */
const wouldBe = (
  op: string,
  kinds: ReadonlyMap<string, MemoryKind>,
  parts: ReadonlyArray<Part>,
  viewer: Viewer.Any,
  batch: ReadonlyArray<MemoryMutation>,
  provenance: Provenance
): Io<void> =>
  Effect.gen(function*() {
    const tenant = Viewer.tenantOf(viewer)
    const rows = new Map<MemoryId, Stored>()
    const past = new Map<MemoryId, ReadonlyArray<Stored>>()
    for (const { member, places } of parts) {
      const { read, revisions } = Below.make(member.store, kinds)
      const ids = Array.from(new Set(places.map((n) => idOf(batch[n]!)).filter((id) => id !== undefined)))
      const found = yield* read(tenant, ids)
      for (const [n, row] of found.entries()) if (Option.isSome(row)) rows.set(ids[n]!, row.value)
      for (const n of places) {
        const mutation = batch[n]!
        if (mutation._tag === "Restore") past.set(mutation.id, yield* revisions(tenant, mutation.id, 1_000))
      }
    }
    yield* Batch.plan({
      op,
      viewer,
      provenance,
      kinds,
      rows,
      now: yield* Clock.currentTimeMillis,
      mutations: batch.map((mutation, n) => [idOf(mutation) ?? stableId(`federated ${n}`), mutation]),
      holder: () => undefined,
      revision: (id, revision) =>
        past.get(id)?.find((row) => row.record.revision === revision && !row.forgotten)?.record
    })
  })

/** What was purged is gone. Nothing that fails here hides why it had to be. */
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
