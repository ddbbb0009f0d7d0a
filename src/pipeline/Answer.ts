/**
 * Tells an answer of a model from what is none: an apology, prose, JSON of another shape.
 *
 * ```text
 * {"facts": ["a", null]}, ["a"], in prose and fences, cut short     the items that are legal
 * {"facts": {"text": "a"}}                                          a list of one
 * {"facts": []}, []                                                 an explicit empty list
 * "Sorry, I am overloaded", "", {"error": …}, [null, 1]             a `model` failure, which is retryable
 * ```
 *
 * Messages of failures say what was expected and how long the answer was; they never quote it, since an answer may
 * quote the conversation.
 */
import * as Either from "effect/Either"
import { values } from "../domain/JsonText.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import * as Completion from "../host/Completion.ts"

export interface Wanted<A> {
  readonly op: string
  /** The name that the list was asked under. */
  readonly name: "facts" | "memory"
  /** The legal items of a list. */
  readonly items: (list: ReadonlyArray<unknown>) => ReadonlyArray<A>
  /** Whether an object outside of any list is an item. Default none is. */
  readonly isItem?: (value: unknown) => boolean
  /** Whether an item that is not legal still shows that the question was answered. Default none does. */
  readonly isAnswer?: (item: unknown) => boolean
}

/** Lists of an answer that are looked at. */
const most = 1_024

/**
 * Returns the items of the first list that holds a legal one; lists under `name` go before bare ones. Returns none where
 * there is no such list but an explicit empty one. Anything else, and an answer longer than
 * `Completion.maxAnswerLength`, is a `model` failure.
 */
export const read = <A>(
  answer: string,
  { isAnswer = () => false, isItem = () => false, items, name, op }: Wanted<A>
): Either.Either<ReadonlyArray<A>, MemoryError.MemoryError> => {
  const failed = (message: string) =>
    Either.left(
      MemoryError.make("model", { op, message: `the model's answer of ${answer.length} characters ${message}` })
    )
  if (answer.length > Completion.maxAnswerLength) {
    return failed(`is longer than the ${Completion.maxAnswerLength} that are read`)
  }
  const said = values(answer)
  const named = said.flatMap((value) => isObject(value) ? [Reflect.get(value, name)] : [])
  const isNamed = named.some(Array.isArray)
  const lists = (isNamed ? named : said).filter((value) => Array.isArray(value))
  // a single object where a list was asked for is a list of one
  const singles = isNamed ? [] : [...named.filter(isObject), ...said.filter(isItem)]
  for (const list of [...lists.filter(({ length }) => length > 0), ...singles.map((item) => [item])].slice(0, most)) {
    const legal = items(list)
    if (legal.length > 0) return Either.right(legal)
  }
  return lists.some((list) => list.length === 0 || list.some(isAnswer)) || singles.some(isAnswer)
    ? Either.right([])
    : failed(`is no answer: expected {"${name}": […]}, an empty list where there is nothing`)
}

export const isObject = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === "object" && value !== null && !Array.isArray(value)
