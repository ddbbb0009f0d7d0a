import * as KeyValueStore from "@effect/platform/KeyValueStore"
import { assert, describe, it } from "@effect/vitest"
import { assertSome } from "@effect/vitest/utils"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import * as Payload from "../../src/domain/Payload.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as KeyValueMemory from "../../src/kinds/KeyValueMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, bob, draft, put, system } from "../../src/testing/Sample.ts"
import { sampled } from "../contract/naughty.ts"
import { stores } from "../stores.ts"
import { times } from "../vault/Program.ts"

type Law = (memory: KeyValueMemory.Service, store: MemoryStore.Service) => Effect.Effect<void, unknown>

const both = Effect.all([KeyValueMemory.KeyValueMemory, MemoryStore.MemoryStore])
const reason = <A>(self: Effect.Effect<A, MemoryError>) => Effect.map(Effect.flip(self), ({ reason }) => reason)
const inNamespace = (namespace: string, store: MemoryStore.Service) =>
  Effect.provideService(KeyValueMemory.make(namespace), MemoryStore.MemoryStore, store)
/** Returns the value or `undefined`, not an `Option`: chai takes `None` and every `Some` for equal. */
const get = (memory: KeyValueMemory.Service, key: string, viewer: Viewer.Any = ada) =>
  Effect.map(memory.get(viewer, key), Option.getOrUndefined)

const action = FastCheck.record({
  do: FastCheck.constantFrom("set", "set", "set", "delete", "clear", "prune"),
  key: FastCheck.constantFrom("a", "ab", "b", "", "__proto__"),
  value: Arbitrary.make(Payload.Json),
  expiresAt: FastCheck.option(FastCheck.nat(30), { nil: undefined })
})

