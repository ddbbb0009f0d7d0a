/** Federations of in-memory stores, and the contents of their members. */
import { it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import type { MemoryQuery } from "../../../src/domain/MemoryFilter.ts"
import type { MemoryMutation } from "../../../src/domain/MemoryMutation.ts"
import { type MemoryRecord } from "../../../src/domain/MemoryRecord.ts"
import * as MemoryStore from "../../../src/storage/MemoryStore.ts"
import * as Faulty from "../../../src/storage/MemoryStore/Faulty.ts"
import * as Federated from "../../../src/storage/MemoryStore/Federated.ts"
import { ada, listed, system } from "../../../src/testing/Sample.ts"

export const memory = { layer: MemoryStore.layerInMemory, writable: true }
export const faulty = (...plan: ReadonlyArray<Faulty.Fault>) => ({
  layer: Faulty.layer(...plan).pipe(Layer.provide(MemoryStore.layerInMemory)),
  writable: true
})
export const byKind = { route: ({ kind }: { readonly kind: string }) => kind === "user" ? "facts" as const : undefined }
export const notesAndFacts = Federated.layer({ notes: memory, facts: memory }, byKind)
export const mirrored = Federated.layer({
  main: memory,
  copies: { layer: MemoryStore.layerInMemory, mirror: Federated.important }
})

type StoreAndFederation = readonly [store: MemoryStore.Service, federated: Federated.Service]

/** Declares a test of the federation that a layer makes. */
export const law = <E>(
  title: string,
  layer: Layer.Layer<MemoryStore.MemoryStore | Federated.Federated, E>,
  check: (...federation: StoreAndFederation) => Effect.Effect<unknown, unknown, Scope.Scope>
) =>
  it.scoped(
    title,
    () =>
      Effect.flatMap(Effect.all([MemoryStore.MemoryStore, Federated.Federated]), (both) => check(...both)).pipe(
        Effect.provide(layer)
      )
  )

/** Returns the store of one member. */
export const within = (federated: Federated.Service, name: string) =>
  Effect.map(federated.get(name), ({ store }) => store)
export const bodiesIn = (federated: Federated.Service, name: string) =>
  Effect.map(
    Effect.flatMap(within(federated, name), (store) => listed(store, system)),
    (bodies) => bodies.sort()
  )
export const hitsOf = (store: Pick<MemoryStore.Service, "search">, query: MemoryQuery) =>
  Effect.map(
    store.search(ada, query),
    ({ hits }) => hits.map(({ alsoIn, record, store }) => [record.body, store, ...alsoIn ?? []])
  )
/** An in-memory store that records each call of its service and of its reader. */
export const counted = (name: string, calls: Array<string>) =>
  Layer.map(MemoryStore.layerInMemory, (context) => {
    const noted = <A extends object>(prefix: string, target: A): A =>
      new Proxy(target, {
        get: (target, key) => {
          const value: unknown = Reflect.get(target, key)
          if (typeof value !== "function") return value
          return (...args: ReadonlyArray<unknown>) => {
            calls.push(`${prefix}.${String(key)}`)
            return Reflect.apply(value, target, args)
          }
        }
      })
    const store = Context.get(context, MemoryStore.MemoryStore)
    const reader = Option.map(store.reader, (reader) => noted(`${name}.reader`, reader))
    return Context.make(MemoryStore.MemoryStore, noted(name, { ...store, reader }))
  })
export const update = (id: MemoryRecord["id"], body: string): MemoryMutation => ({
  _tag: "Update",
  id,
  patch: { body }
})
export const Put = (draft: (MemoryMutation & { readonly _tag: "Put" })["draft"]): MemoryMutation => ({
  _tag: "Put",
  draft
})
