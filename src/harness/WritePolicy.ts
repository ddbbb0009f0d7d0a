/**
 * A layer over a store: holds its writes to the rules of the spec, and publishes an event for each change, done or failed.
 * Reads pass through.
 *
 * ```text
 * globalWrites: "deny"   no write changes, restores or purges a Global record: `not_owned`
 * sharedWrites           a model's write stays within the scopes of `Sharing.mayWrite`: `not_owned` for a record that is
 *                        there, `invalid_scope` for a draft
 * ```
 *
 * The store below refuses records that the viewer does not see, or that are read-only.
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { MemoryMutation } from "../domain/MemoryMutation.ts"
import type { MemoryRecord, Origin } from "../domain/MemoryRecord.ts"
import { Global, type MemoryScope } from "../domain/MemoryScope.ts"
import * as Sharing from "../domain/Sharing.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as EventPublisher from "./EventPublisher.ts"
import { MemoryEvents } from "./MemoryEvents.ts"
import type { MemorySpec } from "./MemorySpec.ts"
import * as OutboxLog from "./Outbox/OutboxLog.ts"

/** The rules that writes are held to. */
export interface WriteRules extends Pick<MemorySpec, "globalWrites" | "sharedWrites"> {}

export interface Options {
  readonly rules: WriteRules
  readonly events: EventPublisher.EventPublisher
  /** Origin of the writes. `agent` and `pipeline` stand for a model, which `sharedWrites` binds. Default `user`: harness code. */
  readonly origin?: Origin | undefined
  /** Name of the call in refusals. Default: the store's own. */
  readonly op?: string | undefined
}

/** Wraps a store. */
export const make = (store: MemoryStore.Service, policy: Options): MemoryStore.Service => ({
  ...store,
  apply: (viewer, mutations, provenance) =>
    policy.events.write(
      viewer,
      Effect.zipRight(
        check(store, policy, "apply", viewer, () => touchedBy(mutations)),
        store.apply(viewer, mutations, provenance)
      ),
      (applied) => applied.map((change, i) => ({ ...change, purged: isPurge(mutations[i]) }))
    ),
  put: (viewer, drafts, options) =>
    policy.events.write(
      viewer,
      Effect.zipRight(
        check(store, policy, "put", viewer, () => ({
          ids: drafts.flatMap(({ id }) => id ?? []),
          scopes: drafts.map(({ scope }) => scope)
        })),
        store.put(viewer, drafts, options)
      ),
      EventPublisher.changesOf
    ),
  update: (viewer, id, patch, options) =>
    policy.events.write(
      viewer,
      Effect.zipRight(
        check(store, policy, "update", viewer, () => ({ ids: [id] })),
        store.update(viewer, id, patch, options)
      ),
      (record) => [{ id, outcome: "updated", record }]
    ),
  forget: (viewer, ids, { purge = false } = {}) =>
    policy.events.write(
      viewer,
      Effect.zipRight(
        check(store, policy, "forget", viewer, () => ({ ids, past: purge ? ids.map((id) => ({ id })) : [] })),
        store.forget(viewer, ids, { purge })
      ),
      (there) => ids.map((id, i) => ({ id, outcome: there[i] ? "forgotten" : "absent", purged: purge }))
    )
})

/** Wraps the store that is there. Publishes to `MemoryEvents` where there is one. */
export const layer = (rules: WriteRules): Layer.Layer<MemoryStore.MemoryStore, never, MemoryStore.MemoryStore> =>
  Layer.effect(
    MemoryStore.MemoryStore,
    Effect.gen(function*() {
      const listeners = yield* Effect.serviceOption(MemoryEvents)
      const publish = Option.match(listeners, { onNone: () => () => Effect.void, onSome: ({ publish }) => publish })
      return make(yield* MemoryStore.MemoryStore, { rules, events: EventPublisher.make(publish) })
    })
  )

/** Fails with `not_owned` if the rules close the scope to everybody. */
export const mayWrite = (
  { globalWrites }: WriteRules,
  op: string,
  scope: MemoryScope
): Effect.Effect<void, MemoryError.MemoryError> =>
  globalWrites === "deny" && scope === Global ? deniedGlobal(op) : Effect.void

/**
 * Forgets all records that the filter means and the viewer may forget, in batches of 1,000, and returns how many were
 * there. `purge` first erases what the viewer's conversations wait to have extracted, so that none of it becomes a memory
 * meanwhile, and then tombstones too.
 */
