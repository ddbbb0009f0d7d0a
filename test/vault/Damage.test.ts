/** Tests of files that can no longer be read: what the vault answers instead, which calls fail, and that nothing readable is erased. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Viewer from "../../src/domain/Viewer.ts"
import { pathOf } from "../../src/storage/MemoryStore/Markdown/Layout.ts"
import { ada, draft, get, id, put, system } from "../../src/testing/Sample.ts"
import { files, opened, place } from "./Place.ts"

const one = id("one")
const at = pathOf("default", { userId: "ada" }, one)
const conflict = (text: string) => `<<<<<<< HEAD\n${text}=======\n${text.replace("second", "third")}>>>>>>> theirs\n`

const damages: Readonly<Record<string, (text: string) => string | Uint8Array>> = {
  "emptied": () => "",
  "truncated within its frontmatter": (text) => text.slice(0, 40),
  "filled with zeros": (text) => new Uint8Array(text.length),
  "with invalid YAML": (text) => text.replace("kind: reference", "kind: [reference"),
  "with a merge conflict": conflict,
  "with a merge conflict in its body only": (text) => `${text}${conflict("second\n")}`,
  "with invalid UTF-8": (text) => Buffer.concat([Buffer.from(text), Buffer.from([0xff, 0xfe])])
}

/** Makes a closed vault with a record of Ada's at revision 2. */
const filled = (root: string) =>
  Effect.scoped(Effect.gen(function*() {
    const { store } = yield* opened(root)
    yield* put(store, draft("the first", { id: one, summary: "one" }))
    yield* store.update(ada, one, { body: "the second" })
  }))
