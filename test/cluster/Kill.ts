/** Two runners of a cluster over one PostgreSQL database, killed while they work. */
import * as NodeClusterSocket from "@effect/platform-node/NodeClusterSocket"
import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as fs from "node:fs"
import { createServer } from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import type { MemoryMutation } from "../../src/domain/MemoryMutation.ts"
import { user } from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as OutboxCluster from "../../src/harness/OutboxCluster.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import { Postgres } from "../../src/postgres.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { never, rows } from "../harness/Outboxes.ts"
import { ask } from "../postgres/Server.ts"
import { program, times } from "../vault/Program.ts"

/** The settings that the processes of a cluster share. Checks are frequent, so that a dead runner is noticed soon. */
const sharding = {
  shardsPerGroup: 20,
  refreshAssignmentsInterval: "300 millis",
  runnerHealthCheckInterval: "1 second",
  entityMessagePollInterval: "500 millis",
  shardLockRefreshInterval: "5 seconds",
  shardLockExpiration: "30 seconds",
  entityTerminationTimeout: 0,
  sendRetryInterval: "50 millis"
} as const

const batches = times(60, 2_000)
const kills = times(1, 20)
const lines = times(6, 20)

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

const isFree = (port: number) =>
  new Promise<boolean>((resolve) => {
    const listener = createServer()
    listener.once("error", () => resolve(false))
    listener.listen(port, "127.0.0.1", () => listener.close(() => resolve(true)))
  })

/** Finds free ports below the range of ports for outgoing connections, so that no connection takes a port while its runner restarts. */
const freePorts = async (count: number): Promise<ReadonlyArray<number>> => {
  const ports: Array<number> = []
  for (let port = 20_000 + 7 * process.pid % 10_000; ports.length < count; port++) {
    if (await isFree(port)) ports.push(port)
  }
  return ports
}

