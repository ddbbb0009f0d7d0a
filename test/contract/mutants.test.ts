/** Tests the laws of the contract themselves: each of these stores is broken in one way, and some law must detect it. */
import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import * as TestContext from "effect/TestContext"
import { sha256 } from "../../src/domain/Digest.ts"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import {
  Cursor,
  matches,
  type MemoryFilter,
  type MemoryQuery,
  type SearchResult
} from "../../src/domain/MemoryFilter.ts"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import { isExpired, MemoryRecord, textHash } from "../../src/domain/MemoryRecord.ts"
import * as MemoryScope from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { saysTheSame } from "../../src/ranking/NearDuplicate.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Transaction from "../../src/storage/MemoryStore/internal/Transaction.ts"
import * as MemoryStoreContract from "../../src/testing/MemoryStoreContract.ts"
import { killers } from "./killers.ts"

type Store = Layer.Layer<MemoryStore.MemoryStore>

/** The in-memory store with some operations replaced. */
const broken = (breaks: (store: MemoryStore.Service) => Partial<MemoryStore.Service>): Store =>
  Layer.effect(
    MemoryStore.MemoryStore,
    Effect.map(MemoryStore.MemoryStore, (store) => ({ ...store, ...breaks(store) }))
  ).pipe(
    Layer.provide(MemoryStore.layerInMemory)
  )

/** A store over a Map that keeps its rows wrongly, as `keep` says. */
const keptBy = (
  keep: (
    old: ReadonlyArray<MemoryStore.Stored>,
    next: MemoryStore.Stored | undefined
  ) => ReadonlyArray<MemoryStore.Stored>
): Store =>
  Layer.effect(
    MemoryStore.MemoryStore,
    Effect.suspend(() => {
      const rows = new Map<string, ReadonlyArray<MemoryStore.Stored>>()
      const key = (tenant: string, id: string) => JSON.stringify([tenant, id])
      const alive = (revisions: ReadonlyArray<MemoryStore.Stored> | undefined) => revisions?.find((_) => _ !== erased)
      return MemoryStore.make("kept", {
        read: (tenant, ids) =>
          Effect.sync(() => ids.map((id) => Option.fromNullable(alive(rows.get(key(tenant, id)))))),
        tenants: Effect.sync(() =>
          Array.from(new Set(Array.from(rows).flatMap(([at, all]) => alive(all) ? [String(JSON.parse(at)[0])] : [])))
        ),
        scan: (tenant) =>
          Stream.suspend(() =>
            Stream.fromIterable(
              Array.from(rows).flatMap(([at, all]) => JSON.parse(at)[0] === tenant && alive(all) ? [alive(all)!] : [])
            )
          ),
        revisions: (tenant, id, limit) =>
          Effect.sync(() => (rows.get(key(tenant, id)) ?? []).filter((_) => _ !== erased).slice(0, limit)),
        commit: (tenant, writes) =>
          Effect.sync(() => {
            for (const { id, next } of writes) rows.set(key(tenant, id), keep(rows.get(key(tenant, id)) ?? [], next))
          })
      })
    }).pipe(Effect.orDie) // operations on a Map do not fail
  )
const erased: MemoryStore.Stored = Object.freeze({ record: {} as MemoryRecord, forgotten: true }) // a marker whose fields are never read

/** Returns a viewer that sees all live records of the tenant, except those of scope `Internal`. Returns the viewer `System` unchanged. */
const all = (viewer: Viewer.Any) => Viewer.isSystem(viewer) ? viewer : Viewer.everyone(viewer.tenant)
const system = (viewer: Viewer.Any) => Viewer.system(viewer.tenant)
const joined = (ids: MemoryScope.Ids) =>
  MemoryScope.fields.flatMap((field) => ids[field] === undefined ? [] : [`${field}=${ids[field]}`]).join("/")
const changed = (record: MemoryRecord, fields: Partial<MemoryRecord>) =>
  new MemoryRecord({ ...record, ...fields }, { disableValidation: true })
const only = (result: SearchResult, keep: (record: MemoryRecord) => boolean): SearchResult => ({
  ...result,
  hits: result.hits.filter(({ record }) => keep(record))
})

const withVectors = (breaks: (vectors: MemoryStore.Vectors) => Partial<MemoryStore.Vectors>): Store =>
  broken((store) => ({ vectors: Option.map(store.vectors, (vectors) => ({ ...vectors, ...breaks(vectors) })) }))