const law = (title: string, check: (root: string) => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.scopedLive(title, () => Effect.flatMap(place, (root) => Effect.zipRight(filled(root), check(root))))
const write = (root: string, content: string | Uint8Array) => fs.writeFileSync(path.join(root, at), content)
const text = (root: string) => fs.readFileSync(path.join(root, at), "utf8")

describe("a record whose file is damaged, and whose revisions are in the vault's history", () => {
  for (const [name, damage] of Object.entries(damages)) {
    for (const isRunning of [true, false]) {
      const when = isRunning ? "while the vault is open" : "while the vault is closed"
      law(
        `a record with a damaged file keeps its last good revision and its history (a file ${name}, ${when})`,
        (root) =>
          Effect.gen(function*() {
            const whole = text(root)
            const check = ({ store, vault }: Effect.Effect.Success<ReturnType<typeof opened>>) =>
              Effect.gen(function*() {
                assert.deepInclude(yield* get(store, ada, one), { body: "the second", revision: 2 })
                const { hits } = yield* store.search(ada, { text: "second" })
                assert.deepStrictEqual(hits.map(({ record }) => record.id), [one])
                assert.deepStrictEqual((yield* store.history(ada, one)).map(({ body }) => body), [
                  "the second",
                  "the first"
                ])
                assert.deepStrictEqual((yield* vault.issues).map(({ path }) => path), [at])
                assert.deepStrictEqual((yield* vault.verify).map(({ kind, path }) => [kind, path]), [["damaged", at]])
                const bytes = fs.readFileSync(path.join(root, at))
                for (const change of [store.update(ada, one, { body: "x" }), put(store, draft("x", { id: one }))]) {
                  const error = yield* Effect.flip(change)
                  assert.strictEqual(error.reason, "corrupt")
                  assert.isTrue(bytes.equals(fs.readFileSync(path.join(root, at))))
                }
                yield* store.compact
                assert.lengthOf(yield* store.history(ada, one), 2)
              })
            if (isRunning) {
              const open = yield* opened(root)
              write(root, damage(whole))
              yield* open.vault.refresh
              yield* check(open)
            } else write(root, damage(whole))
            yield* Effect.scoped(Effect.flatMap(opened(root), check))
            yield* Effect.scoped(Effect.flatMap(opened(root), check)) // also when opened once more
            write(root, whole.replace("the second", "mended"))
            const { store, vault } = yield* opened(root)
            assert.deepStrictEqual(yield* vault.issues, [])
            assert.deepInclude(yield* get(store, ada, one), { body: "mended", revision: 3 })
            assert.lengthOf(yield* store.history(ada, one), 3)
          })
      )
    }

    law(
      `a record with a damaged file can be forgotten, restored and purged (a file ${name})`,
      (root) =>
        Effect.gen(function*() {
          const whole = text(root)
          write(root, damage(whole))
          yield* Effect.scoped(Effect.gen(function*() {
            const { store, vault } = yield* opened(root)
            assert.deepStrictEqual(yield* store.forget(ada, [one]), [true])
            assert.isFalse(fs.existsSync(path.join(root, at)))
            yield* store.apply(ada, [{ _tag: "Restore", id: one, revision: 2 }])
            assert.strictEqual((yield* get(store, ada, one))?.body, "the second")
            write(root, damage(text(root)))
            yield* vault.refresh
            assert.deepStrictEqual(yield* store.forget(ada, [one], { purge: true }), [true])
            assert.isFalse(fs.existsSync(path.join(root, at)))
          }))
          const { store } = yield* opened(root)
          assert.isUndefined(yield* get(store, system, one))
          assert.deepStrictEqual(yield* store.history(system, one), [])
        })
    )

    law(
      `a record whose file was damaged after the last scan can be forgotten and purged, but not changed (a file ${name})`,
      (root) =>
        Effect.gen(function*() {
          const { store } = yield* opened(root)
          for (const purge of [false, true]) {
            write(root, damage(text(root)))
            const error = yield* Effect.flip(store.update(ada, one, { body: "x" }))
            assert.deepStrictEqual([error.reason, error.id], ["corrupt", one])
            yield* store.apply(system, [{ _tag: "Forget", id: one }])
            yield* store.apply(ada, [{ _tag: "Restore", id: one, revision: 2 }])
            write(root, damage(text(root)))
            assert.deepStrictEqual(yield* store.forget(ada, [one], { purge }), [true])
            assert.isFalse(fs.existsSync(path.join(root, at)))
            if (!purge) yield* store.apply(ada, [{ _tag: "Restore", id: one, revision: 2 }])
          }
          assert.deepStrictEqual(yield* store.history(system, one), [])
        })
    )

    law(
      `vault.repair lists the damaged file; called with the option \`write\`, vault.repair restores the file (a file ${name})`,
      (root) =>
        Effect.gen(function*() {
          const whole = text(root)
          write(root, damage(whole))
          const broken = fs.readFileSync(path.join(root, at))
          const { store, vault } = yield* opened(root)
          const repairs = [{ path: at, id: one, revision: 2 }]
          assert.deepStrictEqual(yield* vault.repair(), repairs)
          assert.isTrue(broken.equals(fs.readFileSync(path.join(root, at))))
          assert.deepStrictEqual(yield* vault.repair({ write: true }), repairs)
          assert.strictEqual(text(root), whole)
          assert.deepStrictEqual(yield* vault.verify, [])
          assert.deepInclude(yield* get(store, ada, one), { body: "the second", revision: 2 })
          const folder = path.join(root, ".effect-memory/damaged")
          const aside = fs.readdirSync(folder).map((name) => fs.readFileSync(path.join(folder, name)))
          assert.isTrue(aside.some((bytes) => bytes.equals(broken)))
          const others = ["0123456789abcdef", "fedcba9876543210"] // names of an earlier release, without the record's id
          fs.writeFileSync(path.join(folder, others[0]!), broken)
          fs.writeFileSync(path.join(folder, others[1]!), "the text of another record")
          yield* store.forget(ada, [one], { purge: true })
          const left = fs.readdirSync(folder)
          assert.include(left, others[1])
          for (const name of left) assert.notInclude(fs.readFileSync(path.join(folder, name), "latin1"), one)
          assert.isFalse(left.some((name) => name.startsWith(one)))
        })
    )
  }

  law(
    "conflict markers in a code fence, or a single conflict marker, are not treated as a merge conflict",
    (root) =>
      Effect.gen(function*() {
        const whole = text(root)
        const { store, vault } = yield* opened(root)
        for (const body of [`\`\`\`\n${conflict("second")}\`\`\``, "<<<<<<< HEAD", "a\n=======\nb"]) {
          write(root, whole.replace("the second", body))
          yield* vault.refresh
          assert.deepStrictEqual(yield* vault.issues, [])
          assert.strictEqual((yield* get(store, ada, one))?.body, body)
        }
      })
  )
})

describe("vault.verify", () => {
  it.scopedLive("vault.verify reports unreadable frontmatter, a note with invalid UTF-8, and a folder with the name of a note", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store, vault } = yield* opened(root)
      fs.writeFileSync(path.join(root, "Note.md"), "---\ntitle: a: b\n---\nThe text.\n")
      fs.writeFileSync(path.join(root, "Sound.md"), "Sound.\n")
      fs.mkdirSync(path.join(root, "Folder.md"))
      yield* vault.refresh
      const found = Effect.map(vault.verify, (all) => all.map(({ kind, path }) => `${kind} ${path}`).sort())
      assert.deepStrictEqual(yield* found, ["ignored Folder.md", "partial Note.md"])
      const { mtime } = fs.statSync(path.join(root, "Sound.md"))
      yield* store.list(ada, {})
      fs.writeFileSync(path.join(root, "Sound.md"), "S\xffund.\n", "latin1")
      fs.utimesSync(path.join(root, "Sound.md"), mtime, mtime)
      assert.include(yield* found, "partial Sound.md")
    }))
})

