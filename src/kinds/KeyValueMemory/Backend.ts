/** Seed 4's interface, which is of promises. This library runs nothing itself, so whoever adapts brings what does. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../domain/MemoryError.ts"
import type * as Viewer from "../../domain/Viewer.ts"
import type { Entry, Metadata, Service } from "../KeyValueMemory.ts"

export interface MemoryBackend {
  set<T>(key: string, value: T, metadata?: Metadata): Promise<void>
  get<T>(key: string): Promise<T | undefined>
  has(key: string): Promise<boolean>
  delete(key: string): Promise<boolean>
  clear(): Promise<void>
  keys(): AsyncIterable<string>
  entries<T>(): AsyncIterable<[string, T]>
  size(): Promise<number>
}

/** For one viewer: `toBackend(memory, viewer, Effect.runPromise)`. A value is of the type that the caller says it is. */
export const toBackend = (
  memory: Service,
  viewer: Viewer.Any,
  run: <A>(self: Effect.Effect<A, MemoryError.MemoryError>) => Promise<A>
): MemoryBackend & {
  batchWrite(entries: ReadonlyArray<Entry>): Promise<void>
  search(text: string, limit?: number): Promise<ReadonlyArray<Entry>>
  prune(olderThan: number): Promise<number>
} => ({
  set: (key, value, metadata) => run(memory.set(viewer, key, value, metadata)),
  get: <T>(key: string) =>
    run(Effect.map(memory.get(viewer, key), (value) => Option.getOrUndefined(value) as T | undefined)), // as the seed has it
  has: (key) => run(memory.has(viewer, key)),
  delete: (key) => run(memory.delete(viewer, key)),
  clear: () => run(Effect.asVoid(memory.clear(viewer))),
  async *keys() {
    yield* await run(memory.keys(viewer))
  },
  async *entries<T>() {
    for (const { key, value } of await run(memory.entries(viewer))) yield [key, value as T] as [string, T] // as the seed has it
  },
  size: () => run(memory.size(viewer)),
  batchWrite: (entries) => run(memory.batchWrite(viewer, entries)),
  search: (text, limit) => run(memory.search(viewer, text, limit)),
  prune: (olderThan) => run(memory.prune(viewer, olderThan))
})

/** All that it has, values without their metadata, as one write; how many. `io` where it fails. */
export const copyBackend = (
  memory: Service,
  viewer: Viewer.Any,
  backend: Pick<MemoryBackend, "entries">
): Effect.Effect<number, MemoryError.MemoryError> =>
  Stream.fromAsyncIterable(
    backend.entries<unknown>(),
    (cause) => MemoryError.make("io", { op: "copyBackend", message: "the backend does not tell its entries", cause })
  ).pipe(
    Stream.map(([key, value]): Entry => ({ key, value })),
    Stream.runCollect,
    Effect.map((entries) => Array.from(entries)),
    Effect.tap((entries) => memory.batchWrite(viewer, entries)),
    Effect.map(({ length }) => length)
  )
