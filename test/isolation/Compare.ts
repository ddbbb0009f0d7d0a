/**
 * Compares two answers as JSON. If `exact` is false, ids and the hashes in cursors may differ, but the ids are paired: throughout a run,
 * an id of one store must stand for the same id of the other store, and the ids of both must have the same order.
 */
export interface Difference {
  /** Path into the answers, such as `answer.hits.0.score`, or a description, such as `a defect`. */
  readonly path: string
  readonly alone: unknown
  readonly crowded: unknown
}

/** Matches an id; in a cursor, also the hash after it. The hash is computed from ids, too, so it differs if the ids differ. */
const token = /[0-9A-HJKMNP-TV-Z]{26}(?:-[0-9a-f]{32}(?![0-9a-f]))?/g

/** Compares the answers of a run. Unless `exact`, pairs the ids of both stores: an id of one always stands for the same id of the other. */
export class Comparison {
  readonly #exact: boolean

  /** Whether ids that the stores generated must be equal; if false, the ids of one store are only paired with those of the other. */
  constructor({ exact }: { readonly exact: boolean }) {
    this.#exact = exact
  }

  readonly #crowdedOf = new Map<string, string>()
  readonly #aloneOf = new Map<string, string>()

  /** Returns the first difference of two answers, compared as JSON; `undefined` if they are equal. */
  answers(alone: unknown, crowded: unknown): Difference | undefined {
    const [a, b] = [JSON.stringify(alone) ?? "", JSON.stringify(crowded) ?? ""]
    return this.#texts(a, b) ? undefined : this.#first(parsed(a), parsed(b), [])
  }

  /** Returns the first two ids whose order differs in the crowded store (with foreign records); `undefined` if there are none. */
  order(): Difference | undefined {
    const pairs = Array.from(this.#crowdedOf).sort(([a], [b]) => a < b ? -1 : 1)
    const at = pairs.findIndex(([, crowded], n) => n > 0 && pairs[n - 1]![1] >= crowded)
    return at < 0 ? undefined : {
      path: "order of minted ids",
      alone: [pairs[at - 1]![0], pairs[at]![0]],
      crowded: [pairs[at - 1]![1], pairs[at]![1]]
    }
  }

  /** Returns the id that the store without foreign records has for an id of the crowded store; the id itself if it is not paired. */
  aloneOf(crowded: string): string {
    return this.#aloneOf.get(crowded) ?? crowded
  }

  #texts(alone: string, crowded: string): boolean {
    const ids = alone.match(token) ?? []
    const others = crowded.match(token) ?? []
    return ids.length === others.length && ids.every((id, n) => this.#paired(id, others[n]!)) &&
      (alone === crowded || alone.replace(token, "#") === crowded.replace(token, "#"))
  }

  #paired(alone: string, crowded: string): boolean {
    const [a, b] = [alone.slice(0, 26), crowded.slice(0, 26)]
    if (this.#exact) return alone === crowded
    const [known, back] = [this.#crowdedOf.get(a), this.#aloneOf.get(b)]
    if (known !== undefined || back !== undefined) return known === b && back === a
    this.#crowdedOf.set(a, b)
    this.#aloneOf.set(b, a)
    return true
  }

  #first(alone: unknown, crowded: unknown, path: ReadonlyArray<string>): Difference {
    if (isObject(alone) && isObject(crowded)) {
      for (const key of new Set([...Object.keys(alone), ...Object.keys(crowded)])) {
        const [a, b] = [alone[key], crowded[key]]
        if (!this.#texts(JSON.stringify(a) ?? "", JSON.stringify(b) ?? "")) return this.#first(a, b, [...path, key])
      }
    }
    return { path: path.join("."), alone, crowded }
  }
}

const parsed = (text: string): unknown => text === "" ? undefined : JSON.parse(text)
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null
