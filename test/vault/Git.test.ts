/** Tests of a vault under git, with the installed git: clones, checkouts while the vault is open or closed, and merges. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { pathOf } from "../../src/storage/MemoryStore/Markdown/Layout.ts"
import { ada, draft, get, id, listed, put } from "../../src/testing/Sample.ts"
import { files, type Opened, opened, place } from "./Place.ts"

const [a, b, c] = [id("a"), id("b"), id("c")]
const at = (one: typeof a) => pathOf("default", { userId: "ada" }, one)

/** Runs git in a folder, with a fixed configuration. Throws if git fails, also at a merge conflict. */
const git = (root: string, ...args: ReadonlyArray<string>) => {
  const settings = ["user.name=Ada", "user.email=ada@example.com", "init.defaultBranch=main", "core.autocrlf=false"]
  const env = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" }
  return execFileSync("git", [...settings.flatMap((one) => ["-c", one]), ...args], {
    cwd: root,
    env,
    stdio: ["ignore", "pipe", "ignore"],
    encoding: "utf8"
  })
}
const commit = (root: string) => {
  git(root, "add", "-A")
  git(root, "commit", "-q", "-m", "memories")
}

/** Makes a vault with two commits. The first adds `a`, `b` and a hand-written note; the second changes `a`, forgets `b` and adds `c`. */
const committed = Effect.gen(function*() {
  const root = yield* place
  git(root, "init", "-q")
  yield* Effect.scoped(Effect.gen(function*() {
    const { store } = yield* opened(root)
    yield* put(store, draft("a 1", { id: a }))
    yield* put(store, draft("b 1", { id: b }))
    fs.writeFileSync(path.join(root, "Note.md"), "by hand\n")
  }))
  commit(root)
  yield* Effect.scoped(Effect.gen(function*() {
    const { store } = yield* opened(root)
    yield* store.update(ada, a, { body: "a 2" })
    yield* store.forget(ada, [b])
    yield* put(store, draft("c 1", { id: c }))
  }))
  commit(root)
  return root
})

/** Changes the files of a vault with `move`, while the vault is open or closed. Checks the vault then, and after a reopening. */
const moved = <E>(
  root: string,
  isRunning: boolean,
  move: () => void,
  check: (vault: Opened) => Effect.Effect<void, E, Scope.Scope>
) =>
  Effect.gen(function*() {
    if (!isRunning) move()
    yield* Effect.scoped(Effect.gen(function*() {
      const vault = yield* opened(root)
      if (isRunning) move()
      yield* vault.vault.refresh
      yield* check(vault)
    }))
    yield* Effect.scoped(Effect.flatMap(opened(root), check))
  })
const revisions = ({ store }: Opened, one: typeof a) =>
  Effect.map(store.history(ada, one), (past) => past.map(({ body, revision }) => `${revision} ${body}`))

