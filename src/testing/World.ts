/** Generators of test values with few words, ids and scopes, so that random values often collide. */
import * as FastCheck from "effect/FastCheck"
import type { Draft, Patch } from "../domain/MemoryRecord.ts"
import type { MemoryScope } from "../domain/MemoryScope.ts"
import * as Viewer from "../domain/Viewer.ts"
import { id } from "./Sample.ts"

const { array, constant, constantFrom, integer, oneof, record } = FastCheck

/** Generates a value with probability 1/6, else `undefined`. */
export const rarely = <A>(arbitrary: FastCheck.Arbitrary<A>) =>
  oneof({ weight: 5, arbitrary: constant(undefined) }, { weight: 1, arbitrary })
/** Generates a value with probability 1/2, else `undefined`. */
export const often = <A>(arbitrary: FastCheck.Arbitrary<A>) =>
  oneof({ weight: 1, arbitrary: constant(undefined) }, { weight: 1, arbitrary })

/** Generates scopes. */
export const scope: FastCheck.Arbitrary<MemoryScope> = constantFrom<Array<MemoryScope>>(
  "global",
  { userId: "ada" },
  { userId: "bob" },
  { agentId: "pilot" },
  { userId: "ada", agentId: "pilot" },
  { userId: "ada", sessionId: "s" }
)
const body = constantFrom(
  "green tea",
  "tea, green tea",
  "black coffee",
  "water and tea",
  " ",
  "the sea",
  "see [[Tea]]",
  "[[the sea|sea]] and [[Hot/DRINKS]]",
  `[[${id("a")}]] or [[green tea]]`
)
const links = array(
  record({
    to: constantFrom("a", "b", "c").map((name) => id(name)),
    type: constantFrom("x", "y"),
    weight: constant(1)
  }),
  { maxLength: 2 }
)
/** Generates up to two tags. */
export const tags = array(constantFrom("hot", "Cold", "drinks"), { maxLength: 2 })
/** Generates names of kinds; half of them are `user`. */
export const kind = constantFrom("user", "user", "reference", "working")
/** Generates importances. */
export const importance = constantFrom(0, 0.2, 0.5, 1)
/** Generates texts to search for. */
export const text = constantFrom("tea", "green", "coffee drinks", "the", "sea", "nothing of it")
/** Generates times in epoch milliseconds. */
export const time = constantFrom(0, 100, 10_000, 100_000, 10_000_000)
/** Generates values of `ifRevision`: a revision with probability 1/6, else `undefined`. */
export const revision = rarely(integer({ min: 0, max: 5 }))

/** Generates viewers of two tenants: some of every reach (`exact`, `within` and `everyone`), and the viewer `System`. */
export const viewer: FastCheck.Arbitrary<Viewer.Any> = constantFrom<Array<Viewer.Any>>(
  Viewer.make({ userId: "ada" }),
  Viewer.make({ userId: "bob" }),
  Viewer.make({ userId: "ada", agentId: "pilot" }),
  Viewer.make({ userId: "ada", reach: "within" }),
  Viewer.make({ agentId: "pilot", reach: "within" }),
  Viewer.everyone(),
  Viewer.make({ tenant: "elsewhere", userId: "ada" }),
  Viewer.system(),
  Viewer.system("elsewhere")
)

/** Generates drafts without an id. */
export const draft: FastCheck.Arbitrary<Draft> = record({
  scope,
  kind,
  body,
  summary: rarely(constantFrom("Drinks", "Tea")),
  tags,
  importance: rarely(importance),
  links: rarely(links),
  data: rarely(constantFrom({}, { n: 1 }, { n: 2 })),
  validAt: rarely(time),
  invalidAt: rarely(time),
  expiresAt: rarely(time),
  source: rarely(record({ session: constantFrom("one", "two"), sequence: often(integer({ min: 0, max: 3 })) }))
})

/** Generates patches. */
export const patch: FastCheck.Arbitrary<Patch> = record({
  body: often(body),
  summary: rarely(constantFrom("Drinks", "Tea")),
  tags: rarely(tags),
  importance: rarely(importance),
  confidence: rarely(constantFrom(null, 0.1)),
  links: rarely(links),
  data: rarely(constantFrom({}, { n: 1 }, { n: 2 })),
  metadata: rarely(constantFrom({}, { m: 1 })),
  invalidAt: rarely(oneof(constant(null), time)),
  expiresAt: rarely(oneof(constant(null), time))
})
