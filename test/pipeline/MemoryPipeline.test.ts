import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import type { MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import type { MemoryId } from "../../src/domain/MemoryId.ts"
import { Applied, MemoryMutation } from "../../src/domain/MemoryMutation.ts"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import { Global, type MemoryScope } from "../../src/domain/MemoryScope.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import type { Fact } from "../../src/pipeline/Extraction.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { stores } from "../stores.ts"

const ada = Viewer.make({ userId: "ada" })
const scope: MemoryScope = { userId: "ada" }
const turns = [Message.user("I moved to Porto last month."), Message.assistant("How do you like it?")]

type Script = Parameters<typeof Completion.layerScripted>[0]

interface Setup {
  readonly script?: Script
  readonly embedder?: Layer.Layer<Embedder.Embedder>
  readonly completion?: Layer.Layer<Completion.Completion>
  /** The store to use. Default: in memory. */
  readonly store?: Layer.Layer<MemoryStore.MemoryStore, unknown>
  /** Operations that replace those of the store. */
  readonly over?: (store: MemoryStore.Service) => Partial<MemoryStore.Service>
}

/** Returns a function that provides a pipeline and its store to an effect, with seeded randomness. */
const within = (setup: Setup = {}) => {
  const store = Layer.effect(
    MemoryStore.MemoryStore,
    Effect.map(MemoryStore.MemoryStore, (store) => ({ ...store, ...setup.over?.(store) }))
  ).pipe(Layer.provide(setup.store ?? MemoryStore.layerInMemory), Layer.orDie)
  const layer = MemoryPipeline.layer.pipe(
    Layer.provideMerge(Layer.mergeAll(
      store,
      setup.completion ?? Completion.layerScripted(setup.script ?? []),
      setup.embedder ?? Embedder.layerNone
    )),
    Layer.provideMerge(Layer.setRandom(Random.make("pipeline")))
  )
  return <A, E>(self: Effect.Effect<A, E, MemoryPipeline.MemoryPipeline | MemoryStore.MemoryStore>) =>
    Effect.provide(self, layer)
}

const both = Effect.all({ pipeline: MemoryPipeline.MemoryPipeline, store: MemoryStore.MemoryStore })

/** Returns all records of the store that are not forgotten, also those that are no longer valid. */
const everything = Effect.flatMap(
  MemoryStore.MemoryStore,
  (store) => Effect.map(Stream.runCollect(store.stream(Viewer.system(), {})), (all) => Array.from(all))
)

const bodies = (viewer: Viewer.Any, query: MemoryQuery = {}) =>
  Effect.flatMap(
    MemoryStore.MemoryStore,
    (store) => Effect.map(store.search(viewer, query), ({ hits }) => hits.map(({ record }) => record.body))
  )

const put = (body: string, fields: Partial<Draft> = {}, options?: MemoryStore.PutOptions) =>
  Effect.flatMap(
    MemoryStore.MemoryStore,
    (store) =>
      Effect.map(store.put(Viewer.system(), [{ scope, kind: "semantic", body, ...fields }], options), ([put]) =>
        put!.record)
  )

const facts = (...facts: ReadonlyArray<unknown>) => ({ facts })
const memory = (...memory: ReadonlyArray<unknown>) => ({ memory })
const add = (text: string) => [facts(text), memory({ event: "ADD", text })]

/** Makes a model that always extracts the fact, and whose decisions `decide` computes from the memories in the prompt. */
const model =
  (fact: string, decide: (existing: ReadonlyArray<{ id: string; text: string }>) => ReadonlyArray<unknown>) =>
  ({ user }: Completion.Prompt) => user.startsWith("EXISTING:") ? memory(...decide(existingIn(user))) : facts(fact)
const existingIn = (user: string) => JSON.parse(user.split("\n")[1]!)

/** Makes a model whose first decision waits until `go` is run. */
const latched = (script: Script) =>
  Effect.gen(function*() {
    const asked = yield* Deferred.make<void>()
    const go = yield* Deferred.make<void>()
    let decisions = 0
    const completion = Layer.effect(
      Completion.Completion,
      Effect.map(Completion.Completion, (inner) =>
        Completion.make({
          model: "latched",
          complete: (prompt) =>
            prompt.user.startsWith("EXISTING:") && ++decisions === 1
              ? Deferred.succeed(asked, undefined).pipe(
                Effect.zipRight(Deferred.await(go)),
                Effect.zipRight(inner.complete(prompt))
              )
              : inner.complete(prompt)
        }))
    ).pipe(Layer.provide(Completion.layerScripted(script)))
    return { asked: Deferred.await(asked), go: Deferred.succeed(go, undefined), completion }
  })

/** Makes a model whose decisions wait until it was asked for `n` of them. */
const meeting = (n: number, script: Script) =>
  Layer.effect(
    Completion.Completion,
    Effect.gen(function*() {
      const { complete } = yield* Completion.Completion
      const met = yield* Effect.makeLatch()
      let asked = 0
      return Completion.make({
        model: "meeting",
        complete: (prompt) =>
          Effect.suspend(() => {
            if (!prompt.user.startsWith("EXISTING:")) return complete(prompt)
            return Effect.zipRight(++asked < n ? met.await : met.open, complete(prompt))
          })
      })
    })
  ).pipe(Layer.provide(Completion.layerScripted(script)))

/** Makes an embedder that records its calls, and fails where `fails` returns true. */
const counted = (fails: (purpose: Embedder.Purpose, texts: ReadonlyArray<string>) => boolean = () => false) => {
  const calls: Array<{ readonly purpose: Embedder.Purpose; readonly texts: ReadonlyArray<string> }> = []
  const layer = Layer.effect(
    Embedder.Embedder,
    Effect.map(Embedder.Embedder, (inner): Embedder.Service => ({
      ...inner,
      embed: (texts, purpose) =>
        Effect.suspend(() => {
          calls.push({ purpose, texts })
          return fails(purpose, texts)
            ? MemoryError.make("model", { op: "embed", message: "no embedding today" })
            : inner.embed(texts, purpose)
        })
    }))
  ).pipe(Layer.provide(Embedder.layerHash()))
  return { calls, layer }
}

const reason = <A, R>(self: Effect.Effect<A, MemoryError.MemoryError, R>) =>
  Effect.map(Effect.flip(self), ({ reason }) => reason)

describe("MemoryPipeline.remember", () => {
  it.effect("a new fact becomes one record in the given scope, with origin `pipeline` and an expiry after `ttl`", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(5_000)
      const { pipeline } = yield* both
      const receipt = yield* pipeline.remember(ada, turns, { scope, ttl: "90 days", session: "s", sequence: 4 })
      const [record, ...rest] = yield* everything
      assert.deepStrictEqual(rest, [])
      assert.deepInclude(record, {
        scope,
        kind: "semantic",
        body: "Ada moved to Porto",
        importance: 0.9,
        createdAt: 5_000,
        validAt: 5_000,
        expiresAt: 5_000 + 90 * 86_400_000,
        source: { session: "s", sequence: 4, origin: "pipeline", trust: 1 }
      })
      assert.deepStrictEqual(receipt.applied.map(({ before, outcome }) => ({ before, outcome })), [
        { before: 0, outcome: "created" }
      ])
      assert.isUndefined(receipt.failures)
    }).pipe(within({
      script: [
        facts({ text: "Ada moved to Porto", importance: 0.9 }),
        memory({ event: "ADD", text: "Ada moved to Porto" })
      ]
    })))

  it.effect("the options `origin` and `trust` apply to all records that `remember` stores, both facts and messages", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      for (const infer of [true, false]) {
        yield* pipeline.remember(ada, turns, { scope, infer, origin: "import", trust: 2 })
      }
      assert.deepStrictEqual(
        (yield* everything).map(({ source: { origin, trust } }) => [origin, trust]),
        Array.from({ length: 3 }, () => ["import", 2])
      )
    }).pipe(within({ script: add("Ada moved to Porto") })))

  it.effect("a fact keeps its own kind; the option `kind` replaces a kind that is unknown or needs structured data", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* pipeline.remember(ada, turns, { scope, kind: "project" })
      const records = yield* everything
      assert.deepStrictEqual(
        records.map(({ body, kind }) => [body, kind]).sort(),
        [["Mara", "project"], ["Run the tests first", "procedural"], ["The city", "project"]]
      )
    }).pipe(within({
      script: [
        facts({ text: "Run the tests first", kind: "procedural" }, { text: "Mara", kind: "core" }, {
          text: "The city",
          kind: "unheard-of"
        }),
        memory({ event: "ADD", text: "Run the tests first" }, { event: "ADD", text: "Mara" }, {
          event: "ADD",
          text: "The city"
        })
      ]
    })))

  it.effect("`remember` changes nothing if the fact is already stored, whether the model decides NOOP or ADD", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* pipeline.remember(ada, turns, { scope })
      const before = yield* everything
      const noop = yield* pipeline.remember(ada, turns, { scope })
      const added = yield* pipeline.remember(ada, turns, { scope })
      assert.deepStrictEqual([noop.mutations, added.mutations], [[], []])
      assert.deepStrictEqual(yield* everything, before)
    }).pipe(within({
      script: [
        ...add("Ada moved to Porto"),
        facts("Ada moved to Porto"),
        memory({ event: "NOOP", id: "0" }),
        ...add("Ada moved to Porto")
      ]
    })))

  it.effect.each<[number, string]>([
    [3, "semantic"],
    [50, "semantic"],
    [50, "procedural"],
    [50, "episodic"],
    [50, "own"]
  ])(
    "%i identical concurrent calls make one %s record; a later call makes another if the first is no longer valid",
    ([n, kind]) =>
      Effect.gen(function*() {
        const { pipeline, store } = yield* both
        const remember = pipeline.remember(ada, turns, { scope, kind })
        yield* Effect.replicateEffect(remember, n, { concurrency: "unbounded" })
        const [record, ...rest] = yield* everything
        assert.deepStrictEqual(rest, [])
        yield* store.update(ada, record!.id, { invalidAt: 0 })
        yield* remember
        assert.deepStrictEqual(yield* bodies(ada), ["Ada moved to Porto"])
      }).pipe(within({
        completion: meeting(n, model("Ada moved to Porto", () => [{ event: "ADD", text: "Ada moved to Porto" }]))
      }))
  )

  it.effect("each of three concurrent calls of `remember` with the same fact asks the model for exactly one decision", () => {
    let decisions = 0
    return Effect.gen(function*() {
      const { pipeline } = yield* both
      const remember = pipeline.remember(ada, turns, { scope })
      yield* Effect.replicateEffect(remember, 3, { concurrency: "unbounded" })
      assert.strictEqual(decisions, 3)
    }).pipe(within({
      completion: meeting(
        3,
        model("Ada moved to Porto", () => {
          decisions++
          return [{ event: "ADD", text: "Ada moved to Porto" }]
        })
      )
    }))
  })

  it.effect("50 concurrent calls of `remember` with the same fact store the fact once and supersede the contradicted record", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* put("Ada lives in Lisbon", {}, { origin: "pipeline" })
      yield* Effect.replicateEffect(pipeline.remember(ada, turns, { scope }), 50, { concurrency: "unbounded" })
      assert.deepStrictEqual((yield* everything).map(({ body }) => body).sort(), [
        "Ada lives in Lisbon",
        "Ada moved to Porto"
      ])
      assert.deepStrictEqual(yield* bodies(ada), ["Ada moved to Porto"])
    }).pipe(within({
      completion: meeting(
        50,
        model("Ada moved to Porto", (existing) => [
          ...existing.map(({ id }) => ({ event: "DELETE", id })),
          { event: "ADD", text: "Ada moved to Porto" }
        ])
      )
    })))

  it.effect("an UPDATE decided by the model replaces the text of the record, and search then finds only the new words", () =>
    Effect.gen(function*() {
      const { pipeline, store } = yield* both
      const old = yield* put("Ada lives in Lisbon")
      yield* TestClock.adjust("1 day")
      yield* pipeline.remember(ada, turns, { scope })
      const [found] = yield* store.get(ada, [old.id])
      assert.deepInclude(Option.getOrThrow(found!), { revision: 2, body: "Ada lives in Alfama, a part of the city" })
      assert.deepStrictEqual(yield* bodies(ada, { text: "Alfama" }), ["Ada lives in Alfama, a part of the city"])
      assert.deepStrictEqual(yield* bodies(ada, { text: "Lisbon" }), [])
    }).pipe(within({
      script: [
        facts("Ada lives in Alfama"),
        memory({ event: "UPDATE", id: "0", text: "Ada lives in Alfama, a part of the city" })
      ]
    })))

  it.effect("a new fact supersedes the record that it contradicts; an earlier `asOf` still finds the old record", () =>
    Effect.gen(function*() {
      const { pipeline, store } = yield* both
      const old = yield* put("Ada lives in Lisbon")
      yield* TestClock.adjust("1 day")
      yield* pipeline.remember(ada, turns, { scope })
      const now = 86_400_000
      assert.deepStrictEqual(yield* bodies(ada), ["Ada moved to Porto"])
      assert.deepStrictEqual(yield* bodies(ada, { asOf: now - 1 }), ["Ada lives in Lisbon"])
      const [found] = yield* store.get(ada, [old.id])
      const closed = Option.getOrThrow(found!)
      const [successor] = (yield* store.list(ada, {})).items
      assert.deepInclude(closed, { body: "Ada lives in Lisbon", invalidAt: now, supersededBy: successor!.id })
      assert.strictEqual(successor!.validAt, now)
      assert.lengthOf(yield* store.history(ada, old.id), 2)
    }).pipe(within({
      script: [
        facts("Ada moved to Porto"),
        memory({ event: "DELETE", id: "0" }, { event: "ADD", text: "Ada moved to Porto" })
      ]
    })))

  it.effect("the model can delete one of the newest memories even if the memory has no word in common with the fact", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* put("Drinks tea")
      yield* pipeline.remember(ada, turns, { scope })
      assert.deepStrictEqual(yield* bodies(ada), ["Coffee from now on"])
    }).pipe(within({
      script: [
        facts("Coffee from now on"),
        memory({ event: "DELETE", id: "0" }, { event: "ADD", text: "Coffee from now on" })
      ]
    })))

  it.effect("`remember` adds the new fact even if the model's only change is to delete the contradicted memory", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* put("Ada lives in Lisbon")
      yield* pipeline.remember(ada, turns, { scope })
      assert.deepStrictEqual(yield* bodies(ada), ["Ada moved to Porto"])
    }).pipe(within({ script: [facts("Ada moved to Porto"), memory({ event: "DELETE", id: "0" })] })))

  it.effect("MemoryPipeline.remember with `supersede: \"hard\"` forgets a contradicted record", () =>
    Effect.gen(function*() {
      const { pipeline, store } = yield* both
      const old = yield* put("Ada lives in Lisbon")
      yield* pipeline.remember(ada, turns, { scope, supersede: "hard" })
      assert.deepStrictEqual((yield* store.get(ada, [old.id])).map(Option.getOrUndefined), [undefined])
      assert.deepStrictEqual(yield* bodies(ada, { asOf: 0 }), ["Ada moved to Porto"])
    }).pipe(within({
      script: [
        facts("Ada moved to Porto"),
        memory({ event: "DELETE", id: "0" }, { event: "ADD", text: "Ada moved to Porto" })
      ]
    })))

  it.effect("a decision of the model about an id that was not in the prompt changes nothing", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const old = yield* put("Ada lives in Lisbon")
      const before = yield* everything
      for (let i = 0; i < 2; i++) yield* pipeline.remember(ada, turns, { scope })
      assert.deepStrictEqual(yield* everything, before)
      assert.strictEqual(before[0]!.id, old.id)
    }).pipe(within({
      script: [
        facts("x"),
        memory({ event: "DELETE", id: "7" }, null, { event: "UPDATE", id: "abc", text: "y" }),
        facts("x"),
        { event: "DELETE", id: "7" }
      ]
    })))

  it.effect("the model decides about a fact even without related memories, and is not called for a blank message", () => {
    const asked: Array<string> = []
    return Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* pipeline.remember(ada, turns, { scope })
      assert.deepStrictEqual(asked.map((user) => user.slice(0, 9)), ["Conversat", "EXISTING:"])
      yield* pipeline.remember(ada, [Message.user(" ")], { scope })
      assert.lengthOf(asked, 2)
    }).pipe(within({
      script: (prompt) => {
        asked.push(prompt.user)
        return asked.length === 1 ? facts("x") : memory()
      }
    }))
  })

  it.effect("`customExtract` extracts the facts in place of the model, and also receives tool messages", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const tool = new Message.Message({ role: "tool", content: "42 degrees" })
      yield* pipeline.remember(ada, [...turns, tool], {
        scope,
        customExtract: (messages) =>
          Effect.succeed([{ text: ` ${messages.length} turns`, importance: 1 }, { text: " " }])
      })
      const [record] = yield* everything
      assert.deepInclude(record, { body: "3 turns", importance: 1 })
      assert.strictEqual(record!.source.trust, 3)
    }).pipe(within({
      script: ({ user }) => {
        assert.strictEqual(user, "EXISTING:\n[]\nNEW FACTS:\n[\"3 turns\"]")
        return memory({ event: "ADD", text: "3 turns" })
      }
    })))

  it.effect("tags, links, metadata and `validAt` of a fact from `customExtract` are stored", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* TestClock.setTime(5_000)
      const { id } = yield* put("Porto")
      const links = [{ to: id, type: "related_to", weight: 0.5 }]
      const fact = {
        text: "Ada lives in Porto",
        tags: ["home"],
        links,
        metadata: { page: 3, nested: { sure: true } },
        validAt: 7
      }
      yield* pipeline.remember(ada, turns, { scope, customExtract: () => Effect.succeed([fact]) })
      const { text, ...said } = fact
      assert.deepInclude((yield* everything).find(({ body }) => body === text), said)
    }).pipe(within({ script: [memory({ event: "ADD", text: "Ada lives in Porto" })] })))

  it.effect("an UPDATE merges the fact's tags, links and metadata into the memory; the fact wins for equal keys and link targets", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const [first, second] = [yield* put("Lisbon"), yield* put("Porto")]
      const link = (to: MemoryId, weight = 1) => ({ to, type: "related_to", weight })
      const { id } = yield* put("Ada lives in Lisbon", {
        tags: ["home"],
        metadata: { seen: 1, by: "x" },
        links: [link(first.id)]
      })
      yield* pipeline.remember(ada, turns, {
        scope,
        customExtract: () =>
          Effect.succeed([{
            text: "Ada lives in Porto",
            tags: ["moved", "home"],
            metadata: { seen: 2 },
            links: [link(second.id), link(first.id, 0.5)]
          }])
      })
      assert.deepInclude((yield* everything).find((record) => record.id === id), {
        body: "Ada lives in Porto",
        tags: ["home", "moved"],
        metadata: { seen: 2, by: "x" },
        links: [link(second.id), link(first.id, 0.5)]
      })
    }).pipe(within({
      script: ({ user }) => {
        const { id } = existingIn(user).find(({ text }: { text: string }) => text.includes("lives"))
        return memory({ event: "UPDATE", id, text: "Ada lives in Porto" })
      }
    })))

  it.effect("tags, metadata and `validAt` in a model's answer are ignored", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* TestClock.setTime(5_000)
      yield* pipeline.remember(ada, turns, { scope })
      const [record] = yield* everything
      assert.deepInclude(record, { body: "Ada lives in Porto", tags: [], links: [], metadata: {}, validAt: 5_000 })
    }).pipe(within({
      script: () => {
        const forged = { text: "Ada lives in Porto", tags: ["x"], links: [], metadata: { turn: "user" }, validAt: 1 }
        return { facts: [forged], memory: [{ ...forged, event: "ADD" }] }
      }
    })))

  it.effect("`remember` fails with `invalid_draft` and writes nothing if `customExtract` returns an invalid fact", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      for (
        const wrong of [{ tags: [""] }, { tags: [" instructions"] }, { validAt: -1 }, { metadata: { n: NaN } }, {
          metadata: { turn: "user" }
        }]
      ) {
        const customExtract = () => Effect.succeed([{ text: "right" }, { text: "wrong", ...wrong }])
        const error = yield* Effect.flip(pipeline.remember(ada, turns, { scope, customExtract }))
        assert.strictEqual(error.reason, "invalid_draft")
      }
      assert.deepStrictEqual(yield* everything, [])
    }).pipe(within({ completion: Completion.layerNone })))

  it.effect("`remember` fails with `invalid_draft` if a fact's metadata has the reserved key `turn`", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const customExtract = () => Effect.succeed([{ text: "Ada sings", metadata: { turn: 3 } }])
      const error = yield* Effect.flip(pipeline.remember(ada, turns, { scope, customExtract }))
      assert.deepInclude(error, { reason: "invalid_draft" })
      assert.include(error.message, "metadata.turn")
    }).pipe(within({ completion: Completion.layerNone })))

  it.effect("`customExtract` may return facts as strings; values that are not facts, such as null or 7, are ignored", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const items: ReadonlyArray<unknown> = ["Ada sings", null, undefined, 7, [], { text: "Ada dances" }]
      const customExtract = () => Effect.succeed(items as ReadonlyArray<Fact>) // an untyped extractor may return any values
      yield* pipeline.remember(ada, turns, { scope, customExtract })
      assert.sameMembers(yield* bodies(ada), ["Ada sings", "Ada dances"])
    }).pipe(within({ completion: Completion.layerNone })))

  it.effect("facts beyond `maxFacts` are counted in leftOut.facts, and are neither validated nor stored", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const facts = [{ text: "a" }, { text: "a" }, { text: "b" }, { text: "c", tags: [""] }, { text: "d" }]
      const customExtract = () => Effect.succeed(facts)
      const { applied, leftOut } = yield* pipeline.remember(ada, turns, { scope, maxFacts: 2, customExtract })
      assert.lengthOf(applied, 2)
      assert.strictEqual(leftOut?.facts, 2)
    }).pipe(within({ completion: Completion.layerNone })))

  it.effect("three calls store a fact with a future `validAt` once; a fourth stores a `reference` fact again if its record got an `invalidAt`", () =>
    Effect.gen(function*() {
      const { pipeline, store } = yield* both
      yield* TestClock.setTime(5_000)
      for (const kind of ["semantic", "reference"]) {
        const remember = (validAt: number) =>
          pipeline.remember(ada, turns, {
            scope,
            kind,
            customExtract: () => Effect.succeed([{ text: `Ada will move, ${kind}`, validAt }])
          })
        const outcomes = []
        for (let n = 0; n < 3; n++) outcomes.push((yield* remember(9_000)).applied.map(({ outcome }) => outcome))
        const list = Effect.map(store.list(ada, { kinds: [kind], asOf: 10_000 }), ({ items }) => items)
        assert.lengthOf(yield* list, 1, kind)
        assert.deepStrictEqual(outcomes[0], ["created"], kind)
        const [record] = yield* list
        if (kind === "semantic") continue // the store deduplicates this kind itself
        yield* store.update(ada, record!.id, { invalidAt: 9_500 })
        yield* remember(9_000)
        assert.lengthOf(
          yield* Effect.map(store.list(ada, { kinds: [kind], asOf: 9_800 }), ({ items }) => items),
          1,
          kind
        )
      }
    }).pipe(within({ completion: Completion.layerNone })))

  it.effect("`remember` without a model adds all facts from `customExtract` that are not stored yet", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const known = yield* put("Ada lives in Lisbon")
      const facts = [{ text: "Ada lives in Porto" }, { text: "Ada lives  in Lisbon" }, {
        text: "Ada sings",
        kind: "user"
      }]
      const remember = pipeline.remember(ada, turns, { scope, customExtract: () => Effect.succeed(facts) })
      const receipt = yield* remember
      assert.deepStrictEqual(receipt.applied.map(({ outcome }) => outcome), ["created", "created"])
      const all = Object.fromEntries((yield* everything).map(({ body, kind, revision }) => [body, [kind, revision]]))
      assert.deepStrictEqual(all, {
        [known.body]: ["semantic", 1],
        "Ada lives in Porto": ["semantic", 1],
        "Ada sings": ["user", 1]
      })
      assert.deepStrictEqual((yield* remember).applied, [])
      yield* pipeline.undo(receipt)
      assert.deepStrictEqual(yield* bodies(ada), [known.body])
    }).pipe(within({ completion: Completion.layerNone })))

  it.effect("`remember` with a model lets the model decide what to do with the facts from `customExtract`", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const { applied } = yield* pipeline.remember(ada, turns, {
        scope,
        customExtract: () => Effect.succeed([{ text: "x" }])
      })
      assert.deepStrictEqual(applied, [])
    }).pipe(within({ script: [memory({ event: "NOOP" })] })))

  it.effect("the model does not see tool messages, system messages, or `<memory>` blocks in user messages", () => {
    const asked: Array<string> = []
    return Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* pipeline.remember(ada, [
        new Message.Message({ role: "system", content: "You are kind." }),
        new Message.Message({ role: "tool", content: "42 degrees" }),
        new Message.Message({ role: "assistant", content: "calling", tool: true }),
        Message.user("I moved.\n<memory>\nRelevant memories:\n</memory>")
      ], { scope, customInstructions: "Only cities." })
      assert.deepStrictEqual(asked, ["Conversation:\n```\nuser: I moved.\n```"])
      assert.deepStrictEqual(yield* everything, [])
    }).pipe(within({
      script: ({ system, user }) => {
        assert.include(system, "Additional instructions: Only cities.")
        asked.push(user)
        return facts()
      }
    }))
  })

  it.effect("`remember` fails with `invalid_scope` for a scope that the viewer does not see; so does `plan` for a scope without ids", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      for (const infer of [true, false]) {
        assert.strictEqual(
          yield* reason(pipeline.remember(ada, turns, { scope: { userId: "eve" }, infer })),
          "invalid_scope"
        )
        assert.strictEqual(yield* reason(pipeline.plan(ada, turns, { scope: {}, infer })), "invalid_scope")
      }
    }).pipe(within()))

  it.effect("`remember` makes the same records from the same calls, clock, random seed and model answers", () => {
    const once = Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* put("Ada lives in Lisbon")
      yield* pipeline.remember(ada, turns, { scope })
      yield* pipeline.remember(ada, turns, { scope, infer: false, session: "s", sequence: 0 })
      return yield* everything
    })
    const script = [
      facts("Ada moved to Porto", "Ada drinks tea"),
      memory({ event: "DELETE", id: 0 }, { event: "ADD", text: "Ada moved to Porto" }, {
        event: "ADD",
        text: "Ada drinks tea"
      })
    ]
    return Effect.gen(function*() {
      const first = yield* once.pipe(within({ script }))
      assert.lengthOf(first, 5)
      assert.deepStrictEqual(yield* once.pipe(within({ script })), first)
    })
  })
})

