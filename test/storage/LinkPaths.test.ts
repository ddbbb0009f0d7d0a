/**
 * Links of a vault's notes, case by case. If several notes have the name in the link, the linking note's own folder is preferred, then the
 * shortest path, as in Obsidian.
 */
import { assert, describe, it } from "@effect/vitest"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import * as Links from "../../src/storage/Links.ts"
import { record } from "../ranking/world.ts"

const id = (path: string) => MemoryId.foreign("file", path)

const note = (path: string, body = "", fields: Partial<MemoryRecord> = {}): MemoryRecord =>
  record(path.slice(path.lastIndexOf("/") + 1).replace(/\.md$/, ""), {
    id: id(path),
    scope: "global",
    kind: "reference",
    body,
    source: { origin: "file", trust: 2, reference: path },
    ...fields
  })

/** A vault whose newest note comes last, so that choosing by age would give other results than choosing by path. */
const vault = [
  note("Note.md"),
  note("A/Note.md"),
  note("A/B/Note.md"),
  note("A/B/C/Note.md"),
  note("Long folder/Note.md"),
  note("Z/Note.md"),
  note("Z/Deep/Note.md"),
  note("X/Plan.md"),
  note("Y/Plan.md"),
  note("Y/Old/Plan.md"),
  note("Much longer/Plan.md"),
  note("P/Q/Index.md"),
  note("R/S/Index.md"),
  note("R/Index.md"),
  note("Q/Index.md"),
  note("Projects/2023/Report.md"),
  note("Projects/2024/Report.md"),
  note("Archive/Projects/2023/Report.md"),
  note("Ünïcode/Café.md"),
  note("Bar/CAFE\u0301.md"),
  note("v1.2/Release v1.2.md"),
  note("v1.3/Release v1.2.md"),
  note("People/Ada.md", "", { metadata: { aliases: ["Countess", "Plan", "A. L."] } }),
  note("Family/Ada.md", "", { metadata: { aliases: "Countess" } }),
  note("Family/Byron.md", "", { metadata: { alias: "Lord" } }),
  note("Space folder/My note.md"),
  note("Other/My note.md"),
  note("T/One.md"),
  note("T/Two/One.md")
].map((record, n) => new MemoryRecord({ ...record, createdAt: n, validAt: n }))

/** Path of the linking note, its link, and the path of the expected target; `undefined` if the link must have no target. */
const cases: ReadonlyArray<readonly [by: string, link: string, to: string | undefined]> = [
  // by name: a note in the folder of the linking note is preferred
  ["From.md", "[[Note]]", "Note.md"],
  ["A/From.md", "[[Note]]", "A/Note.md"],
  ["A/B/From.md", "[[Note]]", "A/B/Note.md"],
  ["A/B/C/From.md", "[[Note]]", "A/B/C/Note.md"],
  ["Z/From.md", "[[Note]]", "Z/Note.md"],
  ["Z/Deep/From.md", "[[Note]]", "Z/Deep/Note.md"],
  ["Long folder/From.md", "[[note]]", "Long folder/Note.md"],
  ["X/From.md", "[[Plan]]", "X/Plan.md"],
  ["Y/From.md", "[[PLAN]]", "Y/Plan.md"],
  ["Y/Old/From.md", "[[Plan]]", "Y/Old/Plan.md"],
  ["Family/From.md", "[[Ada]]", "Family/Ada.md"],
  ["People/From.md", "[[Ada]]", "People/Ada.md"],
  // a note in the linking note's folder is preferred, then the path with the fewest folders, then the shortest path, then the path that
  // sorts first
  ["X/From.md", "[[Note]]", "Note.md"],
  ["A/B/D/From.md", "[[Note]]", "Note.md"],
  ["From.md", "[[Plan]]", "X/Plan.md"],
  ["Much/From.md", "[[Plan]]", "X/Plan.md"],
  ["From.md", "[[Index]]", "Q/Index.md"],
  ["P/From.md", "[[Index]]", "Q/Index.md"],
  ["R/S/T/From.md", "[[Index]]", "Q/Index.md"],
  ["P/Q/From.md", "[[Index]]", "P/Q/Index.md"],
  ["From.md", "[[Report]]", "Projects/2023/Report.md"],
  ["From.md", "[[Ada]]", "Family/Ada.md"],
  ["From.md", "[[My note]]", "Other/My note.md"],
  ["From.md", "[[One]]", "T/One.md"],
  ["T/Two/From.md", "[[One]]", "T/Two/One.md"],
  // a link does not resolve to its own note
  ["A/Note.md", "[[Note]]", "Note.md"],
  ["Note.md", "[[Note]]", "A/Note.md"],
  ["X/Plan.md", "[[Plan]]", "Y/Plan.md"],
  // a path leads to the note with this whole path, else to a note whose path ends with it, else to a note with the name at the end of the
  // path
  ["From.md", "[[A/Note]]", "A/Note.md"],
  ["Z/From.md", "[[A/Note]]", "A/Note.md"],
  ["From.md", "[[A/B/Note.md]]", "A/B/Note.md"],
  ["From.md", "[[B/Note]]", "A/B/Note.md"],
  ["From.md", "[[B/C/Note]]", "A/B/C/Note.md"],
  ["From.md", "[[deep/note]]", "Z/Deep/Note.md"],
  ["From.md", "[[2023/Report]]", "Projects/2023/Report.md"],
  ["From.md", "[[2024/Report]]", "Projects/2024/Report.md"],
  ["Archive/Projects/2023/From.md", "[[2023/Report]]", "Archive/Projects/2023/Report.md"],
  ["Archive/From.md", "[[Projects/2023/Report]]", "Projects/2023/Report.md"],
  ["From.md", "[[S/Index]]", "R/S/Index.md"],
  ["From.md", "[[Nowhere/Plan]]", "X/Plan.md"],
  // from the root, and relative to the linking note's folder
  ["A/From.md", "[[/Note]]", "Note.md"],
  ["A/B/From.md", "[[/A/Note]]", "A/Note.md"],
  ["A/B/From.md", "[[./Note]]", "A/B/Note.md"],
  ["A/B/From.md", "[[../Note]]", "A/Note.md"],
  ["A/B/C/From.md", "[[../../Note]]", "A/Note.md"],
  ["A/From.md", "[[../Note]]", "Note.md"],
  ["A/B/From.md", "[[../../Note]]", "Note.md"],
  ["A/From.md", "[x](../Note.md)", "Note.md"],
  ["X/From.md", "[[../Plan]]", "X/Plan.md"],
  ["A/B/From.md", "[[../B/C/Note]]", "A/B/C/Note.md"],
  ["Y/From.md", "[[./Old/Plan]]", "Y/Old/Plan.md"],
  // Markdown links
  ["A/From.md", "[x](Note.md)", "A/Note.md"],
  ["From.md", "[x](Note.md)", "Note.md"],
  ["A/From.md", "[x](B/Note.md)", "A/B/Note.md"],
  ["A/B/From.md", "[x](../Note.md#Part)", "A/Note.md"],
  ["Z/From.md", "[x](/A/Note.md)", "A/Note.md"],
  ["Other/From.md", "[x](My%20note.md)", "Other/My note.md"],
  ["Space folder/From.md", "[x](<My note.md> \"title\")", "Space folder/My note.md"],
  ["X/From.md", "![x](Plan.md)", "X/Plan.md"],
  ["From.md", "[x](https://example.org/Note.md) [y](Note.txt) [z](#Note) `[q](Note.md)`", undefined],
  // a link to a part of a note resolves to the note
  ["A/From.md", "[[Note#Part]]", "A/Note.md"],
  ["A/From.md", "[[Note^block]]", "A/Note.md"],
  ["A/From.md", "[[Note#^block|there]]", "A/Note.md"],
  ["A/From.md", "![[Note#Part#Deeper]]", "A/Note.md"],
  // names with special characters
  ["Bar/From.md", "[[café]]", "Bar/CAFE\u0301.md"],
  ["Ünïcode/From.md", "[[CAFÉ]]", "Ünïcode/Café.md"],
  ["v1.3/From.md", "[[Release v1.2]]", "v1.3/Release v1.2.md"],
  ["From.md", "[[Release v1.2]]", "v1.2/Release v1.2.md"],
  // aliases, which come after names
  ["From.md", "[[countess]]", "Family/Ada.md"],
  ["People/From.md", "[[Countess]]", "People/Ada.md"],
  ["From.md", "[[A. L.]]", "People/Ada.md"],
  ["People/From.md", "[[Plan]]", "X/Plan.md"],
  ["From.md", "[[Lord]]", "Family/Byron.md"],
  ["From.md", "[[Nobody]]", undefined]
]

