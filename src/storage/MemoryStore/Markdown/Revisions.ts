/** What records were: one sidecar a record, a line a revision, oldest first. The current revision is the record's own file. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import { type MemoryId, ULID_RE } from "../../../domain/MemoryId.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import { revisionsKept, type Stored } from "../../MemoryStore.ts"
import type { Disk } from "./Disk.ts"
import type { Step } from "./Journal.ts"
import { hidden, segmentOf } from "./Layout.ts"

const Line = Schema.parseJson(Schema.Struct({ record: MemoryRecord, forgotten: Schema.Boolean }))

export interface Revisions {
  /** Earlier revisions, newest first. A line that cannot be read is passed over. */
  readonly read: (tenant: string, id: MemoryId) => Effect.Effect<ReadonlyArray<Stored>, MemoryError>
  /** The file's next text, where these came to pass; no file where nothing is left. */
  readonly step: (tenant: string, id: MemoryId, rows: ReadonlyArray<Stored>) => Step
  /** The file. */
  readonly path: (tenant: string, id: MemoryId) => string
  /** Every file. */
  readonly all: Effect.Effect<ReadonlyArray<string>, MemoryError>
  /** The ids with earlier revisions. */
  readonly ids: (tenant: string) => Effect.Effect<ReadonlyArray<MemoryId>, MemoryError>
  /** The folders of tenants. */
  readonly tenants: Effect.Effect<ReadonlyArray<string>, MemoryError>
}

const folder = `${hidden}/revisions`

export const make = (disk: Disk): Revisions => {
  const path = (tenant: string, id: MemoryId) => `${folder}/${segmentOf(tenant)}/${id}.jsonl`

  return {
    path,
    all: Effect.flatMap(disk.list(folder), (segments) =>
      Effect.map(
        Effect.forEach(segments, (segment) =>
          Effect.map(disk.list(`${folder}/${segment}`), (names) =>
            names.map((name) => `${folder}/${segment}/${name}`))),
        (all) =>
          all.flat()
      )),
    read: (tenant, id) =>
      Effect.map(disk.readLoose(path(tenant, id)), (text) => {
        const rows = new Map<number, Stored>() // the last word on a revision stands
        for (const line of Option.getOrElse(text, () => "").split("\n")) {
          const row = Schema.decodeEither(Line)(line)
          if (Either.isRight(row)) rows.set(row.right.record.revision, row.right)
        }
        return Array.from(rows.values()).sort((a, b) => b.record.revision - a.record.revision)
      }),
    step: (tenant, id, rows) => ({
      path: path(tenant, id),
      content: rows.length === 0
        ? null
        : rows.slice(0, revisionsKept).toReversed().map(({ forgotten, record }) =>
          Schema.encodeSync(Line)({ record, forgotten }) + "\n"
        ).join("")
    }),
    ids: (tenant) =>
      Effect.map(disk.list(`${folder}/${segmentOf(tenant)}`), (names) =>
        names.flatMap((name) => {
          const id = name.replace(/\.jsonl$/, "")
          return ULID_RE.test(id) ? [id as MemoryId] : [] // as the pattern says
        })),
    tenants: disk.list(folder)
  }
}
