import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import { MemoryId } from "../../src/domain/MemoryId.ts"
import { MemoryScope } from "../../src/domain/MemoryScope.ts"
import * as PromptText from "../../src/domain/PromptText.ts"
import * as MemoryTool from "../../src/host/MemoryTool.ts"

const Sum = Schema.Struct({ sum: Schema.Number })

const add = MemoryTool.make({
  name: "add",
  description: "Adds two numbers.",
  input: Schema.Struct({ a: Schema.NumberFromString, b: Schema.optionalWith(Schema.Int, { default: () => 1 }) }),
  output: Sum,
  writes: false,
  handler: ({ a, b }) => Effect.succeed({ sum: a + b, steps: [a, b] }),
  text: ({ steps, sum }) => `${steps.join(" + ")} = ${sum}`
})

const failing = (error: MemoryError.MemoryError) =>
  MemoryTool.make({
    name: "fail",
    description: "",
    input: Schema.Struct({}),
    output: Sum,
    writes: true,
    handler: () => Effect.fail(error)
  })

describe("MemoryTool", () => {
  it.effect("a call of a tool decodes the input, runs the handler, and encodes the output without undeclared fields", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* add.call({ a: "2" }), { text: "2 + 1 = 3", data: { sum: 3 } })
    }))

  it.effect("the text for the model is the encoded output as JSON if the tool defines no `text` function", () =>
    Effect.gen(function*() {
      const tool = MemoryTool.make({
        name: "three",
        description: "",
        input: Schema.Struct({}),
        output: Sum,
        writes: false,
        handler: () => Effect.succeed({ sum: 3, unsaid: true })
      })
      assert.strictEqual((yield* tool.call({})).text, "{\"sum\":3}")
    }))

  it.effect("an invalid argument of an optional field is reported once", () =>
    Effect.gen(function*() {
      const { message } = yield* Effect.flip(add.call({ a: "1", b: 1.5 }))
      assert.strictEqual(message, "b: Expected an integer")
    }))

  it.effect("two invalid arguments and an undeclared argument are all reported", () =>
    Effect.gen(function*() {
      const failure = yield* Effect.flip(add.call({ a: "two", b: 1.5, viewer: { userId: "bob" } }))
      assert.strictEqual(failure.reason, "invalid_draft")
      for (const field of ["a: ", "b: ", "viewer: "]) assert.include(failure.message, field)
    }))

  it.effect("the message of a call with a very long invalid argument has at most 1,000 characters", () =>
    Effect.gen(function*() {
      const failure = yield* Effect.flip(add.call({ a: "x".repeat(100_000) }))
      assert.isAtMost(failure.message.length, 1_000)
    }))

  it.effect("the message of a call with many undeclared arguments has at most 1,000 characters, and never ends inside an HTML entity", () =>
    Effect.gen(function*() {
      for (const name of ["<bos>".repeat(3), "<bos>".repeat(50), "[INST]<|", "<memoryx", "&lt;", "\u{1f375}", "x"]) {
        for (let longer = 0; longer < 40; longer++) {
          const names = Array.from({ length: 100 }, (_, n) => `${"y".repeat(n === 0 ? longer : 0)}${name}|>${n}`)
          const { message } = yield* Effect.flip(add.call(Object.fromEntries(names.map((name) => [name, 1]))))
          assert.isAtMost(message.length, 1_000)
          assert.isAtLeast(message.length, 250)
          assert.strictEqual(message, PromptText.visible(message))
          assert.notMatch(message, /&[^;]*$/)
        }
      }
    }))

  it.effect("a failed call hides the handler's message if the reason is `io`, `unavailable` or `model`", () =>
    Effect.gen(function*() {
      const refused = MemoryError.make("not_owned", { op: "put", message: "not yours", cause: new Error("/home/ada") })
      assert.deepStrictEqual(yield* Effect.flip(failing(refused).call({})), {
        reason: "not_owned",
        message: "not yours"
      })
      for (const reason of ["io", "unavailable", "model"] as const) {
        const error = MemoryError.make(reason, { op: "put", message: "EIO: /home/ada/.memory/x.md" })
        assert.deepStrictEqual(yield* Effect.flip(failing(error).call({})), {
          reason,
          message: `the memory could not be reached (${reason})`
        })
      }
    }))

  it("the JSON Schema of a tool's input allows no undeclared fields, and has no references if no definition is recursive", () => {
    const { jsonSchema } = MemoryTool.make({
      name: "all",
      description: "",
      input: Schema.Struct({
        id: MemoryId,
        scope: MemoryScope,
        limit: Schema.optional(Schema.Int.pipe(Schema.between(1, 50))),
        $ref: Schema.optional(Schema.String),
        allOf: Schema.optional(Schema.Literal("a", "b"))
      }),
      output: Sum,
      writes: false,
      handler: () => Effect.succeed({ sum: 0 })
    })
    assert.notInclude(JSON.stringify(jsonSchema), "#/$defs")
    assert.notProperty(jsonSchema, "$schema")
    assert.notProperty(jsonSchema, "$defs")
    assert.include(jsonSchema, { type: "object", additionalProperties: false })
    assert.nestedInclude(jsonSchema, {
      "properties.limit.type": "integer",
      "properties.limit.maximum": 50,
      "properties.scope.anyOf[1].properties.userId.type": "string",
      "properties.$ref.type": "string",
      "properties.allOf.type": "string"
    })
  })

  it("a tool without arguments has the JSON Schema of an object without properties", () => {
    assert.deepStrictEqual(failing(MemoryError.make("io", { op: "put", message: "" })).jsonSchema, {
      type: "object",
      properties: {},
      additionalProperties: false
    } as never)
  })

  it("a recursive definition is copied into the field that uses it; the recursion within the copy is a `$ref` into `$defs`", () => {
    interface Tree {
      readonly children: ReadonlyArray<Tree>
    }
    const Tree = Schema.Struct({ children: Schema.Array(Schema.suspend((): Schema.Schema<Tree> => Tree)) })
      .annotations({ identifier: "Tree" })
    const { jsonSchema } = MemoryTool.make({
      name: "tree",
      description: "",
      input: Schema.Struct({ tree: Tree }),
      output: Sum,
      writes: false,
      handler: () => Effect.succeed({ sum: 0 })
    })
    assert.property(jsonSchema.$defs, "Tree")
    assert.nestedPropertyVal(jsonSchema, "properties.tree.properties.children.items.$ref", "#/$defs/Tree")
  })

  it("a JSON Schema keeps only recursive definitions in `$defs`, inlines all other definitions, and has no titles", () => {
    interface Tree {
      readonly name: string
      readonly owner: { readonly id: string }
      readonly children: ReadonlyArray<Tree>
    }
    const Name = Schema.NonEmptyString.annotations({ identifier: "a/b~c", title: "Name" })
    const Owner = Schema.Struct({ id: Name }).annotations({ identifier: "Owner", title: "Owner" })
    const Tree = Schema.Struct({
      name: Name,
      owner: Owner,
      children: Schema.Array(Schema.suspend((): Schema.Schema<Tree> => Tree))
    }).annotations({ identifier: "Tree/1", title: "Tree" })
    const name = { type: "string", minLength: 1, description: "a non empty string" }
    const object = (properties: object) => ({
      type: "object",
      required: Object.keys(properties),
      properties,
      additionalProperties: false
    })
    const owner = object({ id: name })
    const tree = object({ name, owner, children: { type: "array", items: { $ref: "#/$defs/Tree~11" } } })
    const $defs = { "Tree/1": tree }
    assert.deepEqual<unknown>(MemoryTool.jsonSchemaOf(Tree), { ...tree, $defs })
    assert.deepEqual<unknown>(MemoryTool.jsonSchemaOf(Schema.Struct({ tree: Tree, owner: Owner })), {
      ...object({ tree, owner }),
      $defs
    })
  })

  it("`$defs` of a JSON Schema holds both of two definitions that contain each other", () => {
    interface Group {
      readonly members: ReadonlyArray<Member>
    }
    interface Member {
      readonly group?: Group
    }
    const Group = Schema.Struct({ members: Schema.Array(Schema.suspend((): Schema.Schema<Member> => Member)) })
      .annotations({ identifier: "Group" })
    const Member = Schema.Struct({ group: Schema.optionalWith(Group, { exact: true }) })
      .annotations({ identifier: "Member" })
    const schema = MemoryTool.jsonSchemaOf(Schema.Struct({ group: Group, member: Member }))
    const referred = JSON.stringify(schema).matchAll(/#\/\$defs\/(\w+)/g)
    assert.hasAllKeys(schema.$defs, Array.from(new Set(Array.from(referred, ([, name]) => name!))))
    assert.hasAllKeys(schema.$defs, ["Group", "Member"])
  })
})
