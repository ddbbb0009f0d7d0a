import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { sha256 } from "../../src/domain/Digest.ts"
import { type Json, JsonObject } from "../../src/domain/Payload.ts"
import * as MemorySpec from "../../src/harness/MemorySpec.ts"

const defaults = {
  enabled: true,
  includeIndex: true,
  maxIndexEntries: 30,
  allowForget: false,
  writesPerTurn: 1,
  globalWrites: "allow"
} as const

/** Returns the same JSON with the keys of every object in reverse order. */
const reversed = (json: Json): Json =>
  Array.isArray(json)
    ? json.map(reversed)
    : typeof json === "object" && json !== null
    ? Object.fromEntries(Object.entries(json).reverse().map(([key, value]) => [key, reversed(value)]))
    : json

describe("MemorySpec", () => {
  it("has the documented defaults", () => {
    assert.deepStrictEqual<object>({ ...MemorySpec.make() }, defaults)
    assert.deepStrictEqual({ ...new MemorySpec.InstructionFilesConfig({}) }, {
      filenames: ["AGENTS.md", "CLAUDE.md"],
      maxBytesPerFile: 65_536,
      seedMemory: true
    })
  })

  it("`make` throws if `writesPerTurn` is negative or `maxIndexEntries` is fractional", () => {
    assert.throws(() => MemorySpec.make({ writesPerTurn: -1 }))
    assert.throws(() => MemorySpec.make({ maxIndexEntries: 1.5 }))
  })

  it("`hashSpec` returns the SHA-256 of the spec's canonical JSON as a hexadecimal text", () => {
    assert.strictEqual(
      MemorySpec.hashSpec({ b: [1, { d: 2, c: null }], a: "x" }),
      sha256("{\"a\":\"x\",\"b\":[1,{\"c\":null,\"d\":2}]}")
    )
  })

  it("`hashSpec` of a MemorySpec returns the same hash whether an option of `make` is omitted or set to its default", () => {
    const hash = (input: MemorySpec.Input) => MemorySpec.hashSpec({ memory: MemorySpec.make(input) })
    const bare = hash({})
    for (const [key, value] of Object.entries(defaults)) assert.strictEqual(hash({ [key]: value }), bare)
    assert.strictEqual(MemorySpec.hashSpec({ memory: { ...defaults }, gone: undefined }), bare)
  })

  it("`hashSpec` of a MemorySpec ignores the order and repetitions of `sharedWrites`, and an empty `sharedWrites`", () => {
    const hash = (memory: unknown) => MemorySpec.hashSpec({ memory })
    const old = hash(defaults)
    assert.strictEqual(hash(MemorySpec.make({ sharedWrites: [] })), old)
    assert.strictEqual(hash({ ...MemorySpec.make() }), old)
    assert.strictEqual(hash(Schema.encodeSync(MemorySpec.MemorySpec)(MemorySpec.make())), old)
    assert.strictEqual(
      hash(MemorySpec.make({ sharedWrites: ["agent", "global"] })),
      hash(MemorySpec.make({ sharedWrites: ["global", "agent", "global"] }))
    )
  })

  it("a MemorySpec or InstructionFilesConfig made again from its JSON has the same options and hash, with `sharedWrites` sorted", () => {
    const { InstructionFilesConfig, hashSpec } = MemorySpec
    const limits = [undefined, 65_536, 16_384, 33_000].map((maxBytesPerFile) =>
      new InstructionFilesConfig(maxBytesPerFile === undefined ? {} : { maxBytesPerFile })
    )
    for (const config of limits) {
      const json = JSON.parse(JSON.stringify({ config })).config
      assert.deepStrictEqual(new InstructionFilesConfig(json), config)
      assert.deepStrictEqual(Schema.decodeUnknownSync(InstructionFilesConfig)(json), config)
      assert.deepStrictEqual(Schema.encodeSync(InstructionFilesConfig)(config), json)
      assert.strictEqual(hashSpec({ a: [json] }), hashSpec({ a: [config] }))
    }
    const spec = MemorySpec.make({ sharedWrites: ["global", "agent"], writesPerTurn: 0 })
    const again = MemorySpec.make(JSON.parse(JSON.stringify(spec)))
    assert.deepStrictEqual([again.writesPerTurn, again.sharedWrites], [0, ["agent", "global"]])
    assert.strictEqual(hashSpec(again), hashSpec(spec))
  })

  it("each option of a spec affects the hash that `hashSpec` returns", () => {
    const specs = [
      {},
      { enabled: false },
      { includeIndex: false },
      { maxIndexEntries: 31 },
      { allowForget: true },
      { writesPerTurn: 0 },
      { globalWrites: "deny" as const },
      { sharedWrites: ["agent" as const] },
      { sharedWrites: ["agent" as const, "global" as const] }
    ].map((memory) => ({ memory: MemorySpec.make(memory) }))
    const configs = [
      { filenames: ["AGENTS.md"] },
      { filenames: ["CLAUDE.md", "AGENTS.md"] },
      { root: "/srv" },
      { maxBytesPerFile: 1 },
      { seedMemory: false },
      { projectKey: "acme" }
    ].map((config) => ({ instructionFiles: new MemorySpec.InstructionFilesConfig(config) }))
    const hashes = [...specs, ...configs].map(MemorySpec.hashSpec)
    assert.strictEqual(new Set(hashes).size, hashes.length)
  })

  it("`hashSpec` ignores the order of keys at any depth, but not the order of a list", () => {
    FastCheck.assert(
      FastCheck.property(
        Arbitrary.make(JsonObject),
        (json) => MemorySpec.hashSpec(json) === MemorySpec.hashSpec(reversed(json))
      ),
      { seed: 1, numRuns: 300 }
    )
    assert.notStrictEqual(MemorySpec.hashSpec([1, 2]), MemorySpec.hashSpec([2, 1]))
  })

  it("`hashSpec` returns different hashes for specs with different dates", () => {
    assert.notStrictEqual(MemorySpec.hashSpec({ at: new Date(0) }), MemorySpec.hashSpec({ at: new Date(1) }))
  })
})
