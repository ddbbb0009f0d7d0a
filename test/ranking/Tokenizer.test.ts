import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import * as Bm25 from "../../src/ranking/Bm25.ts"
import { fingerprint, isCounted, make, tokenise } from "../../src/ranking/Tokenizer.ts"
import { times } from "../vault/Program.ts"
import { naughty } from "./world.ts"

describe("tokenise", () => {
  const cases: ReadonlyArray<readonly [text: string, terms: string]> = [
    ["The quick, brown fox's 42 dens; node_modules!", "quick brown fox 42 dens node modules"],
    ["C++ x 7 and a b", ""],
    ["Café, cafe\u0301 and CAFÉ", "cafe cafe cafe"],
    ["Ångström naïve Zoë Übung", "angstrom naive zoe ubung"],
    ["süß", "suß"],
    ["ＡＢＣ ①② ﬁle 𝐁old", "abc 12 file bold"],
    ["İstanbul", "istanbul"],
    ["Любит чай, ЁЛКА", "любит чаи елка"],
    ["Πίνει τσάι ΟΔΟΣ", "πινει τσαι οδος"],
    ["שָׁלוֹם مُحَمَّد", "שלום محمد"],
    ["हिन्दी में", "हिन्दी में"],
    ["Notion™ i❤️u 👍🏽", "notion"],
    ["東京に行く", "東京 東 京 に 行く 行"],
    ["京", "京"],
    ["がぎ ｶﾞﾗｽ カラス", "が ぎ ガラス カラス"],
    ["我喜欢喝绿茶", "我 喜欢 喜 欢 喝 绿茶 绿 茶"],
    ["𠮷野家", "𠮷 野家 野 家"],
    ["ฉันชอบดื่มน้ำ", "ฉัน ชอบ ดื่ม น้ำ"],
    ["서울 API를", "서울 서 울 api 를"],
    ["コーヒー ｺｰﾋｰ", "コーヒー コーヒー"],
    ["п\u02bcять", "п\u02bcять"],
    ["Effect入門v3", "effect 入門 入 門 v3"],
    ["a\u0000bc\ud800de\udfff", "bc de"],
    ["ﷺ", "صلى الله عليه وسلم"]
  ]
  it.each(cases)("the terms of \"%s\" are \"%s\"", (text, terms) => {
    assert.deepStrictEqual(tokenise(text).join(" "), terms)
  })

  it("a word between punctuation marks still has its first term, in Latin, Cyrillic, Thai, Korean, Katakana and Han script", () => {
    for (const word of ["京", "東京", "café", "чай", "サッカー", "ชา", "학교", "tea", "茶"]) {
      const [first] = tokenise(word)
      assert.include(tokenise(`(${word}) – “${word}”, x${" "}${word}!`), first)
    }
  })

  it("the terms of a text do not depend on its Unicode composition, and CRÈME brûlée has the terms of creme BRULEE", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.fullUnicodeString({ maxLength: 30 }), (text) => {
        assert.deepStrictEqual(tokenise(text.normalize("NFC")), tokenise(text.normalize("NFD")))
      }),
      { seed: 1, numRuns: 2_000 }
    )
    assert.deepStrictEqual(tokenise("CRÈME brûlée"), tokenise("creme BRULEE"))
  })

  it("a term has no spaces or ASCII capitals, and is among the terms of itself", () => {
    const text = FastCheck.oneof(
      FastCheck.fullUnicodeString(),
      FastCheck.string16bits(),
      FastCheck.constantFrom(...naughty)
    )
    FastCheck.assert(
      FastCheck.property(text, (text) => {
        for (const term of tokenise(text)) {
          assert.match(term, /^[\p{L}\p{N}\p{M}]+$/u)
          assert.notMatch(term, /[A-Z]|^[a-z0-9]$/)
          assert.include(tokenise(term), term)
        }
      }),
      { seed: 2, numRuns: 5_000 }
    )
  })

  it("the tokenizer never splits a surrogate pair in a long text without spaces", () => {
    for (const start of ["", "京", "行く"]) {
      const terms = tokenise(start + "𠮷".repeat(1_000))
      assert.isTrue(terms.every((term) => term.isWellFormed()))
      assert.strictEqual(terms.filter((term) => term === "𠮷").length, 1_000)
    }
  })

  const long = times(250_000, 1_000_000)
  it(`all terms of a text of ${long} characters together are at most 20 times as long as the text`, async () => {
    for (const text of ["a", "京", "é", "ｶﾞ", "ไ", "한", "\ud800", "\u0301", "e\u0301", "a ", "\u0000", "😀", "ﷺ"]) {
      const terms = tokenise(text.repeat(Math.floor(long / text.length)))
      assert.isAtMost(terms.reduce((sum, { length }) => sum + length, 0), 20 * long)
      await new Promise((done) => setImmediate(done)) // lets the worker answer the test runner
    }
  })
})

