import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Viewer from "../../src/domain/Viewer.ts"
import { pathOf } from "../../src/storage/MemoryStore/Markdown/Layout.ts"
import { ada, draft, get, id, put, system } from "../../src/testing/Sample.ts"
import { eventually, files, type Opened, opened, place } from "./Place.ts"

const one = id("one")
const at = pathOf("default", { userId: "ada" }, one)
const first = draft("the first", { id: one, summary: "one" })
const text = (fields: string, body = "by hand") => `---\n${fields}\n---\n\n${body}\n`

interface Vault extends Opened {
  readonly root: string
  readonly write: (at: string, text: string | Uint8Array) => void
  readonly read: (at: string) => string
  readonly remove: (at: string) => void
  readonly issues: Effect.Effect<ReadonlyArray<string>>
}

/** Declares a law of a vault that contains Ada's first record. */
const law = (title: string, check: (vault: Vault) => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.scopedLive(title, () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store, vault } = yield* opened(root)
      yield* put(store, first)
      yield* check({
        store,
        vault,
        root,
        write: (at, text) => {
          fs.mkdirSync(path.dirname(path.join(root, at)), { recursive: true })
          fs.writeFileSync(path.join(root, at), text)
        },
        read: (at) => fs.readFileSync(path.join(root, at), "utf8"),
        remove: (at) => fs.rmSync(path.join(root, at)),
        issues: Effect.map(Effect.orDie(vault.issues), (all) => all.map(({ path }) => path).sort())
      })
    }))

