import { assert, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { type Reason, Reason as ReasonSchema } from "../../src/domain/MemoryError.ts"
import { layerInMemory, MemoryStore, type Service } from "../../src/storage/MemoryStore.ts"
import * as Faulty from "../../src/storage/MemoryStore/Faulty.ts"
import { refuses } from "../../src/testing/Law.ts"
import { ada, draft, id, listed, put } from "../../src/testing/Sample.ts"

/** Declares a test of a store that fails according to a plan (`faulty`), and of the same store without faults (`below`). */
const law = (
  title: string,
  plan: ReadonlyArray<Faulty.Fault>,
  check: (faulty: Service, below: Service) => Effect.Effect<unknown, unknown>
) =>
  it.effect(title, () =>
    Effect.gen(function*() {
      const below = yield* MemoryStore
      yield* Effect.flatMap(MemoryStore, (faulty) => check(faulty, below)).pipe(
        Effect.provide(Layer.provide(Faulty.layer(...plan), Layer.succeed(MemoryStore, below)))
      )
    }).pipe(Effect.provide(layerInMemory)))

const operations = (
  store: Service
): Readonly<Record<string, Effect.Effect<unknown, import("../../src/domain/MemoryError.ts").MemoryError>>> => ({
  apply: store.apply(ada, []),
  put: store.put(ada, [draft("tea")]),
  get: store.get(ada, [id("x")]),
  search: store.search(ada, {}),
  list: store.list(ada, {}),
  stream: Stream.runDrain(store.stream(ada, {})),
  update: Effect.flatMap(
    store.put(ada, [draft("tea", { id: id("x") })]),
    () => store.update(ada, id("x"), { body: "coffee" })
  ),
  forget: store.forget(ada, [id("x")]),
  history: store.history(ada, id("x")),
  changes: Stream.runDrain(store.changes(ada)),
  whyNot: store.whyNot(ada, id("x"), {}),
  touch: store.touch(ada, [id("x")]),
  uses: store.uses(ada, [id("x")]),
  tenants: store.tenants,
  compact: store.compact
})

law(
  "a fault without options makes calls such as `put`, `search` and `stream` fail with a retryable io error",
  [{}],
  (faulty) =>
    Effect.forEach(
      Object.entries(operations(faulty)),
      ([op, operation]) =>
        Effect.map(refuses("io", operation), (error) => {
          assert.strictEqual(error.op, op === "update" ? "put" : op)
          assert.isTrue(error.isRetryable)
        })
    )
)

law(
  "a fault with `ops` and `at: n` makes only the n-th call fail, counting the calls of the named operations together",
  [{ ops: ["put", "update"], at: 2 }],
  (faulty, below) =>
    Effect.gen(function*() {
      yield* put(faulty, draft("1", { id: id("x") }))
      yield* faulty.list(ada, {})
      yield* refuses("io", faulty.update(ada, id("x"), { body: "2" }))
      yield* faulty.update(ada, id("x"), { body: "3" })
      assert.deepStrictEqual(yield* listed(below, ada), ["3"])
    })
)

law(
  "a fault without `when` occurs before the operation: `put` fails, and nothing is written",
  [{ ops: ["put"] }],
  (faulty, below) =>
    Effect.gen(function*() {
      yield* refuses("io", put(faulty, draft("tea")))
      assert.deepStrictEqual(yield* listed(below, ada), [])
    })
)

law(
  "a fault with `when: after` makes `put` fail after the record was written",
  [{ ops: ["put"], when: "after" }],
  (faulty, below) =>
    Effect.gen(function*() {
      yield* refuses("io", put(faulty, draft("tea")))
      assert.deepStrictEqual(yield* listed(below, ada), ["tea"])
    })
)

law(
  "the fault `crash` makes the call die with a defect",
  [{ ops: ["get"], fault: "crash" }],
  (faulty) =>
    Effect.gen(function*() {
      const exit = yield* Effect.exit(faulty.get(ada, []))
      assert.isTrue(Exit.isFailure(exit) && Cause.isDie(exit.cause))
    })
)

law(
  "a fault with `when: after` makes `stream` fail only after every record was emitted",
  [{ ops: ["stream"], when: "after" }],
  (faulty, below) =>
    Effect.gen(function*() {
      yield* put(below, draft("tea"))
      const heard: Array<string> = []
      yield* refuses("io", Stream.runForEach(faulty.stream(ada, {}), ({ body }) => Effect.sync(() => heard.push(body))))
      assert.deepStrictEqual(heard, ["tea"])
      assert.lengthOf(Chunk.toReadonlyArray(yield* Stream.runCollect(below.stream(ada, {}))), 1)
    })
)

law(
  "a call with two due faults fails with the one planned first, and counts as a call for every fault",
  [
    { ops: ["list"], at: 2, fault: "unavailable" },
    { at: 2, fault: "corrupt" },
    { at: 3, fault: "conflict" }
  ],
  (faulty) =>
    Effect.gen(function*() {
      yield* faulty.list(ada, {})
      yield* refuses("unavailable", faulty.list(ada, {}))
      yield* refuses("conflict", faulty.list(ada, {}))
      yield* faulty.list(ada, {})
    })
)

for (const reason of ReasonSchema.literals as ReadonlyArray<Reason>) {
  law(
    `a fault with the reason \`${reason}\` makes the call fail with this reason`,
    [{ fault: reason }],
    (faulty) => refuses(reason, faulty.list(ada, {}))
  )
}
