/** Records of the kinds as files of a vault, and edits of these files by hand. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as AgenticMemory from "../../src/kinds/AgenticMemory.ts"
import * as GraphMemory from "../../src/kinds/GraphMemory.ts"
import * as SessionMemory from "../../src/kinds/SessionMemory.ts"
import { MemoryStore } from "../../src/storage/MemoryStore.ts"
import { pathOf } from "../../src/storage/MemoryStore/Markdown/Layout.ts"
import { ada, id } from "../../src/testing/Sample.ts"
import { type Opened, opened, place } from "./Place.ts"

const scope = { userId: "ada" }
const at = (name: string) => pathOf("default", scope, id(name))

interface Vault extends Opened {
  readonly graph: GraphMemory.Service
  readonly read: (name: string) => string
  /** Edits the file of the record with this name, and rescans the vault. */
  readonly edit: (name: string, change: (text: string) => string) => Effect.Effect<void, unknown>
  readonly remove: (name: string) => Effect.Effect<void, unknown>
  readonly issues: Effect.Effect<ReadonlyArray<string>>
}

const law = (title: string, check: (vault: Vault) => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.scopedLive(title, () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store, vault } = yield* opened(root)
      const read = (name: string) => fs.readFileSync(path.join(root, at(name)), "utf8")
      yield* check({
        store,
        vault,
        graph: yield* Effect.provideService(GraphMemory.make, MemoryStore, store),
        read,
        edit: (name, change) =>
          Effect.suspend(() => {
            fs.writeFileSync(path.join(root, at(name)), change(read(name)))
            return vault.refresh
          }),
        remove: (name) =>
          Effect.suspend(() => {
            fs.rmSync(path.join(root, at(name)))
            return vault.refresh
          }),
        issues: Effect.map(vault.issues, (all) => all.map(({ path }) => path))
      })
    }))

const add = (graph: GraphMemory.Service, name: string, body = "") =>
  graph.addEntity(ada, { id: id(name), scope, body, data: { name, type: "person" } })
const types = (graph: GraphMemory.Service, name: string) =>
  Effect.map(graph.relationships(ada, id(name)), (all) => all.map(({ type, weight }) => [type, weight]))

