/**
 * Reads memories of other systems into a store. A decoder turns text into items; `apply` writes them.
 *
 * Laws:
 * - Ids are derived from the system and the id there: importing again changes nothing, and an import that was interrupted goes on.
 * - A record that is there stays as it is, whether it was edited or forgotten since. A thread gets the messages that it lacks.
 * - What cannot be carried over is counted by reason, with places. No error quotes what a file says.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../domain/MemoryError.ts"
import * as MemoryId from "../domain/MemoryId.ts"
import { type Draft, maxBody, maxTags, Summary, Tag } from "../domain/MemoryRecord.ts"
import type { MemoryScope } from "../domain/MemoryScope.ts"
import { Message } from "../domain/Message.ts"
import * as Payload from "../domain/Payload.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as ThreadReads from "../harness/Threads/ThreadReads.ts"
import * as ThreadRows from "../harness/Threads/ThreadRows.ts"
import * as ThreadWrites from "../harness/Threads/ThreadWrites.ts"
import * as EventLoop from "../host/EventLoop.ts"
import { readRows, targetOf } from "../storage/Copy/Lineage.ts"
import { makeTenantLocks } from "../storage/Engine.ts"
import type { Service } from "../storage/MemoryStore.ts"
import * as Skipped from "./Skipped.ts"

/** An item that a decoder finds: a record, the messages of a conversation, or what it cannot carry over. */
export type Item =
  | { readonly _tag: "Draft"; readonly place: string; readonly draft: Draft & { readonly id: MemoryId.MemoryId } }
  | {
    readonly _tag: "Thread"
    readonly place: string
    readonly name: string
    readonly messages: ReadonlyArray<Message>
  }
  | { readonly _tag: "Skip"; readonly place: string; readonly reason: string }

/** The settings of a decoder, beside the text. */
export interface Context {
  /** The scope of what names nobody. */
  readonly scope: MemoryScope
  /** Whether the ids that the file names are overruled by `scope`. Default false. */
  readonly overrules?: boolean | undefined
}

/** A file of a folder; its path is relative, with `/`. */
export interface File {
  readonly path: string
  readonly text: string
}

/** Reads one text. Fails with a sentence where the text is not of the format at all. */
export type Decoder = (text: string, context: Context) => Either.Either<ReadonlyArray<Item>, string>
/** Reads the files of a folder. */
export type FolderDecoder = (files: ReadonlyArray<File>, context: Context) => ReadonlyArray<Item>

/** Makes an item of what is left out. */
export const skip = (reason: string, place: string): Item => ({ _tag: "Skip", reason, place })

/** The fields of a record that a decoder gives. */
export interface Fields extends Partial<Omit<Draft, "id" | "source" | "kind" | "body">> {
  readonly system: string
  /** The id there. */
  readonly reference: string
  readonly kind: string
  readonly body: string
  readonly id?: MemoryId.MemoryId | undefined
}

/** Makes an item of a record: with a derived id, tags that are legal, and a summary that is. */
export const record = (
  { id, reference, scope, summary, system, tags = [], ...fields }: Fields,
  context: Context
): Item => {
  const legal = Array.from(new Set(tags.flatMap((tag) => Schema.is(Tag)(tag) && !isReserved(tag) ? [tag] : [])))
  const title = summary?.replace(/\s+/g, " ").trim()
  return {
    _tag: "Draft",
    place: reference,
    draft: {
      ...Payload.definedFields(fields),
      kind: fields.kind,
      body: fields.body,
      id: id ?? MemoryId.foreign(system, reference),
      scope: scope ?? context.scope,
      tags: legal.slice(0, maxTags),
      ...(Schema.is(Summary)(title) && { summary: title }),
      source: { reference: reference.slice(0, 1_024).toWellFormed() }
    }
  }
}

const isReserved = (tag: string): boolean => tag.trim().toLowerCase() === "instructions"

