/**
 * What waits, as records of the store itself that no viewer sees.
 *
 * ```text
 * messages  what was said, by the place in the session of its first        erased by the batch that writes what came of it
 * plan      what the model made of them, not yet written                   erased by the same batch, or by a conflict
 * session   the place of the next message                                  stays, so that places are never used twice
 * ```
 *
 * A text longer than a record holds lies in several, written and erased together.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { canonicalJson } from "../../domain/Digest.ts"
import * as MemoryError from "../../domain/MemoryError.ts"
import { type MemoryId, stableId } from "../../domain/MemoryId.ts"
import { MemoryMutation } from "../../domain/MemoryMutation.ts"
import { type Draft, type MemoryRecord, Origin, Trust } from "../../domain/MemoryRecord.ts"
import { Internal } from "../../domain/MemoryScope.ts"
import { Message } from "../../domain/Message.ts"
import type { JsonObject } from "../../domain/Payload.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"

/** Whose messages wait in one line: a viewer's, in one session. */
export interface Line {
  readonly viewer: Viewer.Viewer
  readonly session: string
}

/** Messages that were appended together. */
export interface Batch {
  /** Places in the session: of the first, and the next one's. */
  readonly from: number
  readonly to: number
  readonly rows: ReadonlyArray<Row>
  /** Why it was given up on. */
  readonly parked: string | undefined
}

export interface Plan {
  readonly rows: ReadonlyArray<Row>
  readonly mutations: ReadonlyArray<MemoryMutation>
  readonly provenance: MemoryStore.Provenance
  /** The rows it is made of. */
  readonly of: ReadonlyArray<MemoryId>
}

/** A record as it was seen. */
export interface Row {
  readonly id: MemoryId
  readonly revision: number
}

/** All that a line has in the store. */
export interface Kept extends Line {
  /** Of the next message. */
  readonly next: number
  /** In order. */
  readonly batches: ReadonlyArray<Batch>
  readonly plan: Plan | undefined
}

const kind = "outbox"

const Entries = Schema.parseJson(Schema.Array(Schema.Struct({ sequence: Schema.NonNegativeInt, message: Message })))
export type Entry = Schema.Schema.Type<typeof Entries>[number]
const Mutations = Schema.parseJson(Schema.Array(MemoryMutation))

const line = { viewer: Viewer.Viewer, session: Schema.String }
const parts = { part: Schema.NonNegativeInt, parts: Schema.Int.pipe(Schema.positive()) }
const Data = Schema.Union(
  Schema.Struct({
    row: Schema.Literal("messages"),
    ...line,
    ...parts,
    from: Schema.NonNegativeInt,
    to: Schema.NonNegativeInt,
    /** Why it was given up on. */
    parked: Schema.optional(Schema.String)
  }),
  Schema.Struct({
    row: Schema.Literal("plan"),
    ...line,
    ...parts,
    origin: Schema.optional(Origin),
    trust: Schema.optional(Trust),
    of: Schema.Array(Schema.String)
  }),
  Schema.Struct({ row: Schema.Literal("session"), ...line, next: Schema.NonNegativeInt })
)
type Data = typeof Data.Type
const decodeData = Schema.decodeUnknownEither(Data)
const encodeData = Schema.encodeSync(Data)

/** One string per line. */
export const keyOf = ({ session, viewer }: Line): string =>
  canonicalJson([Viewer.tenantOf(viewer), Viewer.scopeOf(viewer), viewer.reach, session])

export const messages = (
  line: Line,
  { from, to }: Pick<Batch, "from" | "to">,
  entries: ReadonlyArray<Entry>
): ReadonlyArray<Draft> =>
  pieces(Schema.encodeSync(Entries)(entries)).map((body, part, { length }) =>
    draft(line, `${from}/${part}`, body, { row: "messages", ...line, from, to, part, parts: length })
  )

export const plan = (
  line: Line,
  mutations: ReadonlyArray<MemoryMutation>,
  provenance: MemoryStore.Provenance,
  of: ReadonlyArray<MemoryId>
): ReadonlyArray<Draft> =>
  pieces(Schema.encodeSync(Mutations)(mutations)).map((body, part, { length }) =>
    draft(line, `plan/${part}`, body, { row: "plan", ...line, ...provenance, of, part, parts: length })
  )

export const session = (line: Line, next: number): MemoryMutation => ({
  _tag: "Put",
  draft: draft(line, "session", "", { row: "session", ...line, next })
})

/** What is to be said of a row that is given up on, or taken up again. */
export const parking = (record: MemoryRecord, parked: string | undefined): MemoryMutation => ({
  _tag: "Update",
  id: record.id,
  patch: { data: defined({ ...record.data, parked }) },
  ifRevision: record.revision
})

/** Leaves nothing of them, if they still are as they were seen. */
export const erase = (rows: ReadonlyArray<Row>): ReadonlyArray<MemoryMutation> =>
  rows.map(({ id, revision }) => ({ _tag: "Forget", id, purge: true, ifRevision: revision }))

/** Of the next message of a line, as far as batches that are gone tell. */
export const nextOf = (store: MemoryStore.Service, line: Line): Effect.Effect<number, MemoryError.MemoryError> =>
  Effect.map(
    store.get(Viewer.system(line.viewer.tenant), [idOf(line, "session")]),
    ([found]) =>
      found === undefined || Option.isNone(found)
        ? 0
        : Either.match(decodeData(found.value.data), {
          onLeft: () => 0,
          onRight: (data) => data.row === "session" ? data.next : 0
        })
  )

