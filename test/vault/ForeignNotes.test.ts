/** Tests of notes written by hand: an update changes only the bytes that it must, and a moved note remains the same record. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import type { Patch } from "../../src/domain/MemoryRecord.ts"
import type { Service } from "../../src/storage/MemoryStore.ts"
import * as Document from "../../src/storage/MemoryStore/Markdown/Document.ts"
import { get, system, the } from "../../src/testing/Sample.ts"
import { eventually, files, type Opened, opened, place } from "./Place.ts"
import { times } from "./Program.ts"

const idOf = (at: string) => MemoryId.foreign("file", at.normalize("NFC"))
const tea =
  "\uFEFF---\r\ntitle: \"Green: tea\" # its name\r\ntags: # mine\r\n  - garden # green\r\n  - hot\r\n\r\n# a remark\r\n" +
  "mood: 'sunny'\r\n---\r\n\r\nSow.\r\nReap.\r\n"
const alias = "---\ntags: [&one one, two]\nsame: *one\n---\nSow."
const plain = "Sow. #garden\n\nReap in autumn, and dry the leaves in the shade."

/** Makes a folder that contains these notes, and no `.effect-memory` folder yet. */
const folder = (notes: Readonly<Record<string, string>>) =>
  Effect.tap(place, (root) => Effect.sync(() => write(root, notes)))
const write = (root: string, notes: Readonly<Record<string, string>>) => {
  for (const [at, text] of Object.entries(notes)) {
    fs.mkdirSync(path.dirname(path.join(root, at)), { recursive: true })
    fs.writeFileSync(path.join(root, at), text)
  }
}
const move = (root: string, from: string, to: string) => {
  fs.mkdirSync(path.dirname(path.join(root, to)), { recursive: true })
  fs.renameSync(path.join(root, from), path.join(root, to))
}
const session = <A, E>(root: string, use: (vault: Opened) => Effect.Effect<A, E, Scope.Scope>) =>
  Effect.scoped(Effect.flatMap(opened(root), use))
/** Deletes the vault's snapshot, so that the next opening cannot use it. */
const cool = (root: string) => fs.rmSync(path.join(root, ".effect-memory/snapshot"), { force: true })
const ids = (store: Service) =>
  Effect.map(
    store.list(system, { limit: 1_000 }),
    ({ items }) => Object.fromEntries(items.map(({ id, source }) => [source.reference ?? "", id]))
  )
const bodies = (store: Service, id: MemoryId.MemoryId) =>
  Effect.map(store.history(system, id), (all) => all.map(({ body }) => body))

