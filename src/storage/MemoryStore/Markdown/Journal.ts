/**
 * Several files change as one. What they held is written down first; if the steps do not all happen, it is put back:
 * at once where a step fails, by the next process where this one dies. Done is what has no journal any more.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { Disk } from "./Disk.ts"
import { hidden } from "./Layout.ts"

/** What a file shall hold; `null`: there shall be none. */
export const Step = Schema.Struct({ path: Schema.String, content: Schema.NullOr(Schema.String) })
export interface Step extends Schema.Schema.Type<typeof Step> {}

export interface Journal {
  /** All or nothing. Of one record, the order of its steps is safe enough without a journal: `alone`. */
  readonly run: (
    steps: ReadonlyArray<Step>,
    options: { readonly alone: boolean }
  ) => Effect.Effect<void, MemoryError.MemoryError>
  /** Puts back what a process left half done; the paths. For who holds the lock. */
  readonly recover: Effect.Effect<ReadonlyArray<string>, MemoryError.MemoryError>
}

const file = `${hidden}/journal.json`
const Before = Schema.parseJson(Schema.Array(Step))

export const make = (disk: Disk): Journal => {
  const perform = ({ content, path }: Step) => content === null ? disk.remove(path) : disk.write(path, content)
  const performAll = (steps: ReadonlyArray<Step>) => Effect.forEach(steps, perform, { discard: true })
  const before = (steps: ReadonlyArray<Step>) =>
    Effect.forEach(
      steps,
      ({ path }) => Effect.map(disk.read(path), (old): Step => ({ path, content: Option.getOrNull(old) }))
    )

  return {
    run: (steps, { alone }) =>
      Effect.gen(function*() {
        const old = yield* before(steps)
        if (!alone) yield* disk.write(file, Schema.encodeSync(Before)(old))
        // a journal that cannot be played back now is played back by whoever comes next
        yield* Effect.tapError(performAll(steps), () =>
          Effect.option(Effect.zipRight(performAll(old.toReversed()), alone ? Effect.void : disk.remove(file))))
        if (!alone) {
          yield* Effect.tapError(disk.remove(file), () =>
            Effect.option(Effect.zipRight(performAll(old.toReversed()), disk.remove(file))))
        }
      }).pipe(Effect.uninterruptible),
    recover: Effect.gen(function*() {
      const left = yield* disk.read(file)
      if (Option.isNone(left)) return []
      const old = yield* Schema.decode(Before)(left.value).pipe(
        Effect.mapError((cause) =>
          MemoryError.make("corrupt", {
            op: "open",
            message: "the journal cannot be read",
            detail: { location: file },
            cause
          })
        )
      )
      yield* performAll(old.toReversed())
      yield* disk.remove(file)
      return old.map(({ path }) => path)
    }).pipe(Effect.uninterruptible)
  }
}
