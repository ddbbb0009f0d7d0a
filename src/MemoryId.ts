/**
 * Ids of records: ULIDs of 26 Crockford characters, minted from `Clock` and `Random` or derived from content.
 *
 * ```ts
 * import { MemoryId } from "effect-memory"
 *
 * const id = MemoryId.foreign("deuz", "note-1") // the same id each time
 *
 * MemoryId.ULID_RE.test(id) // => true
 * ```
 */
export { foreign, MemoryId, stableId, ulid, ULID_RE } from "./domain/MemoryId.ts"
