/**
 * Finds the times that an English text names. The times in a query are later compared with the `validAt` of records.
 *
 * ```text
 * day       8 May 2023 · May 8th, 2023 · 2023-05-08 · 08.05.2023 or 5/8/2023 (each means 5 August and 8 May)
 *           8 May · May 8        names no year, so it means the day in any year
 * month     May 2023 · in May    without a year: the month in any year, if one of these words precedes it:
 *                                in, of, during, last, since, until, by, early, mid, late
 * year      2023
 * season    spring 2024 · last summer        spring is March to May, and so on; winter begins in December
 * day       today · yesterday · tomorrow · 3 days ago · on Monday, last Friday (the latest one before today)
 * span      this, last or next week, weekend, month or year · 2 weeks ago · the last 10 days
 * ```
 *
 * Days begin at midnight UTC, weeks on Monday. Numbers up to twelve may be written as words.
 */
import { mayNameTime } from "../Tokenizer.ts"

/** A time range in epoch milliseconds: `from` inclusive, `until` exclusive. */
export type Span = readonly [from: number, until: number]

/** The times that a text names. `spans` has time ranges. `yearly` has months and days without a year, which match in any year. */
export interface Times {
  readonly spans: ReadonlyArray<Span>
  /** `month` counts from 0. An entry without `day` stands for the whole month. */
  readonly yearly: ReadonlyArray<{ readonly month: number; readonly day?: number | undefined }>
}

const day = 86_400_000

/** Distance in milliseconds over which closeness falls to 1/e. */
const softness = 3 * day

const names = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
const weekdays = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
const seasons = ["spring", "summer", "autumn", "winter"]
const numbers = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]

const month =
  "(january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)\\.?"
const ordinal = "(\\d{1,2})(?:st|nd|rd|th)?"
const year = "((?:19|20)\\d\\d)"
const count = `(\\d{1,3}|an?|${numbers.join("|")})`
const unit = "(day|week|month|year)s?"

const monthOf = (name: string): number => names.indexOf(name.slice(0, 3))
const countOf = (text: string): number => /^an?$/.test(text) ? 1 : numbers.indexOf(text) + 1 || Number(text)

/** Returns a range of `length` months that starts in month `from` of year `of`. Month 0 is January; month 12 is the next January. */
const months = (of: number, from: number, length = 1): Span => [Date.UTC(of, from), Date.UTC(of, from + length)]

/** Returns a list with the range of one day. The list is empty if there is no such month or day. */
const dayOf = (of: number, at: number, date: number): ReadonlyArray<Span> => {
  const from = Date.UTC(of, at, date)
  return at >= 0 && at < 12 && new Date(from).getUTCDate() === date && date > 0 ? [[from, from + day]] : []
}

/** Returns the range of a day, week, weekend, month or year. `offset` counts from the current one: 1 is the next, −1 the previous. */
const unitAt = (name: string, now: number, offset: number): Span => {
  const date = new Date(now)
  const [of, at] = [date.getUTCFullYear(), date.getUTCMonth()]
  const today = Math.floor(now / day) * day
  const monday = today - ((date.getUTCDay() + 6) % 7) * day
  switch (name) {
    case "day":
      return [today + offset * day, today + (offset + 1) * day]
    case "week":
      return [monday + 7 * offset * day, monday + 7 * (offset + 1) * day]
    case "weekend":
      return [monday + (7 * offset + 5) * day, monday + 7 * (offset + 1) * day]
    case "month":
      return months(of, at + offset)
    default:
      return months(of + offset, 0, 12)
  }
}

const offsets: Readonly<Record<string, number>> = { last: -1, previous: -1, this: 0, next: 1, coming: 1 }

type Found = Partial<Times>
/**
 * Patterns in the order in which they are tried, each with a function that converts a match to times. The text that a pattern matches is
 * hidden from later patterns.
 */
