/**
 * Values by key, like a stored Map. A layer provides one namespace of keys. A key with its value is stored as one record, in exactly the
 * scope of the viewer. So a viewer with another scope reads and writes other values. A string is stored as the body of the record. Other
 * values, and strings that are too long for a body, are stored in `data`. A `Redaction`, if provided, redacts secrets in keys. Keys that
 * differ only in a secret are then equal. If a person changes the key in a record's Markdown file, the entry is hidden until the key is
 * corrected.
 */
import { type PlatformError, SystemError } from "@effect/platform/Error"
import * as KeyValueStore from "@effect/platform/KeyValueStore"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import { type MemoryId, stableId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { MemoryMutation } from "../domain/MemoryMutation.ts"
import { deriveSummary, type Draft, foldCase, importanceOf, maxBody, recencyOf } from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import * as Payload from "../domain/Payload.ts"
import { invalid } from "../domain/Validation.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as Redaction from "../host/Redaction.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as TypedMemory from "./TypedMemory.ts"

/** Metadata to store with a value. */
export interface Metadata {
  /** Importance, 0..1 or the name of a level. Default 0.5. */
  readonly importance?: number | keyof typeof importanceOf | undefined
  readonly tags?: ReadonlyArray<string> | undefined
  /** Time of expiry, epoch milliseconds, exclusive. A value that has already expired is not written: an older value stays. */
  readonly expiresAt?: number | undefined
  /** Place or program that the value comes from, at most 1,024 characters. */
  readonly source?: string | undefined
}

/** A key with its value. */
export interface Entry {
  readonly key: string
  /** Any JSON value. `undefined` fails with `invalid_draft`. */
  readonly value: unknown
  readonly metadata?: Metadata | undefined
}

/** Selects the entries that meet both conditions. */
export interface Selection {
  /** Text with which the key begins. Default: any key. */
  readonly prefix?: string | undefined
  /** The entry must have at least one of these tags, regardless of case. Default: any entry. */
  readonly tags?: ReadonlyArray<string> | undefined
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Operations of `KeyValueMemory`, on the values of one namespace. */
export interface Service {
  /** Sets a key to a JSON value. Fails with `invalid_draft` if the value is not JSON. Of concurrent writes, the last wins. */
  readonly set: (
    viewer: Viewer.Any,
    key: string,
    value: unknown,
    metadata?: Metadata
  ) => Effect.Effect<void, MemoryError.MemoryError>
  /** Returns the value of a key, if it has one. */
  readonly get: (viewer: Viewer.Any, key: string) => Effect.Effect<Option.Option<Payload.Json>, MemoryError.MemoryError>
  /** Returns whether a key has a value. */
  readonly has: (viewer: Viewer.Any, key: string) => Effect.Effect<boolean, MemoryError.MemoryError>
  /** Deletes a key. Returns whether it had a value. */
  readonly delete: (viewer: Viewer.Any, key: string) => Effect.Effect<boolean, MemoryError.MemoryError>
  /** Deletes the selected entries of the viewer's own scope, by default all of them. Returns the number of deleted entries. */
  readonly clear: (viewer: Viewer.Any, selection?: Selection) => Effect.Effect<number, MemoryError.MemoryError>
  /** Returns all keys. Order and cost are those of `entries`. */
  readonly keys: (viewer: Viewer.Any) => Effect.Effect<ReadonlyArray<string>, MemoryError.MemoryError>
  /** Returns all entries, last written first. Cost: reads every value of the viewer's own scope in this namespace. */
  readonly entries: (viewer: Viewer.Any) => Effect.Effect<ReadonlyArray<Entry>, MemoryError.MemoryError>
  /** Returns the number of entries, at the same cost as `entries`. */
  readonly size: (viewer: Viewer.Any) => Effect.Effect<number, MemoryError.MemoryError>
  /** Stores all entries in one batch, or none if the batch fails. Of entries with the same key, the last is stored. */
  readonly batchWrite: (
    viewer: Viewer.Any,
    entries: ReadonlyArray<Entry>
  ) => Effect.Effect<void, MemoryError.MemoryError>
  /** Finds entries by words of their key, value and tags, best first. `limit` is 1..1,000, default 20. */
  readonly search: (
    viewer: Viewer.Any,
    text: string,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Entry>, MemoryError.MemoryError>
  /** Deletes the entries that were last written before `olderThan` (epoch milliseconds). Returns their number. */
  readonly prune: (viewer: Viewer.Any, olderThan: number) => Effect.Effect<number, MemoryError.MemoryError>
}

/** Tag of the service for values by key. */
export class KeyValueMemory extends Context.Tag("@memory/KeyValueMemory")<KeyValueMemory, Service>() {}

/** Makes the service for a namespace over the `MemoryStore` in the context. */
export const make = (namespace: string): Effect.Effect<Service, never, MemoryStore.MemoryStore> =>
  Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    const within: Namespace = {
      namespace,
      store,
      redaction: yield* Redaction.over(store),
      records: yield* TypedMemory.make(MemoryKind.entry)
    }
    const run = <A>(name: string, viewer: Viewer.Any, call: () => Io<A>) =>
      Effect.withSpan(Viewer.required(name, viewer, call), `KeyValueMemory.${name}`, { attributes: { namespace } })

    return {
      set: (viewer, key, value, metadata) =>
        run("set", viewer, () => write(within, "set", viewer, [{ key, value, metadata }])),
      get: (viewer, key) => run("get", viewer, () => Effect.map(find(within, viewer, key), Option.map(valueOf))),
      has: (viewer, key) => run("has", viewer, () => Effect.map(find(within, viewer, key), Option.isSome)),
      delete: (viewer, key) => run("delete", viewer, () => forget(within, viewer, key)),
      clear: (viewer, selection = {}) => run("clear", viewer, () => remove(within, viewer, selects(selection))),
      keys: (viewer) => run("keys", viewer, () => Effect.map(all(within, viewer), Arr.map(({ data }) => data.key))),
      entries: (viewer) => run("entries", viewer, () => Effect.map(all(within, viewer), Arr.map(entryOf))),
      size: (viewer) => run("size", viewer, () => Effect.map(all(within, viewer), ({ length }) => length)),
      batchWrite: (viewer, entries) => run("batchWrite", viewer, () => write(within, "batchWrite", viewer, entries)),
      search: (viewer, text, limit) => run("search", viewer, () => search(within, viewer, text, limit)),
      prune: (viewer, olderThan) =>
        run("prune", viewer, () => remove(within, viewer, ({ record }) => recencyOf(record) < olderThan))
    }
  })

/** Provides `KeyValueMemory` for a namespace over a `MemoryStore`. */
export const layer = (namespace: string): Layer.Layer<KeyValueMemory, never, MemoryStore.MemoryStore> =>
  Layer.effect(KeyValueMemory, make(namespace))

/** Provides the `KeyValueStore` of `@effect/platform` for one viewer. */
export const layerKeyValueStore = (
  viewer: Viewer.Any
): Layer.Layer<KeyValueStore.KeyValueStore, never, KeyValueMemory> =>
  Layer.effect(
    KeyValueStore.KeyValueStore,
    Effect.map(KeyValueMemory, (memory) => toKeyValueStore(memory, viewer))
  )

/** Makes a `KeyValueStore` of `@effect/platform` for one viewer. `get` returns values that are not strings as JSON text. */
export const toKeyValueStore = (memory: Service, viewer: Viewer.Any): KeyValueStore.KeyValueStore =>
  KeyValueStore.makeStringOnly({
    get: (key) =>
      platform(
        "get",
        Effect.map(
          memory.get(viewer, key),
          Option.map((value) => typeof value === "string" ? value : JSON.stringify(value))
        )
      ),
    set: (key, value) => platform("set", memory.set(viewer, key, value)),
    remove: (key) => platform("remove", Effect.asVoid(memory.delete(viewer, key))),
    clear: platform("clear", Effect.asVoid(memory.clear(viewer))),
    size: platform("size", memory.size(viewer))
  })

/** Copies the values of these keys from a `KeyValueStore`, in one write. Returns the number of copied values. */
export const copyKeyValueStore = (
  memory: Service,
  viewer: Viewer.Any,
  keys: ReadonlyArray<string>
): Effect.Effect<number, MemoryError.MemoryError, KeyValueStore.KeyValueStore> =>
  Effect.gen(function*() {
    const store = yield* KeyValueStore.KeyValueStore
    const entries = yield* Effect.forEach(keys, (key) =>
      Effect.map(store.get(key), Option.map((value): Entry => ({ key, value })))).pipe(
        Effect.map((found) =>
          found.flatMap(Option.toArray)
        ),
        Effect.mapError((cause) =>
          MemoryError.make("io", { op: "copyKeyValueStore", message: "its store can't be read", cause })
        )
      )
    yield* memory.batchWrite(viewer, entries)
    return entries.length
  })

/** A promise-based key-value store. */
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

/** Makes a `MemoryBackend` for one viewer. `run` may be `Effect.runPromise`. The type `T` of `get<T>` is not checked. */
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
    run(Effect.map(memory.get(viewer, key), (value) => Option.getOrUndefined(value) as T | undefined)), // the caller chooses the type
  has: (key) => run(memory.has(viewer, key)),
  delete: (key) => run(memory.delete(viewer, key)),
  clear: () => run(Effect.asVoid(memory.clear(viewer))),
  async *keys() {
    yield* await run(memory.keys(viewer))
  },
  async *entries<T>() {
    for (const { key, value } of await run(memory.entries(viewer))) yield [key, value as T] as [string, T] // the caller chooses the type
  },
  size: () => run(memory.size(viewer)),
  batchWrite: (entries) => run(memory.batchWrite(viewer, entries)),
  search: (text, limit) => run(memory.search(viewer, text, limit)),
  prune: (olderThan) => run(memory.prune(viewer, olderThan))
})

