import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import { Sqlite } from "../../src/sqlite.ts"
import * as Copy from "../../src/storage/Copy.ts"
import { all, answersAsNew, bob, draft, file, inMemory, opened, raw, sound } from "./File.ts"

const other = Analyzer.make({ stem: false, stopwords: "none", compounds: false })
const texts = [
  "The deployments of the service fail on Mondays.",
  "Runs test:e2e with --no-cache in src/index.ts.",
  "Prefers running to walking, and tea to coffee.",
  "Version 8.104.9 is deployed."
]
const questions = ["deploying", "the", "to", "run", "src/index.ts", "8.104.9", "walked"]

describe("a SQLite file whose index was made by another analyzer", () => {
  it.scoped("opening fails with the advice to reindex, and the file can still be opened with the analyzer that made its index", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const store = yield* opened(filename)
      yield* store.put(bob, texts.map(draft))
      const refused = yield* Effect.flip(opened(filename)).pipe(Effect.provideService(Analyzer.Analyzer, other))
      assert.strictEqual(refused.reason, "unsupported")
      assert.include(refused.message, "reindex")
      yield* store.put(bob, [draft("Goes on.")])
      assert.lengthOf(yield* all(yield* opened(filename)), texts.length + 1)
    }))

  it.scoped("Sqlite.reindex keeps all records, and searches then find the same as in a new store with the new analyzer", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const many = Array.from({ length: 450 }, (_, n) => draft(`Number ${n}: ${texts[n % texts.length]}`))
      const before = yield* Effect.scoped(Effect.gen(function*() {
        const store = yield* opened(filename)
        yield* store.put(bob, [...texts.map(draft), ...many])
        const [gone] = yield* store.put(bob, [draft("A forgotten deployment.")])
        yield* store.forget(bob, [gone!.record.id])
        return yield* all(store)
      }))
      yield* Effect.gen(function*() {
        yield* Sqlite.reindex({ filename })
        const store = yield* opened(filename)
        assert.deepStrictEqual(yield* all(store), before)
        const copy = yield* inMemory
        yield* Copy.copy(store, copy)
        yield* answersAsNew(store, copy, questions)
        yield* store.put(bob, [draft("Deploying again.")])
        yield* sound(filename)
      }).pipe(Effect.provideService(Analyzer.Analyzer, other))
      // reindexes back to the default analyzer
      assert.strictEqual((yield* Effect.flip(opened(filename))).reason, "unsupported")
      yield* Sqlite.reindex({ filename })
      const store = yield* opened(filename)
      const copy = yield* inMemory
      yield* Copy.copy(store, copy)
      yield* answersAsNew(store, copy, questions)
    }))

  it.scoped("a store with the old analyzer cannot write after a reindex", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const old = yield* opened(filename)
      yield* old.put(bob, texts.map(draft))
      yield* Sqlite.reindex({ filename }).pipe(Effect.provideService(Analyzer.Analyzer, other))
      assert.strictEqual((yield* Effect.flip(old.put(bob, [draft("late")]))).reason, "unsupported")
      assert.deepStrictEqual(yield* raw(filename, "SELECT count(*) AS n FROM memory_records"), [{ n: texts.length }])
    }))
})
