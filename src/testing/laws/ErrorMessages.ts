/**
 * Laws of errors: no error quotes the content of the input or an invalid value, because errors are published as events and logged. Names of
 * fields and keys, and valid ids of records, may be quoted.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { MemoryError } from "../../domain/MemoryError.ts"
import { MemoryFilter, MemoryQuery } from "../../domain/MemoryFilter.ts"
import { Draft, Patch } from "../../domain/MemoryRecord.ts"
import { type Law, law } from "../Law.ts"
import { ada, bob, draft, id, put, system } from "../Sample.ts"

/** A text that stands for a user's words. No id, kind or name of this library contains this text. */
const canary = "Canary 7F3A says"

/** Values that contain the canary. Each field rejects at least one of them, except the fields that `update` ignores in a patch. */
const poisons: ReadonlyArray<unknown> = [
  canary,
  `${canary}\n\ud800`,
  `../${canary}`,
  canary.repeat(70),
  [canary],
  [[canary], { said: canary }],
  { said: canary, userId: canary, from: canary, eq: [canary], value: () => canary },
  { userId: [canary], from: { said: canary }, lexical: canary, model: [canary] }
]

/** Names of the fields that get invalid values. A patch also gets the fields of a draft, and a query those of a filter. */
const fields = {
  draft: Object.keys(Draft.fields),
  patch: Object.keys({ ...Draft.fields, ...Patch.fields }),
  filter: Object.keys(MemoryFilter.fields),
  query: Object.keys({ ...MemoryFilter.fields, ...MemoryQuery.fields })
}

const poisoned = (names: ReadonlyArray<string>, valid: object = {}) =>
  names.flatMap((name) => poisons.map((value) => ({ ...valid, [name]: value })))

const encode = Schema.encodeSync(Schema.parseJson(MemoryError))

/**
 * Makes a call with invalid input, and checks its error if the call fails. The error must not contain the canary, a text that stands for a
 * user's words. A call that succeeds is accepted, too.
 */
const discreet = <A>(call: () => Effect.Effect<A, MemoryError>) =>
  Effect.match(Effect.suspend(call), {
    onSuccess: () => undefined,
    onFailure: (error) => {
      for (const text of [encode(error), error.message, String(error)]) assert.notInclude(text, "7F3A")
    }
  })

/** The laws about errors: no error quotes the content of the input or an invalid value. */
export const laws: ReadonlyArray<Law> = [
  law(
    "the error of a refused write quotes neither the content to be written nor an invalid value",
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("tea", { id: id("tea") }))
        const foreign = yield* put(store, draft("coffee", { id: id("coffee"), scope: { userId: "bob" } }), bob)
        for (const bad of poisoned(fields.draft, draft(canary))) {
          yield* discreet(() => store.put(ada, [bad as never, draft(canary, { importance: 2 })])) // the second draft is always invalid
          yield* discreet(() => store.apply(ada, [{ _tag: "Put", draft: bad as never, ifRevision: 9 }]))
        }
        for (const patch of poisoned(fields.patch)) {
          yield* discreet(() => store.update(ada, tea.id, patch as never, { ifRevision: 9 }))
        }
        yield* discreet(() => store.put(ada, [draft(canary.repeat(5_000))]))
        yield* discreet(() => store.update(ada, foreign.id, { body: canary }))
        yield* discreet(() => store.put(ada, [draft(canary, { id: foreign.id })]))
        yield* discreet(() => store.put(ada, [draft(canary, { scope: { userId: canary } })]))
        for (const value of poisons) {
          yield* discreet(() => store.put(ada, [draft(canary)], { origin: value as never }))
          yield* discreet(() => store.put(ada, [draft(canary)], { trust: value as never }))
          yield* discreet(() => store.put(ada, [draft(canary, { id: tea.id })], { ifRevision: value as never }))
          yield* discreet(() => store.apply(ada, [value as never, { _tag: value, id: value, patch: value } as never]))
          yield* discreet(() => store.apply(ada, [{ _tag: "Restore", id: tea.id, revision: value as never }]))
          yield* discreet(() => store.forget(ada, [value as never]))
          yield* discreet(() => store.touch(ada, [value as never]))
        }
      })
  ),

  law(
    "the error of a refused read quotes neither the text of the query nor an invalid value",
    (store) =>
      Effect.gen(function*() {
        yield* put(store, draft("tea", { id: id("tea") }))
        for (const filter of poisoned(fields.filter)) {
          yield* discreet(() => store.list(ada, filter as never))
          yield* discreet(() => Stream.runDrain(store.stream(ada, filter as never)))
        }
        for (const query of poisoned(fields.query, { text: canary })) {
          yield* discreet(() => store.search(ada, query as never))
          yield* discreet(() => store.whyNot(ada, id("tea"), query as never))
        }
        for (const value of poisons) {
          for (const viewer of [ada, system]) {
            yield* discreet(() => store.get(viewer, [value as never]))
            yield* discreet(() => store.history(viewer, value as never))
            yield* discreet(() => store.history(viewer, id("tea"), value as never))
            yield* discreet(() => store.links(viewer, value as never))
            yield* discreet(() => store.uses(viewer, [value as never]))
            yield* discreet(() => store.search(viewer, value as never))
          }
        }
        if (Option.isSome(store.vectors)) {
          const { attach } = store.vectors.value
          yield* discreet(() => attach("default", canary, [[canary, Float32Array.of(NaN)]]))
          yield* discreet(() => attach("default", canary.repeat(70), [[canary, Float32Array.of(1)]]))
        }
      })
  )
]
