/**
 * Imports memories of other systems into a store. A decoder turns the text of a file into items, and `apply` writes the items.
 *
 * Laws:
 * - Record ids are derived from the other system's name and ids. Exception: ids of entries of `KeyValueMemory` are derived from scope,
 *   namespace and key. A repeated import into the same scope changes nothing, or completes an interrupted one.
 * - A record that already exists stays as it is, even if it was edited or forgotten after the first import.
 * - A thread that already exists gets the messages that it lacks. First, the last position that both the thread and the file have is
 *   compared. If the messages there differ, the thread stays as it is, and is counted as skipped.
 * - Items that cannot be imported are counted by reason, with their places in the file. No error quotes the contents of a file.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { canonicalJson } from "../domain/Digest.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import * as MemoryId from "../domain/MemoryId.ts"
import { type Draft, maxBody, maxTags, Summary, Tag } from "../domain/MemoryRecord.ts"
import type { MemoryScope } from "../domain/MemoryScope.ts"
import { Message, sanitize } from "../domain/Message.ts"
import * as Payload from "../domain/Payload.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as ThreadReads from "../harness/Threads/ThreadReads.ts"
import * as ThreadRows from "../harness/Threads/ThreadRows.ts"
import * as ThreadWrites from "../harness/Threads/ThreadWrites.ts"
import * as EventLoop from "../host/EventLoop.ts"
import * as Redaction from "../host/Redaction.ts"
import { readRows, targetOf } from "../storage/Copy/Lineage.ts"
import { makeTenantLocks } from "../storage/Engine.ts"
import type { Service } from "../storage/MemoryStore.ts"
import * as Skipped from "./Skipped.ts"

/** An item of a file: a record, the messages of a conversation, or a part that cannot be imported. */
export type Item =
  | {
    readonly _tag: "Draft"
    readonly place: string
    readonly draft: Draft & { readonly id: MemoryId.MemoryId }
    /** Reasons why parts of the other system's record are not in `draft`. */
    readonly lost?: ReadonlyArray<string>
  }
  | {
    readonly _tag: "Thread"
    readonly place: string
    readonly name: string
    readonly messages: ReadonlyArray<Message>
  }
  | { readonly _tag: "Skip"; readonly place: string; readonly reason: string }

/** Settings of a decoder. */
export interface Context {
  /** Scope of the records for which the file names no user, agent or run. Threads belong to the viewer of `apply`. */
  readonly scope: MemoryScope
  /** Whether `scope` is used for every record. A user, agent or run in the file is then ignored. Default false. */
  readonly overrules?: boolean | undefined
  /** Name of the folder that is read; absent if a single file is read. */
  readonly folder?: string | undefined
}

/** A file of a folder. `path` is relative to the folder, with `/` between the parts. */
export interface File {
  readonly path: string
  readonly text: string
}

/** Decodes the text of a file. Returns a sentence as the error if the text does not have the expected format. */
export type Decoder = (text: string, context: Context) => Either.Either<ReadonlyArray<Item>, string>
/** Decodes the files of a folder. */
export type FolderDecoder = (files: ReadonlyArray<File>, context: Context) => ReadonlyArray<Item>

/** Makes an item for a part of a file that cannot be imported. */
export const skip = (reason: string, place: string): Item => ({ _tag: "Skip", reason, place })

/** The input of `record`: the fields of a record to import. */
export interface Fields extends Partial<Omit<Draft, "id" | "source" | "kind" | "body">> {
  readonly system: string
  /** Id of the record in the other system; its name, path or text there if it has no id. */
  readonly reference: string
  readonly kind: string
  readonly body: string
  readonly id?: MemoryId.MemoryId | undefined
  /** Place in the file, for reports. Default: `reference`, which must then not quote the contents of the file. */
  readonly place?: string | undefined
  /** Reasons why parts of the other system's record are not imported. */
  readonly lost?: ReadonlyArray<string> | undefined
}

/**
 * Makes an item for a record. `id` defaults to an id derived from `system` and `reference`. Leaves out an invalid summary, invalid tags,
 * the tag `instructions`, and tags beyond `maxTags`.
 */