describe("an older version of a record's file", () => {
  law(
    "an older file that is copied back into a closed vault becomes the next revision",
    (root) =>
      Effect.gen(function*() {
        const second = text(root)
        yield* Effect.scoped(Effect.flatMap(opened(root), ({ store }) => store.update(ada, one, { body: "the third" })))
        write(root, second)
        const { store } = yield* opened(root)
        assert.deepInclude(yield* get(store, ada, one), { body: "the second", revision: 4 })
        assert.deepStrictEqual(
          (yield* store.history(ada, one)).map(({ body, revision }) => [body, revision]),
          [["the second", 4], ["the third", 3], ["the second", 2], ["the first", 1]]
        )
      })
  )

  law(
    "an acknowledged write is recovered if the record's file is old, empty, zeroed or missing after its writer died",
    (root) =>
      Effect.gen(function*() {
        const copy = yield* place
        const second = text(root)
        yield* Effect.scoped(Effect.gen(function*() {
          const { store } = yield* opened(root)
          yield* store.update(ada, one, { body: "the third" })
          yield* put(store, draft("new", { id: id("new"), summary: "new" }))
          fs.cpSync(root, copy, { recursive: true }) // the files of both records are written, but not forced to disk yet
        }))
        for (const torn of [second, "", "\0".repeat(second.length), undefined]) {
          const again = yield* place
          fs.cpSync(copy, again, { recursive: true })
          fs.rmSync(path.join(again, ".effect-memory/lock"), { force: true })
          if (torn === undefined) fs.rmSync(path.join(again, at))
          else write(again, torn)
          fs.rmSync(path.join(again, pathOf("default", { userId: "ada" }, id("new"))))
          const { store, vault } = yield* opened(again)
          assert.deepInclude(yield* get(store, ada, one), { body: "the third", revision: 3 })
          assert.strictEqual((yield* get(store, ada, id("new")))?.body, "new")
          assert.deepStrictEqual(yield* vault.issues, [])
          assert.include(text(again), "the third")
          assert.lengthOf(yield* store.history(ada, one), 3)
        }
        const edited = yield* place
        fs.cpSync(copy, edited, { recursive: true })
        write(edited, second.replace("the second", "by hand"))
        const { store } = yield* opened(edited)
        assert.deepInclude(yield* get(store, ada, one), { body: "by hand", revision: 4 })
        assert.deepStrictEqual((yield* store.history(ada, one)).map(({ body }) => body).slice(0, 2), [
          "by hand",
          "the third"
        ])
      })
  )
})

describe("a record whose file is deleted by hand", () => {
  it.scoped("a record whose file is deleted by hand is forgotten, stays forgotten after a restart, and can be restored", () =>
    Effect.gen(function*() {
      const root = yield* place
      yield* filled(root)
      for (const isRunning of [true, false]) {
        yield* Effect.scoped(Effect.gen(function*() {
          const { store, vault } = yield* opened(root)
          if (isRunning) {
            fs.rmSync(path.join(root, at))
            yield* vault.refresh
          }
          assert.deepStrictEqual((yield* store.list(ada, {})).items, [])
          assert.deepStrictEqual(yield* store.forget(ada, [one]), [false])
        }))
        yield* Effect.scoped(Effect.gen(function*() {
          const { store } = yield* opened(root)
          assert.deepStrictEqual((yield* store.list(ada, {})).items, [])
          yield* store.apply(ada, [{ _tag: "Restore", id: one, revision: 2 }])
          assert.strictEqual((yield* get(store, ada, one))?.body, "the second")
        }))
        if (isRunning) fs.rmSync(path.join(root, at))
      }
      assert.strictEqual(yield* TestClock.currentTimeMillis, 0)
    }))
})

describe("a vault whose .effect-memory folder is deleted", () => {
  law(
    "the records survive the loss of the .effect-memory folder, with trust 2 until vault.adopt is called",
    (root) =>
      Effect.gen(function*() {
        yield* Effect.scoped(Effect.flatMap(opened(root), ({ store }) =>
          store.put(Viewer.system("other"), [draft("elsewhere", { id: id("elsewhere") })], {
            origin: "agent",
            trust: 1
          })))
        const before = files(root)
        fs.rmSync(path.join(root, ".effect-memory"), { recursive: true })
        yield* Effect.scoped(Effect.gen(function*() {
          const { store, vault } = yield* opened(root)
          assert.deepInclude(yield* get(store, ada, one), { body: "the second", source: { origin: "file", trust: 2 } })
          const [issue, ...rest] = yield* vault.issues
          assert.deepStrictEqual([issue?.path, rest], [".effect-memory", []])
          assert.include(issue?.error.message, "Vault.adopt")
          assert.deepStrictEqual(files(root), before, "opened, and not written to")
          assert.strictEqual(yield* vault.adopt, 2)
          assert.deepStrictEqual(yield* vault.issues, [])
          assert.strictEqual(yield* vault.adopt, 0)
        }))
        const { store, vault } = yield* opened(root)
        assert.deepInclude((yield* get(store, ada, one))?.source, { origin: "user", trust: 1 })
        assert.isTrue(Option.isSome((yield* store.get(Viewer.system("other"), [id("elsewhere")]))[0]!))
        assert.deepStrictEqual(yield* vault.verify, [])
      })
  )
})
