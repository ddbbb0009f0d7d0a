/**
 * Names and numbers as one run of bytes, for the next process:
 *
 * ```text
 * format   bytes of the head   head: JSON   padding to 4   length int32 …   length int32 …
 * ```
 *
 * In the byte order of the machine: to another, the format is an unknown one. Nothing is checked but that: seal it.
 */

/** Raised with each change of what is packed, or of what is counted of a text (`Tokenizer`, `Bm25.read`). */
export const format = 1

export interface Packed {
  readonly head: unknown
  readonly columns: ReadonlyArray<Int32Array>
}

export const pack = ({ columns, head }: Packed): Uint8Array<ArrayBuffer> => {
  const text = new TextEncoder().encode(JSON.stringify(head))
  const start = 2 + Math.ceil(text.length / 4)
  const words = new Int32Array(columns.reduce((sum, column) => sum + 1 + column.length, start))
  const bytes = new Uint8Array(words.buffer)
  words[0] = format
  words[1] = text.length
  bytes.set(text, 8)
  let at = start
  for (const column of columns) {
    words[at] = column.length
    words.set(column, at + 1)
    at += 1 + column.length
  }
  return bytes
}

/** Columns are views: the bytes are theirs from now on, and begin at a multiple of 4. `undefined`: of another format. */
export const unpack = (bytes: Uint8Array): Packed | undefined => {
  if (bytes.length < 8) return undefined
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2)
  if (words[0] !== format) return undefined
  const end = 8 + words[1]!
  const head: unknown = JSON.parse(new TextDecoder().decode(bytes.subarray(8, end)))
  const columns: Array<Int32Array> = []
  for (let at = Math.ceil(end / 4); at < words.length; at += 1 + words[at]!) {
    columns.push(words.subarray(at + 1, at + 1 + words[at]!))
  }
  return { head, columns }
}
