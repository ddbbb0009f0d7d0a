/** The rows of a store that is known as a service only: for what stands on stores, and has to know a tombstone. */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type * as MemoryKind from "../domain/MemoryKind.ts"
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import * as Viewer from "../domain/Viewer.ts"
import { rowOf } from "./internal/Entry.ts"
import type { Service, Stored } from "./MemoryStore.ts"

export interface Below {
  readonly stored: (tenant: string, record: MemoryRecord, forgotten: boolean) => Stored
  /** Reads rows by id: the records that the library sees, and which of them are in the trash. */
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<Stored>>, MemoryError>
  /** Streams the trash. */
  readonly tombstones: (tenant: string) => Stream.Stream<Stored, MemoryError>
  /** Newest first. A service does not say which of the earlier revisions are tombstones: they count as none. */
  readonly revisions: (
    tenant: string,
    id: MemoryId,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Stored>, MemoryError>
}

export const make = (below: Service, kinds: ReadonlyMap<string, MemoryKind.MemoryKind>): Below => {
  const stored = (tenant: string, record: MemoryRecord, forgotten: boolean): Stored =>
    forgotten ? { record, forgotten } : rowOf(kinds, tenant, record)
  const trash = (tenant: string, ids?: ReadonlyArray<MemoryId>) =>
    below.stream(Viewer.system(tenant), { forgotten: true, ids, limit: 1_000 })

  return {
    stored,
    tombstones: (tenant) => Stream.map(trash(tenant), (record) => stored(tenant, record, true)),
    read: (tenant, ids) =>
      Effect.gen(function*() {
        const all = yield* below.get(Viewer.system(tenant), ids)
        const found = Array.from(new Set(all.flatMap((record) => Option.isSome(record) ? [record.value.id] : [])))
        const forgotten = new Set(
          found.length === 0
            ? []
            : Chunk.map(yield* Stream.runCollect(trash(tenant, found)), ({ id }) => id)
        )
        return all.map(Option.map((record) => stored(tenant, record, forgotten.has(record.id))))
      }),
    revisions: (tenant, id, limit) =>
      Effect.gen(function*() {
        const [newest, ...earlier] = yield* below.history(Viewer.system(tenant), id, limit)
        if (newest === undefined) return []
        const isForgotten = (yield* Stream.runHead(trash(tenant, [id])))._tag === "Some"
        return [
          stored(tenant, newest, isForgotten),
          ...earlier.map((record) => stored(tenant, record, false))
        ]
      })
  }
}
