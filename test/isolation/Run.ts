/**
 * Runs a world (see `World`) on two stores in lockstep: with the operations of foreign viewers (`crowded`), and without them (`alone`).
 * Compares the answers that both stores give to the viewers of the group. Shortens a failing world: removes the steps that the failure
 * does not need.
 */
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { MemoryError } from "../../src/domain/MemoryError.ts"
import { stableId } from "../../src/domain/MemoryId.ts"
import type { StoreChange } from "../../src/domain/MemoryMutation.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import type { MemoryEvent } from "../../src/harness/MemoryEvents.ts"
import type { Failure as ToolFailure } from "../../src/host/MemoryTool.ts"
import * as SecureRandom from "../../src/host/SecureRandom.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Agent from "./Agent.ts"
import { Comparison, type Difference } from "./Compare.ts"
import { ask, claimed, type Foreign, idOf, isWrite, type Operation, type Side, written } from "./Operation.ts"
import * as World from "./World.ts"

export type Store = Layer.Layer<MemoryStore.MemoryStore, unknown>

export interface Failure extends Difference {
  /** Index of the step after which the difference was found. */
  readonly at: number
}
export interface Counts {
  /** Number of operations of the group whose answers were compared. */
  readonly compared: number
  /** Number of operations of foreign viewers. */
  readonly foreign: number
  readonly known: Readonly<Record<World.KnownDifference, number>>
}
export interface Outcome extends Counts {
  readonly failure: Failure | undefined
}

/** The state of a run: both stores, and the ids and cursors in their answers so far. */
interface Pair {
  readonly alone: Side
  readonly crowded: Side
  readonly foreign: Foreign
  readonly comparison: Comparison
}

export interface Options {
  /** Whether a listener receives all changes in one order; a federation orders them per store only. Default true. */
  readonly ordersChanges?: boolean | undefined
  /** Replaces the agent by one that lets a viewer notice other viewers, to test the isolation test itself. */
  readonly breaks?: ((agent: Agent.Agent) => Agent.Agent) | undefined
}

export const run = (
  world: World.World,
  store: Store,
  { breaks = (agent) => agent, ordersChanges = true }: Options = {}
): Effect.Effect<Outcome, unknown> =>
  Effect.gen(function*() {
    const clock = yield* Effect.clock
    const time = ticking(1_750_000_000_000)
    const counts = { compared: 0, foreign: 0, known: { "claimed id": 0 } }
    const failure = yield* Effect.gen(function*() {
      const build = Effect.map(Layer.build(Layer.fresh(store)), Context.get(MemoryStore.MemoryStore)).pipe(
        Effect.withRandom(Random.make(world.seed)),
        // both stores draw the same secret, so that ids which are keyed by it can be compared
        Effect.provide(SecureRandom.layerSeeded(world.seed))
      )
      const side = Effect.gen(function*() {
        const store = yield* build
        const agent = world.agents ? breaks(yield* Agent.over(store, world.vectors)) : undefined
        return { store, agent, minted: [], cursors: [] }
      })
      const pair: Pair = {
        alone: yield* side,
        crowded: yield* side,
        foreign: { minted: [], cursors: [] },
        comparison: new Comparison({ exact: !world.agents })
      }
      const told = yield* listening(world.group, pair, ordersChanges)
      for (const [at, step] of world.steps.entries()) {
        const seeded = Effect.withRandom(Random.make(`${world.seed}/${at}`))
        const difference = yield* seeded(take(world, pair, step, counts, time))
        if (difference) return { at, ...difference }
        // waits for the listeners before time goes on, since changes of expired records are not published
        if (step.step === "compact" || ("operation" in step && isWrite(step.operation))) yield* heard
        if (at % 20 === 19 || at === world.steps.length - 1) {
          const difference = (yield* told) ?? pair.comparison.order()
          if (difference) return { at, ...difference }
          yield* breath
        }
      }
      return undefined
    }).pipe(Effect.scoped, Effect.withClock(time.clock(clock)))
    return { ...counts, failure }
  })

