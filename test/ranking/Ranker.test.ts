import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Ranker from "../../src/ranking/internal/Ranker.ts"
import { noSignals } from "../../src/ranking/internal/SessionIndex.ts"
import { naughty } from "./world.ts"

const ada = Viewer.make({ userId: "Ada" })
const asked = (text: string, viewer: Viewer.Any = ada, emphasis = { ranker: 1, conversation: 1 }) =>
  Ranker.questionRanker(text, viewer, Date.UTC(2024, 4, 15), emphasis, true)
const { boolean, double, integer, record } = FastCheck
const unit = double({ min: 0, max: 1, noNaN: true })
const signals: FastCheck.Arbitrary<Ranker.Signals> = record({
  ...{ words: unit, isTurn: boolean(), neighbours: unit, session: unit, reply: unit, coverage: unit },
  ...{ isSpeaker: boolean(), isQuestion: boolean(), isFirstPerson: boolean(), namesTime: boolean() },
  ...{ validAt: integer({ min: 0, max: 2e12 }), length: integer({ min: 0, max: 10_000 }) }
})

describe("Ranker", () => {
  it("every feature has a weight above 0", () => {
    for (const [feature, weight] of Object.entries(Ranker.weights)) assert.isAbove(weight, 0, feature)
  })

  it("the returned shares of the features are above 0 and add up to the rank", () => {
    const text = FastCheck.constantFrom("When did Ada go?", "tea in May 2023", "tea")
    const emphasis = record({ ranker: FastCheck.constantFrom(0, 1, 3), conversation: FastCheck.constantFrom(0, 1, 2) })
    FastCheck.assert(
      FastCheck.property(text, signals, emphasis, (text, signals, emphasis) => {
        const { rank, shares } = asked(text, ada, emphasis)
        const all = Object.values(shares(signals, 0.5))
        assert.isTrue(all.every((share) => share > 0))
        assert.closeTo(all.reduce((sum, share) => sum + share, 0), rank(signals, 0.5), 1e-9)
      }),
      { seed: 1, numRuns: 500 }
    )
  })

  it("the rank is the BM25 divided by the best BM25 if no other signal (session, speaker, time) applies", () => {
    const { rank } = asked("tea")
    for (const words of [0, 0.1, 0.7, 1 / 3]) assert.strictEqual(rank({ ...noSignals, words }, 0.7), words / 0.7)
    assert.strictEqual(rank({ ...noSignals, words: 1 }, 0), 0)
  })

  it("the weight `ranker: 0` ranks by words only; `conversation: 0` ignores the other turns of a session", () => {
    const turn = {
      ...noSignals,
      isTurn: true,
      words: 0.5,
      neighbours: 1,
      session: 1,
      reply: 1,
      coverage: 1,
      length: 60
    }
    const plain = asked("tea", ada, { ranker: 0, conversation: 1 })
    assert.deepStrictEqual(Object.keys(plain.shares(turn, 1)), ["words"])
    const alone = asked("tea", ada, { ranker: 1, conversation: 0 })
    assert.sameMembers(Object.keys(alone.shares(turn, 1)), ["words", "length", "statement"])
  })

  it("`named` finds a speaker by first name, in any letter case and with a typo in a long name", () => {
    const named = (text: string) => asked(text).named(["caroline", "fahim khan", "bo", "ada"])
    assert.deepStrictEqual(named("What is Caroline's job?"), ["caroline"])
    assert.deepStrictEqual(named("CAROLNE and fahim"), ["caroline", "fahim khan"])
    assert.deepStrictEqual(named("who is Khan?"), [])
    assert.deepStrictEqual(named("Is Bo at home? And ba?"), ["bo"])
    assert.deepStrictEqual(named("what are my plans?"), ["ada"])
    assert.deepStrictEqual(named("what are the plans?"), [])
  })

  it("words such as 'my' in a question count as the viewer's name, unless the viewer is System", () => {
    assert.deepStrictEqual(asked("my tea").own, { userId: "Ada", actorId: undefined })
    assert.deepStrictEqual(asked("my tea").words, ["my", "tea", "ada"])
    assert.isUndefined(asked("the tea").own)
    assert.isUndefined(asked("my tea", Viewer.system()).own)
  })

  it("`isMisspelt` is true for two long words that differ by one inserted, removed or replaced letter", () => {
    for (const other of ["melani", "melaniee", "nelanie", "melxnie"]) {
      assert.isTrue(Ranker.isMisspelt("melanie", other), other)
    }
    for (const other of ["melan", "emlanie", "melxnix"]) assert.isFalse(Ranker.isMisspelt("melanie", other), other)
    assert.isFalse(Ranker.isMisspelt("bob", "rob"))
  })

  it("each string of the Big List of Naughty Strings is accepted as a question without an error", () => {
    for (const text of naughty) {
      const { named, rank, words } = asked(text)
      assert.isTrue(words.every((word) => word !== "") && Number.isFinite(rank(noSignals, 1)))
      assert.deepStrictEqual(named([]), [])
    }
  })
})
