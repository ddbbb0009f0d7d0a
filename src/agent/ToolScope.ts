/** Scopes as a model names them: one word, which the viewer's ids make a scope of. */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryScope from "../domain/MemoryScope.ts"
import * as Viewer from "../domain/Viewer.ts"

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
export const readable = (viewer: Viewer.Viewer): ReadonlyArray<Name> =>
  viewer.reach === "exact"
    ? writable(viewer)
    : Name.literals.slice(Name.literals.findIndex((name) => name === nameOf(pick(viewer, MemoryScope.fields))))

/** By the narrowest id that says whose it is. */
export const nameOf = (scope: MemoryScope.MemoryScope): Name | "actor" =>
  scope === MemoryScope.Global || Object.keys(scope).length === 0
    ? "global"
    : narrowestFirst.find((name) => scope[idOf[name]] !== undefined) ?? "actor"

/**
 * Of an `exact` viewer: the viewer, and the filter, that see of what he sees the records of that name and no others.
 * Never of a `within` viewer, whose ids are conditions: fewer of them would show more.
 */
export const only = (viewer: Viewer.Viewer, name: Name): {
  readonly viewer: Viewer.Viewer
  readonly scope: MemoryScope.MemoryScope
} => {
  if (name === "global") return { viewer, scope: MemoryScope.Global }
  const narrowed = Viewer.make({ tenant: viewer.tenant, ...pick(viewer, [...wider[name], idOf[name], "actorId"]) })
  return { viewer: narrowed, scope: pick(viewer, [idOf[name]]) }
}

const narrowestFirst = ["run", "session", "agent", "user"] as const

const idOf = { user: "userId", agent: "agentId", session: "sessionId", run: "runId" } as const

const owner = {
  user: ["userId"],
  agent: ["agentId"],
  session: ["userId", "sessionId"],
  run: ["agentId", "runId"]
} as const

const wider = {
  user: [],
  agent: ["userId"],
  session: ["userId", "agentId"],
  run: ["userId", "agentId", "sessionId"]
} as const

const pick = (viewer: Viewer.Viewer, fields: ReadonlyArray<MemoryScope.Field>): MemoryScope.Ids =>
  Object.fromEntries(fields.flatMap((field) => viewer[field] === undefined ? [] : [[field, viewer[field]]]))
