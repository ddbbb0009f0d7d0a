import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"

const event = (at: number): MemoryEvents.MemoryEvent => ({
  _tag: "memory_forgotten",
  viewer: Viewer.make({ userId: "ada" }),
  at,
  id: MemoryId.stableId(`${at}`),
  purged: false
})

/** Yields repeatedly, so that other fibers run as far as they can. */
const settled = Effect.repeatN(Effect.yieldNow(), 100)

/** Subscribes to the events. Returns an Effect that waits for the first `n` events, and returns their times. */
const listen = (events: MemoryEvents.Service, n: number) =>
  Effect.gen(function*() {
    const fiber = yield* events.stream.pipe(Stream.take(n), Stream.runCollect, Effect.fork)
    yield* settled
    return Effect.map(Fiber.join(fiber), (all) => Chunk.toReadonlyArray(all).map(({ at }) => at))
  })

describe("MemoryEvents", () => {
  it.effect("each subscriber receives all events published after its subscription, in order", () =>
    Effect.gen(function*() {
      const events = yield* MemoryEvents.MemoryEvents
      yield* events.publish(event(0))
      const first = yield* listen(events, 3)
      yield* events.publish(event(1))
      const second = yield* listen(events, 2)
      yield* events.publish(event(2))
      yield* events.publish(event(3))
      assert.deepStrictEqual(yield* first, [1, 2, 3])
      assert.deepStrictEqual(yield* second, [2, 3])
    }).pipe(Effect.provide(MemoryEvents.layer())))

  it.effect("a slow subscriber loses the oldest waiting events, and delays no publisher", () =>
    Effect.gen(function*() {
      const events = yield* MemoryEvents.MemoryEvents
      const open = yield* Deferred.make<void>()
      const heard: Array<number> = []
      const fiber = yield* events.stream.pipe(
        Stream.tap(({ at }) => Effect.sync(() => heard.push(at))),
        Stream.tap(() => Deferred.await(open)),
        Stream.takeUntil(({ at }) => at === 100),
        Stream.runDrain,
        Effect.fork
      )
      yield* settled
      yield* events.publish(event(0))
      yield* settled
      for (let at = 1; at <= 100; at++) yield* events.publish(event(at))
      yield* Deferred.succeed(open, undefined)
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(heard, [0, 93, 94, 95, 96, 97, 98, 99, 100])
    }).pipe(Effect.provide(MemoryEvents.layer({ capacity: 8 }))))

  const common = { viewer: Viewer.make({ userId: "ada" }), at: 1 }
  const entry = { id: MemoryId.stableId("tea"), scope: { userId: "ada" }, kind: "user" }
  const found = { id: entry.id, scope: entry.scope, score: 1 }
  const texts: ReadonlyArray<MemoryEvents.MemoryEvent> = [
    { _tag: "memory_written", ...common, ...entry, summary: "Likes tea", outcome: "created" },
    { _tag: "memory_retired", ...common, ...entry, summary: "Likes tea" },
    { _tag: "memory_recalled", ...common, query: "Which tea?", hits: [found] }
  ]
  const published = (options?: Parameters<typeof MemoryEvents.layer>[0]) =>
    Effect.gen(function*() {
      const events = yield* MemoryEvents.MemoryEvents
      const fiber = yield* events.stream.pipe(Stream.take(texts.length), Stream.runCollect, Effect.fork)
      yield* settled
      yield* Effect.forEach(texts, events.publish)
      return Chunk.toReadonlyArray(yield* Fiber.join(fiber))
    }).pipe(Effect.provide(MemoryEvents.layer(options)))

  it.effect("published events omit texts of records and queries by default, and keep all other fields", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* published(), [
        { _tag: "memory_written", ...common, ...entry, outcome: "created" },
        { _tag: "memory_retired", ...common, ...entry },
        { _tag: "memory_recalled", ...common, hits: [found] }
      ])
    }))

  it.effect("published events keep texts of records and queries if the option `texts` is true", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* published({ texts: true }), texts)
    }))

  it.effect("the Schema MemoryEvent encodes events as JSON and decodes them to equal events, even a `memory_recalled` event without `leftOut`", () =>
    Effect.gen(function*() {
      const Json = Schema.parseJson(MemoryEvents.MemoryEvent)
      for (const event of texts) {
        assert.deepStrictEqual(yield* Schema.decode(Json)(yield* Schema.encode(Json)(event)), event)
      }
    }))

  it.effect("the stream of events ends when the Effect scope of the MemoryEvents service closes", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const events = yield* Scope.extend(MemoryEvents.make(), scope)
      const fiber = yield* Effect.fork(Stream.runDrain(events.stream))
      yield* settled
      yield* Scope.close(scope, Exit.void)
      yield* Fiber.await(fiber)
    }))

  it.effect("the JSON of an event can be decoded again, and does not contain the cause of the event's error", () =>
    Effect.gen(function*() {
      const Json = Schema.parseJson(MemoryEvents.MemoryEvent)
      const error = MemoryError.make("io", { op: "put", message: "no", cause: new Error("/home/ada") })
      const failed: MemoryEvents.MemoryEvent = { _tag: "memory_write_failed", viewer: Viewer.system(), at: 1, error }
      for (const one of [event(1), failed]) {
        const text = yield* Schema.encode(Json)(one)
        assert.notInclude(text, "/home/ada")
        assert.deepStrictEqual((yield* Schema.decode(Json)(text))._tag, one._tag)
      }
    }))
})
