import { assert, describe, it } from "@effect/vitest"
import * as Viewer from "../../src/domain/Viewer.ts"
import { Arena } from "../../src/ranking/internal/DocIds.ts"
import { InvertedIndex } from "../../src/ranking/internal/InvertedIndex.ts"
import { random } from "./random.ts"

const scopes = ["ada", "bob", "cy"].map((userId) => ({ userId }))
const terms = Array.from({ length: 40 }, (_, n) => `term${n}`)

/** Returns doc id, score and term frequencies of each document that `match` lists, and the document frequency of each term. */
const answerOf = (index: InvertedIndex, access: Viewer.AccessFilter, query: ReadonlyArray<string>) => {
  index.match(index.view(access), query)
  const docs = Array.from(index.matches.data.subarray(0, index.matched)).sort((a, b) => a - b)
  const answer = {
    scores: docs.map((doc) => [doc, index.scores.data[doc]]),
    frequencies: docs.map((doc) => index.frequenciesIn(doc)),
    holders: [...index.documentFrequencies]
  }
  index.clear()
  return answer
}

describe("InvertedIndex", () => {
  it("packing an index between additions and removals of documents does not change the answers", () => {
    for (let seed = 1; seed <= 40; seed++) {
      const { below, many, next, of } = random(seed)
      let plain = new InvertedIndex()
      let packed = new InvertedIndex()
      const live = new Set<number>()
      for (let step = 0; step < 120; step++) {
        const chance = next()
        if (chance < 0.6) {
          const held = new Set(many(1 + below(8), () => of(terms)))
          const words = Array.from(held, (term) => [term, 2 * (1 + below(300)) + below(2)] as const).flat()
          const [scope, until] = [of(scopes), next() < 0.2 ? 50 : Infinity]
          const doc = plain.addCounted(scope, words, words.length / 2, until)
          assert.strictEqual(packed.addCounted(scope, words, words.length / 2, until), doc)
          live.add(doc)
        } else if (chance < 0.7 && live.size > 0) {
          const doc = of(Array.from(live))
          live.delete(doc)
          plain.remove(doc)
          packed.remove(doc)
        } else if (chance < 0.8) packed.pack()
        else if (chance < 0.83) {
          const made = plain.compacted()
          plain = made.index
          packed = packed.compacted().index
          const kept = Array.from(made.oldDocs)
          const still = kept.flatMap((old, doc) => live.has(old) ? [doc] : [])
          live.clear()
          for (const doc of still) live.add(doc)
        } else {
          const viewer = of([Viewer.everyone(), Viewer.make({ userId: "ada" }), Viewer.make({ userId: "bob" })])
          const access = Viewer.accessFilterOf(viewer, of([0, 100]))
          const query = many(1 + below(4), () => next() < 0.1 ? "nobody's" : of(terms))
          assert.deepStrictEqual(answerOf(packed, access, query), answerOf(plain, access, query), `seed ${seed}`)
        }
      }
    }
  })
})

describe("Arena", () => {
  it("the blocks that an Arena allocates never overlap, whatever their number and sizes", () => {
    const { below, next } = random(1)
    for (const first of [1, 2 ** 20]) { // a block of 2 ** 20 is longer than a segment
      const arena = new Arena()
      const held: Array<{ readonly place: number; readonly size: number; readonly mark: number }> = []
      const fill = (size: number) => {
        const place = arena.allocate(size)
        const mark = held.length + 1
        arena.at(place).fill(mark, arena.from(place), arena.from(place) + 2 * size)
        held.push({ place, size, mark })
      }
      fill(first)
      for (let step = 0; step < 300; step++) {
        if (next() < 0.8) fill(2 ** below(step % 50 === 0 ? 21 : 16))
        else if (held.length > 1) {
          const { place, size } = held.pop()!
          arena.free(place, size)
        }
      }
      for (const { mark, place, size } of held) {
        const block = arena.at(place).subarray(arena.from(place), arena.from(place) + 2 * size)
        assert.lengthOf(block, 2 * size)
        assert.isTrue(block.every((number) => number === mark))
      }
    }
  })
})
