/**
 * The standard streams of the command: output, questions and input. Results are printed to stdout, everything else to stderr. `safe`
 * escapes the control characters of stored text. Otherwise, a printed text could move the cursor, set a title or hide other text.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"

/** The streams of the process. */
export interface Service {
  /** Prints to stdout; completes when the stream has accepted the text. */
  readonly out: (text: string) => Effect.Effect<void>
  /** Prints to stderr. */
  readonly err: (text: string) => Effect.Effect<void>
  /**
   * Reads stdin to its end as UTF-8 text. Fails with `too long` as soon as stdin has delivered more than `longest` bytes, and with
   * `not UTF-8` at the end of stdin if the bytes are not UTF-8.
   */
  readonly input: (longest: number) => Effect.Effect<string, "too long" | "not UTF-8">
  /** Reads stdin in chunks of bytes. */
  readonly inputBytes: Stream.Stream<Uint8Array>
  /** Asks a yes-or-no question on the terminal. Returns true only if the answer is `y` or `yes`, in upper or lower case. */
  readonly ask: (question: string) => Effect.Effect<boolean>
  /** Whether stdout is a terminal. */
  readonly isTerminal: boolean
  /** Whether stderr is a terminal. */
  readonly isErrorTerminal: boolean
  /** Whether a person can be asked, that is, whether stdin and stderr are terminals. */
  readonly canAsk: boolean
  /** Number of columns of the terminal; 80 if stdout is no terminal. */
  readonly columns: number
  /**
   * Colours a text for stdout. The text stays unchanged if stdout is no terminal, if `NO_COLOR` is set and not empty, or if `TERM` is
   * `dumb`.
   */
  readonly paint: (style: Style, text: string) => string
  /** Version of the package. */
  readonly version: string
  /** Returns the value of an environment variable; `undefined` if the variable is not set or is empty. */
  readonly env: (name: string) => string | undefined
}

/** Service tag of the standard streams. */
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
/** A colour or style of text. */
export type Style = keyof typeof styles

/** Decodes UTF-8 bytes, and removes a byte order mark. Returns `undefined` if the bytes are not UTF-8. */
export const decodeUtf8 = (bytes: Uint8Array): string | undefined => {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** Colours a text with ANSI escape sequences. */
export const ansi = (style: Style, text: string): string => `\x1b[${styles[style][0]}m${text}\x1b[${styles[style][1]}m`

// matches control and format characters, line and paragraph separators and lone surrogates, but not tab, line feed, U+200C and U+200D
const unsafe = /(?![\t\n\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

/**
 * Escapes control and format characters, for example as `\u001b`. Tabs, line feeds, U+200C and U+200D stay. `\r\n` and `\r` become `\n`.
 */
export const safe = (text: string): string =>
  text.replace(/\r\n?/g, "\n").replace(unsafe, (character) => escapeOf(character.codePointAt(0)!)) // a match has one character

/** Applies `safe`, and puts the text on one line. */
export const safeLine = (text: string): string => safe(text).replace(/\s+/g, " ").trim()

const escapeOf = (code: number): string =>
  code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`

/** Renders a value as JSON, with escapes for control and format characters. A JSON parser turns the escapes back into characters. */
export const json = (value: unknown): string =>
  JSON.stringify(value, null, 2).replace(
    unsafe,
    (character) => character.split("").map((unit) => escapeOf(unit.charCodeAt(0))).join("") // a JSON escape stands for one UTF-16 unit
  )

const units: ReadonlyArray<readonly [milliseconds: number, name: string]> = [
  [31_557_600_000, "year"],
  [2_629_800_000, "month"],
  [604_800_000, "week"],
  [86_400_000, "day"],
  [3_600_000, "hour"],
  [60_000, "minute"]
]

/** Renders a time relative to now: `just now`, `3 days ago`, `in 2 hours`. */
export const age = (time: number, now: number): string => {
  const distance = Math.abs(now - time)
  const unit = units.find(([milliseconds]) => distance >= milliseconds)
  if (unit === undefined) return "just now"
  const count = Math.floor(distance / unit[0])
  const words = `${count} ${unit[1]}${count === 1 ? "" : "s"}`
  return time <= now ? `${words} ago` : `in ${words}`
}

/** Renders a number with thousands separators: `1,200`. */
export const number = (value: number): string => value.toLocaleString("en-US")

/** Renders a count with its noun: `1 record`, `1,200 records`. */
export const counted = (count: number, noun: string): string => `${number(count)} ${noun}${count === 1 ? "" : "s"}`

/** Renders a time in ISO 8601. */
export const iso = (time: number): string => new Date(time).toISOString()

/** Splits a text into lines of at most `width` characters, at spaces and line feeds. A word longer than `width` is not split. */
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
