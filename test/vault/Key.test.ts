/** Tests of a vault's key, which is stored twice with a checksum: what repairs it, what prevents an opening, and what replaces it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import type { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import { ada, draft, put } from "../../src/testing/Sample.ts"
import { files, opened, place } from "./Place.ts"

const hidden = (root: string, name = "") => path.join(root, ".effect-memory", name)
const manifest = (root: string) => hidden(root, "vault.json")
const copy = (root: string) => hidden(root, "vault.copy.json")

/** Makes a closed vault with twelve records. */
const filled = Effect.tap(place, (root) =>
  Effect.scoped(Effect.gen(function*() {
    const { store } = yield* opened(root)
    for (let n = 0; n < 12; n++) yield* put(store, draft(`tea ${n}`))
  })))

const sources = (records: ReadonlyArray<MemoryRecord>) => records.map(({ source }) => [source.origin, source.trust])
const state = (root: string) =>
  Effect.scoped(Effect.flatMap(opened(root), ({ store, vault }) =>
    Effect.gen(function*() {
      assert.deepStrictEqual((yield* vault.issues).filter(({ path }) => path !== ".effect-memory"), [])
      return sources((yield* store.list(ada, {})).items)
    })))
const refused = (root: string) =>
  Effect.gen(function*() {
    const before = all(root)
    const error = yield* Effect.flip(Effect.scoped(opened(root)))
    assert.strictEqual(error.reason, "corrupt")
    assert.include(error.message, "vault.json")
    assert.include(error.message, "\"key\":\"new\"")
    assert.include(error.message, "docs/vault.md")
    assert.deepStrictEqual(all(root), before, "nothing was touched")
  })
const all = (root: string) =>
  fs.readdirSync(root, { recursive: true, encoding: "utf8" }).sort()
    .filter((name) => fs.statSync(path.join(root, name)).isFile() && !name.endsWith("lock"))
    .map((name) => [name, fs.readFileSync(path.join(root, name), "base64")])

const mine = Array.from({ length: 12 }, () => ["user", 1])
const file = Array.from({ length: 12 }, () => ["file", 2])

/** Rewrites the manifest as earlier releases wrote it: without checksum, and without a second copy. */
const old = (root: string) =>
  Effect.sync(() => {
    const { key } = JSON.parse(fs.readFileSync(manifest(root), "utf8"))
    fs.writeFileSync(manifest(root), JSON.stringify({ version: 1, key }))
    fs.rmSync(copy(root))
    return { key } as { key: string }
  })
const turned = (key: string) => (key.startsWith("0") ? "1" : "0") + key.slice(1)

