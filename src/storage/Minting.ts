/** Where new ids come from: each is above the last, whoever asks. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as MemoryId from "../domain/MemoryId.ts"

export interface Service {
  readonly next: Effect.Effect<MemoryId.MemoryId>
}

export const make: Effect.Effect<Service> = Effect.map(Effect.makeSemaphore(1), (minting) => {
  let last: MemoryId.MemoryId | undefined
  return {
    next: minting.withPermits(1)(
      Effect.tap(Effect.suspend(() => MemoryId.mint(last)), (id) => Effect.sync(() => void (last = id)))
    )
  }
})

/** What stores that are built together share, so that their ids have one order. Default: each has its own. */
export class Shared extends Context.Reference<Shared>()("@memory/Minting", {
  defaultValue: (): Service | undefined => undefined
}) {}
