/** The table of contents. Strata, top to bottom: a module knows those above it, never those below. */

// What a memory is
/** Who a record is: a ULID, minted or derived. */
export * as MemoryId from "./domain/MemoryId.ts"
/** Whose a record is. */
export * as MemoryScope from "./domain/MemoryScope.ts"
/** For whom a call is made. */
export * as Viewer from "./domain/Viewer.ts"
/** What sort of thing is remembered, and how long it matters. */
export * as MemoryKind from "./domain/MemoryKind.ts"
/** What a record of a kind carries in `data`. */
export * as Payload from "./domain/Payload.ts"
/** Every memory of every kind. */
export * as MemoryRecord from "./domain/MemoryRecord.ts"
/** A change, as data. */
export * as MemoryMutation from "./domain/MemoryMutation.ts"
/** Which records are meant, and how they are asked for. */
export * as MemoryFilter from "./domain/MemoryFilter.ts"
/** What happened to a store. */
export * as StoreChange from "./domain/StoreChange.ts"
/** The one error of this library. */
export * as MemoryError from "./domain/MemoryError.ts"
/** How it felt. */
export * as Emotion from "./domain/Emotion.ts"
/** One turn of a conversation, as the harness hands it over. */
export * as Message from "./domain/Message.ts"
/** Fingerprints. */
export * as Digest from "./domain/Digest.ts"
