import { NodeContext } from "@effect/platform-node"
import * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import { assert, describe, it } from "@effect/vitest"
import { assertNone, assertSome } from "@effect/vitest/utils"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import { runInNewContext } from "node:vm"
import { ScopeId } from "../../src/domain/MemoryScope.ts"
import * as MemorySpec from "../../src/harness/MemorySpec.ts"
import * as Resume from "../../src/harness/Resume.ts"

const spec = { memory: MemorySpec.make({ writesPerTurn: 1 }), model: { name: "m", stop: ["a", "b"] } }
const at = { turn: 3, cursor: 12 }

const fields = (error: unknown) => error instanceof Resume.ResumeError ? error.changed.map(({ field }) => field) : error

const laws = (name: string, layer: Layer.Layer<Resume.Resume, unknown>) =>
  describe(`Resume (${name})`, () => {
    const law = (title: string, check: (resume: Resume.Service) => Effect.Effect<void, unknown>) =>
      it.effect(title, () => Effect.flatMap(Resume.Resume, check).pipe(Effect.provide(layer)))

    law("`resume` returns None for a run that was never saved", (resume) =>
      Effect.gen(function*() {
        assertNone(yield* resume.resume("run-7", spec))
      }))

    law(
      "`resume` returns the last saved checkpoint if the spec is unchanged",
      (resume) =>
        Effect.gen(function*() {
          yield* resume.save("run-7", spec, { turn: 0, cursor: 0 })
          const saved = yield* resume.save("run-7", spec, at)
          assert.deepInclude(saved, { runId: "run-7", hash: MemorySpec.hashSpec(spec), ...at })
          const same = { model: { stop: ["a", "b"], name: "m", seed: undefined }, memory: { ...MemorySpec.make() } }
          assertSome(yield* resume.resume("run-7", same), saved)
        })
    )

    law(
      "`resume` fails if the spec has changed, and the error lists every changed, added and removed field",
      (resume) =>
        Effect.gen(function*() {
          const checkpoint = yield* resume.save("run-7", spec, at)
          const error = yield* Effect.flip(
            resume.resume("run-7", {
              memory: MemorySpec.make({ writesPerTurn: 3 }),
              model: { stop: ["b", "a"], seed: null },
              "a.b": 1
            })
          )
          assert.instanceOf(error, Resume.ResumeError)
          assert.deepStrictEqual(error.changed, [
            { field: "a\\.b", before: undefined, after: 1 },
            { field: "memory.writesPerTurn", before: 1, after: 3 },
            { field: "model.name", before: "m", after: undefined },
            { field: "model.seed", before: undefined, after: null },
            { field: "model.stop", before: ["a", "b"], after: ["b", "a"] }
          ])
          assert.include(error.message, "memory.writesPerTurn 1 → 3")
          assert.deepStrictEqual(error.checkpoint, checkpoint)
        })
    )

    law(
      "a spec with the old default of `maxBytesPerFile` counts as equal to a spec with the new default",
      (resume) =>
        Effect.gen(function*() {
          const { InstructionFilesConfig } = MemorySpec
          const now = { instructionFiles: new InstructionFilesConfig({}) }
          const before = { instructionFiles: { ...now.instructionFiles, maxBytesPerFile: 16_384 } }
          for (const [saved, resumed] of [[before, now], [now, before], [now, now]] as const) {
            const checkpoint = yield* resume.save("run-7", saved, at)
            assertSome(yield* resume.resume("run-7", resumed), checkpoint)
          }
          const { spec } = Option.getOrThrow(yield* resume.resume("run-7", now))
          assert.deepStrictEqual(
            Schema.decodeUnknownSync(InstructionFilesConfig)(spec["instructionFiles"]),
            now.instructionFiles
          )
          const error = yield* Effect.flip(
            resume.resume("run-7", { instructionFiles: new InstructionFilesConfig({ maxBytesPerFile: 33_000 }) })
          )
          assert.instanceOf(error, Resume.ResumeError)
          assert.deepStrictEqual(error.changed, [
            { field: "instructionFiles.maxBytesPerFile", before: 65_536, after: 33_000 }
          ])
        })
    )

    law("Resume.accept lets a run resume if only listed fields or their subfields have changed", (resume) =>
      Effect.gen(function*() {
        const checkpoint = yield* resume.save("run-7", spec, at)
        const drifted = resume.resume("run-7", {
          ...spec,
          memory: MemorySpec.make({ writesPerTurn: 3, allowForget: true })
        })
        for (const listed of [["memory.writesPerTurn", "memory.allowForget"], ["memory"]]) {
          assertSome(yield* drifted.pipe(Resume.accept(listed)), checkpoint)
        }
        for (const listed of [[], ["memory.writesPerTurn"], ["mem"], ["memory.writes", "model"]]) {
          assert.deepStrictEqual(fields(yield* Effect.flip(drifted.pipe(Resume.accept(listed)))), [
            "memory.allowForget",
            "memory.writesPerTurn"
          ])
        }
      }))

    law("Resume.accept of `memory.enabled` does not accept that the whole object `memory` is added", (resume) =>
      Effect.gen(function*() {
        yield* resume.save("run-7", {}, at)
        const added = resume.resume("run-7", { memory: MemorySpec.make() })
        assert.deepStrictEqual(fields(yield* Effect.flip(added.pipe(Resume.accept(["memory.enabled"])))), ["memory"])
      }))

    law(
      "a run that was resumed with Resume.accept and saved again is compared with the new spec",
      (resume) =>
        Effect.gen(function*() {
          yield* resume.save("run-7", spec, at)
          const next = { ...spec, model: 1 }
          yield* resume.resume("run-7", next).pipe(Resume.accept(["model"]))
          yield* resume.save("run-7", next, at)
          assert.isTrue(Option.isSome(yield* resume.resume("run-7", next)))
          assert.deepStrictEqual(fields(yield* Effect.flip(resume.resume("run-7", spec))), ["model"])
        })
    )

    law("similar run ids, and run ids that are reserved file names, have separate checkpoints", (resume) =>
      Effect.gen(function*() {
        const tricky = [
          "Bob",
          "bob",
          "BOB",
          "con",
          "CON",
          "nul.json",
          "a@b.c",
          "ｒｕｎ",
          "run",
          "~",
          "~bob",
          "-",
          "run-~",
          " ",
          "é"
        ]
        const arbitrary = FastCheck.sample(Arbitrary.make(ScopeId), { numRuns: 100, seed: 1 })
        const ids = Array.from(
          new Set([...tricky, ...arbitrary, "x".repeat(256), "X".repeat(256)].map((id) =>
            id.normalize("NFC")
          ))
        )
        yield* Effect.forEach(ids, (id, turn) =>
          resume.save(id, { id }, { turn, cursor: 0 }))
        yield* Effect.forEach(ids, (id, turn) =>
          Effect.gen(function*() {
            const checkpoint = yield* Effect.flatten(resume.resume(id, { id }))
            assert.strictEqual(checkpoint.turn, turn)
          }))
      }))

    law("Resume treats the NFC and NFD forms of a run id as the same id", (resume) =>
      Effect.gen(function*() {
        yield* resume.save("é", spec, at)
        assert.isTrue(Option.isSome(yield* resume.resume("é".normalize("NFD"), spec)))
      }))

    law("`save` refuses an invalid run id, a spec that is not a valid JSON object, and a negative turn", (resume) =>
      Effect.gen(function*() {
        const loop: { self?: unknown } = {}
        loop.self = loop
        const reason = (self: Effect.Effect<unknown, Resume.ResumeError | { readonly reason: string }>) =>
          Effect.map(Effect.flip(self), (error) =>
            "reason" in error ? error.reason : error._tag)
        for (const id of ["", "..", ".", "a\\b", "..\\x", "\0", "x".repeat(257), "\ud800"]) {
          assert.strictEqual(yield* reason(resume.save(id, spec, at)), "invalid_id")
          assert.strictEqual(yield* reason(resume.resume(id, spec)), "invalid_id")
        }
        const lost = [new Set(["sh"]), new Map([["a", 1]]), /a/, new Error("a"), NaN, Infinity].map((value) => ({
          value
        }))
        for (const bad of [loop, { big: 1n }, [], JSON.parse("{\"__proto__\":1}"), ...lost]) {
          assert.strictEqual(yield* reason(resume.save("run-7", bad, at)), "invalid_draft")
        }
        assert.strictEqual(yield* reason(resume.save("run-7", spec, { turn: -1, cursor: 0 })), "invalid_draft")
        // cast: a value that JSON from outside may have
        const secret = { turn: "hunter2", cursor: 0 } as unknown as typeof at
        const error = yield* Effect.flip(resume.save("run-7", spec, secret))
        assert.include(error.message, "turn")
        assert.notInclude(JSON.stringify(error) + error.message, "hunter2")
      }))

    law(
      "`save` and `resume` refuse a spec with a value of which JSON loses a part, such as an instance of a class",
      (resume) =>
        Effect.gen(function*() {
          class Secret {
            readonly #value: number
            constructor(value: number) {
              this.#value = value
            }
            read() {
              return this.#value
            }
          }
          const pairs: ReadonlyArray<readonly [unknown, unknown]> = [
            [new URLSearchParams("a=1"), new URLSearchParams("a=2")],
            [new Headers({ a: "1" }), new Headers({ a: "2" })],
            [new ArrayBuffer(2), new ArrayBuffer(3)],
            [Symbol("a"), Symbol("b")],
            [[Symbol("a")], [null]],
            [new Date(NaN), null],
            [new Secret(1), new Secret(2)],
            [{ deep: [new Secret(1)] }, { deep: [{}] }],
            [Object.create({ a: 1 }), {}],
            [new Number(NaN), null],
            [{
              toJSON: () =>
                new Set([1])
            }, {}]
          ]
          for (const [value, other] of pairs) {
            const error = yield* Effect.flip(resume.save("lost", { value }, at))
            assert.strictEqual(error.reason, "invalid_draft")
            yield* resume.save("lost", { value: 1 }, at)
            for (const spec of [{ value }, { value: [value, other] }]) {
              assert.deepInclude(yield* Effect.flip(resume.resume("lost", spec)), { reason: "invalid_draft" })
            }
          }
        })
    )

    law(
      "a spec may have dates, objects without a prototype, objects of another realm, and instances of a `Schema.Class`",
      (resume) =>
        Effect.gen(function*() {
          class Config extends Schema.Class<Config>("Config")({ name: Schema.String }) {}
          const values = [
            new Date(0),
            Object.assign(Object.create(null), { a: 1 }),
            runInNewContext("({ a: [1] })"),
            new Config({ name: "a" }),
            MemorySpec.make()
          ]
          for (const value of values) {
            const saved = yield* resume.save("kept", { value }, at)
            assertSome(yield* resume.resume("kept", { value: JSON.parse(JSON.stringify(value)) }), saved)
          }
        })
    )

    law("a ResumeError can be encoded as JSON and decoded from it", (resume) =>
      Effect.gen(function*() {
        yield* resume.save("run-7", spec, at)
        const error = yield* Effect.flip(resume.resume("run-7", {}))
        assert.instanceOf(error, Resume.ResumeError)
        const Json = Schema.parseJson(Resume.ResumeError)
        const back = yield* Schema.decode(Json)(yield* Schema.encode(Json)(error))
        assert.strictEqual(back.message, error.message)
      }))
  })

