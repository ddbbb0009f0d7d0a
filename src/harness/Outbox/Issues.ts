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
  ...time("turn", options.turn),
  ...time("timeout", options.timeout),
  ...time("flushTimeout", options.flushTimeout)
]

const whole = (name: string, value: number | undefined, least: number): ReadonlyArray<string> =>
  value === undefined || (Number.isSafeInteger(value) && value >= least)
    ? []
    : [`${name}: expected a whole number, ${least} or more`]

const time = (name: string, value: Duration.DurationInput | undefined): ReadonlyArray<string> =>
  value === undefined || Option.exists(
      Duration.decodeUnknown(value),
      (duration) => Duration.isFinite(duration) && Duration.toMillis(duration) > 0
    )
    ? []
    : [`${name}: expected a finite time, longer than none`]
