import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import * as fs from "node:fs"
import * as path from "node:path"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import type { MemoryScope } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { get, system, the } from "../../src/testing/Sample.ts"
import { copyOf, files, opened, place } from "./Place.ts"

const id = (deuz: string) => MemoryId.foreign("deuz", deuz)
const sla = "f1c2a9d4-3b7e-4c55-9a10-2d6f0e8b7c31"
const berlin = "0b9e6c1e-52d4-4f0a-8f43-7a1d9c2e5b60"
const edited = "5d1f7a3c-9e2b-4a68-b1c7-0f4e6d8a2b95"
const chat = "chat/7:turn 1"
const closed = "6e0d2b8f-1c4a-47d9-8e35-9b7f3a5c1d02"
const expired = "a7c3e5f1-8d60-4b29-9f14-3e2a6c8b0d57"
const refund = "c4b8d2e6-7f15-4039-a6d8-1e9c5b3f7a20"
const sister = "e9a1c7b3-6d24-4f58-8b90-5c3e7d1f2a46"
const day = 1_717_286_400_000

/**
 * Copies the fixture, a vault that Deuz wrote. Sets the clock to a minute after the creation of most records, before any record expires.
 */
const vaultOfDeuz = Effect.zipRight(TestClock.setTime(day + 60_000), copyOf("deuz"))

