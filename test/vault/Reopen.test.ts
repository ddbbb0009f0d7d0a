import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as fs from "node:fs"
import * as path from "node:path"
import { canonicalJson, sha256, sign } from "../../src/domain/Digest.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as SecureRandom from "../../src/host/SecureRandom.ts"
import type { Service } from "../../src/storage/MemoryStore.ts"
import { draft, fact, id, put, system } from "../../src/testing/Sample.ts"
import { files, opened, place } from "./Place.ts"
import { times } from "./Program.ts"

const sidecar = (root: string, name: string) => path.join(root, ".effect-memory", name)

/** Puts sixty records, updates twenty of them, and forgets five. Also puts one record of another tenant. */
const fill = (store: Service) =>
  Effect.gen(function*() {
    const puts = yield* store.put(
      system,
      Array.from({ length: 60 }, (_, n) =>
        n % 2 ? draft(`body ${n}`) : fact(`fact ${n}`, { scope: { agentId: `Agent ${n % 7}` }, tags: ["t"] }))
    )
    for (const { record: { id } } of puts.slice(0, 20)) {
      yield* store.update(system, id, { importance: 0.9 })
    }
    yield* store.forget(
      system,
      puts.slice(10, 15).map(({ record }) =>
        record.id
      )
    )
    yield* store.put(Viewer.system("other"), [draft("elsewhere", { id: id("elsewhere") })])
  })

const everything = (store: Service) =>
  Effect.gen(function*() {
    const all = yield* Effect.forEach(["default", "other"], (tenant) =>
      Stream.runCollect(store.stream(Viewer.system(tenant), { limit: 100 })))
    const records = all.flatMap((chunk) =>
      Chunk.toReadonlyArray(chunk)
    )
    const histories = yield* Effect.forEach(records, ({ id }) => store.history(system, id))
    const { hits } = yield* store.search(system, { text: "fact body" })
    return sha256(canonicalJson([records, histories, hits.map(({ record, score }) => [record.id, score])]))
  })

const state = (root: string) =>
  Effect.scoped(Effect.flatMap(opened(root, { lockTimeout: 30 }), ({ store }) => everything(store)))

/** Opens the vault, and returns the hits of the same search in two tenants. */
const answers = (root: string) =>
  Effect.scoped(
    Effect.flatMap(opened(root, { lockTimeout: 30 }), ({ store }) =>
      Effect.forEach(["default", "other"], (tenant) =>
        Effect.map(
          store.search(Viewer.system(tenant), { text: "fact body elsewhere", limit: 100 }),
          ({ hits }) =>
            hits.map(({ record, score }) => [record.id, record.body, score])
        )))
  )

/** Sets the time of every file to an hour ago, so that a scan recognises each change by its time. */
const age = (root: string) => {
  const then = Date.now() / 1_000 - 3_600
  for (const name of Object.keys(files(root))) fs.utimesSync(path.join(root, name), then, then)
}

/** Returns every third element; all elements under `npm run soak`. */
const sampled = <A>(all: ReadonlyArray<A>): ReadonlyArray<A> => all.filter((_, n) => n % times(3, 1) === 0)

