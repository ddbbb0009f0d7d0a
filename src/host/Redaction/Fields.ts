/** Redacts the fields of drafts and patches, and the strings in JSON. */
import * as Predicate from "effect/Predicate"
import { deriveSummary, type Draft, type Link, type Patch } from "../../domain/MemoryRecord.ts"
import { type Json, maxDepth } from "../../domain/Payload.ts"
import * as PromptText from "../../domain/PromptText.ts"

/** Redacts a text. A value that is not a string is returned unchanged. */
export type Redact = (text: string) => string

/** Puts a text on one line, as summaries are shown. */
export const onOneLine = (text: string): string => text.replace(/\s+/g, " ").trim()

/** Redacts a draft. `redactLine` also finds the secrets that appear when the text is put on one line. */
export const draftOf = (redact: Redact, redactLine: Redact, draft: Draft): Draft => {
  const { actor, reference } = draft.source ?? {}
  return {
    ...redactFields(redact, redactLine, draft),
    ...(draft.source && {
      source: {
        ...draft.source,
        ...(actor !== undefined && { actor: redact(actor) }),
        ...(reference !== undefined && { reference: redact(reference) })
      }
    })
  } as Draft // the cast: redaction keeps the types of the draft's fields
}

/**
 * Redacts the fields that both drafts and patches have. Absent fields stay absent, except the summary. It is set if the store would derive
 * a summary with a secret from the redacted body, such as a card number whose groups are on four lines.
 */
export const redactFields = <A extends Pick<Patch, "summary" | "body" | "tags" | "data" | "metadata" | "links">>(
  redact: Redact,
  redactLine: Redact,
  fields: A
) => {
  const { body: givenBody, data, links, metadata, summary: givenSummary, tags, ...rest } = fields
  const body = givenBody === undefined ? undefined : redact(givenBody)
  const summary = givenSummary === undefined
    ? derivedSummary(redact, body)
    : redactSummary(redact, redactLine, givenSummary, fields)
  return {
    ...rest,
    ...(body !== undefined && { body }),
    ...(summary !== undefined && { summary }),
    ...(tags !== undefined && { tags: json(redact, tags) }),
    ...(data !== undefined && { data: json(redact, data) }),
    ...(metadata !== undefined && { metadata: json(redact, metadata) }),
    ...(links !== undefined && { links: Array.isArray(links) ? links.map((link) => linkOf(redact, link)) : links })
  }
}

/** Returns the redacted summary of a body, or `undefined` if the summary that the store would derive has no secret. */
const derivedSummary = (redact: Redact, body: string | undefined): string | undefined => {
  if (typeof body !== "string") return undefined
  const summary = summarise(redact, body)
  return summary === deriveSummary(body) ? undefined : summary
}

/**
 * Redacts a summary. A summary that was cut may end with a part of a secret, which no pattern matches. If the summary was derived from the
 * body or from a string in `data`, it is therefore derived again from that text after redaction.
 */
const redactSummary = (
  redact: Redact,
  redactLine: Redact,
  summary: string,
  { body, data }: Pick<Patch, "body" | "data">
): string => {
  if (typeof summary !== "string" || !summary.endsWith("…")) return redactLine(summary)
  const texts = stringsIn(data)
  // the summary of a fact is made of several strings
  const source = [...stringsIn(body), ...texts, texts.join(" ")].find((text) => deriveSummary(text) === summary)
  return source === undefined ? redactLine(summary) : summarise(redact, source)
}

/** Derives a summary from a text after redaction of the text's beginning. The beginning is longer than a summary and most secrets in it. */
const summarise = (redact: Redact, text: string): string => {
  const head = onOneLine(text.trimStart().slice(0, 4_096)).slice(0, 400)
  const redacted = redact(head)
  return deriveSummary(redacted === head ? text : redacted)
}

const stringsIn = (value: unknown, depth = 0): ReadonlyArray<string> =>
  typeof value === "string"
    ? [value]
    : typeof value === "object" && value !== null && depth <= maxDepth
    ? Object.values(value).flatMap((within) => stringsIn(within, depth + 1))
    : []

const linkOf = (redact: Redact, link: typeof Link.Type): typeof Link.Type =>
  Predicate.isRecord(link) && typeof link.type === "string" ? { ...link, type: redact(link.type) } : link

/** Redacts the strings in a JSON value, but not the keys. Returns `value` itself if there is nothing to redact. */
export const json = <A extends Json>(redact: Redact, value: A): A => {
  /** `name` is the key of the value, or of the array around the value. */
  const walk = (value: Json, depth: number, name: string): Json => {
    if (typeof value === "string") {
      const redacted = redact(value)
      return redacted === value ? named(redact, name, value) : redacted
    }
    if (typeof value !== "object" || value === null || depth > maxDepth) return value
    if (Array.isArray(value)) {
      const all = value.map((item) => walk(item, depth + 1, name))
      return all.every((item, n) => Object.is(item, value[n])) ? value : all
    }
    const entries = Object.entries(value)
    const all = entries.map(([key, field]) => [key, walk(field, depth + 1, PromptText.reveal(key))] as const)
    return all.every(([, field], n) => Object.is(field, entries[n]![1])) ? value : Object.fromEntries(all)
  }
  return walk(value, 0, "") as A // `walk` replaces strings by strings only
}

/** Redacts a string together with its key (`password="…"`) if the key may name a secret. Some patterns need the key. */
const named = (redact: Redact, key: string, value: string): string => {
  if (!/pass|pwd|secret|token|key|authorization/i.test(key)) return value
  // quotes are tried first, since only a quoted value may contain spaces
  for (const quote of ["\"", ""]) {
    const before = `${key}=${quote}`
    const given = quote === "" ? value : value.replace(/["\\]/g, "\\$&")
    const redacted = redact(before + given + quote)
    const within = redacted.slice(before.length, redacted.length - quote.length)
    const isNamed = redacted.startsWith(before) && redacted.endsWith(quote)
    if (isNamed && within !== given) return quote === "" ? within : within.replace(/\\(["\\])/g, "$1")
  }
  return value
}
