import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { MemoryFilter, MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import { MemoryMutation } from "../../src/domain/MemoryMutation.ts"
import { Draft, Patch } from "../../src/domain/MemoryRecord.ts"
import * as Validation from "../../src/domain/Validation.ts"
import * as Viewer from "../../src/domain/Viewer.ts"

const linesOf = (schema: Schema.Schema.AnyNoContext, input: unknown): ReadonlyArray<string> =>
  Either.match(Schema.decodeUnknownEither(schema, { errors: "all", onExcessProperty: "error" })(input), {
    onLeft: (error) => Validation.lines(error),
    onRight: () => []
  })

describe("Validation", () => {
  it("error messages name each violation's path and what was expected there; the message for a missing key names only the path", () => {
    const schema = Schema.Struct({
      a: Schema.Int,
      b: Schema.Array(Schema.Literal("x", "y")),
      c: Schema.String.pipe(Schema.minLength(2)),
      d: Schema.String.pipe(Schema.pattern(/x/)).annotations({ message: () => "expected an x" }),
      e: Schema.optional(Schema.Union(Schema.Number, Schema.Struct({ f: Schema.Boolean })))
    })
    const input = { a: 1.5, b: ["x", "secret"], c: "s", e: { f: "secret" }, more: "secret" }
    assert.sameMembers(Array.from(linesOf(schema, input)), [
      "more: is unexpected, expected: \"a\" | \"b\" | \"c\" | \"d\" | \"e\"",
      "a: Expected an integer",
      "b.1: Expected \"x\" | \"y\"",
      "c: Expected a string at least 2 character(s) long",
      "d: is missing",
      "e.f: Expected boolean",
      "e: Expected number"
    ])
    assert.deepStrictEqual(linesOf(Schema.Struct({ d: schema.fields.d }), { d: "secret" }), ["d: expected an x"])
    assert.deepStrictEqual(linesOf(Schema.String, 7), ["Expected string"])
    assert.deepStrictEqual(linesOf(Schema.Undefined, 7), ["Expected undefined"])
  })

  it("the error message where an object or array is expected has the Schema's name, or says `an object` or `an array`; it lists no fields", () => {
    const fields = { a: Schema.String, b: Schema.optional(Schema.Array(Schema.Struct({ c: Schema.Int }))) }
    assert.deepStrictEqual(linesOf(Schema.Struct(fields), 7), ["Expected an object"])
    assert.deepStrictEqual(linesOf(Schema.Struct(fields), { a: "x", b: 7 }), ["b: Expected an array"])
    assert.deepStrictEqual(linesOf(Schema.Struct(fields).annotations({ identifier: "Draft" }), 7), ["Expected Draft"])
    assert.deepStrictEqual(linesOf(Schema.Array(Schema.String).annotations({ description: "Words." }), 7), [
      "Expected an array"
    ])
    assert.deepStrictEqual(linesOf(Schema.Array(MemoryMutation), [7]), ["0: Expected an object"])
    assert.deepStrictEqual(linesOf(Schema.Union(Schema.String, Schema.Struct(fields)), 7), [
      "Expected string | an object"
    ])
    assert.deepStrictEqual(linesOf(MemoryFilter, { where: { "data.x": 5 } }), [
      "where.data.x: Expected a condition, such as { eq: 5 }"
    ])
  })

  it("the error message for a value outside a union of literals lists the literals, unless a literal has a message of its own", () => {
    const literals = Schema.Literal("a", "b")
    assert.deepStrictEqual(linesOf(literals, 7), ["Expected \"a\" | \"b\""])
    assert.deepStrictEqual(linesOf(literals.annotations({ description: "a mood" }), 7), ["Expected \"a\" | \"b\""])
    const own = Schema.Literal("a").annotations({ message: () => "say a" })
    assert.deepStrictEqual(linesOf(Schema.Union(own, Schema.Literal("b")), 7), ["say a", "Expected \"b\""])
    const inner = literals.annotations({ message: () => "say a or b" })
    assert.deepStrictEqual(linesOf(Schema.Struct({ c: Schema.optional(inner) }), { c: true }), ["c: say a or b"])
    assert.deepStrictEqual(linesOf(Schema.NullOr(literals).annotations({ description: "a mood" }), "z"), [
      "Expected \"a\" | \"b\" | null"
    ])
    assert.deepStrictEqual(linesOf(Schema.Union(Schema.Literal("all"), Schema.NonEmptyArray(Schema.Int)), 7), [
      "Expected \"all\" | an array"
    ])
  })

  it("equal messages for one path appear once, and the work is linear in the number of violations", () => {
    const input = Array.from({ length: 100_000 }, () => 7)
    assert.lengthOf(linesOf(Schema.Array(Schema.String), input), 100_000)
    const twice = Schema.Union(
      Schema.Struct({ a: Schema.String }),
      Schema.Struct({ a: Schema.String, b: Schema.optional(Schema.Int) })
    )
    assert.deepStrictEqual(linesOf(twice, { a: 7 }), ["a: Expected string"])
  })

  it("an error message for a failed transformation does not quote the input", () => {
    for (
      const schema of [Schema.parseJson(Schema.Int), Schema.NumberFromString, Schema.Date, Schema.StringFromBase64]
    ) {
      const lines = linesOf(schema, "7F3A {secret")
      assert.notInclude(lines.join(), "7F3A")
    }
  })

  it("the error message for a text that is too long names the length limit, even if the Schema's description does not", () => {
    const said = (schema: Schema.Schema<string>) => linesOf(schema, "x".repeat(600))
    const short = Schema.String.pipe(Schema.maxLength(500))
    assert.deepStrictEqual(said(short.annotations({ description: "a question" })), [
      "Expected a question (maxLength 500)"
    ])
    for (const known of [short, short.annotations({ description: "a question of 500 characters at most" })]) {
      assert.notInclude(said(known)[0], "maxLength")
    }
  })

  it("a message contains only the first 64 characters of a long key of the input", () => {
    const [line = ""] = linesOf(Schema.Record({ key: Schema.String, value: Schema.Int }), { ["k".repeat(9_000)]: "x" })
    assert.strictEqual(line, `${"k".repeat(64)}: Expected number`)
  })

  it("`timeIssues` reports negative durations, and values that are no durations", () => {
    const issues = (value: unknown) => Validation.timeIssues("ttl", value as never, { least: 0, infinite: true }).length // untyped values
    assert.deepStrictEqual(
      [NaN, -1, -Infinity, -1n, [-1, 0], [NaN, 0], "-5 seconds", " -1 millis", null, true].map(issues),
      [
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1
      ]
    )
    assert.deepStrictEqual([undefined, 0, 0n, "0 seconds", [1, 2], Infinity, "5 seconds"].map(issues), [
      0,
      0,
      0,
      0,
      0,
      0,
      0
    ])
  })

  it("error messages never quote a value of the input", () => {
    const canary = "7F3A says"
    const poison = FastCheck.letrec((tie) => ({
      value: FastCheck.oneof(
        { maxDepth: 3 },
        FastCheck.constantFrom(canary, `${canary}\n`, canary.repeat(1_000), null, 7, NaN, true),
        FastCheck.array(tie("value"), { maxLength: 2 }),
        FastCheck.dictionary(
          FastCheck.constantFrom("id", "scope", "userId", "_tag", "draft", "eq", "from", "x"),
          tie("value")
        )
      )
    })).value
    const schemas = [Draft, Patch, MemoryQuery, MemoryMutation, Viewer.Viewer]
    for (const schema of schemas) {
      const keys = FastCheck.sample(Arbitrary.make(schema as Schema.Schema<object>), { numRuns: 50, seed: 1 }) // all values are objects
        .flatMap((value) => Object.keys(value))
      FastCheck.assert(
        FastCheck.property(
          FastCheck.oneof(poison, FastCheck.dictionary(FastCheck.constantFrom("_tag", ...keys), poison)),
          (input) => assert.notInclude(linesOf(schema as Schema.Schema.AnyNoContext, input).join(), "7F3A")
        ),
        { seed: 9, numRuns: 500 }
      )
    }
  })
})