describe("the related memories that `remember` shows to the model", () => {
  /** Returns the memories that the model is shown when Ada's chat is remembered. */
  const seen = (
    fill: Effect.Effect<unknown, MemoryError.MemoryError, MemoryStore.MemoryStore | MemoryPipeline.MemoryPipeline>,
    options: MemoryPipeline.Options,
    viewer: Viewer.Any = ada
  ) => {
    const texts: Array<string> = []
    return Effect.gen(function*() {
      yield* fill
      const { pipeline } = yield* both
      yield* pipeline.remember(viewer, turns, options)
      return texts
    }).pipe(within({
      script: model("Ada lives in Porto", (existing) => {
        texts.push(...existing.map(({ text }) => text))
        return existing.map(({ id }) => ({ event: "DELETE", id }))
      })
    }))
  }

  it.effect("the model is shown only memories of exactly the scope to which `remember` writes", () =>
    Effect.gen(function*() {
      const fill = Effect.all([
        put("Ada lives in Rome", { scope: Global }, { trust: 2 }), // `Viewer.trustIn` gives a user's write to Global trust 2
        put("Ada lives in Paris", { scope: { userId: "ada", sessionId: "s" } }),
        put("Ada lives in Bonn", { scope: { userId: "eve" } }),
        put("Ada lives in Lisbon")
      ])
      assert.deepStrictEqual(yield* seen(fill, { scope }), ["Ada lives in Lisbon"])
      assert.deepStrictEqual(yield* seen(fill, { scope }, Viewer.make({ userId: "ada", reach: "within" })), [
        "Ada lives in Lisbon"
      ])
      assert.deepStrictEqual(yield* seen(fill, { scope }, Viewer.system()), ["Ada lives in Lisbon"])
      assert.deepStrictEqual(yield* seen(fill, { scope: Global, sharedWrites: ["global"] }), ["Ada lives in Rome"])
    }))

  it.effect("the model is not shown memories that are more trusted than the new fact or have the origin `instructions`", () =>
    Effect.gen(function*() {
      const fill = Effect.gen(function*() {
        yield* put("A guest lives in Porto too, they said, in the old town", {}, { trust: 3 })
        yield* TestClock.adjust("1 second")
        yield* Effect.forEach(Array.from({ length: 150 }, (_, i) => i), (i) => put(`Ada lives in Porto, ${i}`))
        yield* put("Ada lives in a castle", {}, { origin: "instructions", trust: 3 })
      })
      assert.deepStrictEqual(yield* seen(fill, { scope, trust: 3 }), [
        "A guest lives in Porto too, they said, in the old town"
      ])
    }))

  it.effect("the option `topK`, by default 5, limits the memories that the model sees for each fact", () =>
    Effect.gen(function*() {
      const fill = Effect.forEach(Array.from({ length: 9 }, (_, i) => i), (i) => put(`Ada lives in Porto, ${i}`))
      assert.lengthOf(yield* seen(fill, { scope }), 5)
      assert.lengthOf(yield* seen(fill, { scope, topK: 2 }), 2)
      assert.strictEqual(yield* reason(seen(fill, { scope, topK: 0 })), "invalid_draft")
    }))

  it.effect("the model is shown five memories: first the old one that matches the fact, then newer ones that do not match", () =>
    Effect.gen(function*() {
      const fill = Effect.gen(function*() {
        yield* put("Ada lives in Lisbon")
        yield* TestClock.adjust("1 second")
        for (let i = 0; i < 9; i++) yield* put(`filler ${i}`)
      })
      const texts = yield* seen(fill, { scope })
      assert.deepStrictEqual([texts.length, texts[0]], [5, "Ada lives in Lisbon"])
    }))

  it.effect("the model is shown no memory if 1,100 memories match the fact but all are more trusted than the fact", () =>
    Effect.gen(function*() {
      const fill = Effect.flatMap(MemoryStore.MemoryStore, (store) =>
        store.put(
          Viewer.system(),
          Array.from({ length: 1_100 }, (_, i) => ({ scope, kind: "semantic", body: `Ada lives in Porto, ${i}` }))
        ))
      assert.deepStrictEqual(yield* seen(fill, { scope, trust: 3 }), [])
    }))

  it.effect("the model is shown neither messages stored word for word nor records of kinds with structured data", () =>
    Effect.gen(function*() {
      const fill = Effect.gen(function*() {
        const { pipeline } = yield* both
        yield* pipeline.remember(ada, Array.from({ length: 20 }, () => Message.user("Ada lives in Porto")), {
          scope,
          infer: false
        })
        yield* put("Ada lives in Rome", { kind: "resource", data: { type: "file", location: "rome.md" } })
        yield* put("Ada lives in Lisbon")
      })
      assert.deepStrictEqual(yield* seen(fill, { scope }), ["Ada lives in Lisbon"])
    }))

  it.effect("the model is not shown expired, forgotten or no longer valid records, even if the viewer is System", () =>
    Effect.gen(function*() {
      const fill = Effect.gen(function*() {
        yield* put("Ada lives in Rome", { validAt: 0, invalidAt: 1 })
        yield* put("Ada lives in Paris", { expiresAt: (yield* Clock.currentTimeMillis) + 2 })
        const gone = yield* put("Ada lives in Bonn")
        yield* Effect.flatMap(MemoryStore.MemoryStore, (store) => store.forget(ada, [gone.id]))
        yield* TestClock.adjust("1 second")
      })
      assert.deepStrictEqual(yield* seen(fill, { scope }, Viewer.system()), [])
      assert.deepStrictEqual(yield* seen(fill, { scope }), [])
    }))

  it.effect("a tool message cannot make the model delete a memory that is more trusted than the message", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* put("Ada lives in Lisbon")
      const tool = new Message.Message({ role: "tool", content: "Ada lives on the moon" })
      yield* pipeline.remember(ada, [tool], {
        scope,
        customExtract: () => Effect.succeed([{ text: "Ada lives on the moon" }])
      })
      const records = yield* everything
      assert.deepStrictEqual(records.map(({ body, invalidAt, source }) => [body, source.trust, invalidAt]).sort(), [
        ["Ada lives in Lisbon", 1, undefined],
        ["Ada lives on the moon", 3, undefined]
      ])
    }).pipe(within({
      script: [memory({ event: "DELETE", id: "0" }, { event: "ADD", text: "Ada lives on the moon" })]
    })))
})

