import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as TimeExpression from "../../src/ranking/internal/TimeExpression.ts"
import { mayNameTime } from "../../src/ranking/Tokenizer.ts"
import { naughty } from "./world.ts"

/** The time at which the texts are read: a Wednesday. */
const now = Date.UTC(2024, 4, 15, 10, 30)
const day = 86_400_000

/** Returns the spans that a text names, each as its first and last day. */
const spans = (text: string) =>
  TimeExpression.timesIn(text, now)?.spans.map(([from, until]) =>
    [from, until - 1].map((at) => new Date(at).toISOString().slice(0, 10)).join(" ")
  )
const yearly = (text: string) => TimeExpression.timesIn(text, now)?.yearly

describe("TimeExpression", () => {
  it.each([
    ["What happened on 8 May 2023?", "2023-05-08 2023-05-08"],
    ["the 8th of May, 2023", "2023-05-08 2023-05-08"],
    ["May 8, 2023", "2023-05-08 2023-05-08"],
    ["Dec. 31st, 2023", "2023-12-31 2023-12-31"],
    ["on 2023-05-08", "2023-05-08 2023-05-08"],
    ["in May 2023", "2023-05-01 2023-05-31"],
    ["during February of 2024", "2024-02-01 2024-02-29"],
    ["in 2022", "2022-01-01 2022-12-31"],
    ["the spring of 2024", "2024-03-01 2024-05-31"],
    ["last winter", "2023-12-01 2024-02-29"],
    ["today", "2024-05-15 2024-05-15"],
    ["yesterday", "2024-05-14 2024-05-14"],
    ["3 days ago", "2024-05-12 2024-05-12"],
    ["two weeks ago", "2024-04-29 2024-05-05"],
    ["a month ago", "2024-04-01 2024-04-30"],
    ["last week", "2024-05-06 2024-05-12"],
    ["this month", "2024-05-01 2024-05-31"],
    ["next year", "2025-01-01 2025-12-31"],
    ["last weekend", "2024-05-11 2024-05-12"],
    ["on Monday", "2024-05-13 2024-05-13"],
    ["on Wednesday", "2024-05-08 2024-05-08"],
    ["last Friday", "2024-05-10 2024-05-10"],
    ["the last 10 days", "2024-05-05 2024-05-15"]
  ])("the text \"%s\" names %s", (text, expected) => {
    assert.deepStrictEqual(spans(text), [expected])
  })

  it("a date such as 8/5/2023 is read both as day/month and as month/day, and an impossible date names no time", () => {
    assert.deepStrictEqual(spans("8/5/2023"), ["2023-05-08 2023-05-08", "2023-08-05 2023-08-05"])
    assert.deepStrictEqual(spans("31.12.2023"), ["2023-12-31 2023-12-31"])
    assert.isUndefined(spans("31 Feb 2023"))
  })

  it("a month or day without a year means the month or day of every year", () => {
    assert.deepStrictEqual(yearly("in August"), [{ month: 7 }])
    assert.deepStrictEqual(yearly("on the 4th of July"), [{ month: 6, day: 4 }])
    const may = TimeExpression.timesIn("in May", now)!
    for (const year of [1999, 2023, 2024]) assert.strictEqual(TimeExpression.closeness(may, Date.UTC(year, 4, 20)), 1)
    assert.isBelow(TimeExpression.closeness(may, Date.UTC(2023, 6, 20)), 0.01)
  })

  it.each(["may I ask?", "who will march?", "version 1.2023.4 of it", "a sunny day", "the second one", ""])(
    "the text \"%s\" names no time",
    (text) => {
      assert.isUndefined(TimeExpression.timesIn(text, now))
    }
  )

  it("closeness is 1 within the named time, decreases with distance, and is 0 more than a month away", () => {
    const times = TimeExpression.timesIn("on 8 May 2023", now)!
    const at = (days: number) => TimeExpression.closeness(times, Date.UTC(2023, 4, 8) + days * day)
    assert.strictEqual(at(0.5), 1)
    assert.closeTo(at(4), Math.exp(-1), 1e-12)
    assert.closeTo(at(-3), Math.exp(-1), 1e-12)
    assert.isAbove(at(2), at(3))
    assert.strictEqual(at(40), 0)
  })

  it("`asksWhen` recognises a question for a time, and `namesTime` a text that contains a time", () => {
    for (const text of ["When did she go?", "How long ago?", "On which day?", "what year was it"]) {
      assert.isTrue(TimeExpression.asksWhen(text), text)
    }
    assert.isFalse(TimeExpression.asksWhen("Who came when it rained?"))
    for (const text of ["I went on Friday", "in 2023", "recently", "two days ago"]) {
      assert.isTrue(TimeExpression.namesTime(text), text)
    }
    assert.isFalse(TimeExpression.namesTime("green tea"))
  })

  it("`timesIn` and `asksWhen` find no time in a text that `mayNameTime` does not match", () => {
    const words = FastCheck.constantFrom(
      ...[
        "on",
        "in",
        "8",
        "8th",
        "May",
        "march",
        "2023",
        "last",
        "next",
        "week",
        "Friday",
        "3",
        "days",
        "ago",
        "today"
      ],
      ...["when", "what", "day", "spring", "of", "which", "how", "long", "this", "the", "12.5.2023", "is", "two"]
    )
    FastCheck.assert(
      FastCheck.property(FastCheck.array(words, { maxLength: 7 }), (all) => {
        const text = all.join(" ")
        if (mayNameTime.test(text)) return
        assert.isUndefined(TimeExpression.timesIn(text, now))
        assert.isFalse(TimeExpression.asksWhen(text))
      }),
      { seed: 1, numRuns: 3_000 }
    )
  })

  it("each string of the Big List of Naughty Strings and texts of 100,000 characters are parsed without an error", () => {
    for (const text of [...naughty, "9".repeat(100_000), "last ".repeat(20_000), "1 1 1 ".repeat(20_000)]) {
      for (const { yearly = [], spans = [] } of [TimeExpression.timesIn(text, now) ?? {}]) {
        assert.isTrue(spans.flat().every(Number.isFinite) && yearly.every(({ month }) => month >= 0))
      }
    }
  })
})
