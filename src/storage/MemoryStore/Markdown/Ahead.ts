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
import type { History, Place } from "./History.ts"
import type { Mirror } from "./Mirror.ts"
import { type Entry, type Found, nowhere } from "./VaultFile.ts"

type Io<A> = Effect.Effect<A, MemoryError>

/** The findings of a look, to be completed. */
export interface Look {
  /** The files that it found changed, or did not find. */
  readonly found: Map<string, Found>
  /** A file as it was known before. */
  readonly known: (path: string) => Found
  /** Told of each file that is now as the history says: what other looks found earlier does not count. */
  readonly confirm: (path: string) => void
}

export interface Ahead {
  /**
   * Begins a look. What it returns brings what was found up to the history: `found` gets what the files will be. `false`: the
   * history was replaced since the look began, so that any file may have changed, and no batch can be told from what it has.
   */
  readonly begin: () => (look: Look) => Io<boolean>
  /** Whether the last look found the file as it was before what the history has. */
  readonly has: (path: string) => boolean
}

/** `viewed`: the last batch whose files this process wrote or found on disk. */
export const make = (
  history: History,
  { rowOf, viewed }: { readonly viewed: () => number; readonly rowOf: Mirror["rowOf"] }
): Ahead => {
  const ahead = new Set<string>()

  /** The last revision of what lies at a path, and of what does not lie there any more. */
  const newest = (path: string, file: Found): Place | undefined =>
    history.at(path) ?? (file?._tag === "Entry" ? history.newest(file.tenant, file.row.record.id) : undefined)

  /** Revisions that files do not show yet. Removes from `found` what is gone. At one moment, since looks run side by side. */
  const hidden = (since: number, { confirm, found, known }: Look): ReadonlyArray<Place> => {
    for (const path of found.keys()) ahead.delete(path)
    const stateOf = (path: string) => found.has(path) ? found.get(path) : known(path)
    const remove = (path: string) => {
      found.set(path, undefined)
      confirm(path)
    }
    const pending = history.unlanded().flatMap((batch) => batch.places)
    const landed = [
      ...Array.from(found, ([path, file]) => newest(path, file)),
      ...Array.from(history.awaited.keys(), (path) => newest(path, stateOf(path)))
    ]
    for (const path of history.awaited.keys()) {
      const file = stateOf(path)
      if (file?._tag === "Entry" && newest(path, file) === undefined) remove(path) // purged since
    }
    const unseen: Array<Place> = []
    for (const place of new Set([...pending, ...landed])) {
      if (place === undefined || place.batch <= since) continue
      const { after, before, gone, id, path, tenant } = place
      const texts = new Set([before, ...history.places(tenant, id).map((old) => old.after)])
      /** Whether a file is as it was before: absent, or with a text that the history has as an earlier one. */
      const isBefore = (path: string, file: Found) =>
        file === undefined ? before === null : file.path === path && file._tag === "Entry" && texts.has(file.hash)
      for (const old of gone) {
        const file = stateOf(old)
        if (history.at(old)) continue
        if (file === undefined) confirm(old)
        else if (isBefore(old, file)) {
          remove(old)
          ahead.add(old)
        }
      }
      const isLast = history.newest(tenant, id)?.offset === place.offset
      if (!isLast || path === null || after === null || before === after) continue // the last one is by hand
      const file = stateOf(path)
      if (file?._tag === "Entry" && file.hash === after) confirm(path)
      else if (isBefore(path, file)) {
        confirm(path)
        unseen.push(place)
      }
    }
    return unseen
  }

  const complete = (began: number, since: number, look: Look): Io<boolean> =>
    Effect.gen(function*() {
      yield* history.news(false)
      if (history.generation() !== began) return false
      for (const place of hidden(since, look)) {
        const kept = yield* history.read(place)
        const { after, id, path, tenant } = place
        if (history.generation() !== began) return false
        if (Option.isNone(kept)) {
          // erased by a later batch, which tells what there is now; or damaged, and then the file stays as it is
          if (history.newest(tenant, id)?.offset !== place.offset) return yield* complete(began, since, look)
          continue
        }
        if (path === null || after === null) continue
        const { extra, frame, record } = kept.value
        const entry: Entry = {
          ...{ _tag: "Entry", path, tenant, hash: after, extra, frame, row: rowOf(tenant, record) },
          ...{ signed: true, stat: nowhere, settled: false }
        }
        look.found.set(path, entry)
        ahead.add(path)
      }
      return true
    })

  return {
    has: (path) => ahead.has(path),
    begin: () => {
      // a look may find files as they were when it began, whatever has landed or another look has found meanwhile
      const since = Math.max(viewed(), (history.unlanded()[0]?.number ?? history.last() + 1) - 1)
      const began = history.generation()
      return (look) => complete(began, since, look)
    }
  }
}