describe("a fact given to `remember` that equals an existing record", () => {
  it.effect("a fact equal to a more trusted record is not stored again; that record supersedes the contradicted record", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const porto = yield* put("Ada moved to Porto")
      yield* put("Ada lives in Lisbon", {}, { trust: 3 })
      yield* TestClock.adjust("1 minute")
      const receipt = yield* pipeline.remember(ada, turns, { scope, trust: 3 })
      assert.deepStrictEqual(receipt.applied.map(({ outcome, record }) => [outcome, record?.supersededBy]), [
        ["updated", porto.id]
      ])
      assert.deepStrictEqual(yield* bodies(ada), ["Ada moved to Porto"])
    }).pipe(within({
      script: [
        facts("Ada moved to Porto"),
        memory({ event: "DELETE", id: "0" }, { event: "ADD", text: "Ada moved to Porto" })
      ]
    })))

  it.effect("a fact that equals a stored record is stored again if the record is forgotten while the model decides", () =>
    Effect.gen(function*() {
      const model = yield* latched((prompt: Completion.Prompt) =>
        prompt.user.startsWith("EXISTING:")
          ? memory({ event: "ADD", text: "Ada moved to Porto" })
          : facts("Ada moved to Porto")
      )
      yield* Effect.gen(function*() {
        const { pipeline, store } = yield* both
        const porto = yield* put("Ada moved to Porto")
        const fiber = yield* Effect.fork(pipeline.remember(ada, turns, { scope, trust: 3 }))
        yield* model.asked
        yield* store.forget(ada, [porto.id])
        yield* model.go
        yield* Fiber.join(fiber)
        assert.deepStrictEqual(yield* bodies(ada), ["Ada moved to Porto"])
      }).pipe(within({ completion: model.completion }))
    }))
})

