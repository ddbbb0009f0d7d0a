/** Collects answers that a vault gives to its viewers, as JSON, so that the answers of two releases can be compared. */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import type { MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import { type MemoryId, stableId } from "../../src/domain/MemoryId.ts"
import { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import { isInternal } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as BeliefMemory from "../../src/kinds/BeliefMemory.ts"
import * as GraphMemory from "../../src/kinds/GraphMemory.ts"
import * as KeyValueMemory from "../../src/kinds/KeyValueMemory.ts"
import * as SessionMemory from "../../src/kinds/SessionMemory.ts"
import { MemoryStore, type Service } from "../../src/storage/MemoryStore.ts"
import type { VaultService } from "../../src/storage/MemoryStore/Markdown.ts"
import { type Named, viewerOf } from "./Generation.ts"

export const tenants = ["default", "acme", "Zoë GmbH"] as const

/** The models of the vectors in a generation (the files that one release wrote), each with a query vector. */
export const models: ReadonlyArray<NonNullable<MemoryQuery["embedding"]>> = [
  { model: "small-4", vector: [1, 0, 0, 0] },
  { model: "Other/Model v2", vector: [0, 1, 0, 0, 0, 0] }
]

/** Makes the vector of a text, the same in each release: texts with the same first letter are near each other. */
export const vectorOf = (text: string, dimensions: number): Float32Array =>
  Float32Array.from({ length: dimensions }, (_, n) => n === text.charCodeAt(0) % dimensions ? 1 : 0.125)

export const questions = ["tea", "deploy friday", "Lisbon", "Müller", "the payments gateway failed"]

const ids = (fields: Readonly<Record<string, string>>, within = false): Named => ({ ids: fields, within })

/** Viewers with every combination of ids and reach that matters, by name. */
export const viewers: Readonly<Record<string, Named>> = {
  nobody: ids({}),
  ada: ids({ userId: "ada" }),
  "ada within": ids({ userId: "ada" }, true),
  bob: ids({ userId: "bob" }),
  "Zoë Ünal": ids({ userId: "Zoë Ünal" }),
  coach: ids({ agentId: "Coach" }),
  "coach within": ids({ agentId: "Coach" }, true),
  "a run of coach": ids({ agentId: "Coach", runId: "run-1" }),
  "ada with coach": ids({ userId: "ada", agentId: "Coach" }),
  "ada on monday": ids({ userId: "ada", sessionId: "monday" }),
  "all five ids": ids({ userId: "ada", agentId: "Coach", runId: "run-1", sessionId: "monday", actorId: "cat" }),
  "an actor": ids({ actorId: "cat" }),
  "a session": ids({ sessionId: "monday" }),
  "ada of acme": ids({ tenant: "acme", userId: "ada" }),
  "ada of Zoë GmbH": ids({ tenant: "Zoë GmbH", userId: "ada" }),
  ...Object.fromEntries(tenants.flatMap((tenant): ReadonlyArray<[string, Named]> => [
    [`everyone of ${tenant}`, { everyone: tenant }],
    [`the library in ${tenant}`, { system: tenant }]
  ]))
}

const encode = Schema.encodeSync(MemoryRecord)

/** Returns the sorted ids of records, since a change of ranking may change the order of hits. */
const sorted = (records: ReadonlyArray<MemoryRecord>) => records.map(({ id }) => id).sort()

/** Lists every record that `System` sees, expired ones included, except forgotten records and rows that the library writes for itself. */
const known = (store: Service, tenant: string) =>
  Effect.map(
    Stream.runCollect(store.stream(Viewer.system(tenant), { closed: true, limit: 1_000 })),
    (all) => Chunk.toReadonlyArray(all).filter(({ scope }) => !isInternal(scope))
  )

const hits = (store: Service, viewer: Viewer.Any, query: MemoryQuery) =>
  Effect.map(store.search(viewer, { ...query, limit: 1_000 }), ({ awaiting, hits }) => ({
    ids: sorted(hits.flatMap(({ record }) => isInternal(record.scope) ? [] : [record])),
    awaiting: Viewer.isSystem(viewer) ? undefined : awaiting // for System the count would include internal rows
  }))

/** Returns what one viewer lists and finds, and what it gets for the ids in `everything`. */
const seenBy = (store: Service, viewer: Viewer.Any, everything: ReadonlyArray<MemoryId>) =>
  Effect.gen(function*() {
    const list = (closed: boolean) =>
      Effect.map(
        Stream.runCollect(store.stream(viewer, { closed })),
        (all) => Chunk.toReadonlyArray(all).flatMap(({ id, scope }) => isInternal(scope) ? [] : [id])
      )
    const found = (yield* store.get(viewer, everything)).flatMap(Option.toArray)
    const history: Record<string, ReadonlyArray<number>> = {}
    const links: Record<string, unknown> = {}
    for (const id of everything) {
      const revisions = (yield* store.history(viewer, id)).map(({ revision }) => revision)
      if (revisions.length > 0) history[id] = revisions
      const neighbours = yield* store.links(viewer, id)
      if (neighbours.to.length + neighbours.from.length > 0) links[id] = neighbours
    }
    const uses = yield* store.uses(viewer, everything)
    return {
      list: yield* list(false),
      closed: yield* list(true),
      get: sorted(found),
      history,
      links,
      uses: uses.reduce((sum, { count }) => sum + count, 0),
      search: yield* Effect.forEach(questions, (text) => Effect.map(hits(store, viewer, { text }), ({ ids }) => ids)),
      vectors: yield* Effect.forEach(models, (embedding) => hits(store, viewer, { mode: "vector", embedding }))
    }
  })

/** Returns the answers of the services for kinds of memory, such as `BeliefMemory`. */
const byKind = (store: Service): Effect.Effect<unknown, MemoryError> =>
  Effect.gen(function*() {
    const settings = yield* KeyValueMemory.make("settings")
    const beliefs = yield* BeliefMemory.make
    const graph = yield* GraphMemory.make
    const sessions = yield* SessionMemory.make
    const ada = Viewer.make({ userId: "ada" })
    const held = yield* beliefs.query(ada, { includeSuperseded: true })
    const entities = yield* store.list(ada, { kinds: ["entity"], limit: 1_000 })
    return {
      entries: yield* settings.entries(ada),
      entriesElsewhere: yield* settings.entries(Viewer.make({ tenant: "acme", userId: "ada" })),
      "a value": yield* settings.get(ada, "nested"),
      beliefs: held.map(({ data, record }) => [record.id, record.confidence, data]),
      audits: yield* Effect.forEach(held, ({ record }) => beliefs.audit(ada, record.id)),
      relationships: yield* Effect.forEach(entities.items, ({ id }) => graph.relationships(ada, id)),
      solutions: (yield* sessions.getRecentErrorSolutions(ada)).map(({ data, record }) => [record.id, data])
    }
  }).pipe(Effect.provideService(MemoryStore, store))

/** Returns answers of the vault that an upgrade must not change. */
export const observe = (store: Service, vault: VaultService): Effect.Effect<unknown, MemoryError> =>
  Effect.gen(function*() {
    const all: Record<string, ReadonlyArray<MemoryRecord>> = {}
    const records: Record<string, unknown> = {}
    for (const tenant of tenants) {
      all[tenant] = yield* known(store, tenant)
      for (const record of all[tenant]) {
        const earlier = (yield* store.history(Viewer.system(tenant), record.id)).slice(1)
        records[`${tenant}/${record.id}`] = { now: encode(record), earlier: earlier.map((record) => encode(record)) }
      }
    }
    const seen: Record<string, unknown> = {}
    for (const [name, named] of Object.entries(viewers)) {
      const viewer = viewerOf(named)
      seen[name] = yield* seenBy(store, viewer, sorted(all[viewer.tenant] ?? []).concat(forgotten))
    }
    return JSON.parse(JSON.stringify({
      tenants: (yield* store.tenants).toSorted(),
      issues: (yield* vault.issues).map(({ error, path }) => [path, error.reason]).sort(),
      records,
      seen,
      kinds: yield* byKind(store)
    }))
  })

/**
 * Ids of records that were forgotten or purged, or have expired, in a generation (the files that one release wrote). Only `System` may
 * still get them by id.
 */
export const forgotten: ReadonlyArray<MemoryId> = ["forgotten", "purged", "expired"].map(stableId)
