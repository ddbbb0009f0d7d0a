/** Procedures: steps to do something, with counts of how often they were executed and how often they succeeded. */
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
import { type DraftOf, make as typed, type Typed, withNameAsSummary } from "./TypedMemory.ts"

/** The `data` of a procedure. */
export type Procedure = Payload.Procedure

/** Operations of `ProceduralMemory`. */
export interface Service {
  /** Stores a procedure. The summary defaults to the name. Fails with `invalid_draft` if it has more successes than executions. */
  readonly storeProcedure: (
    viewer: Viewer.Any,
    procedure: DraftOf<Procedure>
  ) => Effect.Effect<Typed<Procedure>, MemoryError.MemoryError>
  /**
   * Returns the procedures with a trigger (a phrase) that occurs in `context`, regardless of case. The order is: highest success rate, then
   * most executions, then newest. A blank trigger matches nothing. Cost: reads all procedures that the viewer sees.
   */
  readonly findProcedures: (
    viewer: Viewer.Any,
    context: string
  ) => Effect.Effect<ReadonlyArray<Typed<Procedure>>, MemoryError.MemoryError>
  /**
   * Adds one to the executions and, if `success` is true, one to the successes. All concurrent calls are counted. Fails with `not_found` if
   * there is no procedure with the id.
   */
  readonly recordExecution: (
    viewer: Viewer.Any,
    id: MemoryId,
    success: boolean
  ) => Effect.Effect<Typed<Procedure>, MemoryError.MemoryError>
}

/** Tag of the service for procedures. */
export class ProceduralMemory extends Context.Tag("@memory/ProceduralMemory")<ProceduralMemory, Service>() {}

/** Returns the share of successful executions, 0..1; 0 for a procedure that was never executed. */
export const successRate = ({ executions, successes }: Pick<Procedure, "executions" | "successes">): number =>
  executions === 0 ? 0 : successes / executions

/** Makes the service over the `MemoryStore` in the context. */
export const make: Effect.Effect<Service, never, MemoryStore> = Effect.gen(function*() {
  const procedures = yield* typed({ ...MemoryKind.procedural, schema: Payload.Procedure })

  return {
    storeProcedure: (viewer, procedure) =>
      procedures.put(viewer, withNameAsSummary(procedure.data?.name, procedure)).pipe(
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
          // a record of this kind that does not decode is a plain text, not a procedure
          MemoryError.make("not_found", { op: "recordExecution", id, message: "there is no such procedure" })),
        Effect.withSpan("ProceduralMemory.recordExecution")
      )
  }
})

/** Provides `ProceduralMemory` over a `MemoryStore`. */
export const layer: Layer.Layer<ProceduralMemory, never, MemoryStore> = Layer.effect(ProceduralMemory, make)

/** Selects records that have all fields of a procedure. Plain-text records of this kind do not have them. */
const isProcedure: NonNullable<MemoryFilter["where"]> = Object.fromEntries(
  Object.keys(Payload.Procedure.fields).map((field) => [`data.${field}`, { exists: true }])
)

const isIn = (context: string) => (trigger: string): boolean => {
  const phrase = foldCase(trigger).trim()
  return phrase !== "" && context.includes(phrase)
}

/** Orders procedures by success rate, then by executions, highest first. Equal procedures keep their order, newest first. */
const bestFirst = (a: Typed<Procedure>, b: Typed<Procedure>): number =>
  successRate(b.data) - successRate(a.data) || b.data.executions - a.data.executions
