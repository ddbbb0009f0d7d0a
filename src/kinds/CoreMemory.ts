/**
 * Who an agent is: one record, whose body is its system prompt.
 *
 * It is the agent's (`{ agentId }`), whoever the agent works for, where the viewer sees that scope; else the viewer's own.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as MemoryError from "../domain/MemoryError.ts"
import { type MemoryId, stableId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { deriveSummary } from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import type * as Payload from "../domain/Payload.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { MemoryStore } from "../storage/MemoryStore.ts"
import { make as typed, type Typed } from "./TypedMemory.ts"

export type Identity = Payload.Identity

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Service {
  readonly getIdentity: (viewer: Viewer.Any) => Io<Option.Option<Typed<Identity>>>
  /** The whole of it; the prompt stays where none is given, and is empty where there never was one. */
  readonly setIdentity: (viewer: Viewer.Any, identity: Identity, systemPrompt?: string) => Io<Typed<Identity>>
  /** Empty without an identity. */
  readonly getConstraints: (viewer: Viewer.Any) => Io<ReadonlyArray<string>>
  /** `not_found` without an identity. Nothing else of it changes. */
  readonly updateConstraints: (viewer: Viewer.Any, constraints: ReadonlyArray<string>) => Io<Typed<Identity>>
}

export class CoreMemory extends Context.Tag("@memory/CoreMemory")<CoreMemory, Service>() {}

export const make: Effect.Effect<Service, never, MemoryStore> = Effect.map(typed(MemoryKind.core), (records) => {
  const get = (viewer: Viewer.Any) => records.get(Viewer.exactly(viewer), idOf(viewer))

  const set = (viewer: Viewer.Any, identity: Identity, systemPrompt: string | undefined): Io<Typed<Identity>> =>
    Effect.gen(function*() {
      const before = yield* get(viewer)
      const summary = deriveSummary(identity.name) || "identity"
      if (Option.isNone(before)) {
        const draft = { id: idOf(viewer), scope: scopeOf(viewer), summary, body: systemPrompt ?? "", data: identity }
        return yield* records.put(Viewer.exactly(viewer), draft)
      }
      const patch = { summary, body: systemPrompt, data: identity }
      return yield* records.update(Viewer.exactly(viewer), idOf(viewer), patch)
    }).pipe(Effect.retry({ while: ({ reason }) => reason === "not_found" })) // forgotten meanwhile

  return {
    getIdentity: (viewer) => Effect.withSpan(get(viewer), "CoreMemory.getIdentity"),
    setIdentity: (viewer, identity, systemPrompt) =>
      Effect.withSpan(set(viewer, identity, systemPrompt), "CoreMemory.setIdentity"),
    getConstraints: (viewer) =>
      Effect.map(get(viewer), Option.match({ onNone: () => [], onSome: ({ data }) => data.constraints })).pipe(
        Effect.withSpan("CoreMemory.getConstraints")
      ),
    updateConstraints: (viewer, constraints) =>
      records.modify(Viewer.exactly(viewer), idOf(viewer), (identity) => ({ ...identity, constraints })).pipe(
        Effect.withSpan("CoreMemory.updateConstraints")
      )
  }
})

export const layer: Layer.Layer<CoreMemory, never, MemoryStore> = Layer.effect(CoreMemory, make)

const scopeOf = (viewer: Viewer.Any): MemoryScope.MemoryScope => {
  const agent = { agentId: Viewer.isSystem(viewer) ? undefined : viewer.agentId }
  return agent.agentId !== undefined && Viewer.sees(viewer, agent) ? agent : Viewer.scopeOf(viewer)
}

const idOf = (viewer: Viewer.Any): MemoryId => stableId(JSON.stringify(["core", MemoryScope.key(scopeOf(viewer))]))
