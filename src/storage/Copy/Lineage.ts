/**
 * Reads the records of a store page by page, to copy them to another store. Each record is read with all its stored revisions, as a
 * lineage. Also compares the lineages of the source and the target.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Sink from "effect/Sink"
import * as Stream from "effect/Stream"
import { canonicalJson } from "../../domain/Digest.ts"
import * as MemoryError from "../../domain/MemoryError.ts"
import { type MemoryId, signedId } from "../../domain/MemoryId.ts"
import { hashOf, type MemoryRecord, unchecked } from "../../domain/MemoryRecord.ts"
import { isInternal } from "../../domain/MemoryScope.ts"
import type { Reader, Stored, Uses } from "../Engine.ts"
import type { Service } from "../MemoryStore.ts"
import * as Reads from "../MemoryStore/internal/Reads.ts"
import { revisionsKept } from "../Revision.ts"
import type { Vectors } from "../Vectors.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** One side of a copy: a store's rows and vectors. */
export interface Side {
  readonly name: string
  readonly reader: Reader
  readonly vectors: Vectors | undefined
}

/**
 * The values from which `signedId` computed the id of a row. A store signs `text` with its secret. The id is computed from this signature,
 * `purpose` and one of the `names`. Some rows that the library keeps for itself have such ids, for example the rows of threads.
 */
export interface SignedName {
  readonly purpose: string
  readonly text: string
  readonly names: Iterable<string>
}

/** Reads from a row the values from which `signedId` computed the row's id. Returns `undefined` for any other row. */
export interface ReadName {
  (record: MemoryRecord, tenant: string): SignedName | undefined
}

/**
 * Returns a function that gives a lineage its id in the store `to`. If the id was computed with the secret of the store `from` (see
 * `SignedName`), it is computed again with the secret of the store `to`. Otherwise, the id stays the same.
 */
export const renaming =
  (from: Pick<Service, "sign">, to: Pick<Service, "sign">, readers: ReadonlyArray<ReadName>) =>
  (tenant: string, lineage: Lineage): Io<Lineage> =>
    Effect.gen(function*() {
      const { record } = newestOf(lineage)
      const signed = isInternal(record.scope)
        ? readers.map((read) => read(record, tenant)).find((name) => name !== undefined)
        : undefined
      if (signed === undefined) return lineage
      const { names, purpose, text } = signed
      const [ours, theirs] = yield* Effect.all([from.sign(purpose, text), to.sign(purpose, text)])
      for (const name of names) {
        if (signedId(purpose, ours, name) !== record.id) continue
        const id = signedId(purpose, theirs, name)
        const renamed = ({ forgotten, record }: Stored): Stored => ({ record: unchecked({ ...record, id }), forgotten })
        const [first, ...rest] = lineage
        return [renamed(first), ...rest.map(renamed)]
      }
      return lineage
    })

/** The source of a copy: its name, and the methods for reading use counts and vectors. */
export interface Source {
  readonly name: string
  readonly reader: { readonly uses: Pick<Reader["uses"], "read"> }
  readonly vectors: Pick<Vectors, "read"> | undefined
}

const unsupported = (message: string) => MemoryError.make("unsupported", { op: "copy", message })

/** Makes one side of a copy from a store. Fails with `unsupported` if the store has no rows of its own. A federation is such a store. */
export const sideOf = ({ name, reader, vectors }: Service): Io<Side> =>
  Option.match(reader, {
    onNone: () => unsupported(`${name} has no rows of its own: copy each of the stores that it is made of`),
    onSome: (reader) => Effect.succeed({ name, reader, vectors: Option.getOrUndefined(vectors) })
  })

/**
 * Returns a store as the target of a copy. Fails with `unsupported` if the store is read-only or has no rows of its own. Also fails with
 * `unsupported` if the store redacts writes, unless `unredacted` is set.
 */
export const targetOf = (
  to: Service,
  { unredacted = false }: { readonly unredacted?: boolean | undefined }
): Io<Side> =>
  !to.capabilities.writable
    ? unsupported(`${to.name} takes no writes`)
    : Option.isSome(to.redaction) && !unredacted
    ? unsupported(`${to.name} redacts what is written, a copy does not: \`unredacted: true\` copies rows as they are`)
    : sideOf(to)

