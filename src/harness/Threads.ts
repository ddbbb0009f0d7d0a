/**
 * Stores the messages of conversations (threads), so that a chat can go on after a restart.
 *
 * A thread belongs to the subject of its viewer (`Viewer.subjectOf`). Viewers with reach `within` and several ids have all these ids as
 * their subject. Other viewers with a user have that user, across all sessions. Other viewers with an agent, but no user, session or actor,
 * have the agent. The rest have all their ids. Viewers without ids have no threads: each operation fails with `invalid_scope`. Viewers with
 * another subject cannot read or list the thread, or find out that it exists. `MemoryService.forgetAll({ scope }, { purge: true })` erases
 * threads, too. Messages are not records: `search` of this service finds them, but a search of the store does not.
 *
 * An append that fails stores no message. Concurrent appends to a thread are stored one after the other. The cost of an append, and of
 * reading a page, does not grow with the length of the thread or the number of threads.
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
   * Appends messages to a thread, and creates the thread if it does not exist. Returns the sequence number of the first appended message.
   * An append without messages creates no thread. Memory that this library had put into the prompt is removed from the texts. Fails with
   * `invalid_draft` if a message is not valid.
   */
  readonly append: (
    viewer: Viewer.Viewer,
    thread: string,
    messages: ReadonlyArray<ThreadRows.NewMessage>
  ) => Effect.Effect<number, MemoryError.MemoryError>

  /** Reads a range of messages. The page is empty if the thread does not exist. The cost grows with the number of messages read. */
  readonly messages: (
    viewer: Viewer.Viewer,
    thread: string,
    range?: ThreadReads.Range
  ) => Effect.Effect<ThreadReads.Page, MemoryError.MemoryError>

  /**
   * Reads the newest messages that fit into a budget of tokens. A message counts one token for every four characters of its text or of its
   * `data` as JSON, whichever is longer. The last message is always included. The result begins with a message of the user or the system,
   * so that no tool result appears without its call. If no message of the user or the system fits, the result begins with the newest of
   * them, and exceeds the budget. If the thread has none, the result begins with the first fitting message that is not a tool result, if
   * there is one.
   */
  readonly window: (
    viewer: Viewer.Viewer,
    thread: string,
    budget: number
  ) => Effect.Effect<ThreadReads.Window, MemoryError.MemoryError>

  /**
   * Finds messages of a thread by words, best first. Cost: the first search of a thread reads all its messages. A later search reads only
   * new messages and the messages that it finds. The search indexes of the 64 threads searched last are kept in RAM.
   */
  readonly search: (
    viewer: Viewer.Viewer,
    thread: string,
    query: { readonly text: string; readonly limit?: number | undefined }
  ) => Effect.Effect<ReadonlyArray<ThreadReads.Found>, MemoryError.MemoryError>

  /** Returns the name, length and times of a thread; `None` if the thread does not exist. */
  readonly get: (
    viewer: Viewer.Viewer,
    thread: string
  ) => Effect.Effect<Option.Option<ThreadRows.Thread>, MemoryError.MemoryError>

  /**
   * Lists threads, the last created first. `after` is the name of the last thread of the previous page. Fails with `not_found` if no thread
   * has this name any more. Default limit 20.
   */
  readonly list: (
    viewer: Viewer.Viewer,
    options?: { readonly limit?: number | undefined; readonly after?: string | undefined }
  ) => Effect.Effect<ReadonlyArray<ThreadRows.Thread>, MemoryError.MemoryError>

  /**
   * Copies the messages of a thread into a new thread named `name`, in one batch. With `before`, only the messages before that sequence
   * number are copied. Fails with `not_found` if the thread does not exist, and with `invalid_id` if a thread named `name` exists. Fails
   * with `invalid_draft` if `before` is not a whole number of 0 or more.
   */
  readonly fork: (
    viewer: Viewer.Viewer,
    thread: string,
    name: string,
    options?: { readonly before?: number | undefined }
  ) => Effect.Effect<ThreadRows.Thread, MemoryError.MemoryError>

  /** Renames a thread. Fails with `not_found` if the thread does not exist, and with `invalid_id` if another thread has the new name. */
  readonly rename: (
    viewer: Viewer.Viewer,
    thread: string,
    name: string
  ) => Effect.Effect<ThreadRows.Thread, MemoryError.MemoryError>

  /**
   * Erases a thread irrecoverably, the last messages first. Returns whether the thread existed. If the process ends midway, the first
   * messages remain. Another `delete` then erases them.
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
            const redacted = yield* Redaction.messages(redaction, viewer, messages)
            return yield* ThreadWrites.append(rows, locks, name, redacted)
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

/** Provides threads that are stored in the `MemoryStore` of the context. */
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
