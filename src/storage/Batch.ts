/**
 * What a batch of mutations comes to, before anything is written. Pure: rows in, rows out, or the first refusal.
 *
 * Law: a mutation sees what those before it in the batch did; what the viewer does not see is absent.
 */
import * as Either from "effect/Either"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import { dedupeKey, deriveSummary, type Draft, isExpired, MemoryRecord, type Patch } from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import * as Payload from "../domain/Payload.ts"
import * as Viewer from "../domain/Viewer.ts"
import { earlier, isLive } from "./Catalog.ts"
import type { Change } from "./Changes.ts"
import { invalid, payloadIssues } from "./Check.ts"
import type { Provenance, Stored, Write } from "./MemoryStore.ts"

export interface Input {
  readonly op: string
  readonly viewer: Viewer.Any
  /** Each with the id that it is about: named, or minted for it. */
  readonly mutations: ReadonlyArray<readonly [id: MemoryId, mutation: MemoryMutation]>
  readonly provenance: Provenance
  /** Epoch ms. */
  readonly now: number
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  /** Every row of `mutations`. */
  readonly rows: ReadonlyMap<MemoryId, Stored>
  /** The first live record with the key, but for those `besides`. */
  readonly holder: (dedupeKey: string, besides: ReadonlyMap<MemoryId, unknown>) => MemoryRecord | undefined
  /** An earlier revision; `undefined` where it is not kept. */
  readonly revision: (id: MemoryId, revision: number) => MemoryRecord | undefined
}

export interface Plan {
  readonly applied: ReadonlyArray<Applied>
  /** One per step, in order. */
  readonly writes: ReadonlyArray<Write>
  readonly changes: ReadonlyArray<Change>
}

type Result<A> = Either.Either<A, MemoryError.MemoryError>

