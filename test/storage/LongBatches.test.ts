/** A batch of many mutations in memory: it yields to the event loop many times, and is atomic nevertheless. */
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import type { MemoryMutation } from "../../src/domain/MemoryMutation.ts"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import { check } from "../../src/domain/Validation.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import type { Engine } from "../../src/storage/Engine.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { Mutations } from "../../src/storage/MemoryStore/internal/Transaction.ts"
import { refuses } from "../../src/testing/Law.ts"
import { listen } from "../../src/testing/Listener.ts"
import { ada, draft, fact, found, get, id, listed, put, system, the } from "../../src/testing/Sample.ts"
import { inMemory } from "./engines.ts"

const made = (wrap: (engine: Engine) => Engine = (engine) => engine) =>
  Effect.flatMap(inMemory, (engine) => MemoryStore.make("long", wrap(engine)))

/**
 * Runs an effect. Each time that it yields to the event loop (a turn), runs `onTurn` with the number of the turn, counted from 1. Returns
 * the exit of the effect and the number of turns.
 */
const withTurns = <A, E>(self: Effect.Effect<A, E>, onTurn: (turn: number) => Effect.Effect<void>) =>
  Effect.clockWith((clock) => {
    let turn = 0
    const counting: typeof clock = Object.assign(Object.create(clock), {
      sleep: (time: Duration.Duration) =>
        Duration.toMillis(time) === 0
          ? Effect.withClock(Effect.suspend(() => onTurn(++turn)), clock)
          : clock.sleep(time)
    })
    return Effect.map(Effect.exit(Effect.withClock(self, counting)), (exit) => ({ exit, turns: turn }))
  })

const many = 700
const drafts = Array.from({ length: many }, (_, n) => fact(`Tea number ${n}`))
const count = (store: MemoryStore.Service) => Effect.map(store.list(ada, { limit: 1_000 }), ({ items }) => items.length)

/** Makes an `onTurn` for `withTurns` that runs an effect at one turn. */
const at = (turn: number, self: Effect.Effect<unknown, MemoryError>) => (now: number) =>
  now === turn ? Effect.orDie(Effect.asVoid(self)) : Effect.void

/** Runs a check once for each turn that a put of `drafts` takes. */
const atEachTurn = <E>(law: (turn: number, isLast: boolean) => Effect.Effect<void, E>) =>
  Effect.gen(function*() {
    const store = yield* made()
    const { turns } = yield* withTurns(store.put(ada, drafts), () => Effect.void)
    assert.isAtLeast(turns, 8)
    for (let turn = 1; turn <= turns; turn++) yield* law(turn, turn === turns)
  })