/** The stored revisions of a record, oldest first; the last one is the current row. */
export type Lineage = readonly [Stored, ...Array<Stored>]

/**
 * Largest total length of the bodies in a transaction, all revisions included, in UTF-16 units. A longer record gets a transaction of its
 * own.
 */
const maxText = 4_000_000
/** Least number of tombstones per page. Large, since an engine may scan all tombstones for each page. */
const tombstonePage = 1_000

/** Streams the rows of a tenant, expired rows included: first the records, then the tombstones. */
export const rowsOf = (
  { reader }: Side,
  tenant: string,
  batch: number
): Stream.Stream<Stored, MemoryError.MemoryError> => {
  const pages = (forgotten: boolean, limit: number) =>
    Reads.pages((after) => reader.page(fullAccess(tenant), compiledFilter(forgotten), after, limit), limit)
  return Stream.concat(pages(false, batch), pages(true, Math.max(batch, tombstonePage))).pipe(
    Stream.mapEffect((page) =>
      Effect.map(reader.read(tenant, page.map(({ id }) => id)), (rows) => rows.flatMap(Option.toArray))
    ),
    Stream.flattenIterables
  )
}

/** Returns an access filter that lets all rows of the tenant pass: rows of every scope, and also expired rows. */
export const fullAccess = (tenant: string) => ({ tenant, visibility: { _tag: "All" as const }, now: -Infinity })
/** Returns a filter for all tombstones (`forgotten` is true), or for all records that are not forgotten. */
export const compiledFilter = (forgotten: boolean) => ({ filter: forgotten ? { forgotten } : {}, passes: () => true })

/** Streams the records and tombstones of a tenant with their revisions, in groups that fit in a transaction. */
export const lineagesOf = (
  side: Side,
  tenant: string,
  batch: number
): Stream.Stream<ReadonlyArray<Lineage>, MemoryError.MemoryError> =>
  rowsOf(side, tenant, batch).pipe(
    Stream.mapEffect((row) => lineageOf(side, tenant, row)),
    Stream.transduce(Sink.foldWeighted({
      initial: [] as ReadonlyArray<Lineage>, // cast, since the inferred type would be that of an empty array
      maxCost: maxText,
      cost: (_, lineage: Lineage) => Math.max(Math.floor(maxText / batch), lengthOf(lineage)),
      body: (all, lineage) => [...all, lineage]
    })),
    Stream.filter(({ length }) => length > 0)
  )

const lengthOf = (lineage: Lineage): number => lineage.reduce((sum, { record }) => sum + record.body.length, 0)

/** Returns the stored revisions of a row. Reads nothing if the row was never changed. */
export const lineageOf = ({ reader }: Side, tenant: string, row: Stored): Io<Lineage> =>
  row.record.revision === 1
    ? Effect.succeed([row])
    : Effect.map(
      reader.revisions(tenant, row.record.id, revisionsKept),
      (revisions) => toLineage(row, revisions)
    )

/**
 * Joins a row with its earlier revisions, oldest first. The given row comes last, even if the history has another revision with the same
 * number.
 */
export const toLineage = (row: Stored, newestFirst: ReadonlyArray<Stored>): Lineage => {
  const [first, ...rest] = newestFirst.filter(({ record }) => record.revision < row.record.revision).toReversed()
  return first === undefined ? [row] : [first, ...rest, row]
}

/** Returns the newest revision of a record. */
export const newestOf = (lineage: Lineage): Stored => lineage.at(-1)! // a lineage has at least one revision
/** Returns the id of a lineage's record. */
export const idOf = (lineage: Lineage): MemoryId => lineage[0].record.id

/** Returns a canonical JSON text of a revision. Equal revisions have equal texts. */
export const contentOf = ({ forgotten, record }: Stored): string => canonicalJson([forgotten, record])

/** Reads the rows with these ids. The map has no entry for an id without a row. */
export const readRows = (
  { reader }: Side,
  tenant: string,
  ids: ReadonlyArray<MemoryId>
): Io<ReadonlyMap<MemoryId, Stored>> =>
  Effect.map(
    reader.read(tenant, ids),
    (rows) => new Map(rows.flatMap((row, n) => Option.isSome(row) ? [[ids[n]!, row.value] as const] : [])) // `read` keeps the order
  )

/* Finds the revisions that the target lacks. */