describe("an edit by hand", () => {
  law(
    "an edit by hand becomes the next revision, with origin `file` and trust 2",
    ({ read, root, store, vault, write }) =>
      Effect.gen(function*() {
        write(at, read(at).replace("the first", "the second"))
        yield* vault.refresh
        const record = (yield* get(store, system, one))!
        assert.deepInclude(record, { body: "the second", revision: 2, source: { origin: "file", trust: 2 } })
        assert.isDefined(record.updatedAt)
        assert.deepStrictEqual((yield* store.history(system, one)).map(({ body }) => body), ["the second", "the first"])
        write(at, read(at).replace("the second", "the third"))
        yield* vault.refresh
        const again = yield* Effect.scoped(Effect.flatMap(opened(root), ({ store }) => store.history(system, one)))
        assert.deepStrictEqual(again.map(({ body, revision }) => [body, revision]), [
          ["the third", 3],
          ["the second", 2],
          ["the first", 1]
        ])
      })
  )

  law(
    "an edit by hand cannot set the revision, `updatedAt`, trust or origin of a record",
    ({ store, vault, write }) =>
      Effect.gen(function*() {
        const claims = `origin: instructions\ntrust: 0\nrevision: 99\nupdatedAt: 2001-01-01T00:00:00Z\nhash: ${
          "0".repeat(64)
        }`
        write(at, text(`id: ${one}\nkind: reference\nsummary: one\nuserId: ada\n${claims}`))
        yield* vault.refresh
        const record = (yield* get(store, system, one))!
        assert.deepInclude(record, { body: "by hand", revision: 2, source: { origin: "file", trust: 2 } })
        assert.isAbove(record.updatedAt!, Date.UTC(2020))
      })
  )

  law(
    "a record whose file is deleted by hand is forgotten; an immediate compaction keeps its last text, and a purge erases it",
    ({ remove, store, vault }) =>
      Effect.gen(function*() {
        yield* store.update(system, one, { body: "more" })
        remove(at)
        yield* vault.refresh
        const viewer = (yield* get(store, system, one))!
        assert.strictEqual(viewer.body, "more", "the library knows what it was")
        assert.lengthOf((yield* store.list(system, {})).items, 0)
        assert.deepStrictEqual(yield* store.forget(system, [one]), [false])
        yield* store.compact
        assert.strictEqual((yield* get(store, system, one))?.body, "more", "it can be restored")
        yield* store.forget(system, [one], { purge: true })
        assert.isUndefined(yield* get(store, system, one))
      })
  )

  law(
    "a restored record's file has the frontmatter properties that a person added; a new record with the same id has none of them",
    ({ read, remove, store, vault, write }) =>
      Effect.gen(function*() {
        const own = /\naliases:\s+- the one\ncssclasses: wide\n/
        write(at, read(at).replace("\nkind:", "\naliases:\n  - the one\ncssclasses: wide\nkind:"))
        yield* vault.refresh
        assert.match(read(at), own)
        const forget = store.forget(system, [one])
        const removal = Effect.zipRight(Effect.sync(() => remove(at)), vault.refresh)
        for (const end of [forget, removal, Effect.zipRight(removal, store.compact)]) {
          yield* end
          const { revision } = (yield* get(store, system, one))!
          yield* store.apply(system, [{ _tag: "Restore", id: one, revision: revision - 1 }])
          assert.match(read(at), own)
        }
        yield* forget
        yield* put(store, first)
        assert.notMatch(read(at), /aliases|cssclasses/)
      })
  )

  law(
    "a batch that purges a record and puts its id again keeps no property of the purged file",
    ({ read, store, vault, write }) =>
      Effect.gen(function*() {
        write(at, read(at).replace("\nkind:", "\naliases:\n  - secret\nkind:"))
        yield* vault.refresh
        yield* store.apply(system, [{ _tag: "Forget", id: one, purge: true }, { _tag: "Put", draft: first }])
        assert.notMatch(read(at), /secret/)
        assert.deepInclude(yield* get(store, ada, one), { revision: 1, summary: "one" })
      })
  )

  law(
    "a record whose file was deleted by hand is absent after the vault is reopened",
    ({ remove, root, store }) =>
      Effect.gen(function*() {
        yield* store.update(system, one, { body: "more" })
        yield* Effect.scoped(opened(root)) // the closing of this second vault forces earlier writes to disk
        remove(at)
        const again = yield* opened(root)
        assert.isUndefined(yield* get(again.store, ada, one))
      })
  )

  law(
    "an unreadable file in a tenant folder with a hash as name is reported to that tenant's system viewer, not to another tenant's",
    ({ store, vault, write }) =>
      Effect.gen(function*() {
        const tenant = "Société Générale"
        const heard: Array<string> = []
        for (const name of [tenant, "default"]) {
          yield* Effect.forkScoped(Stream.runForEach(store.changes(Viewer.system(name)), (change) =>
            Effect.sync(() => {
              if (change._tag === "Issue") heard.push(name)
            })))
        }
        yield* Effect.yieldNow()
        const viewer = Viewer.make({ userId: "ada", tenant })
        const [done] = yield* store.put(viewer, [draft("one", { scope: { userId: "ada" } })])
        const { record } = done!
        write(pathOf(tenant, record.scope, record.id), "---\nsummary: [\n---\n")
        yield* vault.refresh
        yield* vault.refresh
        assert.deepStrictEqual(heard, [tenant])
      })
  )

  law(
    "an unreadable edit by hand is reported as an issue, and leaves the last revision in place",
    ({ issues, read, store, vault, write }) =>
      Effect.gen(function*() {
        const changes = yield* Queue.unbounded<string>()
        yield* Effect.forkScoped(Stream.runForEach(store.changes(system), (change) =>
          Queue.offer(
            changes,
            change._tag === "Issue" ? `${change.error.reason} ${JSON.stringify(change.error.detail)}` : change._tag
          )))
        yield* Effect.yieldNow()
        const whole = read(at)
        const broken = whole.replace("summary: one", "summary: [")
        write(at, broken)
        yield* vault.refresh
        yield* vault.refresh
        assert.deepStrictEqual(yield* issues, [at])
        assert.strictEqual((yield* get(store, ada, one))?.summary, "one")
        assert.strictEqual(read(at), broken)
        const refused = yield* Effect.flip(put(store, first))
        assert.strictEqual(refused.reason, "corrupt")
        assert.strictEqual(read(at), broken)
        write(at, whole.replace("summary: one", "summary: mended"))
        yield* vault.refresh
        assert.deepStrictEqual(yield* issues, [])
        assert.deepInclude(yield* get(store, ada, one), { summary: "mended", revision: 2 })
        assert.deepStrictEqual((yield* store.history(ada, one)).map(({ summary }) => summary), ["mended", "one"])
        const heard = Array.from(yield* Queue.takeAll(changes))
        assert.deepStrictEqual(heard, [`corrupt {"location":"${at}"}`, "Written"])
      })
  )

  law(
    "the poll notices that a record's file was edited, replaced or deleted by hand",
    ({ read, root, write }) =>
      Effect.gen(function*() {
        const { store } = yield* opened(root, { poll: 20 })
        const body = Effect.map(get(store, ada, one), (record) => record?.body)
        write(at, read(at).replace("the first", "over"))
        yield* eventually("an edit", Effect.map(body, (now) => now === "over"))
        write(`${at}~`, read(at).replace("over", "renamed"))
        fs.renameSync(path.join(root, `${at}~`), path.join(root, at))
        yield* eventually("a rename", Effect.map(body, (now) => now === "renamed"))
        fs.rmSync(path.join(root, at))
        yield* eventually("a removal", Effect.map(body, (now) => now === undefined))
      })
  )

  law(
    "a record's body keeps the Windows line ends of a file that was written by hand",
    ({ store, vault, write }) =>
      Effect.gen(function*() {
        const note = id("windows")
        write(`global/${note}.md`, text(`id: ${note}\nkind: reference\nsummary: s`, "a\nb").replaceAll("\n", "\r\n"))
        write("plain.md", "a\r\nb\r\n")
        yield* vault.refresh
        assert.strictEqual((yield* get(store, system, note))?.body, "a\r\nb")
        assert.deepStrictEqual(
          (yield* store.list(system, { scope: "global" })).items.map(({ body }) => body),
          ["a\r\nb", "a\r\nb"]
        )
      })
  )

  law(
    "an earlier text that git checks out becomes the record's next revision",
    ({ read, root, store, vault }) =>
      Effect.gen(function*() {
        const git = (...args: ReadonlyArray<string>) =>
          execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false", ...args], {
            cwd: root,
            stdio: "pipe"
          })
        git("init", "-q")
        git("add", "-A")
        git("commit", "-qm", "one")
        assert.strictEqual(String(git("ls-files")).trim(), at, "sidecars stay out")
        yield* store.update(system, one, { body: "later" })
        const two = yield* put(store, draft("two"))
        git("add", "-A")
        git("commit", "-qm", "two")
        git("checkout", "-q", "HEAD~1")
        assert.include(read(at), "the first")
        yield* vault.refresh
        assert.deepInclude(yield* get(store, ada, one), { body: "the first", revision: 3 })
        assert.isUndefined(yield* get(store, ada, two.id))
        assert.deepStrictEqual((yield* store.history(system, one)).map(({ body }) => body), [
          "the first",
          "later",
          "the first"
        ])
        const again = yield* Effect.scoped(Effect.flatMap(opened(root), ({ store }) => get(store, ada, one)))
        assert.deepInclude(again, { body: "the first", revision: 3 })
        git("checkout", "-q", "-")
        yield* vault.refresh
        assert.deepInclude(yield* get(store, ada, one), { body: "later", revision: 4 })
        assert.deepInclude(yield* get(store, ada, two.id), { body: "two", revision: 3 })
        const updated = yield* store.update(system, one, { body: "last" }, { ifRevision: 4 })
        assert.strictEqual(updated.revision, 5)
        assert.lengthOf(yield* store.history(system, one), 5)
      })
  )
})