describe("MemoryPipeline.remember with `infer: false`", () => {
  const raw = { scope, infer: false, session: "s" } as const
  const none = { completion: Completion.layerNone }

  it.effect("`infer: false` stores the text of each message that is not blank, and calls neither the model nor the Embedder", () => {
    const embedder = counted()
    return Effect.gen(function*() {
      yield* TestClock.setTime(9_000)
      const { pipeline } = yield* both
      const bob = new Message.Message({ role: "user", content: " hello ", actorId: "bob", id: "m-1", at: 4_000.5 })
      const { applied } = yield* pipeline.remember(ada, [Message.assistant("  \n"), bob], {
        ...raw,
        sequence: 7,
        ttl: "1 hour"
      })
      const [record, ...rest] = yield* everything
      assert.deepStrictEqual([applied.length, rest.length, embedder.calls.length], [1, 0, 0])
      assert.deepInclude(record, {
        kind: "episodic",
        body: "hello",
        metadata: { turn: "user", actorId: "bob" },
        validAt: 4_000,
        expiresAt: 9_000 + 3_600_000,
        source: { reference: "m-1", session: "s", actor: "bob", sequence: 8, origin: "pipeline", trust: 1 }
      })
    }).pipe(within({ ...none, embedder: embedder.layer }))
  })

  it.effect("an unusable message id is left out, and a long name is cut, so that the messages are stored", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const said = { role: "user", content: "hello" } as const
      const unusable = ["m".repeat(1_025), "\ud800"].map((id) => new Message.Message({ ...said, id }))
      const named = new Message.Message({ ...said, content: "bye", id: "m-1", name: `${"n".repeat(1_023)}😀` })
      yield* pipeline.remember(ada, [...unusable, named], raw)
      const all = yield* everything
      assert.deepStrictEqual(all.map(({ source }) => source.reference).sort(), ["m-1", undefined, undefined])
      assert.deepStrictEqual(all.flatMap(({ source }) => source.actor ?? []), [`${"n".repeat(1_023)}\ufffd`])
    }).pipe(within(none)))

  it.effect("a message is not stored again if its session and sequence number are already stored", () =>
    Effect.gen(function*() {
      const { pipeline, store } = yield* both
      const first = yield* pipeline.remember(ada, turns, { ...raw, sequence: 0 })
      yield* store.update(ada, first.applied[0]!.id, { body: "corrected" })
      const again = yield* pipeline.remember(ada, [...turns, Message.user("And you?")], { ...raw, sequence: 0 })
      assert.deepStrictEqual(again.applied.map(({ record }) => record?.source.sequence), [2])
      assert.deepStrictEqual((yield* everything).map(({ body }) => body).sort(), [
        "And you?",
        "How do you like it?",
        "corrected"
      ])
      const plan = yield* pipeline.plan(ada, turns, { ...raw, sequence: 0 })
      assert.deepStrictEqual(plan.mutations, [])
    }).pipe(within(none)))

  it.effect("the same messages are stored again if the session or scope differs, or if no sequence number is given", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const narrow = Viewer.make({ userId: "ada", sessionId: "x" })
      yield* pipeline.remember(narrow, turns, { ...raw, sequence: 0 })
      yield* pipeline.remember(narrow, turns, { ...raw, sequence: 0, session: "t" })
      yield* pipeline.remember(narrow, turns, { ...raw, sequence: 0, scope: { userId: "ada", sessionId: "x" } })
      yield* pipeline.remember(narrow, turns, raw)
      yield* pipeline.remember(narrow, turns, raw)
      assert.lengthOf(yield* everything, 10)
    }).pipe(within(none)))

  it.effect("concurrent calls of `remember` with overlapping parts of a conversation store each message once", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const all = Array.from({ length: 12 }, (_, i) => Message.user(`turn ${i}`))
      yield* Effect.forEach(
        Array.from({ length: 30 }, (_, i) => i % 9),
        (from) => pipeline.remember(ada, all.slice(from, from + 4), { ...raw, sequence: from }),
        { concurrency: "unbounded" }
      )
      assert.lengthOf(yield* everything, 12)
    }).pipe(within(none)))

  it.effect("`sequence: [1, 1]` for two messages fails with `invalid_draft` and stores nothing; a blank message may repeat a number", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      for (const call of [pipeline.remember, pipeline.plan]) {
        const error = yield* Effect.flip(call(ada, turns, { ...raw, sequence: [1, 1] }))
        assert.strictEqual(error.reason, "invalid_draft")
        assert.include(error.message, "sequence")
      }
      assert.isEmpty(yield* everything)
      yield* pipeline.remember(ada, [...turns, Message.user(" ")], { ...raw, sequence: [1, 2, 2] })
      assert.lengthOf(yield* everything, 2)
    }).pipe(within(none)))

  it.effect("a list `sequence` without one number per message fails with `invalid_draft` and the two lengths, and stores nothing", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      for (const sequence of [[], [10], [10, 11, 12]]) {
        for (const call of [pipeline.remember, pipeline.plan]) {
          const error = yield* Effect.flip(call(ada, turns, { ...raw, sequence }))
          assert.deepStrictEqual(error.detail, {
            issues: [`sequence: expected one number per message: ${turns.length}, not ${sequence.length}`]
          })
        }
      }
      assert.isEmpty(yield* everything)
    }).pipe(within(none)))

  it.effect("a `ttl` that is no time fails with `invalid_draft` before the messages are read, and the error names the option", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const invalid = ["abc", {}, null, -1, NaN] as ReadonlyArray<unknown> as ReadonlyArray<number> // not times
      for (const ttl of invalid) {
        for (const infer of [true, false]) {
          const error = yield* Effect.flip(pipeline.remember(ada, turns, { ...raw, infer, ttl }))
          assert.strictEqual(error.reason, "invalid_draft")
          assert.match(error.message, /^ttl: expected a time/)
        }
      }
      assert.isEmpty(yield* everything)
    }).pipe(within(none)))

  it.effect("`remember` fails with `unavailable`, without a second attempt, if the store is unavailable", () => {
    let asked = 0
    return Effect.gen(function*() {
      const { pipeline } = yield* both
      assert.strictEqual(yield* reason(pipeline.remember(ada, turns, { ...raw, sequence: 0 })), "unavailable")
      assert.strictEqual(asked, 1)
    }).pipe(within({
      ...none,
      over: () => ({
        apply: () =>
          Effect.suspend(() => {
            asked++
            return MemoryError.make("unavailable", { op: "apply", message: "down" })
          })
      })
    }))
  })

  it.effect("a stored message is found by `search` at once, even if the message's time is in the future", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* pipeline.remember(ada, [new Message.Message({ role: "user", content: "hi", at: 60_000 })], raw)
      assert.deepStrictEqual(yield* bodies(ada), ["hi"])
    }).pipe(within(none)))

  it.effect("messages expire after `ttl`, rounded up to milliseconds; a `ttl` of 0 or Infinity means never", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      for (const ttl of [0, Infinity, 0.2, 1]) yield* pipeline.remember(ada, [Message.user(`${ttl}`)], { ...raw, ttl })
      assert.deepStrictEqual((yield* everything).map(({ body, expiresAt }) => [body, expiresAt]).sort(), [
        ["0", undefined],
        ["0.2", 1],
        ["1", 1],
        ["Infinity", undefined]
      ])
    }).pipe(within(none)))

  it.effect("the option `trust` sets the trust level of stored messages; 0 is stored as 1, the level of the user", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      for (const trust of [0, 2] as const) yield* pipeline.remember(ada, [Message.user(`${trust}`)], { ...raw, trust })
      assert.deepStrictEqual((yield* everything).map(({ source }) => source.trust).sort(), [1, 2])
    }).pipe(within(none)))

  it.effect("a tool message is stored with trust level 3, the least trusted level", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* pipeline.remember(ada, [new Message.Message({ role: "tool", content: "42" })], raw)
      assert.deepStrictEqual((yield* everything).map(({ source }) => source.trust), [3])
    }).pipe(within(none)))
})

