/**
 * Creates, changes and erases threads. `purge` only erases rows. Every other write is one batch of mutations, which also writes the row of
 * the thread. The batch fails with `conflict` if another process has changed this row meanwhile (optimistic locking). The row is then read
 * again, and the write is repeated. `remove` erases a long thread in several such writes.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { MemoryMutation } from "../../domain/MemoryMutation.ts"
import * as MemoryScope from "../../domain/MemoryScope.ts"
import { Message, sanitize } from "../../domain/Message.ts"
import * as Validation from "../../domain/Validation.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type { TenantLocks } from "../../storage/Engine.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import * as ThreadRows from "./ThreadRows.ts"

/** Largest number of messages or rows that are erased in one batch. */
const erasedAtOnce = 500
/** Largest number of times that a write is retried after a conflict with another process. */
const attempts = 100

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The mutations of a write, and the result that the write returns. */
interface Decision<A> {
  readonly answer: A
  readonly mutations: ReadonlyArray<MemoryMutation>
}

const ours: MemoryStore.Provenance = { origin: "pipeline", trust: 1 }

/**
 * Runs `decide`, and applies the mutations that it returns. If the store fails with `conflict`, the rows have changed meanwhile, and both
 * steps are repeated, at most `attempts` times. Writes of one owner through the same `Threads` service run one at a time.
 */
const writing = <A>(rows: ThreadRows.Rows, locks: TenantLocks, decide: Io<Decision<A>>): Io<A> => {
  const once = Effect.flatMap(
    decide,
    ({ answer, mutations }) =>
      Effect.as(mutations.length === 0 ? Effect.void : store(rows).apply(rows.system, mutations, ours), answer)
  )
  return Effect.retry(once, { times: attempts, while: isBehind }).pipe(locks.withLock(rows.idOf("owner")))
}

const store = ({ store }: ThreadRows.Rows): MemoryStore.Service => store

const isBehind = ({ reason }: MemoryError.MemoryError): boolean => reason === "conflict"

const needed = (op: string, rows: ThreadRows.Rows, name: string): Io<ThreadRows.Head> =>
  Effect.flatMap(ThreadRows.headOf(rows, name), (head) =>
    Option.match(head, {
      onNone: () => MemoryError.make("not_found", { op, message: `there is no thread ${JSON.stringify(name)}` }),
      onSome: Effect.succeed
    }))

/** Fails with `invalid_id` if a thread of this name exists. */
const free = (op: string, rows: ThreadRows.Rows, name: string): Io<void> =>
  Effect.flatMap(ThreadRows.headOf(rows, name), (head) =>
    Option.isNone(head)
      ? Effect.void
      : MemoryError.make("invalid_id", { op, message: `there is a thread ${JSON.stringify(name)} already` }))

/**
 * Returns mutations that create a thread with its first messages. The thread's name is added to the last page row of the owner, which lists
 * up to 100 threads. If that row is full, the name is added to a new page row.
 */
const founded = (
  rows: ThreadRows.Rows,
  name: string,
  all: ReadonlyArray<ThreadRows.Stored>
): Io<ReadonlyArray<MemoryMutation>> =>
  Effect.gen(function*() {
    const { owner } = rows
    const generation = (yield* Random.nextIntBetween(0, 2 ** 48)).toString(36)
    const [known] = yield* ThreadRows.read(rows, ThreadRows.OwnerData, [rows.idOf("owner")])
    const pages = Option.match(known!, { onNone: () => 1, onSome: ({ data }) => data.pages })
    const [last] = yield* ThreadRows.read(rows, ThreadRows.PageData, [rows.idOf("page", pages - 1)])
    const names = Option.match(last!, { onNone: () => [], onSome: ({ data }) => data.names })
    const isFull = names.length >= ThreadRows.namesInPage
    const page = isFull ? pages : pages - 1
    return [
      ThreadRows.put(
        rows,
        ThreadRows.ThreadData,
        ["thread", name],
        { row: "thread", owner, name, generation, length: all.length, page },
        Option.none()
      ),
      ThreadRows.put(
        rows,
        ThreadRows.PageData,
        ["page", page],
        { row: "page", owner, names: isFull ? [name] : [...names, name] },
        isFull ? Option.none() : last!
      ),
      ...isFull || Option.isNone(known!)
        ? [ThreadRows.put(rows, ThreadRows.OwnerData, ["owner"], { row: "owner", owner, pages: page + 1 }, known!)]
        : [],
      ...all.flatMap((stored, sequence) => ThreadRows.putMessage(rows, generation, sequence, stored))
    ]
  })

