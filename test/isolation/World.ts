/**
 * Random worlds. A world is a list of steps for two stores. Operations of the group, the viewers whose answers are compared, run on both
 * stores; operations of foreign viewers run on one store only, the crowded one. A viewer is foreign if no viewer of the group can see what
 * it writes. Only the group writes records that its viewers see, such as Global ones, so both stores have them.
 */
import type { MemoryFilter } from "../../src/domain/MemoryFilter.ts"
import { fields, Global, type Ids, type MemoryScope } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import type { Provenance } from "../../src/storage/MemoryStore.ts"
import * as Agent from "./Agent.ts"
import { Dice } from "./Dice.ts"
import type { DraftPlan, FilterPlan, MutationPlan, Name, Operation, PatchPlan, QueryPlan } from "./Operation.ts"

export type Step =
  /** An operation of the group, run on both stores; the answers are compared. */
  | { readonly step: "ask"; readonly viewer: Viewer.Any; readonly operation: Operation }
  /** An operation of a foreign viewer, run on the crowded store only. */
  | { readonly step: "foreign"; readonly viewer: Viewer.Any; readonly operation: Operation }
  | { readonly step: "wait"; readonly millis: number }
  /** Compacts both stores. */
  | { readonly step: "compact" }
  /** Adds vectors for a share (0..1) of the texts that have none; the hash of a text decides whether it belongs to the share. */
  | { readonly step: "embed"; readonly share: number }

export interface World {
  readonly seed: number
  readonly tenant: string
  readonly group: ReadonlyArray<Viewer.Any>
  readonly vectors: boolean
  /** Whether the viewers use agents: a service with tools, pipeline and outbox, built on the store. */
  readonly agents: boolean
  readonly steps: ReadonlyArray<Step>
}

export interface Options {
  /** Number of steps; about six of ten are operations whose answers are compared. */
  readonly steps: number
  /** Whether half of the operations are calls of agents. Default false. */
  readonly agents?: boolean | undefined
}

/**
 * The only differences that the writes of others may make to a viewer's answers. Everything else must be equal.
 *
 * A `put` fails with `invalid_id` if its author chose an id that a foreign record of the same tenant has, since ids are unique in a tenant.
 * The operation is then not run on the store without foreign records.
 *
 * With agents, the random digits of generated ids differ, and so do the seals of cursors that contain such ids, since one flush generates
 * ids for the messages of all viewers. So each id of one store is paired with an id of the other, and only the order of ids is compared.
 * Without agents, ids are equal, as long as no id of a foreign record of the same tenant is generated in the same millisecond.
 *
 * Within a tenant, equal texts have one vector, whoever wrote them, and all vectors of a model have one length. So in worlds with vectors,
 * a foreign text of the same tenant never equals a text of the group. A vector whose text no record has any more is erased at the next
 * purge in the tenant; therefore both stores erase such vectors after each write of the group and before each compaction. Different
 * tenants have equal texts and models, and vectors of different lengths.
 */
export const knownDifferences = ["claimed id"] as const
export type KnownDifference = typeof knownDifferences[number]

export const models = ["m", "n"] as const

/** Makes the viewer who sees every record of a tenant. */
export const everyone = (tenant: string): Viewer.Viewer => Viewer.everyone(tenant)

export const isSeenBy = (group: ReadonlyArray<Viewer.Any>, tenant: string, scope: MemoryScope): boolean =>
  group.some((viewer) => Viewer.tenantOf(viewer) === tenant.normalize("NFC") && Viewer.sees(viewer, scope))

export const make = (seed: number, { agents = false, steps }: Options): World => {
  const dice = new Dice(seed)
  const tenant = dice.pick(tenants)
  const vectors = dice.chance(0.5)
  const group = dice.many(1, dice.pick([1, 1, 2, 3]), () => someone(dice, tenant))
  const foreigners = { agents, group, tenant, vectors }
  return {
    seed,
    tenant,
    group,
    vectors,
    agents,
    steps: Array.from({ length: steps }, (): Step => {
      switch (dice.weighted({ ask: 60, foreign: 34, wait: 6, compact: 1, embed: vectors ? 5 : 0 })) {
        case "ask": {
          const viewer = dice.pick(group)
          const author = writer(dice, viewer)
          return {
            step: "ask",
            viewer,
            operation: agents && dice.chance(0.5)
              ? { op: "call", call: Agent.make(dice, { ...author, isForeign: false }) }
              : operation(dice, author, vectors)
          }
        }
        case "foreign":
          return foreign(dice, foreigners)
        case "wait":
          return { step: "wait", millis: dice.pick([1, 10, 100, 2_000, 60_000, 3_600_000, 86_400_000]) }
        case "compact":
          return { step: "compact" }
        case "embed":
          return { step: "embed", share: dice.pick([0.3, 0.7, 1, 1]) }
      }
    }).map(ofTrash(new Dice(seed)))
  }
}

