/**
 * Scopes: the user, agent, run, session or actor that a record belongs to. A record for everyone must name `Global`.
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