/** Creates a database for one cluster, because clusters in one database would share their locks. */
const database = (url: string) =>
  Effect.acquireRelease(
    Effect.gen(function*() {
      const left = yield* ask(url, "SELECT datname FROM pg_database WHERE datname LIKE 'memory\\_cluster\\_%'")
      for (const [name] of left) {
        if (!isAlive(Number(String(name).split("_")[2]))) {
          yield* ask(url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
        }
      }
      const name = `memory_cluster_${process.pid}`
      yield* ask(url, `CREATE DATABASE ${name}`)
      const own = new URL(url)
      own.pathname = `/${name}`
      return { name, url: own.href }
    }),
    ({ name }) => Effect.orDie(ask(url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`))
  )

const temporary = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "cluster-"))),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)

/** Opens an outbox that is only a client of the cluster: it appends messages and extracts none. */
const sender = (store: MemoryStore.Service, url: string) =>
  Effect.map(
    Layer.build(
      OutboxCluster.layer({ trigger: never, compaction: false }).pipe(
        Layer.provide(MemoryPipeline.layer),
        Layer.provide([
          Layer.succeed(MemoryStore.MemoryStore, store),
          Embedder.layerNone,
          Completion.layerScripted(() => ({ memory: [] }))
        ]),
        Layer.provide(NodeClusterSocket.layer({ clientOnly: true, storage: "sql", shardingConfig: sharding })),
        Layer.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 8, connectTimeout: "1 minute" }))
      )
    ),
    Context.get(OutboxCluster.OutboxCluster)
  ).pipe(Logger.withMinimumLogLevel(LogLevel.None))

const Journal = Schema.parseJson(Schema.Union(
  Schema.Struct({ asked: Schema.Array(Schema.String) }),
  Schema.Struct({ planned: Schema.Array(Schema.String) })
))
const Ready = Schema.Struct({ ready: Schema.String })

/** Returns the id of each message row that the mutations put, with the texts of the messages in it. */
const messagesIn = (mutations: ReadonlyArray<MemoryMutation>) =>
  mutations.flatMap((mutation) =>
    mutation._tag === "Put" && mutation.draft.data?.["row"] === "messages"
      ? [
        [
          String(mutation.draft.id),
          Array.from(mutation.draft.body.matchAll(/line \d+ batch \d+/g), ([text]) => text)
        ] as const
      ]
      : []
  )

/** Declares the law. Two runners need two connections at once, which PGlite does not have. */
export const suite = (url: string): void =>
  void describe("two runners of an OutboxCluster, one of which is killed repeatedly", () => {
    it.scopedLive(
      "the runners keep every fact once and in order, and never ask the model again for a stored answer",
      () =>
        Effect.gen(function*() {
          const place = yield* database(url)
          const journal = path.join(yield* temporary, "journal")
          fs.writeFileSync(journal, "")
          const ports = yield* Effect.promise(() => freePorts(2))
          const start = (n: number) =>
            program(
              "../../cluster/processes/runner.mjs",
              [place.url, String(ports[n]), journal, JSON.stringify(sharding)],
              Ready
            )
          const store = yield* Postgres.make({
            url: Redacted.make(place.url),
            maxConnections: 8,
            connectTimeout: "1 minute"
          })
          const textsOf = new Map<string, ReadonlyArray<string>>()
          const noting: MemoryStore.Service = {
            ...store,
            apply: (viewer, mutations, provenance) => {
              for (const [id, texts] of messagesIn(mutations)) textsOf.set(id, texts)
              return store.apply(viewer, mutations, provenance)
            }
          }
          const first = yield* start(0)
          yield* first.line // waits for the first runner, since a cluster creates its tables without a lock, which two must not do at once
          const runners = [first, yield* start(1)]
          yield* runners[1]!.line
          const outbox = yield* sender(noting, place.url)
          const viewerOf = (line: number) => Viewer.make({ tenant: `tenant ${line % 3}`, userId: `user ${line}` })

          const each = Math.floor(batches / (kills + 1))
          let appended = 0
          for (let round = 0; round <= kills; round++) {
            const some = Array.from({ length: each }, () => appended++)
            const killed = round % 2
            yield* Effect.all([
              Effect.forEach(
                Array.from({ length: lines }, (_, line) => line),
                (line) =>
                  Effect.forEach(
                    some.filter((n) => n % lines === line),
                    (n) => outbox.append(viewerOf(line), "s", [user(`line ${line} batch ${Math.floor(n / lines)}`)])
                  ),
                { concurrency: "unbounded", discard: true }
              ),
              round === kills ? Effect.void : Effect.gen(function*() {
                yield* Effect.sleep(`${50 + round * 37 % 400} millis`)
                yield* runners[killed]!.signal("SIGKILL")
                assert.isNull(yield* runners[killed]!.end)
                if (round % 4 === 3) yield* Effect.sleep("3 seconds") // lets the other runner take over
                runners[killed] = yield* start(killed)
                yield* runners[killed]!.line
              })
            ], { concurrency: 2 })
          }
          yield* runners[1]!.signal("SIGKILL")
          yield* outbox.flush // extracted by the runner that is left
          assert.deepInclude(yield* outbox.status, { waiting: 0, deadLetters: 0 })

          let readings = 0
          for (let line = 0; line < lines; line++) {
            const viewer = viewerOf(line)
            // facts of one extraction have one time and no order
            const all = Array.from(
              yield* Stream.runCollect(store.stream(viewer, {})),
              ({ body, createdAt }) => ({
                at: createdAt,
                n: Number(body.replace(/^line \d+ batch (\d+) ~[\d.]+$/, "$1"))
              })
            ).sort((a, b) => a.at - b.at || a.n - b.n)
            const count = Math.ceil((appended - line) / lines)
            assert.deepStrictEqual(all.map(({ n }) => n), Array.from({ length: count }, (_, n) => n), `line ${line}`)
            readings += new Set(all.map(({ at }) => at)).size
            assert.deepStrictEqual(yield* rows(store, viewer.tenant), [])
          }

          const asks = new Map<string, number>()
          const planned = new Set<string>()
          let again = 0
          for (const text of fs.readFileSync(journal, "utf8").split("\n").filter((text) => text !== "")) {
            const entry = yield* Schema.decode(Journal)(text)
            if ("planned" in entry) {
              for (const id of entry.planned) for (const text of textsOf.get(id) ?? []) planned.add(text)
            } else {
              for (const text of entry.asked) {
                assert.isFalse(planned.has(text), `${text} was asked for again, though its answer was kept`)
                asks.set(text, (asks.get(text) ?? 0) + 1)
              }
            }
          }
          assert.strictEqual(asks.size, appended)
          // a runner that is killed after storing a plan, but before logging it, adds no entry for this plan to the journal
          assert.isAbove(planned.size, appended / 2)
          for (const count of asks.values()) again += count - 1
          yield* Effect.logInfo(
            `${appended} batches, ${kills} kills: ${again} asked for again, no answer of which was kept`
          )

          yield* Effect.forEach(
            Array.from({ length: lines }, (_, line) => viewerOf(line)),
            (viewer) => outbox.forget(viewer),
            { concurrency: 4 }
          )
          const [left] = yield* ask(
            place.url,
            "SELECT count(*) FROM cluster_messages WHERE entity_type LIKE 'Memory/Line/%'"
          )
          assert.strictEqual(Number(left?.[0]), 0)
        })
    )
  })
