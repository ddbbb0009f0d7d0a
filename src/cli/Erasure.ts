/**
 * Erases everything of one person: records, tombstones and revisions of every scope that holds the user, and what waits in the
 * library's own rows, such as threads and messages to be extracted. Records of other scopes that mention the person stay: what they
 * say belongs to those scopes.
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

/** A person in a tenant. */
export interface Person {
  readonly tenant: string
  readonly userId: string
}

/** Schema of what belongs to a person. */
export const Belongings = Schema.Struct({
  records: Schema.Number,
  tombstones: Schema.Number,
  /** Rows of the library: of threads, and of messages that wait to be extracted. */
  internal: Schema.Number,
  ids: Schema.Array(MemoryId)
})
/** The rows of a person. */
export interface Belongings extends Schema.Schema.Type<typeof Belongings> {}

type Io<A> = Effect.Effect<A, MemoryError>

/** Finds all that belongs to a person. Cost: every row of the tenant is read. */
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

/** Ids that are purged in one write. */
const batch = 100

/** Purges rows by id. It may be interrupted between two writes: then the rest stands, and can be found again. */
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

/** Schema of a proof that nothing of a person is left. */
export const Scan = Schema.Struct({
  /** Rows of the tenant that were read. */
  rows: Schema.Number,
  /** Rows and revisions that are left of the person: 0. */
  remaining: Schema.Number
})

/** Reads every row of the tenant again, and asks for each erased id and its revisions. */
export const scan = (store: Service, person: Person, erased: ReadonlyArray<MemoryId>): Io<typeof Scan.Type> =>
  Effect.gen(function*() {
    const { ids } = yield* find(store, person)
    const rows = yield* Rows.count(store, [person.tenant])
    const { reader } = yield* sideOf(store)
    let left = 0
    for (let at = 0; at < erased.length; at += batch) {
      const some = erased.slice(at, at + batch)
      left += (yield* reader.read(person.tenant, some)).filter(Option.isSome).length
      for (const id of some) left += (yield* reader.revisions(person.tenant, id, 1)).length
    }
    return { rows, remaining: ids.length + left }
  })
