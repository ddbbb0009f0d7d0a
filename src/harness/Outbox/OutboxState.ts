/**
 * The rows of an outbox in a store. A row is a record of kind `outbox`, in an internal scope, which only the viewer `System` sees. A
 * conversation's state is assembled from its rows. A batch is the messages of one append. A plan is a model's answer, not applied yet.
 *
 * ```text
 * messages  the messages of a batch, with their sequence numbers                 erased by the write that stores their memories
 * plan      the model's answer, not yet written as memories                      erased by the same write, or when it cannot be applied
 * session   the sequence number of the next message                              updated by every write of the conversation
 * ```
 *
 * A text that is too long for one record is split into several rows. These rows are written and erased together.
 *
 * The ids of rows are derived with the secret of the store (see `ids`). So no viewer can predict an id and create a record with this id
 * first. An id does not reveal who talks to the agent. Earlier versions wrote rows with ids that any viewer can compute. These rows keep
 * their ids until they are erased.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { canonicalJson } from "../../domain/Digest.ts"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { MemoryFilter } from "../../domain/MemoryFilter.ts"
import { type MemoryId, signedId, stableId } from "../../domain/MemoryId.ts"
import { MemoryMutation } from "../../domain/MemoryMutation.ts"
import { type Draft, type MemoryRecord, Origin, pieces, Trust } from "../../domain/MemoryRecord.ts"
import { fields, Internal, isInternal, normalise } from "../../domain/MemoryScope.ts"
import { Message } from "../../domain/Message.ts"
import type { JsonObject } from "../../domain/Payload.ts"
import * as Validation from "../../domain/Validation.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type { SignedName } from "../../storage/Copy/Lineage.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import { nextIteration } from "./OutboxScheduler.ts"

/** A conversation: a viewer's messages of one session. */
export interface ConversationKey {
  readonly viewer: Viewer.Viewer
  readonly session: string
}

/** Id of a row's record, and the revision of the record when it was read or written. */
export interface Row {
  readonly id: MemoryId
  readonly revision: number
}

/** Messages that were appended together. */
export interface Batch {
  /** Sequence number of the first message. */
  readonly from: number
  /** Sequence number of the last message plus 1. */
  readonly to: number
  readonly rows: ReadonlyArray<Row>
  /** Reason why the batch was set aside as a dead letter; `undefined` while the batch waits for extraction. */
  readonly failure: string | undefined
}

/** The model's answer, stored as mutations that are not yet applied. */
export interface Plan {
  readonly rows: ReadonlyArray<Row>
  readonly mutations: ReadonlyArray<MemoryMutation>
  readonly provenance: MemoryStore.Provenance
  /** Ids of the message rows from which the plan was made. */
  readonly of: ReadonlyArray<MemoryId>
}

/** The state of a conversation when it was last read or written. */
export interface OutboxState extends ConversationKey {
  /** Id of the session row; absent if the row does not exist. The first write of the conversation creates the row. */
  readonly sessionRow?: MemoryId | undefined
  /** Revision of the session row; 0 if the row does not exist yet. */
  readonly revision: number
  /** Sequence number of the next message. */
  readonly next: number
  /** All batches, in the order of their messages. A batch waits for extraction, or is a dead letter (set aside after failures). */
  readonly batches: ReadonlyArray<Batch>
  readonly plan: Plan | undefined
}

const Entries = Schema.parseJson(
  Schema.Array(Schema.Struct({ sequence: Schema.NonNegativeInt, message: Message }))
)
/** A message and its sequence number in the session. */
export type Entry = Schema.Schema.Type<typeof Entries>[number]

const conversation = { viewer: Viewer.Stored, session: Schema.String }
const parts = { part: Schema.NonNegativeInt, parts: Schema.Int.pipe(Schema.positive()) }
const Data = Schema.Union(
  Schema.Struct({
    row: Schema.Literal("messages"),
    ...conversation,
    ...parts,
    from: Schema.NonNegativeInt,
    to: Schema.NonNegativeInt,
    /** Reason why the batch was set aside as a dead letter; absent while the batch waits for extraction. */
    parked: Schema.optional(Schema.String)
  }),
  Schema.Struct({
    row: Schema.Literal("plan"),
    ...conversation,
    ...parts,
    origin: Schema.optional(Origin),
    trust: Schema.optional(Trust),
    of: Schema.Array(Schema.String)
  }),
  Schema.Struct({ row: Schema.Literal("session"), ...conversation, next: Schema.NonNegativeInt })
)
/** The `data` of a row. */
export type Data = typeof Data.Type

