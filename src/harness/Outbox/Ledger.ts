/**
 * How the rows of a line move on.
 *
 * Law: every write of a line moves its session row on from where it was last seen. So of two processes with one picture
 * one is first, and the other looks again before it decides anew: no place is given twice, and no batch is ended twice.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as MemoryError from "../../domain/MemoryError.ts"
import type { Applied, MemoryMutation } from "../../domain/MemoryMutation.ts"
import type { Draft, MemoryRecord } from "../../domain/MemoryRecord.ts"
import type { Message } from "../../domain/Message.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import type { Breathing } from "./Breathing.ts"
import type { Capacity, Place } from "./Capacity.ts"
import * as Kept from "./Kept.ts"
import type { Lane } from "./Lane.ts"
import * as Rows from "./Rows.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>
type Batches = ReadonlyArray<Rows.Batch>

export interface Ledger {
  /** The line as it is known, looked up where it is not, or where the last write left it unknown. */
  readonly look: (lane: Lane) => Io<Kept.Kept>
  /** What the store was just seen to hold, where nobody has looked yet. */
  readonly known: (lane: Lane, kept: Kept.Kept) => Effect.Effect<void>
  /**
   * Keeps the messages that `meant` accepts, and returns the sequence number of the first message, kept or not. Waits for
   * room: see `Capacity`.
   */
  readonly append: (lane: Lane, messages: ReadonlyArray<Message>, meant: (message: Message) => boolean) => Io<number>
  /** Keeps what the model made of them, instead of what it made before; `taken` where there is another plan. */
  readonly plan: (
    lane: Lane,
    batches: Batches,
    plan: Omit<Rows.Plan, "rows" | "of">,
    old: Rows.Plan | undefined
  ) => Io<Rows.Plan>
  /** What came of them, and their end, in one write; `taken` where they are not there any more. */
  readonly finish: (
    lane: Lane,
    batches: Batches,
    plan: Rows.Plan | undefined,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: MemoryStore.Provenance
  ) => Io<ReadonlyArray<Applied>>
  /** Of no use any more. */
  readonly drop: (lane: Lane, plan: Rows.Plan) => Io<void>
  /** Gives up on one of them, and on what was planned from it. */
  readonly park: (lane: Lane, batch: Rows.Batch, why: MemoryError.MemoryError) => Io<void>
  /** Takes up again what was parked; how many batches. */
  readonly release: (lane: Lane) => Io<number>
  /** How many batches of the line were last seen to be parked. */
  readonly parked: ReadonlyMap<string, number>
}

/** How often a write is decided anew where another process was first. */
const attempts = 50

/** What is written, and what the line is then. */
interface Move {
  readonly mutations: ReadonlyArray<MemoryMutation>
  readonly after: (applied: ReadonlyArray<Applied>) => Partial<Pick<Kept.Kept, "next" | "batches" | "plan">>
  readonly next?: number
  /** Place that was reserved for the batch; given back when the batch is recorded. */
  readonly place?: Place
}

