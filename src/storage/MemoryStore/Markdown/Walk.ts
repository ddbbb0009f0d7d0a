/**
 * Every file of the folder that can be a record. A link is named, and not followed; what begins with a dot is hidden, but
 * for the rows of the library.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { Disk } from "./Disk.ts"
import { internal } from "./Layout.ts"

const concurrency = 32

/** `unreadable`: what is to be taken for the files of a folder that cannot be read now. */
export const make = (
  disk: Disk,
  unreadable: (folder: string, error: MemoryError) => ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<string>, MemoryError> => {
  const within = (folder: string): Effect.Effect<ReadonlyArray<string>, MemoryError> =>
    Effect.flatMap(disk.list(folder), (names) => {
      const paths = names.filter((name) => !name.startsWith(".")).map((name) =>
        folder === "" ? name : `${folder}/${name}`
      )
      const notes = paths.filter((path) => path.endsWith(".md"))
      const others = paths.filter((path) => !path.endsWith(".md")) // a fiber for each, and none for a note
      return Effect.map(Effect.forEach(others, below, { concurrency }), (all) => notes.concat(all.flat()))
    })
  const below = (path: string): Effect.Effect<ReadonlyArray<string>> =>
    Effect.gen(function*() {
      const stat = yield* disk.stat(path)
      if (Option.isNone(stat) || stat.value.type !== "Directory") return []
      return (yield* disk.isLink(path)) ? [path] : yield* within(path)
    }).pipe(Effect.catchAll((error) => Effect.sync(() => unreadable(path, error))))

  return Effect.zipWith(within(""), below(internal), (records, rows) => records.concat(rows))
}

/*
 * A rotating sample of files whose size and times say that they are as they were. A look at the vault reads these all the
 * same, since a bit that rots, and a tool that restores the time of a file it changed, leave size and times alone.
 */

export interface Sampling {
  /** The next sample of these paths, which come in the same order each time. Cost: the paths of the sample. */
  readonly next: (paths: ReadonlyArray<string>, now: number) => ReadonlySet<string>
}

/** Number of looks after which every file was read once, in a vault of as many files or more; else of so many files. */
export const rounds = 100
/** Files of a sample at most: a vault of more than 1,600 files takes longer to be read once, and no longer to be looked at. */
const most = 16

/** Begins anywhere, by the clock, so that processes that take one look each do not all read the same files. */
export const makeSampling = (): Sampling => {
  let at: number | undefined
  return {
    next(paths, now) {
      const count = Math.min(most, Math.ceil(paths.length / rounds))
      if (count === 0) return new Set()
      at = (at ?? now % Math.ceil(paths.length / count) * count) % paths.length
      const sample = new Set([
        ...paths.slice(at, at + count),
        ...paths.slice(0, Math.max(0, at + count - paths.length))
      ])
      at += count
      return sample
    }
  }
}