describe("MemoryPipeline.plan", () => {
  it.effect("`plan` changes nothing; `apply` of the planned mutations then replaces the contradicted memory with the new fact", () =>
    Effect.gen(function*() {
      const { pipeline, store } = yield* both
      yield* put("Ada lives in Lisbon")
      const before = yield* everything
      const plan = yield* pipeline.plan(ada, turns, { scope })
      assert.deepStrictEqual(plan.mutations.map(({ _tag }) => _tag), ["Update", "Put"])
      assert.deepStrictEqual(plan.applied, [])
      assert.deepStrictEqual(yield* everything, before)
      yield* store.apply(ada, plan.mutations)
      assert.deepStrictEqual(yield* bodies(ada), ["Ada moved to Porto"])
    }).pipe(within({
      script: [
        facts("Ada moved to Porto"),
        memory({ event: "DELETE", id: "0" }, { event: "ADD", text: "Ada moved to Porto" })
      ]
    })))
})

describe("MemoryPipeline.remember with a failing model call", () => {
  const down = MemoryError.make("model", { op: "complete", message: "no answer" })

  it.effect.each<[string, ReadonlyArray<unknown>]>([
    ["fails at once", [down]],
    ["fails in the decision", [facts("x"), down]]
  ])("the store is unchanged if the call %s", ([, script]) =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* put("Ada lives in Lisbon")
      const before = yield* everything
      assert.strictEqual(yield* reason(pipeline.remember(ada, turns, { scope })), "model")
      assert.deepStrictEqual(yield* everything, before)
    }).pipe(within({ script })))

  it.effect("the store is unchanged if a timeout interrupts `remember` while the model decides", () =>
    Effect.gen(function*() {
      const model = yield* latched(add("x"))
      yield* Effect.gen(function*() {
        const { pipeline } = yield* both
        yield* put("Ada lives in Lisbon")
        const before = yield* everything
        const fiber = yield* Effect.fork(Effect.timeout(pipeline.remember(ada, turns, { scope }), "10 seconds"))
        yield* model.asked
        yield* TestClock.adjust("11 seconds")
        assert.isTrue(Exit.isFailure(yield* Fiber.await(fiber)))
        yield* model.go
        assert.deepStrictEqual(yield* everything, before)
      }).pipe(within({ completion: model.completion }))
    }))

  it.effect("`remember` without a model fails with `unsupported`, and the error names the missing service Completion", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const error = yield* Effect.flip(pipeline.remember(ada, turns, { scope }))
      assert.strictEqual(error.reason, "unsupported")
      assert.include(error.message, "Completion")
    }).pipe(within({ completion: Completion.layerNone })))
})

