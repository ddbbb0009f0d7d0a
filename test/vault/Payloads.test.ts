/** The `data` field of records as a part of vault files: reading, edits by hand, reopening, and two stores that write. */
import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"
import * as BeliefMemory from "../../src/kinds/BeliefMemory.ts"
import * as CoreMemory from "../../src/kinds/CoreMemory.ts"
import * as KeyValueMemory from "../../src/kinds/KeyValueMemory.ts"
import * as KnowledgeVault from "../../src/kinds/KnowledgeVault.ts"
import * as ProceduralMemory from "../../src/kinds/ProceduralMemory.ts"
import * as ResourceMemory from "../../src/kinds/ResourceMemory.ts"
import * as SemanticMemory from "../../src/kinds/SemanticMemory.ts"
import * as TaskMemory from "../../src/kinds/TaskMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, id } from "../../src/testing/Sample.ts"
import { files, type Opened, opened, place } from "./Place.ts"

const scope = { userId: "ada" }
const because = { reason: "she moved" }

const kinds = (store: MemoryStore.Service) =>
  Effect.all({
    settings: KeyValueMemory.make("settings"),
    core: CoreMemory.make,
    tasks: TaskMemory.make,
    facts: SemanticMemory.make,
    procedures: ProceduralMemory.make,
    resources: ResourceMemory.make,
    knowledge: KnowledgeVault.make,
    beliefs: BeliefMemory.make
  }).pipe(Effect.provideService(MemoryStore.MemoryStore, store))
type Kinds = Effect.Effect.Success<ReturnType<typeof kinds>>

/** Writes a record of each kind in `kinds`, and a second setting. */
const fill = ({ beliefs, core, facts, knowledge, procedures, resources, settings, tasks }: Kinds) =>
  Effect.gen(function*() {
    yield* settings.set(ada, "theme", "dark")
    yield* settings.set(ada, "editor", { tabs: 2 })
    yield* core.setIdentity(
      ada,
      { name: "Pilot", role: "navigator", constraints: ["never guess"], capabilities: [] },
      "You fly."
    )
    yield* tasks.recordEpisode(ada, {
      id: id("task"),
      scope,
      body: "The cache was stale.",
      data: { task: { taskId: "1", action: "deploy", outcome: "failure" } }
    })
    yield* facts.storeFact(ada, {
      id: id("fact"),
      scope,
      body: "",
      data: { subject: "Ada", predicate: "drinks", object: "tea" }
    })
    yield* procedures.storeProcedure(ada, {
      id: id("procedure"),
      scope,
      body: "",
      data: { name: "deploy", steps: [{ action: "build" }], triggers: ["ship"], successes: 1, executions: 2 }
    })
    yield* resources.store(ada, {
      id: id("resource"),
      scope,
      body: "",
      data: { type: "url", location: "https://example.org", lastModified: 0 }
    })
    yield* knowledge.store(ada, {
      id: id("knowledge"),
      scope,
      body: "One place.",
      data: { title: "Monorepo", category: "decision" }
    })
    yield* beliefs.retain(ada, {
      id: id("belief"),
      scope,
      body: "",
      data: { subject: "Ada", predicate: "lives in", object: "Bern", sourceType: "observation" }
    })
    yield* beliefs.weaken(ada, id("belief"), 0.5, because)
  })

interface Vault extends Opened, Kinds {
  readonly root: string
  /** Returns path and text of the one Markdown file that contains the text `says`. */
  readonly page: (says: string) => readonly [at: string, text: string]
  /** Replaces `says` by `instead` in the one Markdown file that contains it, and rescans the vault. */
  readonly edit: (says: string, instead: string) => Effect.Effect<void, unknown>
  readonly issues: Effect.Effect<number, unknown>
}

const law = (title: string, check: (vault: Vault) => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.scopedLive(title, () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store, vault } = yield* opened(root)
      const all = yield* kinds(store)
      yield* fill(all)
      const page = (says: string) => {
        const pages = Object.entries(files(root)).filter(([, text]) => text.includes(says))
        assert.lengthOf(pages, 1, says)
        return pages[0]!
      }
      yield* check({
        ...all,
        root,
        store,
        vault,
        page,
        edit: (says, instead) =>
          Effect.suspend(() => {
            const [at, text] = page(says)
            fs.writeFileSync(path.join(root, at), text.replace(says, instead))
            return vault.refresh
          }),
        issues: Effect.map(vault.issues, ({ length }) => length)
      })
    }))

