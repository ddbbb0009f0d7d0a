/** What a writer was killed in the middle of: a hidden file beside the one it was to become, and of no use to anybody. */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import { type Disk, isTemporary } from "./Disk.ts"
import { hidden, internal } from "./Layout.ts"

type Io<A> = Effect.Effect<A, MemoryError>

/** In milliseconds. */
const hour = 3_600_000

/**
 * Erases them, at the first call and then by the hour. For who holds the lock: then nobody else writes, and one who stood
 * still until it lost the lock has `timeout` to wake. Cost: a list of every folder. What fails is tried again in an hour.
 */
export const make = (disk: Disk, timeout: Duration.Duration): (guard: Io<void>) => Effect.Effect<void> => {
  let due = 0

  const erase = (path: string, guard: Io<void>) =>
    Effect.gen(function*() {
      const found = yield* disk.stat(path)
      const now = yield* Clock.currentTimeMillis
      const isOld = Option.exists(
        found,
        ({ mtime, type }) => type === "File" && now - mtime > Duration.toMillis(timeout)
      )
      if (!isOld || (yield* disk.isLink(path))) return
      yield* guard
      yield* disk.remove(path, { force: false })
    })
  const sweep = (folder: string, guard: Io<void>, below: (path: string) => Io<void>): Io<void> =>
    Effect.flatMap(disk.list(folder), (names) =>
      Effect.forEach(names, (name) => {
        const path = folder === "" ? name : `${folder}/${name}`
        if (isTemporary(name)) return erase(path, guard)
        return name.startsWith(".") || name.endsWith(".md") ? Effect.void : below(path)
      }, { discard: true }))

  return (guard) => {
    const records = (path: string): Io<void> =>
      Effect.gen(function*() {
        const found = yield* disk.stat(path)
        if (Option.exists(found, ({ type }) => type === "Directory") && !(yield* disk.isLink(path))) {
          yield* sweep(path, guard, records)
        }
      })
    return Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      if (now < due) return
      due = now + hour
      yield* sweep("", guard, records)
      yield* sweep(hidden, guard, () => Effect.void)
      yield* records(internal)
      for (const own of yield* disk.list(`${hidden}/turns`)) {
        if (own !== disk.own) yield* Effect.zipRight(guard, disk.end(own))
      }
    }).pipe(Effect.catchAll((error) => Effect.logDebug("what writers left behind is still there", error)))
  }
}
