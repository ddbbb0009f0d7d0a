/**
 * Triggers decide when memories are extracted from a conversation. A trigger maps the stream of a conversation's events to a second stream.
 * Each time the second stream emits, the trigger fires, which requests an extraction. Delays are measured with Effect's `Clock`.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import type { Message } from "../domain/Message.ts"

/** An event of a conversation: a message, the end of a turn (one append of messages), or the end of the session. */
export type TriggerEvent =
  | { readonly _tag: "Message"; readonly message: Message; readonly sequence: number }
  | { readonly _tag: "TurnEnd" }
  | { readonly _tag: "SessionEnd" }

/** Decides when memories are extracted from a conversation. */
export interface ExtractionTrigger {
  readonly name: string
  /**
   * Returns a stream that emits each time the trigger fires. An outbox (a queue of messages that wait for extraction) calls the function
   * for each conversation that the outbox opens, unless the trigger has a `watch`. The outbox stores the messages that it will extract
   * from. It does so before their events arrive.
   */
  readonly fires: (events: Stream.Stream<TriggerEvent>) => Stream.Stream<void>
  /** Reasons why the trigger cannot work, such as an interval of 0 turns. A layer with such a trigger fails. Default: no reasons. */
  readonly issues?: ReadonlyArray<string> | undefined
  /**
   * Makes the state of the trigger for one conversation. An outbox uses `watch` if the trigger has it, and otherwise `fires`. The outbox
   * runs a fiber for a `Watch` only while `due` returns a time. The fibers of `fires` cost up to 300 KB per conversation. Triggers of
   * `make` have no `watch`.
   */
  readonly watch?: (() => Watch) | undefined
}

/** State of a trigger for one conversation. A `Watch` is driven by method calls, and has no fibers. Times are epoch milliseconds. */
export interface Watch {
  /** Handles an event. Returns whether the trigger fires now. */
  readonly on: (event: TriggerEvent, now: number) => boolean
  /** Returns the time at which the trigger fires if no event arrives earlier. Returns `undefined` if the trigger waits only for events. */
  readonly due: () => number | undefined
  /** Tells the trigger the current time. Returns whether the trigger fires now. It fires at most once for each result of `due`. */
  readonly wake: (now: number) => boolean
}

/** Makes a `Watch` that fires only when an event arrives, never after a delay. */
const eventful = (on: (event: TriggerEvent) => boolean): Watch => ({ on, due: () => undefined, wake: () => false })

/** Makes a trigger from its function `fires`. The trigger has no `watch`. */
export const make = (
  name: string,
  fires: ExtractionTrigger["fires"],
  issues: ReadonlyArray<string> = []
): ExtractionTrigger => ({ name, fires, issues })

const when = (name: string, tag: TriggerEvent["_tag"]): ExtractionTrigger => ({
  ...make(name, (events) => Stream.as(Stream.filter(events, ({ _tag }) => _tag === tag), undefined)),
  watch: () => eventful(({ _tag }) => _tag === tag)
})

/** Fires after every turn, that is, after every append of messages. */
export const invocation: ExtractionTrigger = when("invocation", "TurnEnd")

/**
 * Fires after every `turns` turns. A turn is one append of messages. `turns` is at least 1. Never fires in a conversation with fewer turns.
 * For short conversations, combine the trigger with another trigger by `any`.
 */
export const interval = (turns: number): ExtractionTrigger => ({
  ...make(
    `interval(${turns})`,
    (events) =>
      invocation.fires(events).pipe(
        Stream.zipWithIndex,
        Stream.filter(([, index]) => (index + 1) % turns === 0),
        Stream.as(undefined)
      ),
    Number.isInteger(turns) && turns >= 1 ? [] : ["interval: expected a whole number of turns, 1 or more"]
  ),
  watch: () => {
    let turn = 0
    return eventful(({ _tag }) => _tag === "TurnEnd" && ++turn % turns === 0)
  }
})

/** Fires at the end of the session. */
export const sessionEnd: ExtractionTrigger = when("sessionEnd", "SessionEnd")

/** Fires once when `duration` has passed since the last event. A new event restarts the wait. `duration` must be finite and above 0. */
export const idle = (duration: Duration.DurationInput): ExtractionTrigger => {
  const time = Option.getOrElse(Duration.decodeUnknown(duration), () => Duration.zero)
  return {
    ...make(
      `idle(${Duration.format(time)})`,
      (events) => Stream.as(Stream.debounce(events, time), undefined),
      Duration.isFinite(time) && Duration.toMillis(time) > 0 ? [] : ["idle: expected a finite time, longer than none"]
    ),
    watch: () => {
      let due: number | undefined
      return {
        on: (_, now) => {
          due = now + Duration.toMillis(time)
          return false
        },
        due: () => due,
        wake: (now) => {
          if (due === undefined || now < due) return false
          due = undefined
          return true
        }
      }
    }
  }
}

