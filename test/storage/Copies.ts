/** Stores filled by random operations, and comparisons of their contents, for the laws of `Copy`. */
import { assert } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { canonicalJson } from "../../src/domain/Digest.ts"
import type { MemoryId } from "../../src/domain/MemoryId.ts"
import { hashOf } from "../../src/domain/MemoryRecord.ts"
import { Global, Internal } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import type { Reader } from "../../src/storage/Engine.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Faulty from "../../src/storage/MemoryStore/Faulty.ts"
import { draft, fact, id, put } from "../../src/testing/Sample.ts"
import { strings } from "../contract/naughty.ts"
import { stores } from "../stores.ts"

export const built = <E, R>(layer: Layer.Layer<MemoryStore.MemoryStore, E, R>) =>
  Effect.map(Layer.build(Layer.fresh(layer)), (context) => Context.get(context, MemoryStore.MemoryStore))
export const memory = built(stores.memory)
export const vault = built(stores.markdown)
export const faulty = (store: MemoryStore.Service, ...plan: ReadonlyArray<Faulty.Fault>) =>
  built(Layer.provide(Faulty.layer(...plan), Layer.succeed(MemoryStore.MemoryStore, store)))

export const readerOf = (store: MemoryStore.Service) => Option.getOrThrow(store.reader)
export const vectorsOf = (store: MemoryStore.Service) => Option.getOrThrow(store.vectors)

/** All rows of a tenant, tombstones included, in the order of ids. */
export const rowsOf = ({ page, read }: Reader, tenant: string) =>
  Effect.gen(function*() {
    const access = { tenant, visibility: { _tag: "All" as const }, now: -Infinity }
    const pages = yield* Effect.forEach(
      [{}, { forgotten: true }],
      (filter) => page(access, { filter, passes: () => true }, undefined, 100_000)
    )
    const ids = pages.flat().map(({ id }) => id).sort()
    return (yield* read(tenant, ids)).map(Option.getOrThrow)
  })

/** The contents of a store: each tenant's rows, revisions, vectors and uses, as canonical JSON. */
export const holdings = (store: MemoryStore.Service, tenants?: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const reader = readerOf(store)
    const all: Array<string> = []
    for (const tenant of tenants ?? (yield* store.tenants).toSorted()) {
      const models = (yield* vectorsOf(store).models(tenant)).toSorted()
      for (const row of yield* rowsOf(reader, tenant)) {
        const { id } = row.record
        const revisions = yield* reader.revisions(tenant, id, 100)
        const hashes = revisions.map(({ record }) => hashOf(record))
        all.push(canonicalJson({
          tenant,
          row,
          revisions: revisions.map(({ forgotten, record }) => ({ forgotten, record })),
          uses: yield* reader.uses.read(tenant, [id]),
          vectors: yield* Effect.forEach(models, (model) =>
            Effect.map(vectorsOf(store).read(tenant, model, hashes), (found) => [
              model,
              found.map(Option.match({
                onNone: () =>
                  null,
                onSome: (vector) => Array.from(vector)
              }))
            ]))
        }))
      }
    }
    return all
  })

export const equal = (one: MemoryStore.Service, other: MemoryStore.Service, tenants?: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    assert.deepStrictEqual(yield* holdings(one, tenants), yield* holdings(other, tenants))
  })

/** Makes a vector that depends on the hash only. */
export const vectorOf = (hash: string, dimensions: number) =>
  Float32Array.from({ length: dimensions }, (_, n) => Math.sin(Number.parseInt(hash.slice(n, n + 6), 16)) + 2)

/** Attaches vectors to the pending texts: vectors of one model to all texts, and vectors of a second model to every other text. */
export const embed = (store: MemoryStore.Service, tenant: string) =>
  Effect.gen(function*() {
    for (const [model, dimensions, every] of [["m", 3, 1], ["Größe/7", 5, 2]] as const) {
      const pending = yield* vectorsOf(store).pending(tenant, model)
      const some = pending.filter((_, n) => n % every === 0)
      yield* vectorsOf(store).attach(tenant, model, some.map(({ hash }) => [hash, vectorOf(hash, dimensions)]))
    }
  })

export const tenants = ["default", "ACME/é", "zeta"]

/**
 * Runs random operations of three tenants: records are put, updated, forgotten, restored, purged, made invalid, expired, used and embedded.
 */
