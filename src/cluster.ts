/** `effect-memory/cluster`: an outbox whose conversations are shared among the machines of a cluster. */
export * as OutboxCluster from "./harness/OutboxCluster.ts"
