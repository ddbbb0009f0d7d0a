/** The embedding vectors of the records' texts, and the texts without a vector. An embedder can compute a lost vector again. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../domain/MemoryError.ts"
import { invalid } from "../domain/Validation.ts"
import * as EventLoop from "../host/EventLoop.ts"
import type { MemoryIndex } from "../ranking/MemoryIndex.ts"
import { type Embeddings, TenantEmbeddings } from "../ranking/VectorIndex.ts"
import type { EngineVectors, Unembedded } from "./internal/EngineContract.ts"
import type { TenantIndex } from "./TenantIndex.ts"
import { indexOf } from "./TenantIndex.ts"

/** A text that has no vector yet, and its hash. */
export type { Unembedded }

/**
 * The vectors of a store, by tenant, model and hash of the text. No tenant can find out which texts another tenant has embedded. All
 * vectors of a tenant and model have the same number of dimensions, that of the first one.
 */
export interface Vectors {
  /**
   * Returns up to `limit` texts (default: all) that have no vector of the model yet, each text once. Leaves out a text if all records with
   * it are forgotten, expired, or the library's own.
   */
  readonly pending: (
    tenant: string,
    model: string,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Unembedded>, MemoryError>
  /**
   * Adds vectors, all or none. A hash that already has a vector keeps its old one. Fails with `invalid_draft` if one of these rules is
   * broken: A model's name has 1 to 500 characters. A hash is a SHA-256. A vector has at least one number, and only finite numbers. All
   * vectors of a tenant and model have the same length.
   */
  readonly attach: (
    tenant: string,
    model: string,
    vectors: Iterable<readonly [hash: string, vector: Float32Array]>
  ) => Effect.Effect<void, MemoryError>
  /** Returns the names of the models for which the tenant has vectors, each once, in any order. */
  readonly models: (tenant: string) => Effect.Effect<ReadonlyArray<string>, MemoryError>
  /** Returns copies of the vectors, in the order of `hashes`. A hash without a vector of this tenant and model gives `None`. */
  readonly read: (
    tenant: string,
    model: string,
    hashes: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<Option.Option<Float32Array>>, MemoryError>
}

/** Keeps the vectors of a store in RAM, for the search indexes. A durable backend also keeps the vectors on disk. */
export interface VectorBackend {
  /** Returns the tenant's vectors, as kept in RAM. A tenant without vectors takes no memory in the backend. */
  readonly embeddings: (tenant: string) => Embeddings
  /** Returns the names of the models for which the tenant may have vectors. This process need not have read the vectors yet. */
  readonly models: (tenant: string) => Effect.Effect<ReadonlyArray<string>, MemoryError>
  /**
   * Reads the vectors of this model. The first call reads all. Later calls need to read only newer vectors, such as those of other
   * processes. A later call may read all again, for example after vectors were erased.
   */
  readonly follow: (tenant: string, model: string) => Effect.Effect<void, MemoryError>
  /**
   * Stores new vectors, and adds them to `embeddings`. Fails with `invalid_draft` if another process has stored vectors of this model with
   * another length.
   */
  readonly append: (
    tenant: string,
    model: string,
    vectors: ReadonlyArray<readonly [hash: string, vector: Float32Array]>
  ) => Effect.Effect<void, MemoryError>
  /**
   * Keeps the tenant's vectors whose hash is in `hashes`, and erases the tenant's other vectors, of all models. Returns the number of
   * erased vectors. The caller holds the store's lock for writes (`Primitives.exclusive`).
   */
  readonly retain: (tenant: string, hashes: Pick<ReadonlySet<string>, "has">) => Effect.Effect<number, MemoryError>
}

/** Makes a backend that keeps vectors in RAM only. After a restart, `pending` returns every text again. */
export const inMemory = (all: TenantEmbeddings = new TenantEmbeddings()): VectorBackend => ({
  embeddings: (tenant) => all.of(tenant),
  models: (tenant) => Effect.sync(() => all.of(tenant).models),
  follow: () => Effect.void,
  append: (tenant, model, vectors) =>
    Effect.suspend(() => {
      const embeddings = all.of(tenant)
      return Effect.map(fit(embeddings, model, vectors), () => {
        for (const [hash, vector] of vectors) embeddings.set(model, hash, vector)
      })
    }),
  retain: (tenant, hashes) => Effect.sync(() => all.of(tenant).retain((hash) => hashes.has(hash)))
})

/**
 * Makes the `Vectors` of a store. `attach` checks its arguments. `attach` and `read` copy vectors, so the caller and the store share none.
 */
export const make = (engine: EngineVectors): Vectors => ({
  pending: (tenant, model, limit = Infinity) => engine.pending(tenant, model, limit),
  attach: (tenant, model, vectors) =>
    Effect.gen(function*() {
      const all = Array.from(vectors, ([hash, vector]) => [hash, vector.slice()] as const)
      yield* legal(model, all)
      const dimensions = yield* engine.dimensions(tenant, model)
      yield* fit({ dimensions: () => dimensions }, model, all)
      yield* engine.attach(tenant, model, all)
    }),
  models: engine.models,
  read: (tenant, model, hashes) =>
    Effect.map(engine.read(tenant, model, hashes), (found) => found.map(Option.map((vector) => vector.slice())))
})

/**
 * Makes the vector methods of an engine from a vector backend and the tenants' indexes. `prune` erases the vectors of texts that no record
 * has.
 */
export const ofBackend = (
  { append, embeddings, follow, models }: VectorBackend,
  tenantIndexOf: (tenant: string) => Effect.Effect<TenantIndex, MemoryError>,
  prune: Effect.Effect<void, MemoryError>
): EngineVectors => ({
  prune,
  models: (tenant) =>
    Effect.flatMap(models(tenant), (found) =>
      Effect.filter(
        Array.from(new Set(found)),
        (model) => Effect.map(follow(tenant, model), () => embeddings(tenant).dimensions(model) !== undefined)
      )),
  dimensions: (tenant, model) => Effect.map(follow(tenant, model), () => embeddings(tenant).dimensions(model)),
  pending: (tenant, model, limit) =>
    Effect.gen(function*() {
      yield* follow(tenant, model)
      const tenantIndex = yield* tenantIndexOf(tenant)
      const texts = yield* tenantIndex.texts().prepared
      return texts.pending(model, limit, yield* Clock.currentTimeMillis)
    }),
  attach: append,
  near: (access, compiled, model, vector, depth) =>
    Effect.zipRight(
      follow(access.tenant, model),
      Effect.flatMap(indexOf(tenantIndexOf(access.tenant)), (index) =>
        Effect.map(prepared(index, model, 8), () => index.near(access, compiled, model, vector, depth)))
    ),
  read: (tenant, model, hashes) =>
    Effect.map(follow(tenant, model), () => {
      const known = embeddings(tenant)
      return hashes.map((hash) => Option.fromNullable(known.get(model, hash)))
    })
})

/**
 * Prepares an index for search by vector, in steps between which the event loop runs. If vectors are added meanwhile, another round of
 * preparation follows, up to `rounds` rounds in all.
 */
const prepared = (index: MemoryIndex, model: string, rounds: number): Effect.Effect<void> =>
  Effect.suspend(() =>
    rounds === 0 || index.isPrepared(model)
      ? Effect.void
      : Effect.zipRight(EventLoop.paced(() => index.preparing(model)), prepared(index, model, rounds - 1))
  )

/** Fails with `invalid_draft` if the model's name, a hash or a vector is malformed. All vectors must have the same length. */
export const legal = (
  model: string,
  vectors: ReadonlyArray<readonly [hash: string, vector: Float32Array]>
): Effect.Effect<void, MemoryError> => {
  const [length = 1] = vectors.map(([, vector]) => vector.length)
  const issue = model === "" || model.length > 500 || !model.isWellFormed()
    ? "model: expected 1 to 500 characters"
    : vectors.some(([hash]) => !/^[0-9a-f]{64}$/.test(hash))
    ? "hash: no SHA-256"
    : vectors.some(([, vector]) => !vector.every(Number.isFinite))
    ? "vector: expected finite numbers"
    : length === 0 || vectors.some(([, vector]) => vector.length !== length)
    ? "vector: expected the same dimensions of each, and some"
    : undefined
  return issue === undefined ? Effect.void : invalid("attach", issue)
}

/** Fails with `invalid_draft` if the vectors differ in length, or if the model already has vectors of another length. */
export const fit = (
  embeddings: Pick<Embeddings, "dimensions">,
  model: string,
  vectors: ReadonlyArray<readonly [hash: string, vector: Float32Array]>
): Effect.Effect<void, MemoryError> => {
  const dimensions = embeddings.dimensions(model) ?? vectors[0]?.[1].length
  return vectors.every(([, { length }]) => length === dimensions && length > 0)
    ? Effect.void
    : invalid("attach", `vector: expected ${dimensions} dimensions`)
}
