/** The subpath `effect-memory/cluster`: an outbox (a queue of messages) for a cluster. Each conversation is handled by one machine. */
/** The outbox on a cluster, documented in the module `OutboxCluster`. */
export * as OutboxCluster from "./harness/OutboxCluster.ts"
