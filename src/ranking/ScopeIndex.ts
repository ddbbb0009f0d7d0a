/** The exact scopes that records stand in, numbered, and which of them are in sight. */
import * as MemoryScope from "../domain/MemoryScope.ts"
import * as Visibility from "../domain/Visibility.ts"

export class ScopeIndex {
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
   * Returns the scopes in sight; `undefined` stands for all of them. Cost: of exact scopes a look-up each, whatever the number
   * of scopes; of those within some ids, the scopes that have the rarest of these.
   */
  seenBy(visibility: Visibility.Visibility): ReadonlyArray<number> | undefined {
    switch (visibility._tag) {
      case "All":
        return undefined
      case "Everyone":
        return this.#numbers.has(internal) ? this.#included(visibility, this.all.keys()) : undefined
      case "Scopes":
        return visibility.keys.flatMap((key) => this.#numbers.get(key) ?? [])
      case "Within": {
        const ids = idsOf(visibility.ids)
        const having = ids.map((id) => this.#having.get(id) ?? [])
        const fewest = having.reduce((least, scopes) => scopes.length < least.length ? scopes : least)
        return ids.length === 1 ? fewest : this.#included(visibility, fewest)
      }
    }
  }

  #included(visibility: Visibility.Visibility, numbers: Iterable<number>): ReadonlyArray<number> {
    const includes = Visibility.includes(visibility)
    return Array.from(numbers).filter((number) => includes(this.all[number]!))
  }
}

const internal = MemoryScope.key(MemoryScope.Internal)

const idsOf = (ids: MemoryScope.Ids): ReadonlyArray<string> =>
  MemoryScope.fields.flatMap((field) => ids[field] === undefined ? [] : [MemoryScope.key({ [field]: ids[field] })])
