/**
 * Writes the file of a revision whose writer died after the history had it. Only a file that is absent, torn or as it was
 * is written or removed; any other text came from a hand or a checkout, and is the next revision.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { sha256 } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { Disk } from "./Disk.ts"
import type { History, Kept, Place } from "./History.ts"
import * as Layout from "./Layout.ts"

type Io<A> = Effect.Effect<A, MemoryError>

/** Prints the text of a record for the file at `path`. */
export type Print = (path: string, tenant: string, kept: Kept) => Io<string>

/** `litter`: revisions that the same batch erased. For the holder of the lock. */
export const bring = (
  disk: Disk,
  history: History,
  print: Print,
  place: Place,
  litter: ReadonlyArray<Place>
): Io<void> =>
  Effect.gen(function*() {
    const { after, before, forgotten, gone, id, path, tenant } = place
    if (path !== null && before === after) return // an edit by hand: it came from the file
    if (history.newest(tenant, id)?.batch !== place.batch && !isErasure(history, place)) return // a later batch says more
    const known = new Set([before, ...[...history.places(tenant, id), ...litter].map((old) => old.after)])
    const look = (at: string) =>
      Effect.gen(function*() {
        if (!Layout.isRecord(at) || Option.isSome(yield* disk.linkAbove(at))) return undefined // not ours to write
        const stat = yield* disk.stat(at)
        if (Option.exists(stat, ({ type }) => type !== "File")) return undefined
        const bytes = yield* disk.readBytes(at)
        return { hash: Option.map(bytes, sha256).pipe(Option.getOrNull), isTorn: Option.exists(bytes, isTorn) }
      })
    for (const old of gone) {
      if (history.at(old)) continue
      const file = yield* look(old)
      if (file && file.hash !== null && (file.isTorn || known.has(file.hash))) {
        yield* disk.remove(old, { isFenced: true })
      }
    }
    if (path === null || after === null || forgotten) return
    const file = yield* look(path)
    if (!file || file.hash === after || (file.hash !== null && file.hash !== before && !file.isTorn)) return
    const kept = yield* history.read(place)
    if (Option.isNone(kept)) return
    const content = yield* print(path, tenant, kept.value)
    yield* disk.write(path, content, { force: false, isFenced: true })
  })

const isErasure = (history: History, { id, path, tenant }: Place): boolean =>
  path === null && history.newest(tenant, id) === undefined

/** Whether a file is what power loss leaves of one that was never forced to disk. */
const isTorn = (bytes: Uint8Array): boolean => bytes.length === 0 || bytes.includes(0)

/**
 * Puts back the files before a batch, but for files that were not written yet, or were changed since. `places`: what the
 * batch wrote; it removed the files that have none.
 */
export const takeBack = (
  disk: Disk,
  places: ReadonlyArray<Place>,
  before: ReadonlyMap<string, Uint8Array | null>
): Io<void> =>
  Effect.forEach(before, ([path, bytes]) =>
    Effect.gen(function*() {
      const now = yield* disk.readBytes(path)
      const after = places.find((place) => place.path === path)?.after ?? null
      if (Option.map(now, sha256).pipe(Option.getOrNull) !== after) return
      yield* bytes === null ? disk.remove(path, { isFenced: true }) : disk.write(path, bytes, { isFenced: true })
    }), { discard: true })
