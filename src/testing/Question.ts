/**
 * Operations that tests run on a real store and on the reference model (`Model.ts`). The tests compare the gist of both results. The gist
 * is the part of a result that the model can predict.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import { embeddingText, type MemoryRecord } from "../domain/MemoryRecord.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as Analyzer from "../ranking/Analyzer.ts"
import { signature } from "../ranking/NearDuplicate.ts"
import type { Provenance, Service } from "../storage/MemoryStore.ts"
import type { Model } from "./Model.ts"
import { id } from "./Sample.ts"
import { draft, importance, kind, often, patch, rarely, revision, scope, text, time, viewer } from "./World.ts"

/** A name for an id. A string stands for an id that the test chose. A number stands for a generated id (see `MintedIds`). */
export type Name = string | number
/** Returns the id that a name stands for. */
export type Resolve = (name: Name) => MemoryId

/** The result of an operation on a store. */
export interface Answer<out Whole = unknown> {
  readonly whole: Whole
  /** The part of the result that the model can predict. Default: the whole result. */
  readonly gist?: unknown
}

/** An operation to run on a store and on the model. The predictable part of the result (the gist) must be the same for both. */
export interface Question {
  readonly viewer: Viewer.Any
  /** Description of the operation, for the message of a failure. */
  readonly text: string
  readonly ask: (store: Service, resolve: Resolve) => Effect.Effect<Answer, MemoryError>
  /** Returns the gist that the model predicts. `gist` is the gist of the store's result, from which the generated ids are taken. */
  readonly expect: (model: Model, resolve: Resolve, now: number, gist: unknown) => unknown
}

const { array, boolean, constant, constantFrom, integer, oneof, record, tuple } = FastCheck

export { viewer }

/** A mutation with a name instead of an id. In a `Put`, the name is optional. Every other mutation has a name. */
type Named<M> = M extends { readonly id: MemoryId } ? Omit<M, "id"> & { readonly name: Name }
  : M & { readonly name?: Name | undefined }

/** Generates mutations. The name of a mutation is from `name`. A `Put` has a name from `putNames`, or no name. */
export const mutation = (
  name: FastCheck.Arbitrary<Name>,
  putNames: FastCheck.Arbitrary<Name> = name
): FastCheck.Arbitrary<Named<MemoryMutation>> =>
  oneof<Array<FastCheck.Arbitrary<Named<MemoryMutation>>>>(
    record({ _tag: constant("Put" as const), name: often(putNames), draft, ifRevision: revision }),
    record({ _tag: constant("Put" as const), draft }),
    record({ _tag: constant("Update" as const), name, patch, ifRevision: revision }),
    record({ _tag: constant("Forget" as const), name, purge: often(boolean()), ifRevision: revision }),
    record({ _tag: constant("Restore" as const), name, revision: integer({ min: 0, max: 4 }), ifRevision: revision })
  )

/** Adds to a mutation the id for which its name stands. A `Put` without a name gets no id. */
export const resolved = (resolve: Resolve) => (mutation: Named<MemoryMutation>): MemoryMutation =>
  mutation._tag === "Put"
    ? {
      ...mutation,
      draft: mutation.name === undefined ? mutation.draft : { ...mutation.draft, id: resolve(mutation.name) }
    }
    : { ...mutation, id: resolve(mutation.name) }

const filter: FastCheck.Arbitrary<MemoryFilter> = record({
  scope: rarely(scope),
  kinds: rarely(array(kind, { maxLength: 2 })),
  tags: rarely(array(constantFrom("HOT", "cold"), { minLength: 1, maxLength: 2 })),
  minImportance: rarely(importance),
  createdAt: rarely(record({ from: often(time), until: often(time) })),
  validAt: rarely(record({ from: often(time), until: often(time) })),
  asOf: rarely(time),
  closed: rarely(boolean()),
  where: rarely(constantFrom(
    { "data.n": { eq: 1 } },
    { "metadata.m": { exists: true } },
    { "scope.userId": { exists: true }, "scope.agentId": { exists: false } }
  )),
  limit: often(integer({ min: 1, max: 4 }))
})

/** The analyzer that stores use by default. */
const analyzer = Analyzer.make()

/** Returns a key of the content of a record. A search by text merges records with equal keys into one hit. */
const sayingOf = (record: MemoryRecord): string =>
  JSON.stringify([record.kind, record.data, signature(embeddingText(record))])

/** Options of `make`. */
export interface Options {
  readonly viewer: FastCheck.Arbitrary<Viewer.Any>
  /** Names that reads and mutations use in place of ids. A `Put` uses `putNames` instead. */
  readonly names: FastCheck.Arbitrary<Name>
  /** Names that a Put may have. Default `names`. */
  readonly putNames?: FastCheck.Arbitrary<Name> | undefined
}

