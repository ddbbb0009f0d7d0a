/** What a store holds of lines: their rows, put together again. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as FormatVersion from "../../domain/FormatVersion.ts"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { MemoryFilter } from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import { fields, Internal, isInternal } from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import { breath } from "./Breathing.ts"
import * as Rows from "./Rows.ts"

/** A line as it was seen. */
export interface Kept extends Rows.Line {
  /** Id of the session row that was found. Absent if there is none: then it is written under the id that `Rows.ids` gives. */
  readonly sessionRow?: MemoryId | undefined
  /** Of the session row, 0 = there is none. */
  readonly revision: number
  /** Of the next message. */
  readonly next: number
  /** In order, parked ones too. */
  readonly batches: ReadonlyArray<Rows.Batch>
  readonly plan: Rows.Plan | undefined
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export const empty = ({ session, viewer }: Rows.Line): Kept => ({
  viewer,
  session,
  revision: 0,
  next: 0,
  batches: [],
  plan: undefined
})

/** What is to be read. */
export const waiting = ({ batches }: Kept): ReadonlyArray<Rows.Batch> =>
  batches.filter(({ parked }) => parked === undefined)
export const parked = ({ batches }: Kept): ReadonlyArray<Rows.Batch> =>
  batches.filter(({ parked }) => parked !== undefined)

/** Whether all of them are still as they were seen. */
export const holds = (kept: Kept, batches: ReadonlyArray<Rows.Batch>): boolean => {
  const there = new Set(waiting(kept).map(signature))
  return batches.every((batch) => there.has(signature(batch)))
}
export const samePlan = (a: Rows.Plan | undefined, b: Rows.Plan | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && signature(a) === signature(b))
export const same = (a: Kept, b: Kept): boolean =>
  a.revision === b.revision && a.batches.length === b.batches.length && holds(a, waiting(b)) && samePlan(a.plan, b.plan)

const signature = ({ rows }: Pick<Rows.Batch, "rows">): string =>
  rows.map(({ id, revision }) => `${id}@${revision}`).join()

/** Assembles the lines of the tenant from their rows; with `where`, only from rows that match. */
export const all = (
  store: MemoryStore.Service,
  tenant: string,
  where?: MemoryFilter["where"]
): Io<ReadonlyArray<Kept>> =>
  Effect.gen(function*() {
    const lines = new Map<
      string,
      { readonly line: Rows.Line; readonly rows: Array<readonly [Rows.Data, MemoryRecord]> }
    >()
    yield* Stream.runForEach(rows(store, tenant, where), ([data, record]) =>
      Effect.sync(() => {
        if (record.source.origin === "file") return // what somebody put there by hand is nobody's message
        const key = Rows.keyOf(data)
        const known = lines.get(key) ?? { line: data, rows: [] }
        known.rows.push([data, record])
        lines.set(key, known)
      }))
    return yield* Effect.forEach(lines.values(), ({ line, rows }, i) => {
      const kept = Effect.sync(() => together(line, rows))
      return (i + 1) % page === 0 ? Effect.zipRight(breath, kept) : kept
    })
  })

/**
 * Streams every outbox row of the tenant, or those that match `where`, page by page. Fails with `unsupported` at a row that
 * a newer release wrote. The version of a file that a person put there is not checked.
 */
export const rows = (
  store: MemoryStore.Service,
  tenant: string,
  where?: MemoryFilter["where"]
): Stream.Stream<readonly [Rows.Data, MemoryRecord], MemoryError.MemoryError> =>
  store.stream(Viewer.system(tenant), { scope: Internal, kinds: [Rows.kind], where, limit: page }).pipe(
    Stream.mapChunksEffect((rows) => Effect.as(rows.length < page ? Effect.void : breath, rows)),
    Stream.tap(({ data, source }) =>
      source.origin === "file"
        ? Effect.void
        : FormatVersion.refuseNewer(data, { op: "outbox", what: "a row of the outbox" })
    ),
    Stream.filterMap((record) =>
      Option.map(Either.getRight(Rows.decode(record.data)), (data) => [data, record] as const)
    )
  )

/** Rows that are decoded in one turn of the event loop, and lines that are put together. */
const page = 100

/** Reads the rows of one line. Cost: the rows whose session and ids may be the line's, see `near`. */
export const of = (store: MemoryStore.Service, line: Rows.Line): Io<Kept> =>
  Effect.map(all(store, line.viewer.tenant, near(line)), (lines) => {
    const key = Rows.keyOf(line)
    return lines.find((kept) => Rows.keyOf(kept) === key) ?? empty(line)
  })
/** Matches the line's rows and perhaps more: skips ids that are not ASCII, which Unicode may write in several ways. */
const near = ({ session, viewer }: Rows.Line): MemoryFilter["where"] => ({
  "data.session": { eq: session },
  ...Object.fromEntries(fields.flatMap((field) => {
    const id = viewer[field]
    return id !== undefined && /^[ -~]*$/.test(id) ? [[`data.viewer.${field}`, { eq: id }]] : []
  }))
})

/** Whether the line has no session row, neither under its current id nor under the id of earlier versions. */
export const isNew = (store: MemoryStore.Service, line: Rows.Line): Io<boolean> =>
  Effect.gen(function*() {
    const idOf = yield* Rows.ids(store, line)
    const found = yield* store.get(Viewer.system(line.viewer.tenant), [idOf("session"), Rows.earlierSessionId(line)])
    return found.every((row) => Option.isNone(row) || !isInternal(row.value.scope))
  })

/** Refused where one is not any more as it was seen. */
export const records = (
  store: MemoryStore.Service,
  tenant: string,
  batches: ReadonlyArray<Rows.Batch>
): Io<ReadonlyArray<MemoryRecord>> => {
  const rows = batches.flatMap(({ rows }) => rows)
  return Effect.flatMap(
    store.get(Viewer.system(tenant), rows.map(({ id }) => id)),
    Effect.forEach((found, i) =>
      // a tombstone is a revision later
      Option.isSome(found) && found.value.revision === rows[i]!.revision ? Effect.succeed(found.value) : taken
    )
  )
}

export const entries = (
  store: MemoryStore.Service,
  tenant: string,
  batches: ReadonlyArray<Rows.Batch>
): Io<ReadonlyArray<Rows.Entry>> =>
  Effect.forEach(batches, (batch) =>
    Effect.flatMap(
      records(store, tenant, [batch]),
      (records) => Effect.orDie(Schema.decode(Rows.Entries)(records.map(({ body }) => body).join(""))) // we encoded it
    )).pipe(Effect.map((all) => all.flat()))

/** Another process was first, or somebody wanted it forgotten. */
export const taken = MemoryError.make("not_found", { op: "outbox", message: "somebody else has taken it" })
export const isTaken = ({ op, reason }: MemoryError.MemoryError): boolean => op === taken.op && reason === taken.reason

type Found<R extends Rows.Data["row"]> = readonly [Extract<Rows.Data, { readonly row: R }>, MemoryRecord]

const together = ({ session, viewer }: Rows.Line, all: ReadonlyArray<readonly [Rows.Data, MemoryRecord]>): Kept => {
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
  const batches = Array.from(groups).sort(([a], [b]) => a - b).flatMap(([from, group]): ReadonlyArray<Rows.Batch> => {
    const whole = wholeOf(group)
    if (whole.length === 0) return []
    const { to } = group[0]![0] // never empty
    return [{ from, to, rows: whole.map(seen), parked: whole.find(([{ parked }]) => parked !== undefined)?.[0].parked }]
  })
  const { id: sessionRow, revision = 0 } = last?.[1] ?? {}
  return { viewer, session, sessionRow, revision, next, batches, plan: planOf(wholeOf(planned)) }
}

const planOf = (all: ReadonlyArray<Found<"plan">>): Rows.Plan | undefined => {
  const [first] = all
  const mutations = Schema.decodeEither(Rows.Mutations)(all.map(([, { body }]) => body).join(""))
  if (first === undefined || Either.isLeft(mutations)) return undefined
  const [{ of, origin, trust }] = first
  return {
    rows: all.map(seen),
    mutations: mutations.right,
    provenance: { origin, trust },
    of: of as ReadonlyArray<MemoryId> // ids that we wrote
  }
}

/** In order; none where one is missing. */
const wholeOf = <A extends { readonly part: number; readonly parts: number }>(
  all: ReadonlyArray<readonly [A, MemoryRecord]>
): ReadonlyArray<readonly [A, MemoryRecord]> =>
  all.length === all[0]?.[0].parts ? Array.from(all).sort(([a], [b]) => a.part - b.part) : []

const seen = ([, { id, revision }]: readonly [unknown, MemoryRecord]): Rows.Row => ({ id, revision })