/** Returns to the event loop, so that the test runner can send its messages; operations of a store in memory never return to it. */
const breath = Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void)))

const take = (
  world: World.World,
  pair: Pair,
  step: World.Step,
  counts: { compared: number; foreign: number; known: Record<World.KnownDifference, number> },
  time: Time
): Effect.Effect<Difference | undefined, MemoryError> =>
  Effect.gen(function*() {
    const { alone, comparison, crowded, foreign } = pair
    switch (step.step) {
      case "wait":
        time.pass(step.millis)
        return undefined
      case "foreign": {
        // within a millisecond, each id of a tenant is one more than the last; foreign ids get a millisecond of their own
        if (Viewer.tenantOf(step.viewer) === world.tenant.normalize("NFC")) time.pass(1)
        if (yield* isTheGroups(world, pair, step.viewer, step.operation)) return undefined
        const side: Side = { ...crowded, ...foreign }
        const random = yield* Random.nextInt
        yield* Effect.exit(ask(side, foreign, step.viewer, step.operation)).pipe(
          Effect.withRandom(Random.make(`foreign ${random}`))
        )
        counts.foreign++
        if (Viewer.tenantOf(step.viewer) === world.tenant.normalize("NFC")) time.pass(1)
        return undefined
      }
      case "compact": {
        if (world.vectors) yield* Effect.zipRight(sweep(alone, world), sweep(crowded, world))
        const random = yield* Random.nextInt
        const compact = ({ store }: Side) => Effect.withRandom(store.compact, Random.make(random))
        yield* Effect.zipRight(compact(alone), compact(crowded)) // the returned counts are not compared: they count rows of all viewers
        return undefined
      }
      case "embed":
        yield* Effect.zipRight(
          embed(alone.store, world.tenant, step.share),
          embed(crowded.store, world.tenant, step.share)
        )
        return undefined
      case "ask": {
        const random = yield* Random.nextInt
        const answer = (side: Side) =>
          ask(side, foreign, step.viewer, step.operation).pipe(Effect.withRandom(Random.make(random)), Effect.exit)
        const busy = yield* answer(crowded)
        if (yield* isClaimed(pair, step.viewer, step.operation, busy)) {
          counts.known["claimed id"]++
          time.pass(1) // the crowded store may have generated ids that the other store lacks
          return undefined
        }
        const quiet = yield* answer(alone)
        const difference = died(quiet) ?? comparison.answers(plain(quiet), plain(busy))
        counts.compared++
        if (world.vectors && isWrite(step.operation)) {
          yield* Effect.zipRight(sweep(alone, world), sweep(crowded, world))
        }
        return difference
      }
    }
  })

/**
 * Whether an operation of a foreign viewer would change a record that the group sees, or a call of its agent could create one. Such an
 * operation is not run.
 */
const isTheGroups = (
  { group }: World.World,
  { crowded, foreign }: Pair,
  viewer: Viewer.Any,
  operation: Operation
) =>
  Effect.gen(function*() {
    if (operation.op === "call" && !Viewer.isSystem(viewer)) {
      const targets = Agent.targets(viewer, operation.call)
      if (targets.some((scope) => World.isSeenBy(group, Viewer.tenantOf(viewer), scope))) return true
    }
    const ids = written(operation).map((name) => idOf({ ...crowded, ...foreign }, foreign, name))
    const tenant = Viewer.tenantOf(viewer)
    const held = yield* crowded.store.get(Viewer.system(tenant), ids)
    return held.some((record) => Option.isSome(record) && World.isSeenBy(group, tenant, record.value.scope))
  })

