/**
 * Plans and applies batches of mutations. `plan` is pure: it returns the ids of the rows to read, and the function `decide`. With these
 * rows, `decide` returns the writes or the first error. An engine may call `decide` again. `apply` runs a plan on an engine. The event loop
 * runs during a long batch. A mutation sees the effects of earlier ones. Rows that the viewer may not see count as absent.
 *
 * There is one exception. Two records of a tenant cannot have the same id. So a put with the id of an invisible record fails with
 * `invalid_id`, and reveals that the id is in use. If the batch has any other error, that error is returned instead. If the id is free, the
 * same batch can purge the new record, so the test leaves no trace. A secret id should be generated, or signed (`MemoryStore.sign`).
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { IdGenerator, MemoryId } from "../../../domain/MemoryId.ts"
import * as MemoryKind from "../../../domain/MemoryKind.ts"
import { type Applied, MemoryMutation } from "../../../domain/MemoryMutation.ts"
import { dedupeKey, isExpired, type MemoryRecord, Origin, Trust } from "../../../domain/MemoryRecord.ts"
import { type MemoryScope, normalise } from "../../../domain/MemoryScope.ts"
import * as Payload from "../../../domain/Payload.ts"
import { check, invalid, refuse, type SchemaIssue, validate } from "../../../domain/Validation.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { Decide, Decision, Engine, Entry, Found, Needs, Write } from "../../Engine.ts"
import type { Provenance, Stored } from "../../MemoryStore.ts"
import * as Revision from "../../Revision.ts"

/** The generator of new record ids. */
export { type IdGenerator, makeIdGenerator, SharedIdGenerator } from "../../../domain/MemoryId.ts"

/** A batch of validated mutations, with everything that is needed to decide what to write. */
export interface Batch {
  readonly op: string
  readonly viewer: Viewer.Any
  /** Mutations, each with the id of its record. The id was given by the caller, or generated. */
  readonly mutations: ReadonlyArray<readonly [id: MemoryId, mutation: MemoryMutation]>
  /** Dedupe keys, by index in `mutations`. A draft whose key is left out can only be a duplicate of a row of this batch. */
  readonly keys: ReadonlyArray<string | undefined>
  readonly provenance: Provenance
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  readonly entryOf: (stored: Stored) => Entry
  /** Whether the store keeps earlier revisions of the record with this id. */
  readonly hasHistory: (id: MemoryId) => boolean
}

/** The outcome of a batch. `Taken`: nothing was written, since the generated `ids` are in use. The caller then makes new ids. */
export type Outcome =
  | { readonly _tag: "Applied"; readonly applied: ReadonlyArray<Applied> }
  | { readonly _tag: "Taken"; readonly ids: ReadonlySet<MemoryId> }

/** The rows that a batch needs, and the function that decides what to write. */
export interface TransactionPlan {
  readonly needs: Needs
  readonly decide: Decide<Outcome>
}

type Result<A> = Either.Either<A, MemoryError.MemoryError>

/** Plans a batch, without side effects. `decide` may be called any number of times. */
export const plan = (batch: Batch): TransactionPlan => {
  const { keys, mutations } = batch
  const decide: Decide<Outcome> = (found) => {
    const decider = makeDecider(batch, found)
    for (const n of mutations.keys()) decider.step(n)
    return decider.end()
  }
  const paced: Decide<Outcome>["paced"] = (found) =>
    Effect.suspend(() => {
      const decider = makeDecider(batch, found)
      const indexes = Array.from(mutations.keys())
      const steps = EventLoop.forEach(indexes, stretch, decider.step, (n) => sizeOf(mutations[n]![1])) // `n` is an index of `mutations`
      return Effect.zipRight(steps, Effect.suspend(decider.end))
    })
  return {
    needs: {
      ids: distinct(mutations.map(([id]) => id)),
      dedupeKeys: distinct(keys.filter((key) => key !== undefined)),
      revisions: distinct(mutations.flatMap(([id, { _tag }]) => _tag === "Restore" ? [id] : []))
    },
    decide: mutations.length > few ? Object.assign(decide, { paced }) : decide
  }
}

/** Largest number of mutations that are validated or decided without yielding to the event loop. */
const few = 128

/** Work between two yields to the event loop, in units of `sizeOf`: about 2 ms. */
const stretch = 16_384

/** Estimates how long it takes to compute the outcome of a mutation, in units of 0.1 µs. */
const sizeOf = (mutation: MemoryMutation): number => {
  const edit = mutation._tag === "Put" ? mutation.draft : mutation._tag === "Update" ? mutation.patch : {}
  return 128 + (edit.body?.length ?? 0) / 8 + Payload.sizeOf(edit.data ?? null) + Payload.sizeOf(edit.metadata ?? null)
}

