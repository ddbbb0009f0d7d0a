/** Counts the skipped items of a transfer by reason, with the places of the first items. The contents of an item are never quoted. */
import * as Schema from "effect/Schema"

/** Schema of the items that were skipped for one reason. */
export const Skipped = Schema.Struct({
  /** The reason, in plain words. */
  reason: Schema.String,
  count: Schema.NonNegativeInt,
  /** Places (lines, files or ids) of the first skipped items, at most five. */
  examples: Schema.Array(Schema.String)
})
/** The items that were skipped for one reason. */
export interface Skipped extends Schema.Schema.Type<typeof Skipped> {}

/** A mutable count of the items skipped so far, by reason. */
export interface Tally {
  readonly add: (reason: string, place: string) => void
  /** Returns the skipped items by reason, the most frequent reason first. */
  readonly all: () => ReadonlyArray<Skipped>
}

const mostExamples = 5
const longestExample = 200

/** Makes an empty tally. For each reason, the tally has the number of skipped items and the places of the first five. */
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