/** Whether the crowded store refused an id because a record that the viewer does not see has it, and the error says nothing more. */
const isClaimed = (
  { crowded, foreign }: Pair,
  viewer: Viewer.Any,
  operation: Operation,
  answer: Exit.Exit<unknown, MemoryError | ToolFailure>
) =>
  Effect.gen(function*() {
    const error = Exit.isFailure(answer) ? Option.getOrUndefined(Cause.failureOption(answer.cause)) : undefined
    if (!(error instanceof MemoryError) || error.reason !== "invalid_id" || error.id === undefined) return false
    if (!claimed(operation).some((name) => idOf(crowded, foreign, name) === error.id)) return false
    const [held] = yield* crowded.store.get(Viewer.system(Viewer.tenantOf(viewer)), [error.id])
    return Option.isSome(held!) && !Viewer.sees(viewer, held.value.scope) && saysNothingMore(error)
  })
const saysNothingMore = ({ detail, message }: MemoryError) =>
  detail === undefined && message === "this id cannot be used"

/**
 * Subscribes to both stores' changes, for each viewer of the group, and to the events of both agents. The returned effect compares what
 * arrived since its last run.
 */
const listening = (
  group: World.World["group"],
  { alone, comparison, crowded }: Pair,
  ordersChanges: boolean
): Effect.Effect<
  Effect.Effect<Difference | undefined>,
  never,
  Scope.Scope
> =>
  Effect.gen(function*() {
    const listen = (side: Side, viewer: Viewer.Any) =>
      Effect.gen(function*() {
        const changes: Array<StoreChange> = []
        yield* Effect.forkScoped(
          Stream.runForEach(side.store.changes(viewer), (change) => Effect.sync(() => changes.push(change))).pipe(
            Effect.catchAll((error) => Effect.sync(() => changes.push({ _tag: "Issue", error }))) // the stream failed
          )
        )
        return () => changes.splice(0)
      })
    const told = (side: Side) =>
      Effect.gen(function*() {
        const events: Array<MemoryEvent> = []
        if (side.agent === undefined) return () => events
        const theirs = Stream.filter(
          side.agent.events,
          (event) => event.viewer === null || group.some((viewer) => Viewer.equals(viewer, event.viewer))
        )
        yield* Effect.forkScoped(Stream.runForEach(theirs, (event) => Effect.sync(() => events.push(event))))
        return () => events.splice(0)
      })
    const all = yield* Effect.forEach(group, (viewer) => Effect.all([listen(alone, viewer), listen(crowded, viewer)]))
    const [quietly, busily] = yield* Effect.all([told(alone), told(crowded)])
    yield* settled
    return Effect.gen(function*() {
      yield* settled
      const difference = comparison.answers({ answer: quietly() }, { answer: busily() })
      if (difference) return { ...difference, path: `events.${difference.path}` }
      for (const [quiet, busy] of all) {
        const [before, after] = [quiet(), busy()]
        const difference = ordersChanges
          ? comparison.answers({ answer: before }, { answer: after })
          : comparison.answers(
            { answer: byRecord(before, (id) => id) },
            { answer: byRecord(after, (id) => comparison.aloneOf(id)) }
          )
        if (difference) return { ...difference, path: `changes.${difference.path}` }
      }
      return undefined
    })
  })
/** Sorts changes by record, stably, so that the changes of each record keep their order. */
const byRecord = (changes: ReadonlyArray<StoreChange>, name: (id: string) => string): ReadonlyArray<StoreChange> => {
  const keyOf = (change: StoreChange) =>
    change._tag === "Issue" ? "" : name(change._tag === "Written" ? change.record.id : change.id)
  return changes.slice().sort((a, b) => keyOf(a) < keyOf(b) ? -1 : keyOf(a) > keyOf(b) ? 1 : 0)
}
/** Waits until the listeners have received all changes: `heard` after a step, `settled` before changes are compared. */
const heard = Effect.repeatN(Effect.yieldNow(), 30)
const settled = Effect.repeatN(Effect.yieldNow(), 100)

/** Erases the vectors of texts that no record has any more: puts and purges a record, since every purge erases such vectors. */
const sweep = ({ store }: Side, { tenant }: World.World) =>
  Effect.gen(function*() {
    const system = Viewer.system(tenant)
    const id = stableId("swept")
    yield* store.put(system, [{ id, scope: { userId: "sweeper" }, kind: "reference", body: "swept" }])
    yield* store.forget(system, [id], { purge: true })
  })

