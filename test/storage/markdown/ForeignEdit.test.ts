import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as MemoryId from "../../../src/domain/MemoryId.ts"
import * as MemoryKind from "../../../src/domain/MemoryKind.ts"
import { MemoryRecord } from "../../../src/domain/MemoryRecord.ts"
import type { JsonObject } from "../../../src/domain/Payload.ts"
import * as Document from "../../../src/storage/MemoryStore/Markdown/Document.ts"
import * as ForeignEdit from "../../../src/storage/MemoryStore/Markdown/ForeignEdit.ts"
import type { Previous } from "../../../src/storage/MemoryStore/Markdown/ForeignNote.ts"
import * as Frontmatter from "../../../src/storage/MemoryStore/Markdown/Frontmatter.ts"
import { times } from "../../vault/Program.ts"

const context: Document.Context = {
  key: "k",
  kinds: new Map([MemoryKind.reference, MemoryKind.project, MemoryKind.belief].map((kind) => [kind.name, kind])),
  notes: "whole"
}
const read = (text: string, previous?: Previous, path = "Garden/Tea.md") =>
  Either.getOrThrowWith(Document.parse(context, path, text, 7, previous), (issue) => new Error(issue))
const changed = (record: MemoryRecord, fields: Partial<MemoryRecord>) =>
  new MemoryRecord({ ...record, ...fields }, { disableValidation: true })
/** Returns the text of a note after an update of its record with these fields; `cannot: …` if the edit fails. */
const edited = (text: string, fields: Partial<MemoryRecord>) => {
  const { record } = read(text)
  return Either.getOrElse(ForeignEdit.edit(text, record, changed(record, fields)), (issue) => `cannot: ${issue}`)
}

