/** Counts what a transfer could not carry over by reason, with the places of the first ones. Nothing of the contents is quoted. */
import * as Schema from "effect/Schema"

/** Schema of what was left out for one reason. */
export const Skipped = Schema.Struct({
  /** The reason, in words. */
  reason: Schema.String,
  count: Schema.NonNegativeInt,
  /** Places of the first ones, at most five: a line, a file, an id. */
  examples: Schema.Array(Schema.String)
})
/** A reason for which something was left out, and how often. */
export interface Skipped extends Schema.Schema.Type<typeof Skipped> {}

/** A list of what was left out, to be added to. */
export interface Tally {
  readonly add: (reason: string, place: string) => void
  /** Returns what was left out, the most frequent reason first. */
  readonly all: () => ReadonlyArray<Skipped>
}

const mostExamples = 5
const longestExample = 200

/** Makes an empty list. Memory: five places for each reason. */
export const make = (): Tally => {
  const reasons = new Map<string, { count: number; readonly examples: Array<string> }>()
  return {
    add: (reason, place) => {
      const known = reasons.get(reason) ?? { count: 0, examples: [] }
      known.count++
      if (known.examples.length < mostExamples) known.examples.push(place.slice(0, longestExample).toWellFormed())
      reasons.set(reason, known)
    },
    all: () =>
      Array.from(reasons, ([reason, { count, examples }]) => ({ reason, count, examples }))
        .sort((a, b) => b.count - a.count || (a.reason < b.reason ? -1 : 1))
  }
}
