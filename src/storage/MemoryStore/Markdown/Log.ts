/**
 * Which files writers touched, in order: how a process knows what to read again without looking at every file. A path is
 * written here before the file changes. Hand edits are not here; a look at the folder finds those.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { Disk } from "./Disk.ts"
import { hidden, isRecord } from "./Layout.ts"

export interface Log {
  /** Begins anew where it has grown beyond a megabyte. For who holds the lock. */
  readonly append: (paths: ReadonlyArray<string>) => Effect.Effect<void, MemoryError>
  /** Without the lock the last line is told again the next time: its writer may not be done. */
  readonly news: (locked: boolean) => Effect.Effect<News, MemoryError>
}

export interface News {
  /** What was touched since; `None`: the log began anew or cannot be read, and any file may have changed. */
  readonly paths: Option.Option<ReadonlyArray<string>>
  /** To be run when they have been looked at: until then others, a writer among them, are told of them too. */
  readonly seen: Effect.Effect<void>
}

const file = `${hidden}/log`
const limit = 1_048_576
const Line = Schema.parseJson(Schema.Array(Schema.String))
const decode = Schema.decodeOption(Line)

export const make = (disk: Disk): Log => {
  let position: { readonly ino: number; readonly offset: number } | undefined

  const news: Log["news"] = (locked) =>
    Effect.gen(function*() {
      const stat = yield* disk.stat(file)
      const { ino, size } = Option.getOrElse(stat, () => ({ ino: 0, size: 0 }))
      const from = position?.ino === ino && position.offset <= size ? position.offset : undefined
      const upTo = (offset: number) =>
        Effect.sync(() => {
          // of two who looked at the same time, the one who was told more may be the first to end
          if (from === undefined || position?.ino !== ino || position.offset < offset) position = { ino, offset }
        })
      if (size === (from ?? 0)) {
        return { paths: from === undefined ? Option.none() : Option.some([]), seen: upTo(size) }
      }
      const text = yield* disk.readFrom(file, from ?? 0)
      const end = text.lastIndexOf("\n") + 1 // a line may still be on its way
      const told = locked ? end : text.lastIndexOf("\n", end - 2) + 1
      const seen = upTo((from ?? 0) + new TextEncoder().encode(text.slice(0, told)).length)
      if (from === undefined) return { paths: Option.none(), seen }
      const lines = Option.all(text.slice(0, end).split("\n").slice(0, -1).map((line) => decode(line)))
      return { paths: Option.map(lines, (all) => all.flat().filter(isRecord)), seen }
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
