/**
 * The rules of shared memory: which scopes a model may write on behalf of a viewer, and how far others trust what was written
 * there. Writes by tools, extraction and the pipeline count as a model's. Harness code that calls the service directly may
 * write any scope that the viewer sees; the trust of its writes is limited in the same way.
 *
 * ```text
 * the viewer names            a model may write
 * a user                      scopes that hold this user
 * an agent or a run alone     every scope that the viewer sees: it is one person's agent
 * a session or an actor       scopes that hold all ids of the viewer: it is one of many visitors of a bot
 * no id                       nothing; with reach `everyone`, every scope except Global
 * ```
 *
 * `SharedWrites` opens more scopes. A bot that serves many people must therefore name each of them in the viewer, by user,
 * session or actor.
 */
import * as Schema from "effect/Schema"
import type { Trust } from "./MemoryRecord.ts"
import { fields, Global, matchesScope, type MemoryScope, same } from "./MemoryScope.ts"
import * as Viewer from "./Viewer.ts"

/**
 * Shared scopes that a model may write: `agent` opens those that hold the viewer's agent and no user, `global` opens Global.
 * Every conversation reads what another one wrote there.
 */
export const SharedWrites = Schema.Array(Schema.Literal("agent", "global")).annotations({ identifier: "SharedWrites" })
export type SharedWrites = typeof SharedWrites.Type

/** Whether a model may write records of the scope on behalf of the viewer. `shared` defaults to none. */
export const mayWrite = (viewer: Viewer.Any, scope: MemoryScope, shared: SharedWrites = []): boolean => {
  if (Viewer.isSystem(viewer)) return true
  if (!Viewer.sees(viewer, scope)) return false
  if (isShared(viewer, scope, shared)) return true
  if (viewer.userId !== undefined) return scope !== Global && same(scope.userId, viewer.userId)
  if (isPersonal(viewer)) return true
  return scope !== Global &&
    (viewer.reach === "everyone" || (hasIds(viewer) && matchesScope(scope, viewer)))
}

/**
 * Returns the trust of a record that the viewer writes into the scope: `trust`, raised to 2 (less trusted) where the viewer
 * names a user and the scope names none, since other users read there what this user caused.
 */
export const trustIn = (viewer: Viewer.Any, scope: MemoryScope, trust: Trust): Trust =>
  trust < 2 && !Viewer.isSystem(viewer) && viewer.userId !== undefined &&
    (scope === Global || scope.userId === undefined)
    ? 2
    : trust

/** Whether the viewer is one person's agent or run: it names an agent or a run, and no user, session or actor. */
export const isPersonal = ({ actorId, agentId, runId, sessionId, userId }: Viewer.Viewer): boolean =>
  userId === undefined && sessionId === undefined && actorId === undefined &&
  (agentId !== undefined || runId !== undefined)

const isShared = (viewer: Viewer.Viewer, scope: MemoryScope, shared: SharedWrites): boolean =>
  scope === Global
    ? shared.includes("global")
    : shared.includes("agent") && scope.userId === undefined && same(scope.agentId, viewer.agentId)

const hasIds = (viewer: Viewer.Viewer): boolean => fields.some((field) => viewer[field] !== undefined)
