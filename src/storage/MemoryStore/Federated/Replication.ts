/**
 * Replication: updates the copies in mirror stores after a write. Each copy then equals its record.
 *
 * ```text
 * record written    its copy is written, if the copy exists already or the `mirror` function returns true for the record. A failure
 *                   is only logged, and the next write of the record writes the copy
 * record forgotten  its copy is forgotten, or purged if the record was purged. If that fails, the call fails too; the record
 *                   stays forgotten, and the caller can repeat the call
 * ```
 *
 * A copy is written after its record. If the process crashes in between, the copy is missing or outdated until the record is written again.
 * The mirror gives a copy its own revision numbers, `createdAt` and `updatedAt`. The stream `changes` merges the changes of all stores,
 * without the changes of copies.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { canonicalJson } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { type Applied, isPurge, type MemoryMutation, type StoreChange } from "../../../domain/MemoryMutation.ts"
import { isExpired, type MemoryRecord } from "../../../domain/MemoryRecord.ts"
import { isInternal } from "../../../domain/MemoryScope.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import type { Stored } from "../../MemoryStore.ts"
import { draftOf } from "../../Revision.ts"
import * as StoreRegistry from "./StoreRegistry.ts"

/** One mutation of a batch, its outcome, and the member store that applied it. */
export interface Written {
  readonly mutation: MemoryMutation
  readonly applied: Applied
  readonly member: StoreRegistry.Member
}

/** The rows of the member stores, read before a batch, and the value of `Replication.copyEpoch` at that time. */
export interface Before extends StoreRegistry.Located {
  readonly copyEpoch: number
}

/** The replication of a federation's writes to its mirrors. */
export interface Replication {
  /**
   * Updates all mirrors after a batch. The caller has locked the ids in `before`. So most rows after the batch are computed from `before`
   * and the outcomes, and most rows of the mirrors are taken from `before`. Other rows are read, for example rows with generated ids. If
   * another batch has changed `copyEpoch` since `before` was read, all rows of the mirrors are read again.
   */
  readonly follow: (
    members: StoreRegistry.Members,
    tenant: string,
    written: ReadonlyArray<Written>,
    before: Before
  ) => Effect.Effect<void, MemoryError.MemoryError>
  /**
   * Returns a counter. A batch with rows that `follow` cannot compute adds 1 before it copies its rows, and 1 afterwards. If two values are
   * equal, no such copying has started or ended in between.
   */
  readonly copyEpoch: () => number
  /**
   * Whether replication made the federation's latest write of this id to this store. False if that write is no longer remembered (see
   * `capacity`).
   */
  readonly isCopy: (member: StoreRegistry.Member, tenant: string, id: MemoryId) => boolean
}

/**
 * Largest number of copies that are remembered. The stream `changes` leaves out the changes of remembered copies. The number equals the
 * default of `ChangeFeedCapacity`, the largest number of unread changes of a stream.
 */
const capacity = 65_536

/** Makes a replication that remembers no copies yet. */
export const make = (): Replication => {
  let copyEpoch = 0
  const copyKeys = new Set<string>()
  const keyOf = (member: StoreRegistry.Member, tenant: string, id: MemoryId) =>
    JSON.stringify([member.name, tenant, id])
  const mark = (key: string) => {
    copyKeys.delete(key) // moves the key to the end, since a Set keeps insertion order
    copyKeys.add(key)
    for (const first of copyKeys) {
      if (copyKeys.size <= capacity) break
      copyKeys.delete(first)
    }
  }

  /** Updates a mirror's copies of `rows`, which belong to other members. `known` has the rows of the mirror that were read already. */
  const updateMirror = (
    member: StoreRegistry.Member,
    tenant: string,
    rows: ReadonlyArray<readonly [MemoryId, Stored | undefined]>,
    known: StoreRegistry.Rows
  ) =>
    Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      const system = Viewer.system(tenant)
      const unread = rows.flatMap(([id]) => known.has(id) ? [] : [id])
      const copied = yield* Effect.either(StoreRegistry.rowsOf(member, tenant, unread))
      const copies = new Map([...known, ...copied._tag === "Right" ? copied.right : []])
      const removals: Array<MemoryMutation> = []
      const puts = new Map<string, { readonly record: MemoryRecord; readonly mutations: Array<MemoryMutation> }>()
      for (const [id, row] of rows) {
        const copy = copies.get(id)
        if (row === undefined) {
          if (copy) removals.push({ _tag: "Forget", id, purge: true })
        } else if (row.forgotten) {
          if (copy?.forgotten === false) removals.push({ _tag: "Forget", id })
        } else if (isInternal(row.record.scope) || isExpired(row.record, now)) continue
        else if (copy?.forgotten === false || member.mirror?.(row.record) === true) {
          const { record } = row
          if (copy?.forgotten === false && isSame(copy.record, record)) continue
          const by = `${record.source.origin} ${record.source.trust}`
          const batch = puts.get(by) ?? { record, mutations: [] }
          puts.set(by, batch)
          batch.mutations.push({ _tag: "Put", draft: draftOf(record) })
          const { supersededBy } = record
          if (supersededBy !== undefined) batch.mutations.push({ _tag: "Update", id, patch: { supersededBy } })
        } else continue
        mark(keyOf(member, tenant, id))
      }
      if (copied._tag === "Left" && rows.some(([, row]) => row === undefined || row.forgotten)) {
        return yield* copyRemains(member, copied.left)
      }
      if (removals.length > 0) {
        yield* Effect.mapError(member.store.apply(system, removals), (error) => copyRemains(member, error))
      }
      const behind = (error: MemoryError.MemoryError) =>
        Effect.logWarning(`${member.name}: a copy is behind what was written`, error)
      if (copied._tag === "Left") return yield* behind(copied.left)
      for (const { mutations, record: { source: { origin, trust } } } of puts.values()) {
        yield* Effect.catchAll(member.store.apply(system, mutations, { origin, trust }), behind)
      }
    })

  return {
    isCopy: (member, tenant, id) => copyKeys.has(keyOf(member, tenant, id)),
    copyEpoch: () => copyEpoch,
    follow: (members, tenant, written, before) => {
      const mirrors = members.filter(({ mirror }) => mirror !== undefined)
      if (mirrors.length === 0) return Effect.void
      const left = rowsAfter(written, before)
      const isLocked = written.every(({ applied: { id } }) => left.has(id))
      const copying = Effect.gen(function*() {
        const isCurrent = copyEpoch - (isLocked ? 0 : 1) === before.copyEpoch
        const writers = new Map(written.map(({ applied: { id }, member }) => [id, member] as const))
        const rows: Array<readonly [MemoryId, Stored | undefined]> = []
        for (const writer of new Set(writers.values())) {
          const ids = Array.from(writers).flatMap(([id, member]) => member === writer ? [id] : [])
          for (const id of ids) copyKeys.delete(keyOf(writer, tenant, id))
          if (mirrors.every((mirror) => mirror === writer)) continue
          const found = yield* StoreRegistry.rowsOf(writer, tenant, ids.filter((id) => !left.has(id)))
          for (const id of ids) rows.push([id, left.has(id) ? left.get(id) : found.get(id)])
        }
        yield* Effect.forEach(mirrors, (mirror) => {
          const others = rows.filter(([id]) => writers.get(id) !== mirror)
          const readBefore = before.rows.get(mirror)
          const known = isCurrent && readBefore?._tag === "Right" ? readBefore.right : new Map<MemoryId, undefined>()
          return others.length === 0 ? Effect.void : updateMirror(mirror, tenant, others, known)
        }, { discard: true })
      }).pipe(
        MemoryError.contain("mirror"), // the `mirror` rule is a function of the application, and may throw
        Effect.catchAll((error) =>
          written.some(({ applied: { outcome } }) => outcome === "forgotten" || outcome === "absent")
            ? error
            : Effect.logWarning("copies are behind what was written", error)
        )
      )
      if (isLocked) return copying
      const tick = Effect.sync(() => {
        copyEpoch += 1
      })
      return Effect.zipRight(tick, Effect.ensuring(copying, tick))
    }
  }
}

