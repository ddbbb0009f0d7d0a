/**
 * Which files writers touched, in order: how a process knows what to read again without looking at every file. A path is
 * written here before the file changes. Hand edits are not here; a look at the folder finds those.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { Disk } from "./Disk.ts"
import { hidden, isBelow } from "./Layout.ts"

export interface Log {
  /** Begins anew where it has grown beyond a megabyte. For who holds the lock. */
  readonly append: (paths: ReadonlyArray<string>) => Effect.Effect<void, MemoryError>
  /** What was touched since we last asked; `None`: it began anew or cannot be read, and any file may have changed. */
  readonly news: Effect.Effect<Option.Option<ReadonlyArray<string>>, MemoryError>
}

const file = `${hidden}/log`
const limit = 1_048_576
const Line = Schema.parseJson(Schema.Array(Schema.String))
const decode = Schema.decodeOption(Line)

export const make = (disk: Disk): Log => {
  let position: { readonly ino: number; readonly offset: number } | undefined

  const news = Effect.gen(function*() {
    const stat = yield* disk.stat(file)
    const { ino, size } = Option.getOrElse(stat, () => ({ ino: 0, size: 0 }))
    const from = position
    if (from === undefined || (from.ino !== ino && from.offset > 0) || size < from.offset) {
      position = { ino, offset: size }
      return Option.none()
    }
    if (size === from.offset) return Option.some([])
    const text = yield* disk.readFrom(file, from.offset)
    const whole = text.slice(0, text.lastIndexOf("\n") + 1) // a line may still be on its way
    position = { ino, offset: from.offset + new TextEncoder().encode(whole).length }
    const lines = Option.all(whole.split("\n").slice(0, -1).map((line) => decode(line)))
    return Option.map(lines, (all) => all.flat().filter(isBelow))
  })

  return {
    append: (paths) => {
      const line = `${Schema.encodeSync(Line)(paths)}\n`
      return position !== undefined && position.offset > limit
        ? disk.write(file, line, { force: false })
        : disk.append(file, line)
    },
    news
  }
}
