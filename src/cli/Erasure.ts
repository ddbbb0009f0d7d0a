/**
 * Erases all data of one person. The records, tombstones and revisions of every scope with the user's id are erased. Internal rows, such as
 * threads and messages that wait for extraction, are erased, too. Records of other scopes remain, even if they mention the person.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../domain/MemoryError.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import { isInternal } from "../domain/MemoryScope.ts"
import * as Viewer from "../domain/Viewer.ts"
import { sideOf } from "../storage/Copy/Lineage.ts"
import type { Service } from "../storage/MemoryStore.ts"
import { owns } from "../transfer/Person.ts"
import * as Rows from "./Rows.ts"

/** A person: the id of a user within a tenant. */
export interface Person {
  readonly tenant: string
  readonly userId: string
}

/** Schema of the rows of a person: the numbers of records, tombstones and internal rows, and the ids of all these rows. */
export const Belongings = Schema.Struct({
  records: Schema.Number,
  tombstones: Schema.Number,
  /** Number of internal rows, that is, rows of threads and rows of the outbox (messages to extract, plans and session states). */
  internal: Schema.Number,
  ids: Schema.Array(MemoryId)
})
/** The numbers of a person's records, tombstones and internal rows, and the ids of all these rows. */
export interface Belongings extends Schema.Schema.Type<typeof Belongings> {}

type Io<A> = Effect.Effect<A, MemoryError>

/** Finds all rows of a person. Cost: a scan of all rows of the tenant. */
export const find = (store: Service, person: Person): Io<Belongings> =>
  Effect.gen(function*() {
    const found = { records: 0, tombstones: 0, internal: 0, ids: new Array<MemoryId>() }
    yield* Stream.runForEach(Rows.of(store, person.tenant), ({ forgotten, record }) =>
      Effect.sync(() => {
        if (!owns(person.userId, record)) return
        found.ids.push(record.id)
        if (isInternal(record.scope)) found.internal++
        else if (forgotten) found.tombstones++
        else found.records++
      }))
    return found
  })

/** Number of ids that are purged in one write, or looked up in one read. */
const batch = 100

/** Purges rows by id, in several writes. If `purge` is interrupted, `find` still finds the rows that are left. */
export const purge = (
  store: Service,
  { tenant }: Person,
  ids: ReadonlyArray<MemoryId>,
  onProgress: (done: number) => Effect.Effect<void>
): Io<void> =>
  Effect.gen(function*() {
    for (let at = 0; at < ids.length; at += batch) {
      yield* store.forget(Viewer.system(tenant), ids.slice(at, at + batch), { purge: true })
      yield* onProgress(Math.min(ids.length, at + batch))
    }
  })

/** Schema of the result of `scan`, which shows whether data of a person is left. */
export const Scan = Schema.Struct({
  /** Number of rows of the tenant that were read. */
  rows: Schema.Number,
  /** Number of ids of which a row or a revision is left. It is 0 only if nothing of the person is left. */
  remaining: Schema.Number
})

/** Verifies that nothing of a person is left. Every row of the tenant is read. Each erased id and its revisions are looked up. */
export const scan = (store: Service, person: Person, erased: ReadonlyArray<MemoryId>): Io<typeof Scan.Type> =>
  Effect.gen(function*() {
    const left = new Set((yield* find(store, person)).ids)
    const rows = yield* Rows.count(store, [person.tenant])
    const { reader } = yield* sideOf(store)
    for (let at = 0; at < erased.length; at += batch) {
      const some = erased.slice(at, at + batch)
      for (const row of yield* reader.read(person.tenant, some)) if (Option.isSome(row)) left.add(row.value.record.id)
      for (const id of some) if ((yield* reader.revisions(person.tenant, id, 1)).length > 0) left.add(id)
    }
    return { rows, remaining: left.size }
  })
