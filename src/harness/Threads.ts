/**
 * The messages of conversations, kept in the store, so that a chat goes on after a restart.
 *
 * A thread belongs to the subject of its viewer (`Viewer.subjectOf`): to a user in all sessions, else to an agent, else to a session or
 * actor. Nobody else reads it, lists it or learns that it is there. `MemoryService.forgetAll(filter, { purge: true })` erases it
 * with the rest. Messages are no memories: no search of the store finds them, `search` of a thread does.
 *
 * An append is one batch: it is there whole or not at all, and messages have one order, whoever appends. Its cost, and that of a page,
 * does not depend on the length or the number of threads.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../domain/MemoryError.ts"
import { Global, ScopeId } from "../domain/MemoryScope.ts"
import * as Validation from "../domain/Validation.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as Redaction from "../host/Redaction.ts"
import * as Analyzer from "../ranking/Analyzer.ts"
import { makeTenantLocks } from "../storage/Engine.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as ThreadIndex from "./Threads/ThreadIndex.ts"
import * as ThreadReads from "./Threads/ThreadReads.ts"
import * as ThreadRows from "./Threads/ThreadRows.ts"
import * as ThreadWrites from "./Threads/ThreadWrites.ts"

export { type Found, type Page, Range, type Window } from "./Threads/ThreadReads.ts"
/** Threads and their messages. */
export type { NewMessage, Thread, ThreadMessage } from "./Threads/ThreadRows.ts"
export { purge } from "./Threads/ThreadWrites.ts"

/** Operations of `Threads`. */
export interface Service {
  /**
   * Appends messages to a thread, which is made if it is missing. Strips injected memory. Returns the place of the first message.
   * Fails with `invalid_draft` if a value is no message.
   */
  readonly append: (
    viewer: Viewer.Viewer,
    thread: string,
    messages: ReadonlyArray<ThreadRows.NewMessage>
  ) => Effect.Effect<number, MemoryError.MemoryError>

  /** Reads messages; none where there is no such thread. Cost: the messages. */
  readonly messages: (
    viewer: Viewer.Viewer,
    thread: string,
    range?: ThreadReads.Range
  ) => Effect.Effect<ThreadReads.Page, MemoryError.MemoryError>

  /**
   * Reads the newest messages that fit into a budget of tokens, at four characters of text or data a token; at least the last one.
   * The window begins with a message of the user or the system, if the thread has one, so that no result of a tool appears without
   * its call. If none of those fits, as after a result that is longer than the budget, the window begins with the last one of
   * them, and exceeds the budget.
   */
  readonly window: (
    viewer: Viewer.Viewer,
    thread: string,
    budget: number
  ) => Effect.Effect<ThreadReads.Window, MemoryError.MemoryError>

  /**
   * Finds messages of a thread by words, best first. Cost: the messages that came since this process searched the thread last, all of them
   * the first time; the 64 threads searched last are kept.
   */
  readonly search: (
    viewer: Viewer.Viewer,
    thread: string,
    query: { readonly text: string; readonly limit?: number | undefined }
  ) => Effect.Effect<ReadonlyArray<ThreadReads.Found>, MemoryError.MemoryError>

  /** Returns the description of a thread, if there is such a thread. */
  readonly get: (
    viewer: Viewer.Viewer,
    thread: string
  ) => Effect.Effect<Option.Option<ThreadRows.Thread>, MemoryError.MemoryError>

  /**
   * Lists threads, newest made first. `after` is the name of the last one of the page before; fails with `not_found` where that was
   * deleted or renamed since. Default limit 20.
   */
  readonly list: (
    viewer: Viewer.Viewer,
    options?: { readonly limit?: number | undefined; readonly after?: string | undefined }
  ) => Effect.Effect<ReadonlyArray<ThreadRows.Thread>, MemoryError.MemoryError>

  /**
   * Copies a thread, or its messages before a place, into a new one, in one batch. Fails with `not_found` where there is nothing to copy,
   * with `invalid_id` where the name is taken, and with `invalid_draft` where the place is not a whole number, 0 or more. Cost: the messages.
   */
  readonly fork: (
    viewer: Viewer.Viewer,
    thread: string,
    name: string,
    options?: { readonly before?: number | undefined }
  ) => Effect.Effect<ThreadRows.Thread, MemoryError.MemoryError>

