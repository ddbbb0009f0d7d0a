import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import * as TaskMemory from "../../src/kinds/TaskMemory.ts"
import { ada, bob, draft, put } from "../../src/testing/Sample.ts"
import { hostile, onEveryStore, reason } from "./EveryStore.ts"

const scope = { userId: "ada" }
const record = (
  memory: TaskMemory.Service,
  action: string,
  task: Partial<TaskMemory.TaskEpisode["task"]> = {},
  fields: { readonly validAt?: number; readonly importance?: number; readonly summary?: string } = {}
) =>
  memory.recordEpisode(ada, {
    scope,
    body: "",
    data: { task: { taskId: "t", action, outcome: "success", ...task } },
    ...fields
  })
const actions = (all: ReadonlyArray<{ readonly data: TaskMemory.TaskEpisode }>) =>
  all.map(({ data }) => data.task.action)

/** Records three tasks, a build, a test and a release, at times 100, 200 and 300; the clock stands at 1,000. */
const three = (memory: TaskMemory.Service) =>
  Effect.gen(function*() {
    yield* TestClock.setTime(1_000)
    yield* record(memory, "release", { taskType: "ops", outcome: "partial" }, { validAt: 300 })
    yield* record(memory, "build", { taskType: "dev", outcome: "failure" }, { validAt: 100 })
    yield* record(memory, "test", { taskType: "dev", taskId: "u" }, { validAt: 200 })
  })

onEveryStore("TaskMemory", TaskMemory.TaskMemory, TaskMemory.layer, (law) => {
  law(
    "`recordEpisode` fills omitted fields with defaults, such as importance 0.75 for a failed task",
    (memory) =>
      Effect.gen(function*() {
        yield* TestClock.setTime(1_000)
        const failed = yield* record(memory, "deploy\nthe site", { outcome: "failure" })
        assert.deepInclude(failed.record, {
          summary: "deploy the site",
          importance: 0.75,
          validAt: 1_000,
          kind: "episodic"
        })
        assert.strictEqual((yield* record(memory, "x")).record.importance, 0.5)
        const said = yield* record(memory, "x", { outcome: "failure" }, { importance: 0, summary: "mine", validAt: 0 })
        assert.deepInclude(said.record, { importance: 0, summary: "mine", validAt: 0 })
      })
  )

  law(
    "`queryEpisodes` returns the latest episodes first, and applies the limit after the filter",
    (memory) =>
      Effect.gen(function*() {
        yield* three(memory)
        const query = (query: TaskMemory.EpisodeQuery) => Effect.map(memory.queryEpisodes(ada, query), actions)
        assert.deepStrictEqual(yield* query({}), ["release", "test", "build"])
        assert.deepStrictEqual(yield* query({ limit: 1 }), ["release"])
        assert.deepStrictEqual(yield* query({ taskType: "dev", limit: 1 }), ["test"])
        assert.deepStrictEqual(yield* query({ taskId: "u" }), ["test"])
        assert.deepStrictEqual(yield* query({ success: true }), ["test"])
        assert.deepStrictEqual(yield* query({ success: false }), ["release", "build"])
        assert.deepStrictEqual(yield* query({ since: 200, until: 300 }), ["release", "test"])
        assert.deepStrictEqual(yield* query({ since: 201, until: 299 }), [])
      })
  )

  law("`queryEpisodes` accepts a time of 0, and refuses a limit of 0", (memory) =>
    Effect.gen(function*() {
      yield* three(memory)
      assert.lengthOf(yield* memory.queryEpisodes(ada, { since: 0 }), 3)
      assert.lengthOf(yield* memory.queryEpisodes(ada, { until: 0 }), 0)
      assert.lengthOf(yield* memory.queryEpisodes(ada, { until: Number.MAX_SAFE_INTEGER }), 3)
      for (const limit of [0, -1, 1.5, NaN, 1_001]) {
        assert.strictEqual(yield* reason(memory.queryEpisodes(ada, { limit })), "invalid_draft")
        assert.strictEqual(yield* reason(memory.getRecentFailures(ada, limit)), "invalid_draft")
        assert.strictEqual(yield* reason(memory.getSimilarEpisodes(ada, "x", limit)), "invalid_draft")
      }
      assert.strictEqual(yield* reason(memory.queryEpisodes(ada, { since: NaN })), "invalid_draft")
    }))

  law(
    "`queryEpisodes` changes no stored record, and a repeated call returns the same episodes",
    (memory, store) =>
      Effect.gen(function*() {
        yield* three(memory)
        const before = yield* store.list(ada, {})
        const first = yield* memory.queryEpisodes(ada, {})
        yield* memory.queryEpisodes(ada, { taskType: "dev" })
        assert.deepStrictEqual(yield* memory.queryEpisodes(ada, {}), first)
        assert.deepStrictEqual(yield* store.list(ada, {}), before)
      })
  )

  law(
    "`getSimilarEpisodes` returns the tasks that share words with a text, with scores of 0..1",
    (memory) =>
      Effect.gen(function*() {
        yield* three(memory)
        yield* record(memory, "rollback", { learnings: ["late"] }, { summary: "Rolled the release back" })
        const similar = yield* memory.getSimilarEpisodes(ada, "make a release of it")
        assert.sameMembers(actions(similar), ["release", "rollback"])
        assert.lengthOf(yield* memory.getSimilarEpisodes(ada, "release", 1), 1)
        for (const task of ["a b c", ...hostile]) {
          for (const { score } of yield* memory.getSimilarEpisodes(ada, task)) assert.isTrue(score >= 0 && score <= 1)
        }
        assert.deepStrictEqual(yield* memory.getSimilarEpisodes(ada, ""), [])
      })
  )

  law(
    "`getRecentFailures` returns failed tasks, latest first, ten by default",
    (memory) =>
      Effect.gen(function*() {
        yield* three(memory)
        for (let n = 0; n < 11; n++) yield* record(memory, `f${n}`, { outcome: "failure" }, { validAt: 500 - n })
        assert.deepStrictEqual(
          actions(yield* memory.getRecentFailures(ada)),
          Array.from({ length: 10 }, (_, n) => `f${n}`)
        )
        assert.deepStrictEqual(actions(yield* memory.getRecentFailures(ada, 20)).at(-1), "build")
      })
  )

  law(
    "episodes that are not tasks are neither returned nor counted towards the limit; other viewers' tasks are not returned",
    (memory, store) =>
      Effect.gen(function*() {
        yield* three(memory)
        for (let n = 0; n < 30; n++) {
          yield* put(store, draft("release talk", { kind: "episodic", data: { context: "chat" } }))
        }
        assert.lengthOf(yield* memory.queryEpisodes(ada, { limit: 3 }), 3)
        assert.deepStrictEqual(actions(yield* memory.getSimilarEpisodes(ada, "release", 1)), ["release"])
        assert.deepStrictEqual(actions(yield* memory.getSimilarEpisodes(ada, "release talk")), ["release"])
        assert.deepStrictEqual(yield* memory.queryEpisodes(bob, {}), [])
        assert.deepStrictEqual(yield* memory.getRecentFailures(bob), [])
        assert.deepStrictEqual(yield* memory.getSimilarEpisodes(bob, "release"), [])
      })
  )
})