/** The two sides of a copy, and whether the target keeps earlier revisions. */
export interface Sides {
  readonly from: Source
  readonly to: Side
  readonly hasHistory: boolean
}

/**
 * Returns the revisions to append to the target, oldest first. Returns the error `conflict` if a revision differs between the two stores,
 * or if the source lacks the newest revision of the target.
 */
export const missingRevisions = (
  { from, hasHistory, to }: Sides,
  source: Lineage,
  target: Lineage | undefined
): Either.Either<ReadonlyArray<Stored>, MemoryError.MemoryError> => {
  const storable = (revisions: ReadonlyArray<Stored>) => hasHistory ? revisions : revisions.slice(-1)
  if (target === undefined) return Either.right(storable(source))
  const id = idOf(source)
  const expected = newestOf(source).record.revision
  const actual = newestOf(target).record.revision
  const known = new Map(source.map((stored) => [stored.record.revision, stored]))
  const isSame = target.every((stored) => {
    const sourceRevision = known.get(stored.record.revision)
    return sourceRevision === undefined || contentOf(sourceRevision) === contentOf(stored)
  })
  if (isSame && known.has(actual)) {
    return Either.right(storable(source.filter(({ record }) => record.revision > actual)))
  }
  const why = !isSame
    ? `${to.name} has another record or another past of this id`
    : actual > expected
    ? `${to.name} has moved on since it was copied`
    : `${from.name} no longer keeps revision ${actual}, at which ${to.name} stands`
  // a user cannot purge a single internal row, only all data of its owner
  const remedy = isInternal(newestOf(source).record.scope) ? "all that one owner of threads or messages has" : id
  return Either.left(MemoryError.make("conflict", {
    op: "copy",
    id,
    message: `${why}. Nothing was overwritten. Purge ${remedy} in ${to.name}, or in ${from.name}, and copy again`,
    detail: { expected, actual }
  }))
}

/* Compares the vectors and the use counts of records. */

/** Reads the source's vectors of all revisions, and finds those that the target lacks. */
export const vectorsBetween = ({ from, to }: Sides, tenant: string, model: string, lineages: ReadonlyArray<Lineage>) =>
  Effect.gen(function*() {
    const hashes = lineages.flatMap((lineage) => Array.from(new Set(lineage.map(({ record }) => hashOf(record)))))
    const ours = (yield* from.vectors?.read(tenant, model, hashes) ?? Effect.succeed([])).flatMap((vector, n) =>
      Option.isSome(vector) ? [{ hash: hashes[n]!, our: vector.value }] : [] // `read` answers in the order of the hashes
    )
    const theirs = yield* to.vectors?.read(tenant, model, ours.map(({ hash }) => hash)) ?? Effect.succeed([])
    const pairs = ours.map((pair, n) => ({ ...pair, their: Option.getOrUndefined(theirs[n] ?? Option.none()) }))
    const missing = new Map(pairs.flatMap(({ hash, our, their }) => their === undefined ? [[hash, our] as const] : []))
    return { missing, pairs }
  })

/**
 * Reads the use counts of both stores, for the records that were used in the source. `due` is what the target should have: the higher of
 * the two counts, and the later of the two times of use.
 */
export const usesBetween = ({ from, to }: Sides, tenant: string, ids: ReadonlyArray<MemoryId>) =>
  Effect.gen(function*() {
    if (to.reader.uses.set === undefined) return []
    const ours = yield* from.reader.uses.read(tenant, ids)
    const used = ids.flatMap((id, n) => isUsed(ours[n]) ? [[id, ours[n]] as const] : [])
    const theirs = used.length === 0 ? [] : yield* to.reader.uses.read(tenant, used.map(([id]) => id))
    return used.map(([id, uses], n) => ({ id, due: later(uses, theirs[n]), theirs: theirs[n] }))
  })

const isUsed = (uses: Uses | undefined): uses is Uses =>
  uses !== undefined && (uses.count > 0 || uses.accessedAt !== undefined)

const later = (one: Uses, other: Uses = { count: 0 }): Uses => {
  const accessedAt = Math.max(one.accessedAt ?? -1, other.accessedAt ?? -1)
  return { count: Math.max(one.count, other.count), ...(accessedAt >= 0 && { accessedAt }) }
}
