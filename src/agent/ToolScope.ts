/** Scopes as a model names them: one word, which the viewer's ids make a scope of. */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import type * as Viewer from "../domain/Viewer.ts"

/** From everyone's to the narrowest. */
export const Name = Schema.Literal("global", "user", "agent", "session", "run")
export type Name = typeof Name.Type

/** A tool that takes any name and is told of these only: a wrong one is then `invalid_scope`, in words. */
export const oneOf = (names: ReadonlyArray<Name>, description: string) =>
  Name.annotations({
    description,
    jsonSchema: { type: "string", enum: names.length > 0 ? names : Name.literals, description }
  })

/**
 * Whose a memory of that name is: a run is its agent's, a session its user's. `None` where the viewer has no such id.
 * A `within` viewer writes under all of his ids, and nowhere else.
 */
export const scopeOf = (viewer: Viewer.Viewer, name: Name): Option.Option<MemoryScope.MemoryScope> => {
  const all = pick(viewer, MemoryScope.fields)
  if (viewer.reach === "within" && nameOf(all) !== name) return Option.none()
  if (name === "global") return Option.some(MemoryScope.Global)
  if (viewer.reach === "within") return Option.some(all)
  return viewer[idOf[name]] === undefined ? Option.none() : Option.some(pick(viewer, owner[name]))
}

export const writable = (viewer: Viewer.Viewer): ReadonlyArray<Name> =>
  Name.literals.filter((name) => Option.isSome(scopeOf(viewer, name)))

/** Those under which the viewer may see something: of a `within` viewer, his own and all that is narrower. */
export const readable = (viewer: Viewer.Viewer): ReadonlyArray<Name> => {
  if (viewer.reach === "exact") return writable(viewer)
  const own = nameOf(pick(viewer, MemoryScope.fields))
  return Name.literals.slice(own === "actor" ? 1 : Name.literals.indexOf(own)) // beside an actor's id there may be any
}

/** By the narrowest id that says whose it is. */
export const nameOf = (scope: MemoryScope.MemoryScope): Name | "actor" =>
  scope === MemoryScope.Global || Object.keys(scope).length === 0
    ? "global"
    : narrowestFirst.find((name) => scope[idOf[name]] !== undefined) ?? "actor"

/** Of what a viewer sees, the records of that name and no others. */
export const only = (name: Name): Pick<MemoryFilter, "scope" | "where"> =>
  name === "global" ? { scope: MemoryScope.Global } : {
    where: Object.fromEntries(
      narrowestFirst.slice(0, narrowestFirst.indexOf(name) + 1)
        .map((other) => [`scope.${idOf[other]}`, { exists: other === name }])
    )
  }

const narrowestFirst = ["run", "session", "agent", "user"] as const

const idOf = { user: "userId", agent: "agentId", session: "sessionId", run: "runId" } as const

const owner = {
  user: ["userId"],
  agent: ["agentId"],
  session: ["userId", "sessionId"],
  run: ["agentId", "runId"]
} as const

const pick = (viewer: Viewer.Viewer, fields: ReadonlyArray<MemoryScope.Field>): MemoryScope.Ids =>
  Object.fromEntries(fields.flatMap((field) => viewer[field] === undefined ? [] : [[field, viewer[field]]]))
