/**
 * Plans and applies batches of mutations. `plan` is pure: it names what has to be read, and of what was read it decides the rows
 * to write, or the first refusal; an engine may call it any number of times. `apply` runs a plan on an engine. The source of
 * ids is here, too.
 *
 * Law: a mutation sees what those before it in the batch did; what the viewer does not see is absent.
 *
 * One fact cannot be hidden, since an id names one record of a tenant: a put under the id of an invisible record fails with
 * `invalid_id` where a free id would have created a record. Every other refusal of the batch comes first, so a viewer that
 * probes for ids has to write a record for each free one. Ids that must stay unknown are minted, or signed (`MemoryStore.sign`).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { check, invalid, payloadIssues } from "../../../domain/Check.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import { make as idOf, type MemoryId, mint } from "../../../domain/MemoryId.ts"
import * as MemoryKind from "../../../domain/MemoryKind.ts"
import { type Applied, MemoryMutation } from "../../../domain/MemoryMutation.ts"
import { dedupeKey, isExpired, maxBody, type MemoryRecord, Origin, Trust } from "../../../domain/MemoryRecord.ts"
import { type MemoryScope, normalise } from "../../../domain/MemoryScope.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import type { Decide, Decision, Engine, Entry, Found, Needs, Write } from "../../Engine.ts"
import type { Provenance, Put, Service, Stored } from "../../MemoryStore.ts"
import * as Revision from "../../Version.ts"

export interface Batch {
  readonly op: string
  readonly viewer: Viewer.Any
  /** Each with the id that it is about: named, or minted for it. */
  readonly mutations: ReadonlyArray<readonly [id: MemoryId, mutation: MemoryMutation]>
  readonly provenance: Provenance
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  readonly entryOf: (stored: Stored) => Entry
  /** Whether the store keeps earlier revisions of the id. */
  readonly hasHistory: (id: MemoryId) => boolean
}

/** The batch was applied, or minted ids turned out to be taken: then it wants others, and nothing is written. */
export type Outcome =
  | { readonly _tag: "Applied"; readonly applied: ReadonlyArray<Applied> }
  | { readonly _tag: "Taken"; readonly ids: ReadonlySet<MemoryId> }

export interface TransactionPlan {
  readonly needs: Needs
  readonly decide: Decide<Outcome>
}

type Result<A> = Either.Either<A, MemoryError.MemoryError>

/** Plans a batch. Cost: a hash for each draft that may be a duplicate. */
export const plan = (batch: Batch): TransactionPlan => {
  const { kinds, mutations, viewer } = batch
  const tenant = Viewer.tenantOf(viewer)
  const keys = mutations.map(([, mutation]) =>
    isMinted(mutation) && MemoryKind.find(kinds, mutation.draft.kind).dedupe
      ? dedupeKey(tenant, { ...mutation.draft, scope: normalise(mutation.draft.scope) })
      : undefined
  )
  return {
    needs: {
      ids: distinct(mutations.map(([id]) => id)),
      dedupeKeys: distinct(keys.filter((key) => key !== undefined)),
      revisions: distinct(mutations.flatMap(([id, { _tag }]) => _tag === "Restore" ? [id] : []))
    },
    decide: (found) => {
      const taken = mutations.flatMap(([id, mutation]) => isMinted(mutation) && found.rows.has(id) ? [id] : [])
      return taken.length > 0
        ? Either.right({ writes: [], answer: { _tag: "Taken", ids: new Set(taken) } })
        : decided(batch, keys, found)
    }
  }
}

/** Whether the batch mints the id of what the mutation puts. */
const isMinted = (
  mutation: MemoryMutation
): mutation is Extract<MemoryMutation, { readonly _tag: "Put" }> =>
  mutation._tag === "Put" && mutation.draft.id === undefined

const distinct = <A>(all: ReadonlyArray<A>): ReadonlyArray<A> => Array.from(new Set(all))

