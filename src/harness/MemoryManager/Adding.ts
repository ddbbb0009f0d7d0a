/** The same drafts to several stores, each by itself: one that fails keeps the others from nothing. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { Applied } from "../../domain/MemoryMutation.ts"
import type { Draft, MemoryRecord } from "../../domain/MemoryRecord.ts"
import type { Viewer } from "../../domain/Viewer.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import type * as Federated from "../../storage/MemoryStore/Federated.ts"
import type * as MemoryEvents from "../MemoryEvents.ts"

export interface Outcome {
  readonly store: string
  readonly result: Either.Either<ReadonlyArray<MemoryStore.Put>, MemoryError.MemoryError>
}

/** An event for each that was written. */
export const written =
  (publish: MemoryEvents.Service["publish"]) =>
  (viewer: Viewer, all: ReadonlyArray<Pick<Applied, "outcome" | "record">>): Effect.Effect<void> =>
    Effect.flatMap(Clock.currentTimeMillis, (at) =>
      Effect.forEach(all, ({ outcome, record }) => {
        if (!record || outcome === "absent" || outcome === "forgotten") return Effect.void
        const { id, kind, scope, summary } = record
        return publish({ _tag: "memory_written", viewer, at, id, scope, kind, summary, outcome })
      }, { discard: true }))

/** Every writable store, or those of these names, which must be. */
export const targets = (
  federated: Federated.Service,
  names: ReadonlyArray<string> = []
): Effect.Effect<ReadonlyArray<Federated.Named>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const all = names.length === 0
      ? (yield* federated.stores).filter(({ writable }) => writable)
      : yield* Effect.forEach(new Set(names), federated.get)
    const closed = all.find(({ writable }) => !writable)
    const message = closed ? `the store ${closed.name} takes no writes` : "no writable store matched"
    return closed || all.length === 0 ? yield* MemoryError.make("read_only", { op: "add", message }) : all
  })

/** Fails where all did. */
export const add = ({ drafts, embed, provenance, publish, stores, viewer }: {
  readonly stores: ReadonlyArray<Federated.Named>
  readonly viewer: Viewer
  readonly drafts: ReadonlyArray<Draft>
  readonly provenance: MemoryStore.Provenance
  readonly publish: MemoryEvents.Service["publish"]
  /** Vectors for what is new there, best effort. */
  readonly embed: (store: MemoryStore.Service, records: ReadonlyArray<MemoryRecord>) => Effect.Effect<void>
}): Effect.Effect<ReadonlyArray<Outcome>, MemoryError.MemoryError> => {
  const addTo = ({ name, store }: Federated.Named) =>
    Effect.gen(function*() {
      const result = yield* Effect.either(MemoryError.mortal("add")(store.put(viewer, drafts, provenance)))
      if (Either.isLeft(result)) {
        const at = yield* Clock.currentTimeMillis
        yield* publish({ _tag: "memory_write_failed", viewer, at, error: result.left })
      } else {
        yield* written(publish)(viewer, result.right)
        yield* embed(store, result.right.flatMap(({ outcome, record }) => outcome === "duplicate" ? [] : [record]))
      }
      return { store: name, result }
    })
  if (stores.length > 1 && drafts.some(({ id }) => id !== undefined)) {
    return MemoryError.make("invalid_id", { op: "add", message: "an id is one store's: name the store" })
  }
  return Effect.flatMap(Effect.forEach(stores, addTo, { concurrency: "unbounded" }), (all) => {
    const failures = failuresOf(all)
    return failures.length === all.length ? failed("add", failures) : Effect.succeed(all)
  })
}

interface Failure {
  readonly store: string
  readonly error: MemoryError.MemoryError
}

export const failuresOf = (
  all: ReadonlyArray<{ readonly store: string; readonly result: Either.Either<unknown, MemoryError.MemoryError> }>
): ReadonlyArray<Failure> =>
  all.flatMap(({ result, store }) => Either.isLeft(result) ? [{ store, error: result.left }] : [])

/** With the reason that they share, else `unavailable`; the message names each store. */
export const failed = (op: string, failures: ReadonlyArray<Failure>): MemoryError.MemoryError => {
  const [first] = failures
  const message = failures.map(({ error, store }) => `${store}: ${error.message}`).join("; ")
  return first && failures.every(({ error }) => error.reason === first.error.reason)
    ? MemoryError.make(first.error.reason, { ...first.error, message, cause: first.error })
    : MemoryError.make("unavailable", { op, message, cause: first?.error })
}
