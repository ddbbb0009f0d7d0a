/** How things are done, and how often it worked. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { foldCase } from "../domain/MemoryRecord.ts"
import * as Payload from "../domain/Payload.ts"
import type * as Viewer from "../domain/Viewer.ts"
import type { MemoryStore } from "../storage/MemoryStore.ts"
import { called, type DraftOf, make as typed, type Typed } from "./TypedMemory.ts"

export type Procedure = Payload.Procedure

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Service {
  /** Called by its name. No more successes than executions. */
  readonly storeProcedure: (viewer: Viewer.Any, procedure: DraftOf<Procedure>) => Io<Typed<Procedure>>
  /**
   * Those with a trigger in the context, whatever the case, most successful first; ties by executions, then newest first.
   * A blank trigger is in none. Cost: all procedures that the viewer sees.
   */
  readonly findProcedures: (viewer: Viewer.Any, context: string) => Io<ReadonlyArray<Typed<Procedure>>>
  /** One execution more. Exact under concurrency. */
  readonly recordExecution: (viewer: Viewer.Any, id: MemoryId, success: boolean) => Io<Typed<Procedure>>
}

export class ProceduralMemory extends Context.Tag("@memory/ProceduralMemory")<ProceduralMemory, Service>() {}

/** 0..1; of what was never executed 0. */
export const successRate = ({ executions, successes }: Pick<Procedure, "executions" | "successes">): number =>
  executions === 0 ? 0 : successes / executions

export const make: Effect.Effect<Service, never, MemoryStore> = Effect.gen(function*() {
  const procedures = yield* typed({ ...MemoryKind.procedural, schema: Payload.Procedure })

  return {
    storeProcedure: (viewer, procedure) =>
      procedures.put(viewer, called(procedure.data.name, procedure)).pipe(
        Effect.withSpan("ProceduralMemory.storeProcedure")
      ),
    findProcedures: (viewer, context) =>
      procedures.all(viewer, { where: isProcedure }).pipe(
        Effect.map((all) => all.filter(({ data }) => data.triggers.some(isIn(foldCase(context)))).sort(bestFirst)),
        Effect.withSpan("ProceduralMemory.findProcedures")
      ),
    recordExecution: (viewer, id, success) =>
      procedures.modify(viewer, id, (procedure) => ({
        ...procedure,
        executions: procedure.executions + 1,
        successes: procedure.successes + (success ? 1 : 0)
      })).pipe(
        MemoryError.catchReason("corrupt", () =>
          // plain text
          MemoryError.make("not_found", { op: "recordExecution", id, message: "there is no such procedure" })),
        Effect.withSpan("ProceduralMemory.recordExecution")
      )
  }
})

export const layer: Layer.Layer<ProceduralMemory, never, MemoryStore> = Layer.effect(ProceduralMemory, make)

/** The whole of one; plain text of this kind has no part of it. */
const isProcedure: NonNullable<MemoryFilter["where"]> = Object.fromEntries(
  Object.keys(Payload.Procedure.fields).map((field) => [`data.${field}`, { exists: true }])
)

const isIn = (context: string) => (trigger: string): boolean => {
  const phrase = foldCase(trigger).trim()
  return phrase !== "" && context.includes(phrase)
}

/** Ties stay as they are: newest first. */
const bestFirst = (a: Typed<Procedure>, b: Typed<Procedure>): number =>
  successRate(b.data) - successRate(a.data) || b.data.executions - a.data.executions