const suite = <E>(name: string, layer: Layer.Layer<MemoryStore.MemoryStore, E>) =>
  describe(`KeyValueMemory (${name})`, () => {
    const law = (title: string, check: Law) =>
      it.effect(title, () =>
        Effect.flatMap(both, ([memory, store]) => check(memory, store)).pipe(
          Effect.provide(Layer.provideMerge(KeyValueMemory.layer("settings"), layer))
        ))

    law(
      "`set` replaces the earlier value of a key in the same record, and `delete` removes the key",
      (memory, store) =>
        Effect.gen(function*() {
          yield* memory.set(ada, "theme", { dark: true, accents: ["red", null] })
          assert.deepStrictEqual(yield* get(memory, "theme"), { dark: true, accents: ["red", null] })
          assert.isTrue(yield* memory.has(ada, "theme"))
          yield* TestClock.adjust("1 minute")
          yield* memory.set(ada, "theme", "light")
          assert.strictEqual(yield* get(memory, "theme"), "light")
          assert.lengthOf(yield* memory.search(ada, "light"), 1)
          assert.deepStrictEqual(yield* memory.search(ada, "accents red"), [], "what it was before is no longer found")
          const { items } = yield* store.list(ada, {})
          assert.deepStrictEqual(items.map(({ createdAt, revision, updatedAt }) => [createdAt, updatedAt, revision]), [
            [0, 60_000, 2]
          ])
          assert.isTrue(yield* memory.delete(ada, "theme"))
          assert.isFalse(yield* memory.delete(ada, "theme"))
          assert.isFalse(yield* memory.has(ada, "theme"))
          assert.isUndefined(yield* get(memory, "theme"))
          yield* memory.set(ada, "theme", "dark")
          assert.strictEqual(yield* get(memory, "theme"), "dark")
        })
    )

    law(
      "`set` accepts null, false, 0 and the empty string, and refuses values that are not JSON",
      (memory) =>
        Effect.gen(function*() {
          for (const value of [null, false, 0, "", {}, []]) {
            yield* memory.set(ada, "k", value)
            assertSome(yield* memory.get(ada, "k"), value)
            assert.isTrue(yield* memory.has(ada, "k"))
          }
          const circle: { self?: unknown } = {}
          circle.self = circle
          for (
            const value of [
              undefined,
              { a: undefined },
              [undefined],
              NaN,
              Infinity,
              1n,
              new Date(0),
              () => 1,
              "\ud800",
              circle
            ]
          ) {
            assert.strictEqual(yield* reason(memory.set(ada, "k", value)), "invalid_draft")
          }
          assert.deepStrictEqual(yield* get(memory, "k"), [])
        })
    )

    law(
      "an entry is hidden once `expiresAt` is reached, and `set` does not write an entry that has already expired",
      (memory) =>
        Effect.gen(function*() {
          yield* TestClock.setTime(1_000)
          for (const expiresAt of [0, 999, 1_000, -5]) {
            yield* memory.set(ada, "late", "tea", { expiresAt })
            assert.isFalse(yield* memory.has(ada, "late"))
          }
          yield* memory.set(ada, "soon", "green tea", { expiresAt: 1_001 })
          yield* memory.set(ada, "stays", "tea")
          yield* memory.set(ada, "stays", "coffee", { expiresAt: 0 })
          assert.sameMembers(Array.from(yield* memory.keys(ada)), ["soon", "stays"])
          yield* TestClock.adjust(1)
          assert.deepStrictEqual(yield* memory.keys(ada), ["stays"])
          assert.strictEqual(yield* get(memory, "stays"), "tea")
          assert.deepStrictEqual((yield* memory.entries(ada)).map(({ key }) => key), ["stays"])
          assert.strictEqual(yield* memory.size(ada), 1)
          assert.isUndefined(yield* get(memory, "soon"))
          assert.isFalse(yield* memory.has(ada, "soon"))
          assert.isFalse(yield* memory.delete(ada, "soon"))
          assert.deepStrictEqual(yield* memory.search(ada, "green"), [])
          assert.strictEqual(yield* memory.clear(ada), 1)
          for (const expiresAt of [NaN, 5_000.5]) {
            assert.strictEqual(yield* reason(memory.set(ada, "k", 1, { expiresAt })), "invalid_draft")
          }
        })
    )

    law(
      "`entries` returns each entry with its metadata, and always returns the importance as a number",
      (memory) =>
        Effect.gen(function*() {
          const metadata = { tags: ["Red", "hot"], expiresAt: 9_000, source: "the manual" }
          yield* memory.set(ada, "a", 1, { ...metadata, importance: "critical" })
          yield* memory.set(ada, "b", 2, { importance: 0.1 })
          yield* memory.set(ada, "c", 3)
          assert.sameDeepMembers(Array.from(yield* memory.entries(ada)), [
            { key: "a", value: 1, metadata: { ...metadata, importance: 1 } },
            { key: "b", value: 2, metadata: { importance: 0.1 } },
            { key: "c", value: 3, metadata: { importance: 0.5 } }
          ])
          yield* memory.set(ada, "a", 1)
          assert.deepInclude(yield* memory.entries(ada), { key: "a", value: 1, metadata: { importance: 0.5 } })
          assert.strictEqual(yield* reason(memory.set(ada, "a", 1, { importance: 1.5 })), "invalid_draft")
          assert.strictEqual(yield* reason(memory.set(ada, "a", 1, { tags: ["\n"] })), "invalid_draft")
        })
    )

    law(
      "`clear` removes entries by prefix and tags, `prune` by time of last write; entries of other viewers and namespaces stay",
      (memory, store) =>
        Effect.gen(function*() {
          const other = yield* inNamespace("other", store)
          const note = yield* put(store, draft("a note"))
          yield* other.set(ada, "user:1", "other")
          yield* memory.set(bob, "user:1", "bob's")
          yield* memory.batchWrite(ada, [
            { key: "user:1", value: 1, metadata: { tags: ["Hot"] } },
            { key: "user:2", value: 2 },
            { key: "app:1", value: 3, metadata: { tags: ["hot"] } }
          ])
          assert.strictEqual(yield* memory.clear(ada, { prefix: "nothing" }), 0)
          assert.strictEqual(yield* memory.clear(ada, { tags: [] }), 0)
          assert.strictEqual(yield* memory.clear(ada, { prefix: "user:", tags: ["HOT"] }), 1)
          assert.sameMembers(Array.from(yield* memory.keys(ada)), ["user:2", "app:1"])
          yield* TestClock.adjust(100)
          yield* memory.set(ada, "app:1", 4)
          assert.strictEqual(yield* memory.prune(ada, 0), 0)
          assert.strictEqual(yield* memory.prune(ada, 100), 1)
          assert.deepStrictEqual(yield* memory.keys(ada), ["app:1"])
          assert.strictEqual(yield* memory.clear(ada), 1)
          assert.strictEqual(yield* memory.size(ada), 0)
          assert.strictEqual(yield* get(other, "user:1"), "other")
          assert.strictEqual(yield* get(memory, "user:1", bob), "bob's")
          assert.isTrue(Option.isSome((yield* store.get(ada, [note.id]))[0]!))
        })
    )

    law(
      "an entry disappears if its record gets another key, namespace or scope; `set` then stores the entry again",
      (memory, store) =>
        Effect.gen(function*() {
          yield* memory.set(ada, "k", 1)
          const [record] = (yield* store.list(ada, {})).items
          const { data, id } = record!
          const isNone = Effect.gen(function*() {
            assert.isUndefined(yield* get(memory, "k"))
            assert.deepStrictEqual(yield* memory.entries(ada), [])
            assert.isFalse(yield* memory.delete(ada, "k"))
            assert.deepStrictEqual(yield* memory.search(ada, "k"), [])
          })
          for (const changed of [{ key: "other" }, { namespace: "other" }]) {
            yield* store.update(ada, id, { data: { ...data, ...changed } })
            yield* isNone
          }
          yield* store.forget(ada, [id], { purge: true })
          yield* put(store, draft("planted", { id, scope: "global", kind: "entry", data }), system)
          yield* isNone
          yield* memory.set(ada, "k", 2)
          assert.strictEqual(yield* get(memory, "k"), 2)
          yield* store.update(ada, id, { invalidAt: 0 })
          assert.strictEqual(yield* get(memory, "k"), 2)
          assert.deepStrictEqual(yield* memory.keys(ada), ["k"])
        })
    )

    law(
      "concurrent writes of a key leave one record with one of the written values",
      (memory, store) =>
        Effect.gen(function*() {
          const values = Array.from({ length: 20 }, (_, n) => n)
          yield* Effect.forEach(values, (n) => memory.set(ada, "k", n), { concurrency: "unbounded", discard: true })
          assert.include(values, yield* get(memory, "k"))
          assert.deepStrictEqual(yield* memory.keys(ada), ["k"])
          assert.lengthOf((yield* store.list(ada, {})).items, 1)
          yield* Effect.all([memory.set(ada, "k", "new"), memory.clear(ada), memory.set(ada, "k", "newer")], {
            concurrency: "unbounded"
          })
          assert.isAtMost(yield* memory.size(ada), 1)
        })
    )

    law(
      "a key has a separate value for each user, tenant and session",
      (memory) =>
        Effect.gen(function*() {
          const elsewhere = Viewer.make({ tenant: "elsewhere", userId: "ada" })
          const session = Viewer.make({ userId: "ada", sessionId: "s" })
          const nobody = Viewer.make({})
          const all = [ada, bob, elsewhere, session, nobody]
          for (const [n, viewer] of all.entries()) yield* memory.set(viewer, "k", n)
          for (const [n, viewer] of all.entries()) {
            assert.deepStrictEqual(yield* memory.entries(viewer), [{
              key: "k",
              value: n,
              metadata: { importance: 0.5 }
            }])
            assert.strictEqual(yield* get(memory, "k", viewer), n)
          }
          const within = Viewer.make({ userId: "ada", reach: "within" })
          assert.strictEqual(yield* get(memory, "k", within), 0)
          assert.deepStrictEqual(yield* memory.keys(within), ["k"])
          assert.strictEqual(yield* memory.size(system), 1)
          assert.isTrue(yield* memory.delete(system, "k"))
          assert.isFalse(yield* memory.has(system, "k"))
          assert.isFalse(yield* memory.has(nobody, "k"))
          assert.strictEqual(yield* memory.clear(within), 1)
          assert.strictEqual(yield* get(memory, "k", session), 3)
        })
    )

    law(
      "`batchWrite` writes all entries or none, and the last of several entries with the same key wins",
      (memory) =>
        Effect.gen(function*() {
          yield* memory.batchWrite(ada, [])
          yield* memory.batchWrite(ada, [{ key: "a", value: 1 }, { key: "b", value: 2 }, { key: "a", value: 3 }])
          assert.deepStrictEqual([yield* get(memory, "a"), yield* get(memory, "b")], [3, 2])
          const bad = [{ key: "a", value: 9 }, { key: "b", value: undefined }]
          assert.strictEqual(yield* reason(memory.batchWrite(ada, bad)), "invalid_draft")
          const late = [{ key: "a", value: 9 }, { key: "b", value: 9, metadata: { importance: -1 } }]
          assert.strictEqual(yield* reason(memory.batchWrite(ada, late)), "invalid_draft")
          assert.deepStrictEqual([yield* get(memory, "a"), yield* get(memory, "b")], [3, 2])
        })
    )

    law(
      "`search` finds entries by words of key, value and tags, and accepts blank text and query operators",
      (memory) =>
        Effect.gen(function*() {
          yield* memory.set(ada, "release", { notes: ["ships 10.104.22", "before winter"] })
          yield* memory.set(ada, "older", "ships 10.104.21")
          yield* memory.set(ada, "tagged", 1, { tags: ["winter"] })
          const keys = (text: string, limit?: number) =>
            Effect.map(memory.search(ada, text, limit), (all) => all.map(({ key }) => key))
          assert.include(yield* keys("release"), "release")
          assert.strictEqual((yield* keys("10.104.22"))[0], "release")
          assert.sameMembers(yield* keys("winter"), ["release", "tagged"])
          assert.lengthOf(yield* keys("ships", 1), 1)
          for (
            const text of ["", "  ", "(", "*", "\"", "NOT", "NEAR(a b)", "-x", "col:val", "foo.ts", "it's"]
          ) yield* keys(text)
          for (const text of ["", "  ", "(", "*"]) assert.deepStrictEqual(yield* keys(text), [])
          for (const limit of [0, -1, 1.5, NaN]) {
            assert.strictEqual(yield* reason(memory.search(ada, "x", limit)), "invalid_draft")
          }
        })
    )

    law(
      "strange or similar keys keep separate values, very long values are stored exactly, and a lone surrogate is refused as a key",
      (memory) =>
        Effect.gen(function*() {
          const some = sampled(5).filter((text) => text.length < 1_000)
          yield* memory.batchWrite(ada, some.map((text, n) => ({ key: text, value: n % 2 ? text : [text] })))
          for (const [n, text] of some.entries()) {
            assert.deepStrictEqual(yield* get(memory, text), n % 2 ? text : [text], text)
          }
          assert.sameMembers(Array.from(yield* memory.keys(ada)), some)
          const long = "\u{1f600}".repeat(40_000)
          for (const value of [`x${long}`, { long }, { longs: long }, "x".repeat(65_536), "x".repeat(65_537)]) {
            yield* memory.set(ada, "long", value)
            assert.deepStrictEqual(yield* get(memory, "long"), value)
          }
          for (
            const pair of [["a", "b"], ["e\u0301", "\u00e9"], ["", " "], [" ".repeat(300), "\n".repeat(300)]] as const
          ) {
            for (const key of pair) yield* memory.set(ada, key, key)
            for (const key of pair) assert.strictEqual(yield* get(memory, key), key)
          }
          assert.isFalse(yield* memory.has(ada, "\ud800"))
          assert.strictEqual(yield* reason(memory.set(ada, "\ud800", 1)), "invalid_draft")
        })
    )

    law(
      "`clear` with a prefix, `size` and `keys` miss no entry, even if the entries fill more than one page of the store",
      (memory) =>
        Effect.gen(function*() {
          yield* memory.batchWrite(ada, Array.from({ length: 1_100 }, (_, n) => ({ key: `k${n}`, value: n })))
          assert.strictEqual(yield* memory.size(ada), 1_100)
          assert.strictEqual(new Set(yield* memory.keys(ada)).size, 1_100)
          assert.strictEqual(yield* memory.clear(ada, { prefix: "k1" }), 211)
          assert.strictEqual(yield* memory.size(ada), 889)
        })
    )

    it.effect.prop(
      "random calls of `set`, `delete`, `clear` and `prune` have the same results as on a Map",
      [FastCheck.array(action, { maxLength: 25 })],
      ([actions]) =>
        Effect.gen(function*() {
          const memory = yield* KeyValueMemory.KeyValueMemory
          const model = new Map<
            string,
            { readonly value: Payload.Json; readonly expiresAt: number; readonly at: number }
          >()
          for (const [now, act] of actions.entries()) {
            yield* TestClock.setTime(now)
            for (const [key, { expiresAt }] of model) if (expiresAt <= now) model.delete(key)
            const { key } = act
            switch (act.do) {
              case "set":
                yield* memory.set(ada, key, act.value, { expiresAt: act.expiresAt })
                if ((act.expiresAt ?? Infinity) > now) {
                  model.set(key, { value: act.value, expiresAt: act.expiresAt ?? Infinity, at: now })
                }
                break
              case "delete":
                assert.strictEqual(yield* memory.delete(ada, key), model.delete(key))
                break
              case "clear": {
                const gone = Array.from(model.keys()).filter((other) => other.startsWith(key))
                assert.strictEqual(yield* memory.clear(ada, { prefix: key }), gone.length)
                for (const other of gone) model.delete(other)
                break
              }
              case "prune": {
                const gone = Array.from(model).filter(([, { at }]) => at < now - 3).map(([other]) => other)
                assert.strictEqual(yield* memory.prune(ada, now - 3), gone.length)
                for (const other of gone) model.delete(other)
              }
            }
            assert.deepStrictEqual(yield* get(memory, key), model.get(key)?.value)
            assert.strictEqual(yield* memory.has(ada, key), model.has(key))
            assert.strictEqual(yield* memory.size(ada), model.size)
            assert.sameDeepMembers(
              (yield* memory.entries(ada)).map(({ key, value }) => [key, value]),
              Array.from(model, ([key, { value }]) => [key, value])
            )
          }
        }).pipe(Effect.provide(Layer.provideMerge(KeyValueMemory.layer("settings"), layer))),
      { fastCheck: { numRuns: name === "markdown" ? times(4, 10) : times(name === "memory" ? 15 : 5, 30), seed: 4 } }
    )
  })

