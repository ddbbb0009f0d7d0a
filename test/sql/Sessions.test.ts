import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { draft, id } from "../../src/testing/Sample.ts"
import { databases } from "../stores.ts"

const sessions = 1_000
const scopeOf = (n: number) => ({ userId: "ada", sessionId: `session ${n}` })
const all = Viewer.make({ userId: "ada", reach: "within" })
const one = Viewer.make(scopeOf(7))

describe.each(Object.entries(databases))("the database store %s", (_, layer) => {
  it.scoped("`search` and `stream` of a database return the same as in memory for a user with a thousand sessions", () =>
    Effect.gen(function*() {
      const [memory, store] = yield* Effect.forEach(
        [MemoryStore.layerInMemory, layer],
        (layer) => Effect.map(Layer.build(layer), Context.get(MemoryStore.MemoryStore))
      )
      for (const target of [memory!, store!]) {
        for (let n = 0; n < sessions; n += 250) {
          yield* target.put(
            all,
            Array.from(
              { length: 250 },
              (_, i) =>
                draft(`said in session ${n + i} of tea${(n + i) % 9}`, { id: id(`${n + i}`), scope: scopeOf(n + i) })
            )
          )
        }
      }
      for (const viewer of [all, one]) {
        for (const text of ["tea7 session", "session 999", "tea3"]) {
          const [expected, found] = yield* Effect.forEach(
            [memory!, store!],
            (store) => store.search(viewer, { text, limit: 20, explain: true })
          )
          assert.deepStrictEqual(
            found!.hits.map(({ record, score }) => [record.id, score]),
            expected!.hits.map(({ record, score }) => [record.id, score])
          )
        }
        const [expected, found] = yield* Effect.forEach(
          [memory!, store!],
          (store) => Effect.map(Stream.runCollect(store.stream(viewer, {})), Chunk.toReadonlyArray)
        )
        assert.deepStrictEqual(found!.map(({ id }) => id), expected!.map(({ id }) => id))
        assert.lengthOf(found!, viewer === all ? sessions : 1)
      }
    }))
})