const decided = (
  batch: Batch,
  keys: ReadonlyArray<string | undefined>,
  found: Found
): Result<Decision<Outcome>> =>
  Either.gen(function*() {
    const { entryOf, kinds, mutations, op, provenance, viewer } = batch
    const { now } = found
    const tenant = Viewer.tenantOf(viewer)
    const origin = provenance.origin ?? "user"
    const circumstances: Revision.Circumstances = { provenance, now, kinds }
    const rows = new Map<MemoryId, Stored | undefined>(found.rows)
    const replaced = new Map<MemoryId, ReadonlyArray<Stored>>() // by this batch, since it purged the id
    const purged = new Set<MemoryId>()
    const applied: Array<Applied> = []
    const writes: Array<Write> = []
    /** The first id of a put that a record out of sight has. The batch goes on as if it were free, and is refused at its end. */
    let unusable: MemoryId | undefined

    const visible = (row: Stored | undefined): row is Stored =>
      row !== undefined && Viewer.sees(viewer, row.record.scope)
    const there = (row: Stored | undefined): row is Stored =>
      visible(row) && !row.forgotten && (Viewer.isSystem(viewer) || !isExpired(row.record, now))

    const write = (id: MemoryId, next: Stored | undefined, isUnique = false) => {
      const current = rows.get(id)
      writes.push({ id, next: next && entryOf(next), isUnique })
      rows.set(id, next)
      if (next === undefined) purged.add(id)
      replaced.set(id, next && current ? [current, ...replaced.get(id) ?? []] : [])
    }
    const revisionOf = (id: MemoryId, revision: number): MemoryRecord | undefined => {
      if (!batch.hasHistory(id)) return undefined
      const kept = purged.has(id) ? [] : found.revisions.get(id) ?? []
      return [...replaced.get(id) ?? [], ...kept].find(({ record }) => record.revision === revision)?.record
    }

    /** Returns the circumstances of a write into this scope, with its trust limited; instructions keep that of their file. */
    const into = (scope: MemoryScope): Revision.Circumstances =>
      origin === "instructions"
        ? circumstances
        : {
          ...circumstances,
          provenance: { ...provenance, trust: Viewer.trustIn(viewer, scope, provenance.trust ?? 1) }
        }
    const stored = (record: MemoryRecord, key?: string): Stored => Revision.rowOf(kinds, tenant, record, key)
    /** Returns the oldest live record with the key, as the batch has left the rows so far. */
    const holderOf = (key: string): MemoryRecord | undefined => {
      let first = found.holders.get(key)?.find(({ id }) => !rows.has(id))
      for (const row of rows.values()) {
        if (row?.dedupeKey !== key || !Revision.isLive(row, now)) continue
        if (first === undefined || Revision.byAge(row.record, first) < 0) first = row.record
      }
      return first
    }

    const fail = (reason: "not_found" | "invalid_id" | "read_only", id: MemoryId, message: string) =>
      Either.left(MemoryError.make(reason, { op, id, message }))
    const writable = (row: Stored): Result<Stored> =>
      row.record.source.origin === "instructions" && origin !== "instructions" && !Viewer.isSystem(viewer)
        ? fail("read_only", row.record.id, "instructions are read-only; change their file")
        : Either.right(row)
    const standsAt = (id: MemoryId, row: Stored | undefined, expected: number | undefined): Result<void> => {
      const actual = row?.record.revision ?? 0
      return expected === undefined || expected === actual
        ? Either.void
        : Either.left(
          MemoryError.make("conflict", {
            op,
            id,
            message: `expected revision ${expected}, found ${actual}`,
            detail: { expected, actual }
          })
        )
    }
    /** Refuses an illegal record. A reserved tag that a file's author set before stays: an update accepts what is there. */
    const legal = (record: MemoryRecord, before?: MemoryRecord): Result<MemoryRecord> => {
      const isFile = record.source.origin === "file"
      if (!Viewer.sees(viewer, record.scope)) {
        return Either.left(MemoryError.make("invalid_scope", { op, message: "a viewer writes only where it sees" }))
      }
      const issues = [
        ...(record.summary === "" ? ["summary: a blank body needs one"] : []),
        ...(isExpired(record, now) ? ["expiresAt: already past"] : []),
        ...(record.body.length > maxBody && !isFile ? ["body: expected at most 65,536 characters, well-formed"] : []),
        ...(origin !== "instructions" && origin !== "file" &&
            record.tags.some((tag) => isReserved(tag) && !(isFile && before?.tags.includes(tag)))
          ? ["tags: instructions is reserved"]
          : []),
        ...payloadIssues(MemoryKind.find(kinds, record.kind).schema, record.data)
      ]
      const [first, ...rest] = issues
      return first === undefined ? Either.right(record) : Either.left(invalid(op, first, ...rest))
    }

    for (const [n, [id, mutation]] of mutations.entries()) {
      const row = rows.get(id)
      const before = there(row) ? row.record.revision : 0
      switch (mutation._tag) {
        case "Put": {
          const { draft } = mutation
          if (draft.id === undefined) {
            if (mutation.ifRevision !== undefined) return yield* Either.left(invalid(op, "ifRevision: needs an id"))
            const record = yield* legal(Revision.created(id, draft, into(draft.scope), 1))
            const next = stored(record, keys[n])
            const equal = next.dedupeKey === undefined ? undefined : holderOf(next.dedupeKey)
            if (equal) {
              applied.push({ id: equal.id, outcome: "duplicate", before: equal.revision, record: equal })
              break
            }
            write(id, next, true)
            applied.push({ id, outcome: "created", before: 0, record })
            break
          }
          if (visible(row)) yield* writable(row) // a forgotten row, too, keeps its id for its file
          yield* standsAt(id, there(row) ? row : undefined, mutation.ifRevision)
          const isHidden = row !== undefined && !visible(row)
          if (isHidden) {
            unusable ??= id
            rows.delete(id)
            purged.add(id)
          }
          const revision = isHidden ? 1 : (row?.record.revision ?? 0) + 1
          const fresh = Revision.created(id, draft, into(draft.scope), revision)
          const record = yield* legal(there(row) ? Revision.replaced(row.record, fresh, draft, now) : fresh)
          applied.push({ id, outcome: there(row) ? "updated" : "created", before, record })
          write(id, stored(record))
          break
        }
        case "Update": {
          if (!there(row)) return yield* fail("not_found", id, "there is no such record")
          yield* writable(row)
          yield* standsAt(id, row, mutation.ifRevision)
          const record = yield* legal(
            Revision.patched(row.record, mutation.patch, into(row.record.scope).provenance, now),
            row.record
          )
          write(id, stored(record))
          applied.push({ id, outcome: "updated", before, record })
          break
        }
        case "Forget": {
          if (!visible(row)) {
            yield* standsAt(id, undefined, mutation.ifRevision)
            applied.push({ id, outcome: "absent", before: 0 })
            break
          }
          if (there(row) || mutation.purge === true) yield* writable(row)
          yield* standsAt(id, there(row) ? row : undefined, mutation.ifRevision)
          const outcome = there(row) ? "forgotten" : "absent"
          if (mutation.purge === true) write(id, undefined)
          else if (there(row)) write(id, tombstone(row, now))
          applied.push({ id, outcome, before })
          break
        }
        case "Restore": {
          if (!visible(row) || !(row.forgotten || there(row))) {
            return yield* fail("not_found", id, "there is no such record")
          }
          yield* writable(row)
          yield* standsAt(id, row, mutation.ifRevision)
          if (mutation.revision === 0) {
            if (!row.forgotten) {
              write(id, tombstone(row, now))
            }
            applied.push({ id, outcome: row.forgotten ? "absent" : "forgotten", before })
            break
          }
          const earlier = mutation.revision === row.record.revision ? row.record : revisionOf(id, mutation.revision)
          if (!earlier || !Viewer.sees(viewer, earlier.scope)) {
            return yield* fail("not_found", id, "this revision is not kept")
          }
          const again = Revision.again(earlier, row.record.revision + 1)
          const restored = Viewer.isSystem(viewer) ? again : yield* legal(again, earlier)
          write(id, stored(restored))
          applied.push({ id, outcome: before === 0 ? "created" : "updated", before, record: restored })
        }
      }
    }
    if (unusable !== undefined) return yield* fail("invalid_id", unusable, "this id cannot be used")
    return { writes, answer: { _tag: "Applied" as const, applied } }
  })