/** Returns the key for finding duplicates of a draft; `undefined` if the draft has an id, or if its kind allows duplicates. */
const dedupeKeyOf = (kinds: Batch["kinds"], tenant: string, mutation: MemoryMutation): string | undefined =>
  generatesId(mutation) && MemoryKind.find(kinds, mutation.draft.kind).dedupe
    ? dedupeKey(tenant, { ...mutation.draft, scope: normalise(mutation.draft.scope) })
    : undefined

/** Whether the mutation puts a draft without an id, so that the batch generates the id. */
const generatesId = (
  mutation: MemoryMutation
): mutation is Extract<MemoryMutation, { readonly _tag: "Put" }> =>
  mutation._tag === "Put" && mutation.draft.id === undefined

const distinct = <A>(all: ReadonlyArray<A>): ReadonlyArray<A> => Array.from(new Set(all))

/** Decides mutations one by one. After the first error, further steps do nothing. */
interface Decider {
  readonly step: (n: number) => void
  /** Returns the writes of all mutations, the generated ids that are in use, or the first error. Called once, after all steps. */
  readonly end: () => Result<Decision<Outcome>>
}

const makeDecider = (batch: Batch, found: Found): Decider => {
  const { entryOf, keys, kinds, mutations, op, provenance, viewer } = batch
  const idsInUse = mutations.flatMap(([id, mutation]) => generatesId(mutation) && found.rows.has(id) ? [id] : [])
  if (idsInUse.length > 0) {
    return { step() {}, end: () => Either.right({ writes: [], answer: { _tag: "Taken", ids: new Set(idsInUse) } }) }
  }
  const { now } = found
  const tenant = Viewer.tenantOf(viewer)
  const isSystem = Viewer.isSystem(viewer)
  const origin = provenance.origin ?? "user"
  const context: Revision.WriteContext = { provenance, now, kinds }
  const rows = new Map<MemoryId, Stored | undefined>(found.rows)
  const replaced = new Map<MemoryId, Array<Stored>>() // rows that this batch replaced, by id, oldest first
  const purged = new Set<MemoryId>()
  const dedupeLookup = Revision.makeDedupeLookup(found, rows)
  const applied: Array<Applied> = []
  const writes: Array<Write> = []
  let refusal: MemoryError.MemoryError | undefined
  /** Id of the first put that uses the id of a hidden record. Any other error of the batch takes precedence. */
  let unusable: MemoryId | undefined

  const isVisible = (row: Stored | undefined): row is Stored =>
    row !== undefined && Viewer.sees(viewer, row.record.scope)
  const isPresent = (row: Stored | undefined): row is Stored =>
    isVisible(row) && !row.forgotten && (isSystem || !isExpired(row.record, now))

  const write = (id: MemoryId, next: Stored | undefined, isUnique = false) => {
    const current = rows.get(id)
    writes.push({ id, next: next && entryOf(next), isUnique })
    rows.set(id, next)
    dedupeLookup.changed(current, next)
    if (next === undefined) {
      purged.add(id)
      replaced.delete(id)
    } else if (current) {
      const before = replaced.get(id)
      if (before) before.push(current)
      else replaced.set(id, [current])
    }
  }
  const revisionOf = (id: MemoryId, revision: number): MemoryRecord | undefined => {
    if (!batch.hasHistory(id)) return undefined
    const isMeant = ({ record }: Stored) => record.revision === revision
    const kept = purged.has(id) ? [] : found.revisions.get(id) ?? []
    return (replaced.get(id)?.findLast(isMeant) ?? kept.find(isMeant))?.record
  }

  /** Returns the context of a write into a scope. `Viewer.trustIn` limits the trust, unless the origin is `instructions`. */
  const contextIn = (scope: MemoryScope): Revision.WriteContext =>
    origin === "instructions"
      ? context
      : {
        ...context,
        provenance: { ...provenance, trust: Viewer.trustIn(viewer, scope, provenance.trust ?? 1) }
      }
  const stored = (record: MemoryRecord, key?: string): Stored => Revision.rowOf(kinds, tenant, record, key)

  type Refusal = MemoryError.MemoryError | undefined
  const fail = (reason: "not_found" | "invalid_id" | "read_only", id: MemoryId, message: string) =>
    MemoryError.make(reason, { op, id, message })
  const readOnlyError = ({ record }: Stored): Refusal =>
    record.source.origin === "instructions" && origin !== "instructions" && !isSystem
      ? fail("read_only", record.id, "instructions are read-only; change their file")
      : undefined
  const revisionConflict = (id: MemoryId, row: Stored | undefined, expected: number | undefined): Refusal => {
    const actual = row?.record.revision ?? 0
    return expected === undefined || expected === actual
      ? undefined
      : MemoryError.make("conflict", {
        op,
        id,
        message: `expected revision ${expected}, found ${actual}`,
        detail: { expected, actual }
      })
  }
  const validationError = (record: MemoryRecord, before?: MemoryRecord): Refusal => {
    if (!Viewer.sees(viewer, record.scope)) {
      return MemoryError.make("invalid_scope", { op, message: "a viewer writes only where it sees" })
    }
    const [first, ...rest] = Revision.issuesOf(record, context, before)
    return first === undefined ? undefined : invalid(op, first, ...rest)
  }

  const put = (
    id: MemoryId,
    { draft, ifRevision }: Extract<MemoryMutation, { readonly _tag: "Put" }>,
    key: string | undefined
  ): Refusal => {
    if (draft.id === undefined) {
      if (ifRevision !== undefined) return invalid(op, "ifRevision: needs an id")
      const record = Revision.created(id, draft, contextIn(draft.scope), 1)
      const violation = validationError(record)
      if (violation) return violation
      const next = stored(record, key)
      const equal = next.dedupeKey === undefined ? undefined : dedupeLookup.oldest(next.dedupeKey)
      if (equal) {
        applied.push({ id: equal.id, outcome: "duplicate", before: equal.revision, record: equal })
        return undefined
      }
      write(id, next, true)
      applied.push({ id, outcome: "created", before: 0, record })
      return undefined
    }
    const row = rows.get(id)
    const current = isPresent(row) ? row : undefined
    // a forgotten row from an instruction file is read-only too, so that no other writer uses its id
    const denial = (isVisible(row) ? readOnlyError(row) : undefined) ?? revisionConflict(id, current, ifRevision)
    if (denial) return denial
    const isHidden = row !== undefined && !isVisible(row)
    if (isHidden) {
      unusable ??= id
      rows.delete(id)
      dedupeLookup.changed(row, undefined)
      purged.add(id)
    }
    const revision = isHidden ? 1 : (row?.record.revision ?? 0) + 1
    const fresh = Revision.created(id, draft, contextIn(draft.scope), revision)
    const record = current ? Revision.replaced(current.record, fresh, draft, now) : fresh
    const violation = validationError(record)
    if (violation) return violation
    const before = current?.record.revision ?? 0
    applied.push({ id, outcome: current ? "updated" : "created", before, record })
    write(id, stored(record))
    return undefined
  }

  const decide = (id: MemoryId, mutation: MemoryMutation, key: string | undefined): Refusal => {
    if (mutation._tag === "Put") return put(id, mutation, key)
    const row = rows.get(id)
    const current = isPresent(row) ? row : undefined
    const before = current?.record.revision ?? 0
    switch (mutation._tag) {
      case "Update": {
        if (!current) return fail("not_found", id, "there is no such record")
        const denial = readOnlyError(current) ?? revisionConflict(id, current, mutation.ifRevision)
        if (denial) return denial
        const { provenance } = contextIn(current.record.scope)
        const record = Revision.patched(current.record, mutation.patch, provenance, now)
        const violation = validationError(record, current.record)
        if (violation) return violation
        write(id, stored(record))
        applied.push({ id, outcome: "updated", before, record })
        return undefined
      }
      case "Forget": {
        const isErased = isVisible(row) && mutation.purge === true
        const denial = (isVisible(row) && (current || isErased) ? readOnlyError(row) : undefined) ??
          revisionConflict(id, current, mutation.ifRevision)
        if (denial) return denial
        if (isErased) write(id, undefined)
        else if (current) write(id, Revision.tombstone(current, now))
        applied.push({ id, outcome: current ? "forgotten" : "absent", before })
        return undefined
      }
      case "Restore": {
        if (!isVisible(row) || !(row.forgotten || current)) return fail("not_found", id, "there is no such record")
        const denial = readOnlyError(row) ?? revisionConflict(id, row, mutation.ifRevision)
        if (denial) return denial
        if (mutation.revision === 0) {
          if (!row.forgotten) write(id, Revision.tombstone(row, now))
          applied.push({ id, outcome: row.forgotten ? "absent" : "forgotten", before })
          return undefined
        }
        const earlier = mutation.revision === row.record.revision ? row.record : revisionOf(id, mutation.revision)
        if (!earlier || !Viewer.sees(viewer, earlier.scope)) return fail("not_found", id, "this revision is not kept")
        const restored = Revision.withRevision(earlier, row.record.revision + 1)
        const violation = isSystem ? undefined : validationError(restored, earlier)
        if (violation) return violation
        write(id, stored(restored))
        applied.push({ id, outcome: before === 0 ? "created" : "updated", before, record: restored })
        return undefined
      }
    }
  }

  return {
    step(n) {
      const [id, mutation] = mutations[n]! // `n` is an index of `mutations`
      refusal ??= decide(id, mutation, keys[n])
    },
    end() {
      if (unusable !== undefined) refusal ??= fail("invalid_id", unusable, "this id cannot be used")
      return refusal ? Either.left(refusal) : Either.right({ writes, answer: { _tag: "Applied", applied } })
    }
  }
}

