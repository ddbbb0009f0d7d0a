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

/** Declares each law of a kind once per store of `stores.ts`. Each law gets a new, empty store. */
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

/** Returns the store with a `get` that yields before it returns, so that other fibers run between a caller's read and its write. */
export const interleaved = (store: MemoryStore.Service): MemoryStore.Service => ({
  ...store,
  get: (viewer, ids) => Effect.tap(store.get(viewer, ids), () => Effect.yieldNow())
})

export const reason = <A>(self: Effect.Effect<A, MemoryError>) => Effect.map(Effect.flip(self), ({ reason }) => reason)

/** Texts that a search must accept although a query parser might not: empty, operators, quotes, a lone surrogate, a NUL. */
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
