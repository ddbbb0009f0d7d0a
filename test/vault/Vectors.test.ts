import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as fs from "node:fs"
import * as path from "node:path"
import { sha256 } from "../../src/domain/Digest.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import type * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { refuses } from "../../src/testing/Law.ts"
import { ada, draft, found, put } from "../../src/testing/Sample.ts"
import { opened, place } from "./Place.ts"

const of = (store: MemoryStore.Service) => Option.getOrThrow(store.vectors)
/** Makes a vector that depends on the text only. */
const vectorOf = (text: string) =>
  Float32Array.from({ length: 4 }, (_, n) => parseInt(sha256(text).slice(n, n + 4), 16) + 1)
const attach = (store: MemoryStore.Service, model = "m") =>
  Effect.gen(function*() {
    const pending = yield* of(store).pending("default", model)
    yield* of(store).attach("default", model, pending.map(({ hash, text }) => [hash, vectorOf(text)] as const))
    return pending.length
  })
const pending = (store: MemoryStore.Service, model = "m") =>
  Effect.map(of(store).pending("default", model), (all) => all.map(({ text }) => text).sort())
/** Asserts that the vectors found for these texts are the right ones; returns how many were found. */
const right = (store: MemoryStore.Service, texts: ReadonlyArray<string>, model = "m") =>
  Effect.map(of(store).read("default", model, texts.map(sha256)), (all) =>
    all.filter((vector, n) => {
      if (Option.isSome(vector)) assert.deepStrictEqual(vector.value, vectorOf(texts[n]!))
      return Option.isSome(vector)
    }).length)
const folder = (root: string) => path.join(root, ".effect-memory/vectors")
const file = (root: string, model = "m") => path.join(folder(root), `${model}.vec`)
const size = (root: string) => fs.statSync(file(root)).size
const row = (9 + 4) * 4
const texts = ["alpha", "beta", "gamma"]
const query = (text: string) => ({
  mode: "vector" as const,
  embedding: { model: "m", vector: Array.from(vectorOf(text)) }
})

/** Makes a closed vault with three records and their vectors. */
const filled = Effect.gen(function*() {
  const root = yield* place
  yield* Effect.scoped(Effect.gen(function*() {
    const { store } = yield* opened(root)
    yield* store.put(ada, texts.map((text) => draft(text)))
    yield* attach(store)
  }))
  return root
})