  /** Gives a thread another name. Fails with `not_found` where it is missing, and with `invalid_id` where the name is taken. */
  readonly rename: (
    viewer: Viewer.Viewer,
    thread: string,
    name: string
  ) => Effect.Effect<ThreadRows.Thread, MemoryError.MemoryError>

  /**
   * Erases a thread for good, the last messages first. Returns whether it was there. Where the process ends on the way, the thread is
   * shorter, and to delete it again erases the rest.
   */
  readonly delete: (viewer: Viewer.Viewer, thread: string) => Effect.Effect<boolean, MemoryError.MemoryError>
}

/** Tag of the service for threads. */
export class Threads extends Context.Tag("@memory/Threads")<Threads, Service>() {}

const make: Effect.Effect<Service, never, MemoryStore.MemoryStore> = Effect.gen(function*() {
  const store = yield* MemoryStore.MemoryStore
  const redaction = yield* Redaction.over(store)
  const locks = makeTenantLocks()
  const indexes = ThreadIndex.make(yield* Analyzer.Analyzer)
  const operation = <A>(
    op: string,
    viewer: Viewer.Viewer,
    run: (rows: ThreadRows.Rows, name: (name: string) => Io<string>) => Io<A>
  ): Io<A> =>
    Viewer.required(op, viewer, (viewer) =>
      Viewer.subjectOf(viewer) === Global
        ? nobody(op)
        : Effect.flatMap(ThreadRows.of(store, viewer), (rows) => run(rows, (name) => legalName(op, name)))).pipe(
        Effect.withSpan(`Threads.${op}`)
      )
  return {
    append: (viewer, thread, messages) =>
      operation(
        "append",
        viewer,
        (rows, legal) =>
          Effect.gen(function*() {
            const name = yield* legal(thread)
            const said = yield* Redaction.messages(redaction, viewer, messages)
            return yield* ThreadWrites.append(rows, locks, name, said)
          })
      ),
    messages: (viewer, thread, range = {}) =>
      operation(
        "messages",
        viewer,
        (rows, legal) => Effect.flatMap(legal(thread), (name) => ThreadReads.messages(rows, name, range))
      ),
    window: (viewer, thread, budget) =>
      operation(
        "window",
        viewer,
        (rows, legal) => Effect.flatMap(legal(thread), (name) => ThreadReads.window(rows, name, budget))
      ),
    search: (viewer, thread, query) =>
      operation(
        "search",
        viewer,
        (rows, legal) => Effect.flatMap(legal(thread), (name) => ThreadReads.search(rows, indexes, name, query))
      ),
    get: (viewer, thread) =>
      operation("get", viewer, (rows, legal) =>
        Effect.map(
          Effect.flatMap(legal(thread), (name) => ThreadRows.headOf(rows, name)),
          Option.map(ThreadRows.threadOf)
        )),
    list: (viewer, { after, limit } = {}) =>
      operation("list", viewer, (rows, legal) =>
        Effect.flatMap(
          after === undefined ? Effect.succeed(undefined) : legal(after),
          (after) => ThreadReads.list(rows, after, limit)
        )),
    fork: (viewer, thread, name, options = {}) =>
      operation("fork", viewer, (rows, legal) =>
        Effect.flatMap(
          Effect.all([legal(thread), legal(name)]),
          ([source, target]) => ThreadWrites.fork(rows, locks, source, target, options)
        )),
    rename: (viewer, thread, name) =>
      operation("rename", viewer, (rows, legal) =>
        Effect.flatMap(
          Effect.all([legal(thread), legal(name)]),
          ([source, target]) => ThreadWrites.rename(rows, locks, source, target)
        )),
    delete: (viewer, thread) =>
      operation(
        "delete",
        viewer,
        (rows, legal) => Effect.flatMap(legal(thread), (name) => ThreadWrites.remove(rows, locks, name))
      )
  }
})

/** Keeps threads in the store that is provided. */
export const layer: Layer.Layer<Threads, never, MemoryStore.MemoryStore> = Layer.effect(Threads, make)

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

const nobody = (op: string) =>
  MemoryError.make("invalid_scope", {
    op,
    message: "a thread belongs to somebody: name a user, an agent, a session or an actor"
  })

const legalName = (op: string, name: string): Io<string> =>
  Effect.mapBoth(Schema.decode(ScopeId)(name), {
    onFailure: (error) => MemoryError.make("invalid_id", { op, message: Validation.lines(error, "thread").join("; ") }),
    onSuccess: (name) => name.normalize("NFC")
  })
