/** How a note stands to older ones: to be linked, and what it makes of them. By rule, and what a model says instead. Pure. */
import * as Schema from "effect/Schema"
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { MemoryMutation } from "../../domain/MemoryMutation.ts"
import { byRecency, type MemoryRecord } from "../../domain/MemoryRecord.ts"
import { key } from "../../domain/MemoryScope.ts"
import type { Note } from "../../domain/Payload.ts"
import { shared, similarity } from "./Attributes.ts"

export interface LinkSuggestion {
  readonly to: MemoryId
  readonly type: string
  /** 0..1: suggested from .5, applied from .7. */
  readonly similarity: number
}
export const Change = Schema.Literal("extension", "refinement", "supersession", "contradiction")
export interface Evolution {
  readonly of: MemoryId
  readonly type: typeof Change.Type
  /** Applied by nobody but you: `MemoryStore.apply`. `conflict` where the older note has moved on. */
  readonly mutations: ReadonlyArray<MemoryMutation>
}

export interface Noted {
  readonly record: MemoryRecord
  readonly data: Note
}
/** What a candidate is to the note. `undefined`: it changes nothing about it. */
export interface Relation {
  readonly candidate: Noted
  /** 0..1 */
  readonly similarity: number
  readonly link: string
  readonly change: typeof Change.Type | undefined
}

export const byRule = (note: Noted, candidate: Noted): Relation => {
  const alike = similarity(note.data, candidate.data)
  return {
    candidate,
    similarity: alike,
    link: shared(note.data.entities, candidate.data.entities).length > 0 ? "same_entity" : "related_to",
    change: alike < 0.5 ? undefined : changeOf(note, candidate, alike)
  }
}

/** From .5, at most 5, best first, ties newest first. */
export const suggestions = (relations: ReadonlyArray<Relation>): ReadonlyArray<LinkSuggestion> =>
  relations
    .filter(({ similarity }) => similarity >= 0.5)
    .sort(byLikeness)
    .slice(0, 5)
    .map(({ candidate, link, similarity }) => ({ to: candidate.record.id, type: link, similarity }))

/**
 * Of older notes of the same scope that are no more trusted, best first. What is superseded or contradicted is closed; what
 * is extended or refined speaks of the note.
 */
export const evolution = (
  note: MemoryRecord,
  relations: ReadonlyArray<Relation>,
  now: number
): ReadonlyArray<Evolution> =>
  relations
    .filter(({ candidate: { record } }) =>
      byRecency(note, record) < 0 && key(record.scope) === key(note.scope) && record.source.trust >= note.source.trust
    )
    .sort(byLikeness)
    .flatMap(({ candidate: { record: { id, links, revision } }, change, similarity }): ReadonlyArray<Evolution> => {
      if (change === undefined) return []
      const others = links.filter(({ to, type }) => to !== note.id || type !== change)
      const patch = change === "supersession" || change === "contradiction"
        ? { invalidAt: now, supersededBy: note.id }
        : { links: [...others, { to: note.id, type: change, weight: similarity }] }
      return [{ of: id, type: change, mutations: [{ _tag: "Update", id, patch, ifRevision: revision }] }]
    })

const byLikeness = (a: Relation, b: Relation): number =>
  b.similarity - a.similarity || byRecency(a.candidate.record, b.candidate.record)

const changeOf = (note: Noted, old: Noted, alike: number): typeof Change.Type => {
  if (contradicts(note.record.body, old.record.body)) return "contradiction"
  const [mine, its] = [note.data.keywords, old.data.keywords]
  const both = shared(mine, its).length
  if (mine.length - both > its.length - both + 2) return "extension"
  return alike > 0.8 ? "supersession" : "refinement"
}

/** One of them says no, or they are the same but for their numbers. */
const contradicts = (a: string, b: string): boolean => {
  if (negation.test(a) !== negation.test(b)) return true
  const [mine, its] = [a, b].map((text) => text.match(/\d+(?:[.,]\d+)*/g) ?? [])
  const [words, others] = [a, b].map((text) => text.toLowerCase().replace(/\d+(?:[.,]\d+)*/g, "#").match(/[\p{L}#]+/gu))
  return mine!.join(" ") !== its!.join(" ") && mine!.length === its!.length && words?.join(" ") === others?.join(" ")
}

const negation =
  /(?<!\p{L})(?:no|not|never|none|neither|nobody|nothing|without|cannot|nicht|nie|kein\p{L}*|jamais|nunca)(?!\p{L})|n['’]t(?!\p{L})/iu
