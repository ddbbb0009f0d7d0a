/** Whether a federation is one, all that is wrong with it said at once. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import { Limit } from "../../../domain/MemoryFilter.ts"
import { invalid } from "../../Check.ts"
import type { Entry, Options } from "../Federated.ts"
import type * as Members from "./Members.ts"

export const nameRule = "1..64 characters in one line"
export const isName = (name: string): boolean => /^[^\p{Cc}\u2028\u2029]{1,64}$/u.test(name) && name.isWellFormed()
const isLimit = Schema.is(Limit)

export const issuesOf = (name: string, { maxResults }: Entry<unknown, unknown>): ReadonlyArray<string> => [
  ...(isName(name) ? [] : [`${JSON.stringify(name.slice(0, 64))}: a name has ${nameRule}`]),
  ...(maxResults === undefined || isLimit(maxResults) ? [] : [`${name}: maxResults: expected 1..1,000`])
]

export const configured = (
  entries: ReadonlyArray<readonly [string, Entry<unknown, unknown>]>,
  { primary }: Options<string>
): ReadonlyArray<string> => {
  if (entries.length === 0) return ["a federation has a store, at least"]
  if (primary === undefined) return []
  const [, entry] = entries.find(([name]) => name === primary) ?? []
  return entry === undefined
    ? [`primary: there is no store ${primary}`]
    : entry.writable === true
    ? []
    : [`primary: ${primary} is read-only`]
}

export const misfits = ({ mirror, name, store, writable }: Members.Member): ReadonlyArray<string> =>
  (writable || mirror !== undefined) && !store.capabilities.writable
    ? [`${name}: ${writable ? "writable" : "a mirror"}, but its store takes no writes`]
    : []

export const refuse = ([issue, ...others]: ReadonlyArray<string>): Effect.Effect<void, MemoryError.MemoryError> =>
  issue === undefined ? Effect.void : invalid("Federated", issue, ...others)