/** Returns mutations that update the list of threads. The names in `next` replace the thread's name. An empty `next` removes the name. */
const renamed = (
  rows: ThreadRows.Rows,
  { data: { name, page } }: ThreadRows.Head,
  next: ReadonlyArray<string>
): Io<ReadonlyArray<MemoryMutation>> =>
  Effect.map(ThreadRows.read(rows, ThreadRows.PageData, [rows.idOf("page", page)]), ([found]) =>
    Option.match(found!, {
      onNone: () => [],
      onSome: ({ data }) => [
        ThreadRows.put(
          rows,
          ThreadRows.PageData,
          ["page", page],
          { ...data, names: data.names.flatMap((one) => one === name ? next : [one]) },
          found!
        )
      ]
    }))

/** Appends messages to a thread, which is created if necessary. Returns the sequence number of the first message. */
export const append = (
  rows: ThreadRows.Rows,
  locks: TenantLocks,
  name: string,
  messages: ReadonlyArray<ThreadRows.NewMessage>
): Io<number> =>
  Effect.gen(function*() {
    const all = yield* Effect.forEach(messages, storedOf)
    return yield* writing(
      rows,
      locks,
      Effect.gen(function*() {
        const head = yield* ThreadRows.headOf(rows, name)
        if (Option.isNone(head)) return { answer: 0, mutations: all.length > 0 ? yield* founded(rows, name, all) : [] }
        const { data } = head.value
        const longer = { ...data, length: data.length + all.length }
        return {
          answer: data.length,
          mutations: all.length === 0 ? [] : [
            ThreadRows.put(rows, ThreadRows.ThreadData, ["thread", name], longer, head),
            ...all.flatMap((stored, n) => ThreadRows.putMessage(rows, data.generation, data.length + n, stored))
          ]
        }
      })
    )
  })

/** Schema of a message to append. This is a struct, since the class `Message` would accept instances of `Message` without a check. */
const NewMessage = Schema.Struct({ ...Message.fields, ...ThreadRows.Stored.fields }).pipe(Schema.omit("message"))

/** Validates a message and prepares it for storage. */
const storedOf = (message: ThreadRows.NewMessage): Io<ThreadRows.Stored> =>
  Effect.map(
    Validation.check("append", NewMessage, message),
    ({ data, ...message }) => ({ data, message: sanitize(message) })
  )

/** Schema of the options of `fork`. */
const Forked = Schema.Struct({ before: Schema.optional(Schema.NonNegativeInt) })

/** Copies the thread `source` to the new thread `target`. With `options.before`, copies only messages with lower sequence numbers. */
export const fork = (
  rows: ThreadRows.Rows,
  locks: TenantLocks,
  source: string,
  target: string,
  options: typeof Forked.Type
): Io<ThreadRows.Thread> =>
  Effect.zipRight(
    writing(
      rows,
      locks,
      Effect.gen(function*() {
        const { before = Infinity } = yield* Validation.check("fork", Forked, options)
        const { data } = yield* needed("fork", rows, source)
        yield* free("fork", rows, target)
        const all = yield* ThreadRows.messages(rows, data.generation, 0, Math.min(before, data.length))
        return { answer: undefined, mutations: yield* founded(rows, target, all) }
      })
    ),
    Effect.map(needed("fork", rows, target), ThreadRows.threadOf)
  )