const onDisk = Effect.map(
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()),
  (directory) => Resume.layer({ directory: `${directory}/runs` })
).pipe(Layer.unwrapScoped, Layer.provide(NodeContext.layer))

laws("in memory", Resume.layerInMemory)
laws("on disk", onDisk)

/** Makes a layer of a file system on which call `n` (the first call is 0) and all later calls fail; with `onlyThat`, call `n` alone. */
const failing = (fs: FileSystem.FileSystem, n: number, onlyThat: boolean) => {
  const calls: Array<string> = []
  const guard = <A, R>(name: string, self: Effect.Effect<A, PlatformError.PlatformError, R>) =>
    Effect.suspend(() => {
      const call = calls.push(name) - 1
      return call === n || (!onlyThat && call > n)
        ? new PlatformError.SystemError({
          module: "FileSystem",
          method: "any",
          reason: "Unknown",
          description: "ENOSPC"
        })
        : self
    })
  const open: FileSystem.FileSystem["open"] = (path, options) =>
    guard(
      "open",
      Effect.map(fs.open(path, options), (file) => ({
        ...file,
        sync: guard("sync", file.sync),
        writeAll: (bytes) =>
          Effect.zipRight(file.writeAll(bytes.slice(0, 10)), guard("writeAll", file.writeAll(bytes.slice(10))))
      }))
    )
  return {
    calls,
    layer: Layer.succeed(FileSystem.FileSystem, {
      ...fs,
      open,
      rename: (from, to) => guard("rename", fs.rename(from, to)),
      remove: (path, options) => guard("remove", fs.remove(path, options)),
      readFileString: (path, encoding) => guard("readFileString", fs.readFileString(path, encoding)),
      makeDirectory: (path, options) => guard("makeDirectory", fs.makeDirectory(path, options))
    })
  }
}

