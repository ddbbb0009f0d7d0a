/** Shorthands for tests of MemoryService over an in-memory store: running it for a viewer, and recording its events. */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as MemoryTool from "../../src/host/MemoryTool.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"

export const ada = Viewer.make({ userId: "ada" })
export const pilot = Viewer.make({ agentId: "pilot", runId: "run-7" })

export const draft = (body: string, fields: Partial<Draft> = {}): Draft => ({
  scope: { userId: "ada" },
  kind: "user",
  body,
  ...fields
})

export const service = MemoryService.MemoryService

export const reason = <A, R>(self: Effect.Effect<A, { readonly reason: string }, R>) =>
  Effect.map(Effect.flip(self), ({ reason }) => reason)

/** Runs an effect; returns its result and the events that were published meanwhile. */
export const heard = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const events: Array<MemoryEvents.MemoryEvent> = []
    const { events: stream } = yield* service
    const fiber = yield* Effect.fork(Stream.runForEach(stream, (event) => Effect.sync(() => events.push(event))))
    yield* settled
    const result = yield* self
    yield* settled
    yield* Fiber.interrupt(fiber)
    return { events, result, tags: events.map(({ _tag }) => _tag) }
  })

/** Yields repeatedly, so that other fibers run as far as they can. */
export const settled = Effect.repeatN(Effect.yieldNow(), 100)

export const run = (viewer: Viewer.Viewer, options?: MemoryService.TestOptions) =>
<A, E>(
  self: Effect.Effect<A, E, MemoryService.MemoryService | MemoryService.CurrentViewer | MemoryStore.MemoryStore>
) => self.pipe(MemoryService.as(viewer), Effect.provide(MemoryService.layerTest(options)))

/** The in-memory store with some operations replaced. */
export const over = (change: (store: MemoryStore.Service) => Partial<MemoryStore.Service>) =>
  Layer.effect(
    MemoryStore.MemoryStore,
    Effect.map(MemoryStore.MemoryStore, (store) => ({ ...store, ...change(store) }))
  ).pipe(
    Layer.provide(MemoryStore.layerInMemory)
  )

export const down = MemoryError.make("unavailable", { op: "list", message: "down" })

export const note = MemoryTool.make({
  name: "note",
  description: "",
  input: Schema.Struct({ text: Schema.String }),
  output: Schema.String,
  writes: true,
  handler: ({ text }) =>
    text === "foreign"
      ? MemoryError.make("not_owned", { op: "note", message: "not yours" })
      : text === ""
      ? MemoryError.make("invalid_scope", { op: "note", message: "empty" })
      : Effect.succeed(text)
})
