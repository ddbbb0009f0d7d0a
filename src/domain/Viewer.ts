/**
 * For whom a call is made. Every operation of a store takes one, and checks it before any limit.
 *
 * ```text
 * exact   sees a record iff every id set on the record equals the viewer's   (global, its own, its run's)
 * within  sees a record iff every id set on the viewer equals the record's   (a user and all that is narrower)
 * ```
 */
import * as Schema from "effect/Schema"
import { fields, Global, ids, isInternal, matchesScope, type MemoryScope, same, ScopeId } from "./MemoryScope.ts"

export const Tenant = ScopeId
export const Reach = Schema.Literal("exact", "within")
export type Reach = typeof Reach.Type

export class Viewer extends Schema.Class<Viewer>("@memory/Viewer")({
  /** Default `"default"`. Nothing is ever visible across tenants. */
  tenant: Schema.optionalWith(Tenant, { default: () => "default" }),
  ...ids,
  /** Default `"exact"`. */
  reach: Schema.optionalWith(Reach, { default: () => "exact" })
}) {}

/** The library itself, in one tenant: sees everything, tombstones and expired records included. Never given to an agent. */
export class System extends Schema.TaggedClass<System>("@memory/System")("System", {
  /** Default `"default"`. */
  tenant: Schema.optionalWith(Tenant, { default: () => "default" })
}) {}

export type Any = Viewer | System

/** Throws where an id is not a `ScopeId`: decode `Viewer` where the ids come from outside. */
export const make = (fields: ConstructorParameters<typeof Viewer>[0]): Viewer => new Viewer(fields)

export const system = (tenant?: string): System => new System(tenant === undefined ? {} : { tenant })

export const isSystem = (viewer: Any): viewer is System => viewer instanceof System

/** The tenant as a key: after NFC. */
export const tenantOf = (viewer: Any): string => viewer.tenant.normalize("NFC")

/** Whether both are the same: an id that is `undefined` is none, and ids are compared after NFC. */
export const equals = (a: Any, b: Any): boolean =>
  tenantOf(a) === tenantOf(b) && (isSystem(a) || isSystem(b)
    ? isSystem(a) && isSystem(b)
    : a.reach === b.reach && fields.every((field) => a[field]?.normalize("NFC") === b[field]?.normalize("NFC")))

/** Exactly the viewer's: all its ids; Global where it has none, as the library. */
export const scopeOf = (viewer: Any): MemoryScope =>
  isSystem(viewer) || fields.every((field) => viewer[field] === undefined)
    ? Global
    : Object.fromEntries(fields.flatMap((field) => viewer[field] === undefined ? [] : [[field, viewer[field]]]))

/** Whom it is about what he says: the user, else the agent, else exactly the viewer, as far as the viewer sees it. */
export const subjectOf = (viewer: Viewer): MemoryScope => {
  const { agentId, userId } = viewer
  const subjects = [userId !== undefined && { userId }, agentId !== undefined && { agentId }]
  return subjects.find((scope) => scope !== false && sees(viewer, scope)) || scopeOf(viewer)
}

/** Who sees of `scopeOf(viewer)`, and of what is narrower, exactly that. */
export const exactly = (viewer: Any): Viewer =>
  isSystem(viewer) ? make({ tenant: viewer.tenant }) : new Viewer({ ...viewer, reach: "exact" })

/** Seeing is owning: what a viewer sees it may change, but for instructions (`read_only`) and Global under `deny`. */
export const sees = (viewer: Any, scope: MemoryScope): boolean => {
  if (isSystem(viewer)) return true
  if (viewer.reach === "exact") {
    return scope === Global || fields.every((field) => scope[field] === undefined || same(scope[field], viewer[field]))
  }
  if (isInternal(scope)) return false
  return fields.every((field) => viewer[field] === undefined) || (scope !== Global && matchesScope(scope, viewer))
}