/** Generates names, both strings and numbers. */
export const names: FastCheck.Arbitrary<Name> = oneof<Array<FastCheck.Arbitrary<Name>>>(
  constantFrom("a", "b", "c"),
  integer({ min: 0, max: 9 })
)

/** Generates operations: half of them batches of mutations, half reads and calls of `touch`. */
export const make = ({ names, putNames = names, viewer }: Options): FastCheck.Arbitrary<Question> => {
  const provenance: FastCheck.Arbitrary<Provenance> = record({
    origin: rarely(constantFrom("agent" as const, "instructions" as const)),
    trust: rarely(constantFrom(0 as const, 3 as const))
  })
  const apply = tuple(viewer, array(mutation(names, putNames), { minLength: 1, maxLength: 3 }), provenance).map(applied)
  const reads: ReadonlyArray<FastCheck.Arbitrary<Question>> = [
    tuple(viewer, names).map(([viewer, name]): Question => ({
      viewer,
      text: `get ${name}`,
      ask: (store, resolve) =>
        Effect.map(store.get(viewer, [resolve(name)]), ([record]) => ({ whole: Option.getOrNull(record!) })),
      expect: (model, resolve, now) => model.get(viewer, resolve(name), now) ?? null
    })),
    tuple(viewer, filter, often(boolean())).map(([viewer, meant, forgotten]) =>
      [viewer, { ...meant, forgotten }] as const
    )
      .map(([viewer, filter]): Question => ({
        viewer,
        text: `list ${JSON.stringify(filter)}`,
        ask: (store) => Effect.map(pages(store, viewer, filter), (whole) => ({ whole, gist: whole.flat() })),
        expect: (model, _, now) => model.list(viewer, filter, now)
      })),
    tuple(viewer, filter).map(([viewer, { limit = 20, ...filter }]): Question => ({
      viewer,
      text: `search ${JSON.stringify(filter)} limit ${limit}`,
      ask: (store) =>
        Effect.map(store.search(viewer, { ...filter, limit }), (whole) => ({
          whole,
          gist: [whole.hits.map(({ record }) => record), whole.leftOut.limit]
        })),
      expect: (model, _, now) => {
        const all = model.list(viewer, filter, now)
        return [all.slice(0, limit), Math.max(0, all.length - limit)]
      }
    })),
    tuple(viewer, filter, text).map(([viewer, { limit: _, ...filter }, text]): Question => ({
      viewer,
      text: `search "${text}" ${JSON.stringify(filter)}`,
      ask: (store) =>
        Effect.map(store.search(viewer, { ...filter, text, limit: 1_000, explain: true }), (whole) => ({
          whole,
          gist: [whole.hits.length + whole.leftOut.folded, whole.hits.map(({ record }) => sayingOf(record)).sort()]
        })),
      expect: (model, _, now) => {
        const wanted = new Set(analyzer.query(text))
        const matching = model.list(viewer, filter, now).filter(({ body, summary, tags }) =>
          analyzer.index([summary, body, ...tags].join(" ")).some((word) => wanted.has(word))
        )
        return [matching.length, Array.from(new Set(matching.map(sayingOf))).sort()]
      }
    })),
    tuple(viewer, names).map(([viewer, name]): Question => ({
      viewer,
      text: `history ${name}`,
      ask: (store, resolve) => Effect.map(store.history(viewer, resolve(name)), (whole) => ({ whole })),
      expect: (model, resolve, now) => model.history(viewer, resolve(name), now)
    })),
    tuple(viewer, names, filter).map(([viewer, name, filter]): Question => ({
      viewer,
      text: `whyNot ${name} ${JSON.stringify(filter)}`,
      ask: (store, resolve) =>
        Effect.map(store.whyNot(viewer, resolve(name), filter), (absence) => {
          const whole = Option.getOrElse(absence, () => "hit" as const)
          return { whole, gist: ["hit", "absent", "expired", "beyond_limit"].includes(whole) ? whole : "filtered" }
        }),
      expect: (model, resolve, now) => model.whyNot(viewer, resolve(name), filter, now)
    })),
    tuple(viewer, names).map(([viewer, name]): Question => ({
      viewer,
      text: `links ${name}`,
      ask: (store, resolve) => Effect.map(store.links(viewer, resolve(name)), (whole) => ({ whole })),
      expect: (model, resolve, now) => model.links(viewer, resolve(name), now)
    })),
    tuple(viewer, names).map(([viewer, name]): Question => ({
      viewer,
      text: `touch ${name}`,
      ask: (store, resolve) =>
        store.touch(viewer, [resolve(name)]).pipe(
          Effect.zipRight(store.uses(viewer, [resolve(name)])),
          Effect.map((whole) => ({ whole, gist: whole[0]?.count }))
        ),
      expect: (model, resolve, now) => {
        model.touch(viewer, resolve(name), now)
        return model.uses(viewer, resolve(name), now)
      }
    }))
  ]
  return oneof({ weight: reads.length, arbitrary: apply }, ...reads.map((arbitrary) => ({ weight: 1, arbitrary })))
}

