/**
 * What a batch of mutations comes to, before anything is written. Pure: rows in, rows out, or the first refusal.
 *
 * Law: a mutation sees what those before it in the batch did; what the viewer does not see is absent.
 *
 * One fact cannot be hidden, since an id names one record of a tenant: a put under the id of an invisible record fails with
 * `invalid_id` where a free id would have created a record. Every other refusal comes first, so a viewer that probes for ids
 * has to write a record for each free one. Ids that must stay unknown are minted, or signed (`MemoryStore.sign`).
 */
import * as Either from "effect/Either"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import { dedupeKey, isExpired, maxBody, type MemoryRecord } from "../domain/MemoryRecord.ts"
import type { MemoryScope } from "../domain/MemoryScope.ts"
import { trustIn } from "../domain/Sharing.ts"
import * as Viewer from "../domain/Viewer.ts"
import { earlier, isLive } from "./Catalog.ts"
import type { Change } from "./Changes.ts"
import { invalid, payloadIssues } from "./Check.ts"
import type { Stored, Write } from "./MemoryStore.ts"
import * as Version from "./Version.ts"

export interface Input extends Version.Circumstances {
  readonly op: string
  readonly viewer: Viewer.Any
  /** Each with the id that it is about: named, or minted for it. */
  readonly mutations: ReadonlyArray<readonly [id: MemoryId, mutation: MemoryMutation]>
  /** Every row of `mutations`. */
  readonly rows: ReadonlyMap<MemoryId, Stored>
  /** The first live record with the key, but for those `besides`. */
  readonly holder: (dedupeKey: string, besides: ReadonlyMap<MemoryId, unknown>) => MemoryRecord | undefined
  /** An earlier revision, a tombstone's included; `undefined` where it is not kept. */
  readonly revision: (id: MemoryId, revision: number) => MemoryRecord | undefined
  /** Whether the store keeps earlier revisions of the id. */
  readonly hasHistory: (id: MemoryId) => boolean
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
    const replaced = new Map<MemoryId, ReadonlyArray<Stored>>() // by this batch, since it purged the id
    const purged = new Set<MemoryId>()
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
      if (next === undefined) purged.add(id)
      replaced.set(id, next && current ? [current, ...replaced.get(id) ?? []] : [])
    }
    const revisionOf = (id: MemoryId, revision: number): MemoryRecord | undefined => {
      if (!input.hasHistory(id)) return undefined
      const own = replaced.get(id)?.find(({ record }) => record.revision === revision)?.record
      return own ?? (purged.has(id) ? undefined : input.revision(id, revision))
    }

    /** Returns the circumstances of a write into this scope, with its trust limited; instructions keep that of their file. */
    const into = (scope: MemoryScope): Version.Circumstances =>
      origin === "instructions"
        ? input
        : { ...input, provenance: { ...provenance, trust: trustIn(viewer, scope, provenance.trust ?? 1) } }
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

    for (const [id, mutation] of input.mutations) {
      const row = rows.get(id)
      const before = there(row) ? row.record.revision : 0
      switch (mutation._tag) {
        case "Put": {
          const { draft } = mutation
          if (draft.id === undefined) {
            if (mutation.ifRevision !== undefined) return yield* Either.left(invalid(op, "ifRevision: needs an id"))
            const record = yield* legal(Version.created(id, draft, into(draft.scope), 1))
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
          if (visible(row)) yield* writable(row) // a forgotten row, too, keeps its id for its file
          yield* standsAt(id, there(row) ? row : undefined, mutation.ifRevision)
          const fresh = Version.created(id, draft, into(draft.scope), (row?.record.revision ?? 0) + 1)
          const record = yield* legal(there(row) ? Version.replaced(row.record, fresh, draft, now) : fresh)
          if (row && !visible(row)) return yield* fail("invalid_id", id, "this id cannot be used")
          applied.push({ id, outcome: there(row) ? "updated" : "created", before, record })
          write(id, stored(record))
          break
        }
        case "Update": {
          if (!there(row)) return yield* fail("not_found", id, "there is no such record")
          yield* writable(row)
          yield* standsAt(id, row, mutation.ifRevision)
          const record = yield* legal(
            Version.patched(row.record, mutation.patch, into(row.record.scope).provenance, now),
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
          const again = Version.again(earlier, row.record.revision + 1)
          const restored = Viewer.isSystem(viewer) ? again : yield* legal(again, earlier)
          write(id, stored(restored))
          applied.push({ id, outcome: before === 0 ? "created" : "updated", before, record: restored })
        }
      }
    }
    return { applied, writes, changes }
  })

const isReserved = (tag: string): boolean => tag.trim().toLowerCase() === "instructions"

const live = (row: Stored | undefined): MemoryRecord | undefined => row && !row.forgotten ? row.record : undefined

const tombstone = (row: Stored, now: number): Stored => ({
  record: Version.forgotten(row.record, now),
  forgotten: true
})
