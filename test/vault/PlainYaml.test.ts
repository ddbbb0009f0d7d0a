/** The fast reader of frontmatter either agrees with the YAML parser or leaves the text to it. */
import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Yaml from "yaml"
import * as Frontmatter from "../../src/storage/MemoryStore/Markdown/Frontmatter.ts"

const parsed = (text: string): unknown => {
  try {
    return Yaml.parse(text, { maxAliasCount: 20, schema: "core", logLevel: "error" })
  } catch {
    return "no YAML"
  }
}
const agrees = (text: string): boolean => {
  const quick = Frontmatter.readPlain(text)
  if (quick !== undefined) assert.deepStrictEqual(quick, parsed(text), JSON.stringify(text))
  return quick !== undefined
}

const scalars = [
  ...[
    "tea",
    "green tea",
    "[a, b c]",
    "[]",
    "[ ]",
    "tea: green",
    "tea:green",
    "tea #1",
    "tea # 1",
    "tea,",
    "- tea",
    "-tea",
    "a - b",
    "'tea'",
    "'green # tea: x'",
    "'it''s'",
    "'tea' x",
    "2024 plan",
    "1. Erstens",
    "1 000",
    "1 e3",
    "3 days: x",
    "план на неделю",
    "茶と緑",
    "tea 🍵",
    "say \"tea\" twice",
    "''"
  ],
  ...["\"tea\"", "\"a \\\"b\\\" c\"", "\"a\\nb\"", "\"\\u00e9\"", "\"\\x41\"", "\"a\" b", "\"", "\"\\\"", "\"a\tb\""],
  ...[
    "0",
    "-0",
    "7",
    "007",
    "0x1f",
    "0o17",
    "1e3",
    "1.5",
    "1.50",
    "-1.25",
    ".5",
    "5.",
    "+1",
    "1_000",
    "12345678901234567890"
  ],
  ...[
    "true",
    "True",
    "tRUE",
    "yes",
    "no",
    "on",
    "null",
    "Null",
    "~",
    "",
    " ",
    "NaN",
    ".nan",
    ".inf",
    "-.INF",
    "Infinity"
  ],
  ...[
    "2024-01-01",
    "2024-01-01T00:00:00.000Z",
    "2024-01-01 10:00",
    "2024-01-01T10:00:00+02:00",
    "2024-01-01 10:00:00.5Z",
    "10:30",
    "1:2:3"
  ],
  ...["[a, b]", "{a: b}", "&a b", "*a", "!!str 1", "|", ">", "%a", "@a", "`a`", "?", "? a", ":", "a:", "a :b", "a : b"],
  ...["3fa9", "12e34", "0b1", "0e", "9f".repeat(32), "1".repeat(64), "12e3456".repeat(9), "01J8Z3N5T6V7W8X9Y0ABCDEFGH"],
  ...[
    "[a]",
    "[a, b c]",
    "[]",
    "[ ]",
    "[a,b]",
    "[]",
    "[a, ]",
    "[a, 1, true]",
    "[a: b]",
    "[[a]]",
    "[\"a\", b]",
    "[a] b",
    "[2024-01-01]"
  ],
  ...["[a#b]", "[a, null]", "[a , b]", "[ a]", "[-a]", "[a-b, c/d]", "[a, b", "[1e3]", "[a\tb]", "[a,  b]"],
  ...[
    "é",
    "École",
    "naïve",
    "日本",
    "a\u00a0b",
    "a\u2028b",
    "a\u0085b",
    "tea ",
    " tea",
    "a\tb",
    "a\\b",
    "a\"b",
    "it's",
    "(a)",
    "a|b"
  ],
  ...[
    "<<",
    "=",
    "a = b",
    "__proto__",
    "---",
    "...",
    "a--- b",
    "http://a.b/c?d=e&f",
    "[[Note]]",
    "\"[[Note]]\"",
    "C:\\x",
    "x'"
  ]
]
const keys = [
  "a",
  "tags",
  "createdAt",
  "a-b",
  "_a",
  "a b",
  "a b ",
  "date created",
  "ключ",
  "名前",
  "1",
  "true",
  "null",
  "__proto__",
  "\"a\"",
  "<<",
  "é",
  "constructor",
  "- a"
]