describe("a vault under git", () => {
  it.scopedLive("git commits no file of .effect-memory, so neither the vault's key nor its history is in a commit", () =>
    Effect.gen(function*() {
      const root = yield* committed
      const tracked = git(root, "ls-files").trim().split("\n")
      assert.sameMembers(tracked, [at(a), at(c), "Note.md"])
      assert.strictEqual(git(root, "status", "--porcelain"), "")
    }))

  it.scopedLive("the records of a cloned vault have origin `file` and trust 2 until vault.adopt is called", () =>
    Effect.gen(function*() {
      const [origin, root] = [yield* committed, path.join(yield* place, "clone")]
      git(origin, "clone", "-q", origin, root)
      const before = files(root)
      yield* Effect.scoped(Effect.gen(function*() {
        const { store, vault } = yield* opened(root)
        assert.sameMembers(yield* listed(store, ada), ["a 2", "c 1", "by hand"])
        assert.deepInclude((yield* get(store, ada, a))?.source, { origin: "file", trust: 2 })
        assert.deepStrictEqual((yield* vault.issues).map((issue) => issue.path), [".effect-memory"])
        assert.deepStrictEqual(files(root), before, "opened, and not written to")
        assert.strictEqual(git(root, "status", "--porcelain"), "")
        assert.strictEqual(yield* vault.adopt, 2)
        assert.deepStrictEqual(yield* vault.issues, [])
      }))
      const { store } = yield* opened(root)
      assert.deepInclude((yield* get(store, ada, a))?.source, { origin: "user", trust: 1 })
    }))

  for (const isRunning of [true, false]) {
    const when = isRunning ? "while the vault is open" : "while the vault is closed"
    it.scopedLive(
      `an old text that git checks out ${when} becomes its record's next revision, with the origin and trust of the old text`,
      () =>
        Effect.gen(function*() {
          const root = yield* committed
          yield* moved(root, isRunning, () =>
            void git(root, "checkout", "-q", "main~1"), (vault) =>
            Effect.gen(function*() {
              const { store, vault: folder } = vault
              assert.sameMembers(yield* listed(store, ada), ["a 1", "b 1", "by hand"])
              assert.deepStrictEqual(yield* revisions(vault, a), ["3 a 1", "2 a 2", "1 a 1"])
              assert.deepInclude((yield* get(store, ada, a))?.source, { origin: "user", trust: 1 })
              assert.deepStrictEqual((yield* revisions(vault, b)).slice(-1), ["1 b 1"])
              assert.deepStrictEqual(
                (yield* store.list(ada, { forgotten: true })).items.map(({ body }) =>
                  body
                ),
                ["c 1"]
              )
              assert.deepStrictEqual(yield* folder.issues, [])
            }))
          assert.strictEqual(git(root, "status", "--porcelain"), "", "no file was written")
          yield* moved(root, isRunning, () =>
            void git(root, "checkout", "-q", "main"), (vault) =>
            Effect.gen(function*() {
              const { store, vault: folder } = vault
              assert.sameMembers(yield* listed(store, ada), ["a 2", "c 1", "by hand"])
              assert.deepStrictEqual(yield* revisions(vault, a), ["4 a 2", "3 a 1", "2 a 2", "1 a 1"])
              assert.deepStrictEqual(
                (yield* store.list(ada, { forgotten: true })).items.map(({ body }) =>
                  body
                ),
                ["b 1"]
              )
              assert.deepStrictEqual(yield* folder.issues, [])
            }))
          assert.strictEqual(git(root, "status", "--porcelain"), "", "no file was written")
          // the vault can still be written to
          const { store } = yield* opened(root)
          yield* store.update(ada, a, { body: "a 5" })
          assert.deepInclude(yield* get(store, ada, a), { body: "a 5", revision: 5 })
        })
    )

    it.scopedLive(
      `a git merge conflict ${when} keeps the last valid revision; the resolved file becomes the next revision`,
      () =>
        Effect.gen(function*() {
          const root = yield* committed
          git(root, "checkout", "-q", "-b", "theirs")
          yield* Effect.scoped(Effect.flatMap(opened(root), ({ store }) => store.update(ada, a, { body: "a theirs" })))
          commit(root)
          git(root, "checkout", "-q", "main")
          yield* Effect.scoped(Effect.flatMap(opened(root), ({ store }) => store.update(ada, a, { body: "a ours" })))
          commit(root)
          const merge = () => {
            assert.throws(() => git(root, "merge", "-q", "theirs"))
            assert.include(files(root)[at(a)], "<<<<<<< HEAD")
          }
          yield* moved(root, isRunning, merge, (vault) =>
            Effect.gen(function*() {
              const { store, vault: folder } = vault
              assert.sameMembers(yield* listed(store, ada), ["a ours", "c 1", "by hand"])
              assert.deepStrictEqual((yield* folder.issues).map((issue) => issue.path), [at(a)])
              assert.deepStrictEqual((yield* revisions(vault, a)).slice(0, 2), ["5 a ours", "4 a 2"])
              assert.strictEqual((yield* Effect.flip(store.update(ada, a, { body: "x" }))).reason, "corrupt")
              assert.include(files(root)[at(a)], "<<<<<<< HEAD")
            }))
          yield* moved(root, isRunning, () =>
            void git(root, "checkout", "-q", "--theirs", at(a)), (vault) =>
            Effect.gen(function*() {
              const { store, vault: folder } = vault
              assert.deepInclude(yield* get(store, ada, a), { body: "a theirs", revision: 6 })
              assert.deepStrictEqual(yield* folder.issues, [])
              assert.deepStrictEqual((yield* revisions(vault, a)).slice(0, 3), ["6 a theirs", "5 a ours", "4 a 2"])
            }))
        })
    )
  }
})
