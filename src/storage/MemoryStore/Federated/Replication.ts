/**
 * Replication: brings the copies in stores that mirror up to date after a write, so that each copy is as its record is.
 *
 * ```text
 * written     put, where there is a copy or the rule says so: a failure is a warning, and the next write of it mends it
 * forgotten   forgotten, purged: purged; a failure fails the write, which stands and may be made again
 * ```
 *
 * A copy comes a moment after its write; a crash in that moment leaves none until the record is written again.
 * A copy has the revisions of its own store, and its times.
 * The changes of all stores are told as one stream: those of a record by its own store, those of a copy not at all.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { canonicalJson } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { Applied, MemoryMutation, StoreChange } from "../../../domain/MemoryMutation.ts"
import { isExpired, type MemoryRecord } from "../../../domain/MemoryRecord.ts"
import { isInternal } from "../../../domain/MemoryScope.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import type { Stored } from "../../MemoryStore.ts"
import { draftOf } from "../../Revision.ts"
import * as StoreRegistry from "./StoreRegistry.ts"

/** One mutation of a batch, its outcome, and the member that it was written to. */
export interface Written {
  readonly mutation: MemoryMutation
  readonly applied: Applied
  readonly holder: StoreRegistry.Member
}

/** The rows of members before a batch, and the `Replication.moment` at which they were read. */
export interface Before extends StoreRegistry.Located {
  readonly moment: number
}

/** The replication of a federation's writes to its mirrors. */
export interface Replication {
  /**
   * Brings all mirrors up to date. Rows that the caller has locked and read are not read again; others are: those whose id
   * was minted, and all that mirrors hold where a copy of such a row was made since `before`.
   */
  readonly follow: (
    members: StoreRegistry.Members,
    tenant: string,
    written: ReadonlyArray<Written>,
    before: Before
  ) => Effect.Effect<void, MemoryError.MemoryError>
  /** Counts the beginnings and ends of rounds that copy rows whose ids no writer has locked. */
  readonly moment: () => number
  /** Whether the last change told of this record in this store was that of a copy written here. */
  readonly isCopy: (member: StoreRegistry.Member, tenant: string, id: MemoryId) => boolean
}

/** Number of remembered copies: as many as a listener may be behind. */
const capacity = 65_536

