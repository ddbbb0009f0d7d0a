/**
 * Reads what vaults of format 1 kept: earlier revisions in one file per record, a list of touched paths, and a journal of
 * the batch at hand. The first opening for writing puts the revisions into the history and removes these files.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sha256 } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import { type MemoryId, ULID_RE } from "../../../domain/MemoryId.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as Version from "../../Version.ts"
import type { Disk } from "./Disk.ts"
import type { Part } from "./History.ts"
import { hidden, idOf, isBelow, segmentOf } from "./Layout.ts"
import type { Mirror } from "./Mirror.ts"
import { partOf } from "./Revisions.ts"
import { unseal } from "./Seal.ts"

type Io<A> = Effect.Effect<A, MemoryError>

const revisions = `${hidden}/revisions`
const journal = `${hidden}/journal.json`
const log = `${hidden}/log`

const Line = Schema.parseJson(Schema.Struct({ record: MemoryRecord, forgotten: Schema.Boolean }))
const Steps = Schema.parseJson(Schema.Array(Schema.Struct({
  path: Schema.String,
  /** The text before the batch; `null`: there was no file. */
  content: Schema.NullOr(Schema.String),
  /** Hash of the text that the batch wrote; `null`: it removed the file. */
  after: Schema.NullOr(Schema.String)
})))
const decodeSteps = Schema.decodeOption(Steps)

export interface Row {
  readonly record: MemoryRecord
  readonly forgotten: boolean
}

/** Whether format 1 left anything. */
export const isThere = (disk: Disk): Io<boolean> =>
  Effect.map(Effect.forEach([revisions, journal, log], disk.stat), (all) => all.some(Option.isSome))

/**
 * The earlier revisions of every record, oldest first, by tenant. A line that cannot be read is passed over; a folder whose
 * name is a hash is of the tenant of `tenants` with that segment.
 */
export const read = (
  disk: Disk,
  segments: ReadonlyMap<string, string>
): Io<ReadonlyArray<readonly [tenant: string, id: MemoryId, rows: ReadonlyArray<Row>]>> =>
  Effect.gen(function*() {
    const all: Array<readonly [string, MemoryId, ReadonlyArray<Row>]> = []
    for (const segment of yield* disk.list(revisions)) {
      const tenant = segments.get(segment) ?? idOf(segment)
      if (tenant === undefined) continue
      for (const name of yield* disk.list(`${revisions}/${segment}`)) {
        const id = name.replace(/\.jsonl$/, "")
        if (!ULID_RE.test(id)) continue
        const text = yield* disk.readLoose(`${revisions}/${segment}/${name}`)
        const rows = new Map<number, Row>() // the last word on a revision stands
        for (const line of Option.getOrElse(text, () => "").split("\n")) {
          const row = Schema.decodeEither(Line)(line)
          if (Either.isRight(row)) rows.set(row.right.record.revision, row.right)
        }
        const oldestFirst = Array.from(rows.values()).sort((a, b) => a.record.revision - b.record.revision)
        if (oldestFirst.length > 0) all.push([tenant, id as MemoryId, oldestFirst]) // as the pattern says
      }
    }
    return all
  })

/** Puts back what a batch of format 1 left half done, but for files that were changed since. For the holder of the lock. */
export const recover = (disk: Disk, key: string): Io<void> =>
  Effect.gen(function*() {
    const left = yield* disk.readLoose(journal)
    if (Option.isNone(left)) return
    const steps = Option.flatMap(unseal(key, left.value), decodeSteps)
    if (Option.isNone(steps)) {
      yield* Effect.logWarning("the journal of an earlier version cannot be read; it is put aside")
      yield* disk.move(journal, `${journal}.unread`)
      return
    }
    for (const { after, content, path } of steps.value.toReversed()) {
      if (!isBelow(path) || Option.isSome(yield* disk.linkAbove(path))) continue
      const text = Option.getOrNull(yield* disk.readLoose(path))
      if ((text === null ? null : sha256(text)) !== after) continue
      yield* content === null ? disk.remove(path) : disk.write(path, content)
    }
    yield* disk.remove(journal)
  })

/** Removes what format 1 kept. */
export const discard = (disk: Disk): Io<void> =>
  Effect.forEach([revisions, journal, log], (path) => disk.discard(path), { discard: true })

/** The revisions of format 1, and after those of a record what is there now. */
export const inherited = (disk: Disk, mirror: Mirror, current: ReadonlyArray<Part>): Io<ReadonlyArray<Part>> =>
  Effect.gen(function*() {
    const segments = new Map(mirror.tenants().map((tenant) => [segmentOf(tenant), tenant]))
    const parts = new Map(current.map((part) => [`${part.tenant}/${part.id}`, part]))
    const all: Array<Part> = []
    for (const [tenant, id, rows] of yield* read(disk, segments)) {
      const entry = mirror.entry(tenant, id)
      const now = parts.get(`${tenant}/${id}`) ?? (entry && partOf(entry))
      parts.delete(`${tenant}/${id}`)
      const none = { tenant, id, extra: {}, path: null, gone: [], before: null, after: null }
      const earlier = rows.filter(({ record }) => !now?.record || record.revision < now.record.revision)
      const newest = rows.at(-1)
      for (const row of earlier) {
        all.push({
          ...none,
          ...row,
          record: !now && row === newest && row.forgotten ? due(row.record) : row.record
        })
      }
      if (now) {
        all.push(now)
      } else if (newest && !newest.forgotten) {
        const record = Version.forgotten(newest.record, yield* Clock.currentTimeMillis)
        all.push({ ...none, record, forgotten: true })
      }
    }
    return [...all, ...parts.values()]
  })

/** A tombstone of format 1, which the next compaction was to erase: it counts as one of long ago. */
const due = (record: MemoryRecord): MemoryRecord =>
  new MemoryRecord({ ...record, updatedAt: 0 }, { disableValidation: true })
