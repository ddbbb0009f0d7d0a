/** The subpath `effect-memory/postgres`: a store in PostgreSQL. */
/** The store in PostgreSQL; its options and an example are in the module that this re-exports. */
export * as Postgres from "./storage/MemoryStore/Postgres.ts"