/**
 * Returns a text that identifies a conversation. If the viewer's reach is `everyone`, the text contains the reach `within` instead. Earlier
 * versions derived the ids of rows from the same text, so their rows are still found.
 */
export const keyOf = ({ session, viewer }: ConversationKey): string =>
  canonicalJson([
    Viewer.tenantOf(viewer),
    normalise(Viewer.scopeOf(viewer)),
    viewer.reach === "everyone" ? "within" : viewer.reach,
    session
  ])

/** Maps the name of a row within a conversation, such as `session`, to the row's id. */
export type Ids = (name: string) => MemoryId
/** Returns the function that derives the row ids of a conversation. Stores with the same secret derive the same ids. */
export const ids = (store: MemoryStore.Service, key: ConversationKey): Effect.Effect<Ids, MemoryError.MemoryError> =>
  Effect.map(store.sign(kind, keyOf(key)), (signature) => (name) => signedId(kind, signature, name))

/** Returns the values from which a session row's id was derived. A copy in another store gets a new id from the same values. */
export const readName = (record: MemoryRecord): SignedName | undefined =>
  record.kind !== kind
    ? undefined
    : Option.getOrUndefined(Option.flatMap(Schema.decodeUnknownOption(Data)(record.data), (data) =>
      data.row !== "session" ? Option.none() : Option.some({ purpose: kind, text: keyOf(data), names: ["session"] })))

/** Makes drafts of the rows of a batch. */
export const messageDrafts = (
  key: ConversationKey,
  idOf: Ids,
  { from, to }: Pick<Batch, "from" | "to">,
  entries: ReadonlyArray<Entry>
): ReadonlyArray<Draft> =>
  pieces(Schema.encodeSync(Entries)(entries)).map((body, part, { length }) =>
    draft(idOf(`${from}/${part}`), body, { row: "messages", ...keyIn(key), from, to, part, parts: length })
  )

/** Makes drafts of the rows of a plan. The row ids of the replaced plan (`old`) are reused. Only additional rows get derived ids. */
export const planDrafts = (
  key: ConversationKey,
  idOf: Ids,
  { mutations, of, provenance }: Omit<Plan, "rows">,
  old: ReadonlyArray<Row> = []
): ReadonlyArray<Draft> =>
  pieces(Schema.encodeSync(Mutations)(mutations)).map((body, part, { length }) =>
    draft(
      old[part]?.id ?? idOf(`plan/${part}`),
      body,
      { row: "plan", ...keyIn(key), ...provenance, of, part, parts: length }
    )
  )

/** Makes the mutation that updates the session row. The mutation fails with `conflict` if the row's revision is not `ifRevision`. */
export const sessionPut = (key: ConversationKey, id: MemoryId, next: number, ifRevision: number): MemoryMutation => ({
  _tag: "Put",
  draft: draft(id, "", { row: "session", ...keyIn(key), next }),
  ifRevision
})

/** Makes the mutation that marks a row as set aside for the reason `failure`. If `failure` is `undefined`, marks the row as waiting. */
export const failureUpdate = (record: MemoryRecord, failure: string | undefined): MemoryMutation => ({
  _tag: "Update",
  id: record.id,
  patch: { data: defined({ ...record.data, parked: failure }) },
  ifRevision: record.revision
})

/** Makes the mutations that erase rows. A mutation fails if its row has changed since it was read. */
export const erase = (rows: ReadonlyArray<Row>): ReadonlyArray<MemoryMutation> =>
  rows.map(({ id, revision }) => ({ _tag: "Forget", id, purge: true, ifRevision: revision }))

/** The state of a conversation that has no rows in the store. */
export const empty = ({ session, viewer }: ConversationKey): OutboxState => ({
  viewer,
  session,
  revision: 0,
  next: 0,
  batches: [],
  plan: undefined
})

/** Selects the batches that wait for extraction. */
export const waiting = ({ batches }: OutboxState): ReadonlyArray<Batch> =>
  batches.filter(({ failure }) => failure === undefined)
/** Selects the dead letters: batches that were set aside after failures. */
export const deadLetters = ({ batches }: OutboxState): ReadonlyArray<Batch> =>
  batches.filter(({ failure }) => failure !== undefined)

/** Whether all of these batches still wait in `state` and their rows are unchanged. */
export const holds = (state: OutboxState, batches: ReadonlyArray<Batch>): boolean => {
  const there = new Set(waiting(state).map(signature))
  return batches.every((batch) => there.has(signature(batch)))
}
/** Whether two plans have the same rows, or both are absent. */
export const samePlan = (a: Plan | undefined, b: Plan | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && signature(a) === signature(b))
/** Whether two states have the same revision, waiting batches, plan and number of batches. */
export const same = (a: OutboxState, b: OutboxState): boolean =>
  a.revision === b.revision && a.batches.length === b.batches.length && holds(a, waiting(b)) && samePlan(a.plan, b.plan)

