/** A service for records of one kind, with typed `data`. Your own kinds can use it, like most kinds of this library. */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryFilter, MemoryQuery } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { MemoryKind } from "../domain/MemoryKind.ts"
import { deriveSummary, type Draft, type MemoryRecord, type Patch } from "../domain/MemoryRecord.ts"
import { type JsonObject, sizeOf } from "../domain/Payload.ts"
import * as Validation from "../domain/Validation.ts"
import type * as Viewer from "../domain/Viewer.ts"
import * as EventLoop from "../host/EventLoop.ts"
import { type IfRevision, MemoryStore, type Service as MemoryStoreService } from "../storage/MemoryStore.ts"

/** A record, with its `data` decoded. */
export interface Typed<out A> {
  readonly record: MemoryRecord
  readonly data: A
}
/** A record that a search found. */
export interface Found<out A> extends Typed<A> {
  /** Score of the search, 0..1. */
  readonly score: number
}

/** A draft of a record with typed `data`. It has no `kind`, since the service sets the kind. */
export type DraftOf<A> = Omit<Draft, "kind" | "data"> & { readonly data: A }
/** A patch of a record with typed `data`. */
export type PatchOf<A> = Omit<Patch, "data"> & { readonly data?: A | undefined }
/** A filter or query without the field `kinds`, which the service sets. */
export type WithoutKinds<Q> = Omit<Q, "kinds">

/**
 * Operations on the records of one kind. Records of other kinds are treated as absent. An operation that returns records fails with
 * `corrupt` if the `data` of one of them cannot be decoded. Only `listReadable` leaves out such records.
 */
