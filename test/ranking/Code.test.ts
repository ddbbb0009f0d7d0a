/** Search among notes about code and operations. The notes and questions in `test/fixtures/code` were written for this test. */
import { assert, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { readFileSync } from "node:fs"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import * as MemoryIndex from "../../src/ranking/MemoryIndex.ts"
import * as World from "./world.ts"

const read = (name: string) =>
  readFileSync(new URL(`../fixtures/code/${name}`, import.meta.url), "utf8").trim().split("\n")
const decode = Schema.decodeUnknownSync(Schema.parseJson(Schema.Struct({ id: Schema.String, text: Schema.String })))
const texts = (name: string) => read(name).map((line) => decode(line))

it("search ranks the right note first for at least 190 of 200 questions about code and operations", () => {
  const index = MemoryIndex.make({ analyzer: Analyzer.make() })
  const notes = texts("docs.jsonl")
  for (const { id, text } of notes) {
    index.add(World.record(id, { body: text, summary: text.slice(0, 80), summaryDerived: true }))
  }
  const meant = new Map(read("qrels.tsv").map((line) => line.split("\t")).map(([query, doc]) => [query, doc]))
  const queries = texts("queries.jsonl")
  assert.lengthOf(queries, 200)
  const missed = queries.filter(({ id, text }) => {
    const [first] = index.search(Viewer.everyone(), { text }, 0).hits
    return first?.record.id !== World.id(meant.get(id)!)
  })
  assert.isAtMost(missed.length, 10, missed.map(({ text }) => text).join(" | "))
})
