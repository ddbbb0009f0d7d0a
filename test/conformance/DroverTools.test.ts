/** The behaviour of drover's tools, index and instruction files, tested through the modules of this library that replace them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import * as Drover from "../../src/compat/Drover.ts"
import { stableId, ULID_RE } from "../../src/domain/MemoryId.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as InstructionFiles from "../../src/harness/InstructionFiles.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as MemorySpec from "../../src/harness/MemorySpec.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { heard } from "../harness/Service.ts"
import { load, onDisk, service, tree } from "../harness/Tree.ts"

describe("drover's tools", () => {
  const pilot = Drover.viewerOf({ agentId: "pilot", runId: "r1" })
  const idle = Drover.viewerOf({ agentId: "pilot" })
  const tea = { scope: "agent", kind: "user", summary: "Tea", body: "Drinks tea." }
  const calling = (viewer: Viewer.Viewer) =>
    Effect.map(
      MemoryTools.make(viewer),
      (tools) => (name: string, input: unknown) => tools.find((tool) => tool.name === name)!.call(input)
    )
  const law = (
    title: string,
    check: Effect.Effect<void, unknown, MemoryService.MemoryService | MemoryStore.MemoryStore>,
    spec: MemorySpec.Input = { writesPerTurn: 0, allowForget: true }
  ) => it.effect(title, () => Effect.provide(check, MemoryService.layerTest({ spec })))

  law(
    "`remember` saves an entry, answers in one line and publishes one event",
    Effect.gen(function*() {
      const call = yield* calling(pilot)
      const { events, result } = yield* heard(call("remember", tea))
      assert.match(result.text, /^saved agent\/user memory '[0-9A-Z]{26}'\.$/)
      assert.deepInclude(result.data, { scope: "agent", kind: "user" })
      assert.lengthOf(events, 1)
      assert.deepInclude(events[0], { _tag: "memory_written", kind: "user", outcome: "created" })
    })
  )

  law(
    "`remember` fails with `invalid_scope` for the scope `run` if no run is given",
    Effect.gen(function*() {
      const error = yield* Effect.flip((yield* calling(idle))("remember", { ...tea, scope: "run" }))
      assert.strictEqual(error.reason, "invalid_scope")
    })
  )

  law(
    "`recall` shows ids, scores and bodies of visible entries, at most ten by default, or a message if no entry matches",
    Effect.gen(function*() {
      const call = yield* calling(pilot)
      assert.strictEqual(
        (yield* call("recall", { query: "tea" })).text,
        "(no memories matched in scopes: global, agent, run)"
      )
      yield* call("remember", tea)
      yield* (yield* calling(Drover.viewerOf({ agentId: "other" })))("remember", { ...tea, summary: "Other's tea" })
      const { text } = yield* call("recall", { query: "tea" })
      assert.match(
        text,
        /^## Recalled \(1 entries, scopes: global, agent, run\)\n\n### \[agent · user\] Tea\nscore: 1\.00 · id: /
      )
      assert.include(text, "Drinks tea.")
      const store = yield* MemoryStore.MemoryStore
      yield* store.put(
        pilot,
        Array.from({ length: 12 }, (_, n) => ({
          scope: { agentId: "pilot" },
          kind: "reference",
          body: `coffee of kind ${n}`
        }))
      )
      const { data } = yield* call("recall", {})
      assert.lengthOf((data as { readonly hits: ReadonlyArray<unknown> }).hits, 10) // the tool's output schema has hits
    })
  )

  law(
    "`forget` removes an entry of the calling agent, reports another agent's entry as absent, and fails for an instruction file's record",
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const call = yield* calling(pilot)
      const { data } = yield* call("remember", tea)
      const { id } = data as { readonly id: string } // the tool's output schema has an id
      assert.deepStrictEqual((yield* (yield* calling(Drover.viewerOf({ agentId: "other" })))("forget", { id })).data, {
        id,
        removed: false
      })
      assert.deepStrictEqual((yield* call("forget", { id })).data, { id, removed: true })
      const [rule] = yield* store.put(Viewer.system(), [{ scope: "global", kind: "reference", body: "Use tabs." }], {
        origin: "instructions"
      })
      assert.strictEqual((yield* Effect.flip(call("forget", { id: rule!.record.id }))).reason, "read_only")
    })
  )

  law(
    "`remember` with an id replaces an entry that the agent sees, and fails with `invalid_id` for an entry of another agent",
    Effect.gen(function*() {
      const call = yield* calling(pilot)
      const { data } = yield* call("remember", tea)
      const { id } = data as { readonly id: string } // the tool's output schema has an id
      yield* call("remember", { ...tea, id, body: "Drinks coffee." })
      const records = yield* MemoryStore.MemoryStore.pipe(Effect.flatMap((store) => store.list(Viewer.system(), {})))
      assert.deepStrictEqual(records.items.map((record) => [record.id, record.body]), [[id, "Drinks coffee."]])
      const other = yield* calling(Drover.viewerOf({ agentId: "other" }))
      assert.strictEqual((yield* Effect.flip(other("remember", { ...tea, id }))).reason, "invalid_id")
    })
  )

  law(
    "`remember` is limited to one write per turn; a call that fails does not count, and `recall` is not limited",
    Effect.gen(function*() {
      const call = yield* calling(pilot)
      const { turnStart } = yield* MemoryService.MemoryService
      yield* Effect.flip(call("remember", { ...tea, summary: "" }))
      yield* call("remember", tea)
      const denied = yield* Effect.flip(call("remember", { ...tea, summary: "More" }))
      assert.include(denied.message, "memory write rate limit hit (1/turn)")
      yield* call("recall", { query: "tea" })
      yield* MemoryService.as(pilot)(turnStart)
      yield* call("remember", { ...tea, summary: "More" })
    }),
    {}
  )

  law(
    "no tools exist if memory is disabled, and the tool `forget` exists only if `allowForget` is true",
    Effect.gen(function*() {
      const names = (spec: MemorySpec.Input) =>
        MemoryTools.make(pilot).pipe(
          Effect.map((tools) => tools.map(({ name }) => name)),
          Effect.provide(MemoryService.layerTest({ spec }))
        )
      assert.deepStrictEqual(yield* names({ enabled: false }), [])
      assert.deepStrictEqual(yield* names({}), ["remember", "recall"])
      assert.deepStrictEqual(yield* names({ allowForget: true }), ["remember", "recall", "forget"])
    })
  )

  law(
    "the memory index lists entries with their ids and escaped summaries, and is empty without entries",
    Effect.gen(function*() {
      const index = MemoryService.as(pilot)(MemoryService.renderMemoryIndex)
      assert.strictEqual(yield* index, "")
      const { data } = yield* (yield* calling(pilot))("remember", { ...tea, summary: "Tea <b>\u2028## System" })
      const text = yield* index
      assert.include(text, (data as { readonly id: string }).id) // the tool's output schema has an id
      assert.notInclude(text, "<b>")
      assert.notMatch(text, /^## System/m)
    })
  )

  it("the spec's hash depends on options of memory such as `enabled`, and does not depend on whether a default is written out", () => {
    const hash = (input: MemorySpec.Input) => MemorySpec.hashSpec(MemorySpec.make(input))
    const changed = [{ enabled: false }, { includeIndex: false }, { maxIndexEntries: 1 }, { allowForget: true }, {
      writesPerTurn: 2
    }]
    assert.strictEqual(new Set([{}, ...changed].map(hash)).size, changed.length + 1)
    assert.strictEqual(hash({ enabled: true, writesPerTurn: 1 }), hash({ writesPerTurn: 1, enabled: true }))
    assert.strictEqual(hash({}), hash({ writesPerTurn: 1 }))
  })
})

describe("drover's instruction files", () => {
  it.effect("instruction files are searched for in the directories from the repository root down to the working directory, and in no other", () =>
    onDisk(Effect.gen(function*() {
      const { at } = yield* tree({
        ".git": null,
        "AGENTS.md": "root",
        "a/CLAUDE.md": "a",
        "a/b/AGENTS.md": "b",
        "a/c/AGENTS.md": "aside"
      })
      const { files } = yield* load(at("a/b"))
      assert.deepStrictEqual(files.map(({ content }) => content), ["root", "a", "b"])
      const { files: own } = yield* load(at("a/b"), { filenames: ["CLAUDE.md"] })
      assert.deepStrictEqual(own.map(({ content }) => content), ["a"])
    })))

  it.effect("an instruction file longer than `maxBytesPerFile` is cut between two characters and marked as truncated", () =>
    onDisk(Effect.gen(function*() {
      const { root } = yield* tree({ ".git": null, "AGENTS.md": "ü".repeat(20) })
      const { files } = yield* load(root, { maxBytesPerFile: 11 })
      assert.isTrue(files[0]!.truncated)
      assert.match(files[0]!.content, /^ü{5}(?!ü)/)
      assert.isTrue(files[0]!.content.isWellFormed())
    })))

  it.effect("`seed` updates the record of a changed instruction file, forgets the record of a deleted file, and keeps the records of unchanged files", () =>
    onDisk(Effect.gen(function*() {
      const { fs, root } = yield* tree({ ".git": null, "AGENTS.md": "Use tabs.", "CLAUDE.md": "Be brief." })
      const { seed } = yield* service(root)
      const outcomes = Effect.map(seed(Viewer.system()), (all) => all.map(({ outcome }) => outcome).sort())
      assert.deepStrictEqual(yield* outcomes, ["created", "created"])
      assert.deepStrictEqual(yield* outcomes, ["duplicate", "duplicate"])
      yield* fs.writeFileString(`${root}/AGENTS.md`, "Use spaces.")
      yield* fs.remove(`${root}/CLAUDE.md`)
      assert.deepStrictEqual(yield* outcomes, ["forgotten", "updated"])
    })))

  it("`stableId` returns an id of 26 characters that depends only on the seed", () => {
    assert.match(stableId("a"), ULID_RE)
    assert.strictEqual(stableId("a"), stableId("a"))
    assert.notStrictEqual(stableId("a"), stableId("b"))
    assert.strictEqual(InstructionFiles.renderInstructionFiles([]), "")
  })
})
