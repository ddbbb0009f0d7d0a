/**
 * Notes with attributes, suggested links and suggested changes of older notes (A-MEM; Xu et al., 2025).
 *
 * Fixed rules make the suggestions. If the context has a `Completion`, its model improves them. If the model fails, a warning is logged,
 * and the suggestions of the rules are returned. Suggestions take effect only when the caller applies them. All operations on a stored
 * note, except `get`, fail with `not_found` if the viewer does not see the note.
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
import { byRecency, embeddingText, Link, type MemoryRecord, Unit } from "../domain/MemoryRecord.ts"
import type * as Payload from "../domain/Payload.ts"
import { check } from "../domain/Validation.ts"
import type * as Viewer from "../domain/Viewer.ts"
import * as Completion from "../host/Completion.ts"
import * as Redaction from "../host/Redaction.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as NoteAnalysis from "./AgenticMemory/NoteAnalysis.ts"
import type { Attributes, Evolution, LinkSuggestion } from "./AgenticMemory/NoteAnalysis.ts"
import * as TypedMemory from "./TypedMemory.ts"

/** The `data` of a note. */
export type Note = Payload.Note
export type { Attributes, Evolution, LinkSuggestion } from "./AgenticMemory/NoteAnalysis.ts"

/** A stored note, with suggestions of links to other notes and of changes of older notes. */
export interface Stored extends TypedMemory.Typed<Note> {
  /** Suggested links: at most 5, best first. */
  readonly suggestions: ReadonlyArray<LinkSuggestion>
  /** Suggested changes of older notes, best first. They have not been applied. */
  readonly evolution: ReadonlyArray<Evolution>
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Operations of `AgenticMemory`. */
export interface Service {
  /**
   * Derives attributes from a redacted text, without storing them: at most 10 keywords, 5 tags, 10 entities and a `context` of 200
   * characters. If the redaction fails, a warning is logged, and the attributes are empty.
   */
  readonly attributes: (text: string) => Effect.Effect<Attributes>
  /** Stores a note with attributes derived from its text. The derived tags follow the tags of the draft. */
  readonly store: (
    viewer: Viewer.Any,
    note: Omit<TypedMemory.DraftOf<Note>, "data">
  ) => Effect.Effect<Stored, MemoryError.MemoryError>
  /** Returns a note. Attributes that the stored note lacks are derived by rule, but not stored. */
  readonly get: (
    viewer: Viewer.Any,
    id: MemoryId
  ) => Effect.Effect<Option.Option<TypedMemory.Typed<Note>>, MemoryError.MemoryError>
  /**
   * Suggests links from the note `id` to other notes: at most 5, best first, each with a similarity of 0.5 or more. The note `id` is
   * compared with the 100 best matches of a search for its keywords and entities, and with the 100 newest notes.
   */
  readonly suggestLinks: (
    viewer: Viewer.Any,
    id: MemoryId
  ) => Effect.Effect<ReadonlyArray<LinkSuggestion>, MemoryError.MemoryError>
  /**
   * Applies each suggestion with a similarity of 0.7 or more, if the viewer sees the suggested note. Returns the applied suggestions. Each
   * of them adds a link to the suggested note, and a link back. All links are added in one batch. If the batch fails, no link is added.
   */
  readonly link: (
    viewer: Viewer.Any,
    id: MemoryId,
    suggestions: ReadonlyArray<LinkSuggestion>
  ) => Effect.Effect<ReadonlyArray<LinkSuggestion>, MemoryError.MemoryError>
  /**
   * Suggests how older notes in the same scope should change because of the note `id`, best first. Writes nothing. The note `id` is
   * compared with the 50 best matches of a search and with the 50 newest notes.
   */
  readonly evolution: (
    viewer: Viewer.Any,
    id: MemoryId
  ) => Effect.Effect<ReadonlyArray<Evolution>, MemoryError.MemoryError>
  /**
   * Derives the attributes from the note's current text and stores them, for example after a person has edited the text. Derived tags
   * replace those of the note's tags that can be derived. Other tags stay.
   */
  readonly refreshAttributes: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<Stored, MemoryError.MemoryError>
  /**
   * Returns the notes that share values of an attribute with the note `id`: most shared values first, then newest first. For `tags`, the
   * note `id` is compared with the 200 newest notes that have one of its tags. For another attribute, the note `id` is compared with the
   * 200 best matches of a search and with the 200 newest notes.
   */
  readonly findByShared: (
    viewer: Viewer.Any,
    id: MemoryId,
    attribute: "keywords" | "tags" | "entities"
  ) => Effect.Effect<ReadonlyArray<TypedMemory.Typed<Note>>, MemoryError.MemoryError>
}

/** Tag of the service for notes and their links. */
export class AgenticMemory extends Context.Tag("@memory/AgenticMemory")<AgenticMemory, Service>() {}

/** Makes the service over the `MemoryStore` in the context. Uses the `Completion` if the context has one. */
export const make: Effect.Effect<Service, never, MemoryStore.MemoryStore> = Effect.gen(function*() {
  const store = yield* MemoryStore.MemoryStore
  const redaction = yield* Redaction.over(store)
  const plain = yield* TypedMemory.make(MemoryKind.note)
  const within: Notes = {
    store,
    redaction,
    put: (viewer, note) => Effect.map(plain.put(viewer, note), complete),
    get: (viewer, id) => Effect.map(plain.get(viewer, id), Option.map(complete)),
    list: (viewer, filter) => Effect.map(plain.list(viewer, filter), Arr.map(complete)),
    search: (viewer, query) => Effect.map(plain.search(viewer, query), Arr.map(complete)),
    update: (viewer, id, patch, options) => Effect.map(plain.update(viewer, id, patch, options), complete),
    completion: Option.map(
      yield* Effect.serviceOption(Completion.Completion),
      (model) => Redaction.completion(redaction, model)
    )
  }
  const judgedById = (op: string, viewer: Viewer.Any, id: MemoryId) =>
    Effect.flatMap(requireNote(within, op, viewer, id), (note) => judgedAnew(within, viewer, note))

  return {
    attributes: (text) =>
      Effect.catchAll(
        attributesBy(within, text),
        (error) => Effect.as(Effect.logWarning("a text without attributes", error), NoteAnalysis.attributesOf(""))
      ),
    store: (viewer, note) => Effect.withSpan(storeNote(within, viewer, note), "AgenticMemory.store"),
    get: within.get,
    suggestLinks: (viewer, id) =>
      judgedById("suggestLinks", viewer, id).pipe(
        Effect.map(({ suggestions }) => suggestions),
        Effect.withSpan("AgenticMemory.suggestLinks")
      ),
    link: (viewer, id, suggestions) =>
      link(within, viewer, id, suggestions).pipe(
        MemoryError.retryOnConflict,
        Effect.withSpan("AgenticMemory.link")
      ),
    evolution: (viewer, id) =>
      judgedById("evolution", viewer, id).pipe(
        Effect.map(({ evolution }) => evolution),
        Effect.withSpan("AgenticMemory.evolution")
      ),
    refreshAttributes: (viewer, id) =>
      refresh(within, viewer, id).pipe(
        MemoryError.retryOnConflict,
        Effect.flatMap((note) => judgedAnew(within, viewer, note)),
        Effect.withSpan("AgenticMemory.refreshAttributes")
      ),
    findByShared: (viewer, id, attribute) =>
      Effect.withSpan(findByShared(within, viewer, id, attribute), "AgenticMemory.findByShared")
  }
})

/** Provides `AgenticMemory` over a `MemoryStore`. */
export const layer: Layer.Layer<AgenticMemory, never, MemoryStore.MemoryStore> = Layer.effect(AgenticMemory, make)

/** The notes of a store, and the model that judges the notes, if there is one. */
interface Notes {
  readonly store: MemoryStore.Service
  readonly redaction: Redaction.Service | undefined
  readonly put: (viewer: Viewer.Any, note: DraftOf) => Io<Typed>
  readonly get: Service["get"]
  readonly list: (viewer: Viewer.Any, filter: Omit<MemoryFilter, "kinds">) => Io<ReadonlyArray<Typed>>
  readonly search: (viewer: Viewer.Any, query: Omit<MemoryQuery, "kinds">) => Io<ReadonlyArray<Typed>>
  readonly update: (
    viewer: Viewer.Any,
    id: MemoryId,
    patch: TypedMemory.PatchOf<Note>,
    options: MemoryStore.IfRevision
  ) => Io<Typed>
  readonly completion: Option.Option<Completion.Service>
}
type Typed = TypedMemory.Typed<Note>
type DraftOf = TypedMemory.DraftOf<Note>

/** Largest number of search results that an operation compares with a note. The same limit holds for the newest notes. */
const windows = { link: 100, evolution: 50, shared: 200 }
/** Largest number of notes with which a model compares a note in one prompt. */
const shown = 10

/** Returns the result of `ask`, or `rules` if there is no model or `ask` fails. A failure is logged as a warning. */
const better = <A>({ completion }: Notes, rules: A, ask: (model: Completion.Service) => Io<A>): Effect.Effect<A> =>
  Option.match(completion, {
    onNone: () => Effect.succeed(rules),
    onSome: (model) =>
      Effect.catchAll(ask(model), (error) => Effect.as(Effect.logWarning("notes are judged by rule", error), rules))
  })

/** Derives attributes from the redacted text. A keyword or entity that was cut out of a secret would not be found by any pattern. */
const attributesBy = (within: Notes, given: string): Io<Attributes> =>
  Effect.gen(function*() {
    const text = yield* Redaction.redactSource(within.redaction, given)
    const rules = NoteAnalysis.attributesOf(text)
    const ask = (model: Completion.Service) =>
      Effect.map(
        model.object(NoteAnalysis.Described, NoteAnalysis.describe(text)),
        (answer) => NoteAnalysis.attributesIn(answer, rules)
      )
    return yield* better(within, rules, ask)
  }).pipe(Effect.withSpan("AgenticMemory.attributes"))

const requireNote = ({ get }: Notes, op: string, viewer: Viewer.Any, id: MemoryId) =>
  Effect.flatMap(
    get(viewer, id),
    Option.match({
      onNone: () => MemoryError.make("not_found", { op, id, message: "there is no such note" }),
      onSome: Effect.succeed
    })
  )

/** Returns notes to compare with a note: the best matches of a search, then the newest notes. Leaves out the note `self`. */
const candidates = (
  { list, search }: Notes,
  viewer: Viewer.Any,
  { entities, keywords }: Note,
  limit: number,
  self?: MemoryId
) =>
  Effect.gen(function*() {
    const text = [...keywords, ...entities].join(" ")
    const found = yield* search(viewer, { text, limit })
    const newest = yield* list(viewer, { limit })
    const all = new Map([...found, ...newest].map(({ data, record }) => [record.id, { data, record }]))
    return Array.from(all.values()).filter(({ record }) => record.id !== self)
  })

/** Returns how each note in `all` relates to `note`, by rule. A model, if there is one, judges the most similar notes. */
const relations = (within: Notes, note: Typed, all: ReadonlyArray<Typed>) => {
  const rules = all.map((candidate) => NoteAnalysis.byRule(note, candidate))
  const best = rules.slice().sort((a, b) => b.similarity - a.similarity).slice(0, shown)
    .map(({ candidate }) => candidate)
  const ask = (model: Completion.Service) =>
    Effect.map(
      model.object(NoteAnalysis.Judged, NoteAnalysis.judge(embeddingText(note.record), best)),
      (answer) => NoteAnalysis.relationsIn(answer, best, rules)
    )
  return best.length === 0
    ? Effect.succeed(rules)
    : better<ReadonlyArray<NoteAnalysis.Relation>>(within, rules, ask)
}

/** Returns a note with suggested links to notes in `all`, and suggested changes of notes in `near`. */
const judged = (within: Notes, note: Typed, all: ReadonlyArray<Typed>, near: ReadonlyArray<Typed>) =>
  Effect.gen(function*() {
    const found = yield* relations(within, note, all)
    const isNear = new Set(near.map(({ record }) => record.id))
    return {
      ...note,
      suggestions: NoteAnalysis.suggestions(found),
      evolution: NoteAnalysis.evolution(
        note.record,
        found.filter(({ candidate }) => isNear.has(candidate.record.id)),
        yield* Clock.currentTimeMillis
      )
    } satisfies Stored
  })

const judgedAnew = (within: Notes, viewer: Viewer.Any, note: Typed) =>
  Effect.gen(function*() {
    const all = yield* candidates(within, viewer, note.data, windows.link, note.record.id)
    const near = yield* candidates(within, viewer, note.data, windows.evolution, note.record.id)
    return yield* judged(within, note, all, near)
  })

const storeNote = (within: Notes, viewer: Viewer.Any, note: Omit<DraftOf, "data">) =>
  Effect.gen(function*() {
    const { tags, ...data } = yield* attributesBy(within, textOf(note))
    // the new note is stored after the searches, which could otherwise return it in place of a note with nearly the same text
    const all = yield* candidates(within, viewer, data, windows.link, note.id)
    const near = yield* candidates(within, viewer, data, windows.evolution, note.id)
    const put = yield* within.put(viewer, { ...note, data, tags: united(note.tags ?? [], tags) })
    return yield* judged(within, put, all, near)
  })

const link = (within: Notes, viewer: Viewer.Any, id: MemoryId, suggestions: ReadonlyArray<LinkSuggestion>) =>
  Effect.gen(function*() {
    yield* check("link", Suggestions, { suggestions })
    const { record } = yield* requireNote(within, "link", viewer, id)
    const wanted = new Map(
      suggestions.filter(({ similarity, to }) => similarity >= 0.7 && to !== id)
        .map((one) => [JSON.stringify([one.to, one.type]), one])
    )
    const ends = yield* Effect.forEach(
      wanted.values(),
      (one) => Effect.map(within.get(viewer, one.to), Option.map(({ record }) => ({ ...one, record })))
    )
    const applied = ends.flatMap(Option.toArray)
    const toLink = (to: MemoryId, { similarity, type }: LinkSuggestion) => ({ to, type, weight: similarity })
    const others = new Map(applied.map(({ record }) => [record.id, record]))
    const mutations = Array.from(
      others.values(),
      (other) => linked(other, applied.filter(({ to }) => to === other.id).map((one) => toLink(id, one)))
    )
    if (mutations.length > 0) {
      const links = applied.map((one) => toLink(one.to, one))
      yield* within.store.apply(viewer, [linked(record, links), ...mutations])
    }
    return applied.map(({ similarity, to, type }) => ({ to, type, similarity }))
  })

const Suggestions = Schema.Struct({
  suggestions: Schema.Array(Schema.Struct({ to: MemoryId, type: Link.fields.type, similarity: Unit }))
})

/** Returns the mutation that adds links to a record. An added link replaces an old link with the same target and type. */
const linked = (from: MemoryRecord, links: MemoryRecord["links"]): MemoryMutation => ({
  _tag: "Update",
  id: from.id,
  patch: {
    links: [
      ...from.links.filter(({ to, type }) => !links.some((link) => link.to === to && link.type === type)),
      ...links
    ]
  },
  ifRevision: from.revision
})

const refresh = (within: Notes, viewer: Viewer.Any, id: MemoryId) =>
  Effect.gen(function*() {
    const { record } = yield* requireNote(within, "refreshAttributes", viewer, id)
    const { tags, ...data } = yield* attributesBy(within, embeddingText(record))
    const own = record.tags.filter((tag) => !NoteAnalysis.subjects.includes(tag))
    const patch = { data: { ...record.data, ...data }, tags: united(own, tags) }
    return yield* within.update(viewer, id, patch, { ifRevision: record.revision })
  })

const findByShared = (within: Notes, viewer: Viewer.Any, id: MemoryId, attribute: "keywords" | "tags" | "entities") =>
  Effect.gen(function*() {
    const note = yield* requireNote(within, "findByShared", viewer, id)
    const wanted = valuesOf(note, attribute)
    if (wanted.length === 0) return []
    const all = attribute === "tags"
      ? yield* within.list(viewer, { tags: wanted, limit: windows.shared })
      : yield* candidates(within, viewer, note.data, windows.shared)
    return all
      .filter(({ record }) => record.id !== id)
      .map((one) => ({ one, count: NoteAnalysis.shared(wanted, valuesOf(one, attribute)).length }))
      .filter(({ count }) => count > 0)
      .sort((a, b) => b.count - a.count || byRecency(a.one.record, b.one.record))
      .map(({ one }) => one)
  })

/** Fills in the missing attributes of a note by rule. Does not store them. */
const complete = (
  { data, record }: TypedMemory.Typed<{ readonly [K in keyof Note]?: Note[K] | undefined }>
): Typed => {
  const { context, entities, keywords } = data
  if (context !== undefined && entities !== undefined && keywords !== undefined) {
    return { record, data: { ...data, context, entities, keywords } }
  }
  const { tags: _, ...rules } = NoteAnalysis.attributesOf(embeddingText(record))
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

const textOf = ({ body, summary }: Pick<DraftOf, "body" | "summary">): string =>
  embeddingText({ summary: summary ?? "", summaryDerived: summary === undefined ? true : undefined, body })

const valuesOf = ({ data, record }: Typed, attribute: "keywords" | "tags" | "entities") =>
  attribute === "tags" ? record.tags : data[attribute]

/** Returns the tags of both lists without repetitions, the first list first. The limit is 32 tags, or the length of `tags` if greater. */
const united = (tags: ReadonlyArray<string>, others: ReadonlyArray<string>): ReadonlyArray<string> =>
  Array.from(new Set([...tags, ...others])).slice(0, Math.max(32, tags.length))