/** Parses JSON by a schema. */
export const json = <A, I>(schema: Schema.Schema<A, I>, otherwise: string) => {
  const decode = Schema.decodeUnknownEither(Schema.parseJson(schema))
  return (text: string): Either.Either<A, string> =>
    Either.mapLeft(decode(text.replace(/^\ufeff/, "")), () => otherwise)
}

/** Reads a time: an ISO date, or seconds since the epoch. Returns epoch milliseconds, or nothing where it is none. */
export const timeOf = (time: string | number | null | undefined): number | undefined => {
  const millis = typeof time === "number" ? Math.floor(time * 1_000) : typeof time === "string" ? Date.parse(time) : NaN
  return Number.isSafeInteger(millis) && millis >= 0 ? millis : undefined
}

/** Makes a message of what another system kept. */
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
  /** Records that were created. */
  readonly created: number
  /** Records that were there, forgotten ones among them. */
  readonly present: number
  readonly threads: number
  /** Messages that were appended. */
  readonly messages: number
  readonly skipped: ReadonlyArray<Skipped.Skipped>
}

/** Options of `apply`. */
export interface Options {
  /** Runs after each batch with the number of items that are done. */
  readonly onProgress?: ((done: number) => Effect.Effect<void>) | undefined
}

type DraftItem = Extract<Item, { readonly _tag: "Draft" }>
type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Records that are written in one batch, and messages that are appended in one. */
const batch = 100

/**
 * Writes items: records by their own scopes, with origin `import` and trust 2, past the viewer; threads for the viewer. Fails with
 * `unsupported` where the store has no rows of its own or takes no writes.
 */
export const apply = Effect.fn("Foreign.apply")(
  function*(
    store: Service,
    viewer: Viewer.Viewer,
    items: ReadonlyArray<Item>,
    options: Options = {}
  ): Effect.fn.Return<Report, MemoryError.MemoryError> {
    const side = yield* targetOf(store, { unredacted: true }) // `put` redacts
    const { tenant } = viewer
    const skipped = Skipped.make()
    const locks = makeTenantLocks()
    const report = { created: 0, present: 0, threads: 0, messages: 0 }

    const put = (drafts: ReadonlyArray<DraftItem>): Io<void> =>
      Effect.gen(function*() {
        if (drafts.length === 0) return
        const outcome = yield* Effect.either(
          store.put(Viewer.system(tenant), drafts.map(({ draft }) => draft), { origin: "import", trust: 2 })
        )
        if (Either.isRight(outcome)) report.created += drafts.length
        else if (!refusals.has(outcome.left.reason)) return yield* outcome.left
        else if (drafts.length > 1) yield* Effect.forEach(drafts, (draft) => put([draft]), { discard: true })
        else skipped.add(`the store refuses it: ${outcome.left.message.slice(0, 120)}`, drafts[0]!.place) // there is one
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

    const append = ({ messages, name, place }: Extract<Item, { readonly _tag: "Thread" }>) =>
      Effect.gen(function*() {
        if (Viewer.subjectOf(viewer) === "global") {
          return skipped.add("a thread belongs to somebody: name a user", place)
        }
        const rows = yield* ThreadRows.of(store, viewer)
        const { length } = yield* ThreadReads.messages(rows, name, { limit: 1 })
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
        if (item._tag === "Thread") yield* append(item)
      }
      yield* options.onProgress?.(Math.min(items.length, at + batch)) ?? Effect.void
      yield* EventLoop.turn
    }
    return { ...report, skipped: skipped.all() }
  }
)

/** Reasons for which a record is left out, and the rest is written. */
const refusals: ReadonlySet<string> = new Set([
  "invalid_draft",
  "invalid_id",
  "invalid_scope",
  "path_escape",
  "conflict"
])

/** Returns the value as an object of JSON without what JSON cannot hold; nothing where it is none. */
export const objectOf = (value: unknown): Payload.JsonObject | undefined =>
  Option.getOrUndefined(Schema.decodeUnknownOption(Payload.JsonObject)(value))