describe("Tokenizer.make", () => {
  it("the option `stem` stems words such as `running`, but not `Größen` and `42nd`", () => {
    const stemmed = make({ stem: true })
    assert.deepStrictEqual(stemmed("running runs relational constructor Größen 42nd"), [
      "run",
      "run",
      "relat",
      "constructor",
      "großen",
      "42nd"
    ])
    assert.deepStrictEqual(stemmed("running"), stemmed("running"))
    assert.deepStrictEqual(tokenise("running runs"), ["running", "runs"])
  })

  it("the value `none` of the option `stopwords` keeps words such as `is`, and only the value `wide` drops question words", () => {
    const text = "What is the capital of France"
    assert.deepStrictEqual(tokenise(text), ["what", "capital", "france"])
    assert.deepStrictEqual(make({ stopwords: "wide" })(text), ["capital", "france"])
    assert.deepStrictEqual(make({ stopwords: "none" })(text), ["what", "is", "the", "capital", "of", "france"])
  })

  it("a word keeps its stem after the bounded cache of stems has overflowed", () => {
    const stemmed = make({ stem: true })
    const word = (n: number) => `${n.toString(26).replace(/[0-9]/g, (digit) => "qrstuvwxyz"[Number(digit)]!)}ings`
    const first = stemmed(word(0) + " " + word(1))
    for (let n = 0; n < 120_000; n += 100) stemmed(Array.from({ length: 100 }, (_, i) => word(n + i)).join(" "))
    assert.deepStrictEqual(stemmed(word(0) + " " + word(1)), first)
  })
})

describe("a tokenizer with compounds", () => {
  const compounds = make({ stopwords: "none", compounds: true, characters: true })

  it.each([
    ["8.104.9", ["8", "104", "9", "8.104.9"]],
    ["See v2.0.0-rc.1.", ["see", "v2", "0", "0", "rc", "1", "v2.0.0-rc.1", "2.0.0-rc.1"]],
    ["10.0.0.7:8080", ["10", "0", "0", "7", "8080", "10.0.0.7:8080", "10.0.0.7"]],
    ["src/index.ts,", ["src", "index", "ts", "src/index.ts", "index.ts"]],
    ["user_id", ["user", "id", "user_id"]],
    ["(.env)", ["env", ".env"]],
    ["@effect/platform", ["effect", "platform", "@effect/platform"]],
    ["#123", ["123", "#123"]],
    ["gpt-4", ["gpt", "4", "gpt-4"]],
    ["C++", ["c++"]],
    ["C# or R, and C", ["c#", "or", "r", "and", "c"]],
    ["v1.2", ["v1", "2", "v1.2", "1.2"]],
    ["--no-cache=1 -v", ["no", "cache", "--no-cache", "1", "v", "-v"]],
    ["a--b - c -", ["a", "b", "c"]],
    ["getUserName", ["getusername", "get", "user", "name"]],
    ["HTTPServer", ["httpserver", "http", "server"]],
    ["well-known", ["well", "known"]],
    ["Don't wait...", ["don", "wait"]],
    ["the end. Next", ["the", "end", "next"]],
    ["a.b\u2026 ++ -- ../..", ["a", "b", "a.b"]]
  ])("the terms of \"%s\" are %j", (text, terms) => {
    assert.deepStrictEqual(compounds(text), terms)
  })

  it("the default tokenizer, without the option `compounds`, returns no whole compounds such as src/index.ts", () => {
    assert.deepStrictEqual(tokenise("8.104.9 in src/index.ts and getUserName by R"), [
      "104",
      "src",
      "index",
      "ts",
      "getusername"
    ])
  })

  it("the length of a text for ranking does not count whole compounds and single ASCII characters", () => {
    const { index } = Analyzer.make()
    const { length, terms } = Bm25.buildDoc(0, { summary: "", body: "Run 8.104.9 of src/index.ts with R" }, index)
    assert.sameMembers(Array.from(terms.keys()), [
      ...["run", "8", "104", "9", "8.104.9", "src", "index", "ts", "src/index.ts", "index.ts", "r"]
    ])
    assert.strictEqual(length, 5)
    assert.deepStrictEqual(["r", "8.104.9", "東", "tea"].map(isCounted), [false, false, true, true])
  })

  it("single lower-case letters are dropped from a query, unless the query has no other term", () => {
    const { query } = Analyzer.make()
    assert.deepStrictEqual(query("R"), ["r"])
    assert.deepStrictEqual(query("r"), ["r"])
    assert.deepStrictEqual(query("plots in r"), ["plot"])
    assert.deepStrictEqual(query("Plots in R, C++ or C? I draw a lot."), ["plot", "r", "c++", "c", "draw", "lot"])
    assert.deepStrictEqual(query("who am I"), ["who", "am"])
  })

  it("tokenizers with and without compounds have different fingerprints", () => {
    const [with_, without] = [true, false].map((compounds) => Analyzer.make({ compounds }).index)
    assert.notStrictEqual(fingerprint(with_!), fingerprint(without!))
  })

  it("the Big List of Naughty Strings, a compound of 40,000 parts and a run of 80,000 signs are tokenised without an error", () => {
    for (
      const text of [
        ...naughty,
        "a.".repeat(40_000),
        "+".repeat(80_000),
        "aB".repeat(40_000),
        "/a_b-c:d@".repeat(9_000)
      ]
    ) {
      assert.isTrue(compounds(text).every((term) => term !== ""))
    }
  })
})
