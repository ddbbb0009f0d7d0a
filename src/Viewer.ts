/**
 * The viewer of a call is the user, agent, run, session or actor for whom the call is made. Operations of a store on records, such as `put`
 * and `search`, take a viewer. Records that the viewer may not see are left out before any limit is applied. Such records do not count
 * towards the limit.
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
