/**
 * A batch in parts, one for each store: what any of them would refuse is refused before anything is written; then store
 * by store, and where one fails those before are put back as they were.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import { type MemoryId, stableId } from "../../../domain/MemoryId.ts"
import type { MemoryKind } from "../../../domain/MemoryKind.ts"
import { type Applied, inverse, type MemoryMutation } from "../../../domain/MemoryMutation.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import * as Analyzer from "../../../ranking/Analyzer.ts"
import { entryOf } from "../../internal/Entry.ts"
import * as TransactionPlan from "../../internal/TransactionPlan.ts"
import type { Provenance, Stored } from "../../MemoryStore.ts"
import * as Members from "./Members.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** What one store is to do; `places` are those in the batch. */
export interface Part {
  readonly member: Members.Member
  readonly places: Array<number>
}

/** What a mutation names; a new record nothing. */
export const idOf = (mutation: MemoryMutation): MemoryId | undefined =>
  mutation._tag === "Put" ? mutation.draft.id : mutation.id

/** All of it or nothing, but for a crash in between. One store: its own atomicity. */
export const apply = (
  op: string,
  kinds: ReadonlyMap<string, MemoryKind>,
  parts: ReadonlyArray<Part>,
  viewer: Viewer.Any,
  batch: ReadonlyArray<MemoryMutation>,
  provenance: Provenance,
  located: Members.Located
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

/** The first refusal of the whole, before any of it is written. Whether a draft is a duplicate is left to its store. */
const wouldBe = (
  op: string,
  kinds: ReadonlyMap<string, MemoryKind>,
  parts: ReadonlyArray<Part>,
  viewer: Viewer.Any,
  batch: ReadonlyArray<MemoryMutation>,
  provenance: Provenance,
  located: Members.Located
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
        if (mutation._tag === "Restore") past.set(mutation.id, yield* Members.revisionsOf(member, tenant, mutation.id))
      }
    }
    const plan = TransactionPlan.make({
      op,
      viewer,
      provenance,
      kinds,
      entryOf: entryOf(yield* Analyzer.Analyzer),
      mutations: batch.map((mutation, n) => [idOf(mutation) ?? stableId(`federated ${n}`), mutation]),
      hasHistory: (id) => historic.has(id)
    })
    yield* plan.decide({ now: yield* Clock.currentTimeMillis, rows, holders: new Map(), revisions: past })
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
