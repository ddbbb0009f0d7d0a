/**
 * The rows of threads in a store. A row is a record of kind `thread`, in an internal scope, which only the viewer `System` sees.
 *
 * ```text
 * thread   one for each thread: its name, its generation, the number of its messages, and the page that lists it
 * message  one for each message, or several if the message is longer than a record can hold; erased with the thread
 * page     the names of up to 100 threads of one owner, in the order in which they were made
 * owner    the number of pages of an owner
 * ```
 *
 * A row is read by its id. The id is derived with the secret of the store, so that no viewer can create a record with this id first. A
 * generation is a random text that is made for each new thread. The ids of message rows are derived from the generation. So a thread that
 * is deleted and created again never shows its old messages.
 */
import * as Effect from "effect/Effect"
import * as Iterable from "effect/Iterable"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { canonicalJson } from "../../domain/Digest.ts"
import * as MemoryError from "../../domain/MemoryError.ts"
import { type MemoryId, signedId } from "../../domain/MemoryId.ts"
import type { MemoryMutation } from "../../domain/MemoryMutation.ts"
import { type MemoryRecord, Millis, pieces } from "../../domain/MemoryRecord.ts"
import { Internal, isInternal, MemoryScope, normalise } from "../../domain/MemoryScope.ts"
import { Message } from "../../domain/Message.ts"
import { JsonObject } from "../../domain/Payload.ts"
import * as Validation from "../../domain/Validation.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type { SignedName } from "../../storage/Copy/Lineage.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"

/** The kind of all rows. */
export const kind = "thread"

/** Largest number of thread names in a page row. */
export const namesInPage = 100

const owned = { owner: MemoryScope }
/** Schema of the row of a thread. */
export const ThreadData = Schema.Struct({
  row: Schema.Literal("thread"),
  ...owned,
  name: Schema.String,
  generation: Schema.String,
  /** Number of messages. */
  length: Schema.NonNegativeInt,
  /** Number, from 0, of the page that lists the thread's name. A page is a row with names of threads. */
  page: Schema.NonNegativeInt,
  /** Time at which the thread was made, epoch milliseconds. Only a renamed thread has it, since its row is newer than the thread. */
  createdAt: Schema.optional(Millis)
})
/** The `data` of the row of a thread. */
export type ThreadData = typeof ThreadData.Type

const MessageData = Schema.Struct({
  row: Schema.Literal("message"),
  ...owned,
  generation: Schema.String,
  sequence: Schema.NonNegativeInt,
  part: Schema.NonNegativeInt,
  parts: Schema.Int.pipe(Schema.positive())
})

/** Schema of a page row, which lists names of threads. */
export const PageData = Schema.Struct({ row: Schema.Literal("page"), ...owned, names: Schema.Array(Schema.String) })

/** Schema of the row of an owner, which contains the number of the owner's page rows. */
export const OwnerData = Schema.Struct({ row: Schema.Literal("owner"), ...owned, pages: Schema.NonNegativeInt })

/** Schema of a message as it is stored. */
export const Stored = Schema.Struct({
  message: Message,
  /** JSON that the caller stores with the message. */
  data: Schema.optional(JsonObject)
})
const StoredJson = Schema.parseJson(Stored)
/** A message of a thread, as `Stored` decodes it. */
export type Stored = typeof Stored.Type

/** A message to append. */
export interface NewMessage extends Message {
  /** JSON that is stored and returned with the message, such as tool calls or attachments. Default: no JSON. */
  readonly data?: JsonObject | undefined
}

/** A message of a thread. */
export interface ThreadMessage extends NewMessage {
  /** Sequence number in the thread, from 0. */
  readonly sequence: number
}

/** The description of a thread. */
export interface Thread {
  readonly name: string
  /** Number of messages. */
  readonly length: number
  /** Time at which the thread was made, epoch milliseconds. */
  readonly createdAt: number
  /** Time of the last change, epoch milliseconds. */
  readonly updatedAt: number
}

/** A row: a record together with its decoded `data`. */
export interface Row<A> {
  readonly data: A
  readonly record: MemoryRecord
}

