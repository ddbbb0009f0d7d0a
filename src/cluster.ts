/** The subpath `effect-memory/cluster`: an outbox whose conversations are divided among the machines of a cluster. */
/** The outbox on a cluster; its module documents it. */
export * as OutboxCluster from "./harness/OutboxCluster.ts"