export const record = (
  { id, lost: others = [], place, reference, scope, summary, system, tags = [], ...fields }: Fields,
  context: Context
): Item => {
  const all = Array.from(new Set(tags))
  const legal = all.filter((tag) => Schema.is(Tag)(tag) && !isReserved(tag)).slice(0, maxTags)
  const lost = [...others, ...all.slice(legal.length).map(() => "a tag that a record cannot have")]
  const title = summary?.replace(/\s+/g, " ").trim()
  return {
    _tag: "Draft",
    place: place ?? reference,
    draft: {
      ...Payload.definedFields(fields),
      kind: fields.kind,
      body: fields.body,
      id: id ?? MemoryId.foreign(system, reference),
      scope: scope ?? context.scope,
      tags: legal,
      ...(Schema.is(Summary)(title) && { summary: title }),
      source: { reference: reference.slice(0, 1_024).toWellFormed() }
    },
    ...(lost.length > 0 && { lost })
  }
}

const isReserved = (tag: string): boolean => tag.trim().toLowerCase() === "instructions"

/** Makes a function that decodes a JSON text by a schema. The error of the function is always `otherwise`. */
export const json = <A, I>(schema: Schema.Schema<A, I>, otherwise: string) => {
  const decode = Schema.decodeUnknownEither(Schema.parseJson(schema))
  return (text: string): Either.Either<A, string> =>
    Either.mapLeft(decode(text.replace(/^\ufeff/, "")), () => otherwise)
}

/** Converts an ISO date, or epoch seconds, to epoch milliseconds. Returns `undefined` for an invalid time or a time before 1970. */
export const timeOf = (time: string | number | null | undefined): number | undefined => {
  const millis = typeof time === "number" ? Math.floor(time * 1_000) : typeof time === "string" ? Date.parse(time) : NaN
  return Number.isSafeInteger(millis) && millis >= 0 ? millis : undefined
}

/** Makes a message from fields that another system exported. */
export const message = (
  role: Message["role"],
  content: string,
  { at, id, tool }: { readonly at?: number | undefined; readonly id?: string | undefined; readonly tool?: boolean }
): Message =>
  new Message({
    role,
    content: content.toWellFormed(),
    ...(at !== undefined && { at }),
    ...(id !== undefined && { id }),
    ...(tool === true && { tool })
  })

/** The outcome of an import. */
export interface Report {
  /** Number of records that were created. */
  readonly created: number
  /** Number of records that already existed, including forgotten records. */
  readonly present: number
  readonly threads: number
  /** Number of messages that were appended. */
  readonly messages: number
  readonly skipped: ReadonlyArray<Skipped.Skipped>
}

/** Options of `apply`. */
export interface Options {
  /** Called after each batch with the number of items processed so far. */
  readonly onProgress?: ((done: number) => Effect.Effect<void>) | undefined
}

type DraftItem = Extract<Item, { readonly _tag: "Draft" }>
type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Largest number of records, or of messages, in one write. */
const batch = 100

/**
 * Writes items into the store. The viewer `System` writes each record into the record's scope, with origin `import` and trust 2. Threads
 * are written for `viewer`. Fails with `unsupported` if the store is read-only or does not expose its rows.
 */