describe("files of records of built-in kinds in a vault", () => {
  law(
    "an entity is a Markdown file with its name, its type, and its relations as [[links]]",
    ({ graph, read }) =>
      Effect.gen(function*() {
        yield* add(graph, "Ada", "Wrote the first program.")
        yield* add(graph, "Charles")
        yield* graph.relate(ada, { from: id("Ada"), to: id("Charles"), type: "knows", weight: 0.5 })
        const text = read("Ada")
        assert.include(text, "\nsummary: Ada\n")
        assert.include(text, `\nlinks:\n  - to: "[[${id("Charles")}]]"\n    type: knows\n    weight: 0.5\n`)
        assert.include(text, "\ndata:\n  name: Ada\n  type: person\n")
        assert.isTrue(text.endsWith("---\n\nWrote the first program.\n"))
      })
  )

  law(
    "a relation can be added, changed and removed by hand in the frontmatter, and added as a [[name]] in the text",
    ({ edit, graph, issues }) =>
      Effect.gen(function*() {
        for (const name of ["Ada", "Charles", "Mary"]) yield* add(graph, name)
        yield* edit("Ada", (text) => text.replace("\ndata:", `\nlinks:\n  - "[[${id("Charles")}|Charles]]"\ndata:`))
        assert.deepStrictEqual(yield* types(graph, "Ada"), [["related_to", 1]])
        yield* edit(
          "Ada",
          (text) => text.replace(/links:\n.*\n/, `links:\n  - {to: ${id("Charles")}, type: knows, weight: 0.2}\n`)
        )
        assert.deepStrictEqual(yield* types(graph, "Charles"), [["knows", 0.2]])
        yield* edit("Ada", (text) => `${text.replace(/links:\n.*\n/, "")}\nTaught by [[Mary]].\n`)
        assert.deepStrictEqual(yield* types(graph, "Charles"), [])
        assert.deepStrictEqual(yield* types(graph, "Mary"), [["wikilink", 1]])
        assert.deepStrictEqual(yield* issues, [])
      })
  )

  law(
    "an invalid edit by hand of an entity or a link is reported, and the file is left as edited",
    ({ edit, graph, issues, read }) =>
      Effect.gen(function*() {
        yield* add(graph, "Ada")
        const good = read("Ada")
        const bad = [
          good.replace("  name: Ada\n", "  name: \"\"\n"),
          good.replace("\ndata:", "\nlinks:\n  - {to: \"[[Charles]]\", type: knows}\ndata:"),
          good.replace("\ndata:", `\nlinks:\n  - {to: ${id("Charles")}, weight: 2}\ndata:`)
        ]
        for (const text of bad) {
          yield* edit("Ada", () => text)
          assert.deepStrictEqual(yield* issues, [at("Ada")])
          assert.deepStrictEqual(yield* graph.traverse(ada, id("Ada")), [])
          assert.strictEqual(read("Ada"), text)
          yield* edit("Ada", () => good)
          assert.deepStrictEqual(yield* issues, [])
        }
        assert.isTrue(yield* graph.forget(ada, id("Ada")))
      })
  )

  law(
    "a graph traversal no longer passes through an entity that was forgotten",
    ({ graph, store, vault }) =>
      Effect.gen(function*() {
        for (const name of ["Ada", "Charles", "Mary"]) yield* add(graph, name)
        yield* graph.relate(ada, { from: id("Ada"), to: id("Charles"), type: "knows", weight: 1 })
        yield* graph.relate(ada, { from: id("Charles"), to: id("Mary"), type: "knows", weight: 1 })
        assert.lengthOf(yield* graph.traverse(ada, id("Ada")), 2)
        yield* store.forget(ada, [id("Charles")])
        yield* vault.refresh
        assert.deepStrictEqual(yield* graph.traverse(ada, id("Ada")), [])
      })
  )

  law(
    "`refreshAttributes` derives a note's attributes from the text that a person has edited by hand",
    ({ edit, issues, store }) =>
      Effect.gen(function*() {
        const notes = yield* Effect.provideService(AgenticMemory.make, MemoryStore, store)
        yield* notes.store(ada, { id: id("note"), scope, body: "Apple cake" })
        yield* edit("note", (text) => text.replace("\n\nApple cake", "\n\nThe Payments Gateway fails"))
        const { data, record } = yield* notes.refreshAttributes(ada, id("note"))
        assert.deepStrictEqual([data.keywords, data.entities], [["payments", "gateway", "fails"], ["Payments Gateway"]])
        assert.deepStrictEqual(record.tags, ["error"])
        yield* edit("note", (text) => text.replace("context:", "context: \"" + "x".repeat(201) + "\" #"))
        assert.deepStrictEqual(yield* issues, [at("note")])
      })
  )

  law(
    "an error that a session recorded is in the session's folder, and is found by words of its solution",
    ({ store, vault }) =>
      Effect.gen(function*() {
        const sessions = yield* Effect.provideService(SessionMemory.make, MemoryStore, store)
        const session = yield* sessions.start(ada, "monday")
        const { record } = yield* session.recordError("ECONNRESET", "Raise the timeout.")
        assert.include(pathOf("default", record.scope, record.id), "sessions/monday/")
        yield* vault.refresh
        const [found] = yield* sessions.search(ada, "timeout")
        assert.deepInclude(found?.data, { type: "error", solution: "Raise the timeout." })
      })
  )

  it.scopedLive("every page in docs/kinds.md, section \"By hand\", is read without issues", () =>
    Effect.gen(function*() {
      const root = yield* place
      const text = fs.readFileSync(path.join(import.meta.dirname, "../../docs/kinds.md"), "utf8")
      const [, byHand] = text.split("\n## By hand\n")
      const pages = Array.from(byHand!.matchAll(/```markdown\n([^]*?)```/g), ([, page]) => page!)
      assert.isNotEmpty(pages)
      for (const page of pages) {
        const [, id] = /^id: (\w+)$/m.exec(page)!
        const [, session] = /^sessionId: (.+)$/m.exec(page) ?? []
        const folder = path.join(root, "users/ada", ...(session === undefined ? [] : ["sessions", session]))
        fs.mkdirSync(folder, { recursive: true })
        fs.writeFileSync(path.join(folder, `${id}.md`), page)
      }
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.issues, [])
      const { items } = yield* store.list(Viewer.system(), { limit: 100 })
      assert.lengthOf(items, pages.length)
      const graph = yield* Effect.provideService(GraphMemory.make, MemoryStore, store)
      const lovelace = MemoryId.make("01J8Z3N5T6V7W8X9Y0ABCDEFGH")
      const found = yield* graph.relationships(ada, lovelace)
      assert.deepStrictEqual(found.map(({ type, weight }) => [type, weight]), [["wikilink", 1], ["works_with", 0.9]])
    }))
})
