import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as SessionMemory from "../../src/kinds/SessionMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, bob, system } from "../../src/testing/Sample.ts"
import { sampled } from "../contract/naughty.ts"
import { stores } from "../stores.ts"

type Law = (sessions: SessionMemory.Service, store: MemoryStore.Service) => Effect.Effect<void, unknown, Scope.Scope>

const both = Effect.all([SessionMemory.SessionMemory, MemoryStore.MemoryStore])
const reason = <A, R>(self: Effect.Effect<A, MemoryError, R>) => Effect.map(Effect.flip(self), ({ reason }) => reason)
const bodies = (all: ReadonlyArray<{ readonly record: { readonly body: string } }>) =>
  all.map(({ record }) => record.body)

const suite = <E>(name: string, layer: Layer.Layer<MemoryStore.MemoryStore, E>) =>
  describe(`SessionMemory (${name})`, () => {
    const law = (title: string, check: Law) =>
      it.scoped(title, () =>
        Effect.flatMap(both, ([sessions, store]) => check(sessions, store)).pipe(
          Effect.provide(Layer.provideMerge(SessionMemory.layer, layer))
        ))

    law(
      "`start` loads learnings of confidence 0.5 or more from earlier sessions: most confident first, then newest first",
      (sessions) =>
        Effect.gen(function*() {
          yield* Effect.scoped(Effect.gen(function*() {
            const first = yield* sessions.start(ada, "s1")
            assert.deepStrictEqual(first.loaded, [])
            yield* first.recordLearning("sure", { confidence: 0.9 })
            yield* TestClock.adjust("1 second")
            yield* first.recordLearning("half")
            yield* first.recordLearning("doubtful", { confidence: 0.49 })
            yield* first.recordLearning("certain", { confidence: 1 })
            yield* first.recordLearning("never", { confidence: 0 })
            yield* first.recordTask("a task")
            yield* first.recordError("an error", "its solution")
            yield* TestClock.adjust("1 second")
            yield* first.recordLearning("sure, and newer", { confidence: 0.9 })
          }))
          const { loaded } = yield* sessions.start(ada, "s2")
          assert.deepStrictEqual(bodies(loaded), ["certain", "sure, and newer", "sure", "half"])
          assert.deepStrictEqual(loaded.map(({ data }) => data.type), ["learning", "learning", "learning", "learning"])
        })
    )

    law(
      "`start` loads at most twenty learnings, and only from the last ten sessions",
      (sessions) =>
        Effect.gen(function*() {
          for (let n = 0; n < 12; n++) {
            const session = yield* sessions.start(ada, `s${n}`)
            for (let i = 0; i < 3; i++) yield* session.recordLearning(`${n}.${i}`, { confidence: n < 2 ? 1 : 0.6 })
            yield* TestClock.adjust("1 second")
          }
          const { loaded } = yield* sessions.start(ada, "last")
          assert.lengthOf(loaded, 20)
          assert.isFalse(bodies(loaded).some((body) => body.startsWith("0.") || body.startsWith("1.")))
        })
    )

    law(
      "`search` finds learnings, tasks and errors of the running session by text, context and solution",
      (sessions) =>
        Effect.gen(function*() {
          const session = yield* sessions.start(ada, "now")
          yield* session.recordLearning("Retry with backoff", { context: "flaky gateway" })
          yield* session.recordTask("Split the migration", { context: "large table" })
          const { data, record } = yield* session.recordError("ECONNRESET\non upload", "raise the timeout")
          assert.deepStrictEqual(data, { type: "error", solution: "raise the timeout" })
          assert.deepInclude(record, { summary: "ECONNRESET on upload", scope: { userId: "ada", sessionId: "now" } })
          const found = (text: string) =>
            Effect.map(sessions.search(ada, text), (all) => all.map(({ data }) => data.type))
          assert.deepStrictEqual(yield* found("backoff"), ["learning"])
          assert.deepStrictEqual(yield* found("gateway"), ["learning"])
          assert.deepStrictEqual(yield* found("large migration"), ["task"])
          assert.deepStrictEqual(yield* found("timeout"), ["error"])
          assert.deepStrictEqual(yield* found("nothing"), [])
          assert.deepStrictEqual(yield* found("  "), [])
        })
    )

    law(
      "`search` finds the learnings of all concurrent sessions, and two sessions with the same id share one scope",
      (sessions, store) =>
        Effect.gen(function*() {
          const [one, two, again] = yield* Effect.all(["one", "two", "one"].map((id) => sessions.start(ada, id)), {
            concurrency: "unbounded"
          })
          yield* Effect.all([
            one!.recordLearning("shared lesson 1"),
            two!.recordLearning("shared lesson 2"),
            again!.recordLearning("shared lesson 3")
          ], { concurrency: "unbounded" })
          assert.sameMembers(bodies(yield* sessions.search(ada, "lesson")), [1, 2, 3].map((n) => `shared lesson ${n}`))
          const { items } = yield* store.list(system, { scope: { sessionId: "one" } })
          assert.lengthOf(items, 2)
        })
    )

    law(
      "closing the Effect scope of a session ends the session, and further recordings fail",
      (sessions, store) =>
        Effect.gen(function*() {
          const scope = yield* Scope.make()
          const session = yield* Scope.extend(sessions.start(ada, "s1"), scope)
          yield* session.recordLearning("before the end")
          yield* Scope.close(scope, Exit.die("the harness broke"))
          assert.strictEqual(yield* reason(session.recordLearning("after")), "unsupported")
          assert.strictEqual(yield* reason(session.recordTask("after")), "unsupported")
          assert.strictEqual(yield* reason(session.recordError("after", "x")), "unsupported")
          assert.lengthOf((yield* store.list(system, {})).items, 1)
          const again = yield* sessions.start(ada, "s1")
          assert.deepStrictEqual(bodies(again.loaded), ["before the end"])
          yield* again.recordLearning("and on")
        })
    )

    law(
      "`search` finds a task by its issue and challenges, and an error by its file pattern",
      (sessions) =>
        Effect.gen(function*() {
          const session = yield* sessions.start(ada, "now")
          const task = yield* session.recordTask("Split the migration", {
            issue: "#4711",
            challenges: ["the lock was held", "no downtime"],
            durationMs: 90_000
          })
          assert.deepStrictEqual(task.data, {
            type: "task",
            issue: "#4711",
            challenges: ["the lock was held", "no downtime"],
            durationMs: 90_000
          })
          const error = yield* session.recordError("ECONNRESET", "raise the timeout", {
            filePattern: "src/upload/*.ts"
          })
          assert.deepStrictEqual(error.data, {
            type: "error",
            solution: "raise the timeout",
            filePattern: "src/upload/*.ts"
          })
          const found = (text: string) =>
            Effect.map(sessions.search(ada, text), (all) => all.map(({ record }) => record.id))
          for (const text of ["4711", "downtime"]) assert.deepStrictEqual(yield* found(text), [task.record.id])
          assert.deepStrictEqual(yield* found("src/upload"), [error.record.id])
          for (const durationMs of [-1, 0.5, NaN]) {
            assert.strictEqual(yield* reason(session.recordTask("x", { durationMs })), "invalid_draft")
          }
        })
    )

    law(
      "only one of two concurrent calls of `end` succeeds",
      (sessions) =>
        Effect.gen(function*() {
          yield* TestClock.adjust("1 hour")
          const session = yield* sessions.start(ada, "s1")
          yield* TestClock.setTime(0)
          const ends = yield* Effect.all(
            ["one", "two"].map((summary) => Effect.either(Effect.withMaxOpsBeforeYield(session.end(summary), 16))),
            { concurrency: 2 }
          )
          assert.lengthOf(ends.filter(Either.isRight), 1)
          const [kept, ...others] = yield* sessions.getRecentSummaries(ada)
          assert.deepStrictEqual([kept?.data.durationMs, others.length], [0, 0])
        })
    )

    law(
      "`recordTask` refuses invalid issues and challenges, and `recordError` refuses a blank `filePattern`",
      (sessions) =>
        Effect.gen(function*() {
          const session = yield* sessions.start(ada, "s1")
          for (const bad of [{ issue: " " }, { challenges: ["hard", ""] }, { challenges: null as never }]) {
            assert.strictEqual(yield* reason(session.recordTask("move the uploads", bad)), "invalid_draft")
          }
          const bad = { filePattern: " " }
          assert.strictEqual(yield* reason(session.recordError("it fails", "run it again", bad)), "invalid_draft")
        })
    )

    law(
      "`end` stores a summary with the duration of the session, and later recordings fail",
      (sessions) =>
        Effect.gen(function*() {
          const session = yield* sessions.start(ada, "s1")
          yield* session.recordLearning("before the end", { confidence: 1 })
          yield* TestClock.adjust("90 seconds")
          assert.strictEqual(yield* reason(session.end(" ")), "invalid_draft")
          const { data, record } = yield* session.end("Moved the uploads.")
          assert.deepStrictEqual(data, { type: "summary", durationMs: 90_000 })
          assert.strictEqual(yield* reason(session.recordLearning("after")), "unsupported")
          assert.strictEqual(yield* reason(session.end("again")), "unsupported")
          yield* TestClock.adjust("1 second")
          const second = yield* sessions.start(ada, "s2")
          assert.deepStrictEqual(bodies(second.loaded), ["before the end"], "a summary is no learning")
          yield* second.end("Tested them.")
          assert.deepStrictEqual(bodies(yield* sessions.getRecentSummaries(ada)), [
            "Tested them.",
            "Moved the uploads."
          ])
          assert.lengthOf(yield* sessions.getRecentSummaries(ada, 1), 1)
          assert.deepStrictEqual(yield* sessions.getRecentSummaries(bob), [])
          assert.strictEqual(yield* reason(sessions.getRecentSummaries(ada, 0)), "invalid_draft")
          assert.strictEqual((yield* sessions.search(ada, "uploads"))[0]!.record.id, record.id)
        })
    )

    law(
      "`getRecentErrorSolutions` returns only errors, with their solutions, newest first, ten by default",
      (sessions) =>
        Effect.gen(function*() {
          const session = yield* sessions.start(ada, "s1")
          for (let n = 0; n < 12; n++) {
            yield* session.recordLearning(`learning ${n}`)
            yield* session.recordError(`error ${n}`, `solution ${n}`)
            yield* TestClock.adjust("1 second")
          }
          const solutions = (all: ReadonlyArray<{ data: SessionMemory.Learning }>) =>
            all.map(({ data }) => data.solution)
          assert.deepStrictEqual(solutions(yield* sessions.getRecentErrorSolutions(ada, 2)), [
            "solution 11",
            "solution 10"
          ])
          assert.lengthOf(yield* sessions.getRecentErrorSolutions(ada), 10)
          for (const limit of [0, -1, NaN, 1.5]) {
            assert.strictEqual(yield* reason(sessions.getRecentErrorSolutions(ada, limit)), "invalid_draft")
            assert.strictEqual(yield* reason(sessions.search(ada, "error", limit)), "invalid_draft")
          }
        })
    )

    law(
      "invalid learnings, tasks and errors are refused and not written, and `start` refuses invalid session ids",
      (sessions, store) =>
        Effect.gen(function*() {
          const session = yield* sessions.start(ada, "s1")
          for (const text of ["", " \n\t"]) {
            assert.strictEqual(yield* reason(session.recordLearning(text, { context: "x" })), "invalid_draft")
            assert.strictEqual(yield* reason(session.recordTask(text)), "invalid_draft")
            assert.strictEqual(yield* reason(session.recordError(text, "x")), "invalid_draft")
            assert.strictEqual(yield* reason(session.recordError("x", text)), "invalid_draft")
          }
          for (const confidence of [-0.1, 1.1, NaN]) {
            assert.strictEqual(yield* reason(session.recordLearning("x", { confidence })), "invalid_draft")
          }
          assert.isEmpty((yield* store.list(system, {})).items)
          assert.strictEqual(yield* reason(sessions.start(ada, "..")), "path_escape")
          assert.strictEqual(yield* reason(sessions.start(ada, "")), "invalid_scope")
        })
    )

    law(
      "a viewer sees the sessions of its own scope, and with the reach `within` also sessions of narrower scopes",
      (sessions, store) =>
        Effect.gen(function*() {
          const viewers = [ada, bob, Viewer.make({ userId: "ada", agentId: "pilot" })]
          for (const [n, viewer] of viewers.entries()) {
            const session = yield* sessions.start(viewer, "s")
            yield* session.recordLearning(`lesson of ${n}`, { confidence: 1 })
            yield* session.recordError(`lesson of ${n}`, "solved")
          }
          yield* store.put(ada, [{
            scope: { userId: "ada" },
            kind: "learning",
            body: "lesson by hand",
            data: { type: "learning" }
          }])
          for (const [n, viewer] of viewers.entries()) {
            const { loaded } = yield* sessions.start(viewer, "next")
            assert.deepStrictEqual(bodies(loaded), [`lesson of ${n}`])
            const found = (yield* sessions.search(viewer, "lesson")).map(({ record }) => record.summary)
            assert.sameMembers(found, [
              `lesson of ${n}`,
              `lesson of ${n}`,
              ...(n === 0 ? ["lesson by hand"] : [])
            ])
            assert.lengthOf(yield* sessions.getRecentErrorSolutions(viewer), 1)
          }
          assert.lengthOf(yield* sessions.search(Viewer.make({ userId: "ada", reach: "within" }), "lesson"), 5)
          const bound = Viewer.make({ userId: "ada", sessionId: "other" })
          assert.deepStrictEqual(yield* sessions.search(bound, "lesson"), [])
          assert.strictEqual(yield* reason(sessions.start(bound, "s")), "invalid_scope")
          assert.deepStrictEqual((yield* sessions.start(bound, "other")).loaded, [])
        })
    )

    law(
      "a viewer without user, agent and session ids sees no learnings or errors of any session",
      (sessions, store) =>
        Effect.gen(function*() {
          const nobody = Viewer.make({})
          for (const viewer of [ada, Viewer.make({ agentId: "pilot" }), nobody]) {
            const session = yield* sessions.start(viewer, "s")
            yield* session.recordLearning("a lesson", { confidence: 1 })
            yield* session.recordError("a lesson", "solved")
          }
          for (const sessionId of ["s", "next"]) {
            assert.deepStrictEqual((yield* sessions.start(nobody, sessionId)).loaded, [])
          }
          assert.deepStrictEqual(yield* sessions.search(nobody, "lesson"), [])
          assert.deepStrictEqual(yield* sessions.getRecentErrorSolutions(nobody), [])
          yield* store.put(nobody, [{
            scope: "global",
            kind: "learning",
            body: "lesson for all",
            data: { type: "learning" }
          }])
          assert.deepStrictEqual(
            (yield* sessions.search(nobody, "lesson")).map(({ record }) => record.body),
            ["lesson for all"]
          )
        })
    )

    law(
      "strings of the Big List of Naughty Strings that are not blank are accepted as error, solution and query",
      (sessions) =>
        Effect.gen(function*() {
          const session = yield* sessions.start(ada, "s1")
          const some = sampled(11).filter((text) => text.trim() !== "" && text.length < 1_000)
          for (const text of some) {
            const { data, record } = yield* session.recordError(text, text)
            assert.strictEqual(record.body, `${text}\n\n${text}`)
            assert.strictEqual(data.solution, text)
            yield* sessions.search(ada, text)
          }
          for (const text of ["8.104.8", "foo.ts", "a\"b", "-x", "col:val", "NOT", "NEAR(a b)", "(", "*", ""]) {
            yield* sessions.search(ada, text)
          }
        })
    )
  })

