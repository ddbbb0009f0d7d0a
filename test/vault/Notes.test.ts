/** A folder of unusual hand-written notes: each file is a record, and no byte of it changes as long as nobody changes the record. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import type { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { system, the } from "../../src/testing/Sample.ts"
import { type Opened, opened, place } from "./Place.ts"

const many = Array.from({ length: 40 }, (_, n) => `tag${n}`)
const matter = (yaml: string, body = "Sow.") => `---\n${yaml}\n---\n${body}`

/** Fields that the note's record must have; `{}` requires only that the note is a record. */
type Says = Partial<
  Pick<MemoryRecord, "summary" | "body" | "kind" | "tags" | "createdAt" | "metadata" | "scope" | "importance">
>

/** Marks a note that is expected to be reported as an issue. */
const told = Symbol("told")

const notes: Readonly<Record<string, readonly [text: string | Uint8Array, says: Says, told?: typeof told]>> = {
  "yaml/colon.md": [matter("title: a: b"), { summary: "colon", body: matter("title: a: b"), metadata: {} }, told],
  "yaml/tab.md": [matter("a:\n\t- b"), { body: matter("a:\n\t- b") }, told],
  "yaml/template.md": [matter("title: <% tp.file.title %>\nup: {{x}}: y"), {}],
  "yaml/twice.md": [matter("a: 1\na: 2"), { body: matter("a: 1\na: 2") }, told],
  "yaml/proto.md": [matter("__proto__: {polluted: true}"), {}, told],
  "yaml/deep proto.md": [matter("a:\n  __proto__: {polluted: true}"), { metadata: { a: {} } }, told],
  "yaml/list.md": [matter("- a\n- b"), { body: matter("- a\n- b") }, told],
  "yaml/scalar.md": ["---\njust a line\n---\nSow.", { body: "---\njust a line\n---\nSow." }, told],
  "yaml/rule.md": ["---\nA rule at the top, and no other.", { body: "---\nA rule at the top, and no other." }, told],
  "yaml/bomb.md": [
    matter(
      Array.from({ length: 12 }, (_, i) => `k${i}: &k${i} [${i ? Array(9).fill(`*k${i - 1}`).join() : "x"}]`).join("\n")
    ),
    {},
    told
  ],
  "yaml/long.md": [
    matter(Array.from({ length: 25_000 }, (_, n) => `key${n}: ${n}`).join("\n")),
    { metadata: {} },
    told
  ],
  "yaml/empty.md": ["---\n---\nSow.", { body: "Sow.", metadata: {} }],
  "yaml/nothing.md": ["", { body: "", summary: "nothing" }],
  "yaml/odd.md": [
    matter("n: .nan\ni: -.inf\nnull: ~\n1: one\n? [a, b]\n: c\nempty:\nmulti: |\n  a\n  b\nlone: \"\\ud800\""),
    {}
  ],
  "yaml/nested.md": [matter(`a: ${"[".repeat(200)}1${"]".repeat(200)}`), {}, told],
  "yaml/windows.md": ["\uFEFF---\r\nmood: sunny\r\n---\r\n\r\nSow.\r\nReap.\r\n", {
    body: "Sow.\r\nReap.",
    metadata: { mood: "sunny" }
  }],

  "tags/numbers.md": [matter("tags: [2024, true, 1.5]"), { tags: ["2024", "true", "1.5"], metadata: {} }],
  "tags/number.md": [matter("tags: 2024"), { tags: ["2024"] }],
  "tags/words.md": [matter("tags: garden, plants  tea"), { tags: ["garden", "plants", "tea"] }],
  "tags/many.md": [matter(`tags: [${many}]`), { tags: many.slice(0, 32), metadata: { tags: many } }, told],
  "tags/long.md": [
    matter(`tags: [a, ${"x".repeat(65)}]`),
    { tags: ["a"], metadata: { tags: ["a", "x".repeat(65)] } },
    told
  ],
  "tags/blank.md": [matter("tags: [a, \"\", ~]"), { tags: ["a"], metadata: { tags: ["a", "", null] } }, told],
  "tags/map.md": [matter("tags: {a: b}"), { tags: [], metadata: { tags: { a: "b" } } }, told],
  "tags/none.md": [matter("tags:"), { tags: [], metadata: {} }],
  "tags/inline.md": [
    matter(
      "tags: [Garden]",
      "#garden, #tea/green and (#déjà-vu) in a #2024 a#b `#code` [[#part]] #1/2\n\n```\n#fenced\n```\n# Title\n#end"
    ),
    { tags: ["Garden", "tea/green", "déjà-vu", "end"], metadata: {} }
  ],
  "tags/reserved.md": [matter("tags: [instructions]"), { tags: ["instructions"] }],

  "fields/kind.md": [matter("kind: Not A Kind"), { kind: "reference", metadata: { kind: "Not A Kind" } }],
  "fields/belief.md": [matter("kind: belief\ndata: {x: 1}"), { kind: "reference", metadata: { kind: "belief" } }],
  "fields/data.md": [matter("data: 2024-05-02"), { metadata: { data: "2024-05-02" } }],
  "fields/note.md": [matter("kind: note"), { kind: "note" }],
  "fields/project.md": [matter("kind: project\nimportance: 0.9"), { kind: "project", importance: 0.9, metadata: {} }],
  "fields/importance.md": [matter("importance: high"), { importance: 0.5, metadata: { importance: "high" } }],
  "fields/summary.md": [matter(`summary: ${"s ".repeat(300)}`), {}, told],
  "fields/lines.md": [matter("summary: |\n  a\n  b"), { summary: "a b", metadata: { summary: "a\nb\n" } }, told],
  "fields/number.md": [matter("summary: 42"), { summary: "42", metadata: {} }],
  "fields/links.md": [matter("links: \"[[Somewhere]]\""), { metadata: { links: "[[Somewhere]]" } }],
  "fields/citation.md": [
    matter(
      "reference: Smith 2020\norigin: web\ntrust: 0\nrevision: 9\nhash: abc\nsession: 5\nid: 202304110930\nscope: local"
    ),
    {
      metadata: {
        ...{ reference: "Smith 2020", origin: "web", trust: 0, revision: 9, hash: "abc", session: 5 },
        ...{ id: 202304110930, scope: "local" }
      }
    }
  ],
  "fields/ulid.md": [matter("id: 01HV3ZK4T6N8QW2RJ5Y7M9X0AB"), { metadata: { id: "01HV3ZK4T6N8QW2RJ5Y7M9X0AB" } }],
  "fields/expired.md": [matter("expiresAt: 2001-01-01"), { metadata: { expiresAt: "2001-01-01" } }],
  "fields/tenant.md": [matter("tenant: acme"), { scope: "global", metadata: { tenant: "acme" } }],
  "fields/user.md": [matter("userId: 42"), { scope: { userId: "42" }, metadata: {} }],

  "times/created.md": [matter("created: 2023-04-11"), {
    createdAt: Date.UTC(2023, 3, 11),
    metadata: { created: "2023-04-11" }
  }],
  "times/date.md": [matter("date: 2023-04-11 10:30"), { createdAt: Date.UTC(2023, 3, 11, 10, 30) }],
  "times/link.md": [matter("date: \"[[2023-04-11]]\""), { createdAt: Date.UTC(2023, 3, 11) }],
  "times/zone.md": [matter("created: 2023-04-11T10:30:00+02:00\ndate: 2001-01-01"), {
    createdAt: Date.UTC(2023, 3, 11, 8, 30)
  }],
  "times/ours.md": [matter("createdAt: 2023-04-11\ncreated: 2001-01-01"), { createdAt: Date.UTC(2023, 3, 11) }],
  "times/fraction.md": [matter("createdAt: 1714060800000.75"), { createdAt: 1714060800000 }, told],
  "times/none.md": [matter("created: yesterday\ncreatedAt: soon"), {
    metadata: { created: "yesterday", createdAt: "soon" }
  }],
  "times/early.md": [matter("date: 1899-12-31"), { metadata: { date: "1899-12-31" } }],

  "bodies/long.md": [`${"Sow and reap. ".repeat(50_000)}\nquincunx`, {}],
  "bodies/edge.md": ["x".repeat(1_048_576), { body: "x".repeat(1_048_576) }],
  "bodies/longer.md": ["y".repeat(1_048_577), { body: "y".repeat(1_048_576) }, told],
  "bodies/huge.md": [Buffer.alloc(5_000_000, "z"), { body: "z".repeat(1_048_576) }, told],
  "bodies/latin1.md": [Buffer.from("Caf\xe9 au lait", "latin1"), { body: "Caf\ufffd au lait" }, told],
  "bodies/nul.md": ["a\0b", { body: "a\0b" }],

  "01HV3ZK4T6N8QW2RJ5Y7M9X0XY.md": [matter("title: a: b"), {}, told],
  "Zettel/01HV3ZK4T6N8QW2RJ5Y7M9X0XZ.md": ["A note whose name looks like ours.", {
    summary: "A note whose name looks like ours."
  }],
  "sessions/Session 1/The inn.md": ["The party rests.", { summary: "The inn", scope: { sessionId: "Session 1" } }],
  "tenants/Müller & Co/users/Zoë Ünal/House.md": ["Rent.", {}],
  [`${"deep/".repeat(30)}${"n".repeat(200)}.md`]: ["Deep.", {}],
  [`${"d".repeat(200)}/${"e".repeat(200)}/${"f".repeat(200)}/${"g".repeat(200)}/${"h".repeat(200)}/long.md`]: [
    "Far.",
    {}
  ],
  "names/   .md": ["Blank.", { summary: "Untitled" }],
  "names/#1 [draft] ^x |y.md": ["Odd.", { summary: "#1 [draft] ^x |y" }],
  "names/Ｆｕｌｌ 👩‍👩‍👧 e\u0301.md": ["Wide.", {}]
}

