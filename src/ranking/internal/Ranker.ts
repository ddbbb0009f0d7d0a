/**
 * The ranker scores the candidates of a query by a weighted sum of features. A candidate is a record that may answer the query.
 *
 * ```text
 * rank(r) = Σ features  weight · value                      each value 0..1, each weight 0 or above
 * ```
 *
 * The values of `neighbours` and `reply` can also be above 1. A message (in the code: turn) is a record of a session. A record without a
 * session is ranked only by `words` (with weight 1), `speaker`, `firstPerson`, `date` and `time`.
 *
 * The weights were fitted to five conversations each of the data sets LoCoMo and REALTALK, by `bench/fit.mjs` (see docs/retrieval.md). No
 * weight is below 0, since every feature speaks in favour of a record.
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
  /** BM25 of the record, divided by the best BM25. */
  words: 3.07,
  /** BM25 of nearby messages, divided by the best BM25. Adjacent messages count half, messages two away a quarter. */
  neighbours: 0.97,
  /** Share of the query's terms that the message's session contains. Terms that occur in few sessions weigh more. */
  session: 2.04,
  /** BM25 of the previous message, divided by the best BM25. 0 if the previous message is not a question. */
  reply: 1.54,
  /** Share of the query's terms that occur in this message, or in the two messages before or after it. Rare terms weigh more. */
  coverage: 2.76,
  /** 1 if the query names the speaker of the record. */
  speaker: 2.01,
  /** 1 if the record is in the first person and the query names its speaker. */
  firstPerson: 0.73,
  /** Closeness of the record's `validAt` to a time that the query names. */
  date: 4.21,
  /** 1 if the query asks for a time and the record names a time. */
  time: 1.84,
  /** Logarithm of the number of terms of the message, scaled to 0..1. A number above 60 counts as 60. */
  length: 1.93,
  /** 1 if the message is not a question. */
  statement: 0.49
} satisfies { readonly [Name in Feature]: number }

const features = Object.keys(weights) as ReadonlyArray<Feature> // every key of `weights` is a `Feature`
const inConversation: ReadonlyArray<Feature> = ["neighbours", "session", "reply", "coverage"]
const ofForm: ReadonlyArray<Feature> = ["length", "statement"]

/**
 * The properties of a candidate from which its features are computed. If `Form`s are stored, only `words` of a long record needs a body.
 */
export interface Signals {
  /** BM25 of the record, or the score of its best passage if this is higher; 0 if the record shares no term with the query. */
  words: number
  /** Whether the record is a message of a session. If not, the features in `inConversation` and `ofForm` are ignored. */
  isTurn: boolean
  /** Half of the BM25 of the messages next to this message, plus a quarter of the BM25 of the messages two away. */
  neighbours: number
  /** Share of the query's terms that occur in the session, 0..1. Rare terms weigh more. */
  session: number
  /** BM25 of the previous message if it is a question, else 0. */
  reply: number
  /** Share of the query's terms that occur in the message or in those up to two away, 0..1. Rare terms weigh more. */
  coverage: number
  /** Whether the query names the speaker of the record. */
  isSpeaker: boolean
  isQuestion: boolean
  /** Whether the text is in the first person. Always false if `isSpeaker` is false. */
  isFirstPerson: boolean
  /** Whether the text names a time. Always false if the query does not ask for a time. */
  namesTime: boolean
  validAt: number
  /** Number of terms of the text. */
  length: number
}

/** A ranker that is made from the query when it is first needed. */
export interface LazyRanker {
  /** Whether the query may name a time or ask for one. If not, a short record without session and speaker is ranked by words only. */
  readonly isTimely: boolean
  readonly read: () => QuestionRanker
}

/** A ranker, and what a source of records must know about the query to gather candidates. */
export interface QuestionRanker extends Ranker {
  /** Whether the source must return the signals of the candidates. */
  readonly isExplained: boolean
  /** Possible first words of speakers' names (see `foldName`): the words of the query, and the first word of each id in `own`. */
  readonly words: ReadonlyArray<string>
  /**
   * Returns those of `speakers` that the query names. `speakers` has distinct names of speakers, in the form that `foldName` returns. The
   * first word of each name is one of `words`, or differs from one of `words` in a single letter.
   */
  readonly named: (speakers: ReadonlyArray<string>) => ReadonlyArray<string>
  /**
   * Ids of the viewer; `undefined` if the query is not in the first person. A message without a speaker counts as the viewer's own if its
   * scope has one of these ids.
   */
  readonly own: { readonly userId?: string | undefined; readonly actorId?: string | undefined } | undefined
}

/**
 * Factors by which a query multiplies the weights of features. `ranker` multiplies all weights except that of `words`. The weights of
 * `neighbours`, `session`, `reply` and `coverage` are multiplied by `conversation`, too.
 */
export interface Emphasis {
  readonly ranker: number
  readonly conversation: number
}

