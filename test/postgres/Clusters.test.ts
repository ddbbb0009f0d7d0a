import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Ref from "effect/Ref"
import { type AddressInfo, connect, createServer, type Server } from "node:net"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import type { MemoryId } from "../../src/domain/MemoryId.ts"
import { textHash } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { Postgres } from "../../src/postgres.ts"
import { MemoryStore, type Service } from "../../src/storage/MemoryStore.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import { refuses } from "../../src/testing/Law.ts"
import { ada, draft, found, id, listed, put, the } from "../../src/testing/Sample.ts"
import { times } from "../vault/Program.ts"
import { hasClusters, throwAway } from "./Cluster.ts"
import { ask } from "./Server.ts"
import { eventually, isSilent, opened, placeOf, raw } from "./World.ts"

/** Retries a call while the server is unavailable; counts the failures. */
const persistent = <A>(self: Effect.Effect<A, MemoryError>, refusals: Ref.Ref<number>): Effect.Effect<A, MemoryError> =>
  Effect.catchIf(
    self,
    ({ reason }) => reason === "unavailable",
    () =>
      Effect.zipRight(
        Effect.zipRight(Ref.update(refusals, (n) => n + 1), Effect.sleep("10 millis")),
        retry(self, refusals)
      )
  )
const retry = <A>(self: Effect.Effect<A, MemoryError>, refusals: Ref.Ref<number>) =>
  Effect.suspend(() => persistent(self, refusals))

const no = Effect.succeed(false)
const fibers = 8

/**
 * Writes records from several fibers; each fiber writes one record at a time. `acknowledged` maps the id of each acknowledged record to its
 * body.
 */
const load = (store: Service, writes: number, refusals: Ref.Ref<number>) => {
  const acknowledged = new Map<MemoryId, string>()
  const each = writes / fibers
  const fiber = (n: number) =>
    Effect.forEach(Array.from({ length: each }, (_, i) => `${n}-${i}`), (name) =>
      Effect.gen(function*() {
        // an unacknowledged write may or may not have happened; the given id makes a retry the same write
        const record = yield* persistent(put(store, draft(name, { id: id(name) })), refusals)
        acknowledged.set(record.id, record.body)
      }), { discard: true })
  return {
    acknowledged,
    run: Effect.forEach(Array.from({ length: fibers }, (_, n) => n), fiber, { concurrency: fibers, discard: true })
  }
}

const holdsAll = (store: Service, acknowledged: ReadonlyMap<MemoryId, string>) =>
  Effect.gen(function*() {
    const ids = Array.from(acknowledged.keys())
    const records: Array<Option.Option<{ readonly body: string }>> = []
    for (let at = 0; at < ids.length; at += 500) records.push(...yield* store.get(ada, ids.slice(at, at + 500)))
    for (const [n, record] of records.entries()) {
      assert.strictEqual(Option.getOrUndefined(record)?.body, acknowledged.get(ids[n]!), ids[n])
    }
  })

/** Opens a port that forwards each new connection to the current server of `target`; returns a URL with that port. */
const proxied = (target: { readonly url: string }) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.async<Server>((resume) => {
        const server = createServer((socket) => {
          const { hostname, port } = new URL(target.url)
          const there = connect(Number(port), hostname)
          for (const [one, other] of [[socket, there], [there, socket]] as const) {
            one.on("error", () => other.destroy()).on("close", () => other.destroy())
            one.pipe(other)
          }
        })
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) => Effect.sync(() => server.close())
    ),
    (server) => {
      const url = new URL(target.url)
      url.host = `127.0.0.1:${(server.address() as AddressInfo).port}` // it listens on a TCP port, so its address is no string
      return url.href
    }
  )

/** Whether a store has a connection to this server whose last statement used the store's tables. */
const isRead = (url: string) =>
  Effect.map(
    Effect.orDie(ask(url, "SELECT query FROM pg_stat_activity WHERE application_name = 'effect-memory'")),
    (rows) => rows.some(([query]) => /memory_(?:records|partitions)/.test(String(query)))
  )

