import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as InstructionFiles from "../../src/harness/InstructionFiles.ts"
import { load, onDisk, told, tree } from "./Tree.ts"

describe("InstructionFiles.load", () => {
  it.effect("InstructionFiles.load loads files from the root down to the working directory", () =>
    onDisk(Effect.gen(function*() {
      const { at } = yield* tree({
        ".git": null,
        "CLAUDE.md": "claude",
        "AGENTS.md": " agents \n",
        "packages/AGENTS.md": "packages",
        "packages/app/src/CLAUDE.md": "src",
        "packages/other/AGENTS.md": "beside the way",
        "packages/app/src/deeper/AGENTS.md": "below"
      })
      assert.deepStrictEqual(told(yield* load(at("packages/app/src"))), {
        files: ["(repo root): agents", "(repo root): claude", "packages: packages", "packages/app/src: src"],
        issues: []
      })
    })))

  it.effect("the default root is the nearest folder that contains .git, or the working directory if there is no such folder", () =>
    onDisk(Effect.gen(function*() {
      const { at } = yield* tree({
        "repo/.git": null,
        "repo/AGENTS.md": "repo",
        "repo/tree/.git": "gitdir: elsewhere",
        "repo/tree/AGENTS.md": "tree",
        "repo/tree/a/AGENTS.md": "a",
        "plain/AGENTS.md": "above",
        "plain/a/AGENTS.md": "here"
      })
      assert.deepStrictEqual(told(yield* load(at("repo/tree/a"))).files, ["(repo root): tree", "a: a"])
      assert.deepStrictEqual(told(yield* load(at("plain/a"))).files, ["(repo root): here"])
      assert.deepStrictEqual(told(yield* load(at("repo/tree/a"), { root: at("repo") })).files, [
        "(repo root): repo",
        "tree: tree",
        "tree/a: a"
      ])
    })))

  it.effect("InstructionFiles.load reports an issue and loads nothing if the working directory is outside the root or missing", () =>
    onDisk(Effect.gen(function*() {
      const { at } = yield* tree({ "a/AGENTS.md": "a", "b/AGENTS.md": "b" })
      assert.deepStrictEqual(told(yield* load(at("a"), { root: at("b") })), {
        files: [],
        issues: ["path_escape the working directory lies outside the root"]
      })
      assert.deepStrictEqual(told(yield* load(at("none"))), {
        files: [],
        issues: ["io the working directory cannot be read"]
      })
      assert.strictEqual((yield* Effect.flip(InstructionFiles.loadInstructionFiles(at("none")))).reason, "io")
      assert.lengthOf(yield* InstructionFiles.loadInstructionFiles(at("a")), 1)
    })))

  it.effect("only files in the forty directories nearest to the working directory are loaded", () =>
    onDisk(Effect.gen(function*() {
      const deep = Array.from({ length: 60 }, (_, n) => `d${n}`)
      const { at, root } = yield* tree(
        Object.fromEntries(deep.map((_, n) => [`${deep.slice(0, n + 1).join("/")}/AGENTS.md`, `${n}`]))
      )
      const { files } = yield* load(at(deep.join("/")), { root })
      assert.deepStrictEqual(files.map(({ content }) => content), Array.from({ length: 40 }, (_, n) => `${n + 20}`))
    })))

  it.effect("InstructionFiles.load ignores missing and blank files, and reports an issue for a configured filename that is a path", () =>
    onDisk(Effect.gen(function*() {
      const { at } = yield* tree({
        ".git": null,
        "AGENTS.md": " \n\t\n",
        "docs/rules.md": "docs",
        "TEAM.md": "team",
        "x": "outside"
      })
      const config = { filenames: ["AGENTS.md", "MISSING.md", "../x", "a\\b", "..", "TEAM.md"] }
      assert.deepStrictEqual(told(yield* load(at("docs"), config)), {
        files: ["(repo root): team"],
        issues: ["\"../x\"", "\"a\\\\b\"", "\"..\""].map((name) => `path_escape ${name} is no file name`)
      })
    })))

  it.effect("a symbolic link that leaves the root, is circular or leads to nothing is reported", () =>
    onDisk(Effect.gen(function*() {
      const { at, fs } = yield* tree({
        "outside/secret.md": "secret",
        "repo/.git": null,
        "repo/AGENTS.md": "one",
        "repo/in/other.md": "linked",
        "repo/a/b": null
      })
      yield* fs.symlink("AGENTS.md", at("repo/CLAUDE.md"))
      yield* fs.symlink(at("outside/secret.md"), at("repo/a/AGENTS.md"))
      yield* fs.symlink("CLAUDE.md", at("repo/a/CLAUDE.md"))
      yield* fs.symlink("nothing.md", at("repo/a/b/AGENTS.md"))
      yield* fs.symlink("../../in/other.md", at("repo/a/b/CLAUDE.md"))
      assert.deepStrictEqual(told(yield* load(at("repo/a/b"))), {
        files: ["(repo root): one", "a/b: linked"],
        issues: [
          "path_escape a/AGENTS.md leads out of the root",
          "io a/CLAUDE.md cannot be read",
          "io a/b/AGENTS.md is a link to nothing"
        ]
      })
    })))

  it.effect("a working directory that is a symbolic link is resolved before files are loaded", () =>
    onDisk(Effect.gen(function*() {
      const { at, fs } = yield* tree({ "repo/.git": null, "repo/AGENTS.md": "repo", "repo/a/AGENTS.md": "a" })
      yield* fs.symlink(at("repo/a"), at("here"))
      assert.deepStrictEqual(told(yield* load(at("here"))).files, ["(repo root): repo", "a: a"])
    })))

  it.effect("InstructionFiles.load reports files that are folders or not UTF-8 text, and loads all other files", () =>
    onDisk(Effect.gen(function*() {
      const { at, fs } = yield* tree({
        ".git": null,
        "AGENTS.md": new Uint8Array([0x68, 0xff, 0xfe]),
        "CLAUDE.md": "nul \0 byte",
        "a/AGENTS.md": null,
        "a/CLAUDE.md": "text"
      })
      yield* fs.chmod(at("a/CLAUDE.md"), 0o600)
      assert.deepStrictEqual(told(yield* load(at("a"))), {
        files: ["a: text"],
        issues: [
          "corrupt AGENTS.md is no UTF-8 text",
          "corrupt CLAUDE.md is no UTF-8 text",
          "io a/AGENTS.md is no file"
        ]
      })
    })))

  it.effect("InstructionFiles.load cuts a long file between two characters, and adds a note of the cut to the text", () =>
    onDisk(Effect.gen(function*() {
      const texts = FastCheck.sample(FastCheck.fullUnicodeString({ minLength: 1, maxLength: 20 }), {
        numRuns: 10,
        seed: 1
      })
        .map((text) => `x${text.replace(/\0/g, "")}y`)
      const { at, fs } = yield* tree({ "AGENTS.md": "" })
      for (const text of ["é", "€uro", "👩‍👩‍👧‍👦 family", "x".repeat(100_000), ...texts]) {
        yield* fs.writeFileString(at("AGENTS.md"), text)
        const size = new TextEncoder().encode(text).length
        for (let max = 1; max <= Math.min(size, 20); max++) {
          const { files: [file] } = yield* load(at(""), { maxBytesPerFile: max })
          assert.strictEqual(file!.truncated, size > max)
          const kept = size > max
            ? file!.content.slice(0, file!.content.indexOf("[...truncated")).trim()
            : file!.content
          assert.isTrue(text.startsWith(kept), JSON.stringify({ text, max, kept }))
          assert.isTrue(kept.isWellFormed() && !kept.includes("�"))
          assert.isAtMost(new TextEncoder().encode(kept).length, max)
          assert.isAbove(new TextEncoder().encode(kept).length, Math.min(size, max) - 4 - (kept === text ? 0 : 3))
          if (size > max) assert.isTrue(file!.content.endsWith(`[...truncated — file exceeds ${max} bytes]`))
        }
      }
    })))
})
