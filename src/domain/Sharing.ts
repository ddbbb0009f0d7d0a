/**
 * The rules of shared memory: which scopes a model may write on behalf of a viewer, and how far others trust what was written
 * there. Tools, extraction and the pipeline are a model's writes. Code of the harness that writes by itself may write
 * wherever the viewer sees; its trust is limited all the same.
 *
 * ```text
 * the viewer names            a model may write
 * a user                      scopes that hold this user
 * an agent or a run alone     whatever the viewer sees: one person's agent
 * a session or an actor       scopes that hold all ids of the viewer: one of many whom a bot serves
 * nobody                      nothing; for `everyone`, whatever is not Global
 * ```
 *
 * `SharedWrites` opens more. A bot that serves many people must therefore name each of them, by user, session or actor.
 */
import * as Schema from "effect/Schema"
import type { Trust } from "./MemoryRecord.ts"
import { fields, Global, matchesScope, type MemoryScope, same } from "./MemoryScope.ts"
import * as Viewer from "./Viewer.ts"

/**
 * Shared scopes that a model may write: `agent` for those that hold the viewer's agent and no user, `global` for Global.
 * What one conversation writes there, every other one reads.
 */
export const SharedWrites = Schema.Array(Schema.Literal("agent", "global")).annotations({ identifier: "SharedWrites" })
export type SharedWrites = typeof SharedWrites.Type

/** Whether a model may write records of the scope on behalf of the viewer. */
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
 * The trust of what the viewer writes into the scope: `trust`, and at least 2 where the viewer names a user and the scope
 * names none, since others read there what this user caused.
 */
export const trustIn = (viewer: Viewer.Any, scope: MemoryScope, trust: Trust): Trust =>
  trust < 2 && !Viewer.isSystem(viewer) && viewer.userId !== undefined &&
    (scope === Global || scope.userId === undefined)
    ? 2
    : trust

/** Whether the viewer is one person's agent or run: it names neither user, session nor actor. */
export const isPersonal = ({ actorId, agentId, runId, sessionId, userId }: Viewer.Viewer): boolean =>
  userId === undefined && sessionId === undefined && actorId === undefined &&
  (agentId !== undefined || runId !== undefined)

const isShared = (viewer: Viewer.Viewer, scope: MemoryScope, shared: SharedWrites): boolean =>
  scope === Global
    ? shared.includes("global")
    : shared.includes("agent") && scope.userId === undefined && same(scope.agentId, viewer.agentId)

const hasIds = (viewer: Viewer.Viewer): boolean => fields.some((field) => viewer[field] !== undefined)