/** Adds vectors for a share of the texts without one. The vectors of the compared tenant have 4 numbers, those of other tenants 3. */
const embed = ({ tenants, vectors }: MemoryStore.Service, home: string, share: number) =>
  Effect.gen(function*() {
    if (Option.isNone(vectors)) return
    for (const tenant of yield* tenants) {
      const length = tenant === home.normalize("NFC") ? 4 : 3
      for (const model of World.models) {
        const pending = yield* vectors.value.pending(tenant, model)
        yield* vectors.value.attach(
          tenant,
          model,
          pending.filter(({ hash }) => Number.parseInt(hash.slice(0, 2), 16) < share * 256)
            .map(({ hash, text }) => [hash, vectorOf(model, text).slice(0, length)] as const)
        )
      }
    }
  })

/** Makes a vector from the words of a text, so that similar texts lie near each other. */
const vectorOf = (model: string, text: string): Float32Array =>
  Float32Array.from(
    ["tea", "coffee", "water", "sea"],
    (word) => text.toLowerCase().split(word).length - 1 + (model === "n" && word === "sea" ? 0.5 : 0.1)
  )

/** Converts the exit of an operation, be it an answer, a failure or a defect, to JSON. */
const plain = (answer: Exit.Exit<unknown, unknown>): unknown =>
  Exit.match(answer, {
    onSuccess: (value) => ({ answer: value }),
    onFailure: (cause) =>
      Option.match(Cause.failureOption(cause), {
        onSome: (error) =>
          error instanceof MemoryError
            ? { op: error.op, reason: error.reason, message: error.message, id: error.id, detail: error.detail }
            : { error: String(error) },
        onNone: () => ({ died: Cause.pretty(cause).split("\n")[0] })
      })
  })

/** Returns a difference if an answer is a defect, since no answer may be one. */
const died = (answer: Exit.Exit<unknown, unknown>): Difference | undefined =>
  Exit.isFailure(answer) && Option.isNone(Cause.failureOption(answer.cause))
    ? { path: "a defect", alone: Cause.pretty(answer.cause), crowded: undefined }
    : undefined

interface Time {
  readonly pass: (millis: number) => void
  /** Makes a clock whose sleeps never end, except those of 0 ms: compaction, which the library does every hour, is a step instead. */
  readonly clock: (clock: Clock.Clock) => Clock.Clock
}
const ticking = (from: number): Time => {
  let now = from
  return {
    pass: (millis) => void (now += millis),
    clock: (clock) =>
      Object.assign<Clock.Clock, Partial<Clock.Clock>>(Object.create(clock), {
        unsafeCurrentTimeMillis: () => now,
        unsafeCurrentTimeNanos: () => BigInt(now) * 1_000_000n,
        currentTimeMillis: Effect.sync(() => now),
        currentTimeNanos: Effect.sync(() => BigInt(now) * 1_000_000n),
        sleep: (time) => Duration.toMillis(time) === 0 ? Effect.yieldNow() : Effect.never
      })
  }
}

/** Removes steps from a world that fails, as long as the rest still fails. Takes at most `runs` further runs. */
export const shrunk = (
  world: World.World,
  failure: Failure,
  store: Store,
  runs: number,
  options?: Options
): Effect.Effect<{ readonly world: World.World; readonly failure: Failure }, unknown> =>
  Effect.gen(function*() {
    let left = runs
    let best = { world: { ...world, steps: world.steps.slice(0, failure.at + 1) }, failure }
    for (let size = best.world.steps.length >> 1; size > 0 && left > 0; size >>= 1) {
      for (let from = best.world.steps.length - 1 - size; left > 0 && from > -size; from -= size) {
        const steps = best.world.steps.filter((_, n) => n < from || n >= from + size)
        const without = { ...world, steps }
        left--
        const { failure } = yield* run(without, store, options)
        if (failure) best = { world: { ...without, steps: steps.slice(0, failure.at + 1) }, failure }
      }
    }
    return best
  })
