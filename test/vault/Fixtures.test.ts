import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Yaml from "yaml"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import type * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { get, system } from "../../src/testing/Sample.ts"
import { copyOf, files, opened, place } from "./Place.ts"

const ulid = (end: string) => MemoryId.make(`01HV3ZK4T6N8QW2RJ5Y7M9X0${end}`)
const everyone = "global/01HV3ZK4T6N8QW2RJ5Y7M9X0AB.md"
const bobs = "agents/Bob/01HV3ZK4T6N8QW2RJ5Y7M9X0BC.md"
const derived = "agents/Bob/01HV3ZK4T6N8QW2RJ5Y7M9X0CD.md"
const runs = "runs/run-42/01HV3ZK4T6N8QW2RJ5Y7M9X0DE.md"

describe("a vault written by drover (another memory program)", () => {
  it.scopedLive("opening the vault changes no file; the scope of each record follows from the file's path and frontmatter", () =>
    Effect.gen(function*() {
      const root = yield* copyOf("drover")
      const before = files(root)
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.issues, [])
      assert.deepInclude(yield* get(store, system, ulid("AB")), {
        scope: "global",
        kind: "project",
        tags: ["release", "calendar"],
        summary: "Releases are cut from main on Thursdays",
        body: "The train leaves at 15:00 CET; what isn't merged waits a week.",
        createdAt: 1714060800000,
        source: { origin: "file", trust: 2 }
      })
      assert.deepInclude(yield* get(store, system, ulid("BC")), {
        scope: { agentId: "Bob" },
        summary: "Ada prefers short answers: no preamble",
        updatedAt: 1714150800000
      })
      assert.deepInclude(yield* get(store, system, ulid("CD")), { scope: { agentId: "Bob" }, body: "" })
      assert.deepInclude(yield* get(store, system, ulid("DE")), { scope: { agentId: "Bob", runId: "run-42" } })
      const bob = Viewer.make({ agentId: "Bob" })
      assert.lengthOf((yield* store.list(bob, {})).items, 3)
      assert.lengthOf((yield* store.list(Viewer.make({ agentId: "bob" }), {})).items, 1)
      assert.lengthOf((yield* store.list(Viewer.make({ agentId: "Bob", runId: "run-42" }), {})).items, 4)
      assert.deepStrictEqual(files(root), before)
    }))

  it.scopedLive("an update moves a record's file to the folder of its scope, and keeps unknown frontmatter keys", () =>
    Effect.gen(function*() {
      const root = yield* copyOf("drover")
      yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        for (const end of ["AB", "BC", "CD", "DE"]) yield* store.update(system, ulid(end), { importance: 0.9 })
        assert.deepStrictEqual(Object.keys(files(root)), [
          "agents/+bob/01HV3ZK4T6N8QW2RJ5Y7M9X0BC.md",
          "agents/+bob/01HV3ZK4T6N8QW2RJ5Y7M9X0CD.md",
          "agents/+bob/runs/run-42/01HV3ZK4T6N8QW2RJ5Y7M9X0DE.md",
          everyone
        ])
        yield* store.update(system, ulid("DE"), { tags: ["ci", "seen"] })
      }))
      const texts = Object.values(files(root)).join()
      assert.include(texts, "reviewedBy: Ada")
      assert.include(texts, "ticket:\n  number: 118\n  labels:\n    - flaky\n    - linux\n")
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.issues, [])
      assert.deepInclude(yield* get(store, system, ulid("DE")), {
        revision: 3,
        tags: ["ci", "seen"],
        importance: 0.9,
        source: { origin: "file", trust: 2 },
        createdAt: 1714071600000
      })
      assert.deepStrictEqual((yield* store.history(system, ulid("DE"))).map(({ revision }) => revision), [3, 2, 1])
    }))

  it.scopedLive("an old file that a crash during a move left behind is reported, and is deleted at the record's next write", () =>
    Effect.gen(function*() {
      const root = yield* copyOf("drover")
      const old = fs.readFileSync(path.join(root, bobs), "utf8")
      yield* Effect.scoped(
        Effect.flatMap(opened(root), ({ store }) => store.update(system, ulid("BC"), { body: "new" }))
      )
      fs.writeFileSync(path.join(root, bobs), old)
      const { store, vault } = yield* opened(root)
      assert.deepInclude(yield* get(store, system, ulid("BC")), { body: "new", revision: 2 })
      assert.deepStrictEqual((yield* vault.issues).map(({ path }) => path), [bobs])
      yield* store.update(system, ulid("BC"), { body: "newer" })
      assert.deepStrictEqual(yield* vault.issues, [])
      assert.isFalse(fs.existsSync(path.join(root, bobs)))
      assert.isTrue(fs.existsSync(path.join(root, derived)))
      assert.isTrue(fs.existsSync(path.join(root, runs)))
      yield* store.forget(system, [ulid("CD")])
      assert.isFalse(fs.existsSync(path.join(root, derived)))
    }))
})

