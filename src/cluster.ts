/** The subpath `effect-memory/cluster`: an outbox (a queue of messages) whose conversations are divided among the machines of a cluster. */
/** The outbox on a cluster, documented in the module `OutboxCluster`. */
export * as OutboxCluster from "./harness/OutboxCluster.ts"