/** Makes a replication that knows of no copies yet. */
export const make = (): Replication => {
  let moment = 0
  const copies = new Set<string>()
  const keyOf = (member: StoreRegistry.Member, tenant: string, id: MemoryId) =>
    JSON.stringify([member.name, tenant, id])
  const mark = (key: string) => {
    copies.delete(key) // moves it to the end: a Set keeps the order of insertion
    copies.add(key)
    for (const first of copies) {
      if (copies.size <= capacity) break
      copies.delete(first)
    }
  }

  /** Brings one mirror up to date with what is held elsewhere. */
  const bring = (
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
      const held = new Map([...known, ...copied._tag === "Right" ? copied.right : []])
      const gone: Array<MemoryMutation> = []
      const puts = new Map<string, { readonly record: MemoryRecord; readonly mutations: Array<MemoryMutation> }>()
      for (const [id, row] of rows) {
        const copy = held.get(id)
        if (row === undefined) {
          if (copy) gone.push({ _tag: "Forget", id, purge: true })
        } else if (row.forgotten) {
          if (copy?.forgotten === false) gone.push({ _tag: "Forget", id })
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
        return yield* remains(member, copied.left)
      }
      if (gone.length > 0) {
        yield* Effect.mapError(member.store.apply(system, gone), (error) => remains(member, error))
      }
      const behind = (error: MemoryError.MemoryError) =>
        Effect.logWarning(`${member.name}: a copy is behind what was written`, error)
      if (copied._tag === "Left") return yield* behind(copied.left)
      for (const { mutations, record: { source: { origin, trust } } } of puts.values()) {
        yield* Effect.catchAll(member.store.apply(system, mutations, { origin, trust }), behind)
      }
    })

  return {
    isCopy: (member, tenant, id) => copies.has(keyOf(member, tenant, id)),
    moment: () => moment,
    follow: (members, tenant, written, before) => {
      const mirrors = members.filter(({ mirror }) => mirror !== undefined)
      if (mirrors.length === 0) return Effect.void
      const left = leftBy(written, before)
      const isLocked = written.every(({ applied: { id } }) => left.has(id))
      const copying = Effect.gen(function*() {
        const isCurrent = moment - (isLocked ? 0 : 1) === before.moment
        const holders = new Map(written.map(({ applied: { id }, holder }) => [id, holder] as const))
        const rows: Array<readonly [MemoryId, Stored | undefined]> = []
        for (const holder of new Set(holders.values())) {
          const ids = Array.from(holders).flatMap(([id, at]) => at === holder ? [id] : [])
          for (const id of ids) copies.delete(keyOf(holder, tenant, id))
          if (mirrors.every((mirror) => mirror === holder)) continue
          const found = yield* StoreRegistry.rowsOf(holder, tenant, ids.filter((id) => !left.has(id)))
          for (const id of ids) rows.push([id, left.has(id) ? left.get(id) : found.get(id)])
        }
        yield* Effect.forEach(mirrors, (mirror) => {
          const others = rows.filter(([id]) => holders.get(id) !== mirror)
          const held = before.rows.get(mirror)
          const known = isCurrent && held?._tag === "Right" ? held.right : new Map<MemoryId, undefined>()
          return others.length === 0 ? Effect.void : bring(mirror, tenant, others, known)
        }, { discard: true })
      }).pipe(
        MemoryError.defectToUnavailable("mirror"), // the rule is the application's own
        Effect.catchAll((error) =>
          written.some(({ applied: { outcome } }) => outcome === "forgotten" || outcome === "absent")
            ? error
            : Effect.logWarning("copies are behind what was written", error)
        )
      )
      if (isLocked) return copying
      const tick = Effect.sync(() => {
        moment += 1
      })
      return Effect.zipRight(tick, Effect.ensuring(copying, tick))
    }
  }
}

/**
 * Returns the rows as a batch left them, where its answers tell and their ids were locked. Rows of minted ids, duplicates and
 * absent rows are not among them.
 */
const leftBy = (written: ReadonlyArray<Written>, before: StoreRegistry.Located): StoreRegistry.Rows => {
  const left = new Map<MemoryId, Stored | undefined>()
  for (const { applied: { id, outcome, record }, holder, mutation } of written) {
    const held = before.rows.get(holder)
    const row = held?._tag === "Right" ? left.get(id) ?? held.right.get(id) : undefined
    const named = mutation._tag === "Put" ? mutation.draft.id : mutation.id
    left.delete(id)
    if (named !== id) continue
    if ((outcome === "created" || outcome === "updated") && record) left.set(id, { record, forgotten: false })
    else if (outcome === "forgotten" && mutation._tag === "Forget" && mutation.purge === true) left.set(id, undefined)
    else if (outcome === "forgotten" && row) left.set(id, { record: row.record, forgotten: true })
  }
  return left
}

/** Whether a copy agrees with its record in all that a copy takes over. */
const isSame = (copy: MemoryRecord, record: MemoryRecord): boolean => contentOf(copy) === contentOf(record)
const contentOf = (record: MemoryRecord) => canonicalJson([draftOf(record), record.supersededBy, record.source])

const remains = (member: StoreRegistry.Member, error: MemoryError.MemoryError) =>
  new MemoryError.MemoryError({
    ...error,
    message: `a copy remains in ${member.name}; do it again (${error.message})`
  })

/** Streams the changes of the members that are there, and of each that comes, until it goes; in order store by store. */
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
    // a member that gives no answer says nothing against it: better told twice than not at all
    return Effect.map(
      StoreRegistry.find(before, viewer, before.length === 0 ? [] : [id]),
      (held) => held(id).by === undefined
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
        Stream.interruptWhen(member.gone),
        Stream.filterEffect(own(all, member))
      ), { concurrency: "unbounded" })
  )
}
