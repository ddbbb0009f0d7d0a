/**
 * Notes that know their neighbours (A-MEM; Xu et al., 2025). By rule without a `Completion`, better with one: where the
 * model fails a warning is logged and the rules decide. Nothing is linked or changed unless you say so. Longer than other
 * files, since its eight operations share what they ask of the store.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryFilter, MemoryQuery } from "../domain/MemoryFilter.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { MemoryMutation } from "../domain/MemoryMutation.ts"
import { byRecency, embeddingText, Link, Unit } from "../domain/MemoryRecord.ts"
import type * as Payload from "../domain/Payload.ts"
import type * as Viewer from "../domain/Viewer.ts"
import { Completion } from "../host/Completion.ts"
import { check } from "../storage/Check.ts"
import { type IfRevision, MemoryStore } from "../storage/MemoryStore.ts"
import * as Asking from "./AgenticMemory/Asking.ts"
import { type Attributes, attributesOf, shared, subjects } from "./AgenticMemory/Attributes.ts"
import * as Judgement from "./AgenticMemory/Judgement.ts"
import { type DraftOf, make as typed, type PatchOf, type Typed } from "./TypedMemory.ts"

export type Note = Payload.Note
export type { Attributes }
export type Evolution = Judgement.Evolution
export type LinkSuggestion = Judgement.LinkSuggestion
export interface Stored extends Typed<Note> {
  /** At most 5, best first. */
  readonly suggestions: ReadonlyArray<LinkSuggestion>
  readonly evolution: ReadonlyArray<Evolution>
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** An id that is no visible note's is `not_found`. */
export interface Service {
  /** What a text is about: at most 10 keywords, 5 tags, 10 entities, and a context of 200 characters. Writes nothing. */
  readonly attributes: (text: string) => Effect.Effect<Attributes>
  /** With its attributes; the tags after the note's own. */
  readonly store: (viewer: Viewer.Any, note: Omit<DraftOf<Note>, "data">) => Io<Stored>
  /** A plain note's attributes are those of the rules, and not written. */
  readonly get: (viewer: Viewer.Any, id: MemoryId) => Io<Option.Option<Typed<Note>>>
  /** Of the 100 notes that match it best and the 100 newest: at most 5, from .5, best first. */
  readonly suggestLinks: (viewer: Viewer.Any, id: MemoryId) => Io<ReadonlyArray<LinkSuggestion>>
  /** Both ways, those from .7 whose note is there; all of them or none. Those applied. */
  readonly link: (
    viewer: Viewer.Any,
    id: MemoryId,
    suggestions: ReadonlyArray<LinkSuggestion>
  ) => Io<ReadonlyArray<LinkSuggestion>>
  /** Of the 50 that match it best and the 50 newest. What it makes of older notes of its scope, best first. */
  readonly evolution: (viewer: Viewer.Any, id: MemoryId) => Io<ReadonlyArray<Evolution>>
  /** From its text as it stands, hand edits included. Tags that are no subject of ours stay. */
  readonly refreshAttributes: (viewer: Viewer.Any, id: MemoryId) => Io<Stored>
  /** Of the 200 that match it best and the 200 newest: those that share most first, then newest. */
  readonly findByShared: (
    viewer: Viewer.Any,
    id: MemoryId,
    attribute: "keywords" | "tags" | "entities"
  ) => Io<ReadonlyArray<Typed<Note>>>
}

export class AgenticMemory extends Context.Tag("@memory/AgenticMemory")<AgenticMemory, Service>() {}

/** Notes in a store, each with all of its attributes. */
interface Notes {
  readonly put: (viewer: Viewer.Any, note: DraftOf<Note>) => Io<Typed<Note>>
  readonly get: Service["get"]
  readonly list: (viewer: Viewer.Any, filter: Omit<MemoryFilter, "kinds">) => Io<ReadonlyArray<Typed<Note>>>
  readonly search: (viewer: Viewer.Any, query: Omit<MemoryQuery, "kinds">) => Io<ReadonlyArray<Typed<Note>>>
  readonly update: (
    viewer: Viewer.Any,
    id: MemoryId,
    patch: PatchOf<Note>,
    options: IfRevision
  ) => Io<Typed<Note>>
}

/** What is looked through, at most, by relevance and by recency each. */
const windows = { link: 100, evolution: 50, shared: 200 }
/** Notes that a model is shown at once. */
const shown = 10

const Suggestions = Schema.Struct({
  suggestions: Schema.Array(Schema.Struct({ to: MemoryId, type: Link.fields.type, similarity: Unit }))
})

