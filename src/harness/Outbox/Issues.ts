/** The violations in an outbox's options, each named by its option. */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import type { Options } from "../Outbox.ts"

/** Returns every violation that needs neither store nor model to be seen. */
export const issuesOf = ({ trigger, ...options }: Options): ReadonlyArray<string> => [
  ...trigger?.issues ?? [],
  ...whole("capacityPerTenant", options.capacityPerTenant, 1),
  ...whole("capacityPerLine", options.capacityPerLine, 1),
  ...whole("concurrency", options.concurrency, 2),
  ...whole("openLines", options.openLines, 1),
  ...time("turn", options.turn),
  ...time("timeout", options.timeout),
  ...time("flushTimeout", options.flushTimeout, true)
]

const whole = (name: string, value: number | undefined, least: number): ReadonlyArray<string> =>
  value === undefined || (Number.isSafeInteger(value) && value >= least)
    ? []
    : [`${name}: expected a whole number, ${least} or more`]

const time = (name: string, value: Duration.DurationInput | undefined, mayBeNone = false): ReadonlyArray<string> =>
  value === undefined || Option.exists(
      Duration.decodeUnknown(value),
      (duration) => Duration.isFinite(duration) && (mayBeNone || Duration.toMillis(duration) > 0)
    )
    ? []
    : [`${name}: expected a finite time${mayBeNone ? "" : ", longer than none"}`]