/** Reads all conversations of a tenant. With `where`, only matching rows are read. Records that a person wrote as files are ignored. */
export const all = (
  store: MemoryStore.Service,
  tenant: string,
  where?: MemoryFilter["where"]
): Effect.Effect<ReadonlyArray<OutboxState>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const found = new Map<string, { readonly key: ConversationKey; readonly rows: Array<Found<Data["row"]>> }>()
    yield* Stream.runForEach(rows(store, tenant, where), ([data, record]) =>
      Effect.sync(() => {
        if (record.source.origin === "file") return // a person wrote the record as a file, so it is no row of the outbox
        const name = keyOf(data)
        const known = found.get(name) ?? { key: data, rows: [] }
        known.rows.push([data, record])
        found.set(name, known)
      }))
    return yield* Effect.forEach(found.values(), ({ key, rows }, i) => {
      const state = Effect.sync(() => assemble(key, rows))
      return (i + 1) % rowsPerIteration === 0 ? Effect.zipRight(nextIteration, state) : state
    })
  })

/**
 * Returns a stream of the outbox rows of a tenant; with `where`, only of the matching rows. Fails with `unsupported` at a row that a newer
 * version of the library wrote. Rows that a person wrote as files are not checked.
 */
export const rows = (
  store: MemoryStore.Service,
  tenant: string,
  where?: MemoryFilter["where"]
): Stream.Stream<Found<Data["row"]>, MemoryError.MemoryError> =>
  store.stream(Viewer.system(tenant), { scope: Internal, kinds: [kind], where, limit: rowsPerIteration }).pipe(
    Stream.mapChunksEffect((rows) => Effect.as(rows.length < rowsPerIteration ? Effect.void : nextIteration, rows)),
    Stream.tap(({ data, source }) =>
      source.origin === "file"
        ? Effect.void
        : Validation.refuseNewer(data, { op: "outbox", what: "a row of the outbox" })
    ),
    Stream.filterMap((record) => Option.map(Either.getRight(decode(record.data)), (data) => [data, record] as const))
  )

/** Reads the state of a conversation. Cost: reads all rows that match `conversationFilter`, even rows of other conversations. */
export const of = (
  store: MemoryStore.Service,
  key: ConversationKey
): Effect.Effect<OutboxState, MemoryError.MemoryError> =>
  Effect.map(all(store, key.viewer.tenant, conversationFilter(key)), (states) => {
    const name = keyOf(key)
    return states.find((state) => keyOf(state) === name) ?? empty(key)
  })

/** Whether the conversation has no session row. Also looks for a row under the id that earlier versions derived. */
export const isNew = (
  store: MemoryStore.Service,
  key: ConversationKey
): Effect.Effect<boolean, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const idOf = yield* ids(store, key)
    const earlier = stableId(`outbox:${keyOf(key)}:session`)
    const found = yield* store.get(Viewer.system(key.viewer.tenant), [idOf("session"), earlier])
    return found.every((row) => Option.isNone(row) || !isInternal(row.value.scope))
  })

/** Reads the rows of the batches. Fails with `superseded` if a row was changed or erased after `batches` was read. */
export const records = (
  store: MemoryStore.Service,
  tenant: string,
  batches: ReadonlyArray<Batch>
): Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError.MemoryError> => {
  const rows = batches.flatMap(({ rows }) => rows)
  return Effect.flatMap(
    store.get(Viewer.system(tenant), rows.map(({ id }) => id)),
    Effect.forEach((found, i) =>
      // a forgotten row has a later revision, and is therefore rejected, too
      Option.isSome(found) && found.value.revision === rows[i]!.revision ? Effect.succeed(found.value) : superseded()
    )
  )
}

/** Reads the messages of the batches. Fails with `superseded` if a row was changed or erased after `batches` was read. */
export const entries = (
  store: MemoryStore.Service,
  tenant: string,
  batches: ReadonlyArray<Batch>
): Effect.Effect<ReadonlyArray<Entry>, MemoryError.MemoryError> =>
  Effect.forEach(batches, (batch) =>
    Effect.flatMap(
      records(store, tenant, [batch]),
      (records) => Effect.orDie(Schema.decode(Entries)(records.map(({ body }) => body).join(""))) // this module encoded the text
    )).pipe(Effect.map((all) => all.flat()))

