/** Sample beliefs of the tests' viewer, and shorthands for asking about them. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as BeliefMemory from "../../src/kinds/BeliefMemory.ts"
import { ada } from "../../src/testing/Sample.ts"

export const because = { reason: "she said so" }
export const belief = (
  object: string,
  fields: { readonly confidence?: number; readonly summary?: string; readonly domain?: string } = {}
) => {
  const { domain, ...rest } = fields
  const data = { subject: "Ada", predicate: "lives in", object, sourceType: "observation" as const, domain }
  return { scope: { userId: "ada" }, body: "", data, ...rest }
}
export const retain = (memory: BeliefMemory.Service, object: string, fields?: Parameters<typeof belief>[1]) =>
  Effect.map(memory.retain(ada, belief(object, fields)), ({ record }) => record.id)
export const query = (memory: BeliefMemory.Service, query: BeliefMemory.BeliefQuery = {}) =>
  Effect.map(memory.query(ada, query), (all) => all.map(({ data }) => data.object))
export const recall = (memory: BeliefMemory.Service, id: Parameters<BeliefMemory.Service["recall"]>[1]) =>
  Effect.map(memory.recall(ada, id), Option.getOrThrow)
