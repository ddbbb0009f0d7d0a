/** What a prompt is told of memory. Best effort: what went wrong is an event, and the turn goes on. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as MemoryError from "../domain/MemoryError.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { Message } from "../domain/Message.ts"
import type { Viewer } from "../domain/Viewer.ts"
import { MemoryStore } from "../storage/MemoryStore.ts"
import * as IndexBlock from "./IndexBlock.ts"
import type { Inject } from "./Injection.ts"
import * as InstructionFiles from "./InstructionFiles.ts"
import type { MemorySpec } from "./MemorySpec.ts"
import * as PromptBlock from "./PromptBlock.ts"
import * as Seeding from "./Seeding.ts"
import type { Telling } from "./Telling.ts"

export interface Prompting {
  readonly index: (viewer: Viewer) => Effect.Effect<PromptBlock.PromptBlock>
  readonly context: (viewer: Viewer, turn: ReadonlyArray<Message>) => Effect.Effect<PromptBlock.PromptBlock>
  readonly instructions: (viewer: Viewer) => Effect.Effect<string>
  /** The tenant's instruction files as records, the first time. */
  readonly seed: (viewer: Viewer) => Effect.Effect<void>
  /** Whether there are instruction files. */
  readonly hasFiles: boolean
}

export const make = (
  spec: MemorySpec,
  inject: Inject,
  { degraded }: Telling
): Effect.Effect<Prompting, never, MemoryStore> =>
  Effect.gen(function*() {
    const store = yield* MemoryStore
    const kinds = yield* MemoryKind.Kinds
    const files = yield* Effect.serviceOption(InstructionFiles.InstructionFiles)
    const seed: Prompting["seed"] = spec.enabled && Option.isSome(files)
      ? yield* Seeding.make(files.value, (viewer) => degraded(viewer, "instructions"))
      : () => Effect.void
    const otherwise =
      <A>(viewer: Viewer, part: string, value: A) => (self: Effect.Effect<A, MemoryError.MemoryError>) =>
        self.pipe(MemoryError.mortal(part), Effect.catchAll((error) => Effect.as(degraded(viewer, part)(error), value)))

    return {
      index: (viewer) =>
        spec.enabled && spec.includeIndex
          ? Effect.suspend(() => IndexBlock.read(store, viewer, kinds, spec.maxIndexEntries)).pipe(
            otherwise(viewer, "index", IndexBlock.unavailable)
          )
          : Effect.succeed(PromptBlock.empty),
      context: (viewer, turn) =>
        spec.enabled
          ? inject(viewer, turn).pipe(otherwise(viewer, "context", PromptBlock.empty))
          : Effect.succeed(PromptBlock.empty),
      instructions: (viewer) =>
        Option.match(files, {
          onNone: () => Effect.succeed(""),
          onSome: ({ load }) =>
            Effect.gen(function*() {
              yield* seed(viewer)
              const { files, issues } = yield* load
              yield* Effect.forEach(issues, degraded(viewer, "instructions"), { discard: true })
              return InstructionFiles.renderInstructionFiles(files)
            })
        }),
      seed,
      hasFiles: Option.isSome(files)
    }
  })
