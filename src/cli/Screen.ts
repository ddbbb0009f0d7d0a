/**
 * The streams of the command: what it prints, asks and reads. Results go to stdout, everything else to stderr. Text that somebody
 * stored is data: it is printed by `safe` alone, so that it moves no cursor, sets no title and hides nothing.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"

/** The streams of the process. */
export interface Service {
  /** Prints to stdout, and waits until it is taken. */
  readonly out: (text: string) => Effect.Effect<void>
  /** Prints to stderr. */
  readonly err: (text: string) => Effect.Effect<void>
  /** Reads stdin to its end, as UTF-8. */
  readonly input: Effect.Effect<string>
  /** Reads stdin by the piece. */
  readonly inputBytes: Stream.Stream<Uint8Array>
  /** Asks a question that is answered by y or n on the terminal; anything but `y` or `yes` is no. */
  readonly ask: (question: string) => Effect.Effect<boolean>
  /** Whether stdout is a terminal. */
  readonly isTerminal: boolean
  /** Whether stderr is a terminal. */
  readonly isErrorTerminal: boolean
  /** Whether somebody can be asked: stdin and stderr are terminals. */
  readonly canAsk: boolean
  /** Columns of the terminal; 80 where there is none. */
  readonly columns: number
  /** Paints a text for stdout; returns it as it is where stdout is no terminal, or `NO_COLOR` is set. */
  readonly paint: (style: Style, text: string) => string
  /** Version of the package. */
  readonly version: string
  /** A variable of the environment; `undefined` where it is not set, or empty. */
  readonly env: (name: string) => string | undefined
}

/** The service tag of the streams. */
export class Screen extends Context.Tag("@memory/cli/Screen")<Screen, Service>() {}

const styles = {
  bold: [1, 22],
  dim: [2, 22],
  underline: [4, 24],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39]
} as const
/** A way to paint text. */
export type Style = keyof typeof styles

/** Paints a text by the escape sequences of ANSI terminals. */
export const ansi = (style: Style, text: string): string => `\x1b[${styles[style][0]}m${text}\x1b[${styles[style][1]}m`

// controls but tab and line feed; bidi, zero-width, tag and other invisible characters but joiners; line separators; half characters
const unsafe = /(?![\t\n\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

/** Writes every character that a terminal obeys, or shows nothing for, as an escape: `\u001b`. Line feeds and tabs stay. */
export const safe = (text: string): string =>
  text.replace(/\r\n?/g, "\n").replace(unsafe, (character) => escapeOf(character.codePointAt(0)!)) // a match has a character

/** `safe`, on one line. */
export const safeLine = (text: string): string => safe(text).replace(/\s+/g, " ").trim()

const escapeOf = (code: number): string =>
  code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`

/** Prints a value as JSON that no terminal obeys: a parser reads the same value. */
export const json = (value: unknown): string =>
  JSON.stringify(value, null, 2).replace(
    unsafe,
    (character) => character.split("").map((unit) => escapeOf(unit.charCodeAt(0))).join("") // JSON escapes UTF-16 units
  )

const units: ReadonlyArray<readonly [milliseconds: number, name: string]> = [
  [31_557_600_000, "year"],
  [2_629_800_000, "month"],
  [604_800_000, "week"],
  [86_400_000, "day"],
  [3_600_000, "hour"],
  [60_000, "minute"]
]

/** Returns a time relative to now in words: `just now`, `3 days ago`, `in 2 hours`. */
export const age = (time: number, now: number): string => {
  const distance = Math.abs(now - time)
  const unit = units.find(([milliseconds]) => distance >= milliseconds)
  if (unit === undefined) return "just now"
  const count = Math.floor(distance / unit[0])
  const words = `${count} ${unit[1]}${count === 1 ? "" : "s"}`
  return time <= now ? `${words} ago` : `in ${words}`
}

/** Returns a number with its thousands separated. */
export const number = (value: number): string => value.toLocaleString("en-US")

/** Returns a count with its noun: `1 record`, `1,200 records`. */
export const counted = (count: number, noun: string): string => `${number(count)} ${noun}${count === 1 ? "" : "s"}`

/** Returns the time in ISO 8601. */
export const iso = (time: number): string => new Date(time).toISOString()

/** Breaks a text into lines of at most `width` characters, between words where it can. Line feeds stay. */
export const wrap = (text: string, width: number): ReadonlyArray<string> =>
  text.split("\n").flatMap((line) => {
    const lines: Array<string> = []
    let current = ""
    for (const word of line.split(" ")) {
      if (current !== "" && current.length + 1 + word.length > width) {
        lines.push(current)
        current = word
      } else current = current === "" ? word : `${current} ${word}`
    }
    return [...lines, current]
  })
