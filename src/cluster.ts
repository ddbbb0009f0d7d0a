/** The subpath `effect-memory/cluster`: an outbox (a queue of messages) for a cluster. One machine at a time handles a conversation. */
/** The outbox on a cluster, documented in the module `OutboxCluster`. */
export * as OutboxCluster from "./harness/OutboxCluster.ts"
