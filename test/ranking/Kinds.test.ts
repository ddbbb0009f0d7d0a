/** Searches of thousands of records by kind or tag, compared with the same search without the filter. */
import { assert, describe, it } from "@effect/vitest"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryIndex from "../../src/ranking/MemoryIndex.ts"
import { times } from "../vault/Program.ts"
import { random } from "./random.ts"
import { record } from "./world.ts"

const now = 1_000
const kinds = ["note", "user", "project", "fact"]
const tags = ["tea", "milk", "bread"]
const vocabulary = Array.from({ length: 60 }, (_, n) => `word${n}`)
const size = 6_000

/** Makes an index of records in one scope. They have few combinations of kind and tags, and many records have each combination. */
const worldOf = ({ below, next, of }: ReturnType<typeof random>) => {
  const index = MemoryIndex.make()
  const word = () => vocabulary[Math.floor(next() ** 3 * vocabulary.length)]!
  for (let n = 0; n < size; n++) {
    index.add(record(`${n}`, {
      scope: { userId: "ada" },
      kind: of(kinds),
      tags: next() < 0.5 ? [of(tags)] : [],
      summary: "note",
      body: `${Array.from({ length: 1 + below(8) }, word).join(" ")} ${n}`,
      createdAt: below(500)
    }))
  }
  return index
}

describe("search of many records by kind or tag", () => {
  it("a search filtered by kind or tag gives the same hits as an unfiltered search filtered afterwards", () => {
    const source = random(16)
    const index = worldOf(source)
    const viewer = Viewer.make({ userId: "ada" })
    let least = size
    for (let n = 0; n < times(40, 400); n++) {
      const text = Array.from({ length: 1 + source.below(3) }, () => source.of(vocabulary)).join(" ")
      const limit = 1 + source.below(20)
      const kind = source.of(kinds)
      const tag = source.of(tags)
      const filter = n % 2 === 0 ? { kinds: [kind] } : { tags: [tag] }
      const all = index.search(viewer, { text, limit: size, fold: false, budget: Infinity }, now)
      const meant = all.hits.filter(({ record }) => n % 2 === 0 ? record.kind === kind : record.tags.includes(tag))
      const found = index.search(viewer, { text, limit, fold: false, budget: Infinity, ...filter }, now)
      const best = meant[0]?.score ?? 1 // scores are relative to the best one
      assert.deepStrictEqual(
        found.hits.map(({ record }) => record.id),
        meant.slice(0, limit).map(({ record }) => record.id),
        `${text} ${JSON.stringify(filter)}`
      )
      for (const [at, { score }] of found.hits.entries()) assert.closeTo(score, meant[at]!.score / best, 1e-12)
      assert.strictEqual(found.leftOut.limit, Math.max(0, meant.length - limit), text)
      least = Math.min(least, meant.length)
    }
    assert.isAbove(least, 1)
  })
})
