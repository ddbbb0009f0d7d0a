/**
 * What waits, as records of the store itself that no viewer sees.
 *
 * ```text
 * messages  what was said, by the place in the session of its first        erased by the batch that writes what came of it
 * plan      what the model made of them, not yet written                   erased by the same batch, or by a conflict
 * session   the place of the next message                                  moves on with every write of the line
 * ```
 *
 * A text longer than a record holds lies in several, written and erased together.
 *
 * The ids of rows are derived from a signature of the store (`ids`), so that no viewer can occupy one beforehand, or tell
 * from an id who talks to the agent. Rows of earlier versions, whose ids any viewer could compute, keep theirs until they
 * are erased.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { canonicalJson } from "../../domain/Digest.ts"
import type { MemoryError } from "../../domain/MemoryError.ts"
import { type MemoryId, stableId } from "../../domain/MemoryId.ts"
import { MemoryMutation } from "../../domain/MemoryMutation.ts"
import { type Draft, type MemoryRecord, Origin, Trust } from "../../domain/MemoryRecord.ts"
import { Internal, normalise } from "../../domain/MemoryScope.ts"
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

export const kind = "outbox"

export const Entries = Schema.parseJson(
  Schema.Array(Schema.Struct({ sequence: Schema.NonNegativeInt, message: Message }))
)
export type Entry = Schema.Schema.Type<typeof Entries>[number]
export const Mutations = Schema.parseJson(Schema.Array(MemoryMutation))

const line = { viewer: Viewer.Stored, session: Schema.String }
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
export type Data = typeof Data.Type
export const decode = Schema.decodeUnknownEither(Data)
const encode = Schema.encodeSync(Data)

/** One string per line. `everyone` is written as `within`, which earlier versions called it: their lines go on. */
export const keyOf = ({ session, viewer }: Line): string =>
  canonicalJson([
    Viewer.tenantOf(viewer),
    normalise(Viewer.scopeOf(viewer)),
    viewer.reach === "everyone" ? "within" : viewer.reach,
    session
  ])

/** Returns a function from the name of a row to its id in this line. Ids stay the same as long as the store's secret does. */
export type Ids = (name: string) => MemoryId
export const ids = (store: MemoryStore.Service, line: Line): Effect.Effect<Ids, MemoryError> =>
  Effect.map(store.sign("outbox", keyOf(line)), (signature) => (name) => stableId(`outbox:${signature}:${name}`))

/** Returns the id that the session row of a line had in earlier versions. */
export const earlierSessionId = (line: Line): MemoryId => stableId(`outbox:${keyOf(line)}:session`)

export const messages = (
  line: Line,
  idOf: Ids,
  { from, to }: Pick<Batch, "from" | "to">,
  entries: ReadonlyArray<Entry>
): ReadonlyArray<Draft> =>
  pieces(Schema.encodeSync(Entries)(entries)).map((body, part, { length }) =>
    draft(idOf(`${from}/${part}`), body, { row: "messages", ...line, from, to, part, parts: length })
  )

/** Drafts the rows of a plan. Reuses the row ids of the plan that it replaces, as far as they go. */
export const plan = (
  line: Line,
  idOf: Ids,
  { mutations, of, provenance }: Omit<Plan, "rows">,
  old: ReadonlyArray<Row> = []
): ReadonlyArray<Draft> =>
  pieces(Schema.encodeSync(Mutations)(mutations)).map((body, part, { length }) =>
    draft(old[part]?.id ?? idOf(`plan/${part}`), body, { row: "plan", ...line, ...provenance, of, part, parts: length })
  )

/** Refused where the line is not any more as it was seen. */
export const session = (line: Line, id: MemoryId, next: number, ifRevision: number): MemoryMutation => ({
  _tag: "Put",
  draft: draft(id, "", { row: "session", ...line, next }),
  ifRevision
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

const draft = (id: MemoryId, body: string, data: Data): Draft => ({
  id,
  scope: Internal,
  kind,
  summary: `${data.row}, on their way into memory`,
  body,
  data: defined(encode(data) as JsonObject) // an encoded schema is JSON
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
