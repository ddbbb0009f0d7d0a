/**
 * Sends the logs of an MCP server to stderr, one line per log, because stdout carries the protocol. The logs of a request are also sent to
 * its client, as notifications, but not those below the client's log level.
 *
 * No log contains a stack trace. A `MemoryError` is logged as its operation, reason and message, which quote no input. Any other error is
 * logged as its name only.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import * as HashMap from "effect/HashMap"
import * as HashSet from "effect/HashSet"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Predicate from "effect/Predicate"
import { MemoryError } from "../domain/MemoryError.ts"
import { oneLine } from "../domain/PromptText.ts"

/** The log levels of the protocol, the least severe first. */
export const levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] as const
/** A log level of the protocol. */
export type Level = typeof levels[number]

/** A log entry, in the form in which it is sent to the client. */
export interface Notice {
  readonly level: Level
  readonly logger: string
  readonly data: string
}

/** Largest length of the text of one log entry, in characters. */
const maxText = 2_000

/** Formats each log as one line: time, level, text and annotations. */
const line = Logger.make<unknown, string>(({ annotations, cause, date, logLevel, message }) => {
  const notes = Array.from(HashMap.entries(annotations), ([key, value]) => ` ${oneLine(key)}=${textOf(value)}`).join("")
  return `${date.toISOString()} ${logLevel.label} ${textWithCause(message, cause)}${notes}`
})

/** Sends all logs of the program to stderr. Must be the outermost layer, so that no part of the program logs to stdout. */
export const layer: Layer.Layer<never> = Logger.replace(Logger.defaultLogger, Logger.withConsoleError(line))

/**
 * Runs an effect, and also passes its logs to `notify`, which sends them to the client. Logs below the level that `levelOf` returns are not
 * passed on. The logs on stderr stay the same. `notify` is called synchronously, and must not block.
 */
export const notified = (
  levelOf: () => Level,
  notify: (notice: Notice) => void
) =>
<A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.gen(function*() {
    const loggers = yield* FiberRef.get(FiberRef.currentLoggers)
    const least = yield* FiberRef.get(FiberRef.currentMinimumLogLevel)
    const wanted = threshold[levelOf()]
    const notifying = Logger.make<unknown, void>(({ cause, logLevel, message }) => {
      if (LogLevel.lessThan(logLevel, threshold[levelOf()])) return
      notify({ level: levelIn(logLevel), logger: "effect-memory", data: textWithCause(message, cause) })
    })
    const asBefore = HashSet.map(loggers, (logger) =>
      Logger.make<unknown, unknown>((options) =>
        LogLevel.lessThan(options.logLevel, least) ? undefined : logger.log(options)
      ))
    return yield* self.pipe(
      Effect.locally(FiberRef.currentLoggers, HashSet.add(asBefore, notifying)),
      Effect.locally(FiberRef.currentMinimumLogLevel, LogLevel.lessThan(wanted, least) ? wanted : least)
    )
  })

const threshold: { readonly [Key in Level]: LogLevel.LogLevel } = {
  debug: LogLevel.Debug,
  info: LogLevel.Info,
  notice: LogLevel.Warning, // Effect has no level between info and warning
  warning: LogLevel.Warning,
  error: LogLevel.Error,
  critical: LogLevel.Fatal,
  alert: LogLevel.Fatal,
  emergency: LogLevel.None
}

const levelIn = (level: LogLevel.LogLevel): Level =>
  LogLevel.lessThan(level, LogLevel.Info)
    ? "debug"
    : LogLevel.lessThan(level, LogLevel.Warning)
    ? "info"
    : LogLevel.lessThan(level, LogLevel.Error)
    ? "warning"
    : LogLevel.lessThan(level, LogLevel.Fatal)
    ? "error"
    : "critical"

const textWithCause = (message: unknown, cause: Cause.Cause<unknown>): string => {
  const parts = (Array.isArray(message) ? message : [message]).map(textOf)
  return [...parts, ...Cause.isEmpty(cause) ? [] : [textOf(cause)]].join(" ").slice(0, maxText).toWellFormed()
}

/** Converts a logged value to one line. A `MemoryError` becomes operation, reason and message. Any other error becomes its name. */
const textOf = (value: unknown): string => {
  if (typeof value === "string") return oneLine(value)
  if (Cause.isCause(value)) {
    const names = [...Cause.failures(value), ...Cause.defects(value)].map(textOf)
    return names.length > 0 ? names.join(", ") : Cause.isInterrupted(value) ? "interrupted" : ""
  }
  if (value instanceof MemoryError) return `${value.op}: ${value.reason}: ${oneLine(value.message)}`
  if (value instanceof Error) return nameOf(value)
  if (Array.isArray(value)) return `[${value.slice(0, 20).map(textOf).join(", ")}]`
  if (Predicate.isReadonlyRecord(value)) {
    return Predicate.hasProperty(value, "_tag")
      ? nameOf(value)
      : `{${Object.entries(value).slice(0, 20).map(([key, part]) => `${oneLine(key)}: ${textOf(part)}`).join(", ")}}`
  }
  return typeof value === "object" || typeof value === "function" ? typeof value : oneLine(String(value))
}

/** Returns the name of a failure or defect for a log: its `_tag`, the `name` of an Error, or its type. */
export const nameOf = (value: unknown): string =>
  Predicate.hasProperty(value, "_tag") && typeof value._tag === "string"
    ? oneLine(value._tag)
    : value instanceof Error
    ? oneLine(value.name)
    : typeof value
