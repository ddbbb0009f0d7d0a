/** What a text claims of where it belongs, held against where it lies. Left: what they disagree about. */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as MemoryScope from "../../../domain/MemoryScope.ts"
import * as Layout from "./Layout.ts"

/** Whether it says that we wrote it: then it says all of where it belongs, and a copy elsewhere gives itself away. */
export const isOurs = ({ hash }: Readonly<Record<string, unknown>>): boolean =>
  typeof hash === "string" && /^[0-9a-f]{64}$/.test(hash)

export const tenantOf = (
  place: Layout.Place,
  matter: Readonly<Record<string, unknown>>
): Either.Either<string, string> => {
  const { tenant } = matter
  if (place.tenant === undefined) {
    return tenant === undefined || tenant === "default"
      ? Either.right("default")
      : Either.left("tenant: the folder says default")
  }
  if (tenant === undefined && isOurs(matter)) return Either.left("tenant: the text says default")
  if (tenant === undefined) {
    return Either.fromNullable(Layout.idOf(place.tenant), () => "tenant: the folder's name is a hash; say it here")
  }
  return isScopeId(tenant) && Layout.stands(place.tenant, tenant)
    ? Either.right(tenant.normalize("NFC"))
    : Either.left("tenant: the folder says another")
}

export const scopeOf = (
  place: Layout.Place,
  matter: Readonly<Record<string, unknown>>
): Either.Either<MemoryScope.MemoryScope, string> =>
  Either.gen(function*() {
    if (place.scope === Layout.internal) return MemoryScope.Internal
    const ids: Record<string, string> = {}
    for (const field of MemoryScope.fields) {
      const segment = place.scope === MemoryScope.Global ? undefined : place.scope.get(field)
      const said = matter[field]
      if (said !== undefined && !isScopeId(said)) return yield* Either.left(`${field}: not an id`)
      if (segment !== undefined && said !== undefined && !Layout.stands(segment, said)) {
        return yield* Either.left(`${field}: the folder says another`)
      }
      if (segment !== undefined && said === undefined && isOurs(matter)) {
        return yield* Either.left(`${field}: the text says none`)
      }
      if (segment !== undefined && said === undefined && Layout.idOf(segment) === undefined) {
        return yield* Either.left(`${field}: the folder's name is a hash; say it here`)
      }
      const id = said ?? (segment === undefined ? undefined : Layout.idOf(segment))
      if (id !== undefined) ids[field] = id.normalize("NFC")
    }
    if (place.scope === MemoryScope.Global) {
      return Object.keys(ids).length === 0
        ? yield* agreed(MemoryScope.Global, matter)
        : yield* Either.left("scope: the folder says global")
    }
    return yield* agreed(ids, matter)
  })

/** Tenant and scope of a foreign note, and the properties that name them. */
export interface Belonging {
  readonly tenant: string
  readonly scope: MemoryScope.MemoryScope
  readonly said: ReadonlySet<string>
}

/**
 * The folder decides; what the text says may narrow it, and never moves the note to another tenant or id: such a property is
 * its author's. Left: the folder's name is a hash, and the text does not say of which id.
 */
export const belonging = (
  place: Layout.Place,
  matter: Readonly<Record<string, unknown>>
): Either.Either<Belonging, string> => {
  const said = new Set<string>()
  const idIn = (field: string, segment: string | undefined): Either.Either<string | undefined, string> => {
    const value = textOf(matter[field])
    const claimed = isScopeId(value) ? value.normalize("NFC") : undefined
    const isMeant = claimed !== undefined && (segment === undefined || Layout.stands(segment, claimed))
    if (isMeant) said.add(field)
    if (isMeant || segment === undefined) return Either.right(isMeant ? claimed : undefined)
    return Either.fromNullable(Layout.idOf(segment), () => `${field}: the folder's name is a hash; say it here`)
  }
  const tenant = place.tenant === undefined ? Either.right(undefined) : idIn("tenant", place.tenant)
  if (Either.isLeft(tenant)) return Either.left(tenant.left)
  if (place.tenant === undefined && matter["tenant"] === "default") said.add("tenant")
  const ids: Record<string, string> = {}
  for (const field of MemoryScope.fields) {
    const id = idIn(field, typeof place.scope === "string" ? undefined : place.scope.get(field))
    if (Either.isLeft(id)) return Either.left(id.left)
    if (id.right !== undefined) ids[field] = id.right
  }
  const scope = Object.keys(ids).length === 0 ? MemoryScope.Global : ids
  return Either.right({ tenant: tenant.right ?? "default", scope, said })
}

const textOf = (value: unknown): unknown => typeof value === "number" ? String(value) : value

/** Drover's word for a scope, where there is one. */
const agreed = (scope: MemoryScope.MemoryScope, { scope: said }: Readonly<Record<string, unknown>>) => {
  const word = scope === MemoryScope.Global
    ? "global"
    : scope.runId !== undefined
    ? "run"
    : scope.agentId !== undefined
    ? "agent"
    : undefined
  return said === undefined || said === word ? Either.right(scope) : Either.left("scope: the folder says another")
}

const isScopeId = Schema.is(MemoryScope.ScopeId)
