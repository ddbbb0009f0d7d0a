/**
 * The ranker: one linear sum over what is known of a record that a question may mean. Each share is explained.
 *
 * ```text
 * rank(r) = Σ features  weight · value                      each value 0..1, each weight 0 or above
 * ```
 *
 * A record of no session has no turns around it: of the features that a conversation gives, and of those of a turn's form, it has
 * as much as its words have. Records of no session are therefore ordered by their words alone, but for speaker and times.
 *
 * Weights: a listwise fit (`bench/fit.mjs`) on five conversations of LoCoMo and five of REALTALK, docs/retrieval.md. Held
 * to 0 or above, since each feature means what speaks for a record.
 */
import type * as Viewer from "../../domain/Viewer.ts"
import { foldName } from "../Tokenizer.ts"
import { asksWhen, closeness, namesTime, type Times, timesIn } from "./TimeExpression.ts"

export { asksWhen } from "./TimeExpression.ts"

/** Name of a feature of the ranker. */
export type Feature =
  | "words"
  | "neighbours"
  | "session"
  | "reply"
  | "coverage"
  | "speaker"
  | "firstPerson"
  | "date"
  | "time"
  | "length"
  | "statement"
/** Weight of each feature of the ranker. */
export const weights = {
  /** BM25 of the record, over the best. */
  words: 3.07,
  /** BM25 of the turns next to it, half of each, and of the ones beyond, a quarter of each; over the best. */
  neighbours: 0.97,
  /** The rarity of the terms that its session holds, of those of the question. */
  session: 2.04,
  /** BM25 of the turn before, where that is a question; over the best. */
  reply: 1.54,
  /** The rarity of the terms that it and the two turns before and after hold, of those of the question. */
  coverage: 2.76,
  /** Whether the question names who said it. */
  speaker: 2.01,
  /** Whether it speaks in the first person, and the question names who said it. */
  firstPerson: 0.73,
  /** Closeness of its time to one that the question names. */
  date: 4.21,
  /** Whether it names a time, where the question asks for one. */
  time: 1.84,
  /** The logarithm of its terms, up to 60. */
  length: 1.93,
  /** Whether it is no question. */
  statement: 0.49
} satisfies { readonly [Name in Feature]: number }

const features = Object.keys(weights) as ReadonlyArray<Feature> // the keys of the constant above
const inConversation: ReadonlyArray<Feature> = ["neighbours", "session", "reply", "coverage"]
const ofForm: ReadonlyArray<Feature> = ["length", "statement"]

/** Facts that a holder of records knows of one that a question may mean, bodies aside. */
export interface Signals {
  /** BM25; 0 where it shares no word with the question. */
  words: number
  /** Whether it is of a session; what follows up to `coverage` counts for those alone. */
  isTurn: boolean
  /** ½ of the BM25 of the turns next to it, ¼ of those two away. */
  neighbours: number
  /** 0..1. */
  session: number
  /** BM25 of the turn before it, if that is a question. */
  reply: number
  /** 0..1. */
  coverage: number
  /** Whether one who is meant said it. */
  isSpeaker: boolean
  isQuestion: boolean
  /** False, too, of one that nobody who is meant said. */
  isFirstPerson: boolean
  /** False, too, where the question asks for no time. */
  namesTime: boolean
  validAt: number
  /** Number of terms. */
  length: number
}

/** Ranking of candidates, read off the question where that is needed. */
export interface LazyRanker {
  /** Whether the question may name or ask for a time. Else records of no session and no speaker are in the order of their words. */
  readonly isTimely: boolean
  readonly read: () => QuestionRanker
}

/** Demands of a question beside its words, as a holder of records needs them. */
export interface QuestionRanker extends Ranker {
  /** Whether the signals of candidates are wanted. */
  readonly isExplained: boolean
  /** Words of the question that may be the first of a speaker's name, folded. */
  readonly words: ReadonlyArray<string>
  /**
   * Returns the speakers that are meant, of those in sight the first word of whose names is one of `words` or, from four letters
   * on, a letter away from one. Names are folded, each once.
   */
  readonly named: (speakers: ReadonlyArray<string>) => ReadonlyArray<string>
  /** Records without a speaker count as said by one that is meant where their scope has one of these ids: the viewer's own. */
  readonly own: { readonly userId?: string | undefined; readonly actorId?: string | undefined } | undefined
}

