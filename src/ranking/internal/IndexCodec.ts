/**
 * The bytes of an index: names and columns of numbers as one run for the next process, and single numbers in few bytes.
 *
 * ```text
 * format   bytes of the texts   number of columns   texts   padding to 4   length int32 …   length int32 …   bytes
 * ```
 *
 * The texts are lines of JSON, none of them long: the head with the length of each list of names, then the names, some a line.
 *
 * Numbers are in the byte order of the machine: to another, the format is an unknown one. Nothing is checked but that: seal it.
 *
 * A `Writer` takes whole numbers from 0 up, seven bits to a byte, the lowest first, the eighth where more follow.
 */
/** Raised with each change of what is packed, or of what is counted of a text (`Tokenizer`, `Bm25.read`). */
export const format = 4

/** The parts of an index that are packed. `head`: what JSON holds, and short. `names`: terms and ids. */
export interface IndexParts {
  readonly head: unknown
  readonly names: ReadonlyArray<ReadonlyArray<string>>
  readonly columns: ReadonlyArray<Int32Array>
  readonly bytes: Uint8Array
}

/** Terms in the order of their numbers, their lists as a `Writer` writes them, and per term where its bytes end. */
export interface Encoded {
  readonly terms: ReadonlyArray<string>
  readonly lists: Uint8Array
  readonly ends: Int32Array
}

/** Numbers by which doc ids and scopes are written: those of a scope ascend, and −1 stands for a doc id that is left out. */
export interface Numbering {
  readonly docs: Int32Array
  /** Absent: scopes have the numbers that they have. */
  readonly scopes?: Int32Array | undefined
  /** Whether no doc id that is left out has postings. */
  readonly isWhole: boolean
}

/** Numbers anew the scopes that documents have, unless it is known that all do. `column`: the scope of each document. */
export const scopesIn = <A>(all: ReadonlyArray<A>, column: Int32Array, isEvery: boolean) => {
  if (isEvery) return { kept: all.slice(), column }
  const scopes = new Int32Array(all.length).fill(-1)
  const kept: Array<A> = []
  for (const number of column) if (scopes[number] === -1) scopes[number] = kept.push(all[number]!) - 1
  return { kept, column: column.map((number) => scopes[number]!), scopes }
}

/** Work that can pause between its steps. Each yields its size, in units of 0.1 µs. */
export type Steps<A> = Generator<number, A, void>

/** Runs work to its end without a pause. */
export const atOnce = <A>(steps: Steps<A>): A => {
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

/** Encodes postings, and puts the scopes and columns of their documents beside them. */
export function* encoding(
  scopes: ReadonlyArray<unknown>,
  columns: ReadonlyArray<Int32Array>,
  postings: Steps<Encoded>
): Steps<IndexParts> {
  const { ends, lists, terms } = yield* postings
  return { head: scopes, names: [terms], columns: [...columns, ends], bytes: lists }
}

/** Packs the parts into one run of bytes, in steps. */
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

/** Bytes that are copied in a step: memory that was never written takes 0.8 ns a byte. */
const copied = 524_288

/** Names of a line. */
const namesOfLine = 1_024

/**
 * Unpacks in steps what `pack` returned, as views: the bytes are theirs from now on, and must begin at a multiple of 4. `undefined`:
 * the bytes are of another format.
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
  let at = 3 + Math.ceil(words[1]! / 4) // there are 12 bytes at least
  for (let left = words[2]!; left > 0; left--) {
    columns.push(words.subarray(at + 1, at + 1 + words[at]!))
    at += 1 + words[at]!
  }
  return { head, names, columns, bytes: all.subarray(4 * at) }
}
const newline = 10

/** Writes numbers below 2^31 into bytes that grow. */
export class Writer {
  #bytes: Uint8Array
  #used = 0

  /** Makes a writer that has room for `size` bytes to begin with, 64 at least. */
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

  /** Writes what another writer wrote. */
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

  /** Number of bytes that were written. */
  get length(): number {
    return this.#used
  }

  /** All that was written: a view, good until the next `write`. */
  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#used)
  }
}

/** Reads all that a `Writer` wrote, at once: a call for each number would take several times as long. */
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