describe("a reopened vault", () => {
  it.scoped("two vaults with the same writes, clock and random seed have the same record files, byte for byte", () =>
    Effect.gen(function*() {
      const run = Effect.suspend(() =>
        Effect.gen(function*() {
          const root = yield* place
          yield* Effect.scoped(Effect.gen(function*() {
            const { store } = yield* opened(root)
            yield* fill(store)
            yield* TestClock.adjust("1 day")
            yield* put(store, draft("later"))
          }))
          yield* TestClock.setTime(0)
          return files(root)
        }).pipe(
          Effect.withRandom(Random.make("equal")),
          Effect.provide(SecureRandom.layerSeeded("equal")),
          Effect.scoped
        )
      )
      const first = yield* run
      assert.isAbove(Object.keys(first).length, 50)
      assert.deepStrictEqual(yield* run, first)
    }))

  it.scopedLive("a vault has the same state whether it is opened with its snapshot or without", () =>
    Effect.gen(function*() {
      const root = yield* place
      const open = yield* Effect.scoped(Effect.gen(function*() {
        const { store, vault } = yield* opened(root)
        yield* fill(store)
        yield* store.compact
        const [some] = Object.entries(files(root))
        fs.writeFileSync(path.join(root, some![0]), some![1].replace(/importance: .*/, "importance: 0.125"))
        fs.writeFileSync(path.join(root, "note.md"), "A note [[of]] my own")
        yield* vault.refresh
        return yield* everything(store)
      }))
      assert.isTrue(fs.existsSync(sidecar(root, "snapshot")))
      assert.strictEqual(yield* state(root), open)
      fs.rmSync(sidecar(root, "snapshot"))
      assert.strictEqual(yield* state(root), open)
    }))

  it.scopedLive("the search index in the snapshot is updated with files that changed while the vault was closed", () =>
    Effect.gen(function*() {
      const root = yield* place
      yield* Effect.scoped(Effect.flatMap(opened(root), ({ store }) => fill(store)))
      age(root)
      yield* answers(root) // searches, so that the next snapshot contains the index
      const before = yield* answers(root)
      const kept = fs.readFileSync(sidecar(root, "snapshot"))
      assert.deepStrictEqual(yield* answers(root), before)
      assert.isTrue(kept.equals(fs.readFileSync(sidecar(root, "snapshot"))), "nothing was built, so nothing was saved")
      const paths = Object.keys(files(root)).map((name) => path.join(root, name))
      fs.rmSync(paths[3]!)
      fs.writeFileSync(paths[5]!, `${fs.readFileSync(paths[5]!, "utf8")}fact fact body\n`)
      fs.writeFileSync(path.join(root, "note.md"), "The body of a fact")
      const after = yield* answers(root)
      assert.notDeepEqual(after, before)
      fs.rmSync(sidecar(root, "snapshot"))
      assert.deepStrictEqual(yield* answers(root), after)
    }))

  it.scopedLive(
    "a snapshot that is truncated, has a flipped bit, or belongs to another vault or version is ignored",
    () =>
      Effect.gen(function*() {
        const [root, other] = [yield* place, yield* place]
        const { key } = yield* Effect.scoped(Effect.gen(function*() {
          const { store } = yield* opened(root)
          yield* fill(store)
          yield* (yield* opened(other)).store.put(system, Array.from({ length: 30 }, (_, n) => draft(`fact ${n}`)))
          return JSON.parse(fs.readFileSync(sidecar(root, "vault.json"), "utf8"))
        }))
        age(root)
        yield* Effect.scoped(opened(root))
        const early = fs.readFileSync(sidecar(root, "snapshot"))
        const before = yield* state(root)
        yield* state(other)
        const whole = fs.readFileSync(sidecar(root, "snapshot"))
        assert.isAbove(whole.length, early.length, "with the index, now")
        const body = whole.subarray(whole.indexOf(10) + 1)
        const sealed = (bytes: Buffer) => Buffer.concat([Buffer.from(`${sign(key, bytes)}\n`), bytes])
        const edited = (from: RegExp, to: string) => {
          const text = body.toString("latin1")
          assert.match(text, from)
          return sealed(Buffer.from(text.replace(from, to), "latin1"))
        }
        const head = body.subarray(0, body.indexOf(10)).toString()
        const parts: ReadonlyArray<readonly [length: number, whole: number]> = JSON.parse(head).entries
        const entries = parts.reduce((sum, [length]) => sum + length, 0)
        const text = body.subarray(head.length + 1, head.length + 1 + entries)
        const index = Buffer.from(body)
        index[head.length + 1 + entries]! += 1 // damages the part after the entries
        const forgeries = [
          ...[0, 0.01, 0.3, 0.6, 0.9, 0.999].map((share) => whole.subarray(0, Math.floor(whole.length * share))),
          ...[0, 10, 66, 0.1, 0.5, 0.8, 0.99].map((at) => {
            const turned = Buffer.from(whole)
            turned[at < 1 ? Math.floor(whole.length * at) : at]! ^= 4
            return turned
          }),
          fs.readFileSync(sidecar(other, "snapshot")),
          sealed(text), // the entries without a head
          edited(/"version":\d+/, "\"version\":99"),
          edited(/"kinds":"(\w*)\[\[/, "\"kinds\":\"$1[[9,"),
          sealed(index),
          early
        ]
        for (const forged of sampled(forgeries)) {
          fs.writeFileSync(sidecar(root, "snapshot"), forged)
          assert.strictEqual(yield* state(root), before)
          assert.isFalse(forged.equals(fs.readFileSync(sidecar(root, "snapshot"))), "built anew, and saved")
        }
        fs.writeFileSync(sidecar(root, "snapshot"), whole)
        assert.strictEqual(yield* state(root), before)
        assert.isTrue(whole.equals(fs.readFileSync(sidecar(root, "snapshot"))), "ours")
      })
  )

  it.scopedLive("duplicates are found by a kind's current option `dedupe`, not by the option's value in the snapshot", () =>
    Effect.gen(function*() {
      const root = yield* place
      const say = Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        yield* store.put(system, Array.from({ length: 30 }, (_, n) => draft(`said ${n}`, { kind: "idea" })))
        return Object.keys(files(root)).length
      }))
      assert.strictEqual(yield* say, 30)
      const kinds = MemoryKind.layer(MemoryKind.make({ name: "idea", dedupe: true }))
      assert.strictEqual(yield* Effect.provide(say, kinds), 30)
      assert.strictEqual(yield* say, 60)
    }))

  for (const name of ["snapshot", "journal.json", "lock"]) {
    it.scopedLive(`records, histories and search results stay the same if the file ${name} is truncated, forged or not text`, () =>
      Effect.gen(function*() {
        const root = yield* place
        yield* Effect.scoped(Effect.flatMap(opened(root), ({ store }) => fill(store)))
        const before = yield* state(root)
        const old = fs.existsSync(sidecar(root, name)) ? fs.readFileSync(sidecar(root, name), "utf8") : "[]"
        const victim = path.join(root, Object.keys(files(root))[0]!)
        const step = (path: string) => JSON.stringify([{ path, content: "forged", after: null }])
        const forgeries = [
          old.slice(0, old.length / 2),
          old.replaceAll("fact", "lies"),
          "",
          "null\n",
          "{\"a\":1}\n[1]\n",
          "\0\0\0",
          step("../escaped.md"),
          step(path.relative(root, victim)),
          `${JSON.stringify(["../../etc/passwd.md", ".effect-memory/vault.json", "/etc/passwd", "a\0b.md"])}\n`
        ]
        for (const forged of sampled(forgeries)) {
          fs.writeFileSync(sidecar(root, name), forged)
          assert.strictEqual(yield* state(root), before)
          yield* Effect.scoped(Effect.gen(function*() {
            const { store, vault } = yield* opened(root, { lockTimeout: 30 })
            const { id } = yield* put(store, draft("works"))
            yield* put(store, draft("still", { id }))
            yield* vault.refresh
            assert.deepStrictEqual(yield* vault.issues, [])
            yield* store.forget(system, [id], { purge: true })
          }))
          assert.isFalse(fs.existsSync(path.join(root, "../escaped.md")))
        }
        fs.writeFileSync(sidecar(root, name), new Uint8Array([0xff, 0xfe, 0x00]))
        assert.strictEqual(yield* state(root), before)
      }))
  }

  it.scopedLive("a vault of a newer format fails to open with `unsupported`, and no file is changed", () =>
    Effect.gen(function*() {
      const root = yield* place
      yield* Effect.scoped(Effect.flatMap(opened(root), ({ store }) => fill(store)))
      fs.writeFileSync(sidecar(root, "vault.json"), JSON.stringify({ version: 3, secret: "?" }))
      const all = () =>
        fs.readdirSync(root, { recursive: true, encoding: "utf8" }).sort().map((name) => {
          const stat = fs.statSync(path.join(root, name))
          return [name, stat.mtimeMs, stat.size]
        })
      const before = all()
      const error = yield* Effect.flip(opened(root))
      assert.strictEqual(error.reason, "unsupported")
      assert.notInclude(error.message, root)
      assert.deepStrictEqual(all(), before)
    }))

  it.scopedLive("a vault whose .effect-memory folder was deleted has every record, with origin `file` and trust 2", () =>
    Effect.gen(function*() {
      const root = yield* place
      yield* Effect.scoped(Effect.flatMap(opened(root), ({ store }) => fill(store)))
      const texts = files(root)
      fs.rmSync(path.join(root, ".effect-memory"), { recursive: true })
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual((yield* vault.issues).map(({ path }) => path), [".effect-memory"])
      const records = Chunk.toReadonlyArray(yield* Stream.runCollect(store.stream(system, {})))
      assert.lengthOf(records, 55)
      for (const { revision, source } of records) {
        assert.deepInclude(source, { origin: "file", trust: 2 })
        assert.strictEqual(revision, 1)
      }
      assert.deepStrictEqual(files(root), texts, "opened, not rewritten")
    }))
})