export interface TypedMemory<in out A> {
  readonly kind: MemoryKind<string, A>
  /** Stores a record. Fails with `invalid_draft` if the Schema rejects its `data`. */
  readonly put: (viewer: Viewer.Any, draft: DraftOf<A>) => Effect.Effect<Typed<A>, MemoryError.MemoryError>
  /** Returns the record with this id, or `None` if the viewer does not see such a record. */
  readonly get: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<Option.Option<Typed<A>>, MemoryError.MemoryError>
  /** Returns a page of records, newest first. */
  readonly list: (
    viewer: Viewer.Any,
    filter?: WithoutKinds<MemoryFilter>
  ) => Effect.Effect<ReadonlyArray<Typed<A>>, MemoryError.MemoryError>
  /** Returns the same page as `list`, but leaves out records whose `data` cannot be decoded. */
  readonly listReadable: (
    viewer: Viewer.Any,
    filter?: WithoutKinds<MemoryFilter>
  ) => Effect.Effect<ReadonlyArray<Typed<A>>, MemoryError.MemoryError>
  /** Returns the records of all pages of `list`. */
  readonly all: (
    viewer: Viewer.Any,
    filter?: Omit<WithoutKinds<MemoryFilter>, "after" | "limit">
  ) => Effect.Effect<ReadonlyArray<Typed<A>>, MemoryError.MemoryError>
  /** Finds records, best first. */
  readonly search: (
    viewer: Viewer.Any,
    query: WithoutKinds<MemoryQuery>
  ) => Effect.Effect<ReadonlyArray<Found<A>>, MemoryError.MemoryError>
  /**
   * Changes a record. Fails with `not_found` if the record is absent, and with `conflict` if its revision is not `ifRevision`. If the stored
   * `data` cannot be decoded, a patch without `data` fails with `corrupt` and changes nothing.
   */
  readonly update: (
    viewer: Viewer.Any,
    id: MemoryId,
    patch: PatchOf<A>,
    options?: IfRevision
  ) => Effect.Effect<Typed<A>, MemoryError.MemoryError>
  /**
   * Replaces the `data` of a record by `f(data)`. Retries if another writer changes the record in the meantime. Fails with `not_found` if
   * the record is absent.
   */
  readonly modify: (
    viewer: Viewer.Any,
    id: MemoryId,
    f: (data: A) => A
  ) => Effect.Effect<Typed<A>, MemoryError.MemoryError>
  /** Forgets a record. Returns whether it existed. */
  readonly forget: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<boolean, MemoryError.MemoryError>
  /**
   * Forgets the given records that have not changed since they were read. Returns the number of forgotten records. Uses one batch. If the
   * batch fails with `conflict` or `not_owned`, forgets each record separately, and skips the records that fail with one of these reasons.
   * Any other failure, such as `read_only`, ends the operation.
   */
  readonly forgetUnchanged: (
    viewer: Viewer.Any,
    all: ReadonlyArray<Typed<A>>
  ) => Effect.Effect<number, MemoryError.MemoryError>
  /** Returns the stored revisions of a record, newest first, or `[]` if the record is absent. Default `limit` 20. */
  readonly history: (
    viewer: Viewer.Any,
    id: MemoryId,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Typed<A>>, MemoryError.MemoryError>
  /** Encodes `data` for a draft that the caller stores itself. Fails with `invalid_draft` if the Schema rejects the `data`. */
  readonly encode: (data: A) => Effect.Effect<JsonObject, MemoryError.MemoryError>
  /** Decodes the `data` of a record. Fails with `corrupt` if the Schema rejects the `data`. */
  readonly decode: (record: MemoryRecord) => Effect.Effect<Typed<A>, MemoryError.MemoryError>
}

/**
 * Uses the name as summary if a draft has none. The record can then be found by its name or by a link `[[Name]]`. The draft of an untyped
 * program may have no name. Its summary stays absent, and `put` refuses its `data`.
 */
export const withNameAsSummary = <A>(name: string | undefined, draft: DraftOf<A>): DraftOf<A> => ({
  ...draft,
  summary: draft.summary ?? (deriveSummary(name ?? "") || undefined)
})

/** Returns the value of an Option. Fails with `not_found` if the Option is `None`. @internal */
export const orNotFound = <A>(
  op: string,
  id: MemoryId,
  self: Effect.Effect<Option.Option<A>, MemoryError.MemoryError>,
  what = "record"
): Effect.Effect<A, MemoryError.MemoryError> =>
  Effect.flatMap(
    self,
    Option.match({
      onNone: () => MemoryError.make("not_found", { op, id, message: `there is no such ${what}` }),
      onSome: Effect.succeed
    })
  )

/** Makes the service for the records of a kind. The records are stored in the `MemoryStore` of the context. */
export const make = <N extends string, A>(
  kind: MemoryKind<N, A>
): Effect.Effect<TypedMemory<A>, never, MemoryStore> =>
  Effect.map(MemoryStore, (store): TypedMemory<A> => {
    const span = <B, E>(name: string, self: Effect.Effect<B, E>) =>
      Effect.withSpan(self, `TypedMemory.${name}`, { attributes: { kind: kind.name } })

    const encode = (op: string, data: A) =>
      Schema.encode(kind.schema, keeping)(data).pipe(
        Effect.mapBoth({ onSuccess: defined, onFailure: (error) => undecodable(op, error) })
      )
    const decode = (op: string, record: MemoryRecord) =>
      Schema.decode(kind.schema, keeping)(record.data).pipe(
        Effect.mapBoth({
          onSuccess: (data): Typed<A> => ({ record, data }),
          onFailure: (cause) => corrupt(op, kind.name, record.id, cause)
        })
      )

    const find = (viewer: Viewer.Any, id: MemoryId) =>
      Effect.map(store.get(viewer, [id]), ([found]) =>
        Option.filter(found ?? Option.none(), (record) => record.kind === kind.name))
    const get = (viewer: Viewer.Any, id: MemoryId) =>
      Effect.flatMap(find(viewer, id), (record) =>
        Effect.transposeMapOption(record, (record) => decode("get", record)))
    const require = (op: string, viewer: Viewer.Any, id: MemoryId) =>
      Effect.flatMap(find(viewer, id), Option.match({ onNone: () => absent(op, id), onSome: Effect.succeed }))

    const update = (
      op: string,
      viewer: Viewer.Any,
      id: MemoryId,
      { data, ...patch }: PatchOf<A>,
      options?: IfRevision
    ) =>
      Effect.gen(function*() {
        const encoded = data === undefined ? undefined : yield* encode(op, data)
        return yield* Effect.flatMap(
          store.update(viewer, id, { ...patch, data: encoded }, options),
          (record) => decode(op, record)
        )
      })

    return {
      kind,
      put: (viewer, { data, ...draft }) =>
        span(
          "put",
          Effect.gen(function*() {
            const encoded = yield* encode("put", data)
            const [put] = yield* store.put(viewer, [{ ...draft, kind: kind.name, data: encoded }])
            return yield* decode("put", put!.record) // `store.put` returns one result per draft
          })
        ),
      get: (viewer, id) => span("get", get(viewer, id)),
      list: (viewer, filter) =>
        span(
          "list",
          Effect.flatMap(store.list(viewer, { ...filter, kinds: [kind.name] }), ({ items }) =>
            Effect.forEach(items, (record) => decode("list", record)))
        ),
      listReadable: (viewer, filter) =>
        span(
          "listReadable",
          Effect.flatMap(store.list(viewer, { ...filter, kinds: [kind.name] }), ({ items }) =>
            Effect.map(
              Effect.forEach(items, (record) => Effect.option(decode("listReadable", record))),
              Arr.getSomes
            ))
        ),
      all: (viewer, filter) =>
        span(
          "all",
          Effect.suspend(() => {
            const paced = EventLoop.pacer()
            return store.stream(viewer, { ...filter, kinds: [kind.name], limit: 1_000 }).pipe(
              Stream.mapEffect((record) => Effect.zipLeft(decode("all", record), paced(256 + sizeOf(record.data)))),
              Stream.runCollect,
              Effect.map((all) => Array.from(all))
            )
          })
        ),
      search: (viewer, query) =>
        span(
          "search",
          Effect.flatMap(store.search(viewer, { ...query, kinds: [kind.name] }), ({ hits }) =>
            Effect.forEach(hits, ({ record, score }) =>
              Effect.map(decode("search", record), (typed): Found<A> => ({ ...typed, score }))))
        ),
      update: (viewer, id, patch, options) =>
        span(
          "update",
          Effect.gen(function*() {
            const record = yield* require("update", viewer, id)
            if (patch.data === undefined) yield* decode("update", record) // fails before the write, not after it
            return yield* update("update", viewer, id, patch, options)
          })
        ),
      modify: (viewer, id, f) =>
        span(
          "modify",
          Effect.gen(function*() {
            const { data, record } = yield* Effect.flatMap(
              require("modify", viewer, id),
              (record) => decode("modify", record)
            )
            return yield* update("modify", viewer, id, { data: f(data) }, { ifRevision: record.revision })
          }).pipe(MemoryError.retryOnConflict)
        ),
      forget: (viewer, id) =>
        span(
          "forget",
          Effect.flatMap(
            find(viewer, id),
            Option.match({
              onNone: () => Effect.succeed(false),
              onSome: () => Effect.map(store.forget(viewer, [id]), ([there]) => there === true)
            })
          )
        ),
      forgetUnchanged: (viewer, all) => span("forgetUnchanged", forgetUnchanged(store, viewer, all)),
      history: (viewer, id, limit) =>
        span(
          "history",
          Effect.flatMap(store.history(viewer, id, limit), (revisions) =>
            Effect.forEach(
              revisions.filter((record) => record.kind === kind.name),
              (record) => decode("history", record)
            ))
        ),
      encode: (data) => encode("encode", data),
      decode: (record) => decode("decode", record)
    }
  })

const forgetUnchanged = (
  store: MemoryStoreService,
  viewer: Viewer.Any,
  all: ReadonlyArray<Typed<unknown>>
): Effect.Effect<number, MemoryError.MemoryError> =>
  store.apply(viewer, all.map(({ record: { id, revision } }) => ({ _tag: "Forget", id, ifRevision: revision }))).pipe(
    Effect.map((applied) => applied.filter(({ outcome }) => outcome === "forgotten").length),
    Effect.catchIf(
      ({ reason }) => reason === "conflict" || reason === "not_owned",
      () =>
        all.length === 1 ?
          Effect.succeed(0) :
          Effect.reduce(
            all,
            0,
            (count, one) => Effect.map(forgetUnchanged(store, viewer, [one]), (more) => count + more)
          )
    )
  )

/** Parse options: fields that the Schema does not name are kept, and all issues are reported. */
const keeping = { errors: "all", onExcessProperty: "preserve" } as const

/** Returns the data without the fields whose value is `undefined`, at every depth. */
const defined = <A>(data: A): A => {
  if (Array.isArray(data)) return data.map(defined) as A // `map` keeps the length
  if (typeof data !== "object" || data === null || Object.getPrototypeOf(data) !== Object.prototype) return data
  const entries = Object.entries(data).flatMap(([key, value]) => value === undefined ? [] : [[key, defined(value)]])
  return Object.fromEntries(entries) as A // the type `A` allows the removed fields to be missing
}

const undecodable = (op: string, error: ParseResult.ParseError) => {
  const issues = Validation.lines(error, "data")
  return MemoryError.make("invalid_draft", { op, message: issues.join("; "), detail: { issues } })
}

const corrupt = (op: string, kind: string, id: MemoryId, cause: ParseResult.ParseError) =>
  MemoryError.make("corrupt", { op, id, message: `its data is no ${kind}`, detail: { location: id }, cause })

const absent = (op: string, id: MemoryId) =>
  MemoryError.make("not_found", { op, id, message: "there is no such record" })