describe("a long batch in memory", () => {
  it.effect("a batch yields to the event loop, and readers see nothing of the batch before its commit", () =>
    Effect.gen(function*() {
      const store = yield* made()
      yield* put(store, fact("Coffee"))
      yield* store.search(ada, { text: "Coffee" })
      const told = yield* listen(store, ada)
      const seen: Array<readonly [listed: number, found: number]> = []
      const look = Effect.gen(function*() {
        seen.push([yield* count(store), (yield* found(store, ada, { text: "Tea", limit: 1_000 })).length])
      })
      const { turns } = yield* withTurns(store.put(ada, drafts), () => Effect.orDie(look))
      assert.isAtLeast(turns, 2 * Math.ceil(many / 305)) // a loose bound: each of the three passes yields at least once per 128 mutations
      const last = seen.pop()
      assert.deepStrictEqual(seen, seen.map(() => [1, 0]))
      assert.deepStrictEqual(last, [many + 1, many])
      assert.deepStrictEqual((yield* told).map(({ _tag }) => _tag), drafts.map(() => "Written"))
    }).pipe(Effect.scoped))

  it.effect("a batch with longer bodies yields more often", () =>
    Effect.gen(function*() {
      const long = drafts.slice(0, 140).map((one, n) => ({ ...one, body: `${n} ${"tea ".repeat(16_000)}` }))
      const turnsOf = (drafts: ReadonlyArray<Draft>, wrap?: typeof unpaced) =>
        Effect.flatMap(
          made(wrap),
          (store) => Effect.map(withTurns(store.put(ada, drafts), () => Effect.void), ({ turns }) => turns)
        )
      assert.isAbove(yield* turnsOf(long, unpaced), 10 + (yield* turnsOf(drafts.slice(0, 140), unpaced)))
      assert.isAbove(yield* turnsOf(long), 10 + (yield* turnsOf(long, unpaced)))
    }))

  it.effect("writes of other fibers while the batch yields are not lost, even writes to records of the batch", () =>
    atEachTurn((turn, isLast) =>
      Effect.gen(function*() {
        const store = yield* made()
        const [updated, forgotten] = yield* store.put(ada, [draft("updated"), draft("forgotten")])
        const rest: ReadonlyArray<MemoryMutation> = drafts.map((draft) => ({ _tag: "Put", draft }))
        const { exit } = yield* withTurns(
          store.apply(ada, [{ _tag: "Update", id: updated!.record.id, patch: { summary: "ours" } }, ...rest]),
          at(turn, store.update(ada, updated!.record.id, { tags: ["theirs"] }, { ifRevision: isLast ? 2 : 1 }))
        )
        assert.isTrue(Exit.isSuccess(exit))
        const { revision, summary, tags } = yield* the(store, ada, updated!.record.id)
        assert.deepStrictEqual([revision, summary, tags], [3, "ours", ["theirs"]])

        const twice = yield* withTurns(
          store.apply(ada, [...rest, { _tag: "Update", id: forgotten!.record.id, patch: { summary: "ours" } }]),
          at(turn, store.forget(ada, [forgotten!.record.id]))
        )
        assert.strictEqual(Exit.isSuccess(twice.exit), isLast)
        assert.isUndefined(yield* get(store, ada, forgotten!.record.id))

        const other = yield* made()
        const { exit: puts } = yield* withTurns(other.put(ada, drafts), at(turn, other.put(ada, [drafts[600]!])))
        const outcomes = Exit.getOrElse(puts, () => []).map(({ outcome }) => outcome)
        assert.deepStrictEqual(outcomes, drafts.map((_, n) => n === 600 && !isLast ? "duplicate" : "created"))
        assert.strictEqual(yield* count(other), many)
      })
    ))

  it.effect("a batch with `ifRevision` fails with `conflict` if the record changes while the batch yields before its commit", () =>
    atEachTurn((turn, isLast) =>
      Effect.gen(function*() {
        const store = yield* made()
        yield* put(store, draft("one", { id: id("one") }))
        const batch: ReadonlyArray<MemoryMutation> = [
          ...drafts.map((draft): MemoryMutation => ({ _tag: "Put", draft })),
          { _tag: "Update", id: id("one"), patch: { body: "ours" }, ifRevision: 1 }
        ]
        const { exit } = yield* withTurns(
          isLast ? Effect.asVoid(store.apply(ada, batch)) : Effect.asVoid(refuses("conflict", store.apply(ada, batch))),
          at(turn, store.update(ada, id("one"), { body: "theirs" }))
        )
        assert.isTrue(Exit.isSuccess(exit))
        assert.strictEqual((yield* the(store, ada, id("one"))).body, "theirs")
        assert.strictEqual(yield* count(store), isLast ? many + 1 : 1)
      })
    ))

  it.effect("a batch is applied to the rows as they are at its commit, even if another fiber purges rows meanwhile", () =>
    atEachTurn((turn, isLast) =>
      Effect.gen(function*() {
        const store = yield* made()
        const own = drafts.map((draft, n) => ({ ...draft, id: id(`${n}`) }))
        yield* store.put(ada, own)
        const again = Effect.zipRight(
          store.forget(ada, own.map(({ id }) => id), { purge: true }),
          store.put(ada, own.slice(0, 1))
        )
        const { exit } = yield* withTurns(store.put(ada, own), at(turn, again))
        const revisions = Exit.getOrElse(exit, () => []).map(({ record }) => record.revision)
        assert.deepStrictEqual(revisions, own.map((_, n) => isLast || n === 0 ? 2 : 1))
      })
    ))

  it.effect("a batch completes and delays no other write, even if one of its records changes at every yield", () =>
    Effect.gen(function*() {
      const store = yield* made()
      yield* put(store, draft("0", { id: id("busy"), data: { n: 0 } }))
      let written = 0
      const write = Effect.suspend(() => store.update(ada, id("busy"), { body: String(++written) }))
      const alone = yield* withTurns(store.put(ada, drafts), () => Effect.void)
      const batch: ReadonlyArray<MemoryMutation> = [
        ...drafts.map((draft): MemoryMutation => ({ _tag: "Put", draft })),
        { _tag: "Update", id: id("busy"), patch: { summary: "ours" } }
      ]
      const { exit, turns } = yield* withTurns(store.apply(ada, batch), () => Effect.orDie(write))
      assert.isTrue(Exit.isSuccess(exit))
      assert.strictEqual(written, turns)
      assert.isAbove(turns, alone.turns)
      assert.isAtMost(turns, 4 * alone.turns)
      assert.strictEqual((yield* the(store, ada, id("busy"))).revision, written + 2)
    }))

  it.effect("the batch is written completely or not at all, even if interrupted at any yield", () =>
    atEachTurn((turn, isLast) =>
      Effect.gen(function*() {
        const store = yield* made()
        yield* put(store, draft("before"))
        const { exit } = yield* withTurns(
          store.put(ada, drafts),
          (now) => now === turn ? Effect.interrupt : Effect.void
        )
        assert.isTrue(Exit.isInterrupted(exit))
        assert.strictEqual(yield* count(store), isLast ? many + 1 : 1)
        assert.lengthOf(yield* found(store, ada, { text: "Tea", limit: 1_000 }), isLast ? many : 0)
      })
    ))

  it.effect("drafts changed after their validation are written as validated; drafts made invalid before their validation fail the whole batch", () =>
    atEachTurn((turn) =>
      Effect.gen(function*() {
        const store = yield* made()
        const data = { said: ["tea"] }
        const tags = ["tea"]
        const batch = Array.from({ length: many }, (_, n) => draft(`${n}`, { data, tags }))
        const mutations = batch.map((draft): MemoryMutation => ({ _tag: "Put", draft }))
        const { exit } = yield* withTurns(
          store.apply(ada, mutations),
          at(
            turn,
            Effect.sync(() => {
              data.said[0] = "\ud800"
              tags[0] = ""
              mutations.splice(1)
            })
          )
        )
        const { items } = yield* store.list(ada, { limit: 1_000 })
        assert.lengthOf(items, Exit.isSuccess(exit) ? many : 0)
        assert.strictEqual(Exit.isSuccess(exit), turn >= Math.ceil(many / 128)) // by then all drafts are checked
        for (const { body, data, tags } of items) {
          assert.deepStrictEqual([data, tags], [{ said: ["tea"] }, ["tea"]], body)
        }
      })
    ))

  it.effect("a long batch with invalid mutations fails with the same reason and message as one check of all mutations", () =>
    Effect.gen(function*() {
      const store = yield* made()
      const bad = [
        ...drafts.slice(0, 300),
        { ...draft("x"), tags: [""] },
        ...drafts.slice(300),
        { ...draft("y"), importance: 7, kind: "No kind" }
      ]
      const mutations = bad.map((draft): MemoryMutation => ({ _tag: "Put", draft }))
      const expected = yield* Effect.flip(check("apply", Mutations, { mutations }))
      const { detail, message, reason } = yield* Effect.flip(store.apply(ada, mutations))
      assert.deepStrictEqual({ detail, message, reason }, {
        detail: expected.detail,
        message: expected.message,
        reason: expected.reason
      })
      assert.match(message, /^mutations\.300\.draft\.tags\.0: .+; mutations\.701\.draft\./)
      const trust = yield* Effect.flip(store.put(ada, drafts, { trust: 9 as 3 })) // an untyped caller may pass any number
      assert.deepStrictEqual(
        trust.message,
        (yield* Effect.flip(store.put(ada, [draft("x")], { trust: 9 as 3 }))).message
      )
      assert.deepStrictEqual(yield* listed(store, system), [])
    }))

  it.effect("random batches have the same effects and results whether or not the transaction yields", () =>
    Effect.promise(() =>
      FastCheck.assert(
        FastCheck.asyncProperty(
          FastCheck.array(mutation, { minLength: 150, maxLength: 400, size: "max" }),
          (mutations) =>
            Effect.runPromise(Effect.zipWith(told(mutations), told(mutations, unpaced), assert.deepStrictEqual))
        ),
        { seed: 15, numRuns: 30 }
      )
    ))
})

