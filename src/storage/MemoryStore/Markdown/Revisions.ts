/** Reads the revisions of a vault's records: the current ones from the files, the earlier ones from the history. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import type { Stored } from "../../MemoryStore.ts"
import type { History } from "./History.ts"
import type { Mirror } from "./Mirror.ts"

type Io<A> = Effect.Effect<A, MemoryError>

export interface Revisions {
  /** The record as its file has it; without a file, as the history has it, and forgotten. */
  readonly read: (tenant: string, id: MemoryId) => Io<Option.Option<Stored>>
  /** Newest first, at most `limit`, the current one among them. A revision whose line is damaged is left out. */
  readonly all: (tenant: string, id: MemoryId, limit: number) => Io<ReadonlyArray<Stored>>
  /** Every record of the tenant that has no file, as it was when it was forgotten. */
  readonly forgotten: (tenant: string) => Io<ReadonlyArray<Stored>>
}

export const make = (history: History, mirror: Mirror): Revisions => {
  /** Reads again where the history was compacted meanwhile, so that its lines stand elsewhere. */
  const current = <A>(read: Io<A>): Io<A> =>
    Effect.gen(function*() {
      for (;;) {
        const began = history.generation()
        const answer = yield* read
        if (!(yield* history.isReplaced) && history.generation() === began) return answer
        yield* history.news(false)
      }
    })

  /** A record without a file: forgotten, be it by a hand. Where its last line is damaged, the one before stands in. */
  const gone = (tenant: string, id: MemoryId): Io<Option.Option<Stored>> =>
    Effect.gen(function*() {
      const places = history.places(tenant, id)
      for (const place of places) {
        const kept = yield* history.read(place)
        if (Option.isNone(kept)) continue
        const { revision } = places[0]! // one at least
        const record = new MemoryRecord({ ...kept.value.record, revision }, { disableValidation: true })
        return Option.some({ record, forgotten: true })
      }
      return Option.none()
    })

  return {
    read: (tenant, id) => {
      const entry = mirror.entry(tenant, id)
      return entry ? Effect.succeedSome(entry.row) : current(gone(tenant, id))
    },
    all: (tenant, id, limit) =>
      current(Effect.gen(function*() {
        const row = mirror.entry(tenant, id)?.row
        const places = history.places(tenant, id)
        const earlier = row ? places.filter(({ revision }) => revision < row.record.revision) : places
        const rows = yield* Effect.forEach(earlier.slice(0, row ? limit - 1 : limit), (place) =>
          Effect.map(history.read(place), (kept): ReadonlyArray<Stored> =>
            Option.isSome(kept) ? [{ record: kept.value.record, forgotten: place.forgotten }] : []))
        return row ? [row, ...rows.flat()] : rows.flat()
      })),
    forgotten: (tenant) =>
      current(Effect.gen(function*() {
        const ids: Array<MemoryId> = []
        for (const { id } of history.all(tenant)) if (mirror.entry(tenant, id) === undefined) ids.push(id)
        const rows = yield* Effect.forEach(ids, (id) => gone(tenant, id))
        return rows.flatMap(Option.toArray)
      }))
  }
}