describe("a vault written by drover with values that exceed a record's limits", () => {
  const tags = Array.from({ length: 40 }, (_, n) => `tag ${n}`)
  const said: Readonly<
    Record<string, readonly [says: Readonly<Record<string, unknown>>, reads: object, isTold: boolean]>
  > = {
    FA: [{ summary: "Two\nlines" }, { summary: "Two lines", metadata: { summary: "Two\nlines" } }, true],
    FB: [{ summary: "s ".repeat(300) }, { metadata: { summary: "s ".repeat(300) } }, true],
    FC: [{ tags }, { tags: tags.slice(0, 32), metadata: { tags } }, true],
    FD: [{ tags: ["a", "", "x".repeat(65)] }, { tags: ["a"], metadata: { tags: ["a", "", "x".repeat(65)] } }, true],
    FE: [{ createdAt: 1714060800000.5, updatedAt: 1714060800001.25 }, {
      createdAt: 1714060800000,
      updatedAt: 1714060800001
    }, true],
    FF: [{ summary: "   " }, { summary: "Body.", metadata: { summary: "   " } }, true],
    FG: [{ tags: [2024, true] }, { tags: ["2024", "true"], metadata: {} }, false],
    FH: [{ kind: "Not A Kind" }, { kind: "reference", metadata: { kind: "Not A Kind" } }, true],
    FJ: [{ tags: ["instructions"], kind: "reference" }, { tags: ["instructions"] }, false]
  }
  const pathOf = (end: string) => `agents/Bob/${ulid(end)}.md`
  const filled = Effect.tap(place, (root) =>
    Effect.sync(() => {
      fs.mkdirSync(path.join(root, "agents/Bob"), { recursive: true })
      for (const [end, [says]] of Object.entries(said)) {
        const head = {
          id: ulid(end),
          scope: "agent",
          kind: "user",
          summary: "s",
          createdAt: 1714060800000,
          agentId: "Bob"
        }
        fs.writeFileSync(path.join(root, pathOf(end)), `---\n${Yaml.stringify({ ...head, ...says })}---\n\nBody.\n`)
      }
    }))

  it.scopedLive("a value beyond a record's limits is adapted when read, and the file is left unchanged", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const before = files(root)
      const { store, vault } = yield* opened(root)
      const told = Object.entries(said).flatMap(([end, [, , isTold]]) => isTold ? [pathOf(end)] : [])
      assert.deepStrictEqual((yield* vault.issues).map(({ path }) => path).sort(), told.sort())
      for (const [end, [, reads]] of Object.entries(said)) {
        const record = yield* get(store, system, ulid(end))
        for (const [field, value] of Object.entries(reads)) {
          assert.deepEqual(record?.[field as "tags"], value, `${end}: ${field}`)
        }
        assert.deepInclude(record, { scope: { agentId: "Bob" }, body: "Body.", source: { origin: "file", trust: 2 } })
      }
      assert.deepStrictEqual(files(root), before)
    }))

  it.scopedLive("a record with a value adapted to the limits can be updated and read again", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const written = yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        return yield* Effect.forEach(Object.keys(said), (end) => store.update(system, ulid(end), { importance: 0.9 }))
      }))
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.issues, [])
      for (const record of written) assert.deepEqual(yield* get(store, system, record.id), record)
    }))

  it.scopedLive("a file with unreadable frontmatter is reported as an issue and is not a record", () =>
    Effect.gen(function*() {
      const root = yield* copyOf("drover")
      fs.writeFileSync(path.join(root, everyone), "---\nid: a: b\nscope: global\n---\n\nx\n")
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual((yield* vault.issues).map(({ path }) => path), [everyone])
      assert.lengthOf((yield* store.list(system, {})).items, 3)
    }))
})

