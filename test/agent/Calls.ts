/** Helpers for tests of the memory tools over an in-memory store: calling a viewer's tools, and sample arguments for them. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import { make as memoryId, type MemoryId } from "../../src/domain/MemoryId.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import type * as MemorySpec from "../../src/harness/MemorySpec.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"

export const pilot = Viewer.make({ agentId: "pilot", runId: "run-7" })
export const free: MemorySpec.Input = { writesPerTurn: 0, allowForget: true }

export const tea = { scope: "agent", kind: "user", summary: "Tea", body: "Drinks tea.\n\n**Why:** likes it." }

/** Makes a function that calls the viewer's tool of the given name. */
export const toolsOf = (viewer: Viewer.Viewer) =>
  Effect.map(
    MemoryTools.make(viewer),
    (tools) => (name: string, input: unknown = {}) => tools.find((tool) => tool.name === name)!.call(input)
  )

export const idOf = (data: unknown): MemoryId =>
  typeof data === "object" && data !== null && "id" in data ? memoryId(`${data.id}`) : assert.fail("no id")

export const law = (
  title: string,
  check: (
    call: (
      name: string,
      input?: unknown
    ) => Effect.Effect<
      { readonly text: string; readonly data: unknown },
      { readonly reason: string; readonly message: string }
    >,
    store: MemoryStore.Service
  ) => Effect.Effect<void, unknown, MemoryService.MemoryService>,
  { spec = free, viewer = pilot }: { readonly viewer?: Viewer.Viewer; readonly spec?: MemorySpec.Input } = {}
) =>
  it.effect(title, () =>
    Effect.gen(function*() {
      yield* check(yield* toolsOf(viewer), yield* MemoryStore.MemoryStore)
    }).pipe(Effect.provide(MemoryService.layerTest({ spec }))))

export const reason = <A>(self: Effect.Effect<A, { readonly reason: string }>) =>
  Effect.map(Effect.flip(self), ({ reason }) => reason)

export const settled = Effect.repeatN(Effect.yieldNow(), 100)