/** Access to the rows of one owner in one store. */
export interface Rows {
  readonly store: MemoryStore.Service
  readonly system: Viewer.System
  readonly owner: MemoryScope
  /** Returns the id of the row that these values name. Example: `idOf("thread", "a")` for the row of the thread `a`. */
  readonly idOf: (...name: ReadonlyArray<string | number>) => MemoryId
}

/** Returns access to the rows of the threads that the viewer's subject (`Viewer.subjectOf`) owns. */
export const of = (
  store: MemoryStore.Service,
  viewer: Viewer.Viewer
): Effect.Effect<Rows, MemoryError.MemoryError> => {
  const owner = normalise(Viewer.subjectOf(viewer))
  const tenant = Viewer.tenantOf(viewer)
  return Effect.map(store.sign(purpose, canonicalJson([tenant, owner])), (signature) => ({
    store,
    system: Viewer.system(tenant),
    owner,
    idOf: (...name) => signedId(purpose, signature, canonicalJson(name))
  }))
}

const purpose = "threads"

/**
 * Returns the values from which the id of a row of kind `thread` was derived; `undefined` for any other record. A copy in another store
 * gets an id derived from the same values. A page row does not contain its number; `names` then has the names of all possible pages.
 */
export const readName = (record: MemoryRecord, tenant: string): SignedName | undefined =>
  record.kind !== kind
    ? undefined
    : Option.getOrUndefined(Option.map(readData(record.data), (data) => ({
      purpose,
      text: canonicalJson([tenant, data.owner]),
      names: Iterable.map(namesOf(data), (name) => canonicalJson(name))
    })))

const readData = Schema.decodeUnknownOption(Schema.Union(ThreadData, MessageData, PageData, OwnerData))

const namesOf = (data: ThreadData | typeof MessageData.Type | typeof PageData.Type | typeof OwnerData.Type) => {
  switch (data.row) {
    case "thread":
      return [["thread", data.name]]
    case "message":
      return [["message", data.generation, data.sequence, data.part]]
    case "page":
      return Iterable.map(Iterable.range(0, mostPages), (page) => ["page", page])
    case "owner":
      return [["owner"]]
  }
}
/** Highest page number for which `readName` returns a name. The pages up to this number list a million threads of an owner. */
const mostPages = 10_000

/**
 * Reads rows by id. A missing row is `None`. Fails with `corrupt` if a row has an unknown format. Fails with `unsupported` if a newer
 * version of the library wrote the row.
 */
export const read = <A, I>(
  { store, system }: Rows,
  schema: Schema.Schema<A, I>,
  ids: ReadonlyArray<MemoryId>
): Effect.Effect<ReadonlyArray<Option.Option<Row<A>>>, MemoryError.MemoryError> =>
  Effect.flatMap(
    store.get(system, ids),
    Effect.forEach((found) =>
      Option.isNone(found) || !isInternal(found.value.scope)
        ? Effect.succeedNone
        : Effect.asSome(decoded(schema, found.value))
    )
  )

const decoded = <A, I>(schema: Schema.Schema<A, I>, record: MemoryRecord) =>
  Validation.refuseNewer(record.data, { op: "threads", what: "a row of a thread" }).pipe(
    Effect.zipRight(Effect.mapError(Schema.decodeUnknown(schema)(record.data), (cause) => corrupt(record.id, cause))),
    Effect.map((data) => ({ data, record }))
  )

const corrupt = (id: MemoryId, cause: unknown) =>
  MemoryError.make("corrupt", {
    op: "threads",
    message: "a row of a thread cannot be read",
    detail: { location: id },
    cause
  })

/**
 * Returns the mutation that writes a row. `before` is the row as it was last read; `None` if the row is new. The mutation fails with
 * `conflict` if the row was written since that read.
 */
export const put = <A extends { readonly row: string }, I>(
  { idOf }: Rows,
  schema: Schema.Schema<A, I>,
  name: ReadonlyArray<string | number>,
  data: NoInfer<A>,
  before: Option.Option<Row<A>>
): MemoryMutation => ({
  _tag: "Put",
  draft: draft(idOf(...name), "", schema, data),
  ifRevision: Option.match(before, { onNone: () => 0, onSome: ({ record }) => record.revision })
})

