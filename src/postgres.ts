/** The subpath `effect-memory/postgres`: a store in PostgreSQL. */
/** The store in PostgreSQL: see its module. */
export * as Postgres from "./storage/MemoryStore/Postgres.ts"