export const make: Effect.Effect<Service, never, MemoryStore> = Effect.gen(function*() {
  const store = yield* MemoryStore
  const plain = yield* typed(MemoryKind.note)
  const notes: Notes = {
    put: (viewer, note) => Effect.map(plain.put(viewer, note), complete),
    get: (viewer, id) => Effect.map(plain.get(viewer, id), Option.map(complete)),
    list: (viewer, filter) => Effect.map(plain.list(viewer, filter), Arr.map(complete)),
    search: (viewer, query) => Effect.map(plain.search(viewer, query), Arr.map(complete)),
    update: (viewer, id, patch, options) => Effect.map(plain.update(viewer, id, patch, options), complete)
  }
  const completion = yield* Effect.serviceOption(Completion)

  /** The model's answer, or that of the rules. */
  const better = <A>(rules: A, ask: (model: typeof Completion.Service) => Io<A>): Effect.Effect<A> =>
    Option.match(completion, {
      onNone: () => Effect.succeed(rules),
      onSome: (model) =>
        Effect.catchAll(ask(model), (error) => Effect.as(Effect.logWarning("notes are judged by rule", error), rules))
    })

  const attributes = (text: string) => {
    const rules = attributesOf(text)
    return better(
      rules,
      (model) =>
        Effect.map(model.object(Asking.Described, Asking.describe(text)), (said) => Asking.attributesIn(said, rules))
    )
      .pipe(Effect.withSpan("AgenticMemory.attributes"))
  }

  const require = (op: string, viewer: Viewer.Any, id: MemoryId) =>
    Effect.flatMap(
      notes.get(viewer, id),
      Option.match({
        onNone: () => MemoryError.make("not_found", { op, id, message: "there is no such note" }),
        onSome: Effect.succeed
      })
    )

  /** The best matches first, then the newest; the note itself not among them. */
  const candidates = (viewer: Viewer.Any, { entities, keywords }: Note, limit: number, self?: MemoryId) =>
    Effect.gen(function*() {
      const text = [...keywords, ...entities].join(" ")
      const found = yield* notes.search(viewer, { text, limit })
      const newest = yield* notes.list(viewer, { limit })
      const all = new Map([...found, ...newest].map(({ data, record }) => [record.id, { data, record }]))
      return Array.from(all.values()).filter(({ record }) => record.id !== self)
    })

  const relations = (note: Typed<Note>, all: ReadonlyArray<Typed<Note>>) => {
    const rules = all.map((candidate) => Judgement.byRule(note, candidate))
    const best = rules.slice().sort((a, b) => b.similarity - a.similarity).slice(0, shown)
      .map(({ candidate }) => candidate)
    const text = embeddingText(note.record)
    return best.length === 0 ?
      Effect.succeed(rules) :
      better(
        rules,
        (model) =>
          Effect.map(
            model.object(Asking.Judged, Asking.judge(text, best)),
            (said) => Asking.relationsIn(said, best, rules)
          )
      )
  }

  const judged = (note: Typed<Note>, all: ReadonlyArray<Typed<Note>>, near: ReadonlyArray<Typed<Note>>) =>
    Effect.gen(function*() {
      const found = yield* relations(note, all)
      const isNear = new Set(near.map(({ record }) => record.id))
      return {
        ...note,
        suggestions: Judgement.suggestions(found),
        evolution: Judgement.evolution(
          note.record,
          found.filter(({ candidate }) => isNear.has(candidate.record.id)),
          yield* Clock.currentTimeMillis
        )
      } satisfies Stored
    })
  const judgedById = (viewer: Viewer.Any, note: Typed<Note>) =>
    Effect.gen(function*() {
      const all = yield* candidates(viewer, note.data, windows.link, note.record.id)
      return yield* judged(note, all, yield* candidates(viewer, note.data, windows.evolution, note.record.id))
    })

  return {
    attributes,
    store: (viewer, note) =>
      Effect.gen(function*() {
        const { tags, ...data } = yield* attributes(textOf(note))
        // before it is there: a note that says the same would be folded into it
        const all = yield* candidates(viewer, data, windows.link, note.id)
        const near = yield* candidates(viewer, data, windows.evolution, note.id)
        const put = yield* notes.put(viewer, { ...note, data, tags: united(note.tags ?? [], tags) })
        return yield* judged(put, all, near)
      }).pipe(Effect.withSpan("AgenticMemory.store")),
    get: notes.get,
    suggestLinks: (viewer, id) =>
      Effect.flatMap(require("suggestLinks", viewer, id), (note) => judgedById(viewer, note)).pipe(
        Effect.map(({ suggestions }) => suggestions),
        Effect.withSpan("AgenticMemory.suggestLinks")
      ),
    link: (viewer, id, suggestions) =>
      Effect.gen(function*() {
        yield* check("link", Suggestions, { suggestions })
        const { record } = yield* require("link", viewer, id)
        const wanted = new Map(
          suggestions.filter(({ similarity, to }) => similarity >= 0.7 && to !== id)
            .map((one) => [JSON.stringify([one.to, one.type]), one])
        )
        const ends = yield* Effect.forEach(wanted.values(), (one) =>
          Effect.map(notes.get(viewer, one.to), Option.map(({ record }) => ({ ...one, record }))))
        const applied = ends.flatMap(Option.toArray)
        const linked = (from: typeof record, links: typeof record.links): MemoryMutation => ({
          _tag: "Update",
          id: from.id,
          patch: {
            links: [
              ...from.links.filter(({ to, type }) =>
                !links.some((link) => link.to === to && link.type === type)
              ),
              ...links
            ]
          },
          ifRevision: from.revision
        })
        const toLink = (to: MemoryId, { similarity, type }: LinkSuggestion) => ({ to, type, weight: similarity })
        const others = new Map(applied.map(({ record }) => [record.id, record]))
        const mutations = Array.from(others.values(), (other) =>
          linked(other, applied.filter(({ to }) => to === other.id).map((one) => toLink(id, one))))
        if (mutations.length > 0) {
          yield* store.apply(viewer, [
            linked(
              record,
              applied.map((one) =>
                toLink(one.to, one)
              )
            ),
            ...mutations
          ])
        }
        return applied.map(({ similarity, to, type }) => ({ to, type, similarity }))
      }).pipe(
        Effect.retry({ while: ({ reason }) => reason === "conflict" }),
        Effect.withSpan("AgenticMemory.link")
      ),
    evolution: (viewer, id) =>
      Effect.flatMap(require("evolution", viewer, id), (note) => judgedById(viewer, note)).pipe(
        Effect.map(({ evolution }) => evolution),
        Effect.withSpan("AgenticMemory.evolution")
      ),
    refreshAttributes: (viewer, id) =>
      Effect.gen(function*() {
        const { record } = yield* require("refreshAttributes", viewer, id)
        const { tags, ...data } = yield* attributes(embeddingText(record))
        const own = record.tags.filter((tag) => !subjects.includes(tag))
        const patch = { data: { ...record.data, ...data }, tags: united(own, tags) }
        return yield* notes.update(viewer, id, patch, { ifRevision: record.revision })
      }).pipe(
        Effect.retry({ while: ({ reason }) => reason === "conflict" }),
        Effect.flatMap((note) => judgedById(viewer, note)),
        Effect.withSpan("AgenticMemory.refreshAttributes")
      ),
    findByShared: (viewer, id, attribute) =>
      Effect.gen(function*() {
        const note = yield* require("findByShared", viewer, id)
        const wanted = valuesOf(note, attribute)
        if (wanted.length === 0) return []
        const all = attribute === "tags"
          ? yield* notes.list(viewer, { tags: wanted, limit: windows.shared })
          : yield* candidates(viewer, note.data, windows.shared)
        return all
          .filter(({ record }) => record.id !== id)
          .map((one) => ({ one, count: shared(wanted, valuesOf(one, attribute)).length }))
          .filter(({ count }) => count > 0)
          .sort((a, b) => b.count - a.count || byRecency(a.one.record, b.one.record))
          .map(({ one }) => one)
      }).pipe(Effect.withSpan("AgenticMemory.findByShared"))
  }
})

