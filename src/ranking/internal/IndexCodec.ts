/**
 * The binary format of an index. Another process can restore the index from it. The format has JSON for names, columns of integers, and
 * bytes of variable-length integers (varints).
 *
 * ```text
 * format   size of the texts in bytes   number of columns   texts   padding to 4   length int32 …   length int32 …   bytes
 * ```
 *
 * The texts are short lines of JSON. The first line has the head and the length of each list of names. Each further line has up to 1,024
 * names.
 *
 * Integers have the byte order of the machine. A machine with another byte order reads an unknown format number. Readers check only this
 * number. So the caller must verify the bytes, for example by a hash.
 *
 * A `Writer` writes integers of 0 or more as varints: seven bits per byte, the lowest first. The eighth bit is set if more bytes follow.
 */
/** Version of the format. Increase the version if the format changes, or if `Tokenizer` or `Bm25.read` returns other terms. */
export const format = 5

/** The parts of an encoded index. `head` is a short JSON value. `names` has the ids, the terms, and the scopes as JSON. */
export interface IndexParts {
  readonly head: unknown
  readonly names: ReadonlyArray<ReadonlyArray<string>>
  readonly columns: ReadonlyArray<Int32Array>
  readonly bytes: Uint8Array
}

/** Encoded postings. `terms` has the terms by term number. `ends` has the index in `lists` at which the posting lists of a term end. */
export interface Encoded {
  readonly terms: ReadonlyArray<string>
  readonly lists: Uint8Array
  readonly ends: Int32Array
}

/** The numbers that documents and scopes get in an encoded index, in place of their doc ids and scope numbers. */
export interface Numbering {
  /** New number of each document, by doc id; −1 if the document is left out. Within a scope, a higher doc id gets a higher number. */
  readonly docs: Int32Array
  /** New number of each scope, by scope number. Default: scopes keep their numbers. */
  readonly scopes?: Int32Array | undefined
  /** Whether every doc id that has postings has a new number. */
  readonly isWhole: boolean
}

/**
 * Removes the scopes without documents, and renumbers the others. The given `column` has the scope number of each document, the returned
 * `column` has the new one. `kept` has the remaining scopes. `scopes` has the new number of each old scope; −1 if the scope is removed. If
 * every scope has documents (`isEvery`), the numbers stay the same, and `scopes` is absent.
 */
export const scopesIn = <A>(all: ReadonlyArray<A>, column: Int32Array, isEvery: boolean) => {
  if (isEvery) return { kept: all.slice(), column }
  const scopes = new Int32Array(all.length).fill(-1)
  const kept: Array<A> = []
  for (const number of column) if (scopes[number] === -1) scopes[number] = kept.push(all[number]!) - 1
  return { kept, column: column.map((number) => scopes[number]!), scopes }
}

/** A computation in steps. The caller can pause between the steps. A step yields the work that it took, in units of 0.1 µs. */
export type Steps<A> = Generator<number, A, void>

/** Runs all steps without a pause, and returns the result. */
export const atOnce = <A>(steps: Steps<A>): A => {
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

/** Encodes the postings and the scopes of an index, in steps. Returns all parts of the encoded index except `head` and the ids. */
export function* encoding(
  scopes: ReadonlyArray<unknown>,
  columns: ReadonlyArray<Int32Array>,
  postings: Steps<Encoded>
): Steps<Omit<IndexParts, "head">> {
  const { ends, lists, terms } = yield* postings
  const texts: Array<string> = []
  for (const scope of scopes) {
    if (texts.push(JSON.stringify(scope)) % namesOfLine === 0) yield 8 * namesOfLine
  }
  return { names: [terms, texts], columns: [...columns, ends], bytes: lists }
}

/** Packs the parts of an index into one array of bytes, in steps. */
export function* pack({ bytes, columns, head, names }: IndexParts): Steps<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder()
  const lineOf = (value: unknown) => encoder.encode(`${JSON.stringify(value)}\n`)
  const lines = [lineOf([head, names.map(({ length }) => length)])]
  for (const list of names) {
    for (let from = 0; from < list.length; from += namesOfLine) {
      lines.push(lineOf(list.slice(from, from + namesOfLine)))
      yield 4 * namesOfLine
    }
  }
  const length = lines.reduce((sum, line) => sum + line.length, 0)
  const start = 3 + Math.ceil(length / 4)
  const end = columns.reduce((sum, column) => sum + 1 + column.length, start)
  const words = new Int32Array(end + Math.ceil(bytes.length / 4))
  const all = new Uint8Array(words.buffer, 0, 4 * end + bytes.length)
  words[0] = format
  words[1] = length
  words[2] = columns.length
  let to = 12
  for (const line of lines) {
    all.set(line, to)
    to += line.length
    yield line.length >> 7
  }
  let at = start
  for (const column of columns) {
    words[at] = column.length
    words.set(column, at + 1)
    at += 1 + column.length
    yield column.length >> 5
  }
  for (let from = 0; from < bytes.length; from += copied) {
    all.set(bytes.subarray(from, from + copied), 4 * end + from)
    yield copied >> 7
  }
  return all
}

