// A runner of a cluster over one PostgreSQL database, which extracts conversations until it is killed. To the journal, which all
// processes share, it appends what the model was asked and the rows for which a plan was stored.
import * as NodeClusterSocket from "@effect/platform-node/NodeClusterSocket"
import * as RunnerAddress from "@effect/cluster/RunnerAddress"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { openSync, writeSync } from "node:fs"
import { OutboxCluster } from "../../../dist/cluster.js"
import { Completion, Embedder, ExtractionTrigger, MemoryPipeline, MemoryStore } from "../../../dist/index.js"
import { Postgres } from "../../../dist/postgres.js"

const [url, port, journal, sharding] = process.argv.slice(2)
const file = openSync(journal, "a")
const note = (json) => Effect.sync(() => writeSync(file, JSON.stringify(json) + "\n"))
let call = 0

const store = Layer.effect(
  MemoryStore.MemoryStore,
  Effect.map(MemoryStore.MemoryStore, (store) => ({
    ...store,
    apply: (viewer, mutations, provenance) =>
      Effect.tap(store.apply(viewer, mutations, provenance), () => {
        const plan = mutations.find(({ _tag, draft }) => _tag === "Put" && draft.data?.row === "plan")
        return plan ? note({ planned: plan.draft.data.of }) : Effect.void
      })
  }))
).pipe(Layer.provide(Postgres.layer({ url: Redacted.make(url), maxConnections: 8, connectTimeout: "1 minute" })))

const outbox = OutboxCluster.layer({
  trigger: ExtractionTrigger.invocation,
  retry: Schedule.spaced("100 millis"),
  compaction: false,
  options: {
    kind: "episodic",
    customExtract: (messages) => {
      const from = `~${process.pid}.${++call}`
      const contents = messages.map(({ content }) => content)
      return note({ asked: contents }).pipe(Effect.delay("2 millis"), Effect.as(contents.map((text) => ({ text: `${text} ${from}` }))))
    }
  }
}).pipe(
  Layer.provide(MemoryPipeline.layer),
  Layer.provide([
    store,
    Embedder.layerNone,
    Completion.layerScripted(({ user }) => ({
      memory: JSON.parse(user.slice(user.lastIndexOf("["))).map((text) => ({ event: "ADD", text }))
    }))
  ]),
  Layer.provide(NodeClusterSocket.layer({
    storage: "sql",
    shardingConfig: {
      ...JSON.parse(sharding),
      runnerAddress: Option.some(RunnerAddress.make("127.0.0.1", Number(port)))
    }
  })),
  Layer.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 8, connectTimeout: "1 minute" }))
)

await Effect.runPromise(
  Effect.zipRight(
    Effect.sync(() => writeSync(1, JSON.stringify({ ready: port }) + "\n")),
    Effect.never
  ).pipe(Effect.provide(outbox), Logger.withMinimumLogLevel(process.env.CLUSTER_LOG ? LogLevel.Debug : LogLevel.None))
)
