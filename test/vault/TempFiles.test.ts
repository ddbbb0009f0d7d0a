import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as fs from "node:fs"
import * as path from "node:path"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import { pathOf } from "../../src/storage/MemoryStore/Markdown/Layout.ts"
import * as VaultFileSystem from "../../src/storage/MemoryStore/Markdown/VaultFileSystem.ts"
import { ada, draft, get, id, put } from "../../src/testing/Sample.ts"
import { opened, place, platformWith } from "./Place.ts"

/** Sets the last change of a file to so many seconds ago. Makes the file first if it is missing. */
const plant = (file: string, { seconds }: { readonly seconds: number }) =>
  Effect.clockWith((clock) =>
    Effect.map(clock.currentTimeMillis, (now) => {
      fs.mkdirSync(path.dirname(file), { recursive: true })
      if (!fs.existsSync(file)) fs.writeFileSync(file, "half a rec")
      fs.utimesSync(file, now / 1_000 - seconds, now / 1_000 - seconds)
    })
  )

describe("a temporary file of a vault", () => {
  it.scopedLive("the next writer deletes old temporary files of a killed writer, and keeps all other files", () =>
    Effect.gen(function*() {
      const root = yield* place
      yield* Effect.scoped(opened(root)) // creates the vault, so that opening it again only reads
      const at = (name: string) => path.join(root, name)
      const dead = [
        `users/ada/.${id("a")}.md.tmp`,
        "agents/gone/runs/r/.note of mine.md.tmp",
        `tenants/acme/global/.${id("b")}.md.tmp`,
        ".effect-memory/turns/1a2b/1",
        `users/ada/.${id("f")}.md.~1a2b.tmp`,
        `.effect-memory/.journal.json.~1a2b.tmp`,
        `.effect-memory/outbox/.${id("g")}.md.~1a2b.tmp`
      ]
      const kept = [
        "users/ada/.draft.md",
        "users/ada/picture.tmp",
        `.git/.${id("a")}.md.tmp`
      ]
      const fresh = `users/ada/.${id("d")}.md.tmp`
      const elsewhere = yield* place
      for (const name of [...dead, ...kept]) yield* plant(at(name), { seconds: 60 })
      yield* plant(path.join(elsewhere, `.${id("e")}.md.tmp`), { seconds: 60 })
      fs.symlinkSync(elsewhere, at("linked"))
      fs.symlinkSync(path.join(elsewhere, `.${id("e")}.md.tmp`), at(`users/ada/.${id("e")}.md.tmp`))
      yield* plant(at(fresh), { seconds: 0 })

      const { store } = yield* opened(root, { lockTimeout: "30 seconds" })
      assert.isTrue(dead.every((name) => fs.existsSync(at(name))), "a reader erases nothing")
      const tea = yield* put(store, draft("tea"))
      assert.deepStrictEqual(dead.filter((name) => fs.existsSync(at(name))), [])
      assert.deepStrictEqual(kept.filter((name) => !fs.existsSync(at(name))), [])
      assert.isTrue(fs.existsSync(at(fresh)))
      assert.isTrue(fs.existsSync(at(`linked/.${id("e")}.md.tmp`)))
      assert.deepStrictEqual(yield* get(store, ada, tea.id), tea)
    }))

  for (const isDirect of [true, false]) {
    it.scopedLive(
      `a writer ${
        isDirect ? "that calls Node directly" : "with a wrapped FileSystem"
      } replaces no file after another process has removed the writer's folder of temporary files`,
      () =>
        Effect.gen(function*() {
          const root = yield* place
          const [writer, thief] = yield* Effect.all([VaultFileSystem.make(root), VaultFileSystem.make(root)]).pipe(
            Effect.provide(isDirect ? NodeContext.layer : platformWith(() => ({})))
          )
          const at = path.join(root, "a/b/file")
          yield* writer.createStaging
          for (const text of ["one", "two"]) {
            yield* writer.write("a/b/file", text, { force: false, isFenced: true })
            assert.strictEqual(fs.readFileSync(at, "utf8"), text)
          }
          fs.rmSync(path.join(root, "a"), { recursive: true })
          yield* writer.write("a/b/file", "three", { force: false, isFenced: true })
          const ended = thief.fence(writer.writerId)
          // removes the writer's folder before a write, and later between writing the temporary file and renaming it
          yield* ended
          yield* Effect.flip(writer.write("a/b/file", "late", { force: false, isFenced: true }))
          yield* writer.createStaging
          yield* Effect.flip(writer.write("a/b/file", "late", { force: false, isFenced: true, guard: ended }))
          yield* Effect.flip(writer.write("a/c/file", "late", { force: false, isFenced: true }))
          assert.strictEqual(fs.readFileSync(at, "utf8"), "three")
          assert.isFalse(fs.existsSync(path.join(root, "a/c/file")))
          yield* writer.createStaging
          yield* writer.write("a/b/file", "again", { force: false, isFenced: true })
          assert.strictEqual(fs.readFileSync(at, "utf8"), "again")
        })
    )
  }

  it.scopedLive("a write fails with `conflict` and replaces no file if its writer has lost the lock", () =>
    Effect.gen(function*() {
      const root = yield* place
      const [sleeper, other] = yield* Effect.all([VaultFileSystem.make(root), VaultFileSystem.make(root)])
      const lost = MemoryError.make("conflict", { op: "lock", message: "lost", detail: { expected: 0, actual: 0 } })
      const failed = (write: Effect.Effect<void, MemoryError.MemoryError>) =>
        Effect.map(Effect.flip(write), ({ reason }) => assert.strictEqual(reason, "conflict"))
      // the loss of the lock is noticed before the rename
      const early = failed(sleeper.write("a", "sleeper", { guard: lost }))
      yield* other.write("a", "other", { guard: Effect.orDie(early) })
      assert.strictEqual(fs.readFileSync(path.join(root, "a"), "utf8"), "other")
      // the write also fails if its temporary file has been deleted meanwhile
      let asked = 0
      const sweep = Effect.suspend(() => {
        if (asked++ > 0) return lost
        for (const name of fs.readdirSync(root)) if (name.endsWith(".tmp")) fs.rmSync(path.join(root, name))
        return Effect.void
      })
      yield* failed(sleeper.write("a", "sleeper", { guard: sweep }))
      assert.deepStrictEqual(fs.readdirSync(root), ["a"])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("a temporary file of a live writer is not deleted, even if the file is an hour old", () =>
    Effect.gen(function*() {
      const root = yield* place
      const [reached, go] = yield* Effect.all([Deferred.make<void>(), Deferred.make<void>()])
      const file = path.join(root, pathOf("default", { userId: "ada" }, id("slow")))
      const slow = yield* opened(
        root,
        {},
        platformWith((fs) => ({
          rename: (from, to) =>
            to === file
              ? Effect.zipRight(
                Effect.zipRight(Deferred.succeed(reached, undefined), Deferred.await(go)),
                fs.rename(from, to)
              )
              : fs.rename(from, to)
        }))
      )
      const other = yield* opened(root)
      const writing = yield* Effect.fork(put(slow.store, draft("slow", { id: id("slow") })))
      yield* Deferred.await(reached)
      const turns = path.join(root, ".effect-memory/turns")
      const [temporary] = fs.readdirSync(turns).flatMap((own) =>
        fs.readdirSync(path.join(turns, own)).map((name) => path.join(turns, own, name))
      )
      if (temporary === undefined) return yield* Effect.dieMessage("nothing is being written")
      yield* plant(temporary, { seconds: 3_600 })
      const next = yield* Effect.fork(put(other.store, draft("quick")))
      yield* other.vault.refresh
      assert.isTrue(fs.existsSync(temporary))
      yield* Deferred.succeed(go, undefined)
      const record = yield* Fiber.join(writing)
      yield* Fiber.join(next)
      assert.deepStrictEqual(yield* get(slow.store, ada, record.id), record)
      assert.isFalse(fs.existsSync(temporary))
    }))
})