describe("an update of a hand-written note", () => {
  const law = (
    title: string,
    text: string,
    patch: Patch,
    after: string
  ) =>
    it.scopedLive(title, () =>
      Effect.gen(function*() {
        const root = yield* folder({ "Tea.md": text })
        const before = yield* session(root, ({ store }) => the(store, system, idOf("Tea.md")))
        const updated = yield* session(root, ({ store }) => store.update(system, idOf("Tea.md"), patch))
        assert.deepEqual(files(root), { "Tea.md": after })
        assert.containSubset(updated, patch)
        for (const forget of [() => {}, cool]) {
          forget(root)
          yield* session(root, ({ store, vault }) =>
            Effect.gen(function*() {
              assert.deepEqual({ ...yield* the(store, system, idOf("Tea.md")) }, { ...updated })
              assert.deepEqual((yield* store.history(system, idOf("Tea.md"))).map((record) => ({ ...record })), [
                { ...updated },
                { ...before }
              ])
              assert.lengthOf(yield* vault.issues, text.includes("a: b: c") ? 1 : 0)
              assert.lengthOf(yield* vault.verify, text.includes("a: b: c") ? 1 : 0)
            }))
        }
        assert.deepEqual(files(root), { "Tea.md": after })
      }))

  law(
    "an update that adds a tag to a hand-written note inserts one line in its file and changes nothing else",
    tea,
    { tags: ["garden", "hot", "new"] },
    tea.replace("  - hot\r\n", "  - hot\r\n  - new\r\n")
  )
  law(
    "an update that removes a tag of a hand-written note deletes only the tag's line in the file",
    tea,
    { tags: ["hot"] },
    tea.replace("\r\n  - garden # green", "")
  )
  law("an update of a hand-written note's metadata changes only the value of the changed property in its file", tea, {
    metadata: { title: "Green: tea", mood: "rainy" }
  }, tea.replace("'sunny'", "'rainy'"))
  law(
    "an update of a hand-written note's body replaces only the changed part of the text in its file",
    tea,
    { body: "Sow.\r\nRest." },
    tea.replace("Reap.", "Rest.")
  )
  const sidecar = {
    ...{ kind: "reference", importance: 0.9, confidence: 0.3, summary: "Of tea", tags: ["garden", "hot"] },
    ...{ metadata: { seen: 1 }, links: [{ to: idOf("x"), type: "knows", weight: 0.5 }], data: { a: 1 } }
  }
  const { kind: _, ...patch } = sidecar
  law(
    "an update of fields other than the body leaves the file of a note without frontmatter unchanged",
    plain,
    patch,
    plain
  )
  law(
    "an update of the importance leaves the file of a note with unparsable frontmatter unchanged",
    "---\na: b: c\n---\nSow.\n",
    {
      importance: 0.9
    },
    "---\na: b: c\n---\nSow.\n"
  )
  law("an update of the importance of an empty note leaves its file empty", "", { importance: 0.9 }, "")

  it.scopedLive("an update that cannot be written into a note's frontmatter fails with `invalid_draft`", () =>
    Effect.gen(function*() {
      const root = yield* folder({ "Alias.md": alias, "Tea.md": tea })
      const { store } = yield* opened(root)
      const before = yield* the(store, system, idOf("Alias.md"))
      const refused = yield* Effect.flip(
        store.apply(system, [
          { _tag: "Update", id: idOf("Tea.md"), patch: { tags: [] } },
          { _tag: "Update", id: idOf("Alias.md"), patch: { tags: ["two"] } }
        ])
      )
      assert.strictEqual(refused.reason, "invalid_draft")
      assert.deepEqual(files(root), { "Alias.md": alias, "Tea.md": tea })
      assert.deepEqual({ ...yield* the(store, system, idOf("Alias.md")) }, { ...before })
      assert.lengthOf(yield* store.history(system, idOf("Tea.md")), 1)
    }))

  it.scopedLive("a later edit by the author keeps the fields that an update has set, unless the edit deletes them", () =>
    Effect.gen(function*() {
      const root = yield* folder({ "Tea.md": tea, "Plain.md": plain })
      const check = ({ store }: Opened, revision: number) =>
        Effect.gen(function*() {
          const { importance, links, tags, ...record } = yield* the(store, system, idOf("Plain.md"))
          assert.deepEqual({ importance, links, tags }, {
            importance: 0.9,
            links: sidecar.links,
            tags: ["hot", "cold"]
          })
          assert.deepInclude({ ...record }, { summary: "Of tea", revision, metadata: { seen: 1 }, confidence: 0.3 })
          assert.deepInclude(record.source, { origin: "file", trust: 2 })
        })
      yield* session(root, (vault) =>
        Effect.gen(function*() {
          yield* vault.store.update(system, idOf("Plain.md"), patch)
          yield* vault.store.update(system, idOf("Tea.md"), { importance: 0.9, tags: ["hot"] })
          write(root, { "Plain.md": plain.replace("#garden", "#cold") })
          yield* vault.vault.refresh
          yield* check(vault, 3)
        }))
      const edited = fs.readFileSync(path.join(root, "Plain.md"), "utf8")
      cool(root)
      write(root, { "Plain.md": `${edited} Well.`, "Tea.md": "Sow.\n" })
      yield* session(root, (vault) =>
        Effect.gen(function*() {
          yield* check(vault, 4)
          const record = yield* the(vault.store, system, idOf("Tea.md"))
          assert.deepInclude({ ...record }, { importance: 0.9, tags: [], metadata: {}, body: "Sow.", revision: 3 })
        }))
      assert.deepEqual(files(root), { "Plain.md": `${edited} Well.`, "Tea.md": "Sow.\n" })
    }))

  it.scopedLive("a note in the signed format of earlier releases keeps this format when it is updated, even after a rename", () =>
    Effect.gen(function*() {
      const root = yield* folder({ "Tea.md": tea })
      const record = yield* session(root, ({ store }) => the(store, system, idOf("Tea.md")))
      const { key } = JSON.parse(fs.readFileSync(path.join(root, ".effect-memory/vault.json"), "utf8"))
      const context: Document.Context = { key, kinds: new Map([["reference", MemoryKind.reference]]), notes: "whole" }
      const ours = Either.getOrThrow(Document.print(context, "Tea.md", "default", record, record.metadata))
      cool(root)
      write(root, { "Tea.md": ours })
      yield* session(root, ({ store }) => store.update(system, idOf("Tea.md"), { importance: 0.9 }))
      const first = fs.readFileSync(path.join(root, "Tea.md"), "utf8")
      assert.match(first, /\nimportance: 0.9\n[^]*\nhash: [0-9a-f]{64}\n/)
      move(root, "Tea.md", "Drinks/Green tea.md")
      yield* session(root, ({ store }) => store.update(system, idOf("Tea.md"), { importance: 0.8 }))
      const [name, second] = Object.entries(files(root))[0]!
      assert.strictEqual(name, "Drinks/Green tea.md")
      assert.match(second, /\nimportance: 0.8\n[^]*\nhash: [0-9a-f]{64}\n/)
      write(root, { [name]: second.replace("Reap.", "Rest.") })
      cool(root)
      yield* session(root, ({ store, vault }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* vault.issues, [])
          assert.deepInclude({ ...yield* the(store, system, idOf("Tea.md")) }, {
            importance: 0.8,
            body: "Sow.\r\nRest."
          })
        }))
    }))

  it.scopedLive("an acknowledged update of a note is in the file once the vault is reopened after a crash", () =>
    Effect.gen(function*() {
      const root = yield* folder({ "Tea.md": tea, "Plain.md": plain })
      const copy = yield* place
      const after = yield* session(root, ({ store }) =>
        Effect.gen(function*() {
          yield* store.update(system, idOf("Tea.md"), { tags: ["hot"], importance: 0.9 })
          yield* store.update(system, idOf("Plain.md"), { body: "Rest.", importance: 0.9 })
          fs.cpSync(root, copy, { recursive: true }) // the history has both updates; each crash below sets the files
          return files(root)
        }))
      const crashes: Readonly<Record<string, Readonly<Record<string, string | undefined>>>> = {
        "before the files": { "Tea.md": tea, "Plain.md": plain },
        "between the files": { "Tea.md": after["Tea.md"], "Plain.md": plain },
        "with torn files": { "Tea.md": "", "Plain.md": "\0\0\0\0" },
        "with files that got lost": { "Tea.md": undefined, "Plain.md": undefined },
        "after the files": after
      }
      for (const [crash, texts] of Object.entries(crashes)) {
        for (const [at, text] of Object.entries(texts)) {
          if (text === undefined) fs.rmSync(path.join(copy, at))
          else write(copy, { [at]: text })
        }
        const again = yield* place
        fs.cpSync(copy, again, { recursive: true })
        yield* session(again, ({ store, vault }) =>
          Effect.gen(function*() {
            assert.deepEqual(files(again), after, crash)
            assert.deepInclude({ ...yield* the(store, system, idOf("Plain.md")) }, {
              ...{ body: "Rest.", importance: 0.9, revision: 2 }
            })
            assert.deepStrictEqual(yield* vault.issues, [])
          }))
      }
      // a text that the author wrote after the crash is kept, and is the next revision
      write(copy, { "Tea.md": after["Tea.md"]!, "Plain.md": "Mine.\n" })
      yield* session(copy, ({ store }) =>
        Effect.gen(function*() {
          assert.deepEqual(files(copy), { ...after, "Plain.md": "Mine.\n" })
          assert.deepStrictEqual(yield* bodies(store, idOf("Plain.md")), ["Mine.", "Rest.", plain])
          assert.strictEqual((yield* the(store, system, idOf("Plain.md"))).importance, 0.9)
        }))
    }))

  it.scopedLive("`Restore` writes a note's earlier file back byte for byte, even if the note was forgotten", () =>
    Effect.gen(function*() {
      const notes = { "Deep/Tea.md": tea, "Plain.md": plain }
      const root = yield* folder(notes)
      const id = idOf("Deep/Tea.md")
      const back = (id: MemoryId.MemoryId, revision: number) => ({ _tag: "Restore" as const, id, revision })
      yield* session(root, ({ store }) =>
        Effect.gen(function*() {
          yield* store.update(system, id, { tags: [], body: "Rest.", metadata: {} })
          assert.notStrictEqual(files(root)["Deep/Tea.md"], tea)
          yield* store.apply(system, [back(id, 1)])
          assert.deepEqual(files(root), notes)
          yield* store.forget(system, [id, idOf("Plain.md")])
          assert.deepEqual(files(root), {})
        }))
      cool(root)
      yield* session(root, ({ store, vault }) =>
        Effect.gen(function*() {
          yield* store.apply(system, [back(id, 3), back(idOf("Plain.md"), 1)])
          assert.deepEqual(files(root), notes)
          fs.rmSync(path.join(root, "Deep/Tea.md"))
          yield* vault.refresh
          assert.deepStrictEqual(yield* ids(store), { "Plain.md": idOf("Plain.md") })
          const [tombstone] = (yield* store.list(system, { forgotten: true })).items
          yield* store.apply(system, [back(id, tombstone!.revision - 1)])
          assert.deepEqual(files(root), notes)
          yield* vault.refresh
          assert.deepEqual(yield* ids(store), { "Deep/Tea.md": id, "Plain.md": idOf("Plain.md") })
          assert.deepStrictEqual(yield* vault.verify, [])
        }))
    }))

  it.scopedLive("vault.repair restores a note's emptied file byte for byte, and keeps updates that are stored outside of the file", () =>
    Effect.gen(function*() {
      const root = yield* folder({ "Tea.md": tea })
      yield* session(root, ({ store, vault }) =>
        Effect.gen(function*() {
          yield* store.update(system, idOf("Tea.md"), { importance: 0.9 })
          write(root, { "Tea.md": "" })
          assert.strictEqual((yield* Effect.flip(store.update(system, idOf("Tea.md"), { tags: [] }))).reason, "corrupt")
          yield* vault.repair({ write: true })
          assert.deepEqual(files(root), { "Tea.md": tea })
          assert.strictEqual((yield* the(store, system, idOf("Tea.md"))).importance, 0.9)
        }))
    }))

  it.scopedLive("a batch that fails with `io` changes no byte of the notes that it forgets, even of a note that is not UTF-8", () =>
    Effect.gen(function*() {
      const root = yield* folder({ "Tea.md": tea })
      const latin = Buffer.from("Caf\xe9 au lait", "latin1")
      fs.writeFileSync(path.join(root, "Latin.md"), latin)
      fs.writeFileSync(path.join(root, "agents"), "a file where a folder would be")
      const { store } = yield* opened(root)
      const refused = yield* Effect.flip(store.apply(system, [
        { _tag: "Forget", id: idOf("Latin.md") },
        { _tag: "Forget", id: idOf("Tea.md") },
        { _tag: "Put", draft: { scope: { agentId: "a" }, kind: "reference", body: "x" } }
      ]))
      assert.strictEqual(refused.reason, "io")
      assert.deepStrictEqual(fs.readFileSync(path.join(root, "Latin.md")), latin)
      assert.strictEqual(fs.readFileSync(path.join(root, "Tea.md"), "utf8"), tea)
      assert.deepEqual(yield* ids(store), { "Latin.md": idOf("Latin.md"), "Tea.md": idOf("Tea.md") })
    }))

  it.scopedLive("the bytes of a forgotten note that is not UTF-8 are kept below .effect-memory until the note is purged", () =>
    Effect.gen(function*() {
      const root = yield* folder({ "Tea.md": tea })
      const latin = Buffer.from("Caf\xe9 au lait", "latin1")
      fs.writeFileSync(path.join(root, "Latin.md"), latin)
      const { store } = yield* opened(root)
      yield* store.forget(system, [idOf("Latin.md"), idOf("Tea.md")])
      const kept = () => {
        const hidden = path.join(root, ".effect-memory/damaged")
        return fs.readdirSync(hidden).map((name) => fs.readFileSync(path.join(hidden, name)))
      }
      assert.deepStrictEqual(files(root), {})
      assert.deepStrictEqual(kept(), [latin])
      yield* store.forget(system, [idOf("Latin.md")], { purge: true })
      assert.deepStrictEqual(kept(), [])
    }))

  it.scopedLive("a purge deletes the note's file and the vault's snapshot, and leaves no text of the note in the history", () =>
    Effect.gen(function*() {
      const others = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`${n}.md`, `Note ${n}.`]))
      const before: ReadonlyArray<(store: Service, id: MemoryId.MemoryId) => Effect.Effect<unknown, unknown>> = [
        () => Effect.void,
        (store, id) => store.update(system, id, { importance: 0.9 }),
        (store, id) => store.forget(system, [id])
      ]
      for (const act of before) {
        const root = yield* folder({ ...others, "Tea.md": tea })
        yield* session(root, () => Effect.void)
        const hidden = path.join(root, ".effect-memory")
        assert.isTrue(fs.existsSync(path.join(hidden, "snapshot")))
        yield* session(root, ({ store }) =>
          Effect.gen(function*() {
            yield* act(store, idOf("Tea.md"))
            yield* store.forget(system, [idOf("Tea.md")], { purge: true })
            assert.isFalse(fs.existsSync(path.join(hidden, "snapshot")))
          }))
        assert.deepEqual(files(root), others)
        assert.notInclude(fs.readFileSync(path.join(hidden, "history"), "utf8"), "a remark")
      }
    }))
})

