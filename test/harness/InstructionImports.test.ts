/** Imports of instruction files: which files are imported, and which are left out. */
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as InstructionFiles from "../../src/harness/InstructionFiles.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import { hashSpec, InstructionFilesConfig } from "../../src/harness/MemorySpec.ts"
import * as Redaction from "../../src/host/Redaction.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, heard, service } from "./Service.ts"
import { load, onDisk, told, tree } from "./Tree.ts"

describe("an instruction file", () => {
  it.effect("each file named with @ outside of code in an instruction file is imported once; other uses of @ are ignored", () =>
    onDisk(Effect.gen(function*() {
      const { at } = yield* tree({
        ".git": null,
        "AGENTS.md":
          "See @docs/git.md, @docs/with\\ space.md and @README.\n@docs/git.md again; mail ada@docs/no.md, ask @somebody, use @effect/ai\n`@docs/no.md`\n```\n@docs/no.md\n```\n",
        "README": "readme",
        "docs/git.md": "git @deep.md",
        "docs/deep.md": "deep",
        "docs/with space.md": "space",
        "docs/no.md": "no",
        "effect/ai/index.md": "a folder"
      })
      const { files, issues } = yield* load(at(""))
      assert.deepStrictEqual(
        files.map(({ importedBy, label, path }) => [label, path.slice(at("").length), importedBy]),
        [
          ["(repo root)", "AGENTS.md", undefined],
          ["docs", "docs/git.md", "AGENTS.md"],
          ["docs", "docs/deep.md", "AGENTS.md"],
          ["docs", "docs/with space.md", "AGENTS.md"],
          ["(repo root)", "README", "AGENTS.md"]
        ]
      )
      assert.deepStrictEqual(issues, [])
    })))

  it.effect("imports are found despite a lone backtick in another paragraph, and after inline code that is set in three backticks", () =>
    onDisk(Effect.gen(function*() {
      const { at } = yield* tree({
        ".git": null,
        "AGENTS.md":
          "Press the ` key.\n\n@a.md\n\nNever type `, says\n\n```npm test``` @b.md\n\n`` ` @no.md ``\n~~~\n@no.md\n~~~\n@c.md\n",
        ...Object.fromEntries(["a", "b", "c", "no"].map((name) => [`${name}.md`, name]))
      })
      const { files } = yield* load(at(""))
      assert.deepStrictEqual(files.slice(1).map(({ content }) => content), ["a", "b", "c"])
    })))

  it.effect("the search for imports finishes on a file of a million backticks, and tries only the first 1,000 names in a file", () =>
    onDisk(Effect.gen(function*() {
      const many = Array.from({ length: 999 }, (_, n) => `@no-file-${n}.md`).join("\n")
      const { at } = yield* tree({
        ".git": null,
        "AGENTS.md": "x" + "`".repeat(1_000_000),
        "CLAUDE.md": `${many}\n@last.md\n@beyond.md`,
        "last.md": "last",
        "beyond.md": "beyond"
      })
      const { files } = told(
        yield* load(at(""), { maxBytesPerFile: 2_000_000 })
      )
      assert.deepStrictEqual(files.slice(2), ["(repo root): last"])
    })))

  it.effect("the import of a file outside the project's root is refused and reported as an issue", () =>
    onDisk(Effect.gen(function*() {
      const { at, fs } = yield* tree({
        "secret.md": "secret",
        "repo/.git": null,
        "repo/AGENTS.md": "@../secret.md @~/.ssh/config @linked.md",
        "repo/in.md": "in"
      })
      yield* fs.symlink(at("secret.md"), at("repo/linked.md"))
      yield* fs.writeFileString(at("repo/CLAUDE.md"), `@${at("secret.md")} and @${at("repo/in.md")}`)
      const { files, issues } = told(yield* load(at("repo")))
      assert.deepStrictEqual(files.slice(2), ["(repo root): in"])
      assert.deepStrictEqual(issues, [
        "path_escape ../secret.md leads out of the root",
        "path_escape ~/.ssh/config lies outside the root",
        "path_escape linked.md leads out of the root",
        "path_escape ../secret.md leads out of the root"
      ])
    })))

  it.effect("an instruction file in a cycle of imports is loaded once, and an issue reports the cycle", () =>
    onDisk(Effect.gen(function*() {
      const { at } = yield* tree({
        ".git": null,
        "AGENTS.md": "one @a.md",
        "a.md": "two @b.md",
        "b.md": "three @AGENTS.md @b.md"
      })
      assert.deepStrictEqual(told(yield* load(at(""))), {
        files: ["(repo root): one @a.md", "(repo root): two @b.md", "(repo root): three @AGENTS.md @b.md"],
        issues: ["AGENTS.md", "b.md"].map((name) =>
          `unsupported b.md imports ${name}, a file that leads to it: it is left out`
        )
      })
    })))

  it.effect("imports are followed at most five levels deep, and at most a hundred files are imported in all", () =>
    onDisk(Effect.gen(function*() {
      const { at } = yield* tree({
        "deep/.git": null,
        "deep/AGENTS.md": "0 @1.md",
        ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((n) => [`deep/${n}.md`, `${n} @${n + 1}.md`])),
        "wide/.git": null,
        "wide/AGENTS.md": Array.from({ length: 101 }, (_, n) => `@n${n}.md`).join("\n"),
        ...Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`wide/n${n}.md`, `${n}`]))
      })
      const deep = yield* load(at("deep"))
      assert.deepStrictEqual(deep.files.map(({ content }) => content[0]), ["0", "1", "2", "3", "4", "5"])
      assert.deepStrictEqual(told(deep).issues, [
        "unsupported 5.md imports 6.md, deeper than five imports: it is left out"
      ])
      const wide = yield* load(at("wide"))
      assert.lengthOf(wide.files, 101)
      assert.deepStrictEqual(told(wide).issues, [
        "unsupported AGENTS.md imports n100.md, beyond the first hundred: it is left out"
      ])
    })))

  it.effect("only one of two instruction files with the same text in one directory is loaded", () =>
    onDisk(Effect.gen(function*() {
      const { at } = yield* tree({
        ".git": null,
        "AGENTS.md": "both\n",
        "CLAUDE.md": "both",
        "a/AGENTS.md": "both",
        "a/CLAUDE.md": "both, and more"
      })
      assert.deepStrictEqual(told(yield* load(at("a"))), {
        files: ["(repo root): both", "a: both", "a: both, and more"],
        issues: []
      })
    })))

  it.effect("an instruction file of more than 65,536 bytes is cut, and the event `memory_degraded` reports the cut", () =>
    onDisk(Effect.gen(function*() {
      const { at } = yield* tree({ ".git": null, "AGENTS.md": "x".repeat(33_000), "CLAUDE.md": "y".repeat(70_000) })
      const { files } = yield* load(at(""))
      assert.deepStrictEqual(files.map(({ truncated }) => truncated), [false, true])
      const Memory = MemoryService.layer().pipe(
        Layer.provide(InstructionFiles.layer({}, { cwd: at("") })),
        Layer.provide(MemoryStore.layerInMemory),
        Layer.provide(NodeContext.layer)
      )
      const { events, result } = yield* heard(Effect.flatMap(service, ({ instructions }) => instructions)).pipe(
        MemoryService.as(ada),
        Effect.provide(Memory)
      )
      assert.include(result, "[...truncated — file exceeds 65536 bytes]")
      assert.deepStrictEqual(
        events.map((event) => event._tag === "memory_degraded" && [event.part, event.error.message]),
        [
          [
            "instructions",
            "CLAUDE.md is longer than 65536 bytes: its end is left out. Raise maxBytesPerFile, or divide the file"
          ]
        ]
      )
    })))

  it("a default InstructionFilesConfig has the same hash as the default config of earlier versions", () => {
    const before = { filenames: ["AGENTS.md", "CLAUDE.md"], maxBytesPerFile: 16_384, seedMemory: true }
    assert.strictEqual(hashSpec(new InstructionFilesConfig({})), hashSpec(before))
    assert.notStrictEqual(hashSpec(new InstructionFilesConfig({ maxBytesPerFile: 33_000 })), hashSpec(before))
  })

  it.effect("`render` redacts the secrets of an instruction file, and a second `seed` of the unchanged file creates no revision", () =>
    onDisk(
      Effect.gen(function*() {
        const { at } = yield* tree({ ".git": null, "AGENTS.md": "the key is sk-a1B2c3D4e5F6g7H8" })
        const outcomes = yield* Effect.gen(function*() {
          const files = yield* InstructionFiles.InstructionFiles
          assert.include(yield* files.render, "the key is (redacted key)")
          const seeds = yield* Effect.all([files.seed(Viewer.system()), files.seed(Viewer.system())])
          return seeds.flat().map(({ outcome }) => outcome)
        }).pipe(
          Effect.provide(
            InstructionFiles.layer({}, { cwd: at("") }).pipe(
              Layer.provide(MemoryStore.layerInMemory),
              Layer.provide(Redaction.layer())
            )
          )
        )
        assert.deepStrictEqual(outcomes, ["created", "duplicate"])
      })
    ))

  it.effect("the event `memory_redacted` reports the secrets of an instruction file once, and again if the file has changed", () =>
    onDisk(
      Effect.gen(function*() {
        const { at, fs } = yield* tree({
          ".git": null,
          "AGENTS.md": "sk-a1B2c3D4e5F6g7H8 and sk-h8G7f6E5d4C3b2A1 @x.md",
          "x.md": "sk-a1B2c3D4e5F6g7H8"
        })
        const Memory = MemoryService.layer().pipe(
          Layer.provide(InstructionFiles.layer({}, { cwd: at("") })),
          Layer.provide(MemoryStore.layerInMemory),
          Layer.provide(NodeContext.layer),
          Layer.provide(Redaction.layer())
        )
        const read = Effect.flatMap(service, (memory) => Effect.zipRight(memory.instructions, memory.turnStart))
        const { events } = yield* heard(Effect.gen(function*() {
          yield* read
          yield* read
          yield* fs.writeFileString(at("AGENTS.md"), "now sk-c1C2c3D4e5F6g7H8 @x.md")
          yield* read
        })).pipe(MemoryService.as(ada), Effect.provide(Memory))
        const counts = events.flatMap((event) => event._tag === "memory_redacted" ? [event.count] : [])
        assert.deepStrictEqual(counts, [2, 1, 1])
      })
    ))

  it.effect("an imported file is stored as a record; the record is forgotten when the import is removed", () =>
    onDisk(
      Effect.gen(function*() {
        const { at, fs } = yield* tree({
          ".git": null,
          "a/AGENTS.md": "a @../docs/x.md",
          "b/AGENTS.md": "b",
          "docs/x.md": "x"
        })
        const store = yield* MemoryStore.MemoryStore
        const context = yield* Effect.context<NodeContext.NodeContext>()
        const bodies = (cwd: string) =>
          Effect.flatMap(InstructionFiles.InstructionFiles, ({ seed }) => seed(Viewer.system())).pipe(
            Effect.zipRight(store.list(ada, {})),
            Effect.map(({ items }) => items.map(({ body }) => body).toSorted()),
            Effect.provide(InstructionFiles.layer({}, { cwd: at(cwd) })),
            Effect.provideService(MemoryStore.MemoryStore, store),
            Effect.provide(context)
          )
        assert.deepStrictEqual(yield* bodies("a"), ["a @../docs/x.md", "x"])
        assert.deepStrictEqual(yield* bodies("b"), ["a @../docs/x.md", "b", "x"])
        yield* fs.writeFileString(at("a/AGENTS.md"), "a")
        assert.deepStrictEqual(yield* bodies("a"), ["a", "b"])
        yield* fs.writeFileString(at("a/AGENTS.md"), "a @../docs/x.md")
        yield* bodies("a")
        yield* fs.remove(at("a/AGENTS.md"))
        assert.deepStrictEqual(yield* bodies("b"), ["b"])
      }).pipe(Effect.provide(MemoryStore.layerInMemory))
    ))
})