/** Fires when any of the given triggers fires. At least one trigger must be given. */
export const any = (...triggers: readonly [ExtractionTrigger, ...Array<ExtractionTrigger>]): ExtractionTrigger => {
  const trigger = make(
    triggers.map(({ name }) => name).join(" | "),
    (events) =>
      Stream.unwrapScoped(
        Effect.map(
          Stream.broadcast(events, triggers.length, { capacity: "unbounded" }), // one copy of the events for each trigger
          (copies) => Stream.mergeAll(copies.map((copy, i) => triggers[i]!.fires(copy)), { concurrency: "unbounded" })
        )
      ),
    triggers.length === 0
      ? ["any: expected at least one trigger"]
      : triggers.flatMap(({ issues = [] }) => issues)
  )
  const starts = triggers.flatMap(({ watch }) => watch ? [watch] : [])
  if (starts.length < triggers.length) return trigger
  return {
    ...trigger,
    watch: () => {
      const all = starts.map((start) => start())
      return {
        on: (event, now) => all.filter((watch) => watch.on(event, now)).length > 0, // `some` would not call every watch
        due: () =>
          all.reduce<number | undefined>((first, watch) => {
            const due = watch.due()
            return due === undefined || (first !== undefined && first <= due) ? first : due
          }, undefined),
        wake: (now) => all.filter((watch) => watch.wake(now)).length > 0
      }
    }
  }
}

/**
 * The default trigger, which `extraction: true` selects. Fires after every five turns, at the end of the session, and after two minutes
 * without an event. So memories are also extracted from conversations of fewer than five turns.
 */
export const standard: ExtractionTrigger = any(interval(5), sessionEnd, idle("2 minutes"))

/** Reports an event to a trigger. */
type Notify = (event: TriggerEvent) => Effect.Effect<void>
/** Starts a fiber that ends at the latest when the trigger is no longer needed. @internal */
export type Fork = (self: Effect.Effect<void>) => Effect.Effect<void>

/** Starts a trigger, which runs `request` whenever it fires. Returns the function that reports events to it. @internal */
export const listen = (trigger: ExtractionTrigger, request: Effect.Effect<void>, fork: Fork): Effect.Effect<Notify> =>
  trigger.watch
    ? Effect.succeed(watched(trigger.name, trigger.watch, request, fork))
    : Effect.flatMap(streamed(trigger, request), ([notify, run]) => Effect.as(fork(run), notify))

/** Makes `notify` for a trigger with `watch`. While the trigger has a due time, a fiber waits for this time. */
const watched = (
  name: string,
  start: () => Watch,
  request: Effect.Effect<void>,
  fork: Fork
): Notify => {
  let watch: Watch | undefined
  let isWaiting = false
  const waits = (watch: Watch): Effect.Effect<void> =>
    Effect.gen(function*() {
      for (let due = watch.due(); due !== undefined; due = watch.due()) {
        yield* Effect.sleep(Math.max(1, due - (yield* Clock.currentTimeMillis)))
        if (watch.wake(yield* Clock.currentTimeMillis)) yield* request
      }
    }).pipe(Effect.ensuring(Effect.sync(() => isWaiting = false)))
  const safe = Effect.catchAllDefect((defect) => Effect.logError(`the trigger ${name} died`, defect))
  return (event) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      watch ??= start()
      const fires = watch.on(event, now)
      const isToWait = !isWaiting && watch.due() !== undefined
      isWaiting ||= isToWait
      return Effect.zipRight(isToWait ? fork(safe(waits(watch))) : Effect.void, fires ? request : Effect.void)
    }).pipe(safe)
}

/** Makes `notify` for a trigger without `watch`, and the effect that passes the events to the trigger as a stream. */
const streamed = (trigger: ExtractionTrigger, request: Effect.Effect<void>) =>
  Effect.map(Queue.unbounded<TriggerEvent>(), (events): readonly [Notify, Effect.Effect<void>] => [
    (event) => Queue.offer(events, event),
    Stream.suspend(() => trigger.fires(Stream.fromQueue(events))).pipe(
      Stream.runForEach(() => request),
      Effect.catchAllDefect((defect) => Effect.logError(`the trigger ${trigger.name} died`, defect))
    )
  ])