/** The error for batches or a plan that another process has changed or finished, and for messages that were forgotten. */
export const superseded = () =>
  MemoryError.make("not_found", { op: "outbox", message: "another process has extracted or erased it" })
/** Whether an error is from `superseded`. */
export const isSuperseded = ({ op, reason }: MemoryError.MemoryError): boolean =>
  op === "outbox" && reason === "not_found"

const kind = "outbox"
/** Number of rows or conversations that are handled before other tasks of the event loop get a chance to run. */
const rowsPerIteration = 100

const Mutations = Schema.parseJson(Schema.Array(MemoryMutation))
// the schemas are compiled at the first call, so that importing the package stays fast
const decode = (data: unknown) => Schema.decodeUnknownEither(Data)(data)
const encode = (data: Data) => Schema.encodeSync(Data)(data)

const keyIn = ({ session, viewer }: ConversationKey): ConversationKey => ({ viewer, session })

const draft = (id: MemoryId, body: string, data: Data): Draft => ({
  id,
  scope: Internal,
  kind,
  summary: `${data.row}, on their way into memory`,
  body,
  data: defined(encode(data) as JsonObject) // the schema encodes to JSON
})

const defined = (fields: { readonly [key: string]: unknown }): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as JsonObject // only optional keys are removed

const signature = ({ rows }: Pick<Batch, "rows">): string => rows.map(({ id, revision }) => `${id}@${revision}`).join()

/**
 * Builds a condition that matches all rows of a conversation. The condition may also match rows of other conversations, such as those of
 * viewers with further ids. An id that is not ASCII is left out of the condition, since Unicode may encode the id in several ways.
 */
const conversationFilter = ({ session, viewer }: ConversationKey): MemoryFilter["where"] => ({
  "data.session": { eq: session },
  ...Object.fromEntries(fields.flatMap((field) => {
    const id = viewer[field]
    return id !== undefined && /^[ -~]*$/.test(id) ? [[`data.viewer.${field}`, { eq: id }]] : []
  }))
})

/** The decoded `data` of a row, and the row's record. */
export type Found<R extends Data["row"]> = readonly [Extract<Data, { readonly row: R }>, MemoryRecord]

const assemble = (
  { session, viewer }: ConversationKey,
  all: ReadonlyArray<Found<Data["row"]>>
): OutboxState => {
  const groups = new Map<number, Array<Found<"messages">>>()
  const planned: Array<Found<"plan">> = []
  let next = 0
  let last: Found<"session"> | undefined
  for (const [data, record] of all) {
    if (data.row === "session") {
      next = Math.max(next, data.next)
      if (last === undefined || data.next > last[0].next) last = [data, record]
    } else if (data.row === "plan") planned.push([data, record])
    else {
      const group = groups.get(data.from) ?? []
      group.push([data, record])
      groups.set(data.from, group)
      next = Math.max(next, data.to)
    }
  }
  const batches = Array.from(groups).sort(([a], [b]) => a - b).flatMap(([from, group]): ReadonlyArray<Batch> => {
    const whole = completeParts(group)
    if (whole.length === 0) return []
    const { to } = group[0]![0] // a group is never empty
    const failure = whole.find(([{ parked }]) => parked !== undefined)?.[0].parked
    return [{ from, to, rows: whole.map(seen), failure }]
  })
  const { id: sessionRow, revision = 0 } = last?.[1] ?? {}
  return { viewer, session, sessionRow, revision, next, batches, plan: planOf(completeParts(planned)) }
}

const planOf = (all: ReadonlyArray<Found<"plan">>): Plan | undefined => {
  const [first] = all
  const mutations = Schema.decodeEither(Mutations)(all.map(([, { body }]) => body).join(""))
  if (first === undefined || Either.isLeft(mutations)) return undefined
  const [{ of, origin, trust }] = first
  return {
    rows: all.map(seen),
    mutations: mutations.right,
    provenance: { origin, trust },
    of: of as ReadonlyArray<MemoryId> // this module wrote the ids
  }
}

/** Sorts the parts of a split text by number. Returns an empty array if a part is missing. */
const completeParts = <A extends { readonly part: number; readonly parts: number }>(
  all: ReadonlyArray<readonly [A, MemoryRecord]>
): ReadonlyArray<readonly [A, MemoryRecord]> =>
  all.length === all[0]?.[0].parts ? Array.from(all).sort(([a], [b]) => a.part - b.part) : []

const seen = ([, { id, revision }]: readonly [unknown, MemoryRecord]): Row => ({ id, revision })