describe("Resume on a disk that fails", () => {
  const onDisk = <A, E>(
    body: (directory: string, fs: FileSystem.FileSystem) => Effect.Effect<A, E, FileSystem.FileSystem | Path.Path>
  ) =>
    Effect.flatMap(FileSystem.FileSystem, (fs) => Effect.flatMap(fs.makeTempDirectoryScoped(), (dir) => body(dir, fs)))
      .pipe(
        Effect.scoped,
        Effect.provide(NodeContext.layer)
      )
  const saved = (directory: string, turn: number) =>
    Effect.flatMap(Resume.Resume, (resume) => resume.save("run-7", spec, { turn, cursor: 0 })).pipe(
      Effect.provide(Resume.layer({ directory }))
    )
  const turnOf = (directory: string) =>
    Effect.flatMap(Resume.Resume, (resume) => Effect.flatten(resume.resume("run-7", spec))).pipe(
      Effect.map(({ turn }) => turn),
      Effect.provide(Resume.layer({ directory }))
    )

  for (const onlyThat of [true, false]) {
    it.effect(`${onlyThat ? "an error" : "a crash"} at any disk call leaves the old or the new checkpoint intact`, () =>
      onDisk((directory, fs) =>
        Effect.gen(function*() {
          yield* saved(directory, 0)
          let calls = 0
          for (let n = 0; n <= calls; n++) {
            const disk = failing(fs, n, onlyThat)
            const before = yield* turnOf(directory)
            const exit = yield* Effect.either(Effect.provide(saved(directory, before + 1), disk.layer))
            const turn = yield* turnOf(directory)
            if (exit._tag === "Left") {
              assert.strictEqual(exit.left.reason, "io")
              assert.isFalse(exit.left.message.includes(directory))
              assert.include([before, before + 1], turn)
              calls = Math.max(calls, disk.calls.length)
            } else {
              assert.strictEqual(turn, before + 1)
            }
          }
          assert.isAbove(calls, 5)
        })
      ))
  }

  it.effect("`save` syncs the temporary file to disk, renames the file, and then syncs the folder", () =>
    onDisk((directory, fs) =>
      Effect.gen(function*() {
        const disk = failing(fs, Infinity, true)
        yield* Effect.provide(saved(directory, 0), disk.layer)
        assert.deepStrictEqual(disk.calls, [
          "makeDirectory",
          "readFileString",
          "open",
          "writeAll",
          "sync",
          "rename",
          "open",
          "sync"
        ])
      })
    ))

  it.effect("a failed save leaves no temporary file", () =>
    onDisk((directory, fs) =>
      Effect.gen(function*() {
        for (let n = 0; n < 10; n++) {
          yield* Effect.either(Effect.provide(saved(directory, 0), failing(fs, n, true).layer))
          const left = yield* fs.readDirectory(directory)
          assert.deepStrictEqual(left.filter((name) => name !== "run-run-7.json"), [], `call ${n}`)
        }
        assert.deepStrictEqual(yield* fs.readDirectory(directory), ["run-run-7.json"])
      })
    ))

  it.effect("temporary files that killed processes left do not prevent saving", () =>
    onDisk((directory, fs) =>
      Effect.gen(function*() {
        const seeded = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.withRandom(self, Random.make("same"))
        for (const left of [1, 2, 3]) {
          yield* saved(directory, 0).pipe(seeded, Effect.provide(failing(fs, left + 2, false).layer), Effect.either)
          assert.lengthOf(yield* fs.readDirectory(directory), left)
        }
        yield* seeded(saved(directory, 1))
        assert.strictEqual(yield* turnOf(directory), 1)
      })
    ))

  it.effect("a checkpoint file that is truncated, of another run, or has an edited spec causes the error `corrupt`", () =>
    onDisk((directory, fs) =>
      Effect.gen(function*() {
        yield* saved(directory, 1)
        const file = `${directory}/run-run-7.json`
        const whole = yield* fs.readFileString(file)
        const texts = [
          "",
          "{",
          "null",
          whole.slice(0, 40),
          whole.replace("\"writesPerTurn\": 1", "\"writesPerTurn\": 9"),
          whole.replace("run-7", "run-8")
        ]
        for (const text of texts) {
          assert.notStrictEqual(text, whole)
          yield* fs.writeFileString(file, text)
          const error = yield* Effect.flip(turnOf(directory))
          assert.deepInclude(error, { reason: "corrupt", detail: { location: "run-run-7.json" } })
          assert.notInclude(`${JSON.stringify(error)}`, directory)
        }
      })
    ))
})
