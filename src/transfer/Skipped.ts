/** Counts the items that a transfer skipped, by reason, and remembers where the first ones are. Never quotes their contents. */
import * as Schema from "effect/Schema"

/** Schema of the items that were skipped for one reason. */
export const Skipped = Schema.Struct({
  /** The reason, as a sentence. */
  reason: Schema.String,
  count: Schema.NonNegativeInt,
  /** Places of the first skipped items, at most five: lines, files or ids. */
  examples: Schema.Array(Schema.String)
})
/** The items that were skipped for one reason. */
export interface Skipped extends Schema.Schema.Type<typeof Skipped> {}

/** A mutable list of the items skipped so far. */
export interface Tally {
  readonly add: (reason: string, place: string) => void
  /** Returns the skipped items, the most frequent reason first. */
  readonly all: () => ReadonlyArray<Skipped>
}

const mostExamples = 5
const longestExample = 200

/** Makes an empty tally of what was skipped. For each reason it keeps a count, and the places of at most five examples. */
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