/** Every row of the tenant. */
export const scan = (
  store: MemoryStore.Service,
  tenant: string
): Stream.Stream<MemoryRecord, MemoryError.MemoryError> =>
  store.stream(Viewer.system(tenant), { scope: Internal, kinds: [kind], limit: 1_000 }).pipe(
    Stream.filter(({ source }) => source.origin !== "file") // what somebody put there by hand is nobody's message
  )

/** What every line of the tenant has there. */
export const read = (
  store: MemoryStore.Service,
  tenant: string
): Effect.Effect<ReadonlyArray<Kept>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const lines = new Map<string, { readonly line: Line; readonly rows: Array<readonly [Data, MemoryRecord]> }>()
    yield* Stream.runForEach(scan(store, tenant), (record) =>
      Effect.sync(() => {
        const data = decodeData(record.data)
        if (Either.isLeft(data)) return
        const { session, viewer } = data.right
        const key = keyOf(data.right)
        const known = lines.get(key) ?? { line: { viewer, session }, rows: [] }
        known.rows.push([data.right, record])
        lines.set(key, known)
      }))
    return Array.from(lines.values(), ({ line, rows }) => kept(line, rows))
  })

/** Of rows that are all there; `not_found` where one is gone. */
export const entries = (
  store: MemoryStore.Service,
  tenant: string,
  rows: ReadonlyArray<Row>
): Effect.Effect<ReadonlyArray<Entry>, MemoryError.MemoryError> =>
  Effect.flatMap(
    records(store, tenant, rows),
    (records) => Effect.orDie(Schema.decode(Entries)(records.map(({ body }) => body).join("")))
  ) // we encoded it

export const records = (
  store: MemoryStore.Service,
  tenant: string,
  rows: ReadonlyArray<Row>
): Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError.MemoryError> =>
  Effect.flatMap(
    store.get(Viewer.system(tenant), rows.map(({ id }) => id)),
    Effect.forEach((found) =>
      Effect.mapError(
        found,
        () => MemoryError.make("not_found", { op: "outbox", message: "somebody else has taken it" })
      )
    )
  )

const kept = (line: Line, all: ReadonlyArray<readonly [Data, MemoryRecord]>): Kept => {
  const groups = new Map<number, Array<readonly [data: Data & { readonly row: "messages" }, row: Row]>>()
  const planned: Array<readonly [Data & { readonly row: "plan" }, MemoryRecord]> = []
  let next = 0
  for (const [data, record] of all) {
    const row = { id: record.id, revision: record.revision }
    if (data.row === "session") next = Math.max(next, data.next)
    else if (data.row === "plan") planned.push([data, record])
    else {
      const group = groups.get(data.from) ?? []
      group.push([data, row])
      groups.set(data.from, group)
      next = Math.max(next, data.to)
    }
  }
  const batches = Array.from(groups).sort(([a], [b]) => a - b).flatMap(([from, group]): ReadonlyArray<Batch> => {
    const sorted = group.sort(([a], [b]) => a.part - b.part)
    const [first] = sorted
    if (first === undefined || sorted.length !== first[0].parts) return [] // a reader came between
    return [{
      from,
      to: first[0].to,
      rows: sorted.map(([, row]) => row),
      parked: sorted.find(([{ parked }]) => parked !== undefined)?.[0].parked
    }]
  })
  return { ...line, next, batches, plan: planOf(planned) }
}

const planOf = (all: ReadonlyArray<readonly [Data & { readonly row: "plan" }, MemoryRecord]>): Plan | undefined => {
  const sorted = Array.from(all).sort(([a], [b]) => a.part - b.part)
  const [first] = sorted
  if (first === undefined || first[0].parts !== sorted.length) return undefined
  const { of, origin, trust } = first[0]
  const mutations = Schema.decodeEither(Mutations)(sorted.map(([, { body }]) => body).join(""))
  return Either.isLeft(mutations) ? undefined : {
    rows: sorted.map(([, { id, revision }]) => ({ id, revision })),
    mutations: mutations.right,
    provenance: { origin, trust },
    of: of as ReadonlyArray<MemoryId> // ids that we wrote
  }
}

const idOf = (line: Line, name: string): MemoryId => stableId(`outbox:${keyOf(line)}:${name}`)

const draft = (line: Line, name: string, body: string, data: Data): Draft => ({
  id: idOf(line, name),
  scope: Internal,
  kind,
  summary: `${data.row}, on their way into memory`,
  body,
  data: defined(encodeData(data) as JsonObject) // an encoded schema is JSON
})

/** No longer than a body, and no character cut in two. */
const pieces = (text: string): ReadonlyArray<string> => {
  const all: Array<string> = []
  for (let start = 0; start < text.length;) {
    const end = Math.min(start + room, text.length)
    const cut = end < text.length && /[\ud800-\udbff]/.test(text[end - 1]!) ? end - 1 : end
    all.push(text.slice(start, cut))
    start = cut
  }
  return all
}
const room = 60_000

const defined = (fields: { readonly [key: string]: unknown }): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as JsonObject // optional keys only