if (hasClusters) {
  describe("PostgreSQL servers that fail", () => {
    const writes = times(80, 2_000)

    it.scopedLive(
      `a server restarted twice during ${writes} writes by ${fibers} fibers loses no acknowledged write`,
      () =>
        Effect.gen(function*() {
          const cluster = yield* throwAway
          const at = placeOf(cluster.url, "memories")
          const store = yield* opened(at)
          const refusals = yield* Ref.make(0)
          const { acknowledged, run } = load(store, writes, refusals)
          const running = yield* Effect.forkScoped(run)
          for (const [n, mode] of (["immediate", "fast"] as const).entries()) {
            yield* eventually(Effect.sync(() => acknowledged.size >= writes * (n + 1) / 4))
            yield* cluster.stop(mode)
            const before = yield* Ref.get(refusals)
            yield* eventually(Effect.map(Ref.get(refusals), (now) => now > before))
            yield* cluster.start
          }
          yield* running
          assert.strictEqual(acknowledged.size, writes)
          yield* holdsAll(store, acknowledged)
          yield* holdsAll(yield* opened(at), acknowledged)
          const [counts] = yield* raw(at, "SELECT count(*), (SELECT sum(total) FROM memory_scopes) FROM memory_records")
          assert.deepStrictEqual(counts?.map(Number), [writes, writes])
        })
    )

    it.scopedLive("calls to a suspended server fail with `unavailable`, and succeed again once the server resumes", () =>
      Effect.gen(function*() {
        const cluster = yield* throwAway
        const at = placeOf(cluster.url, "memories")
        const patient = yield* opened(at)
        const hasty = yield* opened(at, { maxConnections: 1, connectTimeout: "1 seconds" })
        const { id } = yield* put(patient, draft("tea"))
        yield* put(hasty, draft("coffee"))
        yield* Effect.acquireUseRelease(
          cluster.signal("SIGSTOP"),
          () =>
            Effect.gen(function*() {
              // the only connection does not respond: the interrupted call closes it after 250 ms, and the next gets no connection
              assert.isTrue(Option.isNone(yield* Effect.timeoutOption(the(hasty, ada, id), "100 millis")))
              isSilent(yield* refuses("unavailable", the(hasty, ada, id)), cluster.url)
            }),
          () => cluster.signal("SIGCONT")
        )
        const refusals = yield* Ref.make(0)
        assert.strictEqual((yield* persistent(the(hasty, ada, id), refusals)).body, "tea")
        assert.deepStrictEqual((yield* persistent(listed(patient, ada), refusals)).sort(), ["coffee", "tea"])
      }))

    it.scopedLive("a replica that is promoted after its primary stops has all acknowledged writes and accepts new writes", () =>
      Effect.gen(function*() {
        const primary = yield* throwAway
        const store = yield* opened(placeOf(primary.url, "memories"))
        const replica = yield* primary.replica
        const refusals = yield* Ref.make(0)
        const { acknowledged, run } = load(store, writes, refusals)
        const running = yield* Effect.forkScoped(run)
        yield* eventually(Effect.sync(() => acknowledged.size >= writes / 4))
        yield* primary.stop("immediate")
        yield* eventually(Effect.map(Ref.get(refusals), (now) => now > 0))
        const before = new Map(acknowledged)
        yield* Fiber.interrupt(running)
        const refused = yield* refuses(
          "read_only",
          Effect.scoped(Postgres.make({ url: Redacted.make(replica.url), schema: "memories" }))
        )
        assert.include(refused.message, "Use the url of the primary, or promote it")
        yield* replica.promote
        const next = yield* opened(placeOf(replica.url, "memories"))
        yield* holdsAll(next, before)
        assert.isNotEmpty(yield* found(next, ada, { text: "0-0" }))
        const again = load(next, writes, refusals)
        yield* again.run
        yield* holdsAll(next, again.acknowledged)
      }))

    it.scopedLive("a store finds exactly the surviving records after a failover that lost the last commits", () =>
      Effect.gen(function*() {
        const primary = yield* throwAway
        const replica = yield* primary.replica
        const target = { url: primary.url }
        const store = yield* opened(placeOf(yield* proxied(target), "memories"))
        yield* put(store, draft("tea with milk"))
        yield* Effect.orDie(
          ask(primary.url, "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
        )
        yield* replica.stop("fast")
        const edited = yield* put(store, draft("tea that is lost"))
        for (const name of ["more tea", "still more tea"]) yield* put(store, draft(name))
        yield* store.update(ada, edited.id, { body: "tea that is lost again" })
        assert.lengthOf(yield* found(store, ada, { text: "tea" }), 4)
        const bob = Viewer.make({ userId: "bob" })
        yield* store.put(bob, [{ ...draft("tea of bob"), scope: { userId: "bob" } }])
        assert.deepStrictEqual(yield* found(store, bob, { text: "tea" }), ["tea of bob"])

        yield* primary.stop("immediate")
        yield* replica.start
        yield* replica.promote
        target.url = replica.url
        const refusals = yield* Ref.make(0)
        assert.deepStrictEqual(
          yield* persistent(found(store, bob, { text: "tea" }), refusals),
          [],
          "all of whose is lost"
        )
        yield* persistent(put(store, draft("tea of today")), refusals)
        assert.deepStrictEqual((yield* found(store, ada, { text: "tea" })).sort(), ["tea of today", "tea with milk"])
        assert.deepStrictEqual((yield* listed(store, ada)).sort(), ["tea of today", "tea with milk"])
        yield* put(store, draft("tea that is lost again", { id: edited.id }))
        const all = ["tea of today", "tea that is lost again", "tea with milk"]
        assert.deepStrictEqual((yield* found(store, ada, { text: "tea" })).sort(), all)
      }))

    it.scopedLive("a store reads from a standby only if the lag is at most `staleness`, and sees its own writes at once", () =>
      Effect.gen(function*() {
        const primary = yield* throwAway
        const replica = yield* primary.replica
        yield* Effect.orDie(ask(
          primary.url,
          "ALTER SYSTEM SET synchronous_standby_names = ''", // commits no longer wait for a standby
          "SELECT pg_reload_conf()"
        ))
        const at = placeOf(primary.url, "memories")
        const readingFrom = (staleness: Duration.DurationInput) =>
          opened(at, { replica: { url: Redacted.make(replica.url), staleness } })
        const writer = yield* opened(at)
        const [patient, strict] = [yield* readingFrom("1 hour"), yield* readingFrom("200 millis")]
        const tea = yield* put(patient, draft("tea"))
        const bodyOf = (store: Service) => Effect.map(the(store, ada, tea.id), ({ body }) => body)
        yield* eventually(Effect.zipRight(bodyOf(patient), isRead(replica.url)))

        yield* Effect.orDie(ask(replica.url, "SELECT pg_wal_replay_pause()"))
        yield* writer.update(ada, tea.id, { body: "green tea" })
        assert.strictEqual(yield* bodyOf(patient), "tea", "what another wrote may be seen later")
        assert.deepStrictEqual(yield* found(patient, ada, { text: "tea" }), ["tea"])
        yield* eventually(Effect.map(bodyOf(strict), (body) => body === "green tea"))
        yield* patient.update(ada, tea.id, { body: "black tea" })
        assert.strictEqual(yield* bodyOf(patient), "black tea")
        assert.deepStrictEqual(yield* found(patient, ada, { text: "tea" }), ["black tea"])

        yield* Effect.orDie(ask(replica.url, "SELECT pg_wal_replay_resume()"))
        yield* eventually(Effect.zipRight(bodyOf(patient), isRead(replica.url)))
        yield* replica.stop("fast")
        assert.strictEqual(yield* bodyOf(patient), "black tea", "a standby that is gone is not asked")
        assert.deepStrictEqual(yield* found(patient, ada, { text: "tea" }), ["black tea"])
        const early = yield* readingFrom("1 hour")
        assert.strictEqual(yield* bodyOf(early), "black tea", "nor is one that is not there yet")
        yield* replica.start
        yield* eventually(Effect.zipRight(bodyOf(early), isRead(replica.url)))

        const vectors = Option.getOrThrow(writer.vectors)
        const [waiting] = yield* vectors.pending(ada.tenant, "m", 10)
        yield* vectors.attach(ada.tenant, "m", [[waiting!.hash, Float32Array.of(1, 0)]])
        const near = early.search(ada, { embedding: { model: "m", vector: [1, 1] }, mode: "vector" })
        yield* eventually(
          Effect.flatMap(near, ({ awaiting, hits }) => hits.length === 1 && awaiting === 0 ? isRead(replica.url) : no)
        )
        // a store reads its own vectors at once
        const coffee = yield* put(early, draft("coffee"))
        yield* Option.getOrThrow(early.vectors).attach(ada.tenant, "m", [[textHash(coffee), Float32Array.of(0, 1)]])
        assert.deepStrictEqual((yield* near).hits.map(({ record }) => record.body).sort(), ["black tea", "coffee"])
      }))

    it.scopedLive("reads still succeed on the standby after the primary stops, but writes fail with `unavailable`", () =>
      Effect.gen(function*() {
        const primary = yield* throwAway
        const replica = yield* primary.replica
        const store = yield* opened(placeOf(primary.url, "memories"), {
          replica: { url: Redacted.make(replica.url), staleness: "1 hour" }
        })
        const tea = yield* put(store, draft("tea"))
        yield* eventually(Effect.zipRight(the(store, ada, tea.id), isRead(replica.url)))
        yield* primary.stop("immediate")
        assert.strictEqual((yield* the(store, ada, tea.id)).body, "tea")
        assert.deepStrictEqual(yield* found(store, ada, { text: "tea" }), ["tea"])
        yield* refuses("unavailable", put(store, draft("coffee")))
      }))

    it.scopedLive("a federation with one stopped server still serves the stores on its other servers", () =>
      Effect.gen(function*() {
        const [north, south] = yield* Effect.all([throwAway, throwAway])
        const storeOf = (url: string) =>
          Postgres.layer({ url: Redacted.make(url), schema: "memories", connectTimeout: "2 seconds" })
        const built = yield* Layer.build(Federated.layer(
          {
            north: { layer: storeOf(north.url), writable: true },
            south: { layer: storeOf(south.url), writable: true }
          },
          { route: ({ scope }) => typeof scope === "object" && scope.userId === "bob" ? "south" : "north" }
        ))
        const store = Context.get(built, MemoryStore)
        const federation = Context.get(built, Federated.Federated)
        const bob = Viewer.make({ userId: "bob" })
        const tea = yield* put(store, draft("tea"))
        const coffee = yield* put(store, draft("coffee", { scope: { userId: "bob" } }), bob)
        yield* south.stop("immediate")
        assert.strictEqual((yield* the(store, ada, tea.id)).body, "tea")
        yield* put(store, draft("green tea"))
        yield* refuses("unavailable", put(store, draft("more coffee", { scope: { userId: "bob" } }), bob))
        yield* refuses("unavailable", the(store, bob, coffee.id))
        const { failures, hits } = yield* store.search(ada, { text: "tea" })
        assert.deepStrictEqual(hits.map(({ record }) => record.body).sort(), ["green tea", "tea"])
        assert.deepStrictEqual(failures?.map(({ error, leg }) => [leg, error.reason]), [["south", "unavailable"]])
        const only = yield* federation.search(ada, { text: "tea" }, { stores: ["north"] })
        assert.lengthOf(only.hits, 2)
        yield* south.start
        const refusals = yield* Ref.make(0)
        assert.strictEqual((yield* persistent(the(store, bob, coffee.id), refusals)).body, "coffee")
      }))
  })
} else {
  it("failing PostgreSQL servers are not tested, since PGlite is forced or this machine cannot run PostgreSQL clusters", () =>
    assert.isFalse(hasClusters))
}