/** The weights of a query that the ranker heeds: of all that is not the words, and of what a conversation gives. */
export interface Emphasis {
  readonly ranker: number
  readonly conversation: number
}

/** Ranks what a question may mean. */
export interface Ranker {
  /** The times that the question names. */
  readonly times: Times | undefined
  /** Whether the question asks for a time. */
  readonly isWhen: boolean
  /** `best`: the best BM25 among the records that pass. */
  readonly rank: (signals: Readonly<Signals>, best: number) => number
  /** The share of each feature in the rank; they add up to it. Those of no weight are left out. */
  readonly shares: (signals: Readonly<Signals>, best: number) => Readonly<Partial<Record<Feature, number>>>
}

/** Makes the ranker of a question that is asked at `now`, in epoch milliseconds. */
export const make = (text: string, now: number, { conversation, ranker }: Emphasis): Ranker => {
  const times = timesIn(text, now)
  const isWhen = asksWhen(text)
  const own = ranker === 1 && conversation === 1 ? normal : normalised(ranker, conversation)
  const rank = (signals: Signals, best: number): number => {
    const words = best > 0 ? signals.words / best : 0
    let sum = signals.isSpeaker ? own.speaker + (signals.isFirstPerson ? own.firstPerson : 0) : 0
    if (times !== undefined) sum += own.date * closeness(times, signals.validAt)
    if (isWhen && signals.namesTime) sum += own.time
    if (!signals.isTurn) return sum + words
    const lent = best > 0 ? (own.neighbours * signals.neighbours + own.reply * signals.reply) / best : 0
    return sum + own.words * words + lent + own.session * signals.session + own.coverage * signals.coverage +
      own.length * lengthOf(signals) + (signals.isQuestion ? 0 : own.statement)
  }
  const shares: Ranker["shares"] = (signals, best) => {
    const values = valuesOf(signals, best, times, isWhen)
    const weightIn = (feature: Feature) => feature === "words" && !signals.isTurn ? 1 : own[feature]
    const all = features.map((feature) => [feature, weightIn(feature) * values[feature]] as const)
    return Object.fromEntries(all.filter(([, share]) => share > 0))
  }
  return { times, isWhen, rank, shares }
}

/** Signs of a best match that it answers. Shares are 0..1. */
export interface Evidence {
  /** Rank of the best turn, not over anything; `undefined`: the best match is no turn. */
  readonly rank: number | undefined
  /** Whether it is by a speaker that the question names, where it names one. */
  readonly isMeant: boolean
  /** The best BM25, over the most that the question could score. */
  readonly strength: number
  /** Share of the question's weight that lies in terms which nothing in sight has. */
  readonly unknown: number
}

/**
 * Returns the probability that a question is answered: logistic, fitted on LoCoMo and REALTALK, without sessions and speakers for
 * what is no turn, with Cranfield. Half of the questions had no answer: category 5 of LoCoMo, and those of another conversation.
 */
export const confidence = ({ isMeant, rank, strength, unknown }: Evidence): number =>
  logistic(
    rank === undefined
      ? 12.71 * strength - 3.4 * unknown - 0.54
      : 5.4 * rank + (isMeant ? 2.54 : 0) - 1.86 * unknown - 6.64
  )
const logistic = (x: number): number => 1 / (1 + Math.exp(-x))

/** Returns the value of each feature, 0..1; `neighbours` may be above 1, where several turns match well. */
export const valuesOf = (
  signals: Readonly<Signals>,
  best: number,
  times: Times | undefined,
  isWhen: boolean
): Readonly<Record<Feature, number>> => {
  const over = (bm25: number) => best > 0 ? bm25 / best : 0
  const ofTurn = (value: number) => signals.isTurn ? value : 0
  return {
    words: over(signals.words),
    neighbours: ofTurn(over(signals.neighbours)),
    session: ofTurn(signals.session),
    reply: ofTurn(over(signals.reply)),
    coverage: ofTurn(signals.coverage),
    speaker: signals.isSpeaker ? 1 : 0,
    firstPerson: signals.isSpeaker && signals.isFirstPerson ? 1 : 0,
    date: times === undefined ? 0 : closeness(times, signals.validAt),
    time: isWhen && signals.namesTime ? 1 : 0,
    length: ofTurn(lengthOf(signals)),
    statement: ofTurn(signals.isQuestion ? 0 : 1)
  }
}

