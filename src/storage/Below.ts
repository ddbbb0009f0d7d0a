/** The rows of a store that is known as a service only: for what stands on stores, and has to know a tombstone. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { dedupeKey, type Draft, isExpired, type MemoryRecord } from "../domain/MemoryRecord.ts"
import { Internal, isInternal } from "../domain/MemoryScope.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { Service, Stored } from "./MemoryStore.ts"

export interface Below {
  readonly stored: (tenant: string, record: MemoryRecord, forgotten: boolean) => Stored
  /** A service doesn't say what is a tombstone: the library sees it, a viewer that sees everything does not. */
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<Stored>>, MemoryError>
  /** Newest first; of those before the last tombstone it is not known which are more of them. */
  readonly revisions: (
    tenant: string,
    id: MemoryId,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Stored>, MemoryError>
}

export const make = (below: Service, kinds: ReadonlyMap<string, MemoryKind.MemoryKind>): Below => {
  const stored = (tenant: string, record: MemoryRecord, forgotten: boolean): Stored => ({
    record,
    forgotten,
    dedupeKey: !forgotten && MemoryKind.find(kinds, record.kind).dedupe ? dedupeKey(tenant, record) : undefined
  })

  return {
    stored,
    read: (tenant, ids) =>
      Effect.gen(function*() {
        const now = yield* Clock.currentTimeMillis
        const all = yield* below.get(Viewer.system(tenant), ids)
        const seen = yield* below.get(Viewer.everyone(tenant), ids)
        // the library's own rows are nobody's to see; of a list tombstones are no part
        const own = all.flatMap((found) =>
          Option.isSome(found) && isInternal(found.value.scope) ? [found.value.id] : []
        )
        const listed = own.length === 0
          ? []
          : (yield* below.list(Viewer.system(tenant), { scope: Internal, ids: own, limit: 1_000 })).items
        return all.map((found, n) =>
          Option.map(found, (record) => {
            const isThere = isInternal(record.scope)
              ? listed.some(({ id }) => id === record.id)
              : Option.isSome(seen[n]!) || isExpired(record, now)
            return stored(tenant, record, !isThere)
          })
        )
      }),
    revisions: (tenant, id, limit) =>
      Effect.gen(function*() {
        const now = yield* Clock.currentTimeMillis
        const all = yield* below.history(Viewer.system(tenant), id, limit)
        const sinceTombstone = yield* below.history(Viewer.everyone(tenant), id, limit)
        return all.map((record, n) =>
          stored(
            tenant,
            record,
            n === sinceTombstone.length && !isExpired(record, now) && !isInternal(record.scope)
          )
        )
      })
  }
}

/** What puts a record as it is: it says everything but who wrote it, when, and what came after it. */
export const draftOf = (record: MemoryRecord): Draft => ({
  id: record.id,
  scope: record.scope,
  kind: record.kind,
  summary: record.summaryDerived ? undefined : record.summary,
  body: record.body,
  tags: record.tags,
  importance: record.importance,
  confidence: record.confidence,
  links: record.links,
  data: record.data,
  metadata: record.metadata,
  validAt: record.validAt,
  invalidAt: record.invalidAt,
  expiresAt: record.expiresAt,
  source: record.source
})
