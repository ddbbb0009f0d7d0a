/**
 * The identity of an agent: one record, whose body is the agent's system prompt.
 *
 * The scope of the record is `{ agentId }` if the viewer sees that scope. Otherwise, it is the viewer's own scope.
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

/** The `data` of an identity. */
export type Identity = Payload.Identity

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Operations of `CoreMemory`. */
export interface Service {
  /** Returns the identity of the agent, if there is one. */
  readonly getIdentity: (viewer: Viewer.Any) => Effect.Effect<Option.Option<Typed<Identity>>, MemoryError.MemoryError>
  /** Sets the whole identity. If `systemPrompt` is absent, a stored prompt stays; without a stored prompt, the prompt is empty. */
  readonly setIdentity: (
    viewer: Viewer.Any,
    identity: Identity,
    systemPrompt?: string
  ) => Effect.Effect<Typed<Identity>, MemoryError.MemoryError>
  /** Returns the constraints of the identity, or an empty list if there is no identity. */
  readonly getConstraints: (viewer: Viewer.Any) => Effect.Effect<ReadonlyArray<string>, MemoryError.MemoryError>
  /** Replaces only the constraints. Fails with `not_found` if there is no identity. */
  readonly updateConstraints: (
    viewer: Viewer.Any,
    constraints: ReadonlyArray<string>
  ) => Effect.Effect<Typed<Identity>, MemoryError.MemoryError>
}

/** Tag of the service for an agent's identity. */
export class CoreMemory extends Context.Tag("@memory/CoreMemory")<CoreMemory, Service>() {}

/** Makes the service over the `MemoryStore` in the context. */
export const make: Effect.Effect<Service, never, MemoryStore> = Effect.map(typed(MemoryKind.core), (records) => {
  const get = (viewer: Viewer.Any) => records.get(Viewer.exactly(viewer), idOf(viewer))

  const set = (viewer: Viewer.Any, identity: Identity, systemPrompt: string | undefined): Io<Typed<Identity>> =>
    Effect.gen(function*() {
      yield* records.encode(identity) // refuses an invalid identity before its name is read
      const before = yield* get(viewer)
      const summary = deriveSummary(identity.name) || "identity"
      if (Option.isNone(before)) {
        const draft = { id: idOf(viewer), scope: scopeOf(viewer), summary, body: systemPrompt ?? "", data: identity }
        return yield* records.put(Viewer.exactly(viewer), draft)
      }
      const patch = { summary, body: systemPrompt, data: identity }
      return yield* records.update(Viewer.exactly(viewer), idOf(viewer), patch)
    }).pipe(Effect.retry({ while: ({ reason }) => reason === "not_found" })) // the record was forgotten after it was read

  return {
    getIdentity: (viewer) => operation("getIdentity", viewer, get),
    setIdentity: (viewer, identity, systemPrompt) =>
      operation("setIdentity", viewer, (viewer) => set(viewer, identity, systemPrompt)),
    getConstraints: (viewer) =>
      operation(
        "getConstraints",
        viewer,
        (viewer) => Effect.map(get(viewer), Option.match({ onNone: () => [], onSome: ({ data }) => data.constraints }))
      ),
    updateConstraints: (viewer, constraints) =>
      operation(
        "updateConstraints",
        viewer,
        (viewer) => records.modify(Viewer.exactly(viewer), idOf(viewer), (identity) => ({ ...identity, constraints }))
      )
  }
})

/** Provides `CoreMemory` over a `MemoryStore`. */
export const layer: Layer.Layer<CoreMemory, never, MemoryStore> = Layer.effect(CoreMemory, make)

const operation = <A>(name: string, viewer: Viewer.Any, call: (viewer: Viewer.Any) => Io<A>): Io<A> =>
  Effect.withSpan(Viewer.required(name, viewer, call), `CoreMemory.${name}`)

const scopeOf = (viewer: Viewer.Any): MemoryScope.MemoryScope => {
  const agent = { agentId: Viewer.isSystem(viewer) ? undefined : viewer.agentId }
  return agent.agentId !== undefined && Viewer.sees(viewer, agent) ? agent : Viewer.scopeOf(viewer)
}

const idOf = (viewer: Viewer.Any): MemoryId => stableId(JSON.stringify(["core", MemoryScope.key(scopeOf(viewer))]))
