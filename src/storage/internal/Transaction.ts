/** Batches of mutations, applied by an engine. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { MemoryKind } from "../../domain/MemoryKind.ts"
import { type Applied, MemoryMutation } from "../../domain/MemoryMutation.ts"
import { Origin, Trust } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { check } from "../Check.ts"
import type { Engine, Entry } from "../Engine.ts"
import type { Provenance, Stored } from "../MemoryStore.ts"
import type * as Minting from "../Minting.ts"
import * as TransactionPlan from "./TransactionPlan.ts"

/** What a batch is held against before anything looks at it. */
export const Mutations = Schema.Struct({
  mutations: Schema.Array(MemoryMutation),
  origin: Schema.optional(Origin),
  trust: Schema.optional(Trust)
})

export interface Dependencies {
  /** What errors call the store. */
  readonly name: string
  readonly engine: Pick<Engine, "capabilities" | "transact">
  readonly kinds: ReadonlyMap<string, MemoryKind>
  readonly minting: Minting.Service
  readonly entryOf: (stored: Stored) => Entry
}

/**
 * Applies a batch: all of it, in the order given, or nothing. One transaction with one read, and another where minted ids
 * turn out to be taken.
 */
export const apply = (
  { engine, entryOf, kinds, minting, name }: Dependencies,
  op: string,
  viewer: Viewer.Any,
  mutations: ReadonlyArray<MemoryMutation>,
  provenance: Provenance = {}
): Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { history, writable } = engine.capabilities
    if (!writable) return yield* MemoryError.make("read_only", { op, message: `${name} takes no writes` })
    const checked = yield* check(op, Mutations, { mutations, ...provenance })
    const tenant = Viewer.tenantOf(viewer)
    let ids: ReadonlyArray<MemoryId | undefined> = checked.mutations.map((mutation) =>
      mutation._tag === "Put" ? mutation.draft.id : mutation.id
    )
    for (;;) {
      const minted = yield* Effect.forEach(ids, (id) => id === undefined ? minting.next(tenant) : Effect.succeed(id))
      const { decide, needs } = TransactionPlan.make({
        op,
        viewer,
        provenance,
        kinds,
        entryOf,
        mutations: checked.mutations.map((mutation, n) => [minted[n]!, mutation]), // an id each
        hasHistory: () => history
      })
      const outcome = yield* engine.transact(tenant, needs, decide)
      if (outcome._tag === "Applied") return outcome.applied
      ids = minted.map((id) => outcome.ids.has(id) ? undefined : id)
    }
  })