describe("vectors of a vault", () => {
  it.scopedLive("vectors are kept across reopening, in files that only their owner can read and that git ignores", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const { store } = yield* opened(root)
      assert.deepStrictEqual(yield* pending(store), [])
      assert.strictEqual((yield* found(store, ada, query("beta")))[0], "beta")
      assert.strictEqual(fs.statSync(file(root)).mode & 0o777, 0o600)
      assert.strictEqual(fs.statSync(folder(root)).mode & 0o777, 0o700)
      assert.strictEqual(fs.readFileSync(path.join(root, ".effect-memory/.gitignore"), "utf8"), "*\n")
    }))

  it.scopedLive("vectors attached by several processes at once are each stored once, and every process reads them all", () =>
    Effect.gen(function*() {
      const root = yield* place
      const all = yield* Effect.all([opened(root), opened(root), opened(root)])
      const [first] = all
      const many = Array.from({ length: 40 }, (_, n) => `text ${n}`)
      yield* first.store.put(ada, many.map((text) => draft(text)))
      yield* Effect.forEach(all, ({ vault }) => vault.refresh)
      yield* Effect.forEach(
        all.flatMap((
          { store },
          n
        ) => [[store, many.slice(n * 10, n * 10 + 20)] as const, [store, many.slice(5, 15)] as const]),
        ([store, some]) =>
          Effect.forEach(some, (text) => of(store).attach("default", "m", [[sha256(text), vectorOf(text)]]), {
            discard: true
          }),
        { concurrency: "unbounded", discard: true }
      )
      for (const { store } of all) {
        assert.strictEqual(yield* right(store, many), 40)
        assert.deepStrictEqual(yield* pending(store), [])
        assert.strictEqual((yield* found(store, ada, query("text 7")))[0], "text 7")
      }
      assert.isBelow(size(root), 41 * row + 100)
    }))

  it.scopedLive("only one of two concurrent calls that attach vectors of different dimensions for the same model succeeds", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const [a, b] = yield* Effect.all([opened(root), opened(root)])
      const [one, other] = yield* Effect.all([
        Effect.either(of(a.store).attach("default", "n", [[sha256("alpha"), Float32Array.of(1, 2)]])),
        Effect.either(of(b.store).attach("default", "n", [[sha256("beta"), Float32Array.of(1, 2, 3)]]))
      ], { concurrency: 2 })
      assert.notStrictEqual(one._tag, other._tag)
      const read = yield* of((yield* opened(root)).store).read("default", "n", [sha256("alpha"), sha256("beta")])
      assert.deepStrictEqual(read.map(Option.isSome), [one._tag === "Right", other._tag === "Right"])
    }))

  it.scopedLive(
    "a damaged vector file yields no wrong vector, and lost vectors can be attached again",
    () =>
      Effect.gen(function*() {
        const head = `{"model":"m","dimensions":`
        const harms: Readonly<Record<string, (bytes: Buffer) => Uint8Array>> = {
          torn: (bytes) => bytes.subarray(0, -7),
          "torn head": (bytes) => bytes.subarray(0, 9),
          empty: () => new Uint8Array(),
          zeros: (bytes) => new Uint8Array(bytes.length),
          "a longer tail": (bytes) => Buffer.concat([bytes, Buffer.from("x")]),
          "another model": (bytes) => Buffer.from(bytes.toString("latin1").replace(`"m"`, `"n"`), "latin1"),
          "another length": (bytes) => Buffer.from(bytes.toString("latin1").replace(`:4}`, `:5}`), "latin1"),
          "no length": () => Buffer.from(`${head}0}\n`),
          "too great a length": () => Buffer.from(`${head}900000000}\n  `),
          "no JSON": () => Buffer.from("{".repeat(5_000)),
          ...Object.fromEntries(
            Array.from({ length: 16 }, (_, n): [string, (bytes: Buffer) => Uint8Array] => [`bit ${n}`, (bytes) => {
              bytes[Math.floor(n * bytes.length / 16)]! ^= 1 << n % 8
              return bytes
            }])
          )
        }
        const template = yield* filled
        for (const [name, harm] of Object.entries(harms)) {
          const root = yield* place
          fs.cpSync(template, root, { recursive: true })
          fs.writeFileSync(file(root), harm(fs.readFileSync(file(root))))
          yield* Effect.scoped(Effect.gen(function*() {
            const { store, vault } = yield* opened(root)
            const kept = yield* right(store, texts)
            assert.lengthOf(yield* pending(store), 3 - kept, name)
            assert.deepStrictEqual(
              (yield* store.search(ada, { ...query("alpha"), text: "alpha", mode: "hybrid" })).failures,
              []
            )
            yield* attach(store)
            assert.strictEqual(yield* right(store, texts), 3, name)
            assert.deepStrictEqual(yield* vault.issues, [])
          }))
          const { store } = yield* opened(root)
          assert.strictEqual(yield* right(store, texts), 3, `${name}, reopened`)
          assert.deepStrictEqual(yield* pending(store), [], name)
        }
      })
  )

  it.scopedLive("no model name leads to a file outside the folder of vectors, or to another model's vectors", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const models = [
        "é".normalize("NFC"),
        "é".normalize("NFD"),
        "../../m",
        "M",
        "m/n",
        "con",
        "x".repeat(500),
        "\u0000"
      ]
      yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        for (const [n, model] of models.entries()) {
          yield* of(store).attach("default", model, [[sha256("alpha"), Float32Array.of(n, 1)]])
        }
      }))
      const { store } = yield* opened(root)
      for (const [n, model] of models.entries()) {
        const [vector] = yield* of(store).read("default", model, [sha256("alpha")])
        assert.deepStrictEqual(Option.getOrUndefined(vector!), Float32Array.of(n, 1), model)
      }
      assert.lengthOf(fs.readdirSync(folder(root)), models.length + 1)
      assert.strictEqual(yield* right(store, texts), 3)
    }))

  it.scopedLive("vectors of purged texts are erased permanently, from every file and in every process", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const { store } = yield* opened(root)
      const other = yield* opened(root)
      yield* attach(store, "n")
      const { id } = yield* put(store, draft("secret"))
      yield* attach(store)
      yield* attach(store, "n")
      assert.strictEqual(yield* right(other.store, ["secret"]), 1)
      // adds a killed writer's temporary file, and a file whose name does not match the model in its header
      fs.copyFileSync(file(root), path.join(folder(root), ".m.vec.tmp"))
      fs.copyFileSync(file(root), path.join(folder(root), "lost.vec"))
      const bytes = Buffer.from(vectorOf("secret").buffer)
      const holds = () =>
        fs.readdirSync(folder(root)).filter((name) => fs.readFileSync(path.join(folder(root), name)).includes(bytes))
      assert.lengthOf(holds(), 4)
      yield* store.forget(ada, [id], { purge: true })
      assert.deepStrictEqual(holds(), [])
      assert.strictEqual(yield* right(other.store, ["secret"]), 0)
      // an incomplete row makes `other`, which had read the vector of "secret", rewrite the file
      fs.appendFileSync(file(root), "torn")
      yield* put(other.store, draft("delta"))
      yield* attach(other.store)
      assert.deepStrictEqual(holds(), [])
      assert.strictEqual(yield* right(store, [...texts, "delta"]), 4)
    }))

  it.scopedLive("a vector file stays small over 29 updates of a text, since compactions erase the vectors of earlier texts", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const { store } = yield* opened(root)
      const { id } = yield* put(store, draft("v0"))
      for (let n = 1; n < 30; n++) {
        yield* store.update(ada, id, { body: `v${n}` })
        yield* attach(store)
        yield* store.compact
        assert.isBelow(size(root), 10 * row + 100)
      }
      assert.strictEqual(yield* right(store, [...texts, "v29"]), 4)
      assert.deepStrictEqual(yield* pending(store), [])
    }))

  const elsewhere = Viewer.make({ tenant: "elsewhere", userId: "ada" })
  const ofElsewhere = path.join(".effect-memory/vectors/tenants/elsewhere/m.vec")
  /** Writes one vector file for two tenants, as an earlier release did: alpha, beta, gamma of one; gamma, delta of the other. */
  const undivided = Effect.gen(function*() {
    const root = yield* filled
    yield* Effect.scoped(Effect.gen(function*() {
      const { store } = yield* opened(root)
      yield* store.put(elsewhere, ["gamma", "delta"].map((text) => draft(text)))
      for (const text of ["gamma", "delta"]) {
        yield* of(store).attach("elsewhere", "m", [[sha256(text), vectorOf(text)]])
      }
    }))
    const rowsOf = (file: string) => {
      const bytes = fs.readFileSync(file)
      return bytes.subarray(bytes.indexOf(10) + 1)
    }
    const [here, there] = [rowsOf(file(root)), rowsOf(path.join(root, ofElsewhere))]
    const head = `{"model":"m","dimensions":4}`.padEnd(31) + "\n"
    fs.rmSync(path.join(folder(root), "tenants"), { recursive: true })
    fs.writeFileSync(file(root), Buffer.concat([Buffer.from(head), here, there.subarray(row)])) // leaves out gamma, which `here` has
    return root
  })
  const known = (store: MemoryStore.Service, tenant: string) =>
    Effect.map(
      of(store).read(tenant, "m", ["alpha", "beta", "gamma", "delta"].map(sha256)),
      (all) => all.map(Option.isSome)
    )

  it.scopedLive("a vector file shared between tenants by an earlier release gives each tenant its own vectors only", () =>
    Effect.gen(function*() {
      for (const order of [["default", "elsewhere"], ["elsewhere", "default"]]) {
        const root = yield* undivided
        yield* Effect.scoped(Effect.gen(function*() {
          const [one, other] = [yield* opened(root), yield* opened(root)]
          for (const [n, tenant] of order.entries()) {
            const expected = tenant === "default" ? [true, true, true, false] : [false, false, true, true]
            assert.deepStrictEqual(yield* known([one, other][n]!.store, tenant), expected)
            assert.deepStrictEqual(yield* known([other, one][n]!.store, tenant), expected)
            assert.deepStrictEqual(yield* of(one.store).pending(tenant, "m"), [])
          }
          assert.strictEqual((yield* found(other.store, elsewhere, query("delta")))[0], "delta")
        }))
        assert.match(fs.readFileSync(file(root), "latin1"), /^\{"tenant":"default"/)
        const { store } = yield* opened(root)
        assert.deepStrictEqual(yield* known(store, "elsewhere"), [false, false, true, true])
      }
    }))

  it.scopedLive("a purge erases a text's vector from a file that an earlier release shared between tenants", () =>
    Effect.gen(function*() {
      const root = yield* undivided
      const { store } = yield* opened(root)
      const [delta] = (yield* store.list(elsewhere, {})).items.filter(({ body }) => body === "delta")
      yield* store.forget(elsewhere, [delta!.id], { purge: true })
      const bytes = Buffer.from(vectorOf("delta").buffer)
      const all = fs.readdirSync(folder(root), { recursive: true, encoding: "utf8" }).filter((name) =>
        name.endsWith(".vec")
      )
      assert.sameMembers(all, ["m.vec", "tenants/elsewhere/m.vec"])
      assert.isFalse(all.some((name) => fs.readFileSync(path.join(folder(root), name)).includes(bytes)))
      assert.deepStrictEqual(yield* known(store, "elsewhere"), [false, false, true, false])
      assert.deepStrictEqual(yield* known(store, "default"), [true, true, true, false])
    }))

  it.scopedLive("vectors are not read, written or erased through a symbolic link", () =>
    Effect.gen(function*() {
      const template = yield* filled
      for (const linked of ["folder", "file"] as const) {
        const [root, outside] = [yield* place, yield* place]
        fs.cpSync(template, root, { recursive: true })
        const from = linked === "folder" ? folder(root) : file(root)
        const to = path.join(outside, "it")
        fs.renameSync(from, to)
        fs.symlinkSync(to, from)
        const before = fs.readFileSync(linked === "folder" ? path.join(to, "m.vec") : to)
        const { store } = yield* opened(root)
        yield* refuses("path_escape", of(store).pending("default", "m"))
        yield* refuses("path_escape", of(store).attach("default", "m", [[sha256("new"), vectorOf("new")]]))
        yield* refuses("path_escape", store.search(ada, query("alpha")))
        const hybrid = yield* store.search(ada, { ...query("alpha"), text: "alpha", mode: "hybrid" })
        assert.deepStrictEqual(hybrid.failures.map(({ error, leg }) => [leg, error.reason]), [[
          "vector",
          "path_escape"
        ]])
        assert.strictEqual(hybrid.hits[0]!.record.body, "alpha")
        yield* store.forget(ada, [hybrid.hits[0]!.record.id], { purge: true })
        assert.deepStrictEqual(yield* found(store, ada, { text: "alpha" }), [])
        assert.deepStrictEqual(fs.readFileSync(linked === "folder" ? path.join(to, "m.vec") : to), before)
      }
    }))
})
