/** The subpath `effect-memory/cluster`: an outbox whose conversations are shared among the machines of a cluster. */
/** The outbox on a cluster: see its module. */
export * as OutboxCluster from "./harness/OutboxCluster.ts"
