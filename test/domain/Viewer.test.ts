import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import * as MemoryScope from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"

const secret = "sk-canary"
const opensNothing: ReadonlyArray<readonly [input: unknown, field: string]> = [
  ...[...MemoryScope.fields, "tenant", "reach"].flatMap((field) =>
    [undefined, null, "", 7, {}, [secret]].map((value) => [{ userId: "ada", [field]: value }, field] as const)
  ),
  [{ userId: undefined, reach: "within" }, "userId"],
  [{ userID: "ada" }, "userID"],
  [{ userId: "ada", reach: secret }, "reach"],
  [{ userId: "ada", reach: "everyone" }, "reach"],
  [{ reach: "everyone" }, "reach"],
  [{ reach: "within" }, "reach"],
  [{ tenant: "acme", reach: "within" }, "reach"],
  [{ userId: `a\\${secret}` }, "userId"],
  [{ userId: "..", sessionId: "" }, "sessionId"],
  [Object.create({ userId: "ada" }), "userId"],
  [
    new class {
      readonly userId = "ada"
      get tenant() {
        return "acme"
      }
    }(),
    "tenant"
  ],
  [undefined, "ids"],
  [null, "ids"],
  ["ada", "ids"],
  [["ada"], "ids"]
]

describe("Viewer", () => {
  it.effect("`make` and `decode` refuse invalid input with an error that names the key, but no value", () =>
    Effect.forEach(opensNothing, ([input, field]) =>
      Effect.gen(function*() {
        const decoded = yield* Effect.flip(Viewer.decode(input))
        const made = Either.try({
          try: () => Viewer.make(input as Viewer.Input), // an untyped caller may pass any value
          catch: (error) => error
        })
        assert.isTrue(Either.isLeft(made))
        for (const error of [decoded, ...Either.isLeft(made) ? [made.left] : []]) {
          assert.instanceOf(error, MemoryError.MemoryError)
          assert.strictEqual(error.reason, "invalid_scope")
          assert.include(error.message, field)
          assert.notInclude(error.message, secret)
        }
      }), { discard: true }))

  it.effect("`make` and `decode` return equal viewers for the same input; `decode` defaults to tenant `default` and reach `exact`", () =>
    Effect.gen(function*() {
      const input = { tenant: "acme", userId: "ada", sessionId: "s1", reach: "within" } as const
      assert.isTrue(Viewer.equals(yield* Viewer.decode(input), Viewer.make(input)))
      assert.deepInclude(yield* Viewer.decode({}), { tenant: "default", reach: "exact" })
    }))

  it("Viewer.everyone sees users' scopes and Global, but not `Internal`; Viewer.everyone and Viewer.system throw for an invalid tenant", () => {
    assert.isTrue(Viewer.sees(Viewer.everyone(), { userId: "ada" }))
    assert.isTrue(Viewer.sees(Viewer.everyone("acme"), MemoryScope.Global))
    assert.isFalse(Viewer.sees(Viewer.everyone(), MemoryScope.Internal))
    assert.isFalse(Viewer.sees(Viewer.make({}), { userId: "ada" }))
    for (const tenant of [undefined, "", "..", "a\\b"]) assert.throws(() => Viewer.everyone(tenant), /tenant/)
    for (const tenant of ["", "..", "a\\b"]) assert.throws(() => Viewer.system(tenant), /tenant/)
    assert.throws(() => new Viewer.Viewer({ reach: "within" }))
    assert.throws(() => new Viewer.Viewer({ reach: "everyone", userId: "ada" }))
  })

  it("Viewer.Stored decodes a viewer of reach `within` without ids as Viewer.everyone of the viewer's tenant", () => {
    const decode = Schema.decodeUnknownSync(Viewer.Stored)
    const encode = Schema.encodeSync(Viewer.Stored)
    assert.isTrue(Viewer.equals(decode({ tenant: "acme", reach: "within" }), Viewer.everyone("acme")))
    assert.throws(() => decode({ tenant: "acme", userID: "ada", reach: "within" }))
    for (const viewer of [Viewer.everyone("acme"), Viewer.make({ userId: "ada", reach: "within" }), Viewer.make({})]) {
      assert.isTrue(Viewer.equals(decode(JSON.parse(JSON.stringify(encode(viewer)))), viewer))
    }
  })

  it("Viewer.isAny returns false for a plain object, even with the fields of a viewer", () => {
    const viewer = Viewer.make({ userId: "ada" })
    assert.isTrue(Viewer.isAny(viewer))
    assert.isTrue(Viewer.isAny(Viewer.system()))
    for (const other of [{ ...viewer }, undefined, null, "ada", { tenant: "default", reach: "everyone" }]) {
      assert.isFalse(Viewer.isAny(other))
    }
  })

  it("Viewer.isAny returns false for an instance of Viewer whose fields are invalid", () => {
    const viewer = Viewer.make({ userId: "ada" })
    const copied = (fields: object): unknown => Object.assign(Object.create(Viewer.Viewer.prototype), viewer, fields)
    assert.isTrue(Viewer.isAny(copied({})))
    for (
      const fields of [
        { userId: undefined, reach: "within" },
        { reach: "everyone" },
        { reach: "all" },
        { userId: "" },
        { userId: ["ada"] },
        { tenant: undefined }
      ]
    ) assert.isFalse(Viewer.isAny(copied(fields)))
    assert.isFalse(Viewer.isAny(Object.create(Viewer.Viewer.prototype)))
    assert.isFalse(Viewer.isAny(Object.create(Viewer.System.prototype)))
  })

  it.effect("`decode` refuses an input with a symbol as a key", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(
        Effect.suspend(() => Viewer.decode({ userId: "ada", [Symbol("reach")]: "within" }))
      )
      assert.strictEqual(error.reason, "invalid_scope")
    }))

  it("`subjectOf` returns the scope of the user id alone if the viewer has a user id and sees that scope", () => {
    const subjects: ReadonlyArray<readonly [Viewer.Input, MemoryScope.MemoryScope]> = [
      [{ userId: "ada", agentId: "pilot", sessionId: "s" }, { userId: "ada" }],
      [{ agentId: "pilot" }, { agentId: "pilot" }],
      [{ agentId: "pilot", runId: "r" }, { agentId: "pilot" }],
      [{ agentId: "pilot", sessionId: "s" }, { agentId: "pilot", sessionId: "s" }],
      [{ agentId: "pilot", runId: "r", sessionId: "s" }, { agentId: "pilot", runId: "r", sessionId: "s" }],
      [{ agentId: "pilot", actorId: "eve" }, { agentId: "pilot", actorId: "eve" }],
      [{ sessionId: "s" }, { sessionId: "s" }],
      [{ userId: "ada", sessionId: "s", reach: "within" }, { userId: "ada", sessionId: "s" }],
      [{}, MemoryScope.Global]
    ]
    for (const [input, scope] of subjects) assert.deepStrictEqual(Viewer.subjectOf(Viewer.make(input)), scope)
  })
})