const live = (store: MemoryStore.Service, steps: number) =>
  Effect.gen(function*() {
    for (const tenant of tenants) {
      const system = Viewer.system(tenant)
      const user = Viewer.make({ tenant, userId: "ada", reach: "within" })
      yield* store.put(system, [draft("a receipt", { scope: Internal, kind: "receipt", id: id(`${tenant} receipt`) })])
      yield* store.put(
        system,
        [draft("Use tabs.", { scope: Global, tags: ["instructions"], id: id(`${tenant} instructions`) })],
        { origin: "instructions", trust: 0 }
      )
      const ids: Array<MemoryId> = []
      for (let step = 0; step < steps; step++) {
        yield* TestClock.adjust(yield* Random.nextIntBetween(1, 50))
        const at = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
        const dice = yield* Random.nextIntBetween(0, 12)
        const one = ids.length > 0 ? ids[yield* Random.nextIntBetween(0, ids.length)] : undefined
        const body = startOf(strings[yield* Random.nextIntBetween(0, strings.length)]!, 2_000) + ` ${step}`
        const summary = `step ${step}`
        if (one === undefined || dice < 4) {
          const fields = {
            summary,
            scope: dice === 0 ? { userId: "ada", sessionId: "s/1" } : { userId: "ada" },
            data: { [`${startOf(body, 20)}.`]: [step, null, { nested: startOf(body, 30) }] },
            metadata: { step },
            links: one === undefined ? [] : [{ to: one, type: "related_to", weight: 0.5 }],
            ...(dice === 1 && { expiresAt: at + 1_000_000 }),
            ...(dice === 2 &&
              { confidence: 0.25, source: { reference: "x", session: "s", actor: "Ada", sequence: step } })
          }
          const [put] = yield* store.put(user, [dice === 3 ? fact(body, fields) : draft(body, fields)])
          ids.push(put!.record.id)
        } else if (dice < 7) {
          const isThere = Option.isSome((yield* store.get(user, [one]))[0]!)
          if (isThere) yield* store.update(user, one, { body, summary, ...(dice === 5 && { invalidAt: at }) })
        } else if (dice < 8) yield* store.forget(user, [one])
        else if (dice < 9) {
          const history = yield* readerOf(store).revisions(tenant, one, 20)
          const [revision] = history.slice(-1)
          if (revision) yield* store.apply(user, [{ _tag: "Restore", id: one, revision: revision.record.revision }])
        } else if (dice < 10) yield* store.forget(user, [one], { purge: (yield* Random.nextIntBetween(0, 3)) === 0 })
        else if (dice < 11) yield* store.touch(user, [one])
        else yield* embed(store, tenant)
      }
      const often = yield* store.put(user, [draft("revision 1", { id: id(`${tenant} often`) })])
      for (let n = 2; n <= 25; n++) yield* store.update(user, often[0]!.record.id, { body: `revision ${n}` })
      yield* store.put(user, [
        draft("x".repeat(65_536), { id: id(`${tenant} long`) }),
        draft("soon gone", { id: id(`${tenant} expired`), expiresAt: yield* soon })
      ])
      yield* embed(store, tenant)
      yield* store.touch(user, [id(`${tenant} often`), id(`${tenant} often`), id(`${tenant} expired`)])
      yield* TestClock.adjust(10)
      const restored = yield* put(store, draft("comes back", { id: id(`${tenant} restored`) }), user)
      yield* store.forget(user, [restored.id])
      yield* TestClock.adjust(10)
      yield* store.apply(user, [{ _tag: "Restore", id: restored.id, revision: 1 }])
      yield* put(store, draft("stays away", { id: id(`${tenant} forgotten`) }), user)
      yield* store.touch(user, [id(`${tenant} forgotten`)])
      yield* store.forget(user, [id(`${tenant} forgotten`)])
    }
    yield* TestClock.adjust(1_000)
  })
const soon = Effect.clockWith((clock) => Effect.map(clock.currentTimeMillis, (now) => now + 100))

export const lived = (
  store: Effect.Effect<MemoryStore.Service, unknown, Scope.Scope>,
  seed: string,
  steps = 30
) =>
  Effect.gen(function*() {
    const made = yield* store
    yield* Effect.withRandom(live(made, steps), Random.make(seed))
    return made
  })

/** Returns the first code points of a text. */
export const startOf = (text: string, length: number) => Array.from(text).slice(0, length).join("")
