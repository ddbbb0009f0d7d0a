/**
 * Values by key in a namespace: a Map that outlives the process.
 *
 * A layer is one namespace, the viewer is whose. One key is one record, whose id is made of scope, namespace and key, in
 * exactly the viewer's scope: neither broader nor narrower ones are looked into. Text is the record's body, any other
 * value its `data`; a file that somebody gave another key is no entry until the key is what it was.
 */
import * as KeyValueStore from "@effect/platform/KeyValueStore"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as MemoryError from "../domain/MemoryError.ts"
import { type MemoryId, stableId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { MemoryMutation } from "../domain/MemoryMutation.ts"
import { deriveSummary, type Draft, importanceOf, type MemoryRecord, recencyOf } from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import * as Payload from "../domain/Payload.ts"
import * as Viewer from "../domain/Viewer.ts"
import { invalid } from "../storage/Check.ts"
import { MemoryStore } from "../storage/MemoryStore.ts"
import { toKeyValueStore } from "./KeyValueMemory/Platform.ts"
import * as Value from "./KeyValueMemory/Value.ts"
import { make as typed, type Typed } from "./TypedMemory.ts"

export interface Metadata {
  /** 0..1, or a level. Default .5. */
  readonly importance?: number | keyof typeof importanceOf | undefined
  readonly tags?: ReadonlyArray<string> | undefined
  /** Epoch ms, exclusive; in the past = nothing is stored, and what is there stays. */
  readonly expiresAt?: number | undefined
  /** At most 1,024 characters. */
  readonly source?: string | undefined
}
export interface Entry {
  readonly key: string
  /** JSON; `undefined` is refused. */
  readonly value: unknown
  readonly metadata?: Metadata | undefined
}

export interface Selection {
  /** Of the key. */
  readonly prefix?: string | undefined
  /** Any of them, whatever the case. */
  readonly tags?: ReadonlyArray<string> | undefined
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Service {
  /** `invalid_draft` unless the value is JSON. Of concurrent ones the last counts. */
  readonly set: (viewer: Viewer.Any, key: string, value: unknown, metadata?: Metadata) => Io<void>
  readonly get: (viewer: Viewer.Any, key: string) => Io<Option.Option<Payload.Json>>
  readonly has: (viewer: Viewer.Any, key: string) => Io<boolean>
  readonly delete: (viewer: Viewer.Any, key: string) => Io<boolean>
  /** This namespace only; what is selected by both, all by default. How many. */
  readonly clear: (viewer: Viewer.Any, selection?: Selection) => Io<number>
  /** As `entries`. */
  readonly keys: (viewer: Viewer.Any) => Io<ReadonlyArray<string>>
  /** Last written first. Cost: all that the viewer sees. */
  readonly entries: (viewer: Viewer.Any) => Io<ReadonlyArray<Entry>>
  readonly size: (viewer: Viewer.Any) => Io<number>
  /** All or nothing. Of one key twice the later counts. */
  readonly batchWrite: (viewer: Viewer.Any, entries: ReadonlyArray<Entry>) => Io<void>
  /** By words of key, value and tags, best first. 1..1,000, default 20. */
  readonly search: (viewer: Viewer.Any, text: string, limit?: number) => Io<ReadonlyArray<Entry>>
  /** Last written before; epoch ms. How many. */
  readonly prune: (viewer: Viewer.Any, olderThan: number) => Io<number>
}

export class KeyValueMemory extends Context.Tag("@memory/KeyValueMemory")<KeyValueMemory, Service>() {}

export const make = (namespace: string): Effect.Effect<Service, never, MemoryStore> =>
  Effect.gen(function*() {
    const store = yield* MemoryStore
    const records = yield* typed(MemoryKind.entry)

    const span = <A>(name: string, self: Io<A>) =>
      Effect.withSpan(self, `KeyValueMemory.${name}`, { attributes: { namespace } })
    const where = { "data.namespace": { eq: namespace } } as const

    const isOurs = ({ data, record }: Typed<Payload.Entry>) =>
      data.namespace === namespace && record.id === idOf(record.scope, namespace, data.key)

    const find = (viewer: Viewer.Any, key: string) =>
      Effect.map(
        records.get(Viewer.exactly(viewer), idOf(Viewer.scopeOf(viewer), namespace, key)),
        Option.filter(isOurs)
      )
    const all = (viewer: Viewer.Any) =>
      Effect.map(
        records.all(Viewer.exactly(viewer), { scope: Viewer.scopeOf(viewer), where, closed: true }),
        (found) => found.filter(isOurs)
      )

    const draftOf = (viewer: Viewer.Any, { key, metadata = {} }: Entry, value: Payload.Json): Draft => {
      const scope = Viewer.scopeOf(viewer)
      const { body, data } = Value.write(value)
      return {
        id: idOf(scope, namespace, key),
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

    const write = (op: string, viewer: Viewer.Any, entries: ReadonlyArray<Entry>) =>
      Effect.gen(function*() {
        const drafts = yield* Effect.forEach(entries, (entry, n) =>
          isJson(entry.value)
            ? Effect.succeed(draftOf(viewer, entry, entry.value))
            : invalid(op, `${entries.length === 1 ? "" : `${n}.`}value: expected JSON, no undefined in it`))
        const now = yield* Clock.currentTimeMillis
        yield* store.put(Viewer.exactly(viewer), drafts.filter(({ expiresAt }) => !(expiresAt! <= now))) // of none, true
      })

    /** What was written meanwhile is looked at again. */
    const remove = (viewer: Viewer.Any, goes: (record: MemoryRecord, entry: Payload.Entry) => boolean) =>
      Effect.gen(function*() {
        const found = (yield* all(viewer)).filter(({ data, record }) => goes(record, data))
        const mutations = found.map(({ record: { id, revision } }): MemoryMutation => ({
          _tag: "Forget",
          id,
          ifRevision: revision
        }))
        const applied = yield* store.apply(Viewer.exactly(viewer), mutations)
        return applied.filter(({ outcome }) => outcome === "forgotten").length
      }).pipe(Effect.retry({ while: ({ reason }) => reason === "conflict" }))

    return {
      set: (viewer, key, value, metadata) => span("set", write("set", viewer, [{ key, value, metadata }])),
      get: (viewer, key) => span("get", Effect.map(find(viewer, key), Option.map(valueOf))),
      has: (viewer, key) => span("has", Effect.map(find(viewer, key), Option.isSome)),
      delete: (viewer, key) =>
        span(
          "delete",
          Effect.flatMap(find(viewer, key), (found) =>
            Option.isSome(found)
              ? records.forget(Viewer.exactly(viewer), found.value.record.id)
              : Effect.succeed(false))
        ),
      clear: (viewer, { prefix = "", tags } = {}) => {
        const wanted = tags && new Set(tags.map(fold))
        return span(
          "clear",
          remove(viewer, (record, { key }) =>
            key.startsWith(prefix) && (wanted === undefined || record.tags.some((tag) =>
              wanted.has(fold(tag))
            )))
        )
      },
      keys: (viewer) => span("keys", Effect.map(all(viewer), (found) => found.map(({ data }) => data.key))),
      entries: (viewer) => span("entries", Effect.map(all(viewer), (found) => found.map(entryOf))),
      size: (viewer) => span("size", Effect.map(all(viewer), ({ length }) => length)),
      batchWrite: (viewer, entries) => span("batchWrite", write("batchWrite", viewer, entries)),
      search: (viewer, text, limit) =>
        span(
          "search",
          Effect.map(
            records.search(Viewer.exactly(viewer), { text, scope: Viewer.scopeOf(viewer), where, limit }),
            (found) => found.filter(isOurs).map(entryOf)
          )
        ),
      prune: (viewer, olderThan) => span("prune", remove(viewer, (record) => recencyOf(record) < olderThan))
    }
  })

export const layer = (namespace: string): Layer.Layer<KeyValueMemory, never, MemoryStore> =>
  Layer.effect(KeyValueMemory, make(namespace))

/** As platform's service, for one viewer. */
export const layerKeyValueStore = (
  viewer: Viewer.Any
): Layer.Layer<KeyValueStore.KeyValueStore, never, KeyValueMemory> =>
  Layer.effect(
    KeyValueStore.KeyValueStore,
    Effect.map(KeyValueMemory, (memory) => toKeyValueStore(memory, viewer))
  )

export { copyBackend, type MemoryBackend, toBackend } from "./KeyValueMemory/Backend.ts"
export { copyKeyValueStore, toKeyValueStore } from "./KeyValueMemory/Platform.ts"

/** The same on every machine; no two of namespace, key and scope are one. */
const idOf = (scope: MemoryScope.MemoryScope, namespace: string, key: string): MemoryId =>
  stableId(JSON.stringify(["entry", MemoryScope.key(scope), namespace, key]))

const isJson = Schema.is(Payload.Json)

const valueOf = ({ data, record }: Typed<Payload.Entry>): Payload.Json =>
  data.value === undefined ? record.body : data.value

const entryOf = (found: Typed<Payload.Entry>): Entry => {
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

const fold = (tag: string): string => tag.normalize("NFC").toLowerCase()
