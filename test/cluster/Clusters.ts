/** Outboxes of a one-runner cluster in this process, whose messages are stored in SQLite. */
import * as MessageStorage from "@effect/cluster/MessageStorage"
import * as RunnerHealth from "@effect/cluster/RunnerHealth"
import * as Runners from "@effect/cluster/Runners"
import * as RunnerStorage from "@effect/cluster/RunnerStorage"
import * as Sharding from "@effect/cluster/Sharding"
import * as ShardingConfig from "@effect/cluster/ShardingConfig"
import * as SqlMessageStorage from "@effect/cluster/SqlMessageStorage"
import { SqlClient } from "@effect/sql"
import { SqliteClient } from "@effect/sql-sqlite-node"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import type * as Scope from "effect/Scope"
import type * as MemoryError from "../../src/domain/MemoryError.ts"
import type * as Outbox from "../../src/harness/Outbox.ts"
import * as OutboxCluster from "../../src/harness/OutboxCluster.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Boxes from "../harness/Outboxes.ts"

export type Cluster = Context.Context<Sharding.Sharding | MessageStorage.MessageStorage | SqlClient.SqlClient>

/** Starts a cluster runner in this process. Its time is the clock of the current fiber. */
export const runnerWith = (
  config: Partial<Context.Tag.Service<typeof ShardingConfig.ShardingConfig>>
): Effect.Effect<Cluster, unknown, Scope.Scope> =>
  Layer.build(
    Sharding.layer.pipe(
      Layer.provide([Runners.layerNoop, RunnerStorage.layerMemory, RunnerHealth.layerNoop]),
      Layer.provideMerge(SqlMessageStorage.layer),
      Layer.provideMerge(SqliteClient.layer({ filename: ":memory:" })),
      Layer.provide(ShardingConfig.layer({ shardsPerGroup: 8, entityTerminationTimeout: 0, ...config }))
    )
  ).pipe(Logger.withMinimumLogLevel(LogLevel.None))

/** Opens an `OutboxCluster` on this runner, over the store and with the scripted extractor. */
export const openedOn = (
  cluster: Cluster,
  store: MemoryStore.Service,
  { extract }: Pick<Boxes.Model, "extract">,
  { options, ...rest }: OutboxCluster.Options = {}
): Effect.Effect<OutboxCluster.Service, MemoryError.MemoryError, Scope.Scope> =>
  Effect.map(
    Layer.build(
      OutboxCluster.layer({
        compaction: false,
        ...rest,
        options: { customExtract: extract, kind: "episodic", ...options }
      }).pipe(
        Layer.provide(MemoryPipeline.layer),
        Layer.provide(
          Layer.mergeAll(
            Layer.succeed(MemoryStore.MemoryStore, store),
            Completion.layerScripted(Boxes.adds),
            Embedder.layerNone,
            Layer.succeedContext(cluster)
          )
        )
      )
    ),
    Context.get(OutboxCluster.OutboxCluster)
  ).pipe(Logger.withMinimumLogLevel(LogLevel.Error))

/** Opens an `OutboxCluster` on a new runner, over the store and with the scripted extractor. */
export const opened = (
  store: MemoryStore.Service,
  model: Pick<Boxes.Model, "extract">,
  { flushTimeout: _flushTimeout, ...options }: Outbox.Options = {}
): Effect.Effect<OutboxCluster.Service, MemoryError.MemoryError, Scope.Scope> =>
  Effect.flatMap(Effect.orDie(runnerWith({})), (cluster) => openedOn(cluster, store, model, options))
