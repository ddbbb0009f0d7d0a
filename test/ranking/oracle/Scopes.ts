/** The exact scopes that records stand in, numbered, and which of them a viewer sees. */
import * as MemoryScope from "../../../src/domain/MemoryScope.ts"
import * as Viewer from "../../../src/domain/Viewer.ts"

export class Scopes {
  readonly all: Array<MemoryScope.MemoryScope> = []
  readonly #numbers = new Map<string, number>()
  /** By one id, `userId=ada`: the scopes that have it. */
  readonly #having = new Map<string, Array<number>>()

  /** From 0; the same for equal scopes. */
  numberOf(scope: MemoryScope.MemoryScope): number {
    const key = MemoryScope.key(scope)
    const known = this.#numbers.get(key)
    if (known !== undefined) return known
    const number = this.all.push(scope) - 1
    this.#numbers.set(key, number)
    if (scope === MemoryScope.Global) return number
    for (const id of idsOf(scope)) {
      const having = this.#having.get(id)
      if (having) having.push(number)
      else this.#having.set(id, [number])
    }
    return number
  }

  /**
   * `undefined`: all of them, which the library alone sees where it has rows of its own. Cost: of an `exact` viewer at most 32 look-ups, whatever the number of scopes; of one
   * `within`, the scopes that have the rarest of his ids.
   */
  seenBy(viewer: Viewer.Any): ReadonlyArray<number> | undefined {
    if (Viewer.isSystem(viewer)) return undefined
    if (viewer.reach === "exact") {
      return subsets(viewer).flatMap((scope) => this.#numbers.get(MemoryScope.key(scope)) ?? [])
    }
    if (viewer.reach === "everyone") return this.#numbers.has(internal) ? this.#ofOthers() : undefined
    const ids = idsOf(viewer)
    const having = ids.map((id) => this.#having.get(id) ?? [])
    const fewest = having.reduce((least, scopes) => scopes.length < least.length ? scopes : least)
    return ids.length === 1 ? fewest : fewest.filter((number) => Viewer.sees(viewer, this.all[number]!))
  }

  #ofOthers(): ReadonlyArray<number> {
    return Array.from(this.all.keys()).filter((number) => !MemoryScope.isInternal(this.all[number]!))
  }
}

const internal = MemoryScope.key(MemoryScope.Internal)

const idsOf = (ids: MemoryScope.Ids): ReadonlyArray<string> =>
  MemoryScope.fields.flatMap((field) => ids[field] === undefined ? [] : [MemoryScope.key({ [field]: ids[field] })])

/** Every scope that has some of these ids and no others: the global one has none. */
const subsets = (ids: MemoryScope.Ids): ReadonlyArray<MemoryScope.MemoryScope> => {
  const found: Array<MemoryScope.Ids> = [{}]
  for (const field of MemoryScope.fields) {
    if (ids[field] !== undefined) found.push(...found.map((scope) => ({ ...scope, [field]: ids[field] })))
  }
  return [MemoryScope.Global, ...found.slice(1)]
}
