/**
 * Creates, changes and erases the rows of an outbox in the store. A batch is the messages of one append. One write stores the memories of a
 * batch and erases the batch. A conversation has one session row, which contains the sequence number of the next message.
 *
 * Law: every write of a conversation, except by `purge`, also updates the session row. The write fails with `conflict` if the session row
 * has changed since it was read (optimistic locking). The state is then read again, and the write is adapted. So no batch is finished
 * twice. While the session row exists, no sequence number is assigned twice.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { MemoryFilter } from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { Applied, MemoryMutation } from "../../domain/MemoryMutation.ts"
import type { Draft, MemoryRecord } from "../../domain/MemoryRecord.ts"
import { matchesScope, type MemoryScope } from "../../domain/MemoryScope.ts"
import type { Message } from "../../domain/Message.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type * as Redaction from "../../host/Redaction.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import type { StepLimiter } from "./OutboxScheduler.ts"
import * as OutboxState from "./OutboxState.ts"
import * as OutboxWorker from "./OutboxWorker.ts"

type Batches = ReadonlyArray<OutboxState.Batch>

/** Dependencies of this module for one outbox, and counts of its dead letters (batches set aside after failures). */
export interface OutboxLog {
  readonly store: MemoryStore.Service
  readonly capacity: OutboxWorker.Capacity
  readonly limiter: StepLimiter
  readonly redaction: Redaction.Service | undefined
  /** Number of dead letters, by `OutboxState.keyOf` of the conversation. Updated when the conversation's cached state changes. */
  readonly deadLetters: Map<string, number>
  /** Called after each change of a worker's cached state. */
  readonly onSeen?: ((worker: OutboxWorker.OutboxWorker) => void) | undefined
}

/** Makes a log. Its map `deadLetters` is empty until the states of conversations are read. */
export const make = (options: Omit<OutboxLog, "deadLetters">): OutboxLog => ({ ...options, deadLetters: new Map() })

/** Returns the cached state of the conversation. Reads the state from the store first if `worker.isStale` is true. */
export const look = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker
): Effect.Effect<OutboxState.OutboxState, MemoryError.MemoryError> =>
  worker.writeLock.withPermits(1)(current(log, worker))

/** Caches a state that was just read from the store, unless the cached state is still valid. */
export const learn = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker,
  state: OutboxState.OutboxState
): Effect.Effect<void> => Effect.suspend(() => worker.isStale ? cache(log, worker, state) : Effect.void)

/** Adds a batch of another worker to the cached state. If the state lacks an earlier write, marks the state as stale instead. */
export const observeAppend = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker,
  { from, rows, to }: Omit<OutboxState.Batch, "failure">,
  sessionRow: OutboxState.Row
): Effect.Effect<void> =>
  worker.writeLock.withPermits(1)(Effect.suspend(() => {
    const { isStale, state } = worker
    if (isStale || state.revision >= sessionRow.revision) return Effect.void
    if (state.revision + 1 < sessionRow.revision || from !== state.next) return Effect.sync(() => worker.isStale = true)
    const batches = rows.length > 0 ? [...state.batches, { from, to, rows, failure: undefined }] : state.batches
    return cache(log, worker, { ...state, batches, next: to, revision: sessionRow.revision, sessionRow: sessionRow.id })
  })).pipe(Effect.asVoid)

/**
 * Stores the selected messages. `isMeant` has one value per message: whether the message is selected. Every message gets a sequence number,
 * even if it is not stored. Returns the first of these numbers. First waits for room if the conversation or its tenant has too many waiting
 * batches. Fails with `rate_limited` if no room is freed (see `OutboxWorker.reserve`).
 */
export const append = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker,
  messages: ReadonlyArray<Message>,
  isMeant: ReadonlyArray<boolean>
): Effect.Effect<number, MemoryError.MemoryError> => {
  const isKept = isMeant.includes(true)
  const written = (release?: OutboxWorker.Reservation) =>
    Effect.suspend(() => {
      let from = 0
      return write(log, worker, (state, idOf) =>
        Effect.sync(() => {
          from = state.next
          const to = from + messages.length
          const entries = messages.flatMap((message, i) => isMeant[i] ? [{ sequence: from + i, message }] : [])
          const drafts = isKept ? OutboxState.messageDrafts(worker, idOf, { from, to }, entries) : []
          return {
            mutations: put(drafts, 0),
            next: to,
            ...(release && { release }),
            after: (applied) => {
              const rows = rowsOf(applied.slice(0, drafts.length))
              return isKept ? { batches: [...state.batches, { from, to, rows, failure: undefined }] } : {}
            }
          }
        })).pipe(Effect.map(() => from))
    })
  return isKept ? OutboxWorker.reserve(log.capacity, worker, written) : written()
}

