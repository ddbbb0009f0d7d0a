/**
 * The terms in which tools speak of memory to a model: names of scopes, ids, and the provenance of a record, which says what
 * wrote it and how far it is trusted.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import { type MemoryRecord, Origin, Trust } from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import * as Sharing from "../domain/Sharing.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { MemorySpec } from "../harness/MemorySpec.ts"

/** Names of scopes, from everyone's to the narrowest: one word, which the viewer's ids make a scope of. */
export const Name = Schema.Literal("global", "user", "agent", "session", "run")
export type Name = typeof Name.Type

/** Name of a record's scope. The scope of an actor alone is `actor`, which no tool offers a model to choose. */
export const Shown = Schema.Literal(...Name.literals, "actor")
export type Shown = typeof Shown.Type

/** Schema that accepts any name, but tells the model of these only: a wrong name is then `invalid_scope`, in words. */
export const oneOf = (names: ReadonlyArray<Name>, description: string) =>
  Name.annotations({
    description,
    jsonSchema: { type: "string", enum: names.length > 0 ? names : Name.literals, description }
  })

/**
 * The scopes that a model may write for the viewer, by the names that a tool offers, from everyone's to the narrowest.
 *
 * ```text
 * a user               user, session and run of this user
 * an agent or run      agent, run, global
 * any other viewer     the scope of all the viewer's ids, named after the narrowest one
 * within               the scope of all the viewer's ids, since it sees no broader one
 * ```
 *
 * `sharedWrites` adds `agent` and `global`; `globalWrites: "deny"` takes `global` away.
 */
export const writable = (
  viewer: Viewer.Viewer,
  { globalWrites, sharedWrites }: Pick<MemorySpec, "globalWrites" | "sharedWrites">
): ReadonlyMap<Name, MemoryScope.MemoryScope> => {
  const { agentId, runId, sessionId, userId } = viewer
  const candidates: ReadonlyArray<MemoryScope.MemoryScope | false> = [
    (userId === undefined || viewer.reach === "within") && Viewer.scopeOf(viewer),
    userId !== undefined && { userId },
    userId !== undefined && sessionId !== undefined && { userId, sessionId },
    userId !== undefined && runId !== undefined && { userId, runId },
    agentId !== undefined && { agentId },
    globalWrites === "allow" && MemoryScope.Global
  ]
  const open = candidates.filter((scope) => scope !== false && Sharing.mayWrite(viewer, scope, sharedWrites))
  return new Map(Name.literals.flatMap((name) => {
    const scope = open.find((scope) => scope !== false && nameOf(scope) === name)
    return scope ? [[name, scope] as const] : []
  }))
}

/** Returns the names of scopes in which the viewer may see records: its own and, with reach `within`, all narrower ones. */
export const readable = (viewer: Viewer.Viewer): ReadonlyArray<Name> => {
  if (viewer.reach === "exact") {
    return Name.literals.filter((name) => name === "global" || viewer[idOf[name]] !== undefined)
  }
  const own = nameOf(Viewer.scopeOf(viewer))
  return Name.literals.slice(own === "actor" ? 1 : Name.literals.indexOf(own)) // beside an actor's id there may be any
}

/** Names a scope after its narrowest id. */
export const nameOf = (scope: MemoryScope.MemoryScope): Shown =>
  scope === MemoryScope.Global || Object.keys(scope).length === 0
    ? "global"
    : narrowestFirst.find((name) => scope[idOf[name]] !== undefined) ?? "actor"

/** Selects the records with a scope of that name. */
export const only = (name: Name): Pick<MemoryFilter, "scope" | "where"> =>
  name === "global" ? { scope: MemoryScope.Global } : {
    where: Object.fromEntries(
      narrowestFirst.slice(0, narrowestFirst.indexOf(name) + 1)
        .map((other) => [`scope.${idOf[other]}`, { exists: other === name }])
    )
  }

/** Fields for the output schema of a tool that shows records; `provenanceOf` fills them. */
export const provenance = {
  origin: Origin,
  /** 0 is the most trusted, 3 the least. */
  trust: Trust
}

/** Returns the provenance fields of a record. */
export const provenanceOf = (
  { source: { origin, trust } }: MemoryRecord
): Pick<MemoryRecord["source"], "origin" | "trust"> => ({
  origin,
  trust
})

/** Decodes an id that a model gave. Fails with `invalid_id`. */
export const decodedId = (op: string, id: string): Effect.Effect<MemoryId, MemoryError.MemoryError> =>
  Effect.mapError(
    Schema.decode(MemoryId)(id),
    ({ message }) => MemoryError.make("invalid_id", { op, message: `id: ${message}` })
  )

const narrowestFirst = ["run", "session", "agent", "user"] as const

const idOf = { user: "userId", agent: "agentId", session: "sessionId", run: "runId" } as const