/** Generates calls of `compact` and `tenants`. Both take no viewer; the viewer `System` of these questions is only shown in messages. */
export const maintenance: FastCheck.Arbitrary<Question> = constantFrom<Array<Question>>(
  {
    viewer: Viewer.system(),
    text: "compact",
    ask: (store) => Effect.map(store.compact, (whole) => ({ whole })),
    expect: (model, _, now) => model.compact(now)
  },
  {
    viewer: Viewer.system(),
    text: "tenants",
    ask: (store) => Effect.map(store.tenants, (tenants) => ({ whole: Array.from(tenants).sort() })),
    expect: (model) => model.tenants()
  }
)

/** Runs an operation on a store, and returns the result as plain JSON. After a failure, `whole` is the error, and `gist` has the reason. */
export const put = (question: Question, store: Service, resolve: Resolve): Effect.Effect<Required<Answer>> =>
  Effect.match(question.ask(store, resolve), {
    onSuccess: ({ gist, whole }) => ({ whole: plain(whole), gist: plain(gist === undefined ? whole : gist) }),
    onFailure: ({ detail, id, message, op, reason }) => ({
      whole: { op, reason, message, id, detail },
      gist: { refused: reason }
    })
  })

/** Returns the model's prediction of the gist (the predictable part of a result), as plain JSON. */
export const expected = (question: Question, model: Model, resolve: Resolve, gist: unknown): Effect.Effect<unknown> =>
  Effect.map(Clock.currentTimeMillis, (now) => plain(question.expect(model, resolve, now, gist)))

/** The ids that a store has generated so far in a test. */
export interface MintedIds {
  /** Returns the id for a name. A number is an index into the generated ids, modulo their count; without any, the id is `id("nobody")`. */
  readonly resolve: Resolve
  /** Remembers the generated ids that a result contains. */
  readonly learn: (answer: Answer) => void
  /** Returns a value as JSON, with a number in place of each generated id. Results of two stores can then be compared. */
  readonly anonymous: (answer: unknown) => string
}

/** Makes a `MintedIds` without any ids. */
export const mintedIds = (): MintedIds => {
  const minted: Array<MemoryId> = []
  return {
    resolve: (name) => typeof name === "string" ? id(name) : minted[name % minted.length] ?? id("nobody"),
    learn({ whole }) {
      if (!Array.isArray(whole)) return
      for (const { id, outcome } of whole as ReadonlyArray<Partial<Applied>>) { // only results of `apply` have an outcome
        if (outcome === "created" && id !== undefined && !minted.includes(id) && !own.includes(id)) minted.push(id)
      }
    },
    anonymous: (answer) => minted.reduce((text, id, n) => text.replaceAll(id, `#${n}`), JSON.stringify(answer, null, 1))
  }
}

const own: ReadonlyArray<MemoryId> = ["a", "b", "c", "nobody"].map((name) => id(name))

const applied = (
  [viewer, mutations, provenance]: [Viewer.Any, ReadonlyArray<Named<MemoryMutation>>, Provenance]
): Question => ({
  viewer,
  text: `apply ${JSON.stringify([mutations, provenance])}`,
  ask: (store, resolve) =>
    Effect.map(store.apply(viewer, mutations.map(resolved(resolve)), provenance), (whole) => ({ whole })),
  expect: (model, resolve, now, gist) => {
    const answers: ReadonlyArray<Applied> = Array.isArray(gist) ? gist : []
    const minted = mutations.flatMap((mutation, n) =>
      mutation._tag === "Put" && mutation.name === undefined ? [answers[n]?.id ?? id(`refused ${n}`)] : []
    )
    return model.apply(viewer, mutations.map(resolved(resolve)), provenance, now, minted)
  }
})

const pages = (store: Service, viewer: Viewer.Any, filter: MemoryFilter) =>
  Effect.gen(function*() {
    const all: Array<ReadonlyArray<MemoryRecord>> = []
    for (
      let page = yield* store.list(viewer, filter);;
      page = yield* store.list(viewer, { ...filter, after: page.next })
    ) {
      all.push(page.items)
      if (page.next === undefined) return all
    }
  })

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value))
