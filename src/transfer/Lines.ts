/** Splits bytes into numbered lines of UTF-8 text. A line that is too long or not UTF-8 gives a `Bad`. Later lines are still read. */
import * as Chunk from "effect/Chunk"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"

/** A line of text, or the reason why a line could not be read. */
export type Line =
  | { readonly _tag: "Line"; readonly number: number; readonly text: string }
  | { readonly _tag: "Bad"; readonly number: number; readonly reason: "too long" | "not UTF-8" }

/** Default limit of the length of a line, in bytes. A record with twenty revisions of the longest allowed body fits. */
export const longestLine = 134_217_728

const lineFeed = 10
const carriageReturn = 13

/**
 * Splits a stream of bytes into lines. Blank lines are left out, but count in the line numbers. Removes a carriage return at the end of a
 * line, and a byte order mark at the start of the stream. Memory use: a few copies of one line of at most `longest` bytes, and one chunk of
 * the stream.
 */
export const split =
  (longest: number = longestLine) => <E, R>(bytes: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Line, E, R> =>
    Stream.suspend(() => {
      const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
      let number = 0
      let parts: Array<Uint8Array> = []
      let length = 0

      const end = (last: Uint8Array): Line | undefined => {
        const isLong = length + last.length > longest
        const whole = isLong ? last : joined([...parts, last], length + last.length)
        parts = []
        length = 0
        number++
        if (isLong) return { _tag: "Bad", number, reason: "too long" }
        try {
          const size = whole[whole.length - 1] === carriageReturn ? whole.length - 1 : whole.length
          const text = decoder.decode(whole.subarray(0, size))
          const line = number === 1 && text.startsWith("\ufeff") ? text.slice(1) : text
          return line.trim() === "" ? undefined : { _tag: "Line", number, text: line }
        } catch {
          return { _tag: "Bad", number, reason: "not UTF-8" } // the decoder throws only if the bytes are not UTF-8
        }
      }

      const linesOf = (piece: Uint8Array): Chunk.Chunk<Line> => {
        const lines: Array<Line> = []
        let from = 0
        for (let at = piece.indexOf(lineFeed); at >= 0; at = piece.indexOf(lineFeed, from)) {
          const line = end(piece.subarray(from, at))
          if (line !== undefined) lines.push(line)
          from = at + 1
        }
        if (from < piece.length) {
          const rest = piece.slice(from) // a copy, since the stream may reuse the buffer of `piece`
          length += rest.length
          if (length <= longest) parts.push(rest)
          else parts = []
        }
        return Chunk.unsafeFromArray(lines)
      }

      return Stream.concat(
        Stream.flattenChunks(Stream.map(bytes, linesOf)),
        Stream.suspend(() =>
          Stream.fromIterable(Option.toArray(Option.fromNullable(length > 0 ? end(new Uint8Array(0)) : undefined)))
        )
      )
    })

const joined = (parts: ReadonlyArray<Uint8Array>, length: number): Uint8Array => {
  const [first] = parts
  if (parts.length === 1 && first !== undefined) return first
  const whole = new Uint8Array(length)
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}