describe("data of built-in kinds in a vault", () => {
  law(
    "a record's data is in the frontmatter under `data`, and the record's main text is in the body",
    ({ page }) =>
      Effect.sync(() => {
        for (
          const [says, data, body] of [
            ["summary: theme\n", "  namespace: settings\n  key: theme\n", "dark"],
            ["summary: editor\n", "  namespace: settings\n  key: editor\n  value:\n    tabs: 2\n", "tabs: 2"],
            [
              "summary: Pilot\n",
              "  role: navigator\n  name: Pilot\n  constraints:\n    - never guess\n  capabilities: []\n",
              "You fly."
            ],
            [
              "kind: episodic\n",
              "  task:\n    taskId: \"1\"\n    action: deploy\n    outcome: failure\n",
              "The cache was stale."
            ],
            ["summary: Ada drinks tea\n", "  subject: Ada\n  predicate: drinks\n  object: tea\n", ""],
            [
              "kind: procedural\n",
              "  name: deploy\n  steps:\n    - action: build\n  triggers:\n    - ship\n  successes: 1\n  executions: 2\n",
              ""
            ],
            [
              "kind: resource\n",
              "  type: url\n  location: https://example.org\n  lastModified: 1970-01-01T00:00:00.000Z\n",
              ""
            ],
            ["summary: Monorepo\n", "  category: decision\n  title: Monorepo\n", "One place."]
          ] as const
        ) {
          const [, text] = page(says)
          assert.include(text, `\ndata:\n${data}`)
          assert.isTrue(text.endsWith(`---\n\n${body}\n`), says)
        }
        const [, belief] = page("summary: Ada lives in Bern\n")
        assert.match(belief, /\n {2}audit:\n {4}- action: weaken\n {6}at: \d{4}-\d\d-\d\dT[\d:.]+Z\n {6}revision: 2\n/)
        assert.include(belief, "      reason: she moved\n")
      })
  )

  law(
    "a setting's value can be edited by hand, but a setting whose key was edited is found under neither key",
    ({ edit, issues, settings }) =>
      Effect.gen(function*() {
        const get = (key: string) => Effect.map(settings.get(ada, key), Option.getOrUndefined)
        yield* edit("\n\ndark\n", "\n\nlight,\nand *bright*\n")
        yield* edit("    tabs: 2\n", "    tabs: 4\n    wrap: true\n")
        assert.strictEqual(yield* get("theme"), "light,\nand *bright*")
        assert.deepStrictEqual(yield* get("editor"), { tabs: 4, wrap: true })
        yield* edit("key: theme\n", "key: colour\n")
        assert.deepStrictEqual([yield* get("theme"), yield* get("colour")], [undefined, undefined])
        assert.deepStrictEqual(yield* settings.keys(ada), ["editor"])
        yield* edit("key: colour\n", "key: theme\n")
        assert.strictEqual(yield* get("theme"), "light,\nand *bright*")
        assert.strictEqual(yield* issues, 0)
      })
  )

  law(
    "the services of the built-in kinds read and change data that was edited by hand",
    ({ beliefs, core, edit, knowledge, page, procedures, root, tasks, vault }) =>
      Effect.gen(function*() {
        yield* edit("- never guess\n", "- never guess\n    - ask first\n")
        yield* edit("outcome: failure", "outcome: success")
        yield* edit("successes: 1\n  executions: 2", "successes: 6\n  executions: 9")
        yield* edit("category: decision", "category: pattern")
        yield* edit("confidence: 0.3\n", "confidence: 0.8\n")
        assert.deepStrictEqual(yield* core.getConstraints(ada), ["never guess", "ask first"])
        assert.deepStrictEqual(yield* tasks.getRecentFailures(ada), [])
        const { data } = yield* procedures.recordExecution(ada, id("procedure"), true)
        assert.strictEqual(ProceduralMemory.successRate(data), 0.7)
        assert.lengthOf(yield* knowledge.findByCategory(ada, "pattern"), 1)
        const { record } = yield* beliefs.reinforce(ada, id("belief"), 0.5, because)
        assert.closeTo(record.confidence!, 0.9, 1e-9)
        fs.rmSync(path.join(root, page("summary: Monorepo\n")[0]))
        yield* vault.refresh
        assert.deepStrictEqual(yield* knowledge.search(ada, "monorepo"), [])
      })
  )

  law(
    "an edit by hand that makes a record's data invalid is reported, and the services of the kinds still read without error",
    ({ core, edit, facts, issues, knowledge, procedures, resources, settings }) =>
      Effect.gen(function*() {
        for (
          const [right, wrong] of [
            ["category: decision", "category: gossip"],
            ["successes: 1\n", "successes: 3\n"],
            ["type: url", "type: place"],
            ["lastModified: 1970-01-01T00:00:00.000Z", "lastModified: lately"],
            ["subject: Ada\n  predicate: drinks", "subject: \"\"\n  predicate: drinks"],
            ["constraints:\n    - never guess", "constraints: never guess"],
            ["outcome: failure", "outcome: dunno"],
            ["action: weaken\n", "action: shrug\n"],
            ["namespace: settings\n  key: theme", "namespace: settings\n  keys: theme"]
          ] as const
        ) {
          yield* edit(right, wrong)
          assert.strictEqual(yield* issues, 1, wrong)
          yield* Effect.all([
            core.getIdentity(ada),
            procedures.findProcedures(ada, "ship"),
            facts.queryBySubject(ada, "Ada"),
            knowledge.findByCategory(ada, "decision"),
            resources.findByLocation(ada, ""),
            settings.entries(ada)
          ])
          yield* edit(wrong, right)
          assert.strictEqual(yield* issues, 0, right)
        }
        assert.lengthOf(yield* knowledge.findByCategory(ada, "decision"), 1)
        assert.lengthOf(yield* procedures.findProcedures(ada, "ship"), 1)
        assert.lengthOf(yield* facts.queryBySubject(ada, "Ada"), 1)
        assert.isTrue(Option.isSome(yield* core.getIdentity(ada)))
        assert.strictEqual(yield* settings.size(ada), 2)
      })
  )

  it.scopedLive("data, audit trail and history of a record are the same after the vault is reopened", () =>
    Effect.gen(function*() {
      const root = yield* place
      const told = ({ beliefs, core, facts, knowledge, procedures, resources, settings, tasks }: Kinds) =>
        Effect.all([
          settings.entries(ada),
          core.getIdentity(ada),
          tasks.queryEpisodes(ada, {}),
          facts.searchFacts(ada, "tea"),
          procedures.findProcedures(ada, "ship it"),
          resources.findByType(ada, "url"),
          knowledge.search(ada, "place"),
          beliefs.query(ada, { includeSuperseded: true }),
          beliefs.history(ada, id("belief")),
          beliefs.audit(ada, id("belief"))
        ])
      const before = yield* Effect.scoped(
        Effect.flatMap(
          opened(root),
          ({ store }) => Effect.flatMap(kinds(store), (all) => Effect.zipRight(fill(all), told(all)))
        )
      )
      const { store } = yield* opened(root)
      deepStrictEqual(yield* Effect.flatMap(kinds(store), told), before)
    }))

  it.scopedLive("two stores on one folder count every execution of a procedure, and keep one entry per settings key", () =>
    Effect.gen(function*() {
      const root = yield* place
      const [one, two] = yield* Effect.all([opened(root), opened(root)])
      const [a, b] = yield* Effect.all([kinds(one.store), kinds(two.store)])
      yield* fill(a)
      yield* two.vault.refresh
      const turns = Array.from({ length: 10 }, (_, n) => n)
      yield* Effect.all(
        [a, b].map(({ procedures, settings }, writer) =>
          Effect.forEach(turns, (n) =>
            Effect.zipRight(
              procedures.recordExecution(ada, id("procedure"), n % 2 === 0),
              settings.set(ada, "turn", [writer, n])
            ))
        ),
        { concurrency: "unbounded" }
      )
      yield* Effect.all([one.vault.refresh, two.vault.refresh])
      for (const { procedures, settings } of [a, b]) {
        const [found] = yield* procedures.findProcedures(ada, "ship")
        assert.deepInclude(found?.data, { executions: 22, successes: 11 })
        assert.lengthOf((yield* settings.keys(ada)).filter((key) => key === "turn"), 1)
      }
    }))
})
