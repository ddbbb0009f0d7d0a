/** Validates the options of an outbox. */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import type { Options } from "../Outbox.ts"

/** Returns every violation that can be seen without the store or the model; each message begins with its option's name. */
export const issuesOf = ({ trigger, ...options }: Options): ReadonlyArray<string> => [
  ...trigger?.issues ?? [],
  ...whole("capacityPerTenant", options.capacityPerTenant, 1),
  ...whole("capacityPerLine", options.capacityPerLine, 1),
  ...whole("concurrency", options.concurrency, 2),
  ...whole("openLines", options.openLines, 1),
  ...time("turn", options.turn, 1),
  ...time("timeout", options.timeout, 1),
  ...time("flushTimeout", options.flushTimeout, 0)
]

const whole = (name: string, value: number | undefined, least: number): ReadonlyArray<string> =>
  value === undefined || (Number.isSafeInteger(value) && value >= least)
    ? []
    : [`${name}: expected a whole number, ${least} or more`]

const time = (name: string, value: Duration.DurationInput | undefined, least: 0 | 1): ReadonlyArray<string> =>
  value === undefined || Option.exists(
      Duration.decodeUnknown(value),
      (duration) => Duration.isFinite(duration) && Duration.toMillis(duration) >= least
    )
    ? []
    : [`${name}: expected a finite time, ${least} ms or more`]
