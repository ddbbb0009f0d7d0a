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

type Guard = Effect.Effect<void, MemoryError>

export interface Journal {
  /**
   * All or nothing. Of one record, the order of its steps is safe enough without a journal: `alone`. `guard` is asked
   * before every step; where it fails the vault is another's, who has put back, or will, what was done.
   */
  readonly run: (
    steps: ReadonlyArray<Step>,
    options: { readonly alone: boolean; readonly guard: Guard }
  ) => Effect.Effect<void, MemoryError>
  /** Whether a process died, or is at work. */
  readonly isLeft: Effect.Effect<boolean, MemoryError>
  /** Puts back what was left half done, by us or by a process that died, but for files changed since; the records' paths. For who holds the lock. */
  readonly recover: (guard: Guard) => Effect.Effect<ReadonlyArray<string>, MemoryError>
}

const file = `${hidden}/journal.json`
/** `after`: the hash of what the step makes of it. */
const Before = Schema.parseJson(Schema.Array(Schema.Struct({ ...Step.fields, after: Schema.NullOr(Schema.String) })))
const decode = Schema.decodeOption(Before)

export const make = (disk: Disk, key: string): Journal => {
  let unfinished: Array<typeof Before.Type[number]> = [] // steps of this process, whatever became of the journal
  const forget = Effect.sync(() => {
    unfinished = []
  })
  const perform = ({ content, path }: Step, guard: Guard) =>
    content === null ? Effect.zipRight(guard, disk.remove(path)) : disk.write(path, content, { guard })
  const before = (step: Step) =>
    Effect.map(disk.readLoose(step.path), (old) => ({
      path: step.path,
      content: Option.getOrNull(old),
      after: hashOf(step.content)
    }))

  /** Puts back what the steps changed, but for files that somebody has changed since. */
  const undo = (old: typeof Before.Type, guard: Guard) =>
    Effect.gen(function*() {
      for (const step of old.toReversed()) {
        if (!isBelow(step.path) || Option.isSome(yield* disk.linkAbove(step.path))) continue
        const text = yield* disk.readLoose(step.path)
        if (hashOf(Option.getOrNull(text)) === step.after) yield* perform(step, guard)
      }
    })

  return {
    run: (steps, { alone, guard }) =>
      Effect.gen(function*() {
        const old = yield* Effect.forEach(steps, before)
        const done = alone ? Effect.void : Effect.zipRight(guard, disk.remove(file))
        if (!alone) yield* disk.write(file, seal(key, Schema.encodeSync(Before)(old)), { guard })
        const attempt = (step: Step, i: number) =>
          perform(step, Effect.tap(guard, () => Effect.sync(() => unfinished.push(old[i]!)))) // as many as steps
        yield* Effect.forEach(steps, attempt, { discard: true }).pipe(
          Effect.zipRight(done),
          // what cannot be put back now is put back before the next writer writes
          Effect.tapError(() =>
            Effect.option(Effect.all([Effect.suspend(() => undo(unfinished, guard)), done, forget]))
          )
        )
        yield* forget
      }).pipe(Effect.uninterruptible),
    isLeft: Effect.map(disk.stat(file), Option.isSome),
    recover: (guard) =>
      Effect.gen(function*() {
        const ours = unfinished
        yield* Effect.zipRight(undo(ours, guard), forget)
        const left = yield* disk.readLoose(file)
        if (Option.isNone(left)) return recordsOf(ours)
        const old = Option.flatMap(unseal(key, left.value), decode)
        yield* guard // else it is the journal of whoever took the lock from us, and at work
        if (Option.isNone(old)) {
          yield* Effect.logWarning("the journal cannot be read; it is put aside")
          yield* disk.move(file, `${file}.unread`)
          return recordsOf(ours)
        }
        yield* undo(old.value, guard)
        yield* Effect.zipRight(guard, disk.remove(file))
        return recordsOf([...ours, ...old.value])
      }).pipe(Effect.uninterruptible)
  }
}

const recordsOf = (steps: ReadonlyArray<Step>): ReadonlyArray<string> => steps.map(({ path }) => path).filter(isRecord)

const hashOf = (content: string | null): string | null => content === null ? null : sha256(content)
