/** What is recalled, as text for a model. */
import type { Episode, Reflection } from "../../domain/Payload.ts"
import * as PromptText from "../../domain/PromptText.ts"
import type { Typed } from "../TypedMemory.ts"
import { talk } from "./Source.ts"

export interface Sections {
  readonly episodic: ReadonlyArray<Typed<Episode>>
  readonly semantic: ReadonlyArray<Typed<Episode>>
  readonly reflections: ReadonlyArray<Typed<Reflection>>
}

/**
 * Seed 0: the four sections of a recall, escaped, a line each, between our marks; `""` where there are none. A text of more
 * than 1,000 UTF-16 units is cut, and marked `…`.
 *
 * ```text
 * <memory>
 * Recent conversations:
 * - [2026-01-01T00:00:00.000Z] ada: the lake — Ada: I swam. (V:0.40 A:0.00 importance:0.60)
 *
 * Recent events:
 * - [2026-01-01T00:00:00.000Z] [gift] ada: a mug (importance:0.50)
 *
 * Related past experiences:
 * Your recent self-reflections:
 * - I am fond of her.
 * </memory>
 * ```
 */
export const buildMemoryBlock = ({ episodic, reflections, semantic }: Sections): string => {
  const sections = [
    section("Recent conversations:", episodic.filter((episode) => !isEvent(episode)).map(episodeLine)),
    section("Recent events:", episodic.filter(isEvent).map(episodeLine)),
    section("Related past experiences:", semantic.map(episodeLine)),
    section("Your recent self-reflections:", reflections.map(({ record }) => `- ${text(record.body)}`))
  ].filter((section) => section !== "")
  return sections.length === 0 ? "" : [PromptText.open, sections.join("\n\n"), PromptText.close].join("\n")
}

export const isEvent = ({ data: { type = talk } }: Typed<Episode>): boolean => type !== talk

const section = (heading: string, lines: ReadonlyArray<string>): string =>
  lines.length === 0 ? "" : [heading, ...lines].join("\n")

const episodeLine = (episode: Typed<Episode>): string => {
  const { data: { context = "", emotion, type }, record: { body, importance, scope, validAt } } = episode
  const entity = scope === "global" ? "unknown" : scope.actorId ?? "unknown"
  const about = [body.startsWith(context) ? "" : context, body].filter((part) => part.trim() !== "").join(" — ")
  const felt = emotion === undefined ? "" : `V:${emotion.V.toFixed(2)} A:${emotion.A.toFixed(2)} `
  return [
    `- [${new Date(Math.min(validAt, latest)).toISOString()}]`,
    ...(isEvent(episode) ? [`[${text(type ?? "")}]`] : []),
    `${text(entity)}:`,
    text(about) || "no context",
    `(${felt}importance:${importance.toFixed(2)})`
  ].join(" ")
}

const text = (all: string): string => PromptText.line(all.length > 1_000 ? `${all.slice(0, 999).toWellFormed()}…` : all)

/** The last millisecond that has a date. */
const latest = 8.64e15
