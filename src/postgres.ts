/** The subpath `effect-memory/postgres`: a store in PostgreSQL. */
/** The store in PostgreSQL. The comments of the module `Postgres` describe its options, and have an example. */
export * as Postgres from "./storage/MemoryStore/Postgres.ts"