/** The schema of a batch. */
export const Mutations = Schema.Struct({
  mutations: Schema.Array(MemoryMutation),
  origin: Schema.optional(Origin),
  trust: Schema.optional(Trust)
})

/** The dependencies of `apply`. */
export interface Dependencies {
  /** Name of the store in errors. */
  readonly name: string
  readonly engine: Pick<Engine, "capabilities" | "transact">
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  readonly idGenerator: IdGenerator
  readonly entryOf: (stored: Stored) => Entry
}

/** Applies all mutations of a batch in order, or none. Replaces generated ids that are already in use. */
export const apply = (
  { engine, entryOf, kinds, idGenerator, name }: Dependencies,
  op: string,
  viewer: Viewer.Any,
  mutations: ReadonlyArray<MemoryMutation>,
  provenance: Provenance = {}
): Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { history, writable } = engine.capabilities
    if (!writable) return yield* MemoryError.make("read_only", { op, message: `${name} takes no writes` })
    const checked = yield* validateInParts(op, mutations, provenance)
    const tenant = Viewer.tenantOf(viewer)
    const keys: Array<string | undefined> = []
    yield* EventLoop.forEach(checked, stretch, (mutation) => keys.push(dedupeKeyOf(kinds, tenant, mutation)), sizeOf)
    let ids: ReadonlyArray<MemoryId | undefined> = checked.map((mutation) =>
      mutation._tag === "Put" ? mutation.draft.id : mutation.id
    )
    for (;;) {
      const withIds: Array<MemoryId> = []
      for (const id of ids) {
        withIds.push(id ?? (yield* idGenerator.next(tenant)))
        if (withIds.length % (32 * few) === 0) yield* EventLoop.pause // only every 4,096 ids, since making an id is fast
      }
      const { decide, needs } = plan({
        op,
        viewer,
        provenance,
        kinds,
        entryOf,
        keys,
        mutations: checked.map((mutation, n) => [withIds[n]!, mutation]), // `withIds` has one id for each mutation
        hasHistory: () => history
      })
      const outcome = yield* engine.transact(tenant, needs, decide)
      if (outcome._tag === "Applied") return outcome.applied
      ids = withIds.map((id) => outcome.ids.has(id) ? undefined : id)
    }
  })

