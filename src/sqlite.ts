/** The subpath `effect-memory/sqlite`: a store in one SQLite file. */
/** The store in a SQLite file: see its module. */
export * as Sqlite from "./storage/MemoryStore/Sqlite.ts"