/** Returns the engine with a `transact` that never pauses. */
const unpaced = (engine: Engine): Engine => ({
  ...engine,
  transact: (tenant, needs, decide) => engine.transact(tenant, needs, (found) => decide(found))
})

/** Applies a batch in a new store with earlier records; returns the result of the batch, and the records of the store. */
const told = (mutations: ReadonlyArray<MemoryMutation>, wrap?: (engine: Engine) => Engine) =>
  Effect.gen(function*() {
    const store = yield* made(wrap)
    yield* store.put(ada, [3, 4, 5].map((n) => fact(`fact ${n}`, { id: id(`${n}`) })))
    yield* store.forget(ada, [id("4")])
    yield* put(store, draft("Bob's", { id: id("6"), scope: { userId: "bob" } }), Viewer.make({ userId: "bob" }))
    const answer = yield* Effect.either(store.apply(ada, mutations))
    const ids = Array.from({ length: 8 }, (_, n) => id(`${n}`))
    return {
      answer,
      rows: yield* Option.getOrThrow(store.reader).read("default", ids),
      all: yield* store.list(system, { limit: 1_000 }),
      found: yield* store.search(ada, { text: "fact", limit: 1_000 })
    }
  }).pipe(Effect.withRandom(Random.make("long")), Effect.withClock(still))