describe("a record's file that is copied or moved to another path", () => {
  const elsewhere = {
    "another user": pathOf("default", { userId: "bob" }, one),
    everyone: pathOf("default", "global", one),
    "a narrower scope": pathOf("default", { userId: "ada", agentId: "a" }, one),
    "another tenant": pathOf("other", { userId: "ada" }, one),
    "another id": pathOf("default", { userId: "ada" }, id("two")),
    "no id": "users/ada/copy of one.md",
    "no scope": "copy.md"
  }
  for (const [name, copy] of Object.entries(elsewhere)) {
    law(
      `a copy of a record's file at a path for ${name} is not a record, and is left unchanged`,
      ({ issues, read, store, vault, write, root }) =>
        Effect.gen(function*() {
          const original = read(at)
          write(copy, original)
          yield* vault.refresh
          assert.deepStrictEqual(yield* issues, [copy])
          assert.lengthOf((yield* store.list(system, {})).items, 1)
          assert.lengthOf((yield* store.list(Viewer.system("other"), {})).items, 0)
          // the copy is no record either after the original is edited or deleted
          write(at, original.replace("the first", "edited"))
          yield* vault.refresh
          assert.deepInclude(yield* get(store, ada, one), { body: "edited", scope: { userId: "ada" } })
          yield* store.update(ada, one, { body: "updated" })
          assert.strictEqual(read(copy), original)
          assert.deepStrictEqual(Object.keys(files(root)).sort(), [at, copy].sort())
          fs.rmSync(path.join(root, at))
          yield* vault.refresh
          assert.lengthOf((yield* store.list(system, {})).items, 0)
        })
    )
  }

  law(
    "renaming a record's file makes the record absent, and is reported, until the file has its old name again",
    ({ issues, read, root, store, vault }) =>
      Effect.gen(function*() {
        const text = read(at)
        const renamed = `${path.dirname(at)}/My tea.md`
        fs.renameSync(path.join(root, at), path.join(root, renamed))
        yield* vault.refresh
        assert.isUndefined(yield* get(store, ada, one))
        assert.deepStrictEqual((yield* store.list(ada, { forgotten: true })).items.map(({ id }) => id), [one])
        assert.deepStrictEqual(yield* issues, [renamed])
        fs.renameSync(path.join(root, renamed), path.join(root, at))
        yield* vault.refresh
        assert.strictEqual((yield* get(store, ada, one))?.body, "the first")
        assert.strictEqual(read(at), text)
      })
  )

  law(
    "renaming the folder of a record's scope makes the record absent until the folder has its old name again",
    ({ read, root, store, vault }) =>
      Effect.gen(function*() {
        const text = read(at)
        fs.renameSync(path.join(root, "users/ada"), path.join(root, "users/+eve"))
        yield* vault.refresh
        assert.isUndefined(yield* get(store, ada, one))
        fs.renameSync(path.join(root, "users/+eve"), path.join(root, "users/ada"))
        yield* vault.refresh
        assert.strictEqual((yield* get(store, ada, one))?.body, "the first")
        assert.strictEqual(read(at), text)
      })
  )
})