/** Stores a plan for the batches in place of the plan `old`. Fails with `superseded` if another process changed `old` or a batch. */
export const keepPlan = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker,
  batches: Batches,
  { mutations, provenance }: Omit<OutboxState.Plan, "rows" | "of">,
  old: OutboxState.Plan | undefined
): Effect.Effect<OutboxState.Plan, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const of = batches.flatMap(({ rows }) => rows.map(({ id }) => id))
    let plan: OutboxState.Plan = { rows: [], mutations, provenance, of }
    yield* writePaced(log, worker, (state, idOf) =>
      Effect.suspend(() => {
        const drafts = OutboxState.planDrafts(worker, idOf, plan, old?.rows)
        return Effect.as(requireUnchanged(state, batches, old), {
          mutations: [...put(drafts, old ? undefined : 0), ...OutboxState.erase(old?.rows.slice(drafts.length) ?? [])],
          after: (applied: ReadonlyArray<Applied>) => {
            plan = { ...plan, rows: rowsOf(applied.slice(0, drafts.length)) }
            return { plan }
          }
        })
      }))
    return plan
  })

/**
 * Stores the memories of the batches. The same write erases the batches and their `plan`, the model's stored answer. Fails with
 * `OutboxState.superseded` if a batch or the plan was changed or erased meanwhile.
 */
export const finish = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker,
  batches: Batches,
  plan: OutboxState.Plan | undefined,
  mutations: ReadonlyArray<MemoryMutation>,
  provenance?: MemoryStore.Provenance
): Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError> =>
  Effect.map(
    writePaced(log, worker, (state) =>
      Effect.as(requireUnchanged(state, batches, plan), {
        mutations: [
          ...mutations,
          ...OutboxState.erase([...batches, ...plan ? [plan] : []].flatMap(({ rows }) => rows))
        ],
        after: () => ({ batches: batchesWithout(state, batches), plan: undefined })
      }), provenance),
    (applied) => applied.slice(0, mutations.length)
  )

/** Erases a plan that can no longer be applied. */
export const dropPlan = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker,
  plan: OutboxState.Plan
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.asVoid(writePaced(log, worker, (state) =>
    Effect.as(requireUnchanged(state, [], plan), {
      mutations: OutboxState.erase(plan.rows),
      after: () => ({ plan: undefined })
    })))

/** Makes a batch a dead letter, which extraction skips. Also erases the conversation's stored plan (the model's answer). */
export const setAside = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker,
  batch: OutboxState.Batch,
  { message, reason }: MemoryError.MemoryError
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.asVoid(writePaced(log, worker, (state) =>
    Effect.gen(function*() {
      yield* requireUnchanged(state, [batch], state.plan)
      const { after, mutations } = yield* setFailure(log, worker, state, [batch], `${reason}: ${message}`)
      return {
        mutations: [...mutations, ...OutboxState.erase(state.plan?.rows ?? [])],
        after: (applied) => ({ ...after(applied), plan: undefined })
      }
    })))

/** Makes the conversation's dead letters (batches set aside after failures) wait for extraction again. Returns their number. */
export const release = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker
): Effect.Effect<number, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    let count = 0
    let left = Infinity
    while (left > 0) {
      let group: Batches = []
      yield* writePaced(log, worker, (state) => {
        const deadLetters = OutboxState.deadLetters(state)
        left = Math.min(left, deadLetters.length) // releases no more batches than were set aside at first, so that the loop ends
        group = deadLetters.slice(0, Math.min(left, releasedAtOnce))
        return setFailure(log, worker, state, group, undefined)
      })
      count += group.length
      left -= group.length
    }
    return count
  })

/**
 * Erases the outbox rows of each viewer whose messages `viewer` may erase (see `isWithin`). If `scope` is given, erases only rows of
 * viewers in this scope. An extraction that uses an erased row fails at its next write. Returns the ids of the erased session rows.
 * Fails with `unavailable` if rows are still found after 50 passes.
 */
