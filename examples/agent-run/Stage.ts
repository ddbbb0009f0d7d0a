/** How the story is told: headings and lines, in colour where a person looks on. */
import * as Console from "effect/Console"
import type * as Effect from "effect/Effect"

const coloured = process.stdout.isTTY === true && !process.env["NO_COLOR"]
const style = (code: number) => (text: string) => coloured ? `\u001b[${code}m${text}\u001b[0m` : text

export const bold = style(1)
export const dim = style(2)
export const red = style(31)
export const green = style(32)
export const cyan = style(36)

export const title = (text: string): Effect.Effect<void> => Console.log(`\n${bold(text)}`)

/** What a part of the story is called, and an aside. */
export const heading = (text: string, aside = ""): Effect.Effect<void> =>
  Console.log(`\n${bold(cyan(text))}${aside === "" ? "" : `  ${dim(aside)}`}`)

export const line = (text: string): Effect.Effect<void> => Console.log(text === "" ? "" : `  ${text}`)

/** Who, in a column of its own, and what. */
export const said = (who: string, what: string): Effect.Effect<void> => line(`${dim(who.padEnd(9))} ${what}`)

/** A text as it stands, set in from the margin. */
export const quoted = (text: string): Effect.Effect<void> =>
  Console.log(text.trimEnd().split("\n").map((row) => `  ${dim("│")} ${row}`.trimEnd()).join("\n"))

export const fail = (text: string): Effect.Effect<void> => Console.error(red(text))

/** At most so many characters. */
export const short = (text: string, length = 76): string =>
  text.length <= length ? text : `${text.slice(0, length - 1).trimEnd()}…`

/** 0..1 as a bar of ten. */
export const bar = (share: number): string => "█".repeat(Math.round(share * 10)).padEnd(10, "·")