export const forgetAll = (
  store: MemoryStore.Service,
  { events, rules }: Pick<Options, "events" | "rules">,
  viewer: Viewer.Viewer,
  filter: MemoryFilter,
  { purge = false }: { readonly purge?: boolean | undefined } = {}
): Effect.Effect<number, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    if (purge && OutboxLog.isMeant(filter)) yield* OutboxLog.purge(store, viewer, filter.scope)
    const governed = make(store, { rules, events, op: "forgetAll" })
    // the library is shown what is closed, not yet true or expired as well: that is about somebody too
    const system = Viewer.system(viewer.tenant)
    const isClosed = ({ scope, source }: MemoryRecord) =>
      source.origin === "instructions" || (rules.globalWrites === "deny" && scope === Global)
    const forgetEach = (forgotten: boolean) =>
      store.stream(system, { ...filter, forgotten, limit: 1_000, after: undefined }).pipe(
        Stream.filter((record) => Viewer.sees(viewer, record.scope) && !isClosed(record)),
        Stream.map(({ id }) => id),
        Stream.grouped(1_000),
        Stream.runCollect,
        Effect.flatMap(Effect.forEach((ids) => governed.forget(viewer, Chunk.toReadonlyArray(ids), { purge })))
      )
    const there = filter.forgotten === true ? [] : yield* forgetEach(false)
    // what was forgotten before is a tombstone still
    if (purge) yield* forgetEach(true)
    return there.flat().filter(Boolean).length
  })

/** The records, scopes and revisions that a write touches. */
interface Touched {
  /** Records that are changed. */
  readonly ids: ReadonlyArray<MemoryId>
  /** Scopes of drafts. */
  readonly scopes?: ReadonlyArray<MemoryScope>
  /** Revisions that come back or go for good; without a number, the newest one. */
  readonly past?: ReadonlyArray<{ readonly id: MemoryId; readonly revision?: number }>
}

const touchedBy = (mutations: ReadonlyArray<MemoryMutation>): Touched => ({
  ids: mutations.flatMap((mutation) => mutation._tag === "Put" ? mutation.draft.id ?? [] : mutation.id),
  scopes: mutations.flatMap((mutation) => mutation._tag === "Put" ? [mutation.draft.scope] : []),
  past: mutations.flatMap((mutation) =>
    mutation._tag === "Restore"
      ? [{ id: mutation.id, revision: mutation.revision }]
      : isPurge(mutation)
      ? [{ id: mutation.id }]
      : []
  )
})

const isPurge = (mutation: MemoryMutation | undefined): mutation is Extract<MemoryMutation, { _tag: "Forget" }> =>
  mutation?._tag === "Forget" && mutation.purge === true

/** Fails where the rules forbid the write. Reads the records that are touched, unless no rule can forbid it. */
const check = (
  store: MemoryStore.Service,
  { op: named, origin, rules }: Options,
  called: string,
  viewer: Viewer.Any,
  touched: () => Touched
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const op = named ?? called
    const isModels = origin === "agent" || origin === "pipeline"
    if (rules.globalWrites !== "deny" && !isModels) return
    const { ids, past = [], scopes = [] } = touched()
    const isClosed = (scope: MemoryScope) => isModels && !Sharing.mayWrite(viewer, scope, rules.sharedWrites)
    const standing = ({ scope, source }: MemoryRecord) =>
      source.origin === "instructions"
        ? Effect.void
        : Effect.zipRight(mayWrite(rules, op, scope), isClosed(scope) ? closedRecord(op) : Effect.void)

    yield* Effect.forEach(Array.from(yield* store.get(viewer, ids), Option.toArray).flat(), standing)
    for (const scope of scopes) {
      yield* mayWrite(rules, op, scope)
      if (Viewer.sees(viewer, scope) && isClosed(scope)) return yield* closedScope(op)
    }
    for (const { id, revision } of past) {
      const revisions = yield* store.history(Viewer.system(viewer.tenant), id, 1_000)
      const visible = revisions[0] !== undefined && Viewer.sees(viewer, revisions[0].scope) // else it is not there
      const meant = revision === undefined ? revisions[0] : revisions.find((found) => found.revision === revision)
      if (visible && meant) yield* standing(meant)
    }
  })

const deniedGlobal = (op: string) =>
  MemoryError.make("not_owned", {
    op,
    message: "Global memory may not be changed: globalWrites of the spec is \"deny\""
  })
const closedRecord = (op: string) => MemoryError.make("not_owned", { op, message: `the record is shared: ${closed}` })
const closedScope = (op: string) => MemoryError.make("invalid_scope", { op, message: `the scope is shared: ${closed}` })
const closed =
  "a model writes only scopes that hold the user, or every id of a viewer without one; sharedWrites of the spec opens more"
