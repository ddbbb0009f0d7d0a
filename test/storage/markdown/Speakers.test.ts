import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { canonicalJson, sign } from "../../../src/domain/Digest.ts"
import { stableId } from "../../../src/domain/MemoryId.ts"
import * as MemoryKind from "../../../src/domain/MemoryKind.ts"
import { MemoryRecord } from "../../../src/domain/MemoryRecord.ts"
import * as Document from "../../../src/storage/MemoryStore/Markdown/Document.ts"

const context: Document.Context = { key: "k", kinds: new Map([["reference", MemoryKind.reference]]), notes: "whole" }
const id = stableId("a turn")
const path = `users/ada/${id}.md`
const record = (actor?: string) =>
  new MemoryRecord({
    ...{ id, scope: { userId: "ada" }, kind: "reference", summary: "green tea", body: "I like green tea.", tags: [] },
    ...{ importance: 0.5, links: [], data: {}, metadata: {}, createdAt: 1_000, validAt: 1_000, revision: 1 },
    source: { origin: "user", trust: 1, session: "one", ...(actor !== undefined && { actor }) }
  })
const read = (text: string) => Either.getOrThrow(Document.parse(context, path, text, 7))

describe("the actor (speaker of a message) in a record's file", () => {
  const text = Either.getOrThrow(Document.print(context, path, "default", record("Mel")))

  it("the actor is written to a record's signed file, and read back unchanged", () => {
    assert.match(text, /^actor: Mel$/m)
    const { record: again, signed } = read(text)
    assert.deepStrictEqual([again.source, signed], [record("Mel").source, true])
  })

  it("a record keeps its actor if a person edits the text of the record's file", () => {
    const { record: edited, signed } = read(text.replace("green tea.\n", "black tea.\n"))
    assert.deepStrictEqual([edited.body, edited.source.actor, signed], ["I like black tea.", "Mel", false])
  })

  it("an `actor` property, added by hand to an earlier release's signed file, is an extra property, and the file stays signed", () => {
    const encoded = Schema.encodeSync(MemoryRecord)(record())
    const before = Either.getOrThrow(Document.print(context, path, "default", record()))
      .replace(/^hash: .*$/m, `actor: a hand's\nhash: ${sign("k", canonicalJson(["default", encoded]))}`)
    const { extra, record: again, signed } = read(before)
    assert.deepStrictEqual([extra, again.source.actor, signed], [{ actor: "a hand's" }, undefined, true])
    const printed = Either.getOrThrow(Document.print(context, path, "default", again, extra))
    assert.match(printed, /^actor: a hand's$/m)
    assert.isTrue(read(printed).signed)
  })

  it("the `actor` property of a hand-written note becomes metadata, not the record's actor", () => {
    const note = "---\nactor: Jodie\n---\nA film.\n"
    const { record: film } = Either.getOrThrow(Document.parse(context, "Films/Panic.md", note, 7))
    assert.deepStrictEqual([film.metadata, film.source.actor], [{ actor: "Jodie" }, undefined])
  })
})
