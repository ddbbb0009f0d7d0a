import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Wikilink from "../../src/domain/Wikilink.ts"

const targets = (text: string) => Wikilink.parse(text).map(({ target }) => target)

describe("Wikilink", () => {
  it("`parse` returns target, heading and alias of a [[wikilink]], and whether the link embeds its target", () => {
    assert.deepEqual(Wikilink.parse("See [[Tea]], [[ Green tea |the green one]], [[Cups#Blue|b]] and ![[pot.png]]."), [
      { target: "Tea", heading: undefined, alias: undefined, embed: false },
      { target: "Green tea", heading: undefined, alias: "the green one", embed: false },
      { target: "Cups", heading: "Blue", alias: "b", embed: false },
      { target: "pot.png", heading: undefined, alias: undefined, embed: true }
    ])
    assert.deepStrictEqual(targets("| [[Tea\\|in a table]] | [[Note#^block]] |"), ["Tea", "Note"])
    assert.deepInclude(Wikilink.parse("[[Note^block]]")[0], { target: "Note", heading: "^block" })
  })

  it("`parse` returns Markdown links to Markdown files, also with angle brackets or percent encoding", () => {
    assert.deepEqual(Wikilink.parse("[Tea](Green%20tea.md#Leaf \"t\"), ![pot](<Pots/A pot.md>), [a [b]](c_(d).md)"), [
      { target: "Green tea.md", heading: "Leaf", alias: "Tea", embed: false, markdown: true },
      { target: "Pots/A pot.md", heading: undefined, alias: "pot", embed: true, markdown: true },
      { target: "c_(d).md", heading: undefined, alias: "b]", embed: false, markdown: true }
    ])
    for (
      const text of [
        "[a](https://x.org/b.md)",
        "[a](//x.org/b.md)",
        "[a](b.txt)",
        "[a](#b.md)",
        "[a] (b.md)",
        "a](b.md)",
        "`[a](b.md)`",
        "\\[a](b.md)",
        "[a](b c.md)",
        "[a](b.md",
        "[a]()"
      ]
    ) assert.deepStrictEqual(targets(text), [], text)
    assert.deepStrictEqual(targets("[a](100%.md) [[x]](y.md)"), ["100%.md", "x"])
    assert.deepStrictEqual(targets("[a](b%2Emd) [a](c.m%64) [a](D.MD)"), ["b.md", "c.md", "D.MD"])
  })

  it("`tags` finds a #tag at a line's start or after a space, `(`, `,` or `;`; `tags` ignores #numbers, code and [[wikilinks]]", () => {
    assert.deepStrictEqual(
      Wikilink.tags("#one, two #Two/three_4-5 (#six);#seven,#comma #ONE\n# Title\n## #eight\n- #neun\u00e9 \\#no"),
      ["one", "Two/three_4-5", "six", "seven", "comma", "eight", "neun\u00e9"]
    )
    for (
      const text of [
        "#1984",
        "a#b",
        "##b",
        "`#b`",
        "```\n#b\n```",
        "[[#b]] [[a #b]]",
        "#",
        "# b",
        "http://x#b",
        "&#39;"
      ]
    ) {
      assert.deepStrictEqual(Wikilink.tags(text), [], text)
    }
  })

  it("`parse` returns only the first link to each target, in the order of the text", () => {
    assert.deepStrictEqual(targets("[[b]] [[a|x]] [[b|y]] [[a]]"), ["b", "a"])
    assert.strictEqual(Wikilink.parse("[[b|first]] [[b|second]]")[0]?.alias, "first")
  })

  it("`parse` ignores empty, unclosed, multi-line, single-bracket and escaped links", () => {
    for (
      const text of ["[[]]", "[[ ]]", "[[#here]]", "[[|x]]", "[[a\nb]]", "[[a", "[[a]", "[a]", "[[a]b]]", "\\[[a]]"]
    ) {
      assert.deepStrictEqual(targets(text), [], text)
    }
    assert.deepStrictEqual(targets("[[[a]]] [[b[[c]] \\\\[[d]]"), ["a", "c", "d"])
  })

  it("`parse` ignores links in code spans and in fenced code blocks", () => {
    for (
      const code of [
        "`[[a]]`",
        "``[[a]] ` ``",
        "`x\n[[a]]`",
        "```\n[[a]]\n```",
        "~~~~ md\n[[a]]\n~~~\n[[a]]\n~~~~",
        "```js\n\n[[a]]\n`````",
        "- ```\n  [[a]]\n  ```",
        "> ```\n> [[a]]\n> ```",
        "```\r\n[[a]]\r\n```\r\n"
      ]
    ) {
      assert.deepStrictEqual(targets(`[[x]]\n\n${code}\n\n[[y]]`), ["x", "y"], code)
    }
    assert.deepStrictEqual(targets("[[x]]\n```\n[[a]]\n\n[[b]]"), ["x"])
  })

  it("`parse` finds links after a backtick that begins no code span", () => {
    assert.deepStrictEqual(targets("a ` b [[x]]\n\n` [[y]]"), ["x", "y"])
    assert.deepStrictEqual(targets("`` [[x]] ` [[y]]"), ["x", "y"])
    assert.deepStrictEqual(targets("\\`[[x]]\\`"), ["x"])
    assert.deepStrictEqual(targets("``` inline ` [[x]]"), ["x"])
  })

  it("`nameOf` returns equal names for texts that differ only in case, extra white space or Unicode form", () => {
    for (
      const [a, b] of [["Café  Crème", " cafe\u0301 CRE\u0300ME "], ["STRASSE", "straße"], ["ΟΔΟΣ", "οδος"]] as const
    ) {
      assert.strictEqual(Wikilink.nameOf(a), Wikilink.nameOf(b))
    }
    assert.notStrictEqual(Wikilink.nameOf("Tea"), Wikilink.nameOf("Tee"))
    assert.deepStrictEqual(Wikilink.namesOf("Garden/Green Tea.md"), ["garden/green tea", "green tea"])
    assert.deepStrictEqual(Wikilink.namesOf("Tea"), ["tea"])
  })

  it("`parse` returns at most a thousand targets", () => {
    const text = Array.from({ length: 3_000 }, (_, n) => `[[${n}]]`).join(" ")
    assert.lengthOf(Wikilink.parse(text), Wikilink.maxTargets)
  })

  it("`parse` accepts any text, and returns for [[wikilinks]] only targets that the text contains", () => {
    const text = FastCheck.array(
      FastCheck.oneof(
        FastCheck.constantFrom("[[", "]]", "`", "```", "\n", "\n\n", "|", "#", "!", "\\", "~~~", "> ", "- ", "\u2028"),
        FastCheck.fullUnicodeString({ maxLength: 3 })
      ),
      { maxLength: 40 }
    ).map((parts) => parts.join(""))
    FastCheck.assert(
      FastCheck.property(
        text,
        (text) =>
          Wikilink.parse(text).every(({ target }) => target !== "" && text.includes(target) && !/[[\]\n]/.test(target))
      ),
      { seed: 2, numRuns: 2_000 }
    )
  })

  it("a fenced code block after a text does not change the links that `parse` returns for the text", () => {
    const text = FastCheck.array(
      FastCheck.constantFrom("[[a]]", "[b](c.md)", "`", "\\", "\n", "\r", "\r\n", " ", "\t", "\u2028", "x", "> "),
      { maxLength: 24 }
    ).map((parts) => parts.join("")).filter((text) => !text.includes("```"))
    FastCheck.assert(
      FastCheck.property(text, (text) => assert.deepStrictEqual(targets(text), targets(`${text}\n\n\`\`\`\n[[z]]`))),
      { seed: 3, numRuns: 4_000 }
    )
  })

  // a quadratic algorithm would exceed the test's timeout many times over
  it("`parse` and `tags` take less than quadratic time, even for texts of two million hostile characters", () => {
    const size = 1_000_000
    for (
      const text of [
        "[[".repeat(size),
        "[".repeat(size) + "]".repeat(size),
        "[[a".repeat(size / 2),
        "[[x]] " + "`".repeat(size) + "\u2028",
        "[[x]] " + Array.from({ length: 1_800 }, (_, n) => "`".repeat(n + 1)).join(" "),
        "[[x]] " + "` `` ".repeat(size / 4),
        "[[x]] " + "> ".repeat(size) + "\u2028",
        "[[x]]\n" + "```\n".repeat(size / 4),
        "[[" + "/".repeat(size) + "]]",
        "[](".repeat(size / 2),
        "[](<".repeat(size / 2),
        "[](a \"".repeat(size / 2),
        "[](" + " ".repeat(size) + ")",
        "[](" + "(".repeat(size) + ")".repeat(size),
        "[".repeat(size) + "](a.md)".repeat(size / 8),
        "#a`".repeat(size / 2),
        "[[#".repeat(size / 2),
        "#" + "/".repeat(size),
        "[[x]] `" + "\n ".repeat(size) + "x",
        "[[x]] `" + "\r\n".repeat(size) + "x",
        "[[x]] `\n" + " ".repeat(2 * size) + "x"
      ]
    ) {
      for (const { target } of Wikilink.parse(text)) Wikilink.namesOf(target)
      Wikilink.tags(text)
    }
  })

  it("`hashOfName` returns the hash of a text's normalised name, and the hashes of 2,000 names differ", () => {
    const { array, constantFrom, fullUnicodeString, oneof, property, string } = FastCheck
    const spaced = array(constantFrom("A", "b", "Z", "@", "[", " ", "\t", "\n", "\u000b", "\u00a0", "é", "ß", "7"))
      .map((parts) => parts.join(""))
    FastCheck.assert(
      property(oneof(string(), fullUnicodeString(), spaced), (text) => {
        assert.strictEqual(Wikilink.hashOfName(text), Wikilink.hash(Wikilink.nameOf(text)), JSON.stringify(text))
      }),
      { seed: 1, numRuns: 2_000 }
    )
    const names = Array.from({ length: 2_000 }, (_, n) => Wikilink.hash(`name ${n}`))
    assert.strictEqual(new Set(names).size, names.length)
  })
})