export const purge = (
  store: MemoryStore.Service,
  viewer: Viewer.Viewer,
  scope?: MemoryScope,
  left = maxAttempts
): Effect.Effect<ReadonlyArray<MemoryId>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const conversations = new Map<string, Array<OutboxState.Row>>()
    const sessions: Array<MemoryId> = []
    yield* Stream.runForEach(OutboxState.rows(store, viewer.tenant), ([data, { id, revision }]) =>
      Effect.sync(() => {
        const whose = Viewer.scopeOf(data.viewer)
        if (!isWithin(viewer, data.viewer) || !(scope === undefined || matchesScope(whose, scope))) return
        const key = OutboxState.keyOf(data)
        const known = conversations.get(key) ?? []
        known.push({ id, revision })
        conversations.set(key, known)
        if (data.row === "session") sessions.push(id)
      }))
    if (conversations.size === 0) return sessions
    if (left <= 0) {
      return yield* MemoryError.make("unavailable", { op: "purge", message: "messages arrive all the while" })
    }
    const eraseRows = (rows: ReadonlyArray<OutboxState.Row>) =>
      store.apply(Viewer.system(viewer.tenant), OutboxState.erase(rows)).pipe(
        MemoryError.catchReason("conflict", () => Effect.void) // the conversation was changed meanwhile: the next pass erases it
      )
    yield* Effect.forEach(conversations.values(), eraseRows, { discard: true })
    return [...sessions, ...yield* purge(store, viewer, scope, left - 1)]
  })

/**
 * Whether a filter of memories also selects messages that wait for extraction. True if the filter has no condition besides the scope.
 * Kinds, tags and other properties belong to memories only. The trash, which `forgotten: true` selects, has no waiting messages.
 */
export const selectsWaiting = (
  { after: _after, forgotten, limit: _limit, scope: _scope, ...narrower }: MemoryFilter
): boolean => forgotten !== true && Object.values(narrower).every((value) => value === undefined)

/**
 * Whether `viewer` may erase the waiting messages of the viewer `whose`. A viewer with reach `everyone` may erase all messages. Any other
 * viewer must see the memories of `whose`, and `whose` must have all ids of `viewer`. For example, a viewer with reach `exact` and only an
 * agent's id may not erase messages of the agent's users.
 */
const isWithin = (viewer: Viewer.Viewer, whose: Viewer.Viewer): boolean =>
  viewer.reach === "everyone" ||
  (matchesScope(Viewer.scopeOf(whose), Viewer.scopeOf(viewer)) && Viewer.sees(viewer, Viewer.subjectOf(whose)))

/** Largest number of attempts at a write that conflicts with other writes. */
const maxAttempts = 50
/** Largest number of batches that one write of `release` changes. */
const releasedAtOnce = 20
const ours: MemoryStore.Provenance = { origin: "pipeline", trust: 1 }

/** The mutations of one write, and the fields of the conversation's state that the write changes. */
interface Write {
  readonly mutations: ReadonlyArray<MemoryMutation>
  readonly after: (
    applied: ReadonlyArray<Applied>
  ) => Partial<Pick<OutboxState.OutboxState, "next" | "batches" | "plan">>
  readonly next?: number
  /** Frees the capacity that an append reserved for its batch. Called once the batch is stored. */
  readonly release?: OutboxWorker.Reservation
}
type Decide = (
  state: OutboxState.OutboxState,
  idOf: OutboxState.Ids
) => Effect.Effect<Write, MemoryError.MemoryError>

/** Replaces the cached state by a state that was read from the store or written to it. */
const cache = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker,
  state: OutboxState.OutboxState
): Effect.Effect<void> =>
  Effect.sync(() => {
    worker.state = { ...state, next: Math.max(state.next, worker.state.next) } // an open worker uses no number twice, even after a purge
    worker.isStale = false
    const count = OutboxState.deadLetters(state).length
    if (count > 0) log.deadLetters.set(worker.key, count)
    else log.deadLetters.delete(worker.key)
    OutboxWorker.record(log.capacity, worker, OutboxState.waiting(state).length)
    log.onSeen?.(worker)
  })
const refresh = (log: OutboxLog, worker: OutboxWorker.OutboxWorker) =>
  Effect.tap(OutboxState.of(log.store, worker), (state) => cache(log, worker, state))
