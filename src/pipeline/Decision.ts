/** What a model decides of facts and neighbours, read from its answer. It knows neighbours by temporary ids only. */
import type * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { values } from "../domain/JsonText.ts"
import type { MemoryError } from "../domain/MemoryError.ts"
import * as Answer from "./Answer.ts"
import { clean } from "./Extraction.ts"

export const Event = Schema.Literal("ADD", "UPDATE", "DELETE", "NOOP")

/** Seed 3's MemoryEvent: what the model decided of one fact. `id` is temporary: "0", "1", … */
export const Decision = Schema.Struct({
  event: Event,
  id: Schema.optional(Schema.String),
  text: Schema.optional(Schema.String),
  kind: Schema.optional(Schema.String),
  /** 0..1, of the fact: the model is not asked. */
  importance: Schema.optional(Schema.Number)
})
export interface Decision extends Schema.Schema.Type<typeof Decision> {}

/**
 * Returns the decisions of an answer, or a retryable `model` failure where it is no answer at all. None are an explicit
 * empty list, or changes of ids that were not shown only: models make those up, and nothing happens. Finds what
 * `parseDecision` finds, and a single decision where a list was asked for.
 */
export const readDecision = (
  answer: string,
  existing: number
): Either.Either<ReadonlyArray<Decision>, MemoryError> =>
  Answer.read(answer, {
    op: "reconcile",
    name: "memory",
    items: (list) => list.flatMap((item) => toDecision(item, existing)),
    isItem: (value) => toDecision(value, existing).length > 0 || namesUnknown(value, existing),
    isAnswer: (item) => namesUnknown(item, existing)
  })

/** Whatever the model said. `{ memory: […] }` goes before a bare array; the first that holds a decision counts. */
export const parseDecision = (answer: string, existing: number): ReadonlyArray<Decision> => {
  const said = values(answer)
  const named = said.flatMap((value) =>
    Answer.isObject(value) && Array.isArray(value["memory"]) ? [value["memory"]] : []
  )
  const lists: ReadonlyArray<unknown> = named.length > 0 ? named : said
  for (const list of lists) {
    const decisions = Array.isArray(list) ? list.flatMap((item) => toDecision(item, existing)) : []
    if (decisions.length > 0) return decisions
  }
  return []
}

/** `Infinity` of what is no temporary id. */
export const indexOf = (id: unknown): number =>
  typeof id === "number" && Number.isInteger(id) && id >= 0
    ? id
    : typeof id === "string" && /^(?:0|[1-9]\d{0,8})$/.test(id.trim())
    ? Number(id)
    : Infinity

const eventOf = (item: unknown): typeof Event.Type | undefined => {
  if (!Answer.isObject(item) || typeof item["event"] !== "string") return undefined
  const said = item["event"].trim().toUpperCase()
  const event = said === "NONE" ? "NOOP" : said
  return isEvent(event) ? event : undefined
}

/** Whether it changes a record that was not shown. */
const namesUnknown = (item: unknown, existing: number): boolean => {
  const event = eventOf(item)
  if ((event !== "UPDATE" && event !== "DELETE") || !Answer.isObject(item)) return false
  const { id } = item
  return (typeof id === "number" || (typeof id === "string" && id.trim() !== "")) && indexOf(id) >= existing
}

const toDecision = (item: unknown, existing: number): ReadonlyArray<Decision> => {
  const event = eventOf(item)
  if (event === undefined || !Answer.isObject(item)) return []
  const [fact] = clean([item])
  const content = fact && { text: fact.text, ...(fact.kind !== undefined && { kind: fact.kind }) }
  if (event === "ADD") return content ? [{ event, ...content }] : []
  const index = indexOf(item["id"])
  const known = index < existing ? { id: String(index) } : undefined
  if (event === "NOOP") return [{ event, ...known, ...content }]
  return known && (event === "DELETE" || content) ? [{ event, ...known, ...content }] : []
}

const isEvent = Schema.is(Event)