describe("the key of a vault, with which it signs its records", () => {
  for (const damaged of [manifest, copy]) {
    const name = path.basename(damaged(""))
    const ways: Readonly<Record<string, (text: string) => string | undefined>> = {
      "cut in half": (text) => text.slice(0, text.length / 2),
      empty: () => "",
      "all zero bytes": (text) => "\0".repeat(text.length),
      deleted: () => undefined,
      "an array": () => "[1]"
    }
    for (const [way, damage] of Object.entries(ways)) {
      it.scopedLive(`the key is read from the undamaged copy of the manifest if ${name} is ${way}, and ${name} is repaired`, () =>
        Effect.gen(function*() {
          const root = yield* filled
          const whole = fs.readFileSync(damaged(root), "utf8")
          const text = damage(whole)
          if (text === undefined) fs.rmSync(damaged(root))
          else fs.writeFileSync(damaged(root), text)
          assert.deepStrictEqual(yield* state(root), mine)
          assert.strictEqual(fs.readFileSync(damaged(root), "utf8"), whole)
        }))
    }

    it.scopedLive(`the key is still read if one bit of ${name} is flipped, and ${name} is repaired`, () =>
      Effect.gen(function*() {
        const root = yield* filled
        const whole = fs.readFileSync(damaged(root), "utf8")
        for (let at = 0; at < whole.length; at += at < 30 || at > whole.length - 20 ? 1 : 17) {
          const bytes = Buffer.from(whole)
          bytes[at]! ^= 1 << at % 7
          fs.writeFileSync(damaged(root), bytes)
          assert.deepStrictEqual(yield* state(root), mine, `${at}`)
          assert.strictEqual(fs.readFileSync(damaged(root), "utf8"), whole, `${at}`)
        }
      }))
  }

  it.scopedLive("the key is read from vault.copy.json if a folder is in place of vault.json", () =>
    Effect.gen(function*() {
      const root = yield* filled
      fs.rmSync(manifest(root))
      fs.mkdirSync(manifest(root))
      assert.deepStrictEqual(yield* state(root), mine)
    }))

  it.scopedLive("the key of a vault of an earlier release gets a checksum and a second copy at the next opening", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const { key } = yield* old(root)
      assert.deepStrictEqual(yield* state(root), mine)
      const whole = fs.readFileSync(manifest(root), "utf8")
      const { checksum, ...rest } = JSON.parse(whole)
      assert.deepStrictEqual(rest, { version: 2, key }, "its notes are read as they were")
      assert.match(checksum, /^[0-9a-f]{64}$/)
      assert.strictEqual(fs.readFileSync(copy(root), "utf8"), whole)
    }))

  it.scopedLive("a vault of an earlier release does not open if a digit of its key was changed, and no file is changed", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const { key } = yield* old(root)
      fs.writeFileSync(manifest(root), JSON.stringify({ version: 1, key: turned(key) }))
      yield* refused(root)
    }))

  it.scopedLive("a vault whose key is missing from both copies of the manifest does not open, and no file is changed", () =>
    Effect.gen(function*() {
      for (const text of [undefined, "", "{\"version\":1,"]) {
        const root = yield* filled
        for (const name of [manifest(root), copy(root)]) {
          if (text === undefined) fs.rmSync(name)
          else fs.writeFileSync(name, text)
        }
        yield* refused(root)
      }
    }))

  it.scopedLive("a vault with another vault's key in both copies of its manifest does not open, and no file is changed", () =>
    Effect.gen(function*() {
      const [root, other] = [yield* filled, yield* filled]
      for (const name of ["vault.json", "vault.copy.json"]) fs.copyFileSync(hidden(other, name), hidden(root, name))
      yield* refused(root)
    }))

  it.scopedLive("another vault's key in one copy of the manifest is replaced by the key that signed the records", () =>
    Effect.gen(function*() {
      for (const name of ["vault.json", "vault.copy.json"]) {
        const [root, other] = [yield* filled, yield* filled]
        fs.copyFileSync(hidden(other, name), hidden(root, name))
        assert.deepStrictEqual(yield* state(root), mine)
        assert.deepStrictEqual(fs.readFileSync(manifest(root)), fs.readFileSync(copy(root)))
      }
    }))

  it.scopedLive("a vault with `new` in place of its key in vault.json, and without vault.copy.json, opens and keeps its records' origin and trust", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const first = yield* Effect.scoped(Effect.flatMap(opened(root), ({ store }) =>
        Effect.gen(function*() {
          const [first] = (yield* store.list(ada, {})).items
          yield* store.update(ada, first!.id, { importance: 0.9 })
          return first!
        })))
      fs.writeFileSync(manifest(root), "{\"version\":1,\"key\":\"new\"}")
      fs.rmSync(copy(root))
      for (let opening = 0; opening < 2; opening++) assert.deepStrictEqual(yield* state(root), mine)
      const { store } = yield* opened(root)
      assert.isAbove((yield* store.history(ada, first.id)).length, 1)
      yield* put(store, draft("sealed anew"))
    }))

  it.scopedLive("a vault without its .effect-memory folder opens, and its records have origin `file` and trust 2 at every opening", () =>
    Effect.gen(function*() {
      const root = yield* filled
      fs.rmSync(hidden(root), { recursive: true })
      for (let opening = 0; opening < 3; opening++) assert.deepStrictEqual(yield* state(root), file)
      fs.writeFileSync(manifest(root), "")
      assert.deepStrictEqual(yield* state(root), file)
    }))

  it.scopedLive("a vault still opens even if edits by hand have made the signatures of all records invalid", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const later = Date.now() / 1_000 + 60
      for (const [name, text] of Object.entries(files(root))) {
        fs.writeFileSync(path.join(root, name), text.replace("tea", "chai"))
        fs.utimesSync(path.join(root, name), later, later)
      }
      assert.deepStrictEqual(yield* state(root), file)
      const { store } = yield* opened(root)
      yield* put(store, draft("sealed"))
    }))

  it.scopedLive("opening a vault generates a key if an earlier opening was interrupted before the vault had a key", () =>
    Effect.gen(function*() {
      const root = yield* place
      fs.mkdirSync(hidden(root))
      fs.writeFileSync(manifest(root), "")
      const { store } = yield* opened(root)
      yield* put(store, draft("tea"))
      assert.match(JSON.parse(fs.readFileSync(manifest(root), "utf8")).key, /^[0-9a-f]{64}$/)
    }))
})