export const layer: Layer.Layer<AgenticMemory, never, MemoryStore> = Layer.effect(AgenticMemory, make)

/** The attributes that a plain note lacks, by rule. Nothing is written: `refreshAttributes` adds them for good. */
const complete = ({ data, record }: Typed<{ readonly [K in keyof Note]?: Note[K] | undefined }>): Typed<Note> => {
  const { context, entities, keywords } = data
  if (context !== undefined && entities !== undefined && keywords !== undefined) {
    return { record, data: { ...data, context, entities, keywords } }
  }
  const { tags: _, ...rules } = attributesOf(embeddingText(record))
  return {
    record,
    data: {
      ...data,
      context: context ?? rules.context,
      entities: entities ?? rules.entities,
      keywords: keywords ?? rules.keywords
    }
  }
}

const textOf = ({ body, summary }: Pick<DraftOf<Note>, "body" | "summary">): string =>
  embeddingText({ summary: summary ?? "", summaryDerived: summary === undefined ? true : undefined, body })

const valuesOf = ({ data, record }: Typed<Note>, attribute: "keywords" | "tags" | "entities") =>
  attribute === "tags" ? record.tags : data[attribute]

/** The first go before the others; as many as a record may have. */
const united = (tags: ReadonlyArray<string>, others: ReadonlyArray<string>): ReadonlyArray<string> =>
  Array.from(new Set([...tags, ...others])).slice(0, Math.max(32, tags.length))