/** Makes some lists return forgotten records. Needs dice of its own, so that the other random choices of a world stay the same. */
const ofTrash = (dice: Dice) => (step: Step): Step =>
  "operation" in step && "filter" in step.operation && dice.chance(0.3)
    ? { ...step, operation: { ...step.operation, filter: { ...step.operation.filter, forgotten: true } } }
    : step

const tenants = ["default", "acme", "gl\u00f6bex"] as const
/** Ids that scopes and viewers have, by field. `zoé` occurs in two Unicode forms, which are the same user. */
const names = {
  userId: ["ada", "bob", "zo\u00e9", "zoe\u0301"],
  agentId: ["pilot", "clerk"],
  runId: ["r1", "r2"],
  sessionId: ["s1", "s2"],
  actorId: ["c1"]
} as const

const someIds = (dice: Dice): Ids =>
  Object.fromEntries(
    fields.flatMap((field) => dice.chance(field === "userId" ? 0.6 : 0.3) ? [[field, dice.pick(names[field])]] : [])
  )
const isNobody = (ids: Ids) => Object.keys(ids).length === 0

const someone = (dice: Dice, tenant: string): Viewer.Any => {
  if (dice.chance(0.04)) return Viewer.system(tenant)
  const ids = someIds(dice)
  const reach = dice.chance(0.3) ? "within" : "exact"
  return isNobody(ids) && reach === "within" ? everyone(tenant) : Viewer.make({ tenant, ...ids, reach })
}

/** Picks any scope, Global included. */
const anyScope = (dice: Dice): MemoryScope => {
  const ids = someIds(dice)
  return isNobody(ids) || dice.chance(0.1) ? Global : ids
}
/** Picks a scope, mostly one that the viewer sees. */
const scopeFor = (dice: Dice, viewer: Viewer.Any): MemoryScope => {
  if (Viewer.isSystem(viewer) || dice.chance(0.08)) return anyScope(dice)
  const own = fields.flatMap((field) => viewer[field] === undefined ? [] : [[field, viewer[field]] as const])
  const ids: Ids = viewer.reach === "exact"
    ? Object.fromEntries(dice.subset(own, 0.6))
    : { ...someIds(dice), ...Object.fromEntries(own) }
  return isNobody(ids) ? Global : ids
}

/** Functions that choose the random contents of a viewer's drafts. */
interface Author {
  readonly scope: () => MemoryScope
  readonly name: () => Name
  /** Chooses an id that a draft may have. */
  readonly claim: () => Name
  readonly text: () => string
}

const writer = (dice: Dice, viewer: Viewer.Any): Author => ({
  scope: () => scopeFor(dice, viewer),
  name: () =>
    dice.chance(0.4)
      ? { minted: dice.below(8) }
      : dice.chance(0.5)
      ? { own: dice.pick(ownIds) }
      : { foreign: dice.below(8) },
  claim: () => dice.chance(0.9) ? { own: dice.pick(ownIds) } : { foreign: dice.below(8) },
  text: () => dice.pick(bodies)
})

const ownIds = ["a", "b", "c", "d"]

const foreign = (
  dice: Dice,
  { agents, group, tenant, vectors }: {
    readonly agents: boolean
    readonly group: ReadonlyArray<Viewer.Any>
    readonly tenant: string
    readonly vectors: boolean
  }
): Step => {
  const unseen = Array.from({ length: 10 }, () => anyScope(dice)).find((scope) => !isSeenBy(group, tenant, scope))
  const isHere = unseen !== undefined && dice.chance(0.65)
  const home = isHere ? tenant : dice.pick(tenants.filter((other) => other !== tenant))
  const scope = isHere ? unseen : anyScope(dice)
  const viewer = dice.chance(0.1)
    ? Viewer.system(home)
    : dice.chance(0.1)
    ? everyone(home)
    : Viewer.make({ tenant: home, ...(scope === Global ? someIds(dice) : { ...someIds(dice), ...scope }) })
  const suffix = vectors && isHere ? " ~" : ""
  const author: Author = {
    scope: () => scope,
    name: () =>
      dice.chance(0.6) ? { foreign: dice.below(8) } : { own: dice.pick(isHere ? [...ownIds, "x", "y"] : ownIds) },
    claim: () => ({ own: dice.chance(isHere ? 0.15 : 0.8) ? dice.pick(ownIds) : dice.pick(["x", "y", "z"]) }),
    text: () => `${dice.pick(bodies.slice(1))}${suffix}`
  }
  if (agents && dice.chance(0.5)) {
    return {
      step: "foreign",
      viewer,
      operation: { op: "call", call: Agent.make(dice, { ...author, isForeign: true }) }
    }
  }
  // often makes puts, lists, or forgets and touches more frequent than usual
  const most = dice.pick([{}, {}, { put: 100 }, { put: 100 }, { list: 60 }, { forget: 60, touch: 60 }])
  return { step: "foreign", viewer, operation: operation(dice, author, vectors, most) }
}