const current = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker
): Effect.Effect<OutboxState.OutboxState, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    if (!worker.isStale) return worker.state
    if (!(yield* OutboxState.isNew(log.store, worker))) return yield* refresh(log, worker)
    yield* cache(log, worker, OutboxState.empty(worker))
    return worker.state
  })

/** Performs the write that `decide` returns for the current state. Tries again if another process changed the conversation first. */
const attempt = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker,
  decide: Decide,
  provenance: MemoryStore.Provenance,
  left: number
): Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const state = yield* current(log, worker)
    const idOf = yield* OutboxState.ids(log.store, worker)
    const { mutations, next = state.next, release, after } = yield* decide(state, idOf)
    const written = yield* log.store.apply(
      Viewer.system(worker.viewer.tenant),
      [...mutations, OutboxState.sessionPut(worker, state.sessionRow ?? idOf("session"), next, state.revision)],
      provenance
    ).pipe(
      Effect.onError(() =>
        Effect.sync(() => {
          worker.isStale = true // a write that failed may still have been committed
        })
      ),
      Effect.either
    )
    if (Either.isRight(written)) {
      const { id: sessionRow, revision } = written.right.at(-1)!.record! // the last mutation writes the session row
      release?.()
      yield* cache(log, worker, { ...state, ...after(written.right), next, sessionRow, revision })
      return written.right.slice(0, mutations.length)
    }
    if (written.left.reason !== "conflict" || left <= 1) return yield* written.left
    return OutboxState.same(state, yield* refresh(log, worker))
      ? yield* written.left // the conversation is unchanged, so a memory caused the conflict
      : yield* attempt(log, worker, decide, provenance, left - 1)
  })
const write = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker,
  decide: Decide,
  provenance: MemoryStore.Provenance = ours
): Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError> =>
  worker.writeLock.withPermits(1)(Effect.uninterruptible(attempt(log, worker, decide, provenance, maxAttempts)))

/** Waits until the step limiter permits a step, then calls `write`. So other tasks get time. Appends call `write` directly. */
const writePaced: typeof write = (log, ...args) => Effect.zipRight(log.limiter.step, write(log, ...args))

const batchesWithout = (state: OutboxState.OutboxState, batches: Batches): Batches => {
  const finished = new Set(batches.map(({ from }) => from))
  return state.batches.filter(({ from }) => !finished.has(from))
}

/** Checks that all of these batches still wait unchanged, and that the stored plan is still `plan`. Otherwise, fails with `superseded`. */
const requireUnchanged = (
  state: OutboxState.OutboxState,
  batches: Batches,
  plan: OutboxState.Plan | undefined
): Effect.Effect<void, MemoryError.MemoryError> =>
  OutboxState.holds(state, batches) && OutboxState.samePlan(state.plan, plan) ? Effect.void : OutboxState.superseded()

/** Returns a write that sets the batches aside for the reason `why`. If `why` is `undefined`, the batches wait for extraction again. */
const setFailure = (
  log: OutboxLog,
  worker: OutboxWorker.OutboxWorker,
  state: OutboxState.OutboxState,
  batches: Batches,
  why: string | undefined
): Effect.Effect<Write, MemoryError.MemoryError> =>
  Effect.map(OutboxState.records(log.store, worker.viewer.tenant, batches), (records) => ({
    mutations: records.map((record) => OutboxState.failureUpdate(record, why)),
    after: (applied) => {
      const rows = new Map(rowsOf(applied).map((row) => [row.id, row]))
      const changed = new Set(batches.map(({ from }) => from))
      return {
        batches: state.batches.map((batch) =>
          changed.has(batch.from)
            ? { ...batch, rows: batch.rows.map((row) => rows.get(row.id) ?? row), failure: why }
            : batch
        )
      }
    }
  }))

const put = (drafts: ReadonlyArray<Draft>, ifRevision?: number): ReadonlyArray<MemoryMutation> =>
  drafts.map((draft) => ({ _tag: "Put", draft, ifRevision }))

const rowsOf = (
  applied: ReadonlyArray<{ readonly record?: MemoryRecord | undefined }>
): ReadonlyArray<OutboxState.Row> =>
  applied.flatMap(({ record }) => record ? [{ id: record.id, revision: record.revision }] : [])