/** Returns the weights that a query leaves, over what the words of a record of no session count for: its rank is their share. */
const normalised = (ranker: number, conversation: number): typeof weights => {
  const factor = (feature: Feature) =>
    feature === "words" ? 1 : inConversation.includes(feature) ? ranker * conversation : ranker
  const own = features.map((feature) => [feature, weights[feature] * factor(feature)] as const)
  const alone = own.reduce((sum, [feature, weight]) => ofWords.has(feature) ? sum + weight : sum, 0)
  return Object.fromEntries(own.map(([feature, weight]) => [feature, weight / alone])) as typeof weights // every key
}
const ofWords: ReadonlySet<Feature> = new Set(["words", ...inConversation, ...ofForm])
const normal = normalised(1, 1)

const lengthOf = ({ length }: Signals): number => logarithms[Math.min(60, length)]!
const logarithms = Float64Array.from({ length: 61 }, (_, n) => Math.log1p(n) / Math.log(61))

/** The signs that a text shows without being understood. */
export interface Form {
  readonly isQuestion: boolean
  readonly isFirstPerson: boolean
  readonly namesTime: boolean
}

/** Reads the form of a text. */
export const formOf = (body: string): Form => ({
  isQuestion: isQuestion(body),
  isFirstPerson: isFirstPerson(body),
  namesTime: namesTime(body)
})

/** The parts of `formOf`, for whoever needs one of them. */
export const isQuestion = (body: string): boolean => {
  const end = body.trimEnd()
  return end.endsWith("?") || end.endsWith("？")
}
/** Whether a body speaks of its writer. */
export const isFirstPerson = (body: string): boolean => first.test(body)

const first = /\b(?:i|i['’]?m|i['’]ve|i['’]d|i['’]ll|my|me|mine|myself|we|our|ours|us|we['’]re|we['’]ve)\b/i

/**
 * Reads a question: who and when it asks for. A speaker is named by the whole name or the first word of it, or, from four letters
 * on, by a word that is a letter away. First person means the viewer.
 */
export const questionRanker = (
  text: string,
  viewer: Viewer.Any,
  now: number,
  emphasis: Emphasis,
  isExplained: boolean
): QuestionRanker => {
  const words = wordsOf(text)
  const ids = "userId" in viewer && first.test(text) ? { userId: viewer.userId, actorId: viewer.actorId } : undefined
  const mine = [ids?.userId, ids?.actorId].flatMap((id) => id === undefined ? [] : [foldName(id)])
  const isNamed = (name: string) => words.some((word) => word === name || isMisspelt(word, name))
  const line = ` ${words.join(" ")} `
  const isMeant = (actor: string) => {
    const [given = actor, ...family] = actor.split(" ")
    return isNamed(given) || (family.length > 0 && line.includes(` ${actor} `)) || mine.includes(actor)
  }
  return {
    ...make(text, now, emphasis),
    isExplained,
    words: mine.length === 0 ? words : [...words, ...mine.map((name) => name.split(" ")[0]!)],
    own: mine.length > 0 ? ids : undefined,
    named: (speakers) => speakers.filter(isMeant)
  }
}

const wordsOf = (text: string): ReadonlyArray<string> => {
  const name = foldName(text.slice(0, longest).replace(possessive, " "))
  return name === "" ? [] : name.split(" ")
}
const possessive = /['’]s?(?![\p{L}\p{N}])/gu

/** Longest text that is searched for names, in UTF-16 units. */
const longest = 2_048

/** Whether two words of at least four letters are one insertion, deletion or replacement apart. */
export const isMisspelt = (a: string, b: string): boolean => {
  if (a.length < 4 || b.length < 4 || Math.abs(a.length - b.length) > 1) return false
  let at = 0
  while (at < a.length && a[at] === b[at]) at++
  let end = 0
  while (end < Math.min(a.length, b.length) - at && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  return Math.max(a.length, b.length) - at - end <= 1
}
