/**
 * The viewer of a call: the user, agent, run, session or actor for whom the call is made. Every operation of a store has a viewer as
 * argument, and removes the records that the viewer may not see before it applies any limit, so that invisible records do not
 * count towards the limit.
 *
 * ```ts
 * import { Viewer } from "effect-memory"
 *
 * const visitor = Viewer.make({ userId: "ada", sessionId: "monday" })
 * const user = Viewer.make({ userId: "ada", reach: "within" })
 * const seen = [{ userId: "ada" }, { userId: "ada", sessionId: "friday" }].map((scope) => [
 *   Viewer.sees(visitor, scope),
 *   Viewer.sees(user, scope)
 * ])
 *
 * seen // => [[true, true], [false, true]]
 * ```
 */
export { decode, everyone, exactly, isSystem, make, sees, system, Viewer } from "./domain/Viewer.ts"
export type { AccessFilter, Any, Input, SharedWrites, System, Visibility } from "./domain/Viewer.ts"
