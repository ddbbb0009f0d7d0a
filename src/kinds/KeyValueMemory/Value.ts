/** A value as a record holds it: text is the body; anything else is data, and the body its words, for a search. */
import type * as Payload from "../../domain/Payload.ts"

/** As much as a body takes, UTF-16 units. */
const room = 65_536

export const write = (
  value: Payload.Json
): { readonly body: string; readonly data: { readonly value?: Payload.Json } } =>
  typeof value === "string" && value.length <= room
    ? { body: value, data: {} }
    : { body: cut(lines(value)), data: { value } }

/** One line a leaf: `path.to.it: leaf`. */
const lines = (value: Payload.Json, path: ReadonlyArray<string> = []): string => {
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).map(([key, inner]) => lines(inner, [...path, key])).filter((line) => line !== "")
      .join("\n")
  }
  return path.length === 0 ? String(value) : `${path.join(".")}: ${String(value)}`
}

const cut = (text: string): string => text.length <= room ? text : text.slice(0, room).replace(/[\uD800-\uDBFF]$/, "")