/**
 * Computes the rows after a batch from the outcomes of the batch and the rows before it. Leaves out rows with generated ids. Also leaves
 * out rows with the outcome `duplicate` or `absent`.
 */
const rowsAfter = (written: ReadonlyArray<Written>, before: StoreRegistry.Located): StoreRegistry.Rows => {
  const left = new Map<MemoryId, Stored | undefined>()
  for (const { applied: { id, outcome, record }, member, mutation } of written) {
    const readBefore = before.rows.get(member)
    const row = readBefore?._tag === "Right" ? left.get(id) ?? readBefore.right.get(id) : undefined
    const named = mutation._tag === "Put" ? mutation.draft.id : mutation.id
    left.delete(id)
    if (named !== id) continue
    if ((outcome === "created" || outcome === "updated") && record) left.set(id, { record, forgotten: false })
    else if (outcome === "forgotten" && isPurge(mutation)) left.set(id, undefined)
    else if (outcome === "forgotten" && row) left.set(id, { record: row.record, forgotten: true })
  }
  return left
}

/** Whether a copy equals its record in every field that replication copies. */
const isSame = (copy: MemoryRecord, record: MemoryRecord): boolean => contentOf(copy) === contentOf(record)
const contentOf = (record: MemoryRecord) => canonicalJson([draftOf(record), record.supersededBy, record.source])

const copyRemains = (member: StoreRegistry.Member, error: MemoryError.MemoryError) =>
  new MemoryError.MemoryError({
    ...error,
    message: `a copy remains in ${member.name}; do it again (${error.message})`
  })

/**
 * Streams the changes of all members, except changes of copies. A member that is attached later is included, too, until it is detached. The
 * changes of one store come in order.
 */
export const changes = (
  members: Stream.Stream<StoreRegistry.Members>,
  { isCopy }: Pick<Replication, "isCopy">,
  viewer: Viewer.Any
): Stream.Stream<StoreChange, MemoryError.MemoryError> => {
  const tenant = Viewer.tenantOf(viewer)

  const own = (all: StoreRegistry.Members, member: StoreRegistry.Member) => (change: StoreChange) => {
    if (change._tag === "Issue") return Effect.succeed(true)
    const id = change._tag === "Written" ? change.record.id : change.id
    const before = all.slice(0, all.indexOf(member))
    if (isCopy(member, tenant, id)) return Effect.succeed(false)
    // a member that fails to answer is assumed not to have the id. A change may then be reported twice, but is not lost
    return Effect.map(
      StoreRegistry.findOwners(before, viewer, before.length === 0 ? [] : [id]),
      (ownerOf) => ownerOf(id).owner === undefined
    )
  }

  return members.pipe(
    Stream.mapAccum(new Set<StoreRegistry.Member>(), (known, all) => [
      new Set(all),
      all.filter((member) => !known.has(member)).map((member) => ({ all, member }))
    ]),
    Stream.mapConcat((fresh) => fresh),
    Stream.flatMap(({ all, member }) =>
      member.store.changes(viewer).pipe(
        Stream.interruptWhen(member.detached),
        Stream.filterEffect(own(all, member))
      ), { concurrency: "unbounded" })
  )
}
