/**
 * What stands around a record's body in the file of a note that somebody else wrote. With it the history can give the
 * author's text back, byte for byte, without keeping the body twice. A file in our form has none: it is printed anew.
 */
import * as Either from "effect/Either"
import * as Frontmatter from "./Frontmatter.ts"

export interface Frame {
  /** Path of the file. */
  readonly path: string
  /** Text before the body, and after it. */
  readonly head: string
  readonly tail: string
}

/** The frame of a file whose text holds `body`; `undefined` where it does not. */
export const make = (path: string, text: string, body: string): Frame | undefined => {
  const at = text.lastIndexOf(body)
  return at < 0 ? undefined : { path, head: text.slice(0, at), tail: text.slice(at + body.length) }
}

/** The text of the file. */
export const textOf = ({ head, tail }: Frame, body: string): string => head + body + tail

/** Names of the properties in the frontmatter; none where it cannot be parsed. */
export const propertiesOf = ({ head }: Frame): ReadonlyArray<string> =>
  Either.match(Frontmatter.split(head), { onLeft: () => [], onRight: ([matter]) => Object.keys(matter) })
