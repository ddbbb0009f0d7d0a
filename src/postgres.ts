/** The subpath `effect-memory/postgres`: a store in PostgreSQL. */
/** The store in PostgreSQL. Its own module has the options and an example. */
export * as Postgres from "./storage/MemoryStore/Postgres.ts"