/** A store that gives conversation turns the scores that another viewer would get. */
const ofTurns = (other: (viewer: Viewer.Any) => Viewer.Any): Store =>
  broken((store) => ({
    search: (viewer, query) =>
      Effect.zipWith(
        store.search(viewer, query),
        store.search(other(viewer), { ...query, limit: 1_000 }),
        (mine, { hits }) => ({
          ...mine,
          hits: mine.hits.map((hit) =>
            hits.find(({ record }) => record.id === hit.record.id && record.source.session !== undefined) ?? hit
          )
        })
      )
  }))
const folding = (says: (record: MemoryRecord) => string): Store =>
  broken((store) => ({
    search: (viewer, query) =>
      Effect.map(store.search(viewer, query), (result) => {
        const hits = result.hits.filter(({ record }, n) =>
          query.text === undefined || n === result.hits.findIndex((other) => says(other.record) === says(record))
        )
        const folded = result.leftOut.folded + result.hits.length - hits.length
        return { ...result, hits, leftOut: { ...result.leftOut, folded } }
      })
  }))

/** A store that changes the items of trash lists. */
const inTrash = (change: (items: ReadonlyArray<MemoryRecord>) => ReadonlyArray<MemoryRecord>): Store =>
  broken((store) => ({
    list: (viewer, filter) =>
      Effect.map(store.list(viewer, filter), (page) => filter.forgotten ? { ...page, items: change(page.items) } : page)
  }))
/** A store whose trash lists contain all forgotten records in the viewer's scopes for which `keep` returns true. */
const trashOfAll = (keep: (record: MemoryRecord) => boolean): Store =>
  broken((store) => ({
    list: (viewer, filter) =>
      filter.forgotten && !Viewer.isSystem(viewer) && filter.after === undefined
        ? Effect.map(store.list(system(viewer), { ...filter, limit: 1_000 }), ({ items }) => ({
          items: items.filter((record) => Viewer.sees(viewer, record.scope) && keep(record))
        }))
        : store.list(viewer, filter)
  }))

