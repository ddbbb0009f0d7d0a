/**
 * Several files change as one. What they held is written down first; if the steps do not all happen, it is put back:
 * at once where a step fails, by the next process where this one dies. Done is what has no journal any more.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sha256 } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { Disk } from "./Disk.ts"
import { hidden, isBelow, isRecord } from "./Layout.ts"
import { seal, unseal } from "./Seal.ts"

/** What a file shall hold; `null`: there shall be none. */
export const Step = Schema.Struct({ path: Schema.String, content: Schema.NullOr(Schema.String) })
export interface Step extends Schema.Schema.Type<typeof Step> {}

export interface Journal {
  /**
   * All or nothing. Of one record, the order of its steps is safe enough without a journal: `alone`. `guard` is asked
   * before every step; where it fails the vault is another's, who has put back, or will, what was done.
   */
  readonly run: (
    steps: ReadonlyArray<Step>,
    options: { readonly alone: boolean; readonly guard: Effect.Effect<void, MemoryError> }
  ) => Effect.Effect<void, MemoryError>
  /** Puts back what a process left half done, but for files that a hand has changed since; the paths. For who holds the lock. */
  readonly recover: Effect.Effect<ReadonlyArray<string>, MemoryError>
}

const file = `${hidden}/journal.json`
/** `after`: the hash of what the step makes of it. */
const Before = Schema.parseJson(Schema.Array(Schema.Struct({ ...Step.fields, after: Schema.NullOr(Schema.String) })))
const decode = Schema.decodeOption(Before)

export const make = (disk: Disk, key: string): Journal => {
  const perform = ({ content, path }: Step, guard: Effect.Effect<void, MemoryError> = Effect.void) =>
    content === null ? Effect.zipRight(guard, disk.remove(path)) : disk.write(path, content, { guard })
  const before = (step: Step) =>
    Effect.map(disk.readLoose(step.path), (old) => ({
      path: step.path,
      content: Option.getOrNull(old),
      after: hashOf(step.content)
    }))

  return {
    run: (steps, { alone, guard }) =>
      Effect.gen(function*() {
        const old = yield* Effect.forEach(steps, before)
        const done = alone ? Effect.void : Effect.zipRight(guard, disk.remove(file))
        if (!alone) yield* disk.write(file, seal(key, Schema.encodeSync(Before)(old)), { guard })
        yield* Effect.forEach(steps, (step) => perform(step, guard)).pipe(
          Effect.zipRight(done),
          // a journal that cannot be played back now is played back by whoever comes next
          Effect.tapError(() =>
            Effect.option(Effect.zipRight(Effect.forEach(old.toReversed(), (step) => perform(step, guard)), done))
          )
        )
      }).pipe(Effect.uninterruptible),
    recover: Effect.gen(function*() {
      const left = yield* disk.readLoose(file)
      if (Option.isNone(left)) return []
      const old = Option.flatMap(unseal(key, left.value), decode)
      if (Option.isNone(old)) {
        yield* Effect.logWarning("the journal cannot be read; it is put aside")
        yield* disk.move(file, `${file}.unread`)
        return []
      }
      for (const step of old.value.toReversed()) {
        if (!isBelow(step.path) || Option.isSome(yield* disk.linkAbove(step.path))) continue
        const text = yield* disk.readLoose(step.path)
        if (hashOf(Option.getOrNull(text)) === step.after) yield* perform(step)
      }
      yield* disk.remove(file)
      return old.value.map(({ path }) => path).filter(isRecord)
    }).pipe(Effect.uninterruptible)
  }
}

const hashOf = (content: string | null): string | null => content === null ? null : sha256(content)
