/**
 * Reads the list that a model was asked for, and tells an answer apart from an apology, prose or JSON of another shape.
 *
 * ```text
 * {"facts": ["a", null]}, ["a"], in prose and fences, cut short     the legal items
 * {"facts": {"text": "a"}}                                          a list of one
 * {"facts": []}; [] where the answer begins or ends with it         an explicit empty list
 * "Sorry, I am overloaded", "", {"error": …}, [null, 1]             a `model` failure, which is retryable
 * ```
 *
 * Failure messages say what was expected and how long the answer was. They never quote it, since an answer may quote the
 * conversation.
 */
import * as Either from "effect/Either"
import { values } from "../domain/JsonText.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import * as Completion from "../host/Completion.ts"

/** Describes the list that the model was asked for. */
export interface Wanted<A> {
  /** Operation that a failure names. */
  readonly op: string
  /** Key of the list in the requested JSON object. */
  readonly name: "facts" | "memory"
  /** Returns the legal items of a list. */
  readonly items: (list: ReadonlyArray<unknown>) => ReadonlyArray<A>
  /** Whether an object outside of any list counts as an item. Default: none does. */
  readonly isItem?: (value: unknown) => boolean
  /** Whether an item that is not legal still shows that the question was answered. Default: none does. */
  readonly isAnswer?: (item: unknown) => boolean
}

/** An empty list that an answer begins or ends with, be it in a fence; one amid prose may be a part of the prose. */
const bareEmpty = /^\s*(?:```\w*\s*)?\[\s*\]|\[\s*\]\s*(?:```)?\s*$/

/** Number of lists in an answer that are tried. */
const most = 1_024

/**
 * Returns the items of the first list that holds a legal one; lists under `name` are tried before bare ones. Returns no
 * items where the answer has only an explicit empty list. Anything else, and an answer longer than
 * `Completion.maxAnswerLength` (UTF-16 units), is a `model` failure.
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
    return failed(`is longer than the maximum of ${Completion.maxAnswerLength}`)
  }
  const found = values(answer)
  const named = found.flatMap((value) => isObject(value) ? [Reflect.get(value, name)] : [])
  const isNamed = named.some(Array.isArray)
  const lists = (isNamed ? named : found).filter((value) => Array.isArray(value))
  // a single object where a list was asked for is a list of one
  const singles = isNamed ? [] : [...named.filter(isObject), ...found.filter(isItem)]
  for (const list of [...lists.filter(({ length }) => length > 0), ...singles.map((item) => [item])].slice(0, most)) {
    const legal = items(list)
    if (legal.length > 0) return Either.right(legal)
  }
  const isEmpty = lists.some(({ length }) => length === 0) && (isNamed || bareEmpty.test(answer))
  return isEmpty || lists.some((list) => list.some(isAnswer)) || singles.some(isAnswer)
    ? Either.right([])
    : failed(`is no answer: expected {"${name}": […]}, an empty list where there is nothing`)
}

/** Whether the value is an object, and neither null nor an array. */
export const isObject = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === "object" && value !== null && !Array.isArray(value)
