/**
 * Ids of records: ULIDs, 26 characters of Crockford's base 32. An id is generated from `Clock` and `Random`, or derived from a text.
 *
 * ```ts
 * import { MemoryId } from "effect-memory"
 *
 * const id = MemoryId.foreign("deuz", "note-1") // the same id at each call
 *
 * MemoryId.ULID_RE.test(id) // => true
 * ```
 */
export { foreign, MemoryId, stableId, ulid, ULID_RE } from "./domain/MemoryId.ts"
