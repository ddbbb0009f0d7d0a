/** Shows the progress of a long command on one line of stderr, with speed and remaining time. Only a terminal shows the line. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as EventLoop from "../host/EventLoop.ts"
import { number, Screen } from "./Screen.ts"

/** A progress line. */
export interface Progress {
  /** Shows `done`, the number of finished items, at most ten times a second. Also lets other tasks of the event loop run. */
  readonly at: (done: number, doing?: string) => Effect.Effect<void>
  /** Removes the line. */
  readonly end: Effect.Effect<void>
}

/** Minimum time, in milliseconds, between two updates of the line. */
const pause = 100
/**
 * Milliseconds after which `Progress.at` lets other tasks of the event loop run. Without such a pause, a driver that blocks the event loop,
 * such as SQLite's, would delay signals such as Ctrl-C.
 */
const stretch = 20

/** Starts a progress line. `total` is the number of items; the remaining time is shown only if `total` is given. */
export const make = (noun: string, total?: number): Effect.Effect<Progress, never, Screen> =>
  Effect.gen(function*() {
    const screen = yield* Screen
    let start = yield* Clock.currentTimeMillis
    let turned = start
    let last = -Infinity
    let part = ""
    let isShown = false
    const at = (done: number, doing = "") =>
      Effect.gen(function*() {
        const now = yield* Clock.currentTimeMillis
        if (doing !== part) {
          start = now
          part = doing
        }
        if (now >= turned + stretch) {
          yield* EventLoop.pause
          turned = yield* Clock.currentTimeMillis
        }
        if (!screen.isErrorTerminal || now < last + pause) return
        last = now
        isShown = true
        const line = lineOf({ doing, done, elapsed: now - start, noun, total })
        yield* screen.err(`\r${line.slice(0, Math.max(20, screen.columns - 1))}\x1b[K`)
      })
    return { at, end: Effect.suspend(() => isShown ? screen.err("\r\x1b[K") : Effect.void) }
  })

/** Returns the text of a progress line. */
export const lineOf = ({ doing, done, elapsed, noun, total }: {
  readonly doing: string
  readonly done: number
  readonly elapsed: number
  readonly noun: string
  readonly total: number | undefined
}): string => {
  const rate = elapsed <= 0 ? 0 : done / (elapsed / 1_000)
  const of = total === undefined ? "" : ` of ${number(total)}`
  const percent = total === undefined || total === 0 ? "" : ` · ${Math.min(100, Math.floor((done / total) * 100))}%`
  const left = total === undefined || rate === 0 ? "" : ` · ${duration((total - done) / rate)} left`
  return `${doing === "" ? "" : `${doing}: `}${number(done)}${of} ${noun}${percent} · ${
    number(Math.round(rate))
  }/s${left}`
}

const duration = (seconds: number): string => {
  const whole = Math.max(0, Math.ceil(seconds))
  return whole < 60 ? `${whole} s` : whole < 3_600
    ? `${Math.floor(whole / 60)} min ${whole % 60} s`
    : `${Math.floor(whole / 3_600)} h ${Math.floor(whole / 60) % 60} min`
}