/** A change `act` of notes. `becomes` maps each path afterwards to the record's path before, or to the same path if the record is new. */
interface Case {
  readonly title: string
  readonly notes: Readonly<Record<string, string>>
  readonly act: (root: string) => void
  readonly becomes: Readonly<Record<string, string>>
}
const long = (of: string) => Array.from({ length: 40 }, (_, n) => `${of} ${n}`).join(" ")
const cases: ReadonlyArray<Case> = [
  {
    title: "a renamed note remains the same record",
    notes: { "Tea.md": tea, "Plain.md": plain },
    act: (root) => move(root, "Tea.md", "Green tea.md"),
    becomes: { "Green tea.md": "Tea.md", "Plain.md": "Plain.md" }
  },
  {
    title: "a note moved into another folder remains the same record",
    notes: { "Inbox/Tea.md": tea, "Plain.md": plain },
    act: (root) => move(root, "Inbox/Tea.md", "Garden/Drinks/Tea.md"),
    becomes: { "Garden/Drinks/Tea.md": "Inbox/Tea.md", "Plain.md": "Plain.md" }
  },
  {
    title: "a note that is edited and renamed between two scans remains the same record",
    notes: { "Tea.md": long("tea"), "Plain.md": plain },
    act: (root) => {
      move(root, "Tea.md", "Cha.md")
      write(root, { "Cha.md": `${long("tea")}\n\nMore of it.` })
    },
    becomes: { "Cha.md": "Tea.md", "Plain.md": "Plain.md" }
  },
  {
    title: "a copied note remains the same record, and the copy is a new record",
    notes: { "Tea.md": tea },
    act: (root) => write(root, { "Copy of tea.md": tea }),
    becomes: { "Tea.md": "Tea.md", "Copy of tea.md": "Copy of tea.md" }
  },
  {
    title: "two notes that swap their paths count as two edits, and the record at each path stays",
    notes: { "A.md": long("a"), "B.md": long("b") },
    act: (root) => {
      move(root, "A.md", "C.md")
      move(root, "B.md", "A.md")
      move(root, "C.md", "B.md")
    },
    becomes: { "A.md": "A.md", "B.md": "B.md" }
  },
  {
    title: "two renamed notes with equal texts are both new records, since nothing tells which is which",
    notes: { "A.md": long("a"), "B.md": long("a") },
    act: (root) => {
      move(root, "A.md", "C.md")
      move(root, "B.md", "D.md")
    },
    becomes: { "C.md": "C.md", "D.md": "D.md" }
  },
  {
    title: "two new files that resemble a deleted note equally are both new records",
    notes: { "A.md": long("a") },
    act: (root) => {
      fs.rmSync(path.join(root, "A.md"))
      write(root, { "C.md": `${long("a")} one`, "D.md": `${long("a")} two` })
    },
    becomes: { "C.md": "C.md", "D.md": "D.md" }
  },
  {
    title: "an empty note that is renamed is a new record",
    notes: { "A.md": "" },
    act: (root) => move(root, "A.md", "B.md"),
    becomes: { "B.md": "B.md" }
  },
  {
    title: "a file that is added while a note is deleted is a new record if their texts have little in common",
    notes: { "A.md": long("a") },
    act: (root) => {
      fs.rmSync(path.join(root, "A.md"))
      write(root, { "B.md": long("b") })
    },
    becomes: { "B.md": "B.md" }
  },
  {
    title: "a note moved to another scope is a new record, since its history belongs to the viewers of the old scope",
    notes: { "users/ada/Tea.md": tea },
    act: (root) => move(root, "users/ada/Tea.md", "users/bob/Tea.md"),
    becomes: { "users/bob/Tea.md": "users/bob/Tea.md" }
  },
  {
    title: "two notes whose folders swap their names count as two edits, and the record at each path stays",
    notes: { "one/Tea.md": long("a"), "two/Tea.md": long("b") },
    act: (root) => {
      move(root, "one", "three")
      move(root, "two", "one")
      move(root, "three", "two")
    },
    becomes: { "one/Tea.md": "one/Tea.md", "two/Tea.md": "two/Tea.md" }
  }
]