describe("ForeignEdit, which edits the text of a note that a person or another program wrote", () => {
  const list =
    "---\ntitle: 'Tea' # its name\ntags: # mine\n  - garden # green\n  - plants\n\n# a remark\ndone: no\n---\nSow.\n"

  it("a tag on its own line is added or removed with its line; `tags: []` is written if no tag is left", () => {
    assert.strictEqual(
      edited(list, { tags: ["garden", "plants", "hot"] }),
      list.replace("  - plants\n", "  - plants\n  - hot\n")
    )
    assert.strictEqual(edited(list, { tags: ["plants"] }), list.replace("\n  - garden # green", ""))
    assert.strictEqual(
      edited(list, { tags: ["garden", "a: b"] }),
      list.replace("  - plants\n", "  - \"a: b\"\n")
    )
    assert.strictEqual(
      edited(list, { tags: [] }),
      list.replace("tags:", "tags: []").replace("\n  - garden # green\n  - plants", "")
    )
  })

  it("a change of tags keeps the format of the `tags` property if possible, such as words separated by commas", () => {
    const inLine = "---\ntags: [garden, \"plants\"] # mine\n---\nSow."
    assert.strictEqual(edited(inLine, { tags: ["garden", "plants", "hot"] }), inLine.replace("s\"]", "s\", \"hot\"]"))
    assert.strictEqual(edited(inLine, { tags: ["plants"] }), inLine.replace("garden, ", ""))
    assert.strictEqual(edited(inLine, { tags: ["garden"] }), inLine.replace(", \"plants\"", ""))
    const words = "---\ntags: garden plants\n---\nSow."
    assert.strictEqual(edited(words, { tags: ["plants", "hot"] }), words.replace("garden plants", "plants hot"))
    const commas = "---\ntags: garden, plants\n---\nSow."
    assert.strictEqual(edited(commas, { tags: ["garden", "plants", "x"] }), commas.replace("plants", "plants, x"))
    assert.strictEqual(
      edited(words, { tags: ["garden", "two words"] }),
      words.replace("garden plants", "[garden, two words]")
    )
    const bare = "---\ntags: # none yet\nx: 1\n---\nSow."
    assert.strictEqual(edited(bare, { tags: ["hot"] }), bare.replace("tags:", "tags: [hot]"))
  })

  it("an edit keeps the quotes, line ends and BOM of the text, and removes a property with all of its lines", () => {
    const text =
      "\uFEFF---\r\nsummary: \"Tea\"\r\nmood: sunny # today\r\nmore:\r\n  - 1\r\n---\r\n\r\nSow.\r\nReap.\r\n"
    const { record } = read(text)
    assert.strictEqual(edited(text, { summary: "Green \"tea\"" }), text.replace("\"Tea\"", "\"Green \\\"tea\\\"\""))
    assert.strictEqual(
      edited(text, { metadata: { ...record.metadata, mood: "rainy" } }),
      text.replace("sunny", "rainy")
    )
    assert.strictEqual(edited(text, { metadata: { more: [1] } }), text.replace("mood: sunny # today\r\n", ""))
    assert.strictEqual(edited(text, { metadata: { mood: "sunny" } }), text.replace("\r\nmore:\r\n  - 1", ""))
    assert.strictEqual(edited(text, { body: "Sow.\r\nRest." }), text.replace("Reap.", "Rest."))
  })

  it("an edit adds no properties to the frontmatter, and does not change inline tags such as #hot", () => {
    for (const text of [list, "Sow. #hot", "---\n---\nSow.", "---\na: b: c\n---\nSow.", "---\nnot a map\n---\nSow."]) {
      const { record: { tags } } = read(text)
      const fields = { importance: 1, kind: "project", confidence: 0.5, summary: "Other", invalidAt: 9, updatedAt: 9 }
      assert.strictEqual(edited(text, fields), text)
      if (text !== list) assert.strictEqual(edited(text, { tags: [...tags, "new"], metadata: { x: 1 } }), text)
    }
    assert.strictEqual(edited("Sow. #hot", { tags: [] }), "Sow. #hot")
  })

  it("every body written by an edit is read back unchanged, even a body that looks like frontmatter", () => {
    for (const text of ["Sow.", "---\na: 1\n---\nSow.\n", "---\na: b: c\n---\nSow.", "\r\nSow.\r\n", ""]) {
      for (
        const body of ["---\nb: 2\n---\nReap.", "\nReap.", "Reap.\n", "\r\n\r\nx\r\n\r\n", "", "---\n", "x\u2028---"]
      ) {
        const next = edited(text, { body })
        assert.strictEqual(read(next).record.body, body, JSON.stringify([text, body, next]))
      }
    }
  })

  it("an edit fails if the body of the text has changed since the record was read", () => {
    const { record } = read(list)
    assert.isTrue(Either.isLeft(ForeignEdit.edit(list.replace("Sow", "Reap"), record, changed(record, { body: "x" }))))
  })

  const property = FastCheck.constantFrom(
    "tags: [a, b]",
    "tags:\n  - a\n  - \"b\" # two",
    "tags:\n- a\n- b",
    "tags: a, b",
    "tags:",
    "summary: Tea time",
    "summary: |\n  Tea\n\n",
    "summary: >-\n  folded\n  line",
    "importance: 0.5",
    "importance: high",
    "mood: \"sunny\"",
    "mood: 'it''s'",
    "mood: {a: 1, b: [x, y]}",
    "mood:\n  a: 1 # deep\n  b:\n    - x",
    "\"quoted key\": 1",
    "created: 2024-05-02",
    "aliases: [Cha, \"Té\"]",
    "confidence: 1",
    "metadata:\n  x: 1",
    "validAt: 5"
  )
  const between = FastCheck.constantFrom("", "", "\n", "# a comment\n", "  # indented\n")
  const eol = FastCheck.constantFrom("\n", "\r\n")
  const foreign = FastCheck.record({
    bom: FastCheck.constantFrom("", "\uFEFF"),
    properties: FastCheck.uniqueArray(property, { maxLength: 6, selector: (text) => text.split(":")[0]! }),
    comments: FastCheck.array(between, { minLength: 7, maxLength: 7 }),
    eol,
    body: FastCheck.constantFrom("Sow.", "", "\nSow.\n\n", "a #tag and [[Tea]]", "---\nrule\n---\n")
  }).map(({ body, bom, comments, eol, properties }) => ({
    properties: properties.map((text) => text.replace(/\n/g, eol)),
    text: bom +
      ["---\n", ...properties.map((one, i) => `${comments[i]}${one}\n`), comments[6], "---\n", body].join("").replace(
        /\n/g,
        eol
      )
  }))
  const json = FastCheck.constantFrom<JsonObject[string]>(
    "rainy",
    7,
    true,
    null,
    ["x", "y: z"],
    { a: { b: "#c" } },
    "a\nb",
    "- x",
    ""
  )
  const change = FastCheck.record({
    tags: FastCheck.subarray(["a", "b", "c", "d e", "#", "it's", "1"]),
    summary: FastCheck.constantFrom("Tea", "a: b", "'x'", "# no comment", "\u2028", "[x]"),
    importance: FastCheck.constantFrom(0.25, 1),
    mood: json,
    created: FastCheck.constantFrom("2025-01-01", 12),
    gone: FastCheck.boolean(),
    body: FastCheck.constantFrom("Reap.", "", "\n", "---\nx: 1\n---\ny"),
    which: FastCheck.subarray(["tags", "summary", "importance", "metadata", "body"] as const)
  })

  it("a random edit's body, summary, importance and metadata are read back; unchanged properties stay byte for byte", () => {
    let written = 0
    FastCheck.assert(
      FastCheck.property(
        foreign,
        change,
        ({ properties, text }, { body, created, gone, importance, mood, summary, tags, which }) => {
          const before = read(text)
          const { record } = before
          const known = Object.fromEntries(Object.entries(record.metadata).filter(([key]) => !gone || key !== "mood"))
          const metadata = {
            ...known,
            ...(!gone && "mood" in known && { mood }),
            ...("created" in known && { created })
          }
          const all = { tags, summary, importance, metadata, body }
          const after = changed(record, Object.fromEntries(which.map((field) => [field, all[field]])))
          const result = ForeignEdit.edit(text, record, after)
          if (Either.isLeft(result)) return assert.fail(`${result.left}: ${JSON.stringify({ text, after })}`)
          if (result.right !== text) written++
          const again = read(result.right, {
            record: after,
            properties: before.frame && Frontmatter.propertiesOf(before.frame)
          })
          for (const field of ["body", "summary", "importance", "kind", "confidence"] as const) {
            assert.deepStrictEqual(
              again.record[field],
              after[field],
              `${field}: ${JSON.stringify([text, result.right])}`
            )
          }
          for (const key of Object.keys(after.metadata).filter((key) => key !== "summary" && key !== "tags")) {
            assert.deepEqual(again.record.metadata[key], after.metadata[key], JSON.stringify([text, result.right]))
          }
          const fields = new Set<string>([...which, ...(which.includes("metadata") ? ["mood", "created"] : [])])
          for (const property of properties) {
            if (!fields.has(property.split(":")[0]!)) assert.include(result.right, property)
          }
          const comments = (text: string) => text.match(/^# a comment\r?$/gm)?.length // an indented one may be part of a value
          if (Object.keys(after.metadata).length === Object.keys(record.metadata).length) {
            assert.strictEqual(comments(result.right), comments(text), JSON.stringify([text, result.right]))
          }
          assert.strictEqual(result.right.startsWith("\uFEFF"), text.startsWith("\uFEFF"))
        }
      ),
      { seed: 3, numRuns: times(300, 5_000) }
    )
    assert.isAbove(written, 50)
  })

  it("a record keeps values that were never in its note's text, and loses values that are deleted from the text", () => {
    const known = read("---\nmood: sunny\ntags: [a]\n---\nSow. #hot")
    const record = changed(known.record, {
      id: MemoryId.stableId("kept"),
      kind: "project",
      importance: 0.9,
      confidence: 0.4,
      summary: "Called by hand",
      tags: ["a", "hot"],
      metadata: { mood: "sunny", seen: 3 },
      createdAt: 3,
      validAt: 2
    })
    const previous = { record, properties: known.frame && Frontmatter.propertiesOf(known.frame) }
    const next = read("---\nnew: 1\n---\nReap. #cold", previous, "Moved/Cha.md").record
    assert.deepInclude(next, {
      id: record.id,
      kind: "project",
      importance: 0.9,
      confidence: 0.4,
      summary: "Called by hand",
      createdAt: 3,
      validAt: 2,
      body: "Reap. #cold"
    })
    assert.deepEqual([next.tags, next.metadata], [["cold"], { seen: 3, new: 1 }])
    assert.strictEqual(next.source.reference, "Moved/Cha.md")
    const set = read("Reap. #cold", { record }).record
    assert.deepEqual([set.tags, set.metadata], [["a", "cold"], { mood: "sunny", seen: 3 }])
    const renamed = read("Sow.", { record: changed(record, { summary: "Tea" }) }, "Cha.md").record
    assert.strictEqual(renamed.summary, "Cha")
  })
})
