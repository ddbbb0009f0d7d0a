/** The subpath `effect-memory/sqlite`: a store in one SQLite file. */
/** The store in a SQLite file. The comments of the module `Sqlite` describe its options, and have an example. */
export * as Sqlite from "./storage/MemoryStore/Sqlite.ts"