describe("a change by another writer between search and apply", () => {
  /** Runs `meanwhile` while the first decision is being made; then the script continues. */
  const raced = <A>(
    script: Script,
    meanwhile: (
      id: MemoryId,
      store: MemoryStore.Service
    ) => Effect.Effect<A, MemoryError.MemoryError>
  ) =>
    Effect.gen(function*() {
      const model = yield* latched(script)
      return yield* Effect.gen(function*() {
        const { pipeline, store } = yield* both
        const old = yield* put("Ada lives in Lisbon")
        const fiber = yield* Effect.fork(Effect.either(pipeline.remember(ada, turns, { scope })))
        yield* model.asked
        yield* meanwhile(old.id, store)
        yield* model.go
        return { result: yield* Fiber.join(fiber), all: yield* everything }
      }).pipe(within({ completion: model.completion }))
    })

  const update = memory({ event: "UPDATE", id: "0", text: "Ada lives in Porto" })

  it.effect("`remember` asks the model again if the record of an UPDATE is changed by another writer while the model decides", () =>
    Effect.gen(function*() {
      const script = (prompt: Completion.Prompt) =>
        !prompt.user.startsWith("EXISTING:")
          ? facts("Ada lives in Porto")
          : prompt.user.includes("Alfama")
          ? memory({ event: "UPDATE", id: "0", text: "Ada lived in Alfama, and lives in Porto" })
          : update
      const { all, result } = yield* raced(
        script,
        (id, store) => store.update(ada, id, { body: "Ada lives in Alfama" })
      )
      assert.strictEqual(result._tag, "Right")
      assert.deepStrictEqual(all.map(({ body, revision }) => [body, revision]), [[
        "Ada lived in Alfama, and lives in Porto",
        3
      ]])
    }))

  it.effect("`remember` fails with `conflict` if another writer changes the record of an UPDATE during both attempts", () => {
    let n = 0
    const moving = (store: MemoryStore.Service): Partial<MemoryStore.Service> => ({
      get: (viewer, ids) =>
        Effect.zipRight(
          Effect.flatMap(
            store.list(viewer, {}),
            ({ items }) => store.update(viewer, items[0]!.id, { body: `edit ${++n}` })
          ),
          store.get(viewer, ids)
        )
    })
    return Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* put("Ada lives in Lisbon")
      const error = yield* Effect.flip(pipeline.remember(ada, turns, { scope }))
      assert.deepInclude(error, { reason: "conflict", detail: { expected: 2, actual: 3 } })
      assert.deepStrictEqual((yield* everything).map(({ body }) => body), ["edit 2"])
    }).pipe(within({ script: [facts("Ada lives in Porto"), update, update], over: moving }))
  })

  it.effect("a new fact is stored if the memory that made the model decide NOOP is purged meanwhile", () =>
    Effect.gen(function*() {
      const script = model(
        "Ada lives in Lisbon",
        (existing) =>
          existing.length > 0 ? [{ event: "NOOP", id: "0" }] : [{ event: "ADD", text: "Ada lives in Lisbon" }]
      )
      const { all } = yield* raced(script, (id, store) => store.forget(ada, [id], { purge: true }))
      assert.deepStrictEqual(all.map(({ body, revision }) => [body, revision]), [["Ada lives in Lisbon", 1]])
    }))

  it.effect("an UPDATE does not overwrite a change that another writer makes after the decision: the model decides again", () =>
    Effect.gen(function*() {
      const shown: Array<string | undefined> = []
      const script = model("Ada lives in Porto", ([existing]) => {
        shown.push(existing?.text)
        return existing?.text === "edited" ? [] : [{ event: "UPDATE", id: "0", text: "Ada lives in Porto" }]
      })
      let edited = false
      yield* Effect.gen(function*() {
        const { pipeline } = yield* both
        yield* put("Ada lives in Lisbon")
        yield* pipeline.remember(ada, turns, { scope })
        assert.deepStrictEqual(
          (yield* everything).map(({ body }) => body),
          ["edited"]
        )
        assert.deepStrictEqual(shown, ["Ada lives in Lisbon", "edited"])
      }).pipe(within({
        script,
        over: (store) => ({
          apply: (viewer, mutations, provenance) =>
            Effect.suspend(() => {
              const [first] = mutations
              if (edited || first?._tag !== "Update") return store.apply(viewer, mutations, provenance)
              edited = true
              return Effect.zipRight(
                store.update(viewer, first.id, { body: "edited" }),
                store.apply(viewer, mutations, provenance)
              )
            })
        })
      }))
    }))
})