const ends = (records: ReadonlyArray<MemoryRecord>, from: MemoryRecord) => {
  const links = Links.make()
  for (const record of [...records.filter(({ id }) => id !== from.id), from]) links.set(record.id, record)
  return links.seen(() => true)(from.id).to.map(({ id }) => id)
}
const nameOf = (found: ReadonlyArray<MemoryId.MemoryId>, records = vault) =>
  found.map((one) => records.find(({ id }) => id === one)?.source.reference)

describe("a link of a note", () => {
  it("the table has at least sixty test cases", () => assert.isAtLeast(cases.length, 60))

  for (const [by, link, to] of cases) {
    it(`${link} in ${by} resolves to ${to ?? "no note"}`, () => {
      assert.deepStrictEqual(nameOf(ends(vault, note(by, link))), to === undefined ? [] : [to])
    })
  }

  it("the linking note is a backlink only of the note to which its [[wikilink]] resolves", () => {
    for (const [by, link, to] of cases) {
      const links = Links.make()
      const from = note(by, link)
      for (const record of [...vault.filter(({ id }) => id !== from.id), from]) links.set(record.id, record)
      const back = vault.filter(({ id }) => links.seen(() => true)(id).from.some((one) => one.id === from.id))
      assert.deepStrictEqual(back.map(({ source }) => source.reference), to === undefined ? [] : [to], link)
    }
  })

  it("a [[wikilink]] resolves to a file of that name if its scope has one, otherwise to the scope's newest record of that name", () => {
    const plain = [1, 2].map((n) =>
      note(`plain ${n}`, "", { summary: "Note", source: { origin: "user", trust: 1 }, createdAt: 100 + n })
    )
    assert.deepStrictEqual(ends([...vault, ...plain], note("From.md", "[[Note]]")), [id("Note.md")])
    assert.deepStrictEqual(ends(plain, note("From.md", "[[Note]]")), [id("plain 2")])
    const speaker = note("chat", "[[Note]]", { source: { origin: "user", trust: 1 } })
    assert.deepStrictEqual(ends([...vault, ...plain], speaker), [id("Note.md")])
  })

  it("[[wikilinks]] under the metadata keys `up` and `related` are links if the record is a file, but not in other records", () => {
    const metadata = { up: "[[A/Note]]", related: ["see [[Plan]]", { deep: "[[Index]]" }], n: 7 }
    assert.deepStrictEqual(nameOf(ends(vault, note("From.md", "", { metadata }))), [
      "A/Note.md",
      "X/Plan.md",
      "Q/Index.md"
    ])
    const chat = note("chat", "", { metadata, source: { origin: "user", trust: 1 } })
    assert.deepStrictEqual(ends(vault, chat), [])
  })
})
