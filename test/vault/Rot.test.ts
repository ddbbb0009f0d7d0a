/** Files whose bytes change while size, times and inode stay the same, as with bit rot or tools that reset a file's time. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import * as VaultFile from "../../src/storage/MemoryStore/Markdown/VaultFile.ts"
import { ada, draft, get, listed, put } from "../../src/testing/Sample.ts"
import { files, opened, place } from "./Place.ts"

const hour = 3_600_000

/** Changes a file's bytes in place, and restores its times. */
const rot = (root: string, from: string, to: string) =>
  Effect.sync(() => {
    const [name, text] = Object.entries(files(root)).find(([, text]) => text.includes(from))!
    const file = path.join(root, name)
    const { atime, ino, mtime, size } = fs.statSync(file)
    fs.writeFileSync(file, text.replaceAll(from, to))
    fs.utimesSync(file, atime, mtime)
    assert.deepInclude(fs.statSync(file), { ino, size, mtime })
  })

/** Makes a vault with one record. Sets the mtime of its file to an hour ago, scans the file, and then changes its bytes with `rot`. */
const settled = Effect.gen(function*() {
  const root = yield* place
  const vault = yield* opened(root)
  const record = yield* put(vault.store, draft("green tea"))
  const then = (Date.now() - hour) / 1_000
  for (const name of Object.keys(files(root))) fs.utimesSync(path.join(root, name), then, then)
  yield* vault.vault.refresh
  yield* rot(root, "green", "black")
  return { root, record, ...vault }
})

describe("a file whose bytes changed although its size, times and inode are the same", () => {
  it.scopedLive("an update of a record's tags keeps its file's changed text, and a later update of the text replaces that text", () =>
    Effect.gen(function*() {
      const { record, root, store } = yield* settled
      yield* store.update(ada, record.id, { tags: ["hot"] })
      assert.deepInclude(yield* get(store, ada, record.id), { body: "black tea", tags: ["hot"] })
      yield* store.update(ada, record.id, { body: "white tea" })
      assert.strictEqual((yield* get(store, ada, record.id))?.body, "white tea")
      assert.include(Object.values(files(root)).join(), "white tea")
    }))

  it.scopedLive("the file is deleted when its record is forgotten", () =>
    Effect.gen(function*() {
      const { record, root, store } = yield* settled
      assert.deepStrictEqual(yield* store.forget(ada, [record.id]), [true])
      assert.deepStrictEqual(yield* listed(store, ada), [])
      assert.deepStrictEqual(files(root), {})
    }))

  it.scopedLive("the file is deleted when its record is purged, and the history of the record is empty", () =>
    Effect.gen(function*() {
      const { record, root, store } = yield* settled
      assert.deepStrictEqual(yield* store.forget(ada, [record.id], { purge: true }), [true])
      assert.deepStrictEqual(yield* listed(store, ada), [])
      assert.deepStrictEqual(files(root), {})
      assert.deepStrictEqual(yield* store.history(ada, record.id), [])
    }))

  it.scopedLive("vault.refresh notices the change of the bytes if the file is in the sample of the scan", () =>
    Effect.gen(function*() {
      const { store, vault } = yield* settled
      yield* vault.refresh
      assert.deepStrictEqual(yield* listed(store, ada), ["black tea"])
    }))
})

describe("the sample of files whose content each scan checks", () => {
  it("each scan checks at most a hundredth of the files, rounded up, and a hundred scans check every file", () => {
    for (const count of [0, 1, 99, 100, 101, 1_234]) {
      const paths = Array.from({ length: count }, (_, n) => `${n}.md`)
      const sampling = VaultFile.makeSampling()
      const seen = new Set<string>()
      for (let look = 0; look < VaultFile.rounds; look++) {
        const sample = sampling.next(paths, 123_456_789 + look)
        assert.isAtMost(sample.size, Math.ceil(count / 100))
        for (const path of sample) seen.add(path)
      }
      assert.strictEqual(seen.size, count)
    }
  })

  it("the first file whose content a process checks depends on the clock", () => {
    const paths = Array.from({ length: 1_000 }, (_, n) => `${n}.md`)
    const firsts = Array.from({ length: 50 }, (_, n) => [...VaultFile.makeSampling().next(paths, n)][0])
    assert.strictEqual(new Set(firsts).size, 50)
  })
})