for (const [name, layer] of Object.entries(stores)) suite<unknown>(name, layer)

describe("KeyValueMemory", () => {
  it.effect("`prune` keeps an entry that is written while `prune` runs", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const memory = yield* inNamespace("settings", store)
      yield* memory.batchWrite(ada, [{ key: "a", value: 1 }, { key: "b", value: 1 }])
      yield* TestClock.adjust(100)
      let isFirst = true
      const slow: MemoryStore.Service = {
        ...store,
        apply: (...args) =>
          Effect.suspend(() => {
            const meanwhile = isFirst ? memory.set(ada, "a", 2) : Effect.void
            isFirst = false
            return Effect.zipRight(meanwhile, store.apply(...args))
          })
      }
      assert.strictEqual(yield* Effect.flatMap(inNamespace("settings", slow), (memory) => memory.prune(ada, 50)), 1)
      assert.deepStrictEqual(yield* memory.keys(ada), ["a"])
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))

  const here = Layer.provideMerge(KeyValueMemory.layer("settings"), MemoryStore.layerInMemory)

  it.effect("`layerKeyValueStore` serves one viewer's entries as a KeyValueStore", () =>
    Effect.gen(function*() {
      const memory = yield* KeyValueMemory.KeyValueMemory
      const store = yield* KeyValueStore.KeyValueStore
      yield* store.set("a", "one")
      assertSome(yield* store.get("a"), "one")
      assert.strictEqual(yield* get(memory, "a"), "one")
      assertSome(yield* store.modify("a", (text) => text + "!"), "one!")
      yield* store.set("bytes", Uint8Array.of(0, 255))
      assertSome(yield* store.getUint8Array("bytes"), Uint8Array.of(0, 255))
      yield* memory.set(ada, "json", { n: 1 })
      assertSome(yield* store.get("json"), "{\"n\":1}")
      assert.strictEqual(yield* store.size, 3)
      yield* store.remove("a")
      assert.isFalse(yield* store.has("a"))
      const error = yield* Effect.flip(store.set("\ud800", "x"))
      assert.deepInclude(error, { _tag: "SystemError", method: "set" })
      assert.strictEqual(yield* KeyValueMemory.copyKeyValueStore(memory, bob, ["json", "nothing"]), 1)
      assert.strictEqual(yield* get(memory, "json", bob), "{\"n\":1}")
      yield* store.clear
      assert.isTrue(yield* store.isEmpty)
      assert.strictEqual(yield* memory.size(bob), 1)
    }).pipe(Effect.provide(Layer.provideMerge(KeyValueMemory.layerKeyValueStore(ada), here))))

  it.effect("`toBackend` offers a viewer's entries through promises, and `copyBackend` copies all entries", () =>
    Effect.gen(function*() {
      const memory = yield* KeyValueMemory.KeyValueMemory
      const store = yield* MemoryStore.MemoryStore
      const runtime = yield* Effect.runtime<never>()
      const backend = KeyValueMemory.toBackend(memory, ada, (self) => Effect.runPromise(Effect.provide(self, runtime)))
      yield* TestClock.setTime(5_000)
      yield* Effect.promise(async () => {
        await backend.set("key1", { data: "test" })
        assert.strictEqual((await backend.get<{ data: string }>("key1"))?.data, "test")
        await backend.set("key2", "value", { expiresAt: 4_000 })
        assert.isUndefined(await backend.get("key2"))
        await backend.set("key2", "value2", { importance: "high" })
        const keys = []
        for await (const key of backend.keys()) keys.push(key)
        assert.sameMembers(keys, ["key1", "key2"])
        assert.isTrue(await backend.has("key1"))
        assert.strictEqual(await backend.size(), 2)
        assert.lengthOf(await backend.search("value2"), 1)
        const refused = await backend.set("key1", undefined).then(() => "stored", () => "refused")
        assert.strictEqual(refused, "refused")
      })
      const copy = yield* inNamespace("copy", store)
      assert.strictEqual(yield* KeyValueMemory.copyBackend(copy, ada, backend), 2)
      assert.deepStrictEqual(yield* get(copy, "key1"), { data: "test" })
      yield* Effect.promise(async () => {
        assert.isTrue(await backend.delete("key1"))
        await backend.clear()
        assert.strictEqual(await backend.size(), 0)
      })
      assert.strictEqual(yield* copy.size(ada), 2)
      const broken = {
        entries: (): AsyncIterable<[string, never]> => ({
          [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new Error("gone")) })
        })
      }
      assert.strictEqual(yield* reason(KeyValueMemory.copyBackend(copy, ada, broken)), "io")
    }).pipe(Effect.provide(here)))

  it.effect("each run of a `copyBackend` Effect reads the backend anew; `copyBackend` fails with `io` if the backend's `entries` throws", () =>
    Effect.gen(function*() {
      const memory = yield* KeyValueMemory.KeyValueMemory
      const values: Array<[string, unknown]> = [["a", 1]]
      let calls = 0
      const backend = {
        // the caller chooses the type of the values
        async *entries<T>() {
          calls++
          yield* values as Array<[string, T]>
        }
      }
      const copying = KeyValueMemory.copyBackend(memory, ada, backend)
      assert.strictEqual(calls, 0)
      assert.strictEqual(yield* copying, 1)
      values.push(["b", 2])
      assert.strictEqual(yield* copying, 2)
      assert.strictEqual(yield* get(memory, "b"), 2)
      const throwing = {
        entries: (): AsyncIterable<[string, never]> => {
          throw new Error("gone")
        }
      }
      assert.strictEqual(yield* reason(KeyValueMemory.copyBackend(memory, ada, throwing)), "io")
    }).pipe(Effect.provide(here)))
})