describe("a symbolic link", () => {
  law(
    "a symbolic link in place of a file is reported, not followed and not written to",
    ({ issues, root, store, vault }) =>
      Effect.gen(function*() {
        const outside = yield* place
        const target = path.join(outside, "secret.md")
        fs.writeFileSync(target, "secret")
        const linked = pathOf("default", { userId: "ada" }, id("linked"))
        fs.symlinkSync(target, path.join(root, linked))
        fs.symlinkSync(target, path.join(root, "note.md"))
        fs.symlinkSync(path.join(outside, "nowhere"), path.join(root, "dangling.md"))
        yield* vault.refresh
        assert.deepStrictEqual(yield* issues, ["dangling.md", "note.md", linked].sort())
        assert.lengthOf((yield* store.list(system, {})).items, 1)
        assert.strictEqual((yield* Effect.flip(put(store, draft("x", { id: id("linked") })))).reason, "corrupt")
        assert.deepStrictEqual(files(outside), { "secret.md": "secret" })
        fs.rmSync(path.join(root, "note.md"))
        fs.rmSync(path.join(root, "dangling.md"))
        yield* vault.refresh
        assert.deepStrictEqual(yield* issues, [linked])
      })
  )

  law(
    "a symbolic link in place of a folder is reported, not followed and not written through",
    ({ issues, root, store, vault }) =>
      Effect.gen(function*() {
        const outside = yield* place
        const stray = id("stray")
        fs.writeFileSync(path.join(outside, `${stray}.md`), text("kind: reference\nsummary: s"))
        fs.symlinkSync(outside, path.join(root, "users/bob"))
        fs.symlinkSync(outside, path.join(root, "agents"))
        yield* vault.refresh
        assert.deepStrictEqual(yield* issues, ["agents", "users/bob"])
        assert.lengthOf((yield* store.list(system, {})).items, 1)
        for (const scope of [{ userId: "bob" }, { agentId: "a" }, { userId: "bob", runId: "r" }]) {
          assert.strictEqual((yield* Effect.flip(store.put(system, [draft("x", { scope })]))).reason, "path_escape")
          const batch = [draft("whole"), draft("x", { scope })]
          assert.strictEqual((yield* Effect.flip(store.put(system, batch))).reason, "path_escape")
        }
        assert.deepStrictEqual(Object.keys(files(outside)), [`${stray}.md`])
        assert.deepStrictEqual(Object.keys(files(root)), [at])
        fs.rmSync(path.join(root, "users/bob"))
        yield* put(store, draft("x", { scope: { userId: "bob" } }), system)
        yield* vault.refresh
        assert.deepStrictEqual(yield* issues, ["agents"])
      })
  )

  law(
    "a symbolic link that replaces a folder of records makes these records absent",
    ({ issues, root, store, vault }) =>
      Effect.gen(function*() {
        const outside = yield* place
        fs.cpSync(path.join(root, "users"), path.join(outside, "users"), { recursive: true })
        fs.rmSync(path.join(root, "users"), { recursive: true })
        fs.symlinkSync(path.join(outside, "users"), path.join(root, "users"))
        assert.strictEqual((yield* Effect.flip(store.update(ada, one, { body: "x" }))).reason, "not_found")
        yield* vault.refresh
        assert.isUndefined(yield* get(store, ada, one))
        assert.deepStrictEqual(yield* issues, ["users"])
        assert.include(Object.values(files(outside)).join(), "the first")
      })
  )

  law(
    "a symbolic link in place of a temporary file is not written through",
    ({ root, store }) =>
      Effect.gen(function*() {
        const outside = yield* place
        fs.writeFileSync(path.join(outside, "precious"), "precious")
        const staging = path.join(root, ".effect-memory/turns")
        const writers = fs.readdirSync(staging)
        assert.isAtLeast(writers.length, 1)
        const folder = path.join(root, path.dirname(at))
        const names = writers.flatMap((writer) => [
          ...Array.from({ length: 40 }, (_, n) => path.join(staging, writer, `${n}`)),
          path.join(folder, `.${path.basename(at)}.~${writer}.tmp`)
        ])
        for (const name of [...names, path.join(folder, `.${one}.md.tmp`)]) {
          if (!fs.existsSync(name)) fs.symlinkSync(path.join(outside, "precious"), name)
        }
        yield* store.update(ada, one, { body: "x" })
        assert.strictEqual(fs.readFileSync(path.join(outside, "precious"), "utf8"), "precious")
        assert.strictEqual((yield* get(store, ada, one))?.body, "x")
      })
  )

  it.scopedLive("a symbolic link in place of .effect-memory prevents the vault from opening", () =>
    Effect.gen(function*() {
      const root = yield* place
      const outside = yield* place
      fs.symlinkSync(outside, path.join(root, ".effect-memory"))
      assert.strictEqual((yield* Effect.flip(opened(root))).reason, "path_escape")
      assert.deepStrictEqual(fs.readdirSync(outside), [])
    }))
})

