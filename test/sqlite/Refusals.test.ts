import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { current } from "../../src/storage/MemoryStore/Sql/Tables.ts"
import { place } from "../vault/Place.ts"
import { all, bob, bodies, bytesOf, draft, file, opened, peer, raw, sound } from "./File.ts"

/** Makes a file with one record, and closes it. */
const made = (filename: string) =>
  Effect.scoped(Effect.flatMap(opened(filename), (store) => store.put(bob, [draft("amber, as it was")])))

const reasonOf = (filename: string) =>
  Effect.map(Effect.flip(Effect.scoped(opened(filename))), ({ message, op, reason }) => ({ message, op, reason }))

/** Whether this process may mount a file system: root may, except in most containers. */
const mayMount = (() => {
  try {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "disk-"))
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], { stdio: "ignore" })
    execFileSync("umount", [folder])
    fs.rmdirSync(folder)
    return true
  } catch {
    return false
  }
})()

/** Mounts a file system of this size, until the scope closes. */
const disk = (size: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = fs.mkdtempSync(path.join(os.tmpdir(), "disk-"))
      execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", folder])
      return folder
    }),
    (folder) =>
      Effect.sync(() => {
        execFileSync("umount", ["-l", folder])
        fs.rmdirSync(folder)
      })
  )

/** Writes the file `ballast`, so large that about `left` + 400,000 bytes of its disk stay free. */
const fill = (ballast: string, left: number) => {
  const { bavail, bsize } = fs.statfsSync(path.dirname(ballast))
  fs.writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - 400_000 - left)))
}

describe("opening a SQLite file", () => {
  it.scopedLive("opening a file of a later release fails, advises to use a later release, and changes no byte", () =>
    Effect.gen(function*() {
      for (const mode of ["WAL", "DELETE"]) {
        const filename = yield* file
        yield* made(filename)
        yield* raw(
          filename,
          `UPDATE memory_meta SET value = '${current + 1}' WHERE name = 'version'`,
          `PRAGMA journal_mode = ${mode}`
        )
        const before = bytesOf(path.dirname(filename))
        const { message, reason } = yield* reasonOf(filename)
        assert.strictEqual(reason, "unsupported")
        assert.include(message, `version ${current + 1}, this release knows ${current}. Use a later release`)
        assert.deepStrictEqual(bytesOf(path.dirname(filename)), before)
      }
    }))

  it.scopedLive("a store keeps working on its open file after a second opening was refused because the file is of a later release", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const other = yield* opened(filename)
      yield* raw(filename, `UPDATE memory_meta SET value = '${current + 1}' WHERE name = 'version'`)
      assert.strictEqual((yield* reasonOf(filename)).reason, "unsupported")
      yield* other.put(bob, [draft("later")])
      assert.deepStrictEqual(bodies(yield* all(other)), ["later"])
    }))

  it.scopedLive("opening a file that is not a database fails with `corrupt`, and changes no byte", () =>
    Effect.gen(function*() {
      const filename = yield* file
      fs.writeFileSync(filename, "# Shopping\n\n".repeat(1_000))
      const before = bytesOf(path.dirname(filename))
      assert.strictEqual((yield* reasonOf(filename)).reason, "corrupt")
      assert.deepStrictEqual(bytesOf(path.dirname(filename)), before)
    }))

  it.scopedLive("a name that is empty, missing or has a NUL character fails with `invalid_draft`", () =>
    Effect.gen(function*() {
      for (const filename of ["", "  ", "a\0b", undefined as never]) { // an untyped caller may pass any value
        const { message, reason } = yield* reasonOf(filename)
        assert.deepStrictEqual([reason, message.includes("filename: expected")], ["invalid_draft", true])
      }
    }))

  it.scopedLive("an empty file is opened as a new database", () =>
    Effect.gen(function*() {
      const filename = yield* file
      fs.writeFileSync(filename, "")
      yield* made(filename)
      yield* sound(filename)
    }))

  it.scopedLive("a file with tables of another program can be opened, and those tables stay unchanged", () =>
    Effect.gen(function*() {
      const filename = yield* file
      yield* raw(filename, "CREATE TABLE theirs (a)", "INSERT INTO theirs VALUES (1)")
      yield* made(filename)
      assert.deepStrictEqual(yield* raw(filename, "SELECT a FROM theirs"), [{ a: 1 }])
    }))

  it.scopedLive("opening a folder, or a file in a missing folder, fails with `io` and creates nothing", () =>
    Effect.gen(function*() {
      const root = yield* place
      const missing = yield* reasonOf(path.join(root, "missing", "memory.db"))
      assert.deepStrictEqual([missing.op, missing.reason], ["make", "io"])
      assert.include(missing.message, "folder")
      assert.strictEqual((yield* reasonOf(root)).reason, "io")
      assert.deepStrictEqual(fs.readdirSync(root), [])
    }))

  it.scopedLive("opening fails with `unsupported` if no driver is installed; the error names the packages to install", () =>
    Effect.gen(function*() {
      const { devDependencies } = JSON.parse(
        fs.readFileSync(path.join(import.meta.dirname, "../../package.json"), "utf8")
      )
      const filename = yield* file
      const { ask, tell } = yield* peer
      yield* tell("without", "@effect/sql-sqlite-node")
      const { failed } = yield* ask("open", filename)
      assert.deepStrictEqual([failed?.op, failed?.reason], ["make", "unsupported"])
      for (const name of ["@effect/sql-sqlite-node", "@effect/sql", "@effect/experimental"]) {
        const minor = /^\d+\.\d+/.exec(devDependencies[name])
        assert.include(failed?.message, `${name}@^${minor}`)
      }
      assert.isFalse(fs.existsSync(filename))
    }))
})

