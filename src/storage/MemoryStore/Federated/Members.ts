/** The stores of a federation: who is in it, and which of them an id belongs to. */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import type { Service, Stored } from "../../MemoryStore.ts"

export interface Member {
  readonly name: string
  readonly description: string | undefined
  readonly maxResults: number
  readonly writable: boolean
  readonly mirror: ((record: MemoryRecord) => boolean) | undefined
  readonly store: Service
  /** Ends when it leaves. */
  readonly gone: Effect.Effect<void>
}

/** In the order of the federation, but those that mirror come last: what they hold may be another's. */
export type Members = ReadonlyArray<Member>

export const ranked = (members: Members): Members => [
  ...members.filter(({ mirror }) => mirror === undefined),
  ...members.filter(({ mirror }) => mirror !== undefined)
]

/** Where an id is. */
export interface Held {
  /** The first that has it, a tombstone or what nobody sees included; what others have of it is a copy. */
  readonly by: Member | undefined
  /** The record as that store has it, for the library's own eyes. */
  readonly record: MemoryRecord | undefined
  /** One before it, or any where there is none, that gave no answer: it may be there. */
  readonly unsure: { readonly by: Member; readonly error: MemoryError.MemoryError } | undefined
}

/** Asks all of them, at once. Cost: one `get` each. */
export const find = (
  members: Members,
  viewer: Viewer.Any,
  ids: ReadonlyArray<MemoryId>
): Effect.Effect<(id: MemoryId) => Held> => {
  if (ids.length === 0) return Effect.succeed(() => nowhere)
  const system = Viewer.system(viewer.tenant)
  return Effect.map(
    Effect.forEach(members, (member) => Effect.either(member.store.get(system, ids)), { concurrency: "unbounded" }),
    (answers) => heldBy(members, ids, answers)
  )
}

/** Says for each id which member holds it, from what each of them answered. */
const heldBy = (
  members: Members,
  ids: ReadonlyArray<MemoryId>,
  answers: ReadonlyArray<Either.Either<ReadonlyArray<Option.Option<MemoryRecord>>, MemoryError.MemoryError>>
): (id: MemoryId) => Held => {
  const held = new Map<MemoryId, Held>()
  for (const [n, id] of ids.entries()) {
    let unsure: Held["unsure"]
    let record: MemoryRecord | undefined
    const at = answers.findIndex((answer, m) => {
      if (Either.isRight(answer)) record = Option.getOrUndefined(answer.right[n]!)
      else unsure ??= { by: members[m]!, error: answer.left }
      return record !== undefined
    })
    held.set(id, { by: members[at], record, unsure })
  }
  return (id) => held.get(id) ?? nowhere
}

/** Rows of one member by id. An id that was asked for is a key, `undefined` where the member has no row of it. */
export type Rows = ReadonlyMap<MemoryId, Stored | undefined>

/** What each member holds of the ids that a batch names, read once and handed on to all that a write needs it for. */
export interface Located {
  readonly held: (id: MemoryId) => Held
  readonly rows: ReadonlyMap<Member, Either.Either<Rows, MemoryError.MemoryError>>
}

/** Reads the rows of all members, at once. Cost: one reading each, none without ids. */
export const locate = (
  members: Members,
  tenant: string,
  ids: ReadonlyArray<MemoryId>
): Effect.Effect<Located> =>
  Effect.map(
    Effect.forEach(members, (member) => Effect.either(rowsOf(member, tenant, ids)), { concurrency: "unbounded" }),
    (answers) => ({
      held: heldBy(
        members,
        ids,
        answers.map(Either.map((rows) => ids.map((id) => Option.fromNullable(rows.get(id)?.record))))
      ),
      rows: new Map(members.map((member, n) => [member, answers[n]!]))
    })
  )

/** Reads rows as they are, tombstones included. A member without a reader, as a federation, is asked as the library. */
export const rowsOf = (
  { store }: Member,
  tenant: string,
  ids: ReadonlyArray<MemoryId>
): Effect.Effect<Rows, MemoryError.MemoryError> => {
  if (ids.length === 0) return Effect.succeed(new Map())
  const answer = Option.match(store.reader, {
    onSome: ({ read }) => read(tenant, ids),
    onNone: () => rowsSeen(store, tenant, ids)
  })
  return Effect.map(answer, (rows) => new Map(ids.map((id, n) => [id, Option.getOrUndefined(rows[n]!)])))
}

/** Makes rows of what a store shows to the library. Cost: one `get`, and a page of the trash where anything was found. */
const rowsSeen = (store: Service, tenant: string, ids: ReadonlyArray<MemoryId>) =>
  Effect.gen(function*() {
    const system = Viewer.system(tenant)
    const records = yield* store.get(system, ids)
    const found = Array.from(new Set(records.flatMap((record) => Option.isSome(record) ? [record.value.id] : [])))
    const trash = found.length === 0
      ? Chunk.empty<MemoryRecord>()
      : yield* Stream.runCollect(store.stream(system, { forgotten: true, ids: found, limit: 1_000 }))
    const forgotten = new Set(Chunk.map(trash, ({ id }) => id))
    return records.map(Option.map((record): Stored => ({ record, forgotten: forgotten.has(record.id) })))
  })

/** Returns the kept revisions of a record, newest first. */
export const revisionsOf = (
  { store }: Member,
  tenant: string,
  id: MemoryId
): Effect.Effect<ReadonlyArray<Stored>, MemoryError.MemoryError> =>
  Option.match(store.reader, {
    onSome: ({ revisions }) => revisions(tenant, id, 1_000),
    onNone: () =>
      Effect.map(
        store.history(Viewer.system(tenant), id, 1_000),
        (records) => records.map((record) => ({ record, forgotten: false })) // a restore reads the records alone
      )
  })

const nowhere: Held = { by: undefined, record: undefined, unsure: undefined }

/** As a reader may be told: `undefined` only where it is surely nowhere. */
export const known = ({ by, unsure }: Held): Effect.Effect<Member | undefined, MemoryError.MemoryError> =>
  by === undefined && unsure !== undefined ? unsure.error : Effect.succeed(by)

/**
 * Asks the store that holds an id for it, in the order given. Ids that no store holds are asked of the first store, which
 * reports them missing.
 */
export const each = <A>(
  members: Members,
  viewer: Viewer.Any,
  ids: ReadonlyArray<MemoryId>,
  ask: (store: Service, ids: ReadonlyArray<MemoryId>) => Effect.Effect<ReadonlyArray<A>, MemoryError.MemoryError>
): Effect.Effect<ReadonlyArray<A>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const held = yield* find(members, viewer, ids)
    const asked = new Map<Member, Array<number>>()
    for (const [n, id] of ids.entries()) {
      const member = (yield* known(held(id))) ?? members[0]!
      asked.set(member, [...asked.get(member) ?? [], n])
    }
    const answers: Array<A> = []
    yield* Effect.forEach(asked, ([{ store }, places]) =>
      Effect.map(
        ask(
          store,
          places.map((n) => ids[n]!)
        ),
        (all) =>
          all.forEach((answer, n) => {
            answers[places[n]!] = answer
          })
      ), {
      concurrency: "unbounded",
      discard: true
    })
    return answers
  })

/** The store that has it, or the first. */
export const holder = (
  members: Members,
  viewer: Viewer.Any,
  id: MemoryId
): Effect.Effect<Service, MemoryError.MemoryError> =>
  find(members, viewer, [id]).pipe(
    Effect.flatMap((held) => known(held(id))),
    Effect.map((member) => (member ?? members[0]!).store)
  )