describe("a vault written by Deuz (another memory library)", () => {
  it.scoped("opening a Deuz vault changes no file if no record expired; a record gets Deuz's scope and an id derived from Deuz's id", () =>
    Effect.gen(function*() {
      const root = yield* vaultOfDeuz
      const before = files(root)
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.issues, [])
      const scopes: Readonly<Record<string, MemoryScope>> = {
        [sla]: { agentId: "support-bot" },
        [berlin]: { userId: "u_123" },
        [edited]: { userId: "u_123" },
        [chat]: { userId: "u_123", sessionId: "chat-7" },
        [closed]: { userId: "u_123" },
        [expired]: { userId: "u_123", runId: "run-1" },
        [refund]: { agentId: "support-bot" },
        [sister]: { userId: "u_123", actorId: "ada" }
      }
      for (const [deuz, scope] of Object.entries(scopes)) {
        const record = yield* the(store, system, id(deuz))
        assert.deepStrictEqual(record.scope, scope)
        assert.deepEqual(record.source, { origin: "file", trust: 2, reference: deuz })
      }
      assert.deepStrictEqual(files(root), before)
    }))

  it.scoped("records have the texts, times, importance and metadata that Deuz wrote", () =>
    Effect.gen(function*() {
      const { store } = yield* opened(yield* vaultOfDeuz)
      const record = yield* the(store, system, id(berlin))
      assert.deepInclude(record, {
        kind: "semantic",
        body: "The user is vegetarian and lives in Berlin.",
        summary: "The user is vegetarian and lives in Berlin.",
        summaryDerived: true,
        tags: ["food", "travel, slow"],
        importance: 0.8,
        createdAt: day,
        updatedAt: day + 86_400_000,
        validAt: day,
        revision: 1
      })
      assert.deepEqual(record.metadata, {
        lastAccessedAt: day + 90_000_000,
        links: [`[[${sla}]]`],
        prevText: "The user lives in Hamburg.",
        verified: true,
        confidenceScore: 0.8,
        "city name": "Berlin"
      })
      assert.deepInclude(yield* the(store, system, id(refund)), { kind: "procedural", data: {}, importance: 0.9 })
      assert.deepInclude(yield* the(store, system, id(chat)), { kind: "episodic", importance: 0.5 })
    }))

  it.scoped("a malformed tag that Deuz wrote is left out of the record's tags, and stays in its metadata", () =>
    Effect.gen(function*() {
      const { store } = yield* opened(yield* vaultOfDeuz)
      const half = yield* the(store, system, id(chat))
      assert.deepEqual([half.tags, half.metadata["tags"]], [["b\"", "chat"], ["", "b\"", "chat"]])
      const none = yield* the(store, system, id(sister))
      assert.deepEqual([none.tags, none.metadata], [[], { tags: "[\"\"a\", \"b\"\"]", note: "kept" }])
      assert.strictEqual(none.body, "Ada is the user's sister.")
    }))

  it.scoped("a viewer with reach `within` lists the records of a user and of the user's narrower scopes", () =>
    Effect.gen(function*() {
      const { store } = yield* opened(yield* vaultOfDeuz)
      const user = Viewer.make({ userId: "u_123", reach: "within" })
      const ids = Effect.map(store.list(user, {}), ({ items }) => items.map(({ id }) => id).sort())
      assert.deepStrictEqual(yield* ids, [berlin, edited, chat, expired, sister].map(id).sort())
      assert.deepInclude(yield* get(store, user, id(closed)), { invalidAt: day })
      yield* TestClock.setTime(day + 3_600_000)
      assert.deepStrictEqual(yield* ids, [berlin, edited, chat, sister].map(id).sort())
      assert.isUndefined(yield* get(store, user, id(expired)))
    }))

  it.scoped("the next update of a record moves its file to the folder of its scope, and keeps id and history", () =>
    Effect.gen(function*() {
      const root = yield* vaultOfDeuz
      const all = [sla, berlin, edited, chat, closed, expired, refund, sister]
      yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        for (const deuz of all) yield* store.update(system, id(deuz), { confidence: 0.9 })
      }))
      assert.deepStrictEqual(
        Object.keys(files(root)),
        [
          `agents/support-bot/${id(sla)}.md`,
          `agents/support-bot/${id(refund)}.md`,
          `users/u_123/${id(berlin)}.md`,
          `users/u_123/${id(edited)}.md`,
          `users/u_123/${id(closed)}.md`,
          `users/u_123/sessions/chat-7/${id(chat)}.md`,
          `users/u_123/runs/run-1/${id(expired)}.md`,
          `users/u_123/actors/ada/${id(sister)}.md`
        ].sort()
      )
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.issues, [])
      const record = yield* the(store, system, id(berlin))
      assert.deepInclude(record, { revision: 2, confidence: 0.9, tags: ["food", "travel, slow"], createdAt: day })
      assert.strictEqual(record.source.reference, berlin)
      assert.deepStrictEqual((yield* store.history(system, id(berlin))).map(({ revision }) => revision), [2, 1])
      yield* store.forget(system, [id(chat)])
      assert.isUndefined(yield* get(store, Viewer.make({ userId: "u_123", reach: "within" }), id(chat)))
    }))

  it.scoped("a link with Deuz's id leads to the same record before and after the record's file is moved", () =>
    Effect.gen(function*() {
      const { store } = yield* opened(yield* vaultOfDeuz)
      const both = Viewer.make({ userId: "u_123", agentId: "support-bot" })
      const link = (end: string) => ({ id: id(end), type: "wikilink", weight: 1 })
      assert.deepEqual((yield* store.links(both, id(berlin))).to, [link(sla)])
      yield* store.update(system, id(sla), { importance: 1 })
      assert.deepEqual((yield* store.links(both, id(sla))).from, [link(berlin)])
      assert.deepEqual((yield* store.links(Viewer.make({ userId: "u_123" }), id(berlin))).to, [])
    }))

  it.scoped("opening a Deuz vault erases the files of expired records, and gives new ids even to records with a ULID", () =>
    Effect.gen(function*() {
      const root = yield* vaultOfDeuz
      const ulid = "01HV3ZK4T6N8QW2RJ5Y7M9X0AB"
      const file = (name: string) => path.join(root, `${name}.md`)
      fs.writeFileSync(file(ulid), fs.readFileSync(file(sla), "utf8").replace(sla, ulid))
      yield* TestClock.setTime(day + 3_600_000)
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.issues, [])
      assert.isFalse(fs.existsSync(file(expired)))
      assert.isUndefined(yield* get(store, system, MemoryId.make(ulid)))
      assert.deepInclude(yield* the(store, system, id(ulid)), { scope: { agentId: "support-bot" } })
      yield* store.update(system, id(ulid), { importance: 1 })
      assert.isFalse(fs.existsSync(file(ulid)))
      assert.isTrue(fs.existsSync(path.join(root, "agents", "support-bot", `${id(ulid)}.md`)))
    }))

  it.scoped("an edit of a file at the path that Deuz gave it becomes the next revision of the record", () =>
    Effect.gen(function*() {
      const root = yield* vaultOfDeuz
      const { store, vault } = yield* opened(root)
      const file = path.join(root, `${sla}.md`)
      fs.writeFileSync(file, fs.readFileSync(file, "utf8").replace("24 hours", "8 hours"))
      yield* vault.refresh
      assert.deepInclude(yield* the(store, system, id(sla)), {
        revision: 2,
        body: "Our SLA is 8 hours for tier-1 tickets."
      })
      assert.lengthOf(yield* store.history(system, id(sla)), 2)
    }))

  it.scoped("a file outside the folders of scopes belongs to the scope that its frontmatter names", () =>
    Effect.gen(function*() {
      const root = yield* place
      const head = { id: "\"one\"", kind: "semantic", createdAt: "1", userId: "ada" }
      const claims: ReadonlyArray<readonly [name: string, matter: Readonly<Record<string, string | undefined>>]> = [
        ["scope", { userId: "ada" }],
        ["other", head],
        ["kind", { ...head, id: "kind", kind: "user" }],
        ["time", { ...head, id: "time", createdAt: "2024-06-02T00:00:00.000Z" }]
      ]
      for (const [name, matter] of claims) {
        const lines = Object.entries(matter).map(([key, value]) => `${key}: ${value}\n`).join("")
        fs.writeFileSync(path.join(root, `${name}.md`), `---\n${lines}---\n\nhers?\n`)
      }
      fs.mkdirSync(path.join(root, "notes"))
      fs.writeFileSync(
        path.join(root, "notes", "one.md"),
        "---\nid: one\nkind: semantic\ncreatedAt: 1\nuserId: ada\n---\n"
      )
      fs.writeFileSync(
        path.join(root, "org_a.md"),
        "---\nid: org/a\nkind: semantic\ncreatedAt: 1\nuserId: org/ada\n---\n\nx\n"
      )
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.issues, [])
      const { items } = yield* store.list(system, {})
      assert.deepStrictEqual(
        items.map(({ scope, summary }) => [summary, scope]).sort(),
        [...claims.map(([name]) => name), "one", "x"].map((name) => [
          name,
          { userId: name === "x" ? "org/ada" : "ada" }
        ]).sort()
      )
      assert.deepStrictEqual((yield* store.list(Viewer.make({ userId: "bob" }), {})).items, [])
    }))

  it.scoped("a file without a body becomes a record with Deuz's id as the summary", () =>
    Effect.gen(function*() {
      const root = yield* place
      const before = "---\nid: \"a b\"\nkind: \"semantic\"\nuserId: \"ada\"\ncreatedAt: 1717286400000.25\n---\n\n\n"
      fs.writeFileSync(path.join(root, "a_b.md"), before)
      yield* TestClock.setTime(day)
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.issues, [])
      assert.deepInclude(yield* the(store, system, id("a b")), {
        summary: "a b",
        body: "",
        createdAt: 1_717_286_400_000,
        validAt: 1_717_286_400_000
      })
      yield* store.update(system, id("a b"), { importance: 1 })
      assert.deepInclude(yield* the(store, system, id("a b")), { body: "", importance: 1, revision: 2 })
    }))
})
