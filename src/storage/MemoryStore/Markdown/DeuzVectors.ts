/** The vectors that Deuz left beside its files, brought in when their model is first asked for. A cache of a stranger's. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../../domain/MemoryError.ts"
import { hashOf } from "../../../ranking/Embeddings.ts"
import type { Sidecar } from "../../MemoryStore.ts"
import * as Deuz from "./Deuz.ts"
import type { Disk } from "./Disk.ts"
import type { Entry } from "./Mirror.ts"

export interface DeuzVectors extends Sidecar {
  /** Why the file cannot be read, once somebody needed it. */
  readonly issues: () => ReadonlyArray<{ readonly path: string; readonly error: MemoryError.MemoryError }>
}

const path = ".deuz-vectors.json"
const Vectors = Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Unknown }))

/**
 * `sidecar`, with vectors for those of the entries that Deuz wrote and nobody has changed since. `unnamed` is the model of
 * those whose record names none. Cost of `unnamed`: each such record is read once more.
 */
export const make = (
  disk: Disk,
  entries: () => ReadonlyArray<Entry>,
  sidecar: Sidecar,
  unnamed?: string
): Effect.Effect<DeuzVectors> =>
  Effect.map(Effect.makeSemaphore(1), (importing) => {
    const asked = new Set<string>()
    let issue: MemoryError.MemoryError | undefined

    const left = Effect.flatMap(disk.read(path), (text) => Schema.decode(Vectors)(Option.getOrElse(text, () => "{}")))
      .pipe(
        Effect.matchEffect({
          onSuccess: (vectors) => Effect.as(Effect.sync(() => issue = undefined), new Map(Object.entries(vectors))),
          onFailure: (cause) =>
            Effect.sync(() => {
              issue = MemoryError.make("corrupt", {
                op: "read",
                message: `${path} cannot be read`,
                detail: { location: path },
                cause
              })
              return new Map<string, unknown>()
            })
        })
      )

    const isOf = (model: string) => ({ extra, path }: Entry) =>
      extra["embeddingModelId"] !== undefined || model !== unnamed
        ? Effect.succeed(extra["embeddingModelId"] === model)
        : Effect.map(disk.readLoose(path), (text) => Option.exists(text, (text) => Deuz.isUnnamed(path, text)))

    const bringIn = (tenant: string, model: string) =>
      Effect.gen(function*() {
        const embeddings = sidecar.embeddings(tenant)
        const open = entries().filter(({ path, row, tenant: at }) =>
          at === tenant && Deuz.isPlace(path) && embeddings.get(model, hashOf(row.record)) === undefined
        )
        const wanted = yield* Effect.filter(open, isOf(model))
        if (wanted.length === 0) return
        const vectors = yield* left
        const rows = wanted.flatMap(({ row: { record } }) => {
          const vector = vectors.get(record.source.reference ?? "")
          return isVector(vector) ? [[hashOf(record), Float32Array.from(vector)] as const] : []
        }).filter(([, vector]) => vector.every(Number.isFinite)) // a number may be too large for 32 bits
        const dimensions = embeddings.dimensions(model) ?? mostCommon(rows.map(([, { length }]) => length))
        const fit = rows.filter(([, { length }]) => length === dimensions)
        if (fit.length > 0) yield* sidecar.append(tenant, model, fit)
      })

    return {
      ...sidecar,
      follow: (tenant, model) =>
        Effect.zipRight(
          sidecar.follow(tenant, model),
          Effect.suspend(() => {
            const key = JSON.stringify([tenant, model])
            return asked.has(key) ?
              Effect.void :
              Effect.tap(
                bringIn(tenant, model),
                () => Effect.sync(() => sidecar.embeddings(tenant).dimensions(model) !== undefined && asked.add(key))
              )
          }).pipe(importing.withPermits(1))
        ),
      issues: () => issue === undefined ? [] : [{ path, error: issue }]
    }
  })

const isVector = Schema.is(Schema.NonEmptyArray(Schema.Number))

/** Vectors of one model have one length, whatever befell a few of them. */
const mostCommon = (lengths: ReadonlyArray<number>): number | undefined => {
  const counts = new Map<number, number>()
  for (const length of lengths) counts.set(length, (counts.get(length) ?? 0) + 1)
  return Array.from(counts).sort(([, a], [, b]) => b - a)[0]?.[0]
}