/** Validates a batch, in parts if it is long. Returns copies, which the caller cannot change later. */
const validateInParts = (
  op: string,
  mutations: ReadonlyArray<MemoryMutation>,
  provenance: Provenance
): Effect.Effect<ReadonlyArray<MemoryMutation>, MemoryError.MemoryError> => {
  if (!Array.isArray(mutations) || mutations.length <= few) {
    const whole = { mutations, ...provenance }
    return Effect.map(check(op, Mutations, whole), (batch) => batch.mutations.map(owned))
  }
  const whole = { mutations: mutations.slice(), ...provenance }
  const checked: Array<MemoryMutation> = []
  const found: Array<SchemaIssue> = []
  const part = (start: number) => {
    const some = { mutations: whole.mutations.slice(start, start + few) }
    const isLast = start + few >= whole.mutations.length
    Either.match(validate(Mutations, isLast ? { ...some, ...provenance } : some), {
      onLeft: (issues) => found.push(...issues.map((issue) => from(start, issue))),
      onRight: (batch) => checked.push(...batch.mutations.map(owned))
    })
  }
  const starts = Array.from({ length: Math.ceil(whole.mutations.length / few) }, (_, n) => n * few)
  return Effect.zipRight(
    EventLoop.forEach(starts, 1, part),
    Effect.suspend(() => found.length > 0 ? refuse(op, whole, found) : Effect.succeed(checked))
  )
}

/** Makes the path of an issue relative to the whole batch. `start` is the index at which the validated part begins. */
const from = (start: number, { message, path: [field, index, ...path] }: SchemaIssue): SchemaIssue => ({
  message,
  path: typeof index === "number" ? [field!, start + index, ...path] : [field!]
})

/** Returns the mutation with copies of `data` and `metadata`. Validation has already copied everything else. */
const owned = (mutation: MemoryMutation): MemoryMutation =>
  mutation._tag === "Put"
    ? { ...mutation, draft: Payload.owned(mutation.draft) }
    : mutation._tag === "Update"
    ? { ...mutation, patch: Payload.owned(mutation.patch) }
    : mutation
