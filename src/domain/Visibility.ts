/** The scopes that a viewer may see, as data that a database can put into a query. `Viewer` says what each reach means. */
import * as MemoryScope from "./MemoryScope.ts"
import * as Viewer from "./Viewer.ts"

export type Visibility =
  /** Every row, internal ones included: the library itself. */
  | { readonly _tag: "All" }
  /** Every row except internal ones: `Viewer.everyone`. */
  | { readonly _tag: "Everyone" }
  /** Exactly these scopes, as `MemoryScope.key`; at most 32, the subsets of five ids. */
  | { readonly _tag: "Scopes"; readonly keys: ReadonlyArray<string> }
  /** Every scope that has all of these ids; at least one id. Neither the global scope nor internal ones. */
  | { readonly _tag: "Within"; readonly ids: MemoryScope.Ids }

/** The tenant, the scopes of it and the time that a call may see. */
export interface Sight {
  /** After NFC. */
  readonly tenant: string
  readonly visibility: Visibility
  /** Epoch milliseconds. Rows with `expiresAt` at or before it are absent; −Infinity shows expired rows too. */
  readonly now: number
}

/** Returns the scopes that a viewer sees. `includes` agrees with `Viewer.sees` for every scope. */
export const of = (viewer: Viewer.Any): Visibility => {
  if (Viewer.isSystem(viewer)) return { _tag: "All" }
  if (viewer.reach === "everyone") return { _tag: "Everyone" }
  const ids = MemoryScope.normalise(Viewer.idsOf(viewer)) as MemoryScope.Ids // not Global
  if (viewer.reach === "within") return { _tag: "Within", ids }
  const scopes = MemoryScope.fields.reduce<ReadonlyArray<MemoryScope.Ids>>(
    (all, field) =>
      ids[field] === undefined ? all : [...all, ...all.map((scope) => ({ ...scope, [field]: ids[field] }))],
    [{}]
  )
  return { _tag: "Scopes", keys: [MemoryScope.Global, ...scopes.slice(1).map(MemoryScope.key)] }
}

/** Returns what a viewer sees at a time. The library itself sees expired rows too. */
export const sightOf = (viewer: Viewer.Any, now: number): Sight => ({
  tenant: Viewer.tenantOf(viewer),
  visibility: of(viewer),
  now: Viewer.isSystem(viewer) ? -Infinity : now
})

/** Makes the check of a scope; made once, it serves many rows. */
export const includes = (visibility: Visibility): (scope: MemoryScope.MemoryScope) => boolean => {
  switch (visibility._tag) {
    case "All":
      return () => true
    case "Everyone":
      return (scope) => !MemoryScope.isInternal(scope)
    case "Scopes": {
      const keys = new Set(visibility.keys)
      return (scope) => keys.has(MemoryScope.key(scope))
    }
    case "Within":
      return (scope) =>
        scope !== MemoryScope.Global && !MemoryScope.isInternal(scope) &&
        MemoryScope.matchesScope(scope, visibility.ids)
  }
}