const isReserved = (tag: string): boolean => tag.trim().toLowerCase() === "instructions"

const tombstone = (row: Stored, now: number): Stored => ({
  record: Revision.forgotten(row.record, now),
  forgotten: true
})

/** The schema of a batch. */
export const Mutations = Schema.Struct({
  mutations: Schema.Array(MemoryMutation),
  origin: Schema.optional(Origin),
  trust: Schema.optional(Trust)
})

export interface Dependencies {
  /** What errors call the store. */
  readonly name: string
  readonly engine: Pick<Engine, "capabilities" | "transact">
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  readonly minting: Minting
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
      const { decide, needs } = plan({
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

/**
 * A source of new ids: each is greater than the last one of its tenant, even if another store asked for that one.
 *
 * Tenants share no sequence. The ids of a tenant in one millisecond follow each other from a random start, so the gap
 * between two ids does not reveal how much other tenants wrote in between.
 */
export interface Minting {
  /** Mints an id that is greater than every earlier one of the tenant. */
  readonly next: (tenant: string) => Effect.Effect<MemoryId>
}

/**
 * Number of tenants whose last id is remembered, the most recent ones. Any other tenant starts above every dropped id, in
 * case the clock goes back.
 */
const capacity = 10_000

export const makeMinting: Effect.Effect<Minting> = Effect.map(Effect.makeSemaphore(1), (minting) => {
  const lasts = new Map<string, MemoryId>() // in order of use
  let dropped: MemoryId | undefined
  const keep = (tenant: string, id: MemoryId) => {
    lasts.delete(tenant)
    lasts.set(tenant, id)
    for (const [idle, last] of lasts) {
      if (lasts.size <= capacity) break
      lasts.delete(idle)
      const end = idOf(last.slice(0, 10) + "Z".repeat(16)) // the greatest id of its millisecond
      if (dropped === undefined || end > dropped) dropped = end
    }
  }
  return {
    next: (tenant) =>
      Effect.suspend(() => mint(lasts.get(tenant) ?? dropped)).pipe(
        Effect.tap((id) => Effect.sync(() => keep(tenant, id))),
        minting.withPermits(1)
      )
  }
})

/** The source of ids that stores built together share, so that their ids have one order per tenant. Default: none shared. */
export class SharedMinting extends Context.Reference<SharedMinting>()("@memory/Minting", {
  defaultValue: (): Minting | undefined => undefined
}) {}

/** Makes the calls that write out of one that applies a batch. `op` is the call that the batch is made for. */
export const writes = (
  batch: (
    op: "apply" | "put" | "update" | "forget",
    viewer: Viewer.Any,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: Provenance
  ) => Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError>
): Pick<Service, "apply" | "put" | "update" | "forget"> => ({
  apply: (viewer, mutations, provenance) => batch("apply", viewer, mutations, provenance),
  put: (viewer, drafts, { ifRevision, ...provenance } = {}) =>
    ifRevision !== undefined && drafts.length !== 1
      ? invalid("put", "ifRevision: is about one draft")
      : Effect.map(
        batch("put", viewer, drafts.map((draft) => ({ _tag: "Put", draft, ifRevision })), provenance),
        (all) => all.map(toPut)
      ),
  update: (viewer, id, patch, { ifRevision } = {}) =>
    Effect.map(
      batch("update", viewer, [{ _tag: "Update", id, patch, ifRevision }]),
      ([applied]) => applied!.record! // one in, one out, and not absent
    ),
  forget: (viewer, ids, { purge } = {}) =>
    Effect.map(
      batch("forget", viewer, ids.map((id) => ({ _tag: "Forget", id, purge }))),
      (all) => all.map(({ outcome }) => outcome === "forgotten")
    )
})

const toPut = ({ outcome, record }: Applied): Put => ({ record: record!, outcome: outcome as Put["outcome"] }) // a Put is never absent
