/** `effect-memory/sqlite`: a store in one SQLite file. */
export * as Sqlite from "./storage/MemoryStore/Sqlite.ts"