describe("a note that is moved or renamed", () => {
  const check = ({ store, vault }: Opened, { becomes }: Case, known: Readonly<Record<string, string>>) =>
    Effect.gen(function*() {
      const now = yield* ids(store)
      const expected = Object.entries(becomes).map(([to, from]) => [to, known[from] ?? idOf(from)] as const)
      assert.deepEqual(now, Object.fromEntries(expected))
      assert.deepStrictEqual(yield* vault.issues, [])
    })
  for (const one of cases) {
    it.scopedLive(`${one.title} (change noticed by \`refresh\`, by the poll or at opening)`, () =>
      Effect.gen(function*() {
        const texts = (root: string) => Effect.sync(() => files(root))
        // while the vault is open, by refresh and by the poll
        for (const options of [{}, { poll: 20 }]) {
          const root = yield* folder(one.notes)
          const vault = yield* opened(root, options)
          const known = yield* ids(vault.store)
          one.act(root)
          const after = yield* texts(root)
          if (options.poll === undefined) yield* vault.vault.refresh
          else {
            yield* eventually(
              one.title,
              Effect.map(
                vault.store.list(system, {}),
                ({ items }) =>
                  items.length === Object.keys(one.becomes).length &&
                  items.every(({ source }) => one.becomes[source.reference ?? ""] !== undefined)
              )
            )
            yield* vault.vault.refresh
          }
          yield* check(vault, one, known)
          yield* session(root, (again) => check(again, one, known))
          assert.deepStrictEqual(yield* texts(root), after)
        }
        // changes the notes while the vault is closed: with a snapshot, or without one after an update of each note
        for (const isWritten of [false, true]) {
          const root = yield* folder(one.notes)
          const known = yield* session(root, ({ store }) =>
            Effect.gen(function*() {
              const known = yield* ids(store)
              for (const id of isWritten ? Object.values(known) : []) {
                yield* store.update(system, id, { importance: 0.9 })
              }
              return known
            }))
          if (isWritten) cool(root)
          one.act(root)
          const after = yield* texts(root)
          yield* session(root, (vault) => check(vault, one, known))
          cool(root)
          yield* session(root, (vault) => check(vault, one, known))
          assert.deepStrictEqual(yield* texts(root), after)
        }
      }))
  }

  it.scopedLive("a moved or renamed note keeps its history, importance and tags, and links to the note still resolve", () =>
    Effect.gen(function*() {
      const root = yield* folder({
        "Garden/Tea.md": tea,
        "By name.md": "[[Tea]]",
        "By path.md": "[tea](Garden/Tea.md)",
        "By id.md": `[[${idOf("Garden/Tea.md")}]]`
      })
      const id = idOf("Garden/Tea.md")
      const check = ({ store }: Opened, name: string, past: number) =>
        Effect.gen(function*() {
          const { from } = yield* store.links(system, id)
          assert.deepStrictEqual(
            from.map(({ id, type }) => [id, type]).sort(),
            [
              ...["By id.md", "By name.md", "By path.md"].map((at) => [idOf(at), "wikilink"]),
              [idOf("By id.md"), "knows"]
            ].sort()
          )
          const record = yield* the(store, system, id)
          assert.deepInclude({ ...record }, { summary: name, importance: 0.9, tags: ["garden", "hot"] })
          assert.lengthOf(yield* store.history(system, id), past)
        })
      yield* session(root, (vault) =>
        Effect.gen(function*() {
          yield* vault.store.update(system, id, { importance: 0.9 })
          yield* vault.store.update(system, idOf("By id.md"), { links: [{ to: id, type: "knows", weight: 1 }] })
          yield* check(vault, "Tea", 2)
          move(root, "Garden/Tea.md", "Drinks/Tea.md")
          yield* vault.vault.refresh
          yield* check(vault, "Tea", 3)
        }))
      move(root, "Drinks/Tea.md", "Drinks/Cha.md")
      yield* session(root, (vault) =>
        Effect.gen(function*() {
          yield* check(vault, "Cha", 4)
          // another note may get the old name; links by that name then resolve to it
          write(root, { "Drinks/Tea.md": "Another." })
          yield* vault.vault.refresh
          const { to } = yield* vault.store.links(system, idOf("By name.md"))
          assert.deepStrictEqual(to.map(({ id }) => id), [(yield* ids(vault.store))["Drinks/Tea.md"]])
        }))
      assert.deepInclude(files(root), { "Drinks/Cha.md": tea })
    }))

  it.scopedLive("a new note at the old path of a renamed note gets a new id, which stays the same after a reopening", () =>
    Effect.gen(function*() {
      const root = yield* folder({ "Tea.md": long("tea") })
      yield* session(root, () => Effect.void)
      let expected: Readonly<Record<string, MemoryId.MemoryId>> = { "Tea.md": idOf("Tea.md") }
      for (const n of [1, 2, 3]) {
        move(root, "Tea.md", `Tea ${n}.md`)
        yield* session(root, ({ store, vault }) =>
          Effect.gen(function*() {
            write(root, { "Tea.md": long(`other ${n}`) })
            yield* vault.refresh
            const now = yield* ids(store)
            const { "Tea.md": fresh, ...old } = now
            const { "Tea.md": moved, ...others } = expected
            assert.deepEqual(old, { ...others, [`Tea ${n}.md`]: moved! })
            assert.notInclude(Object.values(old), fresh)
            expected = now
          }))
        cool(root)
        yield* session(root, ({ store }) => Effect.map(ids(store), (now) => assert.deepEqual(now, expected)))
      }
      // moves the note that was renamed first back to its old path
      fs.rmSync(path.join(root, "Tea.md"))
      yield* session(root, () => Effect.void)
      move(root, "Tea 1.md", "Tea.md")
      const { "Tea.md": _, "Tea 1.md": first, ...rest } = expected
      yield* session(
        root,
        ({ store }) => Effect.map(ids(store), (now) => assert.deepEqual(now, { ...rest, "Tea.md": first! }))
      )
    }))

  it.scopedLive("a note whose file is deleted and comes back later, as by a git checkout, remains the same record", () =>
    Effect.gen(function*() {
      const root = yield* folder({ "Tea.md": tea })
      yield* session(root, ({ store, vault }) =>
        Effect.gen(function*() {
          yield* store.update(system, idOf("Tea.md"), { importance: 0.9 })
          move(root, "Tea.md", "Cha.md")
          yield* vault.refresh
          fs.rmSync(path.join(root, "Cha.md"))
          yield* vault.refresh
          assert.deepEqual(yield* ids(store), {})
        }))
      write(root, { "Cha.md": tea })
      yield* session(root, ({ store }) =>
        Effect.gen(function*() {
          assert.deepEqual(yield* ids(store), { "Cha.md": idOf("Tea.md") })
          assert.deepInclude({ ...yield* the(store, system, idOf("Tea.md")) }, { importance: 0.9, revision: 5 })
        }))
    }))

  it.scopedLive("an update or a forget of a moved note changes the file at the new path, even before the next scan", () =>
    Effect.gen(function*() {
      const root = yield* folder({ "Tea.md": tea })
      const { store } = yield* opened(root)
      move(root, "Tea.md", "Drinks/Cha.md")
      yield* store.update(system, idOf("Tea.md"), { tags: ["hot"] })
      assert.deepEqual(files(root), { "Drinks/Cha.md": tea.replace("\r\n  - garden # green", "") })
      yield* store.forget(system, [idOf("Tea.md")])
      assert.deepEqual(files(root), {})
    }))

  it.scopedLive("a moved note remains the same record in two stores on one folder, and each move adds one revision", () =>
    Effect.gen(function*() {
      const root = yield* folder({ "Tea.md": tea, "Plain.md": plain })
      const [one, two] = yield* Effect.all([opened(root), opened(root)])
      move(root, "Tea.md", "Cha.md")
      yield* Effect.all([one.vault.refresh, two.vault.refresh], { concurrency: 2 })
      yield* one.store.update(system, idOf("Tea.md"), { importance: 0.9 })
      move(root, "Cha.md", "Drinks/Cha.md")
      yield* two.vault.refresh
      yield* one.vault.refresh
      for (const { store, vault } of [one, two, yield* opened(root)]) {
        assert.deepEqual(yield* ids(store), { "Drinks/Cha.md": idOf("Tea.md"), "Plain.md": idOf("Plain.md") })
        assert.deepInclude({ ...yield* the(store, system, idOf("Tea.md")) }, { importance: 0.9, revision: 4 })
        assert.deepStrictEqual(yield* vault.issues, [])
      }
    }))

  it.scopedLive("the notes in a renamed folder remain the same records", () =>
    Effect.gen(function*() {
      const count = times(300, 3_000)
      const notes = Array.from(
        { length: count },
        (_, n) => [`Old/${n}.md`, `# Note ${n}\n\n${long(`word${n}`)}`] as const
      )
      const root = yield* folder(Object.fromEntries(notes))
      const expected = (folder: string) =>
        Object.fromEntries(notes.map(([at]) => [at.replace("Old", folder), idOf(at)]))
      const all = (store: Service) =>
        Effect.gen(function*() {
          const found = yield* Effect.forEach(notes, ([at]) => get(store, system, idOf(at)))
          return Object.fromEntries(found.flatMap((record) => record ? [[record.source.reference, record.id]] : []))
        })
      yield* session(root, ({ store, vault }) =>
        Effect.gen(function*() {
          move(root, "Old", "New")
          for (const [n, [at, text]] of notes.entries()) {
            if (n % 10 === 0) write(root, { [at.replace("Old", "New")]: `${text}\n\nEdited ${n}.` })
          }
          yield* vault.refresh
          assert.deepEqual(yield* all(store), expected("New"))
        }))
      move(root, "New", "Newest")
      yield* session(root, ({ store }) =>
        Effect.gen(function*() {
          assert.deepEqual(yield* all(store), expected("Newest"))
          assert.lengthOf(yield* store.history(system, idOf("Old/1.md")), 3)
        }))
    }))
})