const grammar: ReadonlyArray<readonly [pattern: RegExp, read: (parts: ReadonlyArray<string>, now: number) => Found]> =
  ([
    [`${year}-(\\d{1,2})-(\\d{1,2})`, ([y, m, d]) => ({ spans: dayOf(Number(y), Number(m) - 1, Number(d)) })],
    [`(\\d{1,2})[./](\\d{1,2})[./]${year}`, ([a, b, y]) => ({
      spans: [...dayOf(Number(y), Number(b) - 1, Number(a)), ...dayOf(Number(y), Number(a) - 1, Number(b))]
    })],
    [`${ordinal}(?: of)? ${month},? ${year}`, ([d, m, y]) => ({ spans: dayOf(Number(y), monthOf(m!), Number(d)) })],
    [`${month} ${ordinal},? ${year}`, ([m, d, y]) => ({ spans: dayOf(Number(y), monthOf(m!), Number(d)) })],
    [`${month},?(?: of)? ${year}`, ([m, y]) => ({ spans: [months(Number(y), monthOf(m!))] })],
    [`${ordinal}(?: of)? ${month}`, ([d, m]) => ({ yearly: [{ month: monthOf(m!), day: Number(d) }] })],
    [`${month} ${ordinal}`, ([m, d]) => ({ yearly: [{ month: monthOf(m!), day: Number(d) }] })],
    [`(?:in|of|during|last|since|until|by|early|mid|late) ${month}`, ([m]) => ({ yearly: [{ month: monthOf(m!) }] })],
    [`(spring|summer|autumn|fall|winter),?(?: of)? ${year}`, ([s, y]) => ({ spans: [seasonOf(s!, Number(y))] })],
    [
      `(last|this|next) (spring|summer|autumn|fall|winter)`,
      ([which, s], now) => ({ spans: [seasonNear(which!, s!, now)] })
    ],
    [`(today|tonight|yesterday|tomorrow)`, ([which], now) => ({
      spans: [unitAt("day", now, which === "yesterday" ? -1 : which === "tomorrow" ? 1 : 0)]
    })],
    [`(last|previous|this|next|coming) (week|weekend|month|year)`, ([which, name], now) => ({
      spans: [unitAt(name!, now, offsets[which!]!)]
    })],
    [`${count} ${unit} ago`, ([n, name], now) => ({ spans: [unitAt(name!, now, -countOf(n!))] })],
    [`(?:last|past|previous) ${count} ${unit}`, ([n, name], now) => ({
      spans: [[unitAt(name!, now, -countOf(n!))[0], now]]
    })],
    [`(?:on|last|this past) (${weekdays.join("|")})`, ([name], now) => {
      const back = (new Date(now).getUTCDay() + 6 - weekdays.indexOf(name!)) % 7
      return { spans: [unitAt("day", now, -(back || 7))] }
    }],
    [year, ([y]) => ({ spans: [months(Number(y), 0, 12)] })]
  ] satisfies ReadonlyArray<readonly [string, (parts: ReadonlyArray<string>, now: number) => Found]>).map(
    ([pattern, read]) => [new RegExp(`(?<![\\w.])${pattern}(?!\\w)`, "g"), read] as const
  )

const seasonOf = (name: string, of: number): Span =>
  months(of, 2 + 3 * seasons.indexOf(name === "fall" ? "autumn" : name), 3)

const seasonNear = (which: string, name: string, now: number): Span => {
  const of = new Date(now).getUTCFullYear()
  const all = [-2, -1, 0, 1, 2].map((offset) => seasonOf(name, of + offset))
  const found = which === "last"
    ? all.findLast(([, until]) => until <= now)
    : which === "next"
    ? all.find(([from]) => from > now)
    : all.find(([, until]) => until > now)
  return found ?? all[2]!
}

/** Only this many UTF-16 units at the beginning of a text are parsed. Questions are usually shorter. */
const longest = 2_048

/** Returns the times that a text names; `undefined` if it names none. Relative times count from `now`, epoch ms. */
export const timesIn = (text: string, now: number): Times | undefined => {
  let rest = text.slice(0, longest).toLowerCase()
  if (!mayNameTime.test(rest)) return undefined
  const spans: Array<Span> = []
  const yearly: Array<Times["yearly"][number]> = []
  for (const [pattern, read] of grammar) {
    rest = rest.replace(pattern, (...found) => {
      const parts = found.slice(1, found.findIndex((part) => typeof part === "number"))
      const times = read(parts, now)
      spans.push(...times.spans ?? [])
      yearly.push(...times.yearly ?? [])
      return ";" // separates the text before the match from the text after it, so that no later pattern matches across both
    })
  }
  return spans.length + yearly.length === 0 ? undefined : { spans, yearly }
}

/** Returns how close `at` is to the nearest named time: 1 within that time, 1/e three days away, 0 more than 30 days away. */
export const closeness = ({ spans, yearly }: Times, at: number): number => {
  let distance = Infinity
  for (const [from, until] of spans) distance = Math.min(distance, Math.max(0, from - at, at - until))
  if (yearly.length > 0) {
    const of = new Date(at).getUTCFullYear()
    for (const { day: date, month } of yearly) {
      for (let y = of - 1; y <= of + 1; y++) {
        const near = date === undefined ? [months(y, month)] : dayOf(y, month, date)
        for (const [from, until] of near) distance = Math.min(distance, Math.max(0, from - at, at - until))
      }
    }
  }
  return distance === 0 ? 1 : distance > 10 * softness ? 0 : Math.exp(-distance / softness)
}

/** Whether a question asks for a time. */
export const asksWhen = (text: string): boolean =>
  /^\s*(?:when|how long|what (?:date|day|month|year|time)|(?:on|in|since) (?:what|which))\b/i.test(text)

/** Whether a text names a time, even an imprecise one such as "recently" or "on Friday". */
export const namesTime = (text: string): boolean => aTime.test(text)

const aTime = new RegExp(
  "\\b(?:yesterday|today|tonight|tomorrow|last|next|ago|since|recently|weekend|morning|evening|night|\\d{4}|" +
    "(?:day|week|month|year)s?|january|february|march|april|may|june|july|august|september|october|november|december|" +
    `${weekdays.join("|")})\\b`,
  "i"
)
