/** Vectors of several stores: each keeps those of its own texts. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Vectors from "../../Vectors.ts"
import { legal } from "../../Vectors.ts"
import type * as Members from "./Members.ts"

export const make = (members: Effect.Effect<Members.Members>): Vectors.Vectors => {
  const all = Effect.map(members, (members) => members.flatMap(({ store }) => Option.toArray(store.vectors)))
  const each = <A, E>(ask: (vectors: Vectors.Vectors) => Effect.Effect<A, E>) =>
    Effect.flatMap(all, (stores) => Effect.forEach(stores, ask, { concurrency: "unbounded" }))

  return {
    pending: (tenant, model, limit) =>
      Effect.map(
        each(({ pending }) => pending(tenant, model, limit)),
        (texts) => Array.from(new Map(texts.flat().map((text) => [text.hash, text])).values()).slice(0, limit)
      ),
    // to those that wait for it, or else have it; of what is no store's the first says what it is
    attach: (tenant, model, vectors) =>
      Effect.gen(function*() {
        const given = Array.from(vectors)
        yield* legal(model, given)
        const stores = yield* all
        const waiting = yield* Effect.forEach(stores, ({ pending }) =>
          Effect.map(pending(tenant, model), (texts) => new Set(texts.map(({ hash }) => hash))))
        const others = given.map(([hash]) =>
          hash
        ).filter((hash) => !waiting.some((hashes) => hashes.has(hash)))
        const kept = yield* Effect.forEach(stores, ({ read }) =>
          Effect.map(read(tenant, model, others), (found) =>
            new Set(others.filter((_, n) => Option.isSome(found[n]!)))))
        for (const [n, { attach }] of stores.entries()) {
          const isElsewhere = (hash: string) =>
            [...waiting, ...kept].some((hashes) => hashes.has(hash))
          const meant = given.filter(([hash]) =>
            waiting[n]!.has(hash) || kept[n]!.has(hash) || (n === 0 && !isElsewhere(hash))
          )
          if (meant.length > 0) yield* attach(tenant, model, meant)
        }
      }),
    read: (tenant, model, hashes) =>
      Effect.map(
        each(({ read }) => read(tenant, model, hashes)),
        (found) =>
          hashes.map((_, n) =>
            found.reduce((first, vectors) => Option.orElse(first, () => vectors[n]!), Option.none<Float32Array>())
          )
      )
  }
}
