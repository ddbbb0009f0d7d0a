/** Random records, queries and vectors that together use most of the fields and clauses that a search takes into account. */
import type { MemoryFilter, MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import type { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import type { MemoryScope } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { uniform } from "./vectors.ts"
import { id, record, scopes as someScopes } from "./world.ts"

/** Name of the embedding model of the vectors; `dimensions` is their length. */
export const model = "m"
export const dimensions = 8

/** Makes a seeded random generator with helpers. */
export const random = (seed: number) => {
  const next = uniform(seed)
  const below = (n: number) => Math.floor(next() * n)
  const of = <A>(all: ReadonlyArray<A>): A => all[below(all.length)]!
  return {
    next,
    below,
    of,
    maybe: <A>(chance: number, make: () => A): A | undefined => next() < chance ? make() : undefined,
    many: <A>(n: number, make: () => A): Array<A> => Array.from({ length: n }, make)
  }
}
export type Random = ReturnType<typeof random>

/** The vocabulary. Earlier words are drawn more often than later ones. */
const words =
  ("tea coffee harbour boat Lisbon Berlin train ticket doctor violin lesson garden winter bread recipe budget " +
    "meeting deadline green black 京都 東京 café runner marathon knee surgeon passport visa flight").split(" ")
const word = ({ next }: Random) => words[Math.floor(next() ** 2 * words.length)]!
const textOf = (random: Random, most: number) => random.many(1 + random.below(most), () => word(random)).join(" ")

/** The scopes of records. Ada's is drawn twice as often as each other one. */
const scopes: ReadonlyArray<MemoryScope> = [{ userId: "ada" }, ...someScopes]
export const viewers: ReadonlyArray<Viewer.Any> = [
  Viewer.system(),
  Viewer.everyone(),
  Viewer.make({ userId: "ada" }),
  Viewer.make({ userId: "ada", reach: "within" }),
  Viewer.make({ userId: "zoë" }),
  Viewer.make({ userId: "bob", agentId: "pilot" }),
  Viewer.make({ userId: "ada", agentId: "pilot", reach: "within" }),
  Viewer.make({ userId: "nobody" })
]

const feeling = ({ next }: Random) => ({ V: 2 * next() - 1, A: next(), D: next() })

/** Makes a record; with the probability `repeating` (0..1) it repeats the text of another record. */
export const recordOf = (
  random: Random,
  n: number,
  others: ReadonlyArray<MemoryRecord>,
  repeating: number
): MemoryRecord => {
  const { below, maybe, next, of } = random
  const other = others.length > 0 && next() < repeating ? of(others) : undefined
  const body = other === undefined ? textOf(random, 14) : next() < 0.5 ? other.body : `${other.body.toUpperCase()}!`
  const createdAt = below(40)
  return record(`${n}`, {
    scope: of(scopes),
    kind: other?.kind ?? of(["note", "note", "user", "working"]),
    summary: other?.summary ?? textOf(random, 4),
    summaryDerived: other === undefined ? maybe(0.1, () => true as const) : other.summaryDerived,
    body,
    tags: maybe(0.3, () => [of(["tea", "Green", "東京", "black coffee"])]) ?? [],
    importance: of([0, 0.25, 0.5, 1]),
    confidence: maybe(0.3, next),
    data: maybe(0.2, () => ({ emotion: next() < 0.8 ? feeling(random) : "glad" })) ?? other?.data ?? {},
    metadata: maybe(0.2, () => ({ room: below(3) })) ?? {},
    source: {
      origin: "user",
      trust: of([0, 1, 2, 3] as const),
      session: maybe(0.5, () => of(["one", "two", "three"])),
      sequence: maybe(0.6, () => below(12))
    },
    createdAt,
    updatedAt: maybe(0.2, () => createdAt + below(9)),
    validAt: maybe(0.2, () => below(40)) ?? 0,
    invalidAt: maybe(0.15, () => below(60)),
    expiresAt: maybe(0.15, () => below(60))
  })
}

const filterOf = (random: Random): MemoryFilter => {
  const { below, maybe, next, of } = random
  return {
    scope: maybe(0.1, () => of(scopes)),
    kinds: maybe(0.15, () => [of(["note", "user", "working"])]),
    tags: maybe(0.1, () => ["TEA", "black coffee"]),
    ids: maybe(0.03, () => random.many(20, () => id(`${below(300)}`))),
    createdAt: maybe(0.1, () => ({ from: below(20), until: 20 + below(20) })),
    minImportance: maybe(0.1, () => 0.5),
    maxTrust: maybe(0.1, () => of([1, 2] as const)),
    asOf: maybe(0.1, () => below(60)),
    closed: maybe(0.1, () => next() < 0.5),
    where: maybe(0.1, () => ({ "metadata.room": { eq: below(3) } })),
    limit: maybe(0.7, () => 1 + below(next() < 0.1 ? 60 : 8))
  }
}

/** Makes a query with a random choice of clauses. */
export const queryOf = (random: Random): MemoryQuery => {
  const { below, maybe, next, of } = random
  return {
    ...filterOf(random),
    text: maybe(0.9, () => next() < 0.05 ? "the of 🙂" : textOf(random, 6)),
    embedding: maybe(0.5, () => ({ model: next() < 0.95 ? model : "none", vector: vectorOf(random) })),
    mode: maybe(0.4, () => of(["lexical", "vector", "hybrid"] as const)),
    minScore: maybe(0.2, () => of([0, 0.1, 0.3, 0.6, 1])),
    weights: maybe(0.4, () => ({
      lexical: maybe(0.3, () => of([0, 1, 3])),
      vector: maybe(0.3, () => of([0, 0.4, 2])),
      conversation: maybe(0.4, () => of([0, 0.5, 2])),
      recency: maybe(0.4, next),
      importance: maybe(0.4, next),
      confidence: maybe(0.3, next),
      emotion: maybe(0.3, next)
    })),
    emotion: maybe(0.3, () => feeling(random)),
    budget: maybe(0.2, () => 1 + below(200)),
    explain: maybe(0.5, () => true)
  }
}

/** Makes a vector near one of four centres. Components are multiples of 0.25, so that equal cosines are common. */
export const vectorOf = ({ below, next }: Random): Array<number> => {
  const centre = below(4)
  return Array.from({ length: dimensions }, (_, i) => (i % 4 === centre ? 1 : 0) + Math.round((next() - 0.5) * 4) / 4)
}

/** Parameters of the worlds: number of records, and the share of them (0..1) that repeat another. */
export const worlds = [
  { seed: 1, size: 60, repeating: 0.3 },
  { seed: 2, size: 300, repeating: 0.2 },
  { seed: 3, size: 300, repeating: 0 },
  { seed: 4, size: 250, repeating: 0.9 },
  { seed: 5, size: 400, repeating: 0.5 }
]
