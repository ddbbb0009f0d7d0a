/**
 * The scope of a record says to whom the record belongs: to a user, agent, run, session or actor. Records with the scope `Global` belong to
 * the whole tenant.
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
