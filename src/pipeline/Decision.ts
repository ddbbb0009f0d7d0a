/** Reads a model's decisions about facts and their neighbours. The model knows neighbours by temporary ids only. */
import type * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { values } from "../domain/JsonText.ts"
import type { MemoryError } from "../domain/MemoryError.ts"
import * as Answer from "./Answer.ts"
import { clean } from "./Extraction.ts"

/** The change that a decision asks for; `NOOP` asks for none. */
export const Event = Schema.Literal("ADD", "UPDATE", "DELETE", "NOOP")

/** The model's decision about one fact. `id` is the temporary id of a neighbour: "0", "1", … */
export const Decision = Schema.Struct({
  event: Event,
  id: Schema.optional(Schema.String),
  text: Schema.optional(Schema.String),
  kind: Schema.optional(Schema.String),
  /** Importance of the fact, 0..1. Taken from the extraction; the model is not asked for it. */
  importance: Schema.optional(Schema.Number)
})
export interface Decision extends Schema.Schema.Type<typeof Decision> {}

/**
 * Returns the decisions in an answer, or a retryable `model` failure if the text is not an answer. Returns no decisions
 * for an explicit empty list, and where every change names an id that was not shown, since models make those up. Finds
 * what `parseDecision` finds, and also a single decision in place of a list. `existing` is the number of neighbours shown.
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

/**
 * Returns the decisions in an answer, or none if there are none; never fails. Lists under `memory` are tried before bare
 * arrays, and the first that holds a decision counts. `existing` is the number of neighbours shown.
 */
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

/** Parses a temporary id into the neighbour's index; `Infinity` for anything else. */
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

/** Whether the item asks to change a record that was not shown. */
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