describe("a folder of Obsidian notes", () => {
  it.scopedLive("Obsidian notes become records of kind `reference` in the global scope, with trust 2", () =>
    Effect.gen(function*() {
      const root = yield* copyOf("obsidian")
      const before = files(root)
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.issues, [])
      const { items } = yield* store.list(system, {})
      assert.deepStrictEqual(items.map(({ source, summary, tags }) => [summary, source.reference, tags]).sort(), [
        ["2024-05-02", "Daily/2024-05-02.md", []],
        ["Ideen für später", "Ideen für später.md", []],
        ["Reading list", "Reading list.md", ["books", "to-read"]],
        ["Tomatoes", "Garden/Tomatoes.md", ["garden", "plants"]]
      ])
      for (const { kind, scope, source } of items) {
        assert.deepInclude({ kind, scope, ...source }, { kind: "reference", scope: "global", origin: "file", trust: 2 })
      }
      assert.include(
        items.find(({ summary }) => summary === "Tomatoes")?.body,
        "See [[Reading list]].\n\n![[tomato.png]]"
      )
      assert.deepStrictEqual(files(root), before)
    }))

  it.scopedLive("a link resolves by a note's path or name, ignoring case; after a rename, both the old and the new name resolve", () =>
    Effect.gen(function*() {
      const root = yield* copyOf("obsidian")
      fs.writeFileSync(path.join(root, "Map.md"), "[[garden/tomatoes|red]], `[[Reading list]]`, ![[Missing]]")
      const { store, vault } = yield* opened(root)
      const summaries = (ends: ReadonlyArray<MemoryStore.Linked>) =>
        Effect.map(
          store.get(system, ends.map(({ id }) => id)),
          (found) => found.map((record) => Option.getOrThrow(record).summary)
        )
      const noteId = (file: string) => MemoryId.foreign("file", file)
      const { from, to } = yield* store.links(system, noteId("Garden/Tomatoes.md"))
      assert.deepStrictEqual(yield* summaries(to), ["Reading list"])
      assert.deepStrictEqual((yield* summaries(from)).slice().sort(), ["Map", "Reading list"])
      fs.renameSync(path.join(root, "Reading list.md"), path.join(root, "Books.md"))
      yield* vault.refresh
      const after = yield* store.links(system, noteId("Garden/Tomatoes.md"))
      assert.deepStrictEqual(after.to, to)
      assert.deepStrictEqual(yield* summaries(after.to), ["Books"])
      fs.writeFileSync(path.join(root, "Map.md"), "[[BOOKS]]")
      yield* vault.refresh
      const renamed = yield* store.links(system, noteId("Reading list.md"))
      assert.deepStrictEqual((yield* summaries(renamed.from)).slice().sort(), ["Map", "Tomatoes"])
    }))

  it.scopedLive("an update of a note keeps the file name, all unchanged bytes and the record's id", () =>
    Effect.gen(function*() {
      const root = yield* copyOf("obsidian")
      const before = files(root)
      const ids = yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        const { items } = yield* store.list(system, {})
        for (const { body, id } of items) yield* store.update(system, id, { body: `${body}\n\nSeen.` })
        return items.map(({ id }) => id).sort()
      }))
      const after = Object.entries(before).map((
        [name, text]
      ) => [name, text.replace(/\n?$/, (end) => `\n\nSeen.${end}`)])
      assert.deepStrictEqual(files(root), Object.fromEntries(after))
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.issues, [])
      const { items } = yield* store.list(system, {})
      assert.deepStrictEqual(items.map(({ id }) => id).sort(), ids)
      assert.isTrue(items.every(({ body, revision }) => revision === 2 && body.endsWith("Seen.")))
      assert.lengthOf(yield* store.history(system, ids[0]!), 2)
      // a renamed note remains the same record
      fs.renameSync(path.join(root, "Reading list.md"), path.join(root, "Books.md"))
      yield* vault.refresh
      assert.deepStrictEqual(yield* vault.issues, [])
      assert.deepStrictEqual((yield* store.list(system, {})).items.map(({ id }) => id).sort(), ids)
      const [note] = yield* store.put(system, [{ scope: "global", kind: "reference", body: "ours" }])
      assert.isTrue(fs.existsSync(path.join(root, "global", `${note!.record.id}.md`)))
      yield* store.forget(system, [ids[0]!])
    }))
})