describe("vectors of remembered texts", () => {
  const keep = (text: string) => ({ purpose: "add" as const, texts: [text] })

  it.effect("a fact that is stored exactly as extracted is embedded only once", () => {
    const { calls, layer } = counted()
    return Effect.gen(function*() {
      const { pipeline, store } = yield* both
      yield* pipeline.remember(ada, turns, { scope })
      assert.deepStrictEqual(calls, [keep("Ada moved to Porto")])
      assert.deepStrictEqual(yield* Option.getOrThrow(store.vectors).pending("default", "hash-256"), [])
    }).pipe(within({ script: add("Ada moved to Porto"), embedder: layer }))
  })

  it.effect("a memory reworded by an UPDATE gets a new vector, and `recall` finds the memory by vector and by words", () => {
    const { calls, layer } = counted()
    return Effect.gen(function*() {
      const { pipeline, store } = yield* both
      const old = yield* put("Ada lives in Lisbon")
      yield* pipeline.embedMissing
      yield* pipeline.remember(ada, turns, { scope })
      assert.deepStrictEqual(calls.map(({ purpose }) => purpose), ["add", "add", "update"])
      for (const mode of ["vector", "lexical", "hybrid"] as const) {
        const { failures, hits } = yield* pipeline.recall(ada, { text: "quarter named Alfama", mode })
        assert.deepStrictEqual(failures, [])
        assert.deepStrictEqual(hits.map(({ record }) => record.id), [old.id], mode)
      }
      assert.deepStrictEqual(yield* Option.getOrThrow(store.vectors).pending("default", "hash-256"), [])
    }).pipe(within({
      script: [
        facts("Ada lives in Alfama"),
        memory({ event: "UPDATE", id: "0", text: "Her home: the Alfama quarter" })
      ],
      embedder: layer
    }))
  })

  it.effect("two facts that differ only in their Unicode form are embedded once, as one text", () => {
    const { calls, layer } = counted()
    return Effect.gen(function*() {
      const { pipeline, store } = yield* both
      yield* pipeline.remember(ada, turns, { scope })
      assert.deepStrictEqual(calls, [keep("José moved to Porto")])
      assert.deepStrictEqual(yield* Option.getOrThrow(store.vectors).pending("default", "hash-256"), [])
    }).pipe(within({
      script: [
        facts("Jose\u0301 moved to Porto", "José moved to Porto"),
        memory({ event: "ADD", text: "Jose\u0301 moved to Porto" })
      ],
      embedder: layer
    }))
  })

  it.effect("the receipt of `remember` for two facts has only one failure if the store fails to search by vectors", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const { failures } = yield* pipeline.remember(ada, turns, { scope })
      assert.deepStrictEqual(failures?.map(({ error, leg }) => [leg, error.reason]), [["vector", "io"]])
    }).pipe(within({
      script: [facts("Porto", "Lisbon"), memory()],
      embedder: Embedder.layerHash(),
      over: (store) => ({
        search: (viewer, query) =>
          Effect.map(store.search(viewer, { ...query, mode: "lexical" }), (found) => ({
            ...found,
            failures: [{ leg: "vector", error: MemoryError.make("io", { op: "search", message: "no vectors" }) }]
          }))
      })
    })))

  it.effect("`remember` with an Embedder shows the model a memory related by its vector alone before unrelated memories", () => {
    const texts: Array<ReadonlyArray<string>> = []
    return Effect.gen(function*() {
      const { pipeline } = yield* both
      for (let i = 0; i < 12; i++) yield* put(`filler number ${i}`)
      yield* put("she lives in Porto", { kind: "user" })
      for (let i = 12; i < 24; i++) yield* put(`filler number ${i}`)
      yield* pipeline.embedMissing
      yield* pipeline.remember(ada, turns, { scope })
      assert.strictEqual(texts[0]![0], "she lives in Porto")
    }).pipe(within({
      script: model("a new home", (existing) => {
        texts.push(existing.map(({ text }) => text))
        return []
      }),
      embedder: Layer.succeed(Embedder.Embedder, {
        model: "homes",
        dimensions: 2,
        embed: (all) => Effect.succeed(all.map((text) => Float32Array.from(/home|lives/.test(text) ? [1, 0] : [0, 1])))
      })
    }))
  })

  it.effect("`remember` reports a failing Embedder in the receipt, and a hybrid `recall` still finds the fact by words", () => {
    const { layer } = counted(() => true)
    return Effect.gen(function*() {
      const { pipeline } = yield* both
      const { failures } = yield* pipeline.remember(ada, turns, { scope })
      assert.deepStrictEqual(failures?.map(({ error, leg }) => [leg, error.reason]), [["vector", "model"], [
        "vector",
        "model"
      ]])
      const found = yield* pipeline.recall(ada, { text: "Porto", mode: "hybrid" })
      assert.deepStrictEqual(found.hits.map(({ record }) => record.body), ["Ada moved to Porto"])
      assert.deepStrictEqual(found.failures.map(({ leg }) => leg), ["vector"])
      assert.strictEqual(yield* reason(pipeline.recall(ada, { text: "Porto", mode: "vector" })), "model")
      assert.strictEqual(yield* reason(pipeline.embedMissing), "model")
    }).pipe(within({ script: add("Ada moved to Porto"), embedder: layer }))
  })

  it.effect.each([["dies", Effect.die("a bug")], ["interrupts itself", Effect.interrupt]] as const)(
    "a model or Embedder that %s is a failure with reason `model`, and `recall` then searches by words",
    ([, crash]) =>
      Effect.gen(function*() {
        const { pipeline, store } = yield* both
        assert.strictEqual(yield* reason(pipeline.remember(ada, turns, { scope })), "model")
        yield* store.put(ada, [{ scope, kind: "semantic", body: "Ada moved to Porto" }])
        const { failures, hits } = yield* pipeline.recall(ada, { text: "Porto", mode: "hybrid" })
        assert.deepStrictEqual(hits.map(({ record }) => record.body), ["Ada moved to Porto"])
        assert.deepStrictEqual(failures.map(({ error: { reason } }) => reason), ["model"])
      }).pipe(within({
        completion: Layer.succeed(Completion.Completion, Completion.make({ model: "m", complete: () => crash })),
        embedder: Layer.succeed(Embedder.Embedder, { model: "m", dimensions: 2, embed: () => crash })
      }))
  )

  it.effect("`embedMissing` computes each missing vector of a remembered text once", () => {
    let broken = true
    const { calls, layer } = counted(() => broken)
    return Effect.gen(function*() {
      const { pipeline, store } = yield* both
      yield* pipeline.remember(ada, turns, { scope })
      yield* pipeline.remember(ada, turns, { scope, infer: false })
      broken = false
      calls.length = 0
      assert.strictEqual(yield* pipeline.embedMissing, 3)
      assert.strictEqual(yield* pipeline.embedMissing, 0)
      assert.lengthOf(calls, 1)
      assert.deepStrictEqual(yield* Option.getOrThrow(store.vectors).pending("default", "hash-256"), [])
      assert.strictEqual(yield* pipeline.embed(ada, yield* everything), 3)
    }).pipe(within({ script: add("Ada moved to Porto"), embedder: layer }))
  })

  it.effect("`embedMissing` computes the vectors of all other texts if the Embedder always fails for one text", () => {
    const { layer } = counted((_, texts) => texts.some((text) => text.includes("poison")))
    return Effect.gen(function*() {
      const { pipeline, store } = yield* both
      const bodies = Array.from({ length: 20 }, (_, n) => n === 7 ? "poison" : `tea ${n}`)
      yield* store.put(ada, bodies.map((body) => ({ scope, kind: "reference", body })))
      assert.strictEqual(yield* pipeline.embedMissing, 19)
      const left = yield* Option.getOrThrow(store.vectors).pending("default", "hash-256")
      assert.deepStrictEqual(left.map(({ text }) => text), ["poison"])
      assert.strictEqual(yield* reason(pipeline.embedMissing), "model")
    }).pipe(within({ embedder: layer }))
  })

  it.effect("`embedMissing` computes each vector once and then ends, even if the store does not keep the vectors", () => {
    const { calls, layer } = counted()
    return Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* put("Ada lives in Lisbon")
      assert.strictEqual(yield* pipeline.embedMissing, 1)
      assert.lengthOf(calls, 1)
    }).pipe(within({
      embedder: layer,
      over: ({ vectors }) => ({ vectors: Option.map(vectors, (all) => ({ ...all, attach: () => Effect.void })) })
    }))
  })

  it.effect("`recall` searches by words if the store keeps no vectors or there is no Embedder; mode `vector` then fails", () => {
    const { calls, layer } = counted()
    const program = Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* pipeline.remember(ada, turns, { scope })
      assert.strictEqual(yield* pipeline.embedMissing, 0)
      const { failures, hits } = yield* pipeline.recall(ada, { text: "Porto" })
      assert.deepStrictEqual([failures.length, hits.length], [0, 1])
      const told = yield* pipeline.recall(ada, { text: "Porto", mode: "hybrid" })
      assert.deepStrictEqual([told.failures.map(({ leg }) => leg), told.hits.length], [["vector"], 1])
      assert.strictEqual(yield* reason(pipeline.recall(ada, { text: "Porto", mode: "vector" })), "unsupported")
    })
    const script = add("Ada moved to Porto")
    return Effect.gen(function*() {
      yield* program.pipe(within({ script, embedder: layer, over: () => ({ vectors: Option.none() }) }))
      assert.deepStrictEqual(calls, [])
      yield* program.pipe(within({ script }))
    })
  })

  it.effect("`recall` computes no vector if the query already has an embedding, has the mode `lexical`, or has no text", () => {
    const { calls, layer } = counted()
    return Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* put("Ada moved to Porto")
      yield* pipeline.recall(ada, { text: "Porto", mode: "lexical" })
      yield* pipeline.recall(ada, {
        text: "Porto",
        embedding: { model: "hash-256", vector: Array.from({ length: 256 }, () => 0.1) }
      })
      yield* pipeline.recall(ada, {})
      assert.deepStrictEqual(calls, [])
      yield* pipeline.recall(ada, { text: "Porto" })
      assert.deepStrictEqual(calls, [{ purpose: "search", texts: ["Porto"] }])
    }).pipe(within({ embedder: layer }))
  })
})

describe.each(Object.entries(stores))("MemoryPipeline on the store %s", (_, store) => {
  it.effect("`recall` finds a new fact, not the superseded fact; if the store has a history, `undo` makes the old fact valid again", () =>
    Effect.gen(function*() {
      const { pipeline, store } = yield* both
      yield* pipeline.remember(ada, turns, { scope, infer: false, session: "s", sequence: 0 })
      const first = yield* pipeline.remember(ada, turns, { scope })
      yield* TestClock.adjust("1 minute")
      const second = yield* pipeline.remember(ada, turns, { scope })
      assert.deepStrictEqual(second.applied.map(({ outcome }) => outcome), ["updated", "created"])
      yield* pipeline.embedMissing

      const found = (query: MemoryQuery) =>
        Effect.map(
          pipeline.recall(ada, { kinds: ["semantic"], ...query }),
          ({ hits }) => hits.map(({ record }) => record.body)
        )
      for (const mode of ["lexical", "hybrid"] as const) {
        assert.deepStrictEqual(yield* found({ text: "Porto", mode }), ["Ada moved to Porto"])
        assert.deepStrictEqual(yield* found({ text: "Lisbon", mode }), [])
        assert.deepStrictEqual(yield* found({ text: "Lisbon", mode, asOf: 59_999 }), ["Ada lives in Lisbon"])
      }
      if (store.capabilities.history) {
        yield* pipeline.undo(second)
        assert.deepStrictEqual(yield* found({ text: "Lisbon" }), ["Ada lives in Lisbon"])
        assert.strictEqual(yield* reason(pipeline.undo(first)), "conflict") // its record has two later revisions
      }
      assert.lengthOf(
        (yield* pipeline.remember(ada, turns, { scope, infer: false, session: "s", sequence: 0 })).applied,
        0
      )
    }).pipe(within({
      store,
      embedder: Embedder.layerHash(),
      script: [
        ...add("Ada lives in Lisbon"),
        facts("Ada moved to Porto"),
        memory({ event: "DELETE", id: "0" }, { event: "ADD", text: "Ada moved to Porto" })
      ]
    })))
})

describe.each(Object.entries(stores))("concurrent calls of `remember` on the store %s", (_, store) => {
  it.effect("50 concurrent calls of `remember` with the same fact make one record, with a vector if the store keeps vectors", () =>
    Effect.gen(function*() {
      const { pipeline, store } = yield* both
      yield* Effect.replicateEffect(pipeline.remember(ada, turns, { scope }), 50, { concurrency: "unbounded" })
      assert.lengthOf(yield* everything, 1)
      for (const { pending } of Option.toArray(store.vectors)) {
        assert.deepStrictEqual(yield* pending("default", "hash-256"), [])
      }
    }).pipe(within({
      store,
      embedder: Embedder.layerHash(),
      completion: meeting(50, model("Ada moved to Porto", () => [{ event: "ADD", text: "Ada moved to Porto" }]))
    })))
})

