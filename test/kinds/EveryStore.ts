/** Runs the laws of a kind on every store. */
import { describe, it } from "@effect/vitest"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { stores } from "../stores.ts"

type Law<S> = (
  title: string,
  check: (memory: S, store: MemoryStore.Service) => Effect.Effect<void, unknown>
) => void

/** Each law on a store that is new and empty. */
export const onEveryStore = <I, S>(
  name: string,
  tag: Context.Tag<I, S>,
  layer: Layer.Layer<I, never, MemoryStore.MemoryStore>,
  laws: (law: Law<S>, store: string) => void
): void => {
  const on = <E>(storeName: string, store: Layer.Layer<MemoryStore.MemoryStore, E>) =>
    describe(`${name} (${storeName})`, () =>
      laws(
        (title, check) =>
          void it.effect(title, () =>
            Effect.flatMap(Effect.all([tag, MemoryStore.MemoryStore]), ([memory, store]) =>
              check(memory, store)).pipe(
                Effect.provide(Layer.provideMerge(layer, store))
              )),
        storeName
      ))
  for (const [storeName, store] of Object.entries(stores)) on<unknown>(storeName, store)
}

/** One that lets others in between a read and what is written for it. */
export const interleaved = (store: MemoryStore.Service): MemoryStore.Service => ({
  ...store,
  get: (viewer, ids) => Effect.tap(store.get(viewer, ids), () => Effect.yieldNow())
})

export const reason = <A>(self: Effect.Effect<A, MemoryError>) => Effect.map(Effect.flip(self), ({ reason }) => reason)

/** What somebody might ask. */
export const hostile = [
  "",
  "  ",
  "(",
  "*",
  "\"",
  "NOT",
  "NEAR(a b)",
  "-x",
  "col:val",
  "foo.ts",
  "it's",
  "\ud800",
  "\u0000"
]
