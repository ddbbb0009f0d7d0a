import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import * as Completion from "../../src/host/Completion.ts"

const prompt = (user: string): Completion.Prompt => ({ system: "You are terse.", user })
const Facts = Schema.Struct({ facts: Schema.Array(Schema.String) })

const complete = (user: string) => Effect.flatMap(Completion.Completion, (_) => _.complete(prompt(user)))
const facts = Effect.flatMap(Completion.Completion, (_) => _.object(Facts, prompt("?")))
const reason = <A, R>(self: Effect.Effect<A, MemoryError.MemoryError, R>) =>
  Effect.map(Effect.flip(self), ({ reason }) => reason)

describe("Completion.object", () => {
  const gives = (title: string, answer: string, expected: ReadonlyArray<string>) =>
    it.effect(title, () =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* facts, { facts: expected })
      }).pipe(Effect.provide(Completion.layerScripted([answer]))))

  gives("decodes the answer", "{\"facts\":[\"tea\"]}", ["tea"])
  gives("ignores prose and fences", "Sure [1]:\n```json\n{\"facts\":[\"tea\"]}\n```", ["tea"])
  gives("takes the first value that decodes", "{\"facts\":[1]} no: {\"facts\":[\"tea\"]} {\"facts\":[]}", ["tea"])
  gives("decodes the complete part of a truncated answer", "{\"facts\":[\"tea\",\"cof", ["tea"])

  it.effect("an answer without JSON of the expected schema causes a retryable error with the reason `model`", () =>
    Effect.gen(function*() {
      const prose = yield* Effect.flip(facts)
      assert.deepInclude({ ...prose }, { reason: "model" })
      assert.include(prose.message, "no JSON")
      assert.isTrue(prose.isRetryable)
      assert.include((yield* Effect.flip(facts)).message, "facts")
    }).pipe(Effect.provide(Completion.layerScripted(["I don't know.", { facts: [null] }]))))

  it.effect("an answer of more than 262,144 characters is refused, even if it is JSON of the expected schema", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(facts)
      assert.deepInclude({ ...error }, { reason: "model" })
      assert.include(error.message, "262144")
    }).pipe(Effect.provide(Completion.layerScripted([`{"facts":["${"x".repeat(262_144)}"]}`]))))

  it.effect("the error of Completion.object gives the length of the model's answer, and never quotes the answer", () =>
    Effect.gen(function*() {
      for (const length of [7, 45]) {
        const error = yield* Effect.flip(facts)
        assert.notInclude(JSON.stringify({ ...error, message: error.message, cause: error.cause }), "hunter2")
        assert.include(error.message, `${length} characters`)
      }
    }).pipe(Effect.provide(Completion.layerScripted(["hunter2", { facts: [{ hunter2: "hunter2" }], hunter2: 1 }]))))

  it.effect("a failed model call makes Completion.object fail with the same reason", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* reason(facts), "unavailable")
    }).pipe(
      Effect.provide(Completion.layerScripted([MemoryError.make("unavailable", { op: "test", message: "down" })]))
    ))
})

describe("Completion.layerScripted", () => {
  it.effect("Completion.layerScripted returns the answers in order; a call after the last answer fails", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* complete("a"), "one")
      assert.strictEqual(yield* complete("b"), "{\"two\":2}")
      assert.strictEqual(yield* reason(complete("c")), "model")
      assert.strictEqual(yield* reason(complete("d")), "model")
    }).pipe(Effect.provide(Completion.layerScripted(["one", { two: 2 }]))))

  it.effect("a function given to Completion.layerScripted receives the prompt of each call", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* complete("a"), "{\"said\":\"a\"}")
    }).pipe(Effect.provide(Completion.layerScripted(({ user }) => ({ said: user })))))

  it.effect("each build of Completion.layerScripted with an array of answers starts with the first answer", () => {
    const once = complete("a").pipe(Effect.provide(Completion.layerScripted(["one"])))
    return Effect.gen(function*() {
      assert.deepStrictEqual([yield* once, yield* once], ["one", "one"])
    })
  })
})

it.effect("a call with Completion.layerNone fails with `unsupported`, and the error says what to provide", () =>
  Effect.gen(function*() {
    const error = yield* Effect.flip(facts)
    assert.strictEqual(error.reason, "unsupported")
    assert.include(error.message, "provide a Completion")
  }).pipe(Effect.provide(Completion.layerNone)))