/** Copies all values of a backend in one write, without metadata. Returns their number. Fails with `io` if the backend fails. */
export const copyBackend = (
  memory: Service,
  viewer: Viewer.Any,
  backend: Pick<MemoryBackend, "entries">
): Effect.Effect<number, MemoryError.MemoryError> =>
  Effect.try({ try: () => Stream.fromAsyncIterable(backend.entries<unknown>(), unreadable), catch: unreadable }).pipe(
    Stream.unwrap,
    Stream.map(([key, value]): Entry => ({ key, value })),
    Stream.runCollect,
    Effect.map((entries) => Array.from(entries)),
    Effect.tap((entries) => memory.batchWrite(viewer, entries)),
    Effect.map(({ length }) => length)
  )

const unreadable = (cause: unknown) =>
  MemoryError.make("io", { op: "copyBackend", message: "the backend does not tell its entries", cause })

interface Namespace {
  readonly namespace: string
  readonly store: MemoryStore.Service
  readonly redaction: Redaction.Service | undefined
  readonly records: TypedMemory.TypedMemory<Payload.Entry>
}
type Found = TypedMemory.Typed<Payload.Entry>

/** Derives the record id of a key from scope, namespace and key. The id is the same on every machine. */
export const idOf = (scope: MemoryScope.MemoryScope, namespace: string, key: string): MemoryId =>
  stableId(JSON.stringify(["entry", MemoryScope.key(scope), namespace, key]))