/** Computes the ranks of the candidates of one query. A rank is a score: the best candidate has the highest rank. */
export interface Ranker {
  /** The times that the query names. */
  readonly times: Times | undefined
  /** Whether the query asks for a time. */
  readonly isWhen: boolean
  /** Returns the rank of a candidate. `best` is the highest `words` of all candidates. */
  readonly rank: (signals: Readonly<Signals>, best: number) => number
  /** Returns what each feature adds to the rank. Leaves out features that add nothing. */
  readonly shares: (signals: Readonly<Signals>, best: number) => Readonly<Partial<Record<Feature, number>>>
}

/** Makes the ranker of a query that is asked at `now`, in epoch milliseconds. */
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

/** The input of `confidence`: properties of a query and of its best match. */
export interface Evidence {
  /** Rank of the best match; `undefined` if the match is not a message, or if no ranker scored it. */
  readonly rank: number | undefined
  /** Whether the query names the speaker of the best match. Also true if the query names no speaker at all. */
  readonly isMeant: boolean
  /** The best BM25 divided by the highest BM25 that a record could have for this query, 0..1. */
  readonly strength: number
  /** Share of the query's terms that no visible record contains, 0..1. Rare terms weigh more. */
  readonly unknown: number
}

/**
 * Returns the probability that the best match answers the query, by logistic regression. There is one formula for messages, and another for
 * all other matches, whose `rank` is `undefined`. The first was fitted to the data sets LoCoMo and REALTALK. The second was fitted to the
 * same data without sessions and speakers, and to Cranfield. Half of the questions had no answer.
 */
export const confidence = ({ isMeant, rank, strength, unknown }: Evidence): number =>
  logistic(
    rank === undefined
      ? 12.71 * strength - 3.4 * unknown - 0.54
      : 5.4 * rank + (isMeant ? 2.54 : 0) - 1.86 * unknown - 6.64
  )
const logistic = (x: number): number => 1 / (1 + Math.exp(-x))

/**
 * Returns the value of each feature, 0..1. `neighbours` may exceed 1 if several neighbouring messages match well. Both `neighbours` and
 * `reply` may exceed 1 if a neighbouring message has a higher BM25 than `best`. The filter of the query rejects such a message.
 */
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

/**
 * Returns the weights of the features for a query. Multiplies `weights` by the factors of `Emphasis`, and scales the products. The results
 * for `words` and the features in `inConversation` and `ofForm` add up to 1. Messages can then be compared with records without a session,
 * whose words have weight 1.
 */
const normalised = (ranker: number, conversation: number): typeof weights => {
  const factor = (feature: Feature) =>
    feature === "words" ? 1 : inConversation.includes(feature) ? ranker * conversation : ranker
  const own = features.map((feature) => [feature, weights[feature] * factor(feature)] as const)
  const alone = own.reduce((sum, [feature, weight]) => ofWords.has(feature) ? sum + weight : sum, 0)
  return Object.fromEntries(own.map(([feature, weight]) => [feature, weight / alone])) as typeof weights // every feature has an entry
}
const ofWords: ReadonlySet<Feature> = new Set(["words", ...inConversation, ...ofForm])
const normal = normalised(1, 1)

const lengthOf = ({ length }: Signals): number => logarithms[Math.min(60, length)]!
const logarithms = Float64Array.from({ length: 61 }, (_, n) => Math.log1p(n) / Math.log(61))

/** Properties of the form of a text, which patterns recognise. */
export interface Form {
  readonly isQuestion: boolean
  readonly isFirstPerson: boolean
  readonly namesTime: boolean
}

/** Computes the form of a text. */
export const formOf = (body: string): Form => ({
  isQuestion: isQuestion(body),
  isFirstPerson: isFirstPerson(body),
  namesTime: namesTime(body)
})

/** Whether a text ends with a question mark. */
export const isQuestion = (body: string): boolean => {
  const end = body.trimEnd()
  return end.endsWith("?") || end.endsWith("？")
}
/** Whether a text contains a word of the first person, such as `I`, `my` or `we`. */
export const isFirstPerson = (body: string): boolean => first.test(body)

const first = /\b(?:i|i['’]?m|i['’]ve|i['’]d|i['’]ll|my|me|mine|myself|we|our|ours|us|we['’]re|we['’]ve)\b/i

/**
 * Makes the ranker of a query. Its method `named` finds the speakers that the query names, by the whole name or by its first word. If the
 * first word has at least four letters, one letter may differ. A word such as `I` or `my` names the viewer.
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

/** Only this many UTF-16 units at the beginning of a query are searched for names. */
const longest = 2_048

/** Whether two words of at least four letters are equal or differ by one insertion, deletion or replacement. */
export const isMisspelt = (a: string, b: string): boolean => {
  if (a.length < 4 || b.length < 4 || Math.abs(a.length - b.length) > 1) return false
  let at = 0
  while (at < a.length && a[at] === b[at]) at++
  let end = 0
  while (end < Math.min(a.length, b.length) - at && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  return Math.max(a.length, b.length) - at - end <= 1
}
