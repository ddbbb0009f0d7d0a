/** The clock that is there, ahead of itself. */
import type * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** It is `now`, ISO 8601 or epoch ms, as the layer is built. The clock stays what it was besides: a TestClock is adjusted as ever. */
export const layer = (now: string | number): Layer.Layer<never> =>
  Layer.unwrapEffect(
    Effect.clockWith((clock) =>
      Effect.sync(() => {
        const ahead = DateTime.unsafeMake(now).epochMillis - clock.unsafeCurrentTimeMillis()
        const nanos = BigInt(ahead) * 1_000_000n
        const shifted: Partial<Clock.Clock> = {
          unsafeCurrentTimeMillis: () => clock.unsafeCurrentTimeMillis() + ahead,
          unsafeCurrentTimeNanos: () => clock.unsafeCurrentTimeNanos() + nanos,
          currentTimeMillis: Effect.map(clock.currentTimeMillis, (millis) => millis + ahead),
          currentTimeNanos: Effect.map(clock.currentTimeNanos, (at) => at + nanos)
        }
        return Layer.setClock<Clock.Clock>(Object.assign(Object.create(clock), shifted))
      })
    )
  )