describe("the fast reader of frontmatter", () => {
  it("the fast reader reads a scalar as the YAML parser does, or leaves the text to the YAML parser", () => {
    const read = scalars.filter((scalar) =>
      [
        `a: ${scalar}`,
        `a: ${scalar}\nb: c`,
        `a:\n  - ${scalar}\n  - b\nc: d`,
        `a:\n- ${scalar}`,
        `a: ${scalar}\r\nb: c`,
        `a: b\nc: ${scalar}\r`
      ]
        .map(agrees)[0]
    )
    assert.includeMembers(read, [
      "tea",
      "green tea",
      "[a, b c]",
      "[]",
      "\"tea\"",
      "7",
      "1.5",
      "true",
      "2024-01-01T00:00:00.000Z",
      "3fa9"
    ])
    assert.includeMembers(read, [
      "'tea'",
      "2024 plan",
      "2024-01-01 10:00",
      "10:30",
      "план на неделю",
      "茶と緑",
      "tea 🍵",
      "日本"
    ])
    assert.includeMembers(read, ["9f".repeat(32), "01J8Z3N5T6V7W8X9Y0ABCDEFGH", "http://a.b/c?d=e&f", "naïve"])
  })

  it("the fast reader reads a key as the YAML parser does, or leaves the text to the YAML parser", () => {
    const read = keys.filter((key) => [`${key}: b`, `${key}:\n  - b`, `${key}: b\n${key}: c`].map(agrees)[0])
    const words = ["a", "tags", "createdAt", "a-b", "_a", "a b", "date created", "ключ", "名前", "é", "constructor"]
    assert.deepStrictEqual(read, words)
  })

  it("the fast reader reads random frontmatter as the YAML parser does, or leaves it to the YAML parser", () => {
    const scalar = FastCheck.oneof(FastCheck.constantFrom(...scalars), FastCheck.string({ maxLength: 6 }))
    const key = FastCheck.oneof(
      { weight: 5, arbitrary: FastCheck.constantFrom("a", "b", "c", "d") },
      FastCheck.constantFrom(...keys)
    )
    const line = FastCheck.oneof(
      FastCheck.tuple(key, scalar).map(([key, value]) => `${key}: ${value}`),
      key.map((key) => `${key}:`),
      FastCheck.tuple(FastCheck.constantFrom("", "  ", "    "), scalar).map(([indent, value]) => `${indent}- ${value}`),
      FastCheck.tuple(FastCheck.constantFrom("  ", "\t", "# "), scalar).map(([indent, value]) => `${indent}${value}`),
      FastCheck.constant("")
    )
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(line, { maxLength: 6 }),
        FastCheck.constantFrom("\n", "\r\n"),
        (lines, eol) => {
          agrees(lines.join(eol))
        }
      ),
      { numRuns: 2_000, seed: 7 }
    )
  })
})

const said: FastCheck.Arbitrary<unknown> = FastCheck.oneof(
  FastCheck.constantFrom(...scalars),
  FastCheck.string({ maxLength: 12 }),
  FastCheck.stringMatching(/^[0-9][0-9a-zA-Z:.+-]{0,12}$/),
  FastCheck.stringMatching(/^[a-zA-Z][ a-z:#"'-]{0,12}$/),
  FastCheck.date({ min: new Date(0), max: new Date(8.64e15), noInvalidDate: true }).map((date) => date.toISOString()),
  FastCheck.double(),
  FastCheck.integer(),
  FastCheck.boolean()
)

describe("the fast printer of frontmatter", () => {
  const printed = (matter: Readonly<Record<string, unknown>>) => {
    const quick = Frontmatter.printPlain(matter)
    if (quick === undefined) return false
    assert.strictEqual(quick, Yaml.stringify(matter, { lineWidth: 0, aliasDuplicateObjects: false }))
    assert.deepStrictEqual(parsed(quick), matter, quick)
    return true
  }

  it("the fast printer's frontmatter equals the YAML library's output, and is read back unchanged", () => {
    let quick = 0
    FastCheck.assert(
      FastCheck.property(said, FastCheck.array(said, { minLength: 1, maxLength: 4 }), (value, list) => {
        if (printed({ a: value })) quick++
        if (printed({ a: value, b: list, c: "d" })) quick++
      }),
      { numRuns: 5_000, seed: 11 }
    )
    assert.isAbove(quick, 1_000)
  })

  it("the frontmatter of a usual record is printed by the fast printer", () => {
    assert.isTrue(printed({
      id: "01J8Z3N5T6V7W8X9Y0ABCDEFGH",
      kind: "project",
      summary: "Note 7: what we do",
      createdAt: "2026-11-24T09:12:25.123Z",
      tags: ["t1", "a b"],
      importance: 0.25,
      summaryDerived: true,
      hash: "9f".repeat(32)
    }))
  })
})
