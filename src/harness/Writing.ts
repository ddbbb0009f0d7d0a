/**
 * The writing half of `MemoryService`: every change asks whether Global may be changed, and is an event, done or failed.
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
import type { Draft, MemoryRecord, Patch } from "../domain/MemoryRecord.ts"
import { Global, type MemoryScope } from "../domain/MemoryScope.ts"
import * as Viewer from "../domain/Viewer.ts"
import type * as MemoryStore from "../storage/MemoryStore.ts"
import type * as MemoryEvents from "./MemoryEvents.ts"
import type { MemorySpec } from "./MemorySpec.ts"
import * as Purging from "./Outbox/Purging.ts"

interface Purge {
  readonly purge?: boolean | undefined
}

/** What changed, for the event. */
type Changed = Pick<Applied, "id" | "outcome" | "record">

export type Writing = ReturnType<typeof make>

export const make = (store: MemoryStore.Service, spec: MemorySpec, publish: MemoryEvents.Service["publish"]) => {
  const denied = spec.globalWrites === "deny"
  const notOwned = (op: string) =>
    MemoryError.make("not_owned", { op, message: "Global memory is not to be changed here" })

  const mayWrite = (op: string, scope: MemoryScope): Effect.Effect<void, MemoryError.MemoryError> =>
    denied && scope === Global ? notOwned(op) : Effect.void

  /** The rest is the store's to refuse: what is invisible, read-only, or not where the viewer sees. */
  const own = (op: string, viewer: Viewer.Viewer, mutations: ReadonlyArray<MemoryMutation>) =>
    Effect.gen(function*() {
      if (!denied) return
      if (mutations.some((mutation) => mutation._tag === "Put" && mutation.draft.scope === Global)) {
        return yield* notOwned(op)
      }
      const ids = mutations.flatMap((mutation) => mutation._tag === "Put" ? mutation.draft.id ?? [] : mutation.id)
      const records = Array.from(yield* store.get(viewer, ids), Option.toArray).flat()
      if (records.some(isGlobal)) return yield* notOwned(op)
      for (const mutation of mutations) {
        const isOfThePast = mutation._tag === "Restore" || (mutation._tag === "Forget" && mutation.purge === true)
        if (!isOfThePast || !Viewer.sees(viewer, Global)) continue
        const revisions = yield* store.history(Viewer.system(viewer.tenant), mutation.id, 1_000)
        const visible = revisions[0] !== undefined && Viewer.sees(viewer, revisions[0].scope) // else it is not there
        const meant = mutation._tag === "Restore"
          ? revisions.find(({ revision }) => revision === mutation.revision)
          : revisions[0]
        if (visible && meant && isGlobal(meant)) return yield* notOwned(op)
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
    changed: (result: A) => ReadonlyArray<Changed>
  ): Effect.Effect<A, MemoryError.MemoryError> =>
    told(viewer, Effect.zipRight(own(op, viewer, mutations), write), changed, mutations)

  const forget = (op: string, viewer: Viewer.Viewer, ids: ReadonlyArray<MemoryId>, options: Purge | undefined) =>
    change(
      op,
      viewer,
      ids.map((id): MemoryMutation => ({ _tag: "Forget", id, purge: options?.purge })),
      store.forget(viewer, ids, options),
      (there) => ids.map((id, i): Changed => ({ id, outcome: there[i] ? "forgotten" : "absent" }))
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
        ({ outcome, record }) => [{ id: record.id, outcome, record }]
      ),
    update: (viewer: Viewer.Viewer, id: MemoryId, patch: Patch, options?: MemoryStore.IfRevision) =>
      change(
        "update",
        viewer,
        [{ _tag: "Update", id, patch, ...options }],
        store.update(viewer, id, patch, options),
        (record) => [
          { id, outcome: "updated", record }
        ]
      ),
    apply: (viewer: Viewer.Viewer, mutations: ReadonlyArray<MemoryMutation>, op = "apply") =>
      change(op, viewer, mutations, store.apply(viewer, mutations), (applied) => applied),
    forget: (viewer: Viewer.Viewer, id: MemoryId, options?: Purge) =>
      Effect.map(forget("forget", viewer, [id], options), ([there]) => there === true),
    forgetAll: (viewer: Viewer.Viewer, filter: MemoryFilter, options?: Purge) =>
      Effect.gen(function*() {
        if (options?.purge && Purging.isMeant(filter)) {
          yield* Purging.purge(store, viewer, filter.scope) // first, so that none of it becomes a memory meanwhile
        }
        // the library is shown what is closed, not yet true or expired as well: that is about somebody too
        const system = Viewer.system(viewer.tenant)
        const meant = yield* store.stream(system, { ...filter, limit: 1_000, after: undefined }).pipe(
          Stream.filter((record) => Viewer.sees(viewer, record.scope)),
          Stream.filter((record) => record.source.origin !== "instructions" && !(denied && record.scope === Global)),
          Stream.map(({ id }) => id),
          Stream.grouped(1_000),
          Stream.runCollect
        )
        const there = yield* Effect.forEach(meant, (ids) =>
          forget("forgetAll", viewer, Chunk.toReadonlyArray(ids), options))
        // what was forgotten before is a tombstone still
        if (options?.purge) {
          yield* store.compact
        }
        return there.flat().filter(Boolean).length
      })
  }
}

/** Instructions are for the store to refuse, as read-only. */
const isGlobal = ({ scope, source }: MemoryRecord): boolean => scope === Global && source.origin !== "instructions"
