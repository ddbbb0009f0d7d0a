/**
 * Reads folders of Markdown files: notes of Obsidian, or the memory of Claude Code (`CLAUDE.md` and `memory/*.md`). The name of an Obsidian
 * file becomes the summary of its record. So `[[Name]]` in another note links to the record.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Payload from "../domain/Payload.ts"
import * as Frontmatter from "../storage/MemoryStore/Markdown/Frontmatter.ts"
import { type File, type FolderDecoder, type Item, objectOf, record, skip } from "./Foreign.ts"

/**
 * Decodes a folder of Obsidian notes. The tags in the frontmatter of a note become tags of the record. All other fields become metadata.
 * Ignores hidden files and folders, and does not count them as skipped.
 */
export const decodeObsidian: FolderDecoder = (files, context) =>
  files.flatMap((file): ReadonlyArray<Item> => {
    if (/(?:^|\/)\./.test(file.path)) return []
    if (!/\.md$/i.test(file.path)) return [skip("a file that is no note", file.path)]
    const { body, fields, lost } = read(file)
    const { tags, ...metadata } = fields
    if (body.trim() === "" && Object.keys(fields).length === 0) return [skip("an empty note", file.path)]
    return [record({
      system: "obsidian",
      reference: file.path,
      kind: "note",
      summary: nameOf(file.path),
      body,
      tags: tagsOf(tags),
      metadata,
      lost
    }, context)]
  })

/**
 * Decodes the memory of Claude Code: `CLAUDE.md`, `CLAUDE.local.md` and the `.md` files in `memory`. Skips `MEMORY.md`, which only lists
 * the other files. The kind of a record is the `type` in the file's frontmatter: `user`, `feedback`, `project` or `reference` (default).
 * The name (or else the file's name) and the description become the summary. All other fields become metadata, and so does any other
 * `type`. Files in `memory` give the same records whether `memory` or its parent is read.
 */
export const decodeClaudeCode: FolderDecoder = (files, context) =>
  files.flatMap(({ path, text }): ReadonlyArray<Item> => {
    const file = { path: context.folder === "memory" ? `memory/${path}` : path, text }
    if (!/\.md$/i.test(file.path)) return []
    if (/(?:^|\/)MEMORY\.md$/.test(file.path)) return [skip("an index of other files", file.path)]
    const isInstructions = /(?:^|\/)CLAUDE(?:\.local)?\.md$/.test(file.path)
    if (!isInstructions && !/(?:^|\/)memory\/[^]*\.md$/.test(file.path)) return [skip("no file of memory", file.path)]
    const { body, fields, lost } = read(file)
    if (body.trim() === "") return [skip("an empty file", file.path)]
    const { description, name, type } = fields
    const title = typeof name === "string" ? name : nameOf(file.path)
    return [record({
      system: "claude-code",
      reference: file.path,
      kind: typeof type === "string" && kinds.has(type) ? type : "reference",
      summary: (typeof description === "string" ? `${title}: ${description}` : title).slice(0, 200),
      body,
      tags: isInstructions ? ["CLAUDE.md"] : [],
      metadata: Object.fromEntries(Object.entries(fields).filter(([key, value]) => !isUsed(key, value))),
      lost
    }, context)]
  })

const kinds: ReadonlySet<string> = new Set(["user", "feedback", "project", "reference"])

/** Whether a field of the frontmatter is in the kind or the summary of its record. */
const isUsed = (key: string, value: unknown): boolean =>
  typeof value === "string" && (key === "name" || key === "description" || (key === "type" && kinds.has(value)))

const nameOf = (path: string): string => path.replace(/^.*\//s, "").replace(/\.md$/i, "").slice(0, 200)

const Tags = Schema.Union(Schema.Array(Schema.Unknown), Schema.String)
const tagsOf = (value: unknown): ReadonlyArray<string> => {
  if (!Schema.is(Tags)(value)) return []
  const all = typeof value === "string" ? value.split(/[\s,]+/) : value.filter((tag) => typeof tag === "string")
  return all.map((tag) => tag.replace(/^#/, "")).filter((tag) => tag !== "")
}

interface Note {
  readonly fields: Payload.JsonObject
  readonly body: string
  readonly lost: ReadonlyArray<string>
}

/** Splits a note into the fields of the frontmatter and the body. Invalid frontmatter stays in the body, and is named in `lost`. */
const read = ({ text }: File): Note => {
  const whole = text.replace(/^\ufeff/, "").toWellFormed()
  const [all, yaml] = /^---\r?\n([^]*?)\r?\n---[^\S\n]*(?:\n|$)/.exec(whole) ?? []
  if (all === undefined || yaml === undefined) return { fields: {}, body: whole, lost: [] }
  const parsed = yaml.length > longestFrontmatter ? Option.none() : Either.getRight(Frontmatter.yaml(yaml))
  return Option.match(Option.flatMapNullable(parsed, objectOf), {
    onNone: () => ({ fields: {}, body: whole, lost: ["a frontmatter that cannot be read, which stays in the text"] }),
    onSome: (fields) => ({ fields, body: whole.slice(all.length), lost: [] })
  })
}

/** Largest length of a frontmatter that is parsed, in UTF-16 units. */
const longestFrontmatter = 65_536