describe("a cassette (a file of a model's recorded answers)", () => {
  const law = (
    title: string,
    check: (
      cassette: string,
      fs: FileSystem.FileSystem
    ) => Effect.Effect<void, unknown, FileSystem.FileSystem | NodeContext.NodeContext>
  ) =>
    it.scoped(title, () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        yield* check(`${yield* fs.makeTempDirectoryScoped()}/tapes/tea.jsonl`, fs)
      }).pipe(Effect.provide(NodeContext.layer)))

  const recording = (file: string, answers: ReadonlyArray<unknown>) =>
    Completion.layerRecord(file).pipe(Layer.provide(Completion.layerScripted(answers)))

  law(
    "Completion.layerReplay answers a repeated prompt with its recorded answers, in the order of recording",
    (file) =>
      Effect.gen(function*() {
        const said = yield* Effect.forEach(["a", "b", "a"], complete).pipe(
          Effect.provide(recording(file, ["one", "two\n\u2028 ”", "three"]))
        )
        const play = Effect.all([complete("b"), complete("a"), complete("a")]).pipe(
          Effect.provide(Completion.layerReplay(file))
        )
        assert.deepStrictEqual(yield* play, [said[1], said[0], said[2]])
        assert.deepStrictEqual(yield* play, [said[1], said[0], said[2]])
        const model = yield* Effect.provide(Completion.Completion, Completion.layerReplay(file))
        assert.strictEqual(model.model, "scripted")
      })
  )

  law(
    "Completion.layerReplay fails for a prompt that has no recorded answer left, and the error says what to do",
    (file) =>
      Effect.gen(function*() {
        yield* complete("a").pipe(Effect.provide(recording(file, ["one"])))
        yield* Effect.gen(function*() {
          const unknown = yield* Effect.flip(complete("b"))
          assert.strictEqual(unknown.reason, "model")
          assert.strictEqual(Reflect.get(Object(unknown.cause), "user"), "b")
          assert.notInclude(unknown.message, "\"b\"")
          assert.include(unknown.message, "layerRecord")
          yield* complete("a")
          assert.include((yield* Effect.flip(complete("a"))).message, "only 1")
          const { complete: other } = yield* Completion.Completion
          assert.strictEqual(yield* reason(other({ system: "", user: "a" })), "model")
        }).pipe(Effect.provide(Completion.layerReplay(file)))
      })
  )

  law(
    "Completion.layerRecord appends answers to an existing cassette file, even after an incomplete line",
    (file, fs) =>
      Effect.gen(function*() {
        yield* complete("a").pipe(Effect.provide(recording(file, ["one"])))
        yield* fs.writeFileString(file, "{\"model\":\"scr", { flag: "a" })
        assert.strictEqual(yield* complete("a").pipe(Effect.provide(Completion.layerReplay(file))), "one")
        yield* complete("a").pipe(Effect.provide(recording(file, ["two"])))
        const played = yield* Effect.all([complete("a"), complete("a")]).pipe(
          Effect.provide(Completion.layerReplay(file))
        )
        assert.deepStrictEqual(played, ["one", "two"])
      })
  )

  law("fifty concurrent calls append one line each to the cassette file", (file, fs) =>
    Effect.gen(function*() {
      const users = Array.from({ length: 50 }, (_, n) => `${n} ${"x".repeat(10_000)}`)
      yield* Effect.forEach(users, complete, { concurrency: "unbounded" }).pipe(
        Effect.provide(recording(file, users))
      )
      assert.lengthOf((yield* fs.readFileString(file)).split("\n"), 51)
      const played = yield* Effect.forEach(users, complete).pipe(Effect.provide(Completion.layerReplay(file)))
      assert.deepStrictEqual(played, users)
    }))

  law("a failed call of the model is not recorded", (file, fs) =>
    Effect.gen(function*() {
      const down = MemoryError.make("model", { op: "test", message: "down" })
      yield* complete("a").pipe(Effect.retry({ times: 1 }), Effect.provide(recording(file, [down, "one"])))
      assert.lengthOf((yield* fs.readFileString(file)).split("\n"), 2)
    }))

  law("an interrupted call records its answer completely or not at all", (file, fs) =>
    Effect.gen(function*() {
      const call = yield* Effect.fork(complete("a").pipe(Effect.provide(recording(file, ["one"]))))
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(call)
      const text = yield* Effect.orElseSucceed(fs.readFileString(file), () => "")
      assert.isTrue(text === "" || text.endsWith("\n"), text)
      const played = yield* Effect.either(complete("a").pipe(Effect.provide(Completion.layerReplay(file))))
      if (played._tag === "Left") assert.include(["not_found", "model"], played.left.reason)
      else assert.strictEqual(played.right, "one")
    }))

  law(
    "a missing cassette causes the error `not_found`, and a damaged cassette `corrupt`",
    (file, fs) =>
      Effect.gen(function*() {
        const play = reason(complete("a").pipe(Effect.provide(Completion.layerReplay(file))))
        assert.strictEqual(yield* play, "not_found")
        yield* complete("a").pipe(Effect.provide(recording(file, ["one"])))
        yield* fs.writeFileString(file, "{}\n", { flag: "a" })
        const broken = yield* Effect.flip(complete("a").pipe(Effect.provide(Completion.layerReplay(file))))
        assert.strictEqual(broken.reason, "corrupt")
        assert.deepStrictEqual(broken.detail, { location: "line 2" })
        const inFile = recording(`${file}/b.jsonl`, ["one"])
        assert.strictEqual(yield* reason(complete("a").pipe(Effect.provide(inFile))), "io")
      })
  )
})