const filled = Effect.tap(place, (root) =>
  Effect.sync(() => {
    for (const [at, [text]] of Object.entries(notes)) {
      fs.mkdirSync(path.dirname(path.join(root, at)), { recursive: true })
      fs.writeFileSync(path.join(root, at), text)
    }
  }))

/** Returns the bytes of every file outside of the hidden folder. */
const bytes = (root: string): ReadonlyMap<string, string> =>
  new Map(
    fs.readdirSync(root, { recursive: true, encoding: "utf8" }).sort()
      .filter((name) => !name.startsWith(".effect-memory") && fs.statSync(path.join(root, name)).isFile())
      .map((name) => [name, fs.readFileSync(path.join(root, name)).toString("base64")])
  )

const all = ({ store }: Opened): Effect.Effect<ReadonlyMap<string, MemoryRecord>, unknown> =>
  Effect.gen(function*() {
    const found = new Map<string, MemoryRecord>()
    for (const tenant of yield* store.tenants) {
      const { items } = yield* store.list(Viewer.system(tenant), { limit: 1_000 })
      for (const record of items) found.set(record.id, record)
    }
    return found
  })

const idOf = (at: string) => {
  const name = path.basename(at, ".md")
  return /^01HV[0-9A-Z]{22}$/.test(name) ? MemoryId.make(name) : MemoryId.foreign("file", at.normalize("NFC"))
}