const draft = <A extends { readonly row: string }, I>(
  id: MemoryId,
  body: string,
  schema: Schema.Schema<A, I>,
  data: NoInfer<A>
) => ({
  id,
  scope: Internal,
  kind,
  summary: `${data.row} of a conversation`,
  body,
  data: Schema.encodeSync(schema)(data) as JsonObject // the schema of every row encodes to JSON
})

/**
 * Returns the mutations that create the rows of a message. The mutations fail with `conflict` if one of the rows exists. Another process
 * has then appended a message with the same sequence number.
 */
export const putMessage = (
  { idOf, owner }: Rows,
  generation: string,
  sequence: number,
  stored: Stored
): ReadonlyArray<MemoryMutation> =>
  pieces(Schema.encodeSync(StoredJson)(stored)).map((body, part, { length: parts }) => ({
    _tag: "Put",
    draft: draft(idOf("message", generation, sequence, part), body, MessageData, {
      row: "message",
      owner,
      generation,
      sequence,
      part,
      parts
    }),
    ifRevision: 0
  }))

/** Returns the mutation that erases the row of a thread. The mutation fails with `conflict` if the row was changed after the read. */
export const erased = ({ record: { id, revision } }: Head): MemoryMutation => ({
  _tag: "Forget",
  id,
  purge: true,
  ifRevision: revision
})

/** Returns mutations that erase rows irrecoverably. */
export const erase = (ids: ReadonlyArray<MemoryId>): ReadonlyArray<MemoryMutation> =>
  ids.map((id) => ({ _tag: "Forget", id, purge: true }))

/** Reads the messages with the sequence numbers `from` to `end − 1`, and the ids of their rows. Leaves out missing messages. */
export const messages = (
  rows: Rows,
  generation: string,
  from: number,
  end: number
): Effect.Effect<
  ReadonlyArray<Stored & { readonly sequence: number; readonly ids: ReadonlyArray<MemoryId> }>,
  MemoryError.MemoryError
> =>
  Effect.gen(function*() {
    const { idOf } = rows
    const places = Array.from({ length: Math.max(0, end - from) }, (_, n) => from + n)
    const first = yield* read(rows, MessageData, places.map((place) => idOf("message", generation, place, 0)))
    const more = first.flatMap((row, n) =>
      Option.isNone(row)
        ? []
        : Array.from(
          { length: row.value.data.parts - 1 },
          (_, i) => [n, idOf("message", generation, places[n]!, i + 1)] as const
        )
    )
    const parts = more.length === 0 ? [] : yield* read(rows, MessageData, more.map(([, id]) => id))
    const texts = first.map((row) => Option.isNone(row) ? [] : [row.value])
    for (const [i, [n]] of more.entries()) texts[n]!.push(...Option.toArray(parts[i]!)) // `read` returns one result per id
    return yield* Effect.forEach(
      texts.flatMap((found, n) => found.length === 0 ? [] : [[places[n]!, found] as const]),
      ([sequence, found]) =>
        Effect.map(
          Effect.mapError(
            Schema.decode(StoredJson)(found.map(({ record }) => record.body).join("")),
            (cause) => corrupt(found[0]!.record.id, cause) // `found` is not empty
          ),
          (stored) => ({ ...stored, sequence, ids: found.map(({ record }) => record.id) })
        )
    )
  })

/** Reads the row of a thread by the thread's name. */
export const headOf = (rows: Rows, name: string): Effect.Effect<Option.Option<Head>, MemoryError.MemoryError> =>
  Effect.map(read(rows, ThreadData, [rows.idOf("thread", name)]), ([head]) => head!) // `read` returns one row per id
/** The row of a thread. */
export type Head = Row<ThreadData>

/** Returns a thread's name, length and times from its row. */
export const threadOf = ({ data, record: { createdAt, updatedAt = createdAt } }: Head): Thread => ({
  name: data.name,
  length: data.length,
  createdAt: data.createdAt ?? createdAt,
  updatedAt
})
