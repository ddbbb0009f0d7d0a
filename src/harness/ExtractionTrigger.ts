/** When a conversation is read for memories: a stream of what happens to a stream of "now". Time is the Clock's. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { Message } from "../domain/Message.ts"

export type Happening =
  | { readonly _tag: "Message"; readonly message: Message; readonly sequence: number }
  | { readonly _tag: "TurnEnd" }
  | { readonly _tag: "SessionEnd" }

export interface ExtractionTrigger {
  readonly name: string
  /** One of these runs per store and session. What is said while it runs is kept before it is told. */
  readonly fires: (happenings: Stream.Stream<Happening>) => Stream.Stream<void>
  /** Why it can never be what was meant; whoever configures memory with it is told. Default none. */
  readonly issues?: ReadonlyArray<string> | undefined
}

export const make = (
  name: string,
  fires: ExtractionTrigger["fires"],
  issues: ReadonlyArray<string> = []
): ExtractionTrigger => ({ name, fires, issues })

const when = (name: string, tag: Happening["_tag"]) =>
  make(name, (happenings) => Stream.as(Stream.filter(happenings, ({ _tag }) => _tag === tag), undefined))

/** After every turn. */
export const invocation: ExtractionTrigger = when("invocation", "TurnEnd")

/** Fires after every n-th turn, n ≥ 1. By itself it never reads a conversation of fewer turns. */
export const interval = (turns: number): ExtractionTrigger =>
  make(
    `interval(${turns})`,
    (happenings) =>
      invocation.fires(happenings).pipe(
        Stream.zipWithIndex,
        Stream.filter(([, index]) => (index + 1) % turns === 0),
        Stream.as(undefined)
      ),
    Number.isInteger(turns) && turns >= 1 ? [] : ["interval: expected a whole number of turns, 1 or more"]
  )

export const sessionEnd: ExtractionTrigger = when("sessionEnd", "SessionEnd")

/** When nothing has happened for so long, after something has. */
export const idle = (duration: Duration.DurationInput): ExtractionTrigger => {
  const time = Option.getOrElse(Duration.decodeUnknown(duration), () => Duration.zero)
  return make(
    `idle(${Duration.format(time)})`,
    (happenings) => Stream.as(Stream.debounce(happenings, time), undefined),
    Duration.isFinite(time) && Duration.toMillis(time) > 0 ? [] : ["idle: expected a finite time, longer than none"]
  )
}

/** When any of them does. */
export const any = (...triggers: readonly [ExtractionTrigger, ...Array<ExtractionTrigger>]): ExtractionTrigger =>
  make(
    triggers.map(({ name }) => name).join(" | "),
    (happenings) =>
      Stream.unwrapScoped(
        Effect.map(
          Stream.broadcast(happenings, triggers.length, { capacity: "unbounded" }),
          (copies) => Stream.mergeAll(copies.map((copy, i) => triggers[i]!.fires(copy)), { concurrency: "unbounded" }) // one each
        )
      ),
    triggers.length === 0
      ? ["any: expected at least one trigger"]
      : triggers.flatMap(({ issues = [] }) => issues)
  )

/**
 * The default, and what `extraction: true` means: `any(interval(5), sessionEnd, idle("2 minutes"))`. A conversation of
 * fewer than five turns is read when its session ends, or two minutes after its last turn.
 */
export const standard: ExtractionTrigger = any(interval(5), sessionEnd, idle("2 minutes"))
