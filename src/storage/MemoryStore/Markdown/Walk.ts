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
