/**
 * Operations on a store as plain data, so that a failing sequence can be shortened, printed and run again. In place of ids, operations have
 * names, which are resolved when the operation runs; times are offsets in milliseconds from the time at which it runs.
 */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import { Cursor, type MemoryFilter, type MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import { type MemoryId, stableId } from "../../src/domain/MemoryId.ts"
import type { Applied, MemoryMutation } from "../../src/domain/MemoryMutation.ts"
import type { Draft, Patch } from "../../src/domain/MemoryRecord.ts"
import { type Any, isSystem } from "../../src/domain/Viewer.ts"
import type { Failure } from "../../src/host/MemoryTool.ts"
import type { Provenance, Service } from "../../src/storage/MemoryStore.ts"
import type * as Agent from "./Agent.ts"

/**
 * Name of an id: one that its author chose (`own`), one that the store generated for the compared viewers (`minted`), or one of a foreign
 * record (`foreign`). Number 0 is the latest id, 1 the one before, and so on, modulo the number of ids, so that a name stays valid when
 * operations are left out.
 */
export type Name = { readonly own: string } | { readonly minted: number } | { readonly foreign: number }

type Times<T> = Omit<T, "validAt" | "invalidAt" | "expiresAt"> & {
  readonly validAt?: number | undefined
  readonly invalidAt?: number | null | undefined
  readonly expiresAt?: number | null | undefined
}
interface Linking {
  readonly links?: ReadonlyArray<{ readonly to: Name; readonly type: string; readonly weight: number }> | undefined
}
export interface DraftPlan extends Omit<Times<Draft>, "id" | "links">, Linking {
  readonly name?: Name | undefined
}
export interface PatchPlan extends Omit<Times<Patch>, "links" | "supersededBy">, Linking {
  readonly supersededBy?: Name | null | undefined
}
interface Meant {
  readonly names?: ReadonlyArray<Name> | undefined
}
export interface FilterPlan extends Omit<MemoryFilter, "ids" | "after">, Meant {}
export interface QueryPlan extends Omit<MemoryQuery, "ids">, Meant {}

export type MutationPlan =
  | { readonly _tag: "Put"; readonly draft: DraftPlan; readonly ifRevision?: number | undefined }
  | {
    readonly _tag: "Update"
    readonly name: Name
    readonly patch: PatchPlan
    readonly ifRevision?: number | undefined
  }
  | {
    readonly _tag: "Forget"
    readonly name: Name
    readonly purge?: boolean | undefined
    readonly ifRevision?: number | undefined
  }
  | {
    readonly _tag: "Restore"
    readonly name: Name
    readonly revision: number
    readonly ifRevision?: number | undefined
  }

export type Operation =
  /** A call of an agent, if there is one above the store. */
  | { readonly op: "call"; readonly call: Agent.Call }
  | {
    readonly op: "apply"
    readonly mutations: ReadonlyArray<MutationPlan>
    readonly provenance: Provenance
  }
  | { readonly op: "put"; readonly drafts: ReadonlyArray<DraftPlan>; readonly provenance: Provenance }
  | { readonly op: "update"; readonly name: Name; readonly patch: PatchPlan; readonly ifRevision?: number | undefined }
  | { readonly op: "forget"; readonly names: ReadonlyArray<Name>; readonly purge?: boolean | undefined }
  | { readonly op: "get"; readonly names: ReadonlyArray<Name> }
  | { readonly op: "search"; readonly query: QueryPlan }
  | { readonly op: "list"; readonly filter: FilterPlan }
  /** Reads the page after the nth latest cursor that this store returned, with the viewer and the filter for which it was returned. */
  | { readonly op: "next"; readonly cursor: number }
  /** Lets any viewer use the nth latest cursor, whichever viewer received it, even a foreign one. */
  | { readonly op: "stolen"; readonly cursor: number; readonly filter: FilterPlan }
  | { readonly op: "stream"; readonly filter: FilterPlan }
  | { readonly op: "history"; readonly name: Name; readonly limit?: number | undefined }
  | { readonly op: "whyNot"; readonly name: Name; readonly query: QueryPlan }
  | { readonly op: "links"; readonly name: Name }
  | { readonly op: "touch"; readonly names: ReadonlyArray<Name> }
  | { readonly op: "uses"; readonly names: ReadonlyArray<Name> }

/** One store under comparison, and the ids and cursors in its answers, which later operations use. */
export interface Side {
  readonly store: Service
  readonly agent: Agent.Agent | undefined
  readonly minted: Array<MemoryId>
  readonly cursors: Array<Given>
}
export interface Given {
  readonly viewer: Any
  readonly filter: MemoryFilter
  readonly cursor: typeof Cursor.Type
}
/** Ids and cursors that foreign viewers received from the crowded store. The compared viewers use them on both stores. */
export interface Foreign {
  readonly minted: Array<MemoryId>
  readonly cursors: Array<Given>
}

const absent = stableId("nobody's")

export const idOf = (side: Side, foreign: Foreign, name: Name): MemoryId =>
  "own" in name
    ? stableId(name.own)
    : "minted" in name
    ? latest(side.minted, name.minted) ?? absent
    : latest(foreign.minted, name.foreign) ?? absent

const latest = <A>(all: ReadonlyArray<A>, n: number): A | undefined => all[all.length - 1 - n % Math.max(1, all.length)]

/** Returns the names of the records that an operation would change. */
export const written = (operation: Operation): ReadonlyArray<Name> => {
  switch (operation.op) {
    case "apply":
      return operation.mutations.flatMap((mutation) =>
        mutation._tag === "Put" ? mutation.draft.name ?? [] : [mutation.name]
      )
    case "put":
      return operation.drafts.flatMap(({ name }) => name ?? [])
    case "update":
      return [operation.name]
    case "call":
      return operation.call.ask === "tool" && operation.call.id ? [operation.call.id] : []
    case "forget":
    case "touch":
      return operation.names
    default:
      return []
  }
}

/** Returns the names of the ids that the drafts of an operation have. */
export const claimed = (operation: Operation): ReadonlyArray<Name> =>
  operation.op === "put" || operation.op === "apply"
    ? written(
      operation.op === "put"
        ? operation
        : { ...operation, mutations: operation.mutations.filter(({ _tag }) => _tag === "Put") }
    )
    : []

/** Whether an operation can add, change or remove records. Vectors may be left over after it (see `knownDifferences` in World.ts). */
export const isWrite = ({ op }: Operation): boolean =>
  op === "apply" || op === "put" || op === "update" || op === "forget" || op === "call"

/** Runs an operation on one of the two stores, and remembers the ids and cursors in its answer for later operations. */
export const ask = (
  side: Side,
  foreign: Foreign,
  viewer: Any,
  operation: Operation
): Effect.Effect<unknown, MemoryError | Failure> =>
  Effect.gen(function*() {
    const isForeign = side.minted === foreign.minted
    const now = yield* Clock.currentTimeMillis
    const { store } = side
    const id = (name: Name) => idOf(side, foreign, name)
    const at = <V extends number | null | undefined>(offset: V) =>
      typeof offset === "number" ? Math.max(0, now + offset) : offset
    const linking = ({ links }: Linking) =>
      links && { links: links.map(({ to, type, weight }) => ({ to: id(to), type, weight })) }
    const timed = <T extends Times<unknown>>({ expiresAt, invalidAt, validAt, ...rest }: T) =>
      defined({ ...rest, validAt: at(validAt), invalidAt: at(invalidAt), expiresAt: at(expiresAt) })
    const draft = ({ name, ...plan }: DraftPlan): Draft =>
      defined({ ...timed(plan), ...linking(plan), id: name && id(name) }) as unknown as Draft // the plan's fields with names resolved
    const patch = ({ supersededBy, ...plan }: PatchPlan): Patch =>
      defined({
        ...timed(plan),
        ...linking(plan),
        supersededBy: supersededBy ? id(supersededBy) : supersededBy
      }) as unknown as Patch // the plan's fields with names resolved
    const filter = <F extends FilterPlan | QueryPlan>({ asOf, createdAt, names, validAt, ...rest }: F) => {
      const range = (range: MemoryFilter["createdAt"]) =>
        range && defined({ from: at(range.from), until: at(range.until) })
      return defined({
        ...rest,
        asOf: at(asOf),
        createdAt: range(createdAt),
        validAt: range(validAt),
        ids: names?.map(id)
      })
    }
    const mutation = (plan: MutationPlan): MemoryMutation =>
      plan._tag === "Put"
        ? { ...plan, draft: draft(plan.draft) }
        : plan._tag === "Update"
        ? { _tag: "Update", id: id(plan.name), patch: patch(plan.patch), ifRevision: plan.ifRevision }
        : plan._tag === "Forget"
        ? { _tag: "Forget", id: id(plan.name), purge: plan.purge, ifRevision: plan.ifRevision }
        : { _tag: "Restore", id: id(plan.name), revision: plan.revision, ifRevision: plan.ifRevision }
    const minted = (names: ReadonlyArray<Name | undefined>, all: ReadonlyArray<Pick<Applied, "id" | "outcome">>) =>
      names.forEach((name, n) => {
        const { id, outcome } = all[n]! // `apply` answers each mutation
        if (outcome === "created" && (name === undefined || isForeign)) side.minted.push(id)
      })
    const page = (viewer: Any, asked: MemoryFilter) =>
      Effect.tap(store.list(viewer, asked), ({ next }) =>
        Effect.sync(() => {
          if (next !== undefined) side.cursors.push({ viewer, filter: asked, cursor: next })
        }))

    switch (operation.op) {
      case "call":
        return side.agent && !isSystem(viewer) ? yield* side.agent.ask(viewer, operation.call, id) : undefined
      case "apply":
        return yield* Effect.tap(
          store.apply(viewer, operation.mutations.map(mutation), operation.provenance),
          (all) =>
            Effect.sync(() =>
              minted(
                operation.mutations.map((plan) => plan._tag === "Put" ? plan.draft.name : plan.name),
                all
              )
            )
        )
      case "put":
        return yield* Effect.tap(store.put(viewer, operation.drafts.map(draft), operation.provenance), (all) =>
          Effect.sync(() =>
            minted(
              operation.drafts.map(({ name }) =>
                name
              ),
              all.map(({ outcome, record }) => ({ id: record.id, outcome }))
            )
          ))
      case "update":
        return yield* store.update(viewer, id(operation.name), patch(operation.patch), {
          ifRevision: operation.ifRevision
        })
      case "forget":
        return yield* store.forget(viewer, operation.names.map(id), { purge: operation.purge })
      case "get":
        return Array.from(yield* store.get(viewer, operation.names.map(id)), Option.getOrNull)
      case "search":
        return yield* store.search(viewer, filter(operation.query))
      case "list":
        return yield* page(viewer, filter(operation.filter))
      case "next": {
        const given = latest(side.cursors, operation.cursor)
        return given && (yield* page(given.viewer, { ...given.filter, after: given.cursor }))
      }
      case "stolen": {
        const all = operation.cursor % 2 === 0 && foreign.cursors.length > 0 ? foreign.cursors : side.cursors
        const given = latest(all, operation.cursor)
        return given && (yield* store.list(viewer, { ...filter(operation.filter), after: given.cursor }))
      }
      case "stream":
        return Chunk.toReadonlyArray(yield* Stream.runCollect(store.stream(viewer, filter(operation.filter))))
      case "history":
        return yield* store.history(viewer, id(operation.name), operation.limit)
      case "whyNot":
        return Option.getOrNull(yield* store.whyNot(viewer, id(operation.name), filter(operation.query)))
      case "links":
        return yield* store.links(viewer, id(operation.name))
      case "touch":
        return yield* Effect.zipRight(
          store.touch(viewer, operation.names.map(id)),
          store.uses(viewer, operation.names.map(id))
        )
      case "uses":
        return yield* store.uses(viewer, operation.names.map(id))
    }
  })

/** Drops keys that are undefined. */
const defined = <T extends object>(fields: T): T =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T // it only drops optional keys