for (const [name, layer] of Object.entries(stores)) suite<unknown>(name, layer)

describe("SessionMemory", () => {
  it.scoped("a session keeps its last 500 learnings and its last 200 errors, even if the session is started twice", () =>
    Effect.gen(function*() {
      const [sessions, store] = yield* both
      const count = (type: string) =>
        Effect.map(
          store.list(system, { where: { "data.type": { eq: type } }, limit: 1_000 }),
          ({ items }) => [items.length, items.at(-1)?.body]
        )
      const first = yield* sessions.start(ada, "s1")
      yield* first.recordTask("stays")
      for (let n = 0; n < 202; n++) {
        yield* first.recordError(`error ${n}`, "x")
        yield* TestClock.adjust(1)
      }
      for (let n = 0; n < 300; n++) {
        yield* first.recordLearning(`learning ${n}`)
        yield* TestClock.adjust(1)
      }
      const again = yield* sessions.start(ada, "s1")
      for (let n = 300; n < 503; n++) {
        yield* again.recordLearning(`learning ${n}`)
        yield* TestClock.adjust(1)
      }
      assert.deepStrictEqual(yield* count("error"), [200, "error 2\n\nx"])
      assert.deepStrictEqual(yield* count("learning"), [500, "learning 3"])
      assert.deepStrictEqual(yield* count("task"), [1, "stays"])
      const other = yield* sessions.start(ada, "s2")
      yield* Effect.forEach(Array.from({ length: 201 }), () => other.recordError("of another", "x"), { discard: true })
      const { items } = yield* store.list(system, { scope: { sessionId: "s2" }, limit: 1_000 })
      assert.lengthOf(items, 200)
      assert.deepStrictEqual(yield* count("error"), [400, "error 2\n\nx"])
    }).pipe(Effect.provide(Layer.provideMerge(SessionMemory.layer, MemoryStore.layerInMemory))))

  it.scoped("the limit of 200 errors applies to all sessions with the same id and scope together", () =>
    Effect.gen(function*() {
      const [sessions, store] = yield* both
      const helper = yield* sessions.start(Viewer.make({ userId: "ada", agentId: "helper" }), "s1")
      yield* helper.recordError("the helper's", "x")
      const handles = [
        yield* sessions.start(ada, "s1"),
        yield* sessions.start(ada, "s1"),
        yield* sessions.start(Viewer.make({ userId: "ada", reach: "within" }), "s1")
      ]
      yield* Effect.forEach(
        Array.from({ length: 240 }, (_, n) => n),
        (n) => Effect.zipRight(TestClock.adjust(1), handles[n % 3]!.recordError(`error ${n}`, "x"))
      )
      const { items } = yield* store.list(system, { limit: 1_000 })
      assert.lengthOf(items, 201)
      assert.deepStrictEqual(items.slice(-2).map(({ summary }) => summary), ["error 40", "the helper's"])
    }).pipe(Effect.provide(Layer.provideMerge(SessionMemory.layer, MemoryStore.layerInMemory))))

  it.scoped("a session forgets a task only if more than 200 tasks are still stored", () =>
    Effect.gen(function*() {
      const [sessions, store] = yield* both
      const session = yield* sessions.start(ada, "s1")
      const tasks = yield* Effect.forEach(
        Array.from({ length: 200 }, (_, n) => n),
        (n) => session.recordTask(`task ${n}`)
      )
      yield* store.forget(system, tasks.slice(100).map(({ record }) => record.id))
      for (let n = 0; n < 100; n++) yield* session.recordTask(`later ${n}`)
      const all = Effect.map(store.list(system, { limit: 1_000 }), ({ items }) => items.map(({ body }) => body))
      assert.lengthOf(yield* all, 200)
      assert.include(yield* all, "task 0")
      yield* session.recordTask("last")
      assert.lengthOf(yield* all, 200)
      assert.notInclude(yield* all, "task 0")
      assert.includeMembers(yield* all, ["task 1", "last"])
    }).pipe(Effect.provide(Layer.provideMerge(SessionMemory.layer, MemoryStore.layerInMemory))))

  it.scoped("the limit of 200 tasks applies to the sessions of two processes together", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const processes = [
        yield* Effect.flatMap(SessionMemory.make, (sessions) => sessions.start(ada, "s1")),
        yield* Effect.flatMap(SessionMemory.make, (sessions) => sessions.start(ada, "s1"))
      ]
      for (let n = 0; n < 250; n++) {
        yield* processes[n % 2]!.recordTask(`task ${n}`)
        yield* TestClock.adjust(1)
      }
      const { items } = yield* store.list(system, { limit: 1_000 })
      assert.deepStrictEqual([items.length, items.at(-1)?.body], [200, "task 50"])
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))
})