const belongsTo = (namespace: string) => ({ data, record }: Found): boolean =>
  data.namespace === namespace && record.id === idOf(record.scope, namespace, data.key)

const whereOf = (namespace: string) => ({ "data.namespace": { eq: namespace } }) as const

const find = ({ namespace, records, redaction }: Namespace, viewer: Viewer.Any, key: string) =>
  Effect.flatMap(
    Redaction.redactQuery(redaction, key),
    (key) => records.get(Viewer.exactly(viewer), idOf(Viewer.scopeOf(viewer), namespace, key))
  ).pipe(Effect.map(Option.filter(belongsTo(namespace))))

const all = ({ namespace, records }: Namespace, viewer: Viewer.Any) =>
  Effect.map(
    records.all(Viewer.exactly(viewer), {
      scope: Viewer.scopeOf(viewer),
      where: whereOf(namespace),
      closed: true
    }),
    (found) => found.filter(belongsTo(namespace))
  )

const search = ({ namespace, records }: Namespace, viewer: Viewer.Any, text: string, limit: number | undefined) =>
  Effect.map(
    records.search(Viewer.exactly(viewer), {
      text,
      scope: Viewer.scopeOf(viewer),
      where: whereOf(namespace),
      limit
    }),
    (found) => found.filter(belongsTo(namespace)).map(entryOf)
  )