export const plan = (input: Input): Result<Plan> =>
  Either.gen(function*() {
    const { kinds, now, op, provenance, viewer } = input
    const tenant = Viewer.tenantOf(viewer)
    const origin = provenance.origin ?? "user"
    const rows = new Map<MemoryId, Stored | undefined>(input.rows)
    const applied: Array<Applied> = []
    const writes: Array<Write> = []
    const changes: Array<Change> = []

    const visible = (row: Stored | undefined): row is Stored =>
      row !== undefined && Viewer.sees(viewer, row.record.scope)
    const there = (row: Stored | undefined): row is Stored =>
      visible(row) && !row.forgotten && (Viewer.isSystem(viewer) || !isExpired(row.record, now))

    const write = (id: MemoryId, next: Stored | undefined, unique = false) => {
      const current = rows.get(id)
      writes.push({ id, revision: current?.record.revision ?? 0, next, unique })
      changes.push({ id, before: live(current), after: live(next), by: "here" })
      rows.set(id, next)
    }

    const stored = (record: MemoryRecord): Stored => ({
      record,
      forgotten: false,
      ...(MemoryKind.find(kinds, record.kind).dedupe && { dedupeKey: dedupeKey(tenant, record) })
    })
    const holderOf = (key: string): MemoryRecord | undefined => {
      let first = input.holder(key, rows)
      for (const row of rows.values()) {
        if (row?.dedupeKey === key && isLive(row, now)) first = earlier(first, row.record)
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
    const legal = (record: MemoryRecord): Result<MemoryRecord> => {
      if (!Viewer.sees(viewer, record.scope)) {
        return Either.left(MemoryError.make("invalid_scope", { op, message: "a viewer writes only where it sees" }))
      }
      const issues = [
        ...(record.summary === "" ? ["summary: a blank body needs one"] : []),
        ...(isExpired(record, now) ? ["expiresAt: already past"] : []),
        ...(origin !== "instructions" && record.tags.some((tag) => tag.trim().toLowerCase() === "instructions")
          ? ["tags: instructions is reserved"]
          : []),
        ...payloadIssues(MemoryKind.find(kinds, record.kind).schema, record.data)
      ]
      const [first, ...rest] = issues
      return first === undefined ? Either.right(record) : Either.left(invalid(op, first, ...rest))
    }

    for (const [id, mutation] of input.mutations) {
      const row = rows.get(id)
      const before = there(row) ? row.record.revision : 0
      switch (mutation._tag) {
        case "Put": {
          const { draft } = mutation
          if (draft.id === undefined) {
            if (mutation.ifRevision !== undefined) return yield* Either.left(invalid(op, "ifRevision: needs an id"))
            const record = yield* legal(created(id, draft, input, 1))
            const next = stored(record)
            const equal = next.dedupeKey === undefined ? undefined : holderOf(next.dedupeKey)
            if (equal) {
              applied.push({ id: equal.id, outcome: "duplicate", before: equal.revision, record: equal })
              break
            }
            write(id, next, true)
            applied.push({ id, outcome: "created", before: 0, record })
            break
          }
          if (row && !visible(row)) return yield* fail("invalid_id", id, "this id cannot be used")
          if (row) yield* writable(row) // forgotten ones too: their id is their file's
          yield* standsAt(id, there(row) ? row : undefined, mutation.ifRevision)
          const fresh = created(id, draft, input, (row?.record.revision ?? 0) + 1)
          const record = yield* legal(there(row) ? replaced(row.record, fresh, draft, now) : fresh)
          applied.push({ id, outcome: there(row) ? "updated" : "created", before, record })
          write(id, stored(record))
          break
        }
        case "Update": {
          if (!there(row)) return yield* fail("not_found", id, "there is no such record")
          yield* writable(row)
          yield* standsAt(id, row, mutation.ifRevision)
          const record = yield* legal(patched(row.record, mutation.patch, provenance, now))
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
          const earlier = mutation.revision === row.record.revision ? row.record : input.revision(id, mutation.revision)
          if (!earlier || !Viewer.sees(viewer, earlier.scope)) {
            return yield* fail("not_found", id, "this revision is not kept")
          }
          const again = record({ ...earlier, revision: row.record.revision + 1 })
          const restored = Viewer.isSystem(viewer) ? again : yield* legal(again)
          write(id, stored(restored))
          applied.push({ id, outcome: before === 0 ? "created" : "updated", before, record: restored })
        }
      }
    }
    return { applied, writes, changes }
  })

const live = (row: Stored | undefined): MemoryRecord | undefined => row && !row.forgotten ? row.record : undefined

const tombstone = (row: Stored, now: number): Stored => ({
  record: record({ ...row.record, revision: row.record.revision + 1, updatedAt: now }),
  forgotten: true
})

const created = (id: MemoryId, draft: Draft, { kinds, now, provenance }: Input, revision: number): MemoryRecord =>
  record({
    ...draft,
    id,
    scope: MemoryScope.normalise(draft.scope),
    summary: draft.summary ?? deriveSummary(draft.body),
    summaryDerived: draft.summary === undefined ? true : undefined,
    tags: draft.tags ?? [],
    importance: draft.importance ?? MemoryKind.find(kinds, draft.kind).importance,
    links: draft.links ?? [],
    data: Payload.freeze(draft.data ?? {}),
    metadata: Payload.freeze(draft.metadata ?? {}),
    source: compact({ ...draft.source, origin: provenance.origin ?? "user", trust: provenance.trust ?? 1 }),
    createdAt: now,
    validAt: draft.validAt ?? now,
    revision
  })

/** Whole, but for when it came and since when it holds. */
const replaced = (old: MemoryRecord, fresh: MemoryRecord, draft: Draft, now: number): MemoryRecord =>
  record({ ...fresh, createdAt: old.createdAt, updatedAt: now, validAt: draft.validAt ?? old.validAt })

/** The trust is the worse of the record's and the writer's. */
const patched = (old: MemoryRecord, patch: Patch, { trust = 1 }: Provenance, now: number): MemoryRecord => {
  const { confidence, expiresAt, invalidAt, supersededBy, ...rest } = patch
  const body = rest.body ?? old.body
  const derived = rest.summary === undefined && old.summaryDerived === true
  return record({
    ...old,
    body,
    tags: rest.tags ?? old.tags,
    importance: rest.importance ?? old.importance,
    links: rest.links ?? old.links,
    data: rest.data ? Payload.freeze(rest.data) : old.data,
    metadata: rest.metadata ? Payload.freeze(rest.metadata) : old.metadata,
    summary: derived ? deriveSummary(body) : rest.summary ?? old.summary,
    summaryDerived: derived ? true : undefined,
    confidence: confidence === null ? undefined : confidence ?? old.confidence,
    expiresAt: expiresAt === null ? undefined : expiresAt ?? old.expiresAt,
    invalidAt: invalidAt === null ? undefined : invalidAt ?? old.invalidAt,
    supersededBy: supersededBy === null ? undefined : supersededBy ?? old.supersededBy,
    source: { ...old.source, trust: old.source.trust > trust ? old.source.trust : trust },
    updatedAt: now,
    revision: old.revision + 1
  })
}

/** Of a checked draft or patch, and for reading only: whoever is given it holds what the store holds. */
const record = (fields: ConstructorParameters<typeof MemoryRecord>[0]): MemoryRecord => {
  const made = new MemoryRecord(compact(fields), { disableValidation: true })
  for (const part of [made.scope, made.tags, made.links, ...made.links, made.source]) Object.freeze(part)
  // not frozen itself: Effect keeps a hash on what it compares
  for (const key of Object.keys(made)) Object.defineProperty(made, key, { writable: false, configurable: false })
  return made
}

const compact = <A extends object>(fields: A): A =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as A // optional fields only
