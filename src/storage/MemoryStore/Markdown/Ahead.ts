/**
 * Completes a look at the files where the history is ahead of them. A writer appends a batch to the history and then writes
 * its files one after the other; a look between the two would find half of the batch. What a look found is therefore held
 * against the history, read after the files: a file that is as it was before a batch counts as the batch has it.
 *
 * A file counts so until it was found as the batch has it, or whoever takes the lock next has rolled the batch forward.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import { type Entry, type Found, nowhere } from "./Entry.ts"
import type { History, Place } from "./History.ts"
import type { Mirror } from "./Mirror.ts"

type Io<A> = Effect.Effect<A, MemoryError>

export interface Ahead {
  /**
   * Begins a look. What it returns brings what was found up to the history: `found` gets what the files will be. `at` returns
   * what was known of a file before. `false`: the history was replaced since, and the look has to be taken again.
   */
  readonly begin: () => (found: Map<string, Found>, at: (path: string) => Found) => Io<boolean>
  /** Whether the last look found the file as it was before what the history has. */
  readonly has: (path: string) => boolean
}

/**
 * `viewed`: the last batch whose files this process wrote or found on disk. `renewed`: told that the history was replaced,
 * which whoever follows it has to know.
 */
export const make = (
  history: History,
  { renewed, rowOf, viewed }: {
    readonly viewed: () => number
    readonly renewed: () => void
    readonly rowOf: Mirror["rowOf"]
  }
): Ahead => {
  const ahead = new Set<string>()

  /** The last revision of what lies at a path, and of what does not lie there any more. */
  const newest = ([path, file]: readonly [string, Found]): Place | undefined =>
    history.at(path) ?? (file?._tag === "Entry" ? history.newest(file.tenant, file.row.record.id) : undefined)

  const complete = (since: number, found: Map<string, Found>, at: (path: string) => Found): Io<boolean> =>
    Effect.gen(function*() {
      if ((yield* history.news(false)).isRenewed) {
        renewed()
        return false
      }
      for (const path of found.keys()) ahead.delete(path)
      const stateOf = (path: string) => found.has(path) ? found.get(path) : at(path)
      const pending = history.unlanded().flatMap((batch) => batch.places)
      const landed = [...Array.from(found).map(newest), ...Array.from(history.awaited).map(history.at)]
      const places = new Set([...pending, ...landed].flatMap((place) => place && place.batch > since ? place : []))
      for (const path of history.awaited) {
        const file = stateOf(path)
        if (file?._tag === "Entry" && newest([path, file]) === undefined) found.set(path, undefined) // purged since
      }
      for (const place of places) {
        const { after, before, gone, id, path, tenant } = place
        const known = new Set([before, ...history.places(tenant, id).map((old) => old.after)])
        /** Whether a file is as it was before: absent, or with a text that the history has as an earlier one. */
        const isBefore = (path: string, file: Found) =>
          file === undefined ? before === null : file.path === path && file._tag === "Entry" && known.has(file.hash)
        for (const old of gone) {
          const file = stateOf(old)
          if (file === undefined || history.at(old) || !isBefore(old, file)) continue
          found.set(old, undefined)
          ahead.add(old)
        }
        const isLast = history.newest(tenant, id)?.offset === place.offset
        if (!isLast || path === null || after === null || before === after) continue // the last one is by hand
        const file = stateOf(path)
        if ((file?._tag === "Entry" && file.hash === after) || !isBefore(path, file)) continue
        const kept = yield* history.read(place)
        if (Option.isNone(kept)) continue
        const { extra, frame, record } = kept.value
        const entry: Entry = {
          ...{ _tag: "Entry", path, tenant, hash: after, extra, frame, row: rowOf(tenant, record) },
          ...{ signed: true, stat: nowhere, settled: false }
        }
        found.set(path, entry)
        ahead.add(path)
      }
      return true
    })

  return {
    has: (path) => ahead.has(path),
    begin: () => {
      // a look may find files as they were when it began, whatever has landed or another look has found meanwhile
      const since = Math.max(viewed(), (history.unlanded()[0]?.number ?? history.last() + 1) - 1)
      return (found, at) => complete(since, found, at)
    }
  }
}
