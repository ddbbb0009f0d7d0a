/**
 * Random searches by vector. The vector of a text counts certain words. Some texts have none (see `vectorOf`). Before each search, the
 * store gets all other missing vectors.
 */
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import type { MemoryQuery } from "../domain/MemoryFilter.ts"
import { embeddingText, type MemoryRecord } from "../domain/MemoryRecord.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as Analyzer from "../ranking/Analyzer.ts"
import { signature } from "../ranking/NearDuplicate.ts"
import type { Service } from "../storage/MemoryStore.ts"
import type { Question } from "./Question.ts"
import { importance, kind, often, rarely, text } from "./World.ts"

const { array, constantFrom, record, tuple } = FastCheck

/** Returns [tea, drinks, water − green], the counts of these words in the text; `undefined` if the text contains "black" or "sea". */
const vectorOf = (text: string): ReadonlyArray<number> | undefined => {
  const of = (word: string) => text.toLowerCase().split(word).length - 1
  return of("black") + of("sea") > 0 ? undefined : [of("tea"), of("drinks"), of("water") - of("green")]
}

const embedded = (store: Service) =>
  Option.match(store.vectors, {
    onNone: () => Effect.void,
    onSome: ({ attach, pending }) =>
      Effect.flatMap(
        store.tenants,
        Effect.forEach((tenant) =>
          Effect.flatMap(pending(tenant, "m"), (all) =>
            attach(
              tenant,
              "m",
              all.flatMap(({ hash, text }) => {
                const vector = vectorOf(text)
                return vector ? [[hash, Float32Array.from(vector)] as const] : []
              })
            )), { discard: true })
      )
  })

const query: FastCheck.Arbitrary<MemoryQuery & { readonly embedding: { readonly vector: ReadonlyArray<number> } }> =
  record({
    text: often(text),
    mode: constantFrom<Array<MemoryQuery["mode"]>>("vector", "hybrid", undefined),
    embedding: record({
      model: constantFrom("m"),
      vector: constantFrom([1, 0, 0], [0, 1, 0], [-1, 1, 1], [0, 0, -1], [0, 0, 0])
    }),
    kinds: rarely(array(kind, { maxLength: 2 })),
    minImportance: rarely(importance)
  })

/** The analyzer that stores use by default. */
const analyzer = Analyzer.make()
const sayingOf = (record: MemoryRecord): string =>
  JSON.stringify([record.kind, record.data, signature(embeddingText(record))])

/** Generates searches by vector. The viewer is never `System`, since `System` also finds expired records, which may have no vector. */
export const make = (viewer: FastCheck.Arbitrary<Viewer.Any>): FastCheck.Arbitrary<Question> =>
  tuple(viewer.filter((viewer) => !Viewer.isSystem(viewer)), query).map(([viewer, query]): Question => ({
    viewer,
    text: `search by vector ${JSON.stringify(query)}`,
    ask: (store) =>
      Effect.zipRight(
        embedded(store),
        Effect.map(store.search(viewer, { ...query, limit: 1_000, explain: true }), (whole) => ({
          whole,
          gist: store.capabilities.vector
            ? [
              whole.hits.length + whole.leftOut.folded,
              whole.hits.map(({ record }) => sayingOf(record)).sort(),
              whole.awaiting
            ]
            : "by words"
        }))
      ),
    expect: (model, _, now, gist) => {
      const { embedding, mode, text, ...filter } = query
      if (gist === "by words" || (mode === "vector" && isRefused(gist))) return gist // a store without vectors is not checked
      const wanted = new Set(text === undefined || mode === "vector" ? [] : analyzer.query(text))
      const all = model.list(viewer, filter, now)
      const found = all.filter((record) => {
        const { body, summary, tags } = record
        const near = vectorOf(embeddingText(record))?.reduce((sum, n, i) => sum + n * embedding.vector[i]!, 0) ?? 0
        return near > 0 || analyzer.index([summary, body, ...tags].join(" ")).some((word) => wanted.has(word))
      })
      return [
        found.length,
        Array.from(new Set(found.map(sayingOf))).sort(),
        all.filter((record) => vectorOf(embeddingText(record)) === undefined).length
      ]
    }
  }))

const isRefused = (gist: unknown): boolean =>
  typeof gist === "object" && gist !== null && "refused" in gist && gist.refused === "unsupported"
