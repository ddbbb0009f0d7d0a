/**
 * Links as a file says them, for Obsidian to follow and a hand to write:
 *
 * ```yaml
 * links:
 *   - to: "[[01J8Z3N5T6V7W8X9Y0ABCDEFGH]]"
 *     type: knows
 *     weight: 0.5
 *   - "[[01J8Z3N5T6V7W8X9Y0ABCDEFGH|Charles]]"        related_to, weight 1
 * ```
 */
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as Wikilink from "../../../domain/Wikilink.ts"

/** `undefined` where there are none. */
export const print = ({ links }: Pick<MemoryRecord, "links">) =>
  links.length === 0 ? undefined : links.map(({ to, type, weight }) => ({ to: `[[${to}]]`, type, weight }))

/** An id with or without its brackets. What is no link is left for the Schema to refuse. */
export const read = (links: unknown): unknown => Array.isArray(links) ? links.map(linkOf) : links ?? []

const linkOf = (link: unknown): unknown => {
  if (typeof link === "string") return { ...defaults, to: targetOf(link) }
  return typeof link === "object" && link !== null && "to" in link
    ? { ...defaults, ...link, to: targetOf(link.to) }
    : link
}

const defaults = { type: "related_to", weight: 1 }

const targetOf = (to: unknown): unknown => typeof to === "string" ? Wikilink.parse(to)[0]?.target ?? to : to
