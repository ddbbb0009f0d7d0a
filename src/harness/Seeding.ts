/** A tenant's instructions, seeded once, by whoever comes first. */
import * as Effect from "effect/Effect"
import type { MemoryError } from "../domain/MemoryError.ts"
import * as Viewer from "../domain/Viewer.ts"
import type * as InstructionFiles from "./InstructionFiles.ts"

/** Single-flight; what failed is told, and tried again by the next who comes. */
export const make = (
  files: Pick<InstructionFiles.Service, "seed">,
  failed: (viewer: Viewer.Viewer) => (error: MemoryError) => Effect.Effect<void>
): Effect.Effect<(viewer: Viewer.Viewer) => Effect.Effect<void>> =>
  Effect.map(Effect.makeSemaphore(1), (seeding) => {
    const seeded = new Set<string>()
    return (viewer) =>
      Effect.suspend(() => {
        const tenant = Viewer.tenantOf(viewer)
        if (seeded.has(tenant)) return Effect.void
        return files.seed(Viewer.system(tenant)).pipe(
          Effect.tap(() => Effect.sync(() => seeded.add(tenant))),
          Effect.catchAll(failed(viewer))
        )
      }).pipe(seeding.withPermits(1))
  })