export const make = (
  store: MemoryStore.Service,
  capacity: Capacity,
  breathing: Breathing
): Ledger => {
  const parked = new Map<string, number>()

  const see = (lane: Lane, kept: Kept.Kept): Effect.Effect<void> =>
    Effect.sync(() => {
      lane.kept = { ...kept, next: Math.max(kept.next, lane.kept.next) } // a purge takes the session row too
      lane.isStale = false
      const given = Kept.parked(kept).length
      if (given > 0) parked.set(lane.key, given)
      else parked.delete(lane.key)
      capacity.record(lane, Kept.waiting(kept).length)
    })
  const lookAgain = (lane: Lane): Io<Kept.Kept> => Effect.tap(Kept.of(store, lane), (kept) => see(lane, kept))
  const current = (lane: Lane): Io<Kept.Kept> =>
    Effect.gen(function*() {
      if (!lane.isStale) return lane.kept
      if (!(yield* Kept.isNew(store, lane))) return yield* lookAgain(lane)
      yield* see(lane, Kept.empty(lane))
      return lane.kept
    })

  const attempt = (
    lane: Lane,
    decide: (kept: Kept.Kept, idOf: Rows.Ids) => Io<Move>,
    provenance: MemoryStore.Provenance,
    left: number
  ): Io<ReadonlyArray<Applied>> =>
    Effect.gen(function*() {
      const kept = yield* current(lane)
      const idOf = yield* Rows.ids(store, lane)
      const { mutations, next = kept.next, place, after } = yield* decide(kept, idOf)
      const written = yield* store.apply(
        Viewer.system(lane.viewer.tenant),
        [...mutations, Rows.session(lane, kept.sessionRow ?? idOf("session"), next, kept.revision)],
        provenance
      ).pipe(
        Effect.onError(() =>
          Effect.sync(() => {
            lane.isStale = true // it may have been written all the same
          })
        ),
        Effect.either
      )
      if (Either.isRight(written)) {
        const { id: sessionRow, revision } = written.right.at(-1)!.record! // the last mutation puts the session row
        place?.()
        yield* see(lane, { ...kept, ...after(written.right), next, sessionRow, revision })
        return written.right.slice(0, mutations.length)
      }
      if (written.left.reason !== "conflict" || left <= 1) return yield* written.left
      return Kept.same(kept, yield* lookAgain(lane))
        ? yield* written.left // not about the line
        : yield* attempt(lane, decide, provenance, left - 1)
    })
  const move = (
    lane: Lane,
    decide: (kept: Kept.Kept, idOf: Rows.Ids) => Io<Move>,
    provenance: MemoryStore.Provenance = ours
  ): Io<ReadonlyArray<Applied>> =>
    lane.writing.withPermits(1)(Effect.uninterruptible(attempt(lane, decide, provenance, attempts)))

  /** Performs a write of the outbox's own work, which waits for its turn of the event loop; an append does not wait. */
  const later: typeof move = (...args) => Effect.zipRight(breathing.step, move(...args))

  const without = (kept: Kept.Kept, batches: Batches): Batches => {
    const gone = new Set(batches.map(({ from }) => from))
    return kept.batches.filter(({ from }) => !gone.has(from))
  }
  /** `taken` unless the line still has all of them, and exactly this plan. */
  const standing = (kept: Kept.Kept, batches: Batches, plan: Rows.Plan | undefined): Io<void> =>
    Kept.holds(kept, batches) && Kept.samePlan(kept.plan, plan) ? Effect.void : Kept.taken
  const marked = (lane: Lane, kept: Kept.Kept, batches: Batches, why: string | undefined): Io<Move> =>
    Effect.map(Kept.records(store, lane.viewer.tenant, batches), (records) => ({
      mutations: records.map((record) => Rows.parking(record, why)),
      after: (applied) => {
        const rows = new Map(rowsOf(applied).map((row) => [row.id, row]))
        const again = new Set(batches.map(({ from }) => from))
        return {
          batches: kept.batches.map((batch) =>
            again.has(batch.from)
              ? { ...batch, rows: batch.rows.map((row) => rows.get(row.id) ?? row), parked: why }
              : batch
          )
        }
      }
    }))

  return {
    parked,
    look: (lane) => lane.writing.withPermits(1)(current(lane)),
    known: (lane, kept) => Effect.suspend(() => lane.isStale ? see(lane, kept) : Effect.void),

    append: (lane, messages, meant) => {
      const isMeant = messages.map(meant)
      const isKept = isMeant.includes(true)
      const written = (place?: Place) =>
        Effect.suspend(() => {
          let from = 0
          return move(lane, (kept, idOf) =>
            Effect.sync(() => {
              from = kept.next
              const to = from + messages.length
              const entries = messages.flatMap((message, i) => isMeant[i] ? [{ sequence: from + i, message }] : [])
              const drafts = isKept ? Rows.messages(lane, idOf, { from, to }, entries) : []
              return {
                mutations: put(drafts, 0),
                next: to,
                ...(place && { place }),
                after: (applied) => {
                  const rows = rowsOf(applied.slice(0, drafts.length))
                  return isKept ? { batches: [...kept.batches, { from, to, rows, parked: undefined }] } : {}
                }
              }
            })).pipe(Effect.map(() => from))
        })
      return isKept ? capacity.reserve(lane, written) : written()
    },

    plan: (lane, batches, { mutations, provenance }, old) =>
      Effect.gen(function*() {
        const of = batches.flatMap(({ rows }) => rows.map(({ id }) => id))
        let plan: Rows.Plan = { rows: [], mutations, provenance, of }
        yield* later(lane, (kept, idOf) =>
          Effect.suspend(() => {
            const drafts = Rows.plan(lane, idOf, plan, old?.rows)
            return Effect.as(standing(kept, batches, old), {
              mutations: [...put(drafts, old ? undefined : 0), ...Rows.erase(old?.rows.slice(drafts.length) ?? [])],
              after: (applied: ReadonlyArray<Applied>) => {
                plan = { ...plan, rows: rowsOf(applied.slice(0, drafts.length)) }
                return { plan }
              }
            })
          }))
        return plan
      }),

    finish: (lane, batches, plan, mutations, provenance) =>
      Effect.map(
        later(lane, (kept) =>
          Effect.as(standing(kept, batches, plan), {
            mutations: [...mutations, ...Rows.erase([...batches, ...plan ? [plan] : []].flatMap(({ rows }) => rows))],
            after: () => ({ batches: without(kept, batches), plan: undefined })
          }), provenance),
        (applied) => applied.slice(0, mutations.length)
      ),

    drop: (lane, plan) =>
      Effect.asVoid(later(lane, (kept) =>
        Effect.as(standing(kept, [], plan), {
          mutations: Rows.erase(plan.rows),
          after: () => ({ plan: undefined })
        }))),

    park: (lane, batch, { message, reason }) =>
      Effect.asVoid(later(lane, (kept) =>
        Effect.gen(function*() {
          yield* standing(kept, [batch], kept.plan)
          const { after, mutations } = yield* marked(lane, kept, [batch], `${reason}: ${message}`)
          return {
            mutations: [...mutations, ...Rows.erase(kept.plan?.rows ?? [])],
            after: (applied) => ({ ...after(applied), plan: undefined })
          }
        }))),

    release: (lane) =>
      Effect.gen(function*() {
        let count = 0
        let left = Infinity
        while (left > 0) {
          let group: Batches = []
          yield* later(lane, (kept) => {
            const parked = Kept.parked(kept)
            left = Math.min(left, parked.length) // batches that are parked meanwhile stay parked
            group = parked.slice(0, Math.min(left, releasedAtOnce))
            return marked(lane, kept, group, undefined)
          })
          count += group.length
          left -= group.length
        }
        return count
      })
  }
}

/** Number of parked batches that are released in one write. */
const releasedAtOnce = 20

const ours: MemoryStore.Provenance = { origin: "pipeline", trust: 1 }

const put = (drafts: ReadonlyArray<Draft>, ifRevision?: number): ReadonlyArray<MemoryMutation> =>
  drafts.map((draft) => ({ _tag: "Put", draft, ifRevision }))

const rowsOf = (applied: ReadonlyArray<{ readonly record?: MemoryRecord | undefined }>): ReadonlyArray<Rows.Row> =>
  applied.flatMap(({ record }) => record ? [{ id: record.id, revision: record.revision }] : [])
