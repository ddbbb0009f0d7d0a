/**
 * The writing half of `MemoryService`. Every change is held to the spec's `globalWrites`, and a model's change also to its
 * `sharedWrites`. Every change, done or failed, publishes an event.
 */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import type { Draft, MemoryRecord, Origin, Patch } from "../domain/MemoryRecord.ts"
import { Global, type MemoryScope } from "../domain/MemoryScope.ts"
import * as Sharing from "../domain/Sharing.ts"
import * as Viewer from "../domain/Viewer.ts"
import type * as MemoryStore from "../storage/MemoryStore.ts"
import type * as MemoryEvents from "./MemoryEvents.ts"
import type { MemorySpec } from "./MemorySpec.ts"
import * as OutboxLog from "./Outbox/OutboxLog.ts"

/** The origin of a change. */
export interface Decided {
  /** `agent` and `pipeline` stand for a model, which is held to the spec's `sharedWrites`. Default `user`: harness code. */
  readonly origin?: Origin | undefined
}

export interface Forgetting extends Decided {
  readonly purge?: boolean | undefined
}

/** What changed, for the event. */
type Changed = Pick<Applied, "id" | "outcome" | "record">

export type Writing = ReturnType<typeof make>

export const make = (store: MemoryStore.Service, spec: MemorySpec, publish: MemoryEvents.Service["publish"]) => {
  const denied = spec.globalWrites === "deny"

  const mayWrite = (op: string, scope: MemoryScope): Effect.Effect<void, MemoryError.MemoryError> =>
    denied && scope === Global ? deniedGlobal(op) : Effect.void

  /** Refuses changes that the spec forbids. The store refuses invisible or read-only records and scopes out of sight. */
  const own = (op: string, viewer: Viewer.Viewer, mutations: ReadonlyArray<MemoryMutation>, origin: Origin) =>
    Effect.gen(function*() {
      const isModels = origin === "agent" || origin === "pipeline"
      if (!denied && !isModels) return
      const isClosed = (scope: MemoryScope) => isModels && !Sharing.mayWrite(viewer, scope, spec.sharedWrites)
      const standing = ({ scope, source }: MemoryRecord) =>
        source.origin === "instructions"
          ? Effect.void
          : Effect.zipRight(mayWrite(op, scope), isClosed(scope) ? closedRecord(op) : Effect.void)

      const ids = mutations.flatMap((mutation) => mutation._tag === "Put" ? mutation.draft.id ?? [] : mutation.id)
      yield* Effect.forEach(Array.from(yield* store.get(viewer, ids), Option.toArray).flat(), standing)
      for (const mutation of mutations) {
        if (mutation._tag !== "Put") continue
        const { scope } = mutation.draft
        yield* mayWrite(op, scope)
        if (Viewer.sees(viewer, scope) && isClosed(scope)) return yield* closedScope(op)
      }
      for (const mutation of mutations) {
        const isOfThePast = mutation._tag === "Restore" || (mutation._tag === "Forget" && mutation.purge === true)
        if (!isOfThePast) continue
        const revisions = yield* store.history(Viewer.system(viewer.tenant), mutation.id, 1_000)
        const visible = revisions[0] !== undefined && Viewer.sees(viewer, revisions[0].scope) // else it is not there
        const meant = mutation._tag === "Restore"
          ? revisions.find(({ revision }) => revision === mutation.revision)
          : revisions[0]
        if (visible && meant) yield* standing(meant)
      }
    })

  const told = <A>(
    viewer: Viewer.Viewer,
    write: Effect.Effect<A, MemoryError.MemoryError>,
    changed: (result: A) => ReadonlyArray<Changed>,
    mutations: ReadonlyArray<MemoryMutation> = []
  ): Effect.Effect<A, MemoryError.MemoryError> =>
    write.pipe(
      Effect.tapError((error) =>
        Effect.flatMap(Clock.currentTimeMillis, (at) => publish({ _tag: "memory_write_failed", viewer, at, error }))
      ),
      Effect.tap((result) =>
        Effect.gen(function*() {
          const at = yield* Clock.currentTimeMillis
          for (const [i, { id, outcome, record }] of changed(result).entries()) {
            const mutation = mutations[i]
            if (outcome === "forgotten") {
              const purged = mutation?._tag === "Forget" && mutation.purge === true
              yield* publish({ _tag: "memory_forgotten", viewer, at, id, purged })
            } else if (outcome !== "absent" && record) {
              const { kind, scope, summary } = record
              yield* publish({ _tag: "memory_written", viewer, at, id, scope, kind, summary, outcome })
            }
          }
        })
      )
    )

  const change = <A>(
    op: string,
    viewer: Viewer.Viewer,
    mutations: ReadonlyArray<MemoryMutation>,
    write: Effect.Effect<A, MemoryError.MemoryError>,
    changed: (result: A) => ReadonlyArray<Changed>,
    origin: Origin = "user"
  ): Effect.Effect<A, MemoryError.MemoryError> =>
    told(viewer, Effect.zipRight(own(op, viewer, mutations, origin), write), changed, mutations)

  const forget = (op: string, viewer: Viewer.Viewer, ids: ReadonlyArray<MemoryId>, options?: Forgetting) =>
    change(
      op,
      viewer,
      ids.map((id): MemoryMutation => ({ _tag: "Forget", id, purge: options?.purge })),
      store.forget(viewer, ids, { purge: options?.purge }),
      (there) => ids.map((id, i): Changed => ({ id, outcome: there[i] ? "forgotten" : "absent" })),
      options?.origin
    )

  return {
    /** `not_owned` where nothing of this scope may be changed. */
    mayWrite,
    /** An event for each change, or for the failure. With `mutations`, one for each change, it says what was purged. */
    told,
    put: (viewer: Viewer.Viewer, draft: Draft, options?: MemoryStore.PutOptions) =>
      change(
        "put",
        viewer,
        [{ _tag: "Put", draft, ifRevision: options?.ifRevision }],
        Effect.map(store.put(viewer, [draft], options), ([put]) => put!), // one in, one out
        ({ outcome, record }) => [{ id: record.id, outcome, record }],
        options?.origin
      ),
    update: (
      viewer: Viewer.Viewer,
      id: MemoryId,
      patch: Patch,
      { ifRevision, origin }: MemoryStore.IfRevision & Decided = {}
    ) =>
      change(
        "update",
        viewer,
        [{ _tag: "Update", id, patch, ifRevision }],
        store.update(viewer, id, patch, { ifRevision }),
        (record) => [{ id, outcome: "updated", record }],
        origin
      ),
    apply: (viewer: Viewer.Viewer, mutations: ReadonlyArray<MemoryMutation>, op = "apply") =>
      change(op, viewer, mutations, store.apply(viewer, mutations), (applied) => applied),
    forget: (viewer: Viewer.Viewer, id: MemoryId, options?: Forgetting) =>
      Effect.map(forget("forget", viewer, [id], options), ([there]) => there === true),
    forgetAll: (viewer: Viewer.Viewer, filter: MemoryFilter, options?: Omit<Forgetting, "origin">) =>
      Effect.gen(function*() {
        if (options?.purge && OutboxLog.isMeant(filter)) {
          yield* OutboxLog.purge(store, viewer, filter.scope) // first, so that none of it becomes a memory meanwhile
        }
        // the library is shown what is closed, not yet true or expired as well: that is about somebody too
        const system = Viewer.system(viewer.tenant)
        const forgetEach = (forgotten: boolean) =>
          store.stream(system, { ...filter, forgotten, limit: 1_000, after: undefined }).pipe(
            Stream.filter((record) => Viewer.sees(viewer, record.scope)),
            Stream.filter((record) => record.source.origin !== "instructions" && !(denied && record.scope === Global)),
            Stream.map(({ id }) => id),
            Stream.grouped(1_000),
            Stream.runCollect,
            Effect.flatMap(Effect.forEach((ids) => forget("forgetAll", viewer, Chunk.toReadonlyArray(ids), options)))
          )
        const there = filter.forgotten === true ? [] : yield* forgetEach(false)
        // what was forgotten before is a tombstone still
        if (options?.purge) yield* forgetEach(true)
        return there.flat().filter(Boolean).length
      })
  }
}

const deniedGlobal = (op: string) =>
  MemoryError.make("not_owned", {
    op,
    message: "Global memory may not be changed: globalWrites of the spec is \"deny\""
  })
const closedRecord = (op: string) => MemoryError.make("not_owned", { op, message: `the record is shared: ${closed}` })
const closedScope = (op: string) => MemoryError.make("invalid_scope", { op, message: `the scope is shared: ${closed}` })
const closed =
  "a model writes only scopes that hold the user, or every id of a viewer without one; sharedWrites of the spec opens more"
