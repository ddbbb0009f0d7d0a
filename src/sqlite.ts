/** The subpath `effect-memory/sqlite`: a store in one SQLite file. */
/** The store in a SQLite file; its options and an example are in the module that this re-exports. */
export * as Sqlite from "./storage/MemoryStore/Sqlite.ts"