const usual = {
  put: 14,
  apply: 12,
  update: 6,
  forget: 6,
  get: 8,
  search: 17,
  list: 10,
  next: 4,
  stolen: 4,
  stream: 2,
  history: 5,
  whyNot: 5,
  links: 12,
  touch: 4,
  uses: 4
}

const operation = (
  dice: Dice,
  author: Author,
  vectors: boolean,
  weights: Partial<typeof usual> = usual
): Operation => {
  const { name } = author
  switch (dice.weighted({ ...usual, ...weights })) {
    case "put":
      return { op: "put", drafts: dice.many(1, 2, () => draft(dice, author)), provenance: provenance(dice) }
    case "apply":
      return { op: "apply", mutations: dice.many(1, 4, () => mutation(dice, author)), provenance: provenance(dice) }
    case "update":
      return { op: "update", name: name(), patch: patch(dice, author), ifRevision: revision(dice) }
    case "forget":
      return { op: "forget", names: dice.many(1, 2, name), purge: dice.maybe(0.5, () => true) }
    case "get":
      return { op: "get", names: dice.many(1, 3, name) }
    case "search":
      return { op: "search", query: query(dice, author, vectors) }
    case "list":
      return { op: "list", filter: filter(dice, author) }
    case "next":
      return { op: "next", cursor: dice.below(6) }
    case "stolen":
      return { op: "stolen", cursor: dice.below(6), filter: dice.chance(0.5) ? {} : filter(dice, author) }
    case "stream":
      return { op: "stream", filter: filter(dice, author) }
    case "history":
      return { op: "history", name: name(), limit: dice.maybe(0.3, () => 1 + dice.below(3)) }
    case "whyNot":
      return { op: "whyNot", name: name(), query: query(dice, author, vectors) }
    case "links":
      return { op: "links", name: name() }
    case "touch":
      return { op: "touch", names: dice.many(1, 2, name) }
    case "uses":
      return { op: "uses", names: dice.many(1, 2, name) }
  }
}

const bodies = [
  " ",
  "green tea",
  "tea, green tea",
  "black coffee",
  "water and tea",
  "the sea",
  "Green tea!",
  "see [[Tea]]",
  "[[Tea]], [[Drinks]] and [[green tea]]",
  "[[the sea|sea]] and [[DRINKS]]",
  "a long treatise on tea, coffee, water and the sea, with tea in it"
] as const
const kinds = ["user", "user", "user", "reference", "working", "semantic", "x-odd"] as const
const words = ["tea", "green", "coffee drinks", "the", "sea water", "nothing of it", "treatise"] as const
const offsets = [-86_400_000, -10_000, -100, 0, 100, 10_000, 3_600_000] as const

const mutation = (dice: Dice, author: Author): MutationPlan => {
  switch (dice.weighted({ Put: 5, Update: 3, Forget: 2, Restore: 2 })) {
    case "Put":
      return { _tag: "Put", draft: draft(dice, author), ifRevision: revision(dice) }
    case "Update":
      return { _tag: "Update", name: author.name(), patch: patch(dice, author), ifRevision: revision(dice) }
    case "Forget":
      return { _tag: "Forget", name: author.name(), purge: dice.maybe(0.5, () => true), ifRevision: revision(dice) }
    case "Restore":
      return { _tag: "Restore", name: author.name(), revision: dice.below(4), ifRevision: revision(dice) }
  }
}
const revision = (dice: Dice) => dice.maybe(0.2, () => dice.below(4))