export const apply = Effect.fn("Foreign.apply")(
  function*(
    store: Service,
    viewer: Viewer.Viewer,
    items: ReadonlyArray<Item>,
    options: Options = {}
  ): Effect.fn.Return<Report, MemoryError.MemoryError> {
    // `unredacted` only makes `targetOf` accept a store with redaction: `put` and `append` below redact what they write
    const side = yield* targetOf(store, { unredacted: true })
    const redaction = yield* Redaction.over(store)
    const { tenant } = viewer
    const skipped = Skipped.make()
    const locks = makeTenantLocks()
    const report = { created: 0, present: 0, threads: 0, messages: 0 }

    const put = (drafts: ReadonlyArray<DraftItem>): Io<void> =>
      Effect.gen(function*() {
        if (drafts.length === 0) return
        const outcome = yield* Effect.either(
          store.apply(
            Viewer.system(tenant),
            drafts.map(({ draft }) => ({ _tag: "Put", draft, ifRevision: 0 })),
            { origin: "import", trust: 2 }
          )
        )
        if (Either.isRight(outcome)) report.created += drafts.length
        else if (!refusals.has(outcome.left.reason)) return yield* outcome.left
        else if (drafts.length > 1) yield* Effect.forEach(drafts, (draft) => put([draft]), { discard: true })
        else {
          const { draft, place } = drafts[0]! // `drafts` has one element here
          // another writer may have created the record after `putNew` looked for it
          if (outcome.left.reason === "conflict" && (yield* readRows(side, tenant, [draft.id])).size > 0) {
            report.present++
          } else skipped.add(`the store refuses it: ${outcome.left.message.slice(0, 120)}`, place)
        }
      })

    const putNew = (drafts: ReadonlyArray<DraftItem>) =>
      Effect.gen(function*() {
        const there = yield* readRows(side, tenant, drafts.map(({ draft }) => draft.id))
        const open = new Map<string, DraftItem>()
        for (const item of drafts) {
          const { body, id } = item.draft
          if (there.has(id)) report.present++
          else if (open.has(id)) skipped.add("the same id a second time", item.place)
          else if (body.length > maxBody) skipped.add(`longer than ${maxBody} characters`, item.place)
          else open.set(id, item)
        }
        yield* put(Array.from(open.values()))
      })

    const append = ({ messages: given, name, place }: Extract<Item, { readonly _tag: "Thread" }>) =>
      Effect.gen(function*() {
        if (Viewer.subjectOf(viewer) === "global") {
          return skipped.add("a thread belongs to somebody: name a user", place)
        }
        const messages = yield* Redaction.messages(redaction, viewer, given)
        const rows = yield* ThreadRows.of(store, viewer)
        const { length } = yield* ThreadReads.messages(rows, name, { limit: 1 })
        const common = Math.min(length, messages.length)
        const { items: [last] } = yield* ThreadReads.messages(rows, name, { from: Math.max(0, common - 1), limit: 1 })
        const due = messages[common - 1]
        if (last !== undefined && due !== undefined && saidIn(last) !== saidIn(due)) {
          return skipped.add("there is a thread of this name with other messages", place)
        }
        report.threads++
        for (let at = length; at < messages.length; at += batch) {
          const some = messages.slice(at, at + batch)
          yield* ThreadWrites.append(rows, locks, name, some)
          report.messages += some.length
        }
      })

    for (let at = 0; at < items.length; at += batch) {
      const some = items.slice(at, at + batch)
      yield* putNew(some.flatMap((item) => item._tag === "Draft" ? [item] : []))
      for (const item of some) {
        if (item._tag === "Skip") skipped.add(item.reason, item.place)
        if (item._tag === "Draft") { for (const reason of item.lost ?? []) skipped.add(reason, item.place) }
        if (item._tag === "Thread") yield* append(item)
      }
      yield* options.onProgress?.(Math.min(items.length, at + batch)) ?? Effect.void
      yield* EventLoop.pause
    }
    return { ...report, skipped: skipped.all() }
  }
)

/** Returns a text that is equal for messages with the same role, content, id and time. */
const saidIn = (message: Message): string => {
  const { at, content, id, role } = sanitize(message)
  return canonicalJson([role, content, id ?? null, at ?? null])
}

/** Error reasons for which a record is skipped. Any other error ends the import. */
const refusals: ReadonlySet<string> = new Set([
  "invalid_draft",
  "invalid_id",
  "invalid_scope",
  "path_escape",
  "conflict"
])

/** Returns the attributes of another system's record as `own`. If a `MemoryRecord` cannot hold them, `lost` has a message instead. */
export const attributesOf = (value: unknown) => {
  const own = objectOf(value)
  const isLost = own === undefined && value !== undefined && value !== null
  return { own, lost: isLost ? ["attributes that a record cannot have"] : [] }
}

/** Returns the value if it is a JSON object within the limits of `Payload.Json`. Otherwise, returns `undefined`. */
export const objectOf = (value: unknown): Payload.JsonObject | undefined =>
  Option.getOrUndefined(Schema.decodeUnknownOption(Payload.JsonObject)(value))
