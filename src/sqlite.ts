/** The subpath `effect-memory/sqlite`: a store in one SQLite file. */
/** The store in a SQLite file. Its own module has the options and an example. */
export * as Sqlite from "./storage/MemoryStore/Sqlite.ts"