describe("an invalid file", () => {
  const bomb = ["a: &a [x]", ...Array.from({ length: 30 }, (_, i) => `b${i}: &b${i} [*a, *a, *a, *a, *a, *a, *a, *a]`)]
  const bombs = Array.from({ length: 12 }, (_, i) => `k${i}: &k${i} [${i ? Array(9).fill(`*k${i - 1}`).join() : "x"}]`)
  const head = "kind: reference\nsummary: s\n"
  const bad: Readonly<Record<string, string | Uint8Array>> = {
    "many aliases": text(head + bomb.join("\n")),
    "aliases of aliases": text(head + bombs.join("\n")),
    "a duplicate key": text(`${head}kind: user`),
    "__proto__": text(`${head}__proto__:\n  polluted: true`),
    "__proto__ in its data": text(`${head}data:\n  __proto__:\n    polluted: true`),
    "tags that are not strings": text(`${head}tags: [1, {a: b}]`),
    "tags that are a map": text(`${head}tags: {a: b}`),
    "an unclosed frontmatter": "---\nkind: reference\n",
    "a list instead of a map": text("- a\n- b"),
    "an invalid time": text(`${head}createdAt: yesterday`),
    "a summary that is too long": text(`kind: reference\nsummary: ${"s".repeat(201)}`),
    "bytes that are no UTF-8": new Uint8Array([0x2d, 0xff, 0xfe, 0xc3, 0x28]),
    "two megabytes": "x".repeat(2 * 1024 * 1024),
    "a body that is too long": text(head, "x".repeat(1_048_577)),
    "another record's id": text(`${head}id: ${id("another")}`),
    "an invalid kind": text("kind: Not A Kind\nsummary: s"),
    "an unknown YAML tag": text(`${head}x: !!js/function "f"`),
    "a lone surrogate": text(`${head}tags: ["\\ud800"]`)
  }
  for (const [name, content] of Object.entries(bad)) {
    law(
      `a file with ${name} is left unchanged and pollutes no prototype; the reopened vault has the same issues`,
      ({ issues, root, store, vault, write }) =>
        Effect.gen(function*() {
          const there = pathOf("default", "global", id("bad"))
          write(there, content)
          yield* vault.refresh
          if (name !== "an unknown YAML tag" && name !== "__proto__ in its data") {
            assert.deepStrictEqual(yield* issues, [there])
            assert.lengthOf((yield* store.list(system, {})).items, 1)
          }
          assert.isUndefined(Reflect.get({}, "polluted"))
          assert.isTrue(fs.readFileSync(path.join(root, there)).equals(Buffer.from(content as string)))
          const again = yield* opened(root)
          assert.deepStrictEqual(
            (yield* again.vault.issues).map(({ error, path }) => [path, error.reason]),
            (yield* vault.issues).map(({ error, path }) => [path, error.reason])
          )
          yield* put(again.store, draft("still works"))
        })
    )
  }

  law(
    "a file with a NUL character in its body is read as a record with that body",
    ({ store, vault, write }) =>
      Effect.gen(function*() {
        write(pathOf("default", "global", id("nul")), text(head, "a\0b"))
        yield* vault.refresh
        assert.strictEqual((yield* get(store, system, id("nul")))?.body, "a\0b")
      })
  )

  law(
    "a named pipe with the name of a Markdown file is reported and does not block the vault",
    ({ issues, root, vault }) =>
      Effect.gen(function*() {
        execFileSync("mkfifo", [path.join(root, "pipe.md")])
        yield* vault.refresh
        assert.deepStrictEqual(yield* issues, ["pipe.md"])
      })
  )
})
