/** A kind as a service: a record whose `data` is typed. What most kinds are made of, and yours too. */
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryFilter, MemoryQuery } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { MemoryKind } from "../domain/MemoryKind.ts"
import type { Draft, MemoryRecord, Patch } from "../domain/MemoryRecord.ts"
import type * as Viewer from "../domain/Viewer.ts"
import type { IfRevision, MemoryStore } from "../storage/MemoryStore.ts"

/** The record, and its `data` decoded. */
export interface Typed<out A> {
  readonly record: MemoryRecord
  readonly data: A
}
export interface Found<out A> extends Typed<A> {
  /** 0..1 */
  readonly score: number
}

export type DraftOf<A> = Omit<Draft, "kind" | "data"> & { readonly data: A }
export type PatchOf<A> = Omit<Patch, "data"> & { readonly data?: A | undefined }
type Narrow<Q> = Omit<Q, "kinds">

export interface TypedMemory<in out A> {
  readonly kind: MemoryKind<string, A>
  readonly put: (viewer: Viewer.Any, draft: DraftOf<A>) => Effect.Effect<Typed<A>, MemoryError>
  readonly get: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<Option.Option<Typed<A>>, MemoryError>
  readonly list: (
    viewer: Viewer.Any,
    filter?: Narrow<MemoryFilter>
  ) => Effect.Effect<ReadonlyArray<Typed<A>>, MemoryError>
  readonly search: (
    viewer: Viewer.Any,
    query: Narrow<MemoryQuery>
  ) => Effect.Effect<ReadonlyArray<Found<A>>, MemoryError>
  readonly update: (
    viewer: Viewer.Any,
    id: MemoryId,
    patch: PatchOf<A>,
    options?: IfRevision
  ) => Effect.Effect<Typed<A>, MemoryError>
  /** Read, change, write if nobody else did; retried until it holds. `not_found` where it is gone. */
  readonly modify: (viewer: Viewer.Any, id: MemoryId, f: (data: A) => A) => Effect.Effect<Typed<A>, MemoryError>
  readonly forget: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<boolean, MemoryError>
}

export declare const make: <N extends string, A>(
  kind: MemoryKind<N, A>
) => Effect.Effect<TypedMemory<A>, never, MemoryStore>
