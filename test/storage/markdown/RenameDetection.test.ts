import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { sha256 } from "../../../src/domain/Digest.ts"
import { type Appeared, detect, type Vanished } from "../../../src/storage/MemoryStore/Markdown/MoveDetection.ts"
import { times } from "../../vault/Program.ts"

const gone = (path: string, text: string): Vanished => ({ path, hash: sha256(text), text })
const fresh = (path: string, text: string): Appeared => ({ path, text })
const found = (vanished: ReadonlyArray<Vanished>, appeared: ReadonlyArray<Appeared>) =>
  Object.fromEntries(detect(vanished, appeared))
const words = (from: number, count: number) => Array.from({ length: count }, (_, n) => `word${from + n}`).join(" ")

describe("the detection of renamed files between two scans of a vault", () => {
  it("a new file with the same content hash as a missing file is detected as a rename of the missing file", () => {
    assert.deepEqual(found([{ path: "a.md", hash: sha256("x") }], [fresh("b.md", "x")]), { "b.md": "a.md" })
    assert.deepEqual(found([{ path: "a.md", hash: sha256("x") }], [fresh("b.md", "y")]), {})
    assert.deepEqual(found([], [fresh("b.md", "y")]), {})
  })

  it("files of equal content are paired by name; if one missing and one new file are left, their names may differ", () => {
    const olds = [gone("a/x.md", "same"), gone("a/y.md", "same")]
    assert.deepEqual(found(olds, [fresh("b/x.md", "same"), fresh("b/y.md", "same")]), {
      "b/x.md": "a/x.md",
      "b/y.md": "a/y.md"
    })
    assert.deepEqual(found(olds, [fresh("b/x.md", "same"), fresh("b/z.md", "same")]), {
      "b/x.md": "a/x.md",
      "b/z.md": "a/y.md"
    })
    assert.deepEqual(found(olds, [fresh("b/1.md", "same"), fresh("b/2.md", "same")]), {})
    assert.deepEqual(found(olds, [fresh("b/1.md", "same")]), {})
  })

  it("the most similar files are paired first, starting with files of equal content", () => {
    const text = words(0, 100)
    const near = `${words(0, 95)} ${words(500, 5)}`
    const far = `${words(0, 80)} ${words(600, 20)}`
    assert.deepEqual(found([gone("a.md", text), gone("b.md", near)], [fresh("c.md", text), fresh("d.md", far)]), {
      "c.md": "a.md",
      "d.md": "b.md"
    })
    assert.deepEqual(found([gone("a.md", text)], [fresh("c.md", far), fresh("d.md", near)]), { "d.md": "a.md" })
  })

  it("blank files, and files below the similarity threshold, are not paired", () => {
    assert.deepEqual(found([gone("a.md", words(0, 100))], [fresh("b.md", `${words(0, 60)} ${words(900, 40)}`)]), {})
    assert.deepEqual(found([gone("a.md", words(0, 100))], [fresh("b.md", `${words(0, 75)} ${words(900, 25)}`)]), {
      "b.md": "a.md"
    })
    for (const text of ["", "\n", " \n\t"]) assert.deepEqual(found([gone("a.md", text)], [fresh("b.md", text)]), {})
  })

  it("a missing file is not paired if its two most similar new files are equally similar", () => {
    const text = words(0, 100)
    const tied = [fresh("b.md", `${text} one`), fresh("c.md", `${text} two`)]
    assert.deepEqual(found([gone("a.md", text)], tied), {})
    assert.deepEqual(found([gone("a.md", text)], [...tied, fresh("d.md", words(0, 90))]), {})
  })

  it("two missing files equally similar to one new file stay unpaired, even if a less similar new file exists", () => {
    const common = words(0, 100)
    const olds = [gone("a.md", `${common} ${words(200, 10)}`), gone("b.md", `${common} ${words(300, 10)}`)]
    const news = [fresh("x.md", `${common} ${words(400, 8)}`), fresh("y.md", `${common} ${words(500, 12)}`)]
    assert.deepEqual(found(olds, news), {})
    assert.deepEqual(found(olds.toReversed(), news.toReversed()), {})
  })

  it("similar texts are paired even if the texts have no spaces between words, such as Japanese texts", () => {
    const old = "今日は公園を散歩してから図書館で本を読みました。とても楽しかったです。"
    assert.deepEqual(found([gone("a.md", old)], [fresh("b.md", old.replace("公園", "海岸"))]), { "b.md": "a.md" })
  })

  it("random files are each paired at most once, and the pairs do not depend on the order of the files", () => {
    const text = FastCheck.array(FastCheck.constantFrom("a", "b", "c", "d", "e"), { maxLength: 12 }).map((all) =>
      all.join(" ")
    )
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(text, { maxLength: 6 }),
        FastCheck.array(text, { maxLength: 6 }),
        (before, after) => {
          const olds = before.map((text, n) => gone(`old/${n}.md`, text))
          const news = after.map((text, n) => fresh(`new/${n + 3}.md`, text))
          const result = found(olds, news)
          assert.lengthOf(new Set(Object.values(result)), Object.keys(result).length)
          for (const path of Object.keys(result)) {
            assert.notStrictEqual(news.find((one) => one.path === path)?.text.trim(), "")
          }
          assert.deepEqual(found(olds.toReversed(), news.toReversed()), result)
          for (const { path, text } of news) {
            const same = olds.filter((old) => old.text === text)
            if (text !== "" && same.length === 1 && news.filter((other) => other.text === text).length === 1) {
              assert.strictEqual(result[path], same[0]?.path)
            }
          }
        }
      ),
      { seed: 4, numRuns: times(300, 5_000) }
    )
  })

  it("all 3,000 notes of a renamed folder are paired with their old paths", () => {
    const notes = Array.from({ length: 3_000 }, (_, n) => `# Note ${n}\n\n${words(n * 7, 40)}`)
    const result = detect(
      notes.map((text, n) => gone(`old/${n}.md`, text)),
      notes.map((text, n) => fresh(`new/${n}.md`, n % 10 === 0 ? `${text}\n\nedited ${n}` : text))
    )
    assert.strictEqual(result.size, 3_000)
    for (const [to, from] of result) assert.strictEqual(to.slice(4), from.slice(4))
  })

  it("edited and renamed notes of one template are paired with their old paths; one distinct word per note is enough for a pair", () => {
    const count = times(200, 2_000)
    const template = words(0, 80)
    const own = (n: number) => Array.from({ length: 30 }, (_, m) => `own${n}x${m}`).join(" ")
    const notes = Array.from({ length: count }, (_, n) => `${template} ${own(n)}`)
    const result = detect(
      notes.map((text, n) => gone(`old/${n}.md`, text)),
      notes.map((text, n) => fresh(`new/${n}.md`, `${text} edited`))
    )
    assert.strictEqual(result.size, count)
    for (const [to, from] of result) assert.strictEqual(to.slice(4), from.slice(4))
    // one distinct word is enough
    const same = Array.from({ length: count }, (_, n) => `${template} ${n}`)
    assert.strictEqual(
      detect(
        same.map((text, n) => gone(`old/${n}.md`, text)),
        same.map((text, n) => fresh(`new/${n}.md`, `${text} edited`))
      ).size,
      count
    )
  })
})
