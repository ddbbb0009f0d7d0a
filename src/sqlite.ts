/** The subpath `effect-memory/sqlite`: a store in one SQLite file. */
/** The store in a SQLite file, documented with an example in the module `Sqlite`. */
export * as Sqlite from "./storage/MemoryStore/Sqlite.ts"