/** Renames a thread. */
export const rename = (
  rows: ThreadRows.Rows,
  locks: TenantLocks,
  source: string,
  target: string
): Io<ThreadRows.Thread> =>
  Effect.zipRight(
    writing(
      rows,
      locks,
      Effect.gen(function*() {
        const head = yield* needed("rename", rows, source)
        if (source === target) return { answer: undefined, mutations: [] }
        yield* free("rename", rows, target)
        const moved = { ...head.data, name: target, createdAt: ThreadRows.threadOf(head).createdAt }
        return {
          answer: undefined,
          mutations: [
            ThreadRows.put(rows, ThreadRows.ThreadData, ["thread", target], moved, Option.none()),
            ThreadRows.erased(head),
            ...yield* renamed(rows, head, [target])
          ]
        }
      })
    ),
    Effect.map(needed("rename", rows, target), ThreadRows.threadOf)
  )

/** Erases a thread, the last messages first. Returns whether the thread existed. */
export const remove = (rows: ThreadRows.Rows, locks: TenantLocks, name: string): Io<boolean> => {
  const step = Effect.gen(function*() {
    const head = yield* ThreadRows.headOf(rows, name)
    if (Option.isNone(head)) return { answer: "absent" as const, mutations: [] }
    const { data } = head.value
    const length = Math.max(0, data.length - erasedAtOnce)
    const all = yield* ThreadRows.messages(rows, data.generation, length, data.length)
    const mutations = ThreadRows.erase(all.flatMap(({ ids }) => ids))
    return length > 0
      ? {
        answer: "shorter" as const,
        mutations: [
          ThreadRows.put(rows, ThreadRows.ThreadData, ["thread", name], { ...data, length }, head),
          ...mutations
        ]
      }
      : {
        answer: "gone" as const,
        mutations: [ThreadRows.erased(head.value), ...yield* renamed(rows, head.value, []), ...mutations]
      }
  })
  const all: Io<boolean> = Effect.flatMap(
    writing(rows, locks, step),
    (answer) => answer === "shorter" ? Effect.as(all, true) : Effect.succeed(answer === "gone")
  )
  return all
}

/**
 * Erases the threads of each owner whose scope the viewer sees. A viewer with reach `exact` erases only the threads of its own subject. If
 * `scope` is given, erases only threads of owners in this scope. Rows that an interrupted deletion left are erased, too. Cost: reads all
 * thread rows of the tenant.
 */
export const purge = (
  store: MemoryStore.Service,
  viewer: Viewer.Viewer,
  scope?: MemoryScope.MemoryScope
): Io<void> => {
  const system = Viewer.system(viewer.tenant)
  const subject = MemoryScope.key(Viewer.subjectOf(viewer))
  const isOwned = Schema.is(Schema.Struct({ owner: MemoryScope.MemoryScope }))
  const isMeant = (owner: MemoryScope.MemoryScope) =>
    (viewer.reach === "exact" ? MemoryScope.key(owner) === subject : Viewer.sees(viewer, owner)) &&
    (scope === undefined || MemoryScope.matchesScope(owner, scope))
  const pass = store.stream(system, { scope: MemoryScope.Internal, kinds: [ThreadRows.kind], limit: 1_000 }).pipe(
    Stream.filter(({ data }) => isOwned(data) && isMeant(data.owner)),
    Stream.map(({ id }) => id),
    Stream.grouped(erasedAtOnce),
    Stream.runFoldEffect(
      0,
      (sum, ids) => Effect.as(store.apply(system, ThreadRows.erase(Array.from(ids)), ours), sum + ids.length)
    )
  )
  // repeats until a pass erases nothing, so that messages appended during a pass are erased, too
  const all: Io<void> = Effect.flatMap(pass, (erased) => erased === 0 ? Effect.void : all)
  return all
}
