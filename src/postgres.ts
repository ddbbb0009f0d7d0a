/** The subpath `effect-memory/postgres`: a store in PostgreSQL. */
/** The store in PostgreSQL, documented with an example in the module `Postgres`. */
export * as Postgres from "./storage/MemoryStore/Postgres.ts"