const still = Object.assign(Object.create(Effect.runSync(Effect.clock)), {
  unsafeCurrentTimeMillis: () => 1_700_000_000_000,
  currentTimeMillis: Effect.succeed(1_700_000_000_000)
})

/** Generates mutations. Invalid ones are rare, since one of them fails the whole batch. */
const mutation: FastCheck.Arbitrary<MemoryMutation> = FastCheck.oneof(
  { weight: 2_000, arbitrary: FastCheck.nat(40).map((n) => ({ _tag: "Put", draft: fact(`fact ${n}`) }) as const) },
  {
    weight: 800,
    arbitrary: FastCheck.tuple(FastCheck.nat(5), FastCheck.nat(9)).map(([n, m]) =>
      ({ _tag: "Put", draft: fact(`fact ${m}`, { id: id(`${n}`) }) }) as const
    )
  },
  {
    weight: 600,
    arbitrary: FastCheck.tuple(FastCheck.nat(5), FastCheck.boolean()).map(([n, purge]) =>
      ({ _tag: "Forget", id: id(`${n}`), purge }) as const
    )
  },
  { weight: 5, arbitrary: FastCheck.nat(7).map((n) => ({ _tag: "Restore", id: id(`${n}`), revision: 1 }) as const) },
  {
    weight: 5,
    arbitrary: FastCheck.nat(7).map((n) => ({ _tag: "Update", id: id(`${n}`), patch: { body: "x" } }) as const)
  }
)