const write = (
  { namespace, redaction, store }: Namespace,
  op: string,
  viewer: Viewer.Any,
  entries: ReadonlyArray<Entry>
) =>
  Effect.gen(function*() {
    const drafts = yield* Effect.forEach(entries, ({ value, ...entry }, n) =>
      isJson(value)
        ? Effect.map(Redaction.redactQuery(redaction, entry.key), (key) => ({
          ...draftOf(namespace, viewer, entry, value),
          id: idOf(Viewer.scopeOf(viewer), namespace, key)
        }))
        : invalid(op, `${entries.length === 1 ? "" : `${n}.`}value: expected JSON, no undefined in it`))
    const now = yield* Clock.currentTimeMillis
    yield* store.put(Viewer.exactly(viewer), drafts.filter(({ expiresAt }) => !(expiresAt! <= now))) // a draft without `expiresAt` stays
  })

const forget = (within: Namespace, viewer: Viewer.Any, key: string) =>
  Effect.flatMap(find(within, viewer, key), (found) =>
    Option.isSome(found)
      ? within.records.forget(Viewer.exactly(viewer), found.value.record.id)
      : Effect.succeed(false))

/** Deletes the entries for which `goes` is true, and returns their number. Starts again if an entry changes meanwhile. */
const remove = (within: Namespace, viewer: Viewer.Any, goes: (entry: Found) => boolean) =>
  Effect.gen(function*() {
    const found = (yield* all(within, viewer)).filter(goes)
    const mutations = found.map(({ record: { id, revision } }): MemoryMutation => ({
      _tag: "Forget",
      id,
      ifRevision: revision
    }))
    const applied = yield* within.store.apply(Viewer.exactly(viewer), mutations)
    return applied.filter(({ outcome }) => outcome === "forgotten").length
  }).pipe(MemoryError.retryOnConflict)

const selects = ({ prefix = "", tags }: Selection) => {
  const wanted = tags && new Set(tags.map(foldCase))
  return ({ data: { key }, record }: Found): boolean =>
    key.startsWith(prefix) && (wanted === undefined || record.tags.some((tag) => wanted.has(foldCase(tag))))
}

const draftOf = (
  namespace: string,
  viewer: Viewer.Any,
  { key, metadata = {} }: Omit<Entry, "value">,
  value: Payload.Json
): Draft => {
  const scope = Viewer.scopeOf(viewer)
  const { body, data } = toRecord(value)
  return {
    scope,
    kind: MemoryKind.entry.name,
    summary: deriveSummary(key) || deriveSummary(JSON.stringify(key)),
    body,
    data: { namespace, key, ...data },
    tags: metadata.tags,
    importance: typeof metadata.importance === "string"
      ? importanceOf[metadata.importance]
      : metadata.importance,
    expiresAt: metadata.expiresAt,
    source: metadata.source === undefined ? undefined : { reference: metadata.source }
  }
}

/** Returns the record's fields for a value. A string that fits becomes the body. Any other value is in `data`, and as text in the body. */
const toRecord = (
  value: Payload.Json
): { readonly body: string; readonly data: { readonly value?: Payload.Json } } =>
  typeof value === "string" && value.length <= maxBody
    ? { body: value, data: {} }
    : { body: cut(lines(value)), data: { value } }

/** Returns a line for each leaf of a JSON value: the leaf with its path, such as `user.name: Ada`. */
const lines = (value: Payload.Json, path: ReadonlyArray<string> = []): string => {
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).map(([key, inner]) => lines(inner, [...path, key])).filter((line) => line !== "")
      .join("\n")
  }
  return path.length === 0 ? String(value) : `${path.join(".")}: ${String(value)}`
}

const cut = (text: string): string =>
  text.length <= maxBody ? text : text.slice(0, maxBody).replace(/[\uD800-\uDBFF]$/, "")

const isJson = Schema.is(Payload.Json)

const valueOf = ({ data, record }: Found): Payload.Json => data.value === undefined ? record.body : data.value

const entryOf = (found: Found): Entry => {
  const { expiresAt, importance, source, tags } = found.record
  return {
    key: found.data.key,
    value: valueOf(found),
    metadata: {
      importance,
      ...(tags.length > 0 && { tags }),
      ...(expiresAt !== undefined && { expiresAt }),
      ...(source.reference !== undefined && { source: source.reference })
    }
  }
}

const platform = <A>(
  method: string,
  self: Effect.Effect<A, MemoryError.MemoryError>
): Effect.Effect<A, PlatformError> =>
  Effect.mapError(
    self,
    (cause) =>
      new SystemError({ reason: "Unknown", module: "KeyValueStore", method, description: cause.message, cause })
  )