/** Number of bytes to copy per step. Writing to fresh memory takes 0.8 ns per byte, so a step takes about 0.4 ms. */
const copied = 524_288

/** Largest number of names per line. */
const namesOfLine = 1_024

/**
 * Unpacks the bytes that `pack` returned, in steps. Returns `undefined` if the bytes have another format. The columns and `bytes` of the
 * result are views of `all`, so `all` must not be changed later. `all` must begin at a multiple of 4 in its buffer.
 */
export function* unpack(all: Uint8Array): Steps<IndexParts | undefined> {
  if (all.length < 12) return undefined
  const words = new Int32Array(all.buffer, all.byteOffset, all.length >> 2)
  if (words[0] !== format) return undefined
  const decoder = new TextDecoder()
  let from = 12
  const read = (): unknown => {
    const end = all.indexOf(newline, from)
    const line = decoder.decode(all.subarray(from, end))
    from = end + 1
    return JSON.parse(line)
  }
  const [head, lengths] = read() as [unknown, ReadonlyArray<number>] // `pack` wrote it
  const names: Array<Array<string>> = []
  for (const length of lengths) {
    const list: Array<string> = []
    while (list.length < length) {
      for (const name of read() as ReadonlyArray<string>) list.push(name) // `pack` wrote it
      yield 8 * namesOfLine
    }
    names.push(list)
  }
  const columns: Array<Int32Array> = []
  let at = 3 + Math.ceil(words[1]! / 4) // `words[1]` exists, since `all` has at least 12 bytes
  for (let left = words[2]!; left > 0; left--) {
    columns.push(words.subarray(at + 1, at + 1 + words[at]!))
    at += 1 + words[at]!
  }
  return { head, names, columns, bytes: all.subarray(4 * at) }
}
const newline = 10

/** Writes integers below 2^31 as varints into a growing array of bytes. */
export class Writer {
  #bytes: Uint8Array
  #used = 0

  /** Makes a writer with room for `size` bytes, but at least for 64. The room grows as needed. */
  constructor(size: number) {
    this.#bytes = new Uint8Array(Math.max(64, size))
  }

  write(number: number): void {
    if (this.#used + 5 > this.#bytes.length) this.#makeRoom(5)
    let rest = number
    while (rest > 127) {
      this.#bytes[this.#used++] = (rest & 127) | 128
      rest >>>= 7
    }
    this.#bytes[this.#used++] = rest
  }

  /** Appends bytes that another `Writer` wrote. */
  append(bytes: Uint8Array): void {
    this.#makeRoom(bytes.length)
    this.#bytes.set(bytes, this.#used)
    this.#used += bytes.length
  }

  #makeRoom(length: number): void {
    if (this.#used + length <= this.#bytes.length) return
    const grown = new Uint8Array(Math.max(this.#used + length, 2 * this.#bytes.length))
    grown.set(this.#bytes)
    this.#bytes = grown
  }

  /** Number of bytes written so far. */
  get length(): number {
    return this.#used
  }

  /** Returns the bytes written so far, as a view that is valid until the next `write`. */
  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#used)
  }
}

/** Decodes all integers that a `Writer` wrote, in one loop. A call per integer would take several times as long. */
export const readNumbers = (bytes: Uint8Array): Int32Array => {
  const numbers = new Int32Array(bytes.length)
  let count = 0
  let number = 0
  let shift = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!
    number |= (byte & 127) << shift
    shift += 7
    if (byte < 128) {
      numbers[count++] = number
      number = 0
      shift = 0
    }
  }
  return numbers.subarray(0, count)
}