const law = (
  title: string,
  check: (vault: Opened & { readonly root: string }) => Effect.Effect<void, unknown, Scope.Scope>
) =>
  it.scopedLive(
    title,
    () => Effect.flatMap(filled, (root) => Effect.flatMap(opened(root), (vault) => check({ ...vault, root })))
  )

describe("a folder of unusual notes", () => {
  law(
    "each note is one record with the expected fields, and exactly the expected notes are reported as issues",
    (vault) =>
      Effect.gen(function*() {
        const records = yield* all(vault)
        assert.strictEqual(records.size, Object.keys(notes).length)
        for (const [at, [, says]] of Object.entries(notes)) {
          const record = records.get(idOf(at))
          if (record === undefined) return assert.fail(at)
          for (const [field, value] of Object.entries(says)) {
            assert.deepEqual(record[field as keyof Says], value, `${at}: ${field}`)
          }
          assert.deepInclude(record.source, { origin: "file", trust: 2 })
        }
        assert.isUndefined(Reflect.get({}, "polluted"))
        const issues = yield* vault.vault.issues
        const expected = Object.entries(notes).flatMap(([at, [, , isTold]]) => isTold ? [at] : [])
        assert.deepStrictEqual(issues.map(({ path }) => path).sort(), expected.sort())
        for (const { error } of issues) assert.isAtMost(error.message.length, 300)
      })
  )

  it.scopedLive("two sessions that open, search, refresh and close the vault change neither notes nor records", () =>
    Effect.gen(function*() {
      const root = yield* filled
      const before = bytes(root)
      const session = Effect.scoped(Effect.gen(function*() {
        const vault = yield* opened(root)
        yield* vault.store.search(system, { text: "sow and reap" })
        yield* vault.vault.refresh
        yield* vault.store.compact
        const records = yield* all(vault)
        for (const id of records.keys()) yield* vault.store.links(system, MemoryId.make(id))
        return Array.from(records.values(), (record) => ({ ...record }))
      }))
      const first = yield* session
      assert.deepStrictEqual(bytes(root), before)
      assert.deepEqual(yield* session, first)
      assert.deepStrictEqual(bytes(root), before)
    }))

  law("a search finds a word at the end of a very long note", ({ store }) =>
    Effect.gen(function*() {
      const { hits } = yield* store.search(system, { text: "quincunx" })
      assert.deepStrictEqual(hits.map(({ record }) => record.id), [idOf("bodies/long.md")])
    }))

  law(
    "an update of a note's importance keeps the text, but fails for a note that is too long or not UTF-8",
    (vault) =>
      Effect.gen(function*() {
        const { root, store } = vault
        const partial = ["bodies/longer.md", "bodies/huge.md", "bodies/latin1.md"]
        const before = bytes(root)
        for (const [id, record] of yield* all(vault)) {
          const tenant = record.source.reference?.startsWith("tenants/") ? "Müller & Co" : "default"
          const viewer = Viewer.system(tenant)
          const updated = yield* Effect.either(store.update(viewer, MemoryId.make(id), { importance: 0.75 }))
          if (partial.map(idOf).includes(MemoryId.make(id))) {
            assert.strictEqual(updated._tag === "Left" ? updated.left.reason : undefined, "invalid_draft")
            continue
          }
          if (updated._tag === "Left") return assert.fail(`${record.source.reference}: ${updated.left.message}`)
          const after = yield* the(store, viewer, MemoryId.make(id))
          assert.deepEqual({ ...after }, {
            ...{ ...record, importance: 0.75, revision: 2, source: after.source },
            updatedAt: after.updatedAt
          })
          assert.deepStrictEqual((yield* store.history(viewer, record.id)).map(({ revision }) => revision), [2, 1])
        }
        const records = yield* Effect.scoped(Effect.flatMap(opened(root), all))
        for (const at of Object.keys(notes).filter((at) => !partial.includes(at))) {
          const record = records.get(idOf(at))
          assert.deepEqual([record?.importance, record?.revision], [0.75, 2], at)
        }
        for (const at of partial) assert.strictEqual(bytes(root).get(at), before.get(at))
        assert.deepStrictEqual(
          yield* store.forget(system, partial.map(idOf)),
          partial.map(() => true)
        )
      })
  )

  law("all notes of the default tenant can be copied into an in-memory store", (vault) =>
    Effect.gen(function*() {
      const copy = yield* MemoryStore.MemoryStore
      const { items } = yield* vault.store.list(system, { limit: 1_000 })
      for (
        const { createdAt: _, revision: __, summaryDerived: ___, updatedAt: ____, supersededBy: _____, ...record }
          of items
      ) {
        const { origin, trust, ...source } = record.source
        yield* copy.put(system, [{ ...record, source }], { origin, trust })
      }
      assert.lengthOf((yield* copy.list(system, { limit: 1_000 })).items, items.length)
      assert.deepStrictEqual(
        (yield* copy.search(system, { text: "quincunx" })).hits.map(({ record }) => record.id),
        [idOf("bodies/long.md")]
      )
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))

  law(
    "`list` filters notes by the properties in their frontmatter, including nested properties",
    ({ store, root, vault }) =>
      Effect.gen(function*() {
        fs.writeFileSync(path.join(root, "one.md"), matter("status: open\nrating: 5\nauthor: {name: Ada}"))
        fs.writeFileSync(path.join(root, "two.md"), matter("status: done\nrating: 3"))
        yield* vault.refresh
        const where = (where: Readonly<Record<string, object>>) =>
          Effect.map(store.list(system, { where: where as never }), ({ items }) => items.map(({ summary }) => summary)) // untyped conditions
        assert.deepStrictEqual(yield* where({ "metadata.status": { eq: "open" } }), ["one"])
        assert.deepStrictEqual(yield* where({ "metadata.rating": { lt: 5 } }), ["two"])
        assert.deepStrictEqual(yield* where({ "metadata.author.name": { eq: "Ada" } }), ["one"])
        assert.deepStrictEqual(yield* where({ "metadata.mood": { eq: "sunny" } }), ["windows"])
      })
  )

  it.scopedLive("a metadata update changes or removes properties in a note's file, but stores a new property only in the record", () =>
    Effect.gen(function*() {
      const root = yield* place
      const file = path.join(root, "Tea.md")
      fs.writeFileSync(file, matter("aliases: [Cha]\nmood: sunny\nimportance: high\ntags: [hot]"))
      yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        const id = idOf("Tea.md")
        yield* store.update(system, id, { metadata: { aliases: ["Cha", "Té"], importance: "high", seen: 1 } })
      }))
      assert.strictEqual(
        fs.readFileSync(file, "utf8"),
        matter("aliases: [Cha, Té]\nimportance: high\ntags: [hot]")
      )
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vault.issues, [])
      const record = yield* the(store, system, idOf("Tea.md"))
      assert.deepEqual(record.metadata, { aliases: ["Cha", "Té"], importance: "high", seen: 1 })
      assert.deepInclude(record, { revision: 2, tags: ["hot"], importance: 0.5 })
    }))

  it.scopedLive("the notes in a vault of an earlier release are read as in that release unless `notes: \"whole\"` is given", () =>
    Effect.gen(function*() {
      const root = yield* place
      fs.mkdirSync(path.join(root, ".effect-memory"))
      fs.writeFileSync(
        path.join(root, ".effect-memory/vault.json"),
        JSON.stringify({ version: 1, key: "a".repeat(64) })
      )
      fs.writeFileSync(path.join(root, "Broken.md"), matter("title: a: b"))
      fs.writeFileSync(path.join(root, "Tea.md"), matter("mood: sunny", "#hot"))
      const read = (options: Parameters<typeof opened>[1]) =>
        Effect.scoped(Effect.gen(function*() {
          const { store, vault } = yield* opened(root, options)
          const { items } = yield* store.list(system, {})
          return [items.map(({ metadata, summary, tags }) => [summary, metadata, tags]), (yield* vault.issues).length]
        }))
      const before = [[["Tea", {}, []]], 1]
      const whole = [[["Broken", {}, []], ["Tea", { mood: "sunny" }, ["hot"]]], 1]
      const sorted = (found: ReadonlyArray<unknown>) => [[...found[0] as ReadonlyArray<unknown>].sort(), found[1]]
      for (const [options, expected] of [[{}, before], [{ notes: "whole" }, whole], [{}, before]] as const) {
        assert.deepEqual(sorted(yield* read(options)), expected)
      }
    }))

  it.scopedLive("`Viewer.everyone`, a user's viewer and a viewer without ids see no note in the folder of the library's internal records", () =>
    Effect.gen(function*() {
      const root = yield* place
      const outbox = path.join(root, ".effect-memory/outbox")
      fs.mkdirSync(outbox, { recursive: true })
      for (const name of ["copy", "01HV3ZK4T6N8QW2RJ5Y7M9X0AB"]) {
        fs.writeFileSync(path.join(outbox, `${name}.md`), matter("scope: global\nuserId: ada", "secret"))
      }
      const { store } = yield* opened(root)
      for (const viewer of [Viewer.everyone(), Viewer.make({ userId: "ada" }), Viewer.make({})]) {
        assert.deepStrictEqual((yield* store.list(viewer, {})).items, [])
        assert.deepStrictEqual((yield* store.search(viewer, { text: "secret" })).hits, [])
      }
    }))

  it.scopedLive("no viewer sees a copy of a record's file under another name", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store, vault } = yield* opened(root)
      const ada = Viewer.make({ userId: "ada" })
      const [put] = yield* store.put(ada, [{ scope: { userId: "ada" }, kind: "reference", body: "secret" }])
      const text = fs.readFileSync(path.join(root, `users/ada/${put!.record.id}.md`), "utf8")
      fs.writeFileSync(path.join(root, "whole.md"), text)
      fs.writeFileSync(path.join(root, "broken.md"), text.replace("kind: reference", "kind: a: b"))
      fs.writeFileSync(path.join(root, "conflict.md"), text.replace("---\n", "---\n<<<<<<< ours\n"))
      yield* vault.refresh
      assert.deepStrictEqual((yield* store.list(Viewer.make({}), {})).items, [])
      assert.lengthOf((yield* store.list(system, {})).items, 1)
      assert.deepStrictEqual(
        (yield* vault.issues).map(({ path }) => path).sort(),
        ["broken.md", "conflict.md", "whole.md"]
      )
    }))
})