const draft = (dice: Dice, author: Author): DraftPlan => ({
  name: dice.maybe(0.3, author.claim),
  scope: author.scope(),
  kind: dice.pick(kinds),
  body: author.text(),
  summary: dice.maybe(0.4, () => dice.pick(["Tea", "Drinks", "the sea"])),
  tags: dice.maybe(0.4, () => dice.many(0, 2, () => dice.pick(["hot", "Cold", "drinks"]))),
  importance: dice.maybe(0.4, () => dice.pick([0, 0.2, 0.5, 1])),
  links: links(dice, author),
  data: dice.maybe(0.2, () => ({ n: dice.below(2) })),
  metadata: dice.maybe(0.2, () => ({ m: dice.below(2) })),
  validAt: dice.maybe(0.1, () => dice.pick(offsets)),
  invalidAt: dice.maybe(0.1, () => dice.pick(offsets)),
  expiresAt: dice.maybe(0.12, () => dice.pick(offsets.slice(3))),
  source: dice.maybe(0.3, () => ({ session: dice.pick(["one", "two"]), sequence: dice.below(4) }))
})
const links = (dice: Dice, author: Author) =>
  dice.maybe(
    0.2,
    () => dice.many(0, 2, () => ({ to: author.name(), type: dice.pick(["x", "y"]), weight: dice.pick([0.5, 1]) }))
  )
const patch = (dice: Dice, author: Author): PatchPlan => ({
  body: dice.maybe(0.5, author.text),
  summary: dice.maybe(0.2, () => dice.pick(["Tea", "Drinks"])),
  tags: dice.maybe(0.2, () => [dice.pick(["hot", "Cold"])]),
  importance: dice.maybe(0.2, () => dice.pick([0, 1])),
  confidence: dice.maybe(0.1, () => dice.pick([null, 0.1])),
  links: links(dice, author),
  metadata: dice.maybe(0.1, () => ({ m: dice.below(2) })),
  invalidAt: dice.maybe(0.1, () => dice.pick([null, ...offsets])),
  expiresAt: dice.maybe(0.1, () => dice.pick([null, ...offsets.slice(3)])),
  supersededBy: dice.maybe(0.05, author.name)
})
const provenance = (dice: Dice): Provenance => ({
  ...(dice.chance(0.1) && { origin: dice.pick(["agent", "instructions", "pipeline"] as const) }),
  ...(dice.chance(0.2) && { trust: dice.pick([0, 2, 3] as const) })
})

const filter = (dice: Dice, author: Author): FilterPlan => {
  const range = () =>
    dice.maybe(0.07, () => ({
      from: dice.maybe(0.5, () => dice.pick(offsets)),
      until: dice.maybe(0.5, () => dice.pick(offsets))
    }))
  return {
    scope: dice.maybe(0.15, () => anyScope(dice)),
    kinds: dice.maybe(0.15, () => dice.many(0, 2, () => dice.pick(kinds))),
    tags: dice.maybe(0.15, () => [dice.pick(["HOT", "cold"])]),
    names: dice.maybe(0.1, () => dice.many(0, 3, author.name)),
    createdAt: range(),
    validAt: range(),
    minImportance: dice.maybe(0.1, () => dice.pick([0.2, 0.5])),
    maxTrust: dice.maybe(0.1, () => dice.pick([0, 1, 2] as const)),
    asOf: dice.maybe(0.1, () => dice.pick(offsets)),
    closed: dice.maybe(0.1, () => dice.chance(0.5)),
    where: dice.maybe(0.12, () => dice.pick(conditions)),
    limit: dice.maybe(0.6, () => 1 + dice.below(4))
  }
}
const conditions: ReadonlyArray<NonNullable<MemoryFilter["where"]>> = [
  { "data.n": { eq: 1 } },
  { "metadata.m": { exists: true } },
  { "scope.userId": { exists: true }, "scope.agentId": { exists: false } },
  { "scope.userId": { in: ["ada", "bob"] } },
  { "data.n": { between: [0, 1] } }
]

const query = (dice: Dice, author: Author, vectors: boolean): QueryPlan => {
  const weight = () => dice.maybe(0.3, () => dice.pick([0, 0.5, 1, 3]))
  const embedding = dice.maybe(vectors ? 0.5 : 0.05, () => ({
    model: dice.pick(models),
    vector: Array.from({ length: 4 }, () => dice.below(5) - 1)
  }))
  return {
    ...filter(dice, author),
    text: dice.maybe(0.75, () => dice.pick(words)),
    embedding,
    mode: dice.maybe(0.25, () => dice.pick(["lexical", "vector", "hybrid"] as const)),
    minScore: dice.maybe(0.15, () => dice.pick([0.1, 0.5, 0.9])),
    weights: dice.maybe(0.3, () => ({
      lexical: weight(),
      vector: weight(),
      recency: weight(),
      importance: weight(),
      confidence: weight(),
      conversation: weight()
    })),
    budget: dice.maybe(0.1, () => dice.pick([5, 20])),
    explain: dice.maybe(0.5, () => true)
  }
}