describe("a SQLite file without write access or space", () => {
  it.scopedLive("a read-only file or folder makes opening or the first write fail with `read_only`", () =>
    Effect.gen(function*() {
      const { ask, tell } = yield* peer
      yield* tell("nobody")
      for (const modes of [{ file: 0o444, folder: 0o777 }, { file: 0o666, folder: 0o555 }]) {
        const filename = yield* file
        const folder = path.dirname(filename)
        yield* made(filename)
        fs.chmodSync(filename, modes.file)
        fs.chmodSync(folder, modes.folder)
        const before = bytesOf(folder)
        const { died, failed } = yield* ask("open", filename)
        assert.isUndefined(died)
        const reason = failed?.reason ?? (yield* ask("call", "put", [draft("no")])).failed?.reason
        assert.strictEqual(reason, "read_only")
        yield* tell("close")
        assert.deepStrictEqual(bytesOf(folder)[0], before[0])
        fs.chmodSync(folder, 0o777)
      }
    }))

  it.scopedLive("writes fail with `io` and write nothing while the file cannot grow, and succeed once there is space", () =>
    Effect.gen(function*() {
      const filename = yield* file
      yield* made(filename)
      const { ask, tell } = yield* peer
      yield* tell("room", 80)
      yield* tell("open", filename)
      const batch = (name: string) => Array.from({ length: 40 }, (_, n) => draft(`${name} ${n} ${"x".repeat(2_000)}`))
      const kept: Array<string> = ["amber, as it was"]
      for (let n = 0;; n++) {
        assert.isBelow(n, 20)
        const { died, failed } = yield* ask("call", "put", batch(String(n)))
        assert.isUndefined(died)
        if (failed !== undefined) {
          assert.deepStrictEqual([failed.reason, failed.message], ["io", "sqlite: the disk is full"])
          break
        }
        kept.push(...batch(String(n)).map(({ body }) => body))
      }
      // reads still work, in the process that cannot write and in others
      const listed = yield* tell("call", "search", { text: "amber" })
      assert.include(JSON.stringify(listed), "amber, as it was")
      const store = yield* opened(filename)
      assert.deepStrictEqual(bodies(yield* all(store)), kept.sort())
      yield* sound(filename)
      yield* tell("room", 10_000)
      yield* tell("call", "put", batch("more"))
      assert.lengthOf(yield* all(store), kept.length + 40)
      yield* sound(filename)
    }))

  // skipped on machines where no disk can be mounted; there, only the test above, which limits the pages of the file, covers this
  if (mayMount) {
    it.scopedLive(
      "a write on a full disk fails with `io` and writes nothing; later writes succeed once there is space",
      () =>
        Effect.gen(function*() {
          const folder = yield* disk("2m")
          const filename = path.join(folder, "memory.db")
          const ballast = path.join(folder, "ballast")
          const store = yield* opened(filename)
          const kept: Array<string> = []
          const batch = (name: string) =>
            Array.from({ length: 30 }, (_, n) => draft(`${name} ${n} ${"x".repeat(2_000)}`))
          // varies the free space, so that the disk is full at another point each time
          for (let round = 0; round < 6; round++) {
            fill(ballast, 4_096 + round * 1_000)
            for (let n = 0;; n++) {
              const result = yield* Effect.either(store.put(bob, batch(`${round} ${n}`)))
              if (result._tag === "Left") {
                assert.strictEqual(result.left.reason, "io")
                break
              }
              kept.push(...batch(`${round} ${n}`).map(({ body }) => body))
            }
            assert.deepStrictEqual(bodies(yield* all(store)), kept.sort())
            const fresh = yield* Effect.exit(Effect.scoped(opened(path.join(folder, "another.db"))))
            if (fresh._tag === "Failure") assert.include(String(fresh.cause), "MemoryError")
            for (const end of ["", "-wal", "-shm"]) fs.rmSync(path.join(folder, `another.db${end}`), { force: true })
            fs.rmSync(ballast)
            yield* store.put(bob, [draft(`room ${round}`)])
            kept.push(`room ${round}`)
          }
          assert.deepStrictEqual(bodies(yield* all(yield* opened(filename))), kept.sort())
          yield* sound(filename)
        })
    )
  }
})
