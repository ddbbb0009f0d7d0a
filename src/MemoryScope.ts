/**
 * The scope of a record is the user, agent, run, session or actor to whom the record belongs, or `Global` for a record that everyone may
 * read.
 *
 * ```ts
 * import { MemoryScope } from "effect-memory"
 *
 * MemoryScope.matchesScope({ userId: "ada", sessionId: "monday" }, { userId: "ada" }) // => true
 *
 * MemoryScope.matchesScope({ userId: "bob" }, { userId: "ada" }) // => false
 * ```
 */
export { assertScope, Global, key, matchesScope, MemoryScope, ScopeId } from "./domain/MemoryScope.ts"
export type { Ids } from "./domain/MemoryScope.ts"