describe("MemoryPipeline.undo", () => {
  const content = Effect.map(
    everything,
    (all) => all.map((record) => ({ ...record, revision: 0 })).sort((a, b) => (a.id < b.id ? -1 : 1))
  )
  const live = Effect.flatMap(
    MemoryStore.MemoryStore,
    (store) => Effect.map(store.list(ada, {}), ({ items }) => items.map((record) => ({ ...record, revision: 0 })))
  )

  const script = [
    facts("Ada moved to Porto", "Ada drinks green tea", "Ada likes cats"),
    memory(
      { event: "DELETE", id: "0" },
      { event: "UPDATE", id: "1", text: "Ada drinks green tea" },
      { event: "ADD", text: "Ada moved to Porto" },
      { event: "ADD", text: "Ada likes cats" }
    )
  ]
  const world = Effect.zipRight(
    put("Ada lives in Lisbon", { links: [], importance: 0.25, expiresAt: 10_000_000 }),
    put("Ada drinks tea", { tags: ["drink"] })
  )

  it.effect.each(["soft", "hard"] as const)(
    "`undo` restores content, times and links of the records that `remember` changed with the option `supersede: %s`",
    (supersede) =>
      Effect.gen(function*() {
        const { pipeline } = yield* both
        yield* world
        const before = yield* live
        yield* TestClock.adjust("20 minutes")
        const receipt = yield* pipeline.remember(ada, turns, { scope, supersede })
        assert.notDeepEqual(yield* live, before)
        yield* TestClock.adjust("20 minutes") // the hourly maintenance must not erase tombstones in between
        yield* pipeline.undo(receipt)
        assert.deepStrictEqual(yield* live, before)
      }).pipe(within({ script }))
  )

  it.effect("`undo` accepts a receipt that was encoded as JSON and decoded", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* world
      const before = yield* live
      const receipt = yield* pipeline.remember(ada, turns, { scope })
      const json = JSON.parse(JSON.stringify(yield* Schema.encode(MemoryPipeline.Receipt)(receipt)))
      yield* pipeline.undo(yield* Schema.decodeUnknown(MemoryPipeline.Receipt)(json))
      assert.deepStrictEqual(yield* live, before)
    }).pipe(within({ script })))

  it.effect("`undo` fails with `conflict` and changes nothing if a record of the receipt was changed after `remember`", () =>
    Effect.gen(function*() {
      const { pipeline, store } = yield* both
      yield* world
      const receipt = yield* pipeline.remember(ada, turns, { scope })
      const added = receipt.applied.at(-1)!
      yield* store.update(ada, added.id, { importance: 1 })
      const before = yield* content
      assert.strictEqual(yield* reason(pipeline.undo(receipt)), "conflict")
      assert.deepStrictEqual(yield* content, before)
    }).pipe(within({ script })))

  it.effect("`undo` of a receipt without changes does nothing; a second `undo` of a receipt fails with `conflict`", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* pipeline.undo(yield* pipeline.plan(ada, turns, { scope }))
      const receipt = yield* pipeline.remember(ada, turns, { scope })
      yield* pipeline.undo(yield* pipeline.remember(ada, turns, { scope }))
      assert.lengthOf(yield* live, 1)
      yield* pipeline.undo(receipt)
      assert.lengthOf(yield* live, 0)
      assert.strictEqual(yield* reason(pipeline.undo(receipt)), "conflict")
    }).pipe(within({ script: [...add("x"), ...add("x"), ...add("x")] })))

  it.effect("facts and messages can be remembered again after an `undo`", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      yield* put("Ada lives in Lisbon")
      for (let i = 0; i < 2; i++) {
        const receipt = yield* pipeline.remember(ada, turns, { scope })
        assert.deepStrictEqual(yield* bodies(ada), ["Ada moved to Porto"])
        yield* pipeline.undo(receipt)
        assert.deepStrictEqual(yield* bodies(ada), ["Ada lives in Lisbon"])
      }
      const raw = { scope, infer: false, session: "s", sequence: 0 }
      yield* pipeline.undo(yield* pipeline.remember(ada, turns, raw))
      assert.lengthOf((yield* pipeline.remember(ada, turns, raw)).applied, 2)
    }).pipe(within({
      script: model(
        "Ada moved to Porto",
        () => [{ event: "DELETE", id: "0" }, { event: "ADD", text: "Ada moved to Porto" }]
      )
    })))

  it.effect("`undo` of a receipt with two changes of one record restores the record's original text", () =>
    Effect.gen(function*() {
      const { pipeline, store } = yield* both
      const old = yield* put("Ada lives in Lisbon")
      const update = (body: string) => ({ _tag: "Update", id: old.id, patch: { body } }) as const
      const applied = yield* store.apply(ada, [update("Porto"), update("Braga")])
      const parts = { viewer: ada, mutations: [], applied }
      yield* pipeline.undo({ ...parts, seal: yield* MemoryPipeline.seal(store, parts) })
      assert.deepStrictEqual(yield* bodies(ada), ["Ada lives in Lisbon"])
    }).pipe(within()))

  it.effect("`undo` succeeds even if a record of the receipt has expired", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* both
      const receipt = yield* pipeline.remember(ada, turns, { scope, ttl: "1 minute" })
      yield* TestClock.adjust("2 minutes")
      yield* pipeline.undo(receipt)
      assert.lengthOf(yield* live, 0)
    }).pipe(within({ script: add("x") })))
})

describe("MemoryPipeline.undo", () => {
  const script = [...add("Ada moved to Porto"), ...add("Ada likes cats")]
  const rows = Effect.flatMap(
    MemoryStore.MemoryStore,
    (store) => Effect.map(store.list(Viewer.system(), {}), ({ items }) => items)
  )
  type Receipt = MemoryPipeline.Receipt

  /** Functions that forge a receipt from two genuine ones, by name. The forged receipt has no valid seal. */
  const forgeries: Readonly<Record<string, (mine: Receipt, other: Receipt) => Receipt>> = {
    "without a seal": ({ applied, mutations, viewer }) => ({ applied, mutations, viewer }),
    "with an empty seal": (mine) => ({ ...mine, seal: "" }),
    "with another receipt's seal": (mine, { seal }) => ({ ...mine, seal }),
    "that claims to be System's": (mine) => ({ ...mine, viewer: Viewer.system() }),
    "that claims to be another viewer's": (mine) => ({ ...mine, viewer: Viewer.make({ userId: "bob" }) }),
    "that claims another tenant": (mine) => ({ ...mine, viewer: Viewer.make({ userId: "ada", tenant: "other" }) }),
    "that claims a wider reach": (mine) => ({ ...mine, viewer: Viewer.make({ userId: "ada", reach: "within" }) }),
    "whose record is another's": (mine, { applied }) => ({ ...mine, applied }),
    "whose id is another's": ({ applied: [first], ...mine }, { applied: [other] }) => ({
      ...mine,
      applied: [{ ...first!, id: other!.id }]
    }),
    "whose earlier revision is another": ({ applied: [first], ...mine }) => ({
      ...mine,
      applied: [{ ...first!, before: 1 }]
    }),
    "whose outcome is another": ({ applied: [first], ...mine }) => ({
      ...mine,
      applied: [{ ...first!, outcome: "updated" }]
    }),
    "with one change less": (mine) => ({ ...mine, applied: [] }),
    "with one change twice": ({ applied, ...mine }) => ({ ...mine, applied: [...applied, ...applied] }),
    "with other mutations": (mine, { mutations }) => ({ ...mine, mutations })
  }

  describe.each(Object.entries(stores))("on the store %s", (_, store) => {
    it.effect.each(Object.entries(forgeries))(
      "`undo` of a receipt %s fails with `not_owned`, and nothing is changed",
      ([, forge]) =>
        Effect.gen(function*() {
          const { pipeline } = yield* both
          const mine = yield* pipeline.remember(ada, turns, { scope })
          const other = yield* pipeline.remember(ada, turns, { scope })
          const before = yield* rows
          const error = yield* Effect.flip(pipeline.undo(forge(mine, other)))
          assert.strictEqual(error.reason, "not_owned")
          assert.include(error.message, "as `remember` returned it")
          assert.deepStrictEqual(yield* rows, before)
          yield* pipeline.undo(other)
          yield* pipeline.undo(mine)
        }).pipe(within({ script, store }))
    )

    it.effect("`undo` fails with `not_owned` for a receipt of another store", () =>
      Effect.gen(function*() {
        const foreign = yield* Effect.flatMap(both, ({ pipeline }) => pipeline.remember(ada, turns, { scope })).pipe(
          within({ script, store })
        )
        const { pipeline } = yield* both
        yield* pipeline.remember(ada, turns, { scope })
        assert.strictEqual(yield* reason(pipeline.undo(foreign)), "not_owned")
        assert.lengthOf(yield* rows, 1)
      }).pipe(within({ script, store })))
  })

  it.effect.prop(
    "MemoryPipeline.verify accepts a receipt that was encoded and decoded, but not a receipt that was changed",
    {
      viewer: Arbitrary.make(Schema.Union(Viewer.Viewer, Viewer.System)),
      mutations: Arbitrary.make(Schema.Array(MemoryMutation)),
      applied: Arbitrary.make(Schema.Array(Applied))
    },
    (parts) =>
      Effect.gen(function*() {
        const store = yield* MemoryStore.MemoryStore
        const receipt = { ...parts, seal: yield* MemoryPipeline.seal(store, parts) }
        const json = JSON.stringify(yield* Schema.encode(MemoryPipeline.Receipt)(receipt))
        const read = yield* Schema.decode(Schema.parseJson(MemoryPipeline.Receipt))(json)
        yield* MemoryPipeline.verify(store, read)
        const [first] = parts.applied
        if (first === undefined) return
        const changed = { ...read, applied: [{ ...first, before: first.before + 1 }, ...parts.applied.slice(1)] }
        assert.strictEqual(yield* reason(MemoryPipeline.verify(store, changed)), "not_owned")
      }).pipe(within()),
    { fastCheck: { numRuns: 100 } }
  )
})