const mutants: Readonly<Record<string, Store>> = {
  "changes of other viewers fill a subscriber's buffer": broken((store) => ({
    changes: (viewer) =>
      store.changes(all(viewer)).pipe(
        Stream.filter((change) =>
          Viewer.isSystem(viewer) || change._tag !== "Written" || Viewer.sees(viewer, change.record.scope)
        )
      )
  })),
  "`sign` ignores the purpose": broken((store) => ({ sign: (_, text) => store.sign("", text) })),
  "`sign` concatenates purpose and text without a separator": broken((store) => ({
    sign: (purpose, text) => store.sign("", purpose + text)
  })),
  "`sign` uses no secret": broken(() => ({
    sign: (purpose, text) => Effect.succeed(sha256(JSON.stringify([purpose, text])))
  })),
  "`get` skips the viewer check": broken((store) => ({ get: (viewer, ids) => store.get(all(viewer), ids) })),
  "`links` accepts a plain object as a viewer": broken((store) => ({
    links: (viewer, id) => Viewer.isAny(viewer) ? store.links(viewer, id) : store.links(Viewer.system(), id)
  })),
  "`uses` dies instead of failing if the viewer is not a `Viewer`": broken((store) => ({
    uses: (viewer, ids) => Viewer.isAny(viewer) ? store.uses(viewer, ids) : Effect.die("not a viewer")
  })),
  "a user's record in the global scope gets trust 1 instead of 2": keptBy((old, next) => [
    next && next.record.source.trust === 2 && next.record.scope === "global"
      ? { ...next, record: changed(next.record, { source: { ...next.record.source, trust: 1 } }) }
      : next ?? erased,
    ...old
  ]),
  "`list` skips the viewer check": broken((store) => ({ list: (viewer, filter) => store.list(all(viewer), filter) })),
  "`search` has no viewer check": broken((store) => ({ search: (viewer, query) => store.search(all(viewer), query) })),
  "`stream` skips the viewer check": broken((store) => ({
    stream: (viewer, filter) => store.stream(all(viewer), filter)
  })),
  "`history` skips the viewer check": broken((store) => ({
    history: (viewer, id, limit) => store.history(all(viewer), id, limit)
  })),
  "`forget` skips the viewer check": broken((store) => ({
    forget: (viewer, ids, options) => store.forget(all(viewer), ids, options)
  })),
  "`update` skips the viewer check": broken((store) => ({
    update: (viewer, id, patch, options) => store.update(all(viewer), id, patch, options)
  })),
  "`put` skips the viewer check": broken((store) => ({
    put: (viewer, drafts, options) => store.put(all(viewer), drafts, options)
  })),
  "`touch` and `uses` skip the viewer check": broken((store) => ({
    touch: (viewer, ids) => store.touch(all(viewer), ids),
    uses: (viewer, ids) => store.uses(all(viewer), ids)
  })),
  "uses of an erased record count for the next record with the same id": broken((store) => {
    const counts = new Map<string, number>()
    return {
      touch: (viewer, ids) =>
        Effect.tap(store.touch(viewer, ids), () =>
          Effect.sync(() => {
            for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1)
          })),
      uses: (viewer, ids) =>
        Effect.zipWith(
          store.uses(viewer, ids),
          store.get(viewer, ids),
          (uses, found) =>
            uses.map((use, n) => Option.isSome(found[n]!) ? { ...use, count: counts.get(ids[n]!) ?? 0 } : use)
        )
    }
  }),
  "uses of a record before a move to another scope are not counted": broken((store) => {
    const counts = new Map<string, number>()
    const keyOf = ({ id, scope }: MemoryRecord) => JSON.stringify([id, scope])
    return {
      touch: (viewer, ids) =>
        Effect.tap(Effect.zipRight(store.touch(viewer, ids), store.get(viewer, ids)), (found) =>
          Effect.sync(() => {
            for (const record of found.flatMap(Option.toArray)) {
              counts.set(keyOf(record), (counts.get(keyOf(record)) ?? 0) + 1)
            }
          })),
      uses: (viewer, ids) =>
        Effect.zipWith(
          store.uses(viewer, ids),
          store.get(viewer, ids),
          (uses, found) =>
            uses.map((use, n) =>
              Option.match(found[n]!, {
                onNone: () => use,
                onSome: (record) => ({ ...use, count: Math.min(use.count, counts.get(keyOf(record)) ?? 0) })
              })
            )
        )
    }
  }),
  "`whyNot` skips the viewer check": broken((store) => ({
    whyNot: (viewer, id, query) => store.whyNot(all(viewer), id, query)
  })),
  "`links` skips the viewer check": broken((store) => ({ links: (viewer, id) => store.links(all(viewer), id) })),
  "a [[wikilink]] resolves to a record that the viewer does not see": broken((store) => ({
    links: (viewer, id) =>
      Effect.gen(function*() {
        const { from, to } = yield* store.links(all(viewer), id)
        const visible = yield* store.get(viewer, [id, ...from.map(({ id }) => id), ...to.map(({ id }) => id)])
        const ids = visible.flatMap((record) => Option.isSome(record) ? [record.value.id] : [])
        const kept = ids.includes(id) ? ids : []
        return { from: from.filter(({ id }) => kept.includes(id)), to: to.filter(({ id }) => kept.includes(id)) }
      })
  })),
  "`links` returns its first answer forever": broken((store) => {
    const known = new Map<string, MemoryStore.Neighbours>()
    return {
      links: (viewer, id) =>
        Effect.gen(function*() {
          const key = JSON.stringify([viewer, id])
          const links = known.get(key) ?? (yield* store.links(viewer, id))
          known.set(key, links)
          return links
        })
    }
  }),
  "`links` omits [[wikilinks]] at the record to which they lead": broken((store) => ({
    links: (viewer, id) =>
      Effect.map(store.links(viewer, id), ({ from, to }) => ({
        to,
        from: from.filter(({ type }) => type !== "wikilink")
      }))
  })),
  "`changes` skips the viewer check": broken((store) => ({ changes: (viewer) => store.changes(all(viewer)) })),
  "`get` ignores the tenant": broken((store) => ({
    get: (viewer, ids) => store.get(Viewer.isSystem(viewer) ? Viewer.system() : { ...viewer, tenant: "default" }, ids)
  })),
  "`search` applies the limit before the filter": broken((store) => ({
    search: (viewer, { limit, text, ...filter }) =>
      Effect.map(store.search(viewer, { limit, text }), (result) => only(result, matches(filter, 0)))
  })),
  "`search` applies the limit before the viewer check": broken((store) => ({
    search: (viewer, query) =>
      Effect.map(store.search(all(viewer), query), (result) => only(result, ({ scope }) => Viewer.sees(viewer, scope)))
  })),
  "scores depend on records that the viewer does not see": broken((store) => ({
    search: (viewer, query) =>
      Effect.zipWith(
        store.search(viewer, query),
        store.search(all(viewer), { ...query, limit: 1_000 }),
        (mine, all) => ({
          ...mine,
          hits: mine.hits.map((hit) => all.hits.find(({ record }) => record.id === hit.record.id) ?? hit)
        })
      )
  })),
  "`leftOut` is always 0": broken((store) => ({
    search: (viewer, query) =>
      Effect.map(store.search(viewer, query), (result) => ({ ...result, leftOut: { limit: 0, budget: 0, folded: 0 } }))
  })),
  "search by vector applies the limit before the viewer check": broken((store) => ({
    search: (viewer, query) =>
      query.embedding === undefined
        ? store.search(viewer, query)
        : Effect.map(
          store.search(all(viewer), query),
          (result) => only(result, ({ scope }) => Viewer.sees(viewer, scope))
        )
  })),
  "search by vector applies the limit before the filter": broken((store) => ({
    search: (viewer, query) => {
      const { embedding, limit, mode, text } = query
      return embedding === undefined
        ? store.search(viewer, query)
        : Effect.map(
          store.search(viewer, { embedding, limit, mode, text }),
          (result) => only(result, matches(query, undefined))
        )
    }
  })),
  "vectors of all models are stored as those of one model": withVectors((vectors) => ({
    attach: (tenant, _, all) => vectors.attach(tenant, "m", all),
    pending: (tenant, _, limit) => vectors.pending(tenant, "m", limit),
    read: (tenant, _, hashes) => vectors.read(tenant, "m", hashes)
  })),
  "an updated record keeps the vector of its old text": broken((store) => ({
    update: (viewer, id, patch, options) =>
      Effect.gen(function*() {
        const [before] = yield* store.get(viewer, [id])
        const record = yield* store.update(viewer, id, patch, options)
        const { attach, read } = Option.getOrThrow(store.vectors)
        const [vector] = Option.isSome(before!) ? yield* read(viewer.tenant, "m", [textHash(before.value)]) : []
        if (vector && Option.isSome(vector)) yield* attach(viewer.tenant, "m", [[textHash(record), vector.value]])
        return record
      })
  })),
  "vectors.models returns the models of all tenants": broken((store) => ({
    vectors: Option.map(store.vectors, (vectors) => ({
      ...vectors,
      models: () =>
        Effect.flatMap(
          store.tenants,
          (tenants) => Effect.map(Effect.forEach(tenants, vectors.models), (all) => Array.from(new Set(all.flat())))
        )
    }))
  })),
  "purge leaves the vector behind": broken((store) => {
    const kept = new Map<string, Float32Array>()
    const { attach, models, pending, read } = Option.getOrThrow(store.vectors)
    return {
      vectors: Option.some({
        models,
        pending,
        attach: (tenant, model, all) =>
          Effect.tap(attach(tenant, model, all), () =>
            Effect.sync(() => {
              for (const [hash, vector] of all) if (!kept.has(hash)) kept.set(hash, vector.slice())
            })),
        read: (tenant, model, hashes) =>
          Effect.map(read(tenant, model, hashes), (found) =>
            found.map((vector, n) =>
              Option.map(
                Option.orElse(vector, () => Option.fromNullable(kept.get(hashes[n]!))),
                (vector) => vector.slice()
              )
            ))
      })
    }
  }),
  "the field `awaiting` of a search result counts records that the viewer does not see": broken((store) => ({
    search: (viewer, query) =>
      Effect.zipWith(store.search(viewer, query), store.search(all(viewer), query), (mine, { awaiting }) => ({
        ...mine,
        ...(mine.awaiting !== undefined && { awaiting: awaiting! })
      }))
  })),
  "the field `awaiting` of a search result is always 0": broken((store) => ({
    search: (viewer, query) =>
      Effect.map(store.search(viewer, query), (result) => result.awaiting ? { ...result, awaiting: 0 } : result)
  })),
  "hybrid search ignores vectors": broken((store) => ({
    search: (viewer, query) =>
      Effect.zipWith(
        store.search(viewer, query),
        store.search(viewer, query.mode === "vector" ? query : { ...query, mode: "lexical" }),
        (said, { hits }) => ({ ...said, hits })
      )
  })),
  "hybrid search requires a match by word and by vector": broken((store) => ({
    search: (viewer, query) =>
      query.embedding === undefined || query.text === undefined
        ? store.search(viewer, query)
        : Effect.zipWith(
          store.search(viewer, query),
          store.search(viewer, { ...query, mode: "lexical", limit: 1_000 }),
          (both, words) => only(both, ({ id }) => words.hits.some(({ record }) => record.id === id))
        )
  })),
  "vectors are shared by all tenants": broken((store) => {
    const shared = Viewer.make({ tenant: "shared" })
    const { attach, models, pending, read } = Option.getOrThrow(store.vectors)
    return {
      vectors: Option.some({
        models,
        pending: (tenant, model, limit) =>
          Effect.flatMap(
            pending(tenant, model, limit),
            (all) =>
              Effect.map(read(shared.tenant, model, all.map(({ hash }) => hash)), (found) =>
                all.filter((_, n) => Option.isNone(found[n]!)))
          ),
        attach: (tenant, model, all) => Effect.zipRight(attach(shared.tenant, model, all), attach(tenant, model, all)),
        read: (_, model, hashes) => read(shared.tenant, model, hashes)
      })
    }
  }),
  "vectors.attach is not atomic": withVectors(({ attach }) => ({
    attach: (tenant, model, all) => Effect.forEach(all, (one) => attach(tenant, model, [one]), { discard: true })
  })),
  "vectors.attach ignores invalid vectors instead of failing": withVectors(({ attach }) => ({
    attach: (tenant, model, all) =>
      attach(tenant, model, all).pipe(MemoryError.catchReason("invalid_draft", () => Effect.void))
  })),
  "vectors.pending returns every text twice": withVectors(({ pending }) => ({
    pending: (tenant, model, limit) =>
      Effect.map(pending(tenant, model, limit), (all) => all.flatMap((one) => [one, one]))
  })),
  "vectors.read returns the stored array instead of a copy": withVectors(({ read }) => {
    const given = new Map<string, Float32Array>()
    return {
      read: (tenant, model, hashes) =>
        Effect.map(read(tenant, model, hashes), (found) =>
          found.map((vector, n) =>
            Option.map(vector, (vector) => {
              const known = given.get(hashes[n]!) ?? vector
              given.set(hashes[n]!, known)
              return known
            })
          ))
    }
  }),
  "a turn's score depends on neighbouring turns that the viewer does not see": ofTurns(all),
  "a turn's score depends on expired neighbouring turns": ofTurns(system),
  "a turn's score does not depend on neighbouring turns": broken((store) => ({
    search: (viewer, query) => store.search(viewer, { ...query, weights: { ...query.weights, conversation: 0 } })
  })),
  "the speaker of a turn is not stored": broken((store) => ({
    put: (viewer, drafts, options) =>
      store.put(
        viewer,
        drafts.map(({ source, ...draft }) => ({
          ...draft,
          ...(source && { source: { ...source, actor: undefined } })
        })),
        options
      )
  })),
  "`search` ignores words in the first person": broken((store) => ({
    search: (viewer, query) =>
      store.search(
        viewer,
        query.text === undefined ? query : { ...query, text: query.text.replace(/\b(?:my|I)\b/g, "the") }
      )
  })),
  "`search` ignores times in the text of the query": broken((store) => ({
    search: (viewer, query) =>
      store.search(
        viewer,
        query.text === undefined
          ? query
          : { ...query, text: query.text.replace(/\d+|May|June|yesterday|last month/g, "") }
      )
  })),
  "`search` splits identifiers at punctuation": broken((store) => ({
    search: (viewer, query) =>
      store.search(viewer, query.text === undefined ? query : { ...query, text: query.text.replace(/[._+]/g, " ") })
  })),
  "`search` folds records of equal body whatever their kind": folding(({ body }) => body),
  "`leftOut.folded` is always 0": broken((store) => ({
    search: (viewer, query) =>
      Effect.map(
        store.search(viewer, query),
        (result) => ({ ...result, leftOut: { ...result.leftOut, folded: 0 } })
      )
  })),
  "`list` folds near-duplicates": broken((store) => ({
    list: (viewer, filter) =>
      Effect.map(store.list(viewer, filter), ({ items, ...page }) => ({
        ...page,
        items: items.filter((one, n) => n === items.findIndex((other) => saysTheSame(one, other)))
      }))
  })),
  "near-duplicates of the nearest record use up the limit of a search by vector": broken((store) => ({
    search: (viewer, query) =>
      query.embedding === undefined ? store.search(viewer, query) : Effect.gen(function*() {
        const result = yield* store.search(viewer, query)
        const nearest = Chunk.toReadonlyArray(yield* Stream.runCollect(store.stream(viewer, { limit: 1_000 })))
          .filter((record) => result.hits[0] !== undefined && saysTheSame(result.hits[0].record, record))
        return nearest.length < 100 ? result : { ...result, hits: result.hits.slice(0, 1) }
      })
  })),
  "`search` never reports that the search by words or by vector failed": broken((store) => ({
    search: (viewer, query) => Effect.map(store.search(viewer, query), (result) => ({ ...result, failures: [] }))
  })),
  "`put` does not deduplicate": MemoryStore.layerInMemory.pipe(
    Layer.provide(
      Layer.unwrapEffect(
        Effect.map(
          MemoryKind.Kinds,
          (kinds) => MemoryKind.layer(...Array.from(kinds.values(), (kind) => ({ ...kind, dedupe: false })))
        )
      )
    )
  ),
  "`put` returns the outcome `created` for a duplicate": broken((store) => ({
    put: (viewer, drafts, options) =>
      Effect.map(
        store.put(viewer, drafts, options),
        (puts) => puts.map((put) => put.outcome === "duplicate" ? { ...put, outcome: "created" } : put)
      )
  })),
  "`put` deduplicates against records that the viewer does not see": broken((store) => ({
    put: (viewer, drafts, options) =>
      Effect.flatMap(
        Stream.runCollect(store.stream(all(viewer), {})),
        (known) =>
          Effect.map(store.put(viewer, drafts, options), (puts) =>
            puts.map((put) => {
              const double = Chunk.findFirst(known, ({ body, kind }) => kind === "user" && body === put.record.body)
              return Option.isSome(double) && put.outcome === "created"
                ? { record: double.value, outcome: "duplicate" }
                : put
            }))
      )
  })),
  "ids of all tenants come from one sequence": MemoryStore.layerInMemory.pipe(
    Layer.provide(Layer.effect(
      Transaction.SharedIdGenerator,
      Effect.map(Transaction.makeIdGenerator, ({ next }): Transaction.IdGenerator => ({ next: () => next("all") }))
    ))
  ),
  "generated ids are not in ascending order": broken((store) => ({
    put: (viewer, drafts, options) =>
      Effect.flatMap(
        Effect.forEach(drafts, (draft) =>
          Effect.map(Random.next, (n) =>
            draft.kind === "reference" ? { id: MemoryId.stableId(String(n)), ...draft } : draft)),
        (named) =>
          store.put(viewer, named, options)
      )
  })),
  "a record's revision never increases": keptBy((old, next) =>
    next ? [{ ...next, record: changed(next.record, { revision: old[0]?.record.revision ?? 1 }) }, ...old] : []
  ),
  "purge leaves the history behind": keptBy((old, next) => [next ?? erased, ...old]),
  "`forget` erases the record instead of leaving a tombstone": keptBy((old, next) =>
    next?.forgotten ? [] : next ? [next, ...old] : []
  ),
  "only the newest revision is kept": keptBy((_, next) => next ? [next] : []),
  "`createdAt` is rounded down to whole seconds": keptBy((old, next) =>
    next
      ? [
        { ...next, record: changed(next.record, { createdAt: Math.floor(next.record.createdAt / 1_000) * 1_000 }) },
        ...old
      ]
      : []
  ),
  "bodies are trimmed": keptBy((old, next) =>
    next ? [{ ...next, record: changed(next.record, { body: next.record.body.trim() }) }, ...old] : []
  ),
  "`apply` is not atomic": broken((store) => ({
    apply: (viewer, mutations, provenance) =>
      Effect.map(
        Effect.forEach(mutations, (mutation) => store.apply(viewer, [mutation], provenance)),
        (applied) => applied.flat()
      )
  })),
  "`ifRevision` is ignored": broken((store) => ({
    put: (viewer, drafts, { ifRevision: _, ...options } = {}) => store.put(viewer, drafts, options),
    update: (viewer, id, patch) => store.update(viewer, id, patch)
  })),
  "`update` removes fields that the patch does not name": broken((store) => ({
    update: (viewer, id, patch, options) =>
      Effect.flatMap(
        store.update(viewer, id, patch, options),
        ({ body, kind, scope }) => Effect.map(store.put(viewer, [{ id, scope, kind, body }]), ([put]) => put!.record)
      )
  })),
  "`update` checks `ifRevision` in one step and writes in another": broken((store) => ({
    update: (viewer, id, patch, options) =>
      Effect.flatMap(
        store.get(viewer, [id]),
        ([found]) =>
          Option.isSome(found!) && options?.ifRevision === found.value.revision
            ? Effect.zipRight(Effect.yieldNow(), store.update(viewer, id, patch))
            : store.update(viewer, id, patch, options)
      )
  })),
  "`get` returns expired records": broken((store) => ({
    get: (viewer, ids) =>
      Effect.zipWith(
        store.get(viewer, ids),
        store.get(system(viewer), ids),
        (shown, kept) =>
          shown.map((found, n) =>
            Option.orElse(found, () =>
              Option.filter(kept[n]!, ({ expiresAt, scope }) =>
                Viewer.sees(viewer, scope) && expiresAt !== undefined))
          )
      )
  })),
  "`list` with `asOf` returns expired records": broken((store) => ({
    list: (viewer, filter) =>
      filter.asOf === undefined
        ? store.list(viewer, filter)
        : Effect.map(store.list(system(viewer), { ...filter, after: undefined }), ({ items }) => ({
          items: items.filter(({ scope }) => Viewer.sees(viewer, scope))
        }))
  })),
  "`list` returns records whose `invalidAt` is past": broken((store) => ({
    list: (viewer, filter) =>
      Effect.flatMap(
        Clock.currentTimeMillis,
        (now) =>
          Effect.map(store.list(filter.after ? viewer : system(viewer), filter), (page) => ({
            ...page,
            items: page.items.filter((record) => Viewer.sees(viewer, record.scope) && !isExpired(record, now))
          }))
      )
  })),
  "`search` ignores `asOf`": broken((store) => ({
    search: (viewer, { asOf: _, ...query }) => store.search(viewer, query)
  })),
  "a cursor is an offset": broken((store) => ({
    list: (viewer, { after, limit = 20, ...filter }) =>
      Effect.map(Stream.runCollect(store.stream(viewer, filter)), (records) => {
        const from = after === undefined ? 0 : Number(after)
        const items = Chunk.toReadonlyArray(records).slice(from, from + limit)
        return from + limit < records.length ? { items, next: Cursor.make(String(from + limit)) } : { items }
      })
  })),
  "`list` returns one record more than the limit": broken((store) => ({
    list: (viewer, filter) =>
      Effect.map(store.list(viewer, { ...filter, limit: (filter.limit ?? 20) + 1 }), (page) => page)
  })),
  "`compact` erases records whose `invalidAt` is past": broken((store) => ({
    compact: Effect.flatMap(Stream.runCollect(store.stream(Viewer.system(), {})), (records) =>
      Effect.zipRight(
        store.forget(
          Viewer.system(),
          Chunk.toReadonlyArray(records).flatMap(({ id, invalidAt }) => invalidAt === undefined ? [] : [id]),
          { purge: true }
        ),
        store.compact
      ))
  })),
  "the list of forgotten records skips the viewer check": broken((store) => ({
    list: (viewer, filter) => store.list(filter.forgotten ? all(viewer) : viewer, filter)
  })),
  "`list` ignores `forgotten`": broken((store) => ({
    list: (viewer, { forgotten: _, ...filter }) => store.list(viewer, filter)
  })),
  "`stream` ignores `forgotten`": broken((store) => ({
    stream: (viewer, { forgotten: _, ...filter }) => store.stream(viewer, filter)
  })),
  "`search` accepts `forgotten` instead of refusing it": broken((store) => ({
    search: (viewer, { forgotten: _, ...query }: MemoryQuery & MemoryFilter) => store.search(viewer, query)
  })),
  "`list` treats `forgotten: false` as `true`": broken((store) => ({
    list: (viewer, filter) =>
      store.list(viewer, filter.forgotten === undefined ? filter : { ...filter, forgotten: true })
  })),
  "the list of forgotten records is ordered by `createdAt`": inTrash((items) =>
    items.toSorted((a, b) => b.createdAt - a.createdAt)
  ),
  "the list of forgotten records returns no cursor": broken((store) => ({
    list: (viewer, filter) =>
      Effect.map(
        store.list(viewer, filter),
        ({ items, next }) => filter.forgotten || next === undefined ? { items } : { items, next }
      )
  })),
  "the list of forgotten records omits records whose `invalidAt` is past": inTrash((items) =>
    items.filter(({ invalidAt }) => invalidAt === undefined)
  ),
  "the list of forgotten records has expired records": trashOfAll(({ source }) => source.origin !== "instructions"),
  "the list of forgotten records has instructions": trashOfAll(({ expiresAt }) => expiresAt === undefined),
  "a tombstone's `updatedAt` is not the time of the forget": keptBy((old, next) => [
    next?.forgotten ? { ...next, record: changed(next.record, { updatedAt: next.record.createdAt }) } : next ?? erased,
    ...old
  ]),
  "a write drops earlier tombstones from the history": keptBy((old, next) =>
    next ? [next, ...old.filter(({ forgotten }) => !forgotten)] : []
  ),
  "`history` of a restored record omits the revisions before it was forgotten": broken((store) => ({
    history: (viewer, id, limit) =>
      Effect.map(store.history(viewer, id, limit), (all) => {
        const first = all.findIndex(({ updatedAt }) => updatedAt === undefined)
        return Viewer.isSystem(viewer) || first < 0 ? all : all.slice(0, first + 1)
      })
  })),
  "`compact` erases forgotten records at once": MemoryStore.layerInMemoryWith({ trash: 0 }),
  "`compact` never erases forgotten records": MemoryStore.layerInMemoryWith({ trash: Infinity }),
  "`put` takes origin and trust from the draft": broken((store) => ({
    put: (viewer, drafts, options) => store.put(viewer, drafts, { ...options, ...drafts[0]?.source })
  })),
  "`forget` removes instructions for any caller": broken((store) => ({
    forget: (viewer, ids, options) =>
      Effect.map(
        store.apply(viewer, ids.map((id) => ({ _tag: "Forget", id, purge: options?.purge })), {
          origin: "instructions"
        }),
        (applied) => applied.map(({ outcome }) => outcome === "forgotten")
      )
  })),
  "`put` takes over the id of forgotten instructions": broken((store) => ({
    put: (viewer, drafts, options) =>
      store.put(viewer, drafts, options).pipe(
        MemoryError.catchReason("read_only", (error) =>
          Effect.flatMap(
            store.get(
              viewer,
              drafts.flatMap(({ id }) => id ?? [])
            ),
            (found) => found.some(Option.isSome) ? error : store.put(system(viewer), drafts, options)
          ))
      )
  })),
  "the error of a refused draft quotes the draft": broken((store) => ({
    put: (viewer, drafts, options) =>
      Effect.mapError(
        store.put(viewer, drafts, options),
        (error) =>
          new MemoryError.MemoryError({
            ...error,
            message: `not a draft: ${JSON.stringify(drafts) ?? ""}`.slice(0, 2_000)
          })
      )
  })),
  "scopes are compared as ids joined to a path": broken((store) => ({
    list: (viewer, filter) =>
      Effect.zipWith(store.list(viewer, filter), store.list(all(viewer), filter), (mine, every) => ({
        ...mine,
        items: every.items.filter(({ id, scope }) =>
          mine.items.some((other) => other.id === id) ||
          (scope !== "global" && !Viewer.isSystem(viewer) && joined(scope) === joined(viewer))
        )
      }))
  })),
  "`put` cuts every body to 65,536 characters": broken((store) => ({
    put: (viewer, drafts, options) =>
      store.put(viewer, drafts.map((draft) => ({ ...draft, body: draft.body.slice(0, 65_536) })), options)
  })),
  "`list` clamps an invalid limit instead of refusing it": broken((store) => ({
    list: (viewer, filter) =>
      store.list(viewer, { ...filter, limit: Math.min(1_000, Math.max(1, Math.round(filter.limit ?? 20) || 20)) })
  })),
  "`get` and `put` return the stored object instead of a copy": broken((store) => {
    const given = new Map<string, MemoryRecord>()
    const open = (record: MemoryRecord) => {
      const at = `${record.id} ${record.revision}`
      const known = given.get(at) ?? changed(JSON.parse(JSON.stringify(record)), {})
      given.set(at, known)
      return known
    }
    return {
      get: (viewer, ids) => Effect.map(store.get(viewer, ids), (found) => found.map(Option.map(open))),
      put: (viewer, drafts, options) =>
        Effect.map(
          store.put(viewer, drafts, options),
          (puts) => puts.map((put) => ({ ...put, record: open(put.record) }))
        )
    }
  })
}

/** Checks the expected law first, then all laws in order; returns the first that the store breaks. */
const killer = (store: Store, expected: string | undefined) =>
  Effect.gen(function*() {
    const { laws } = MemoryStoreContract
    for (const law of [...laws.filter(({ title }) => title === expected), ...laws]) {
      const exit = yield* MemoryStoreContract.check(law, store).pipe(
        Effect.scoped,
        Effect.provide(TestContext.TestContext),
        Effect.exit
      )
      if (Exit.isFailure(exit)) return law.title
    }
    return undefined
  })

describe("killers.ts", () => {
  it("every key in killers.ts is the name of a mutant, and every value is the title of a law", () => {
    const titles = new Set(MemoryStoreContract.laws.map(({ title }) => title))
    assert.deepStrictEqual(
      Object.entries(killers).filter(([name, title]) => !(name in mutants && titles.has(title))),
      []
    )
  })
})

describe("the laws of MemoryStore fail for a store in which", () => {
  for (const [name, store] of Object.entries(mutants)) {
    it.effect(name, (test) =>
      Effect.gen(function*() {
        const caught = yield* killer(store, killers[name])
        assert.isDefined(caught, "survived")
        yield* Effect.promise(() => test.annotate(caught!, "killed by"))
      }))
  }
})
