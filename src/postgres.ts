/** `effect-memory/postgres`: a store in PostgreSQL. */
export * as Postgres from "./storage/MemoryStore/Postgres.ts"
