/**
 * Vectors in a quarter of their size, which say of each cosine within what bounds it lies; so that few have to be computed
 * and still none of the best is missed.
 *
 * ```text
 * x ≈ s·q                      a row of length 1 and its 8-bit numbers; e = |x − s·q|
 * y ≈ t·r                      the query likewise, by 16 bits; f = |y − t·r|
 * |x·y − s·t·(q·r)| ≤ e·|y| + |s·q|·f ≤ e + (1 + e)·f
 * ```
 *
 * by Cauchy and Schwarz. At 384 dimensions e is about .007.
 */
import { float64, type TopKBounds } from "./DocIds.ts"

/** Quantised vectors, by doc id, in one WebAssembly memory. */
export class QuantizedVectors {
  readonly #kernel: DotKernel
  readonly #stride: number
  readonly #rowsAt: number
  readonly #scale = float64()
  readonly #error = float64()
  #bytes: Int8Array
  #query: Int16Array
  #block: Int32Array

  /** Makes an empty one; `undefined`: this machine has no such instructions or no room, or the dimensions are too many. */
  static make(dimensions: number): QuantizedVectors | undefined {
    const kernel = dimensions > 65_536 ? undefined : makeKernel()
    return kernel && new QuantizedVectors(dimensions, kernel)
  }

  private constructor(dimensions: number, kernel: DotKernel) {
    this.#kernel = kernel
    this.#stride = strideOf(dimensions)
    this.#rowsAt = 2 * this.#stride + 4 * block
    this.#bytes = new Int8Array()
    this.#query = new Int16Array()
    this.#block = new Int32Array()
    this.#reserve(this.#rowsAt)
  }

  /** Size of the memory, in bytes. */
  get capacity(): number {
    return this.#bytes.length
  }

  /** Sets the vector of a doc id. `norm`: its length. `false`, and nothing changed: there is no room for more, ever. */
  set(doc: number, vector: Float32Array, norm: number): boolean {
    const at = this.#rowsAt + doc * this.#stride
    if (!this.#reserve(at + this.#stride)) return false
    const { error, scale } = quantise(vector, norm, 127, this.#bytes, at)
    this.#scale.set(doc, scale)
    this.#error.set(doc, error)
    return true
  }

  move(from: number, to: number): void {
    const at = this.#rowsAt + from * this.#stride
    this.#bytes.copyWithin(this.#rowsAt + to * this.#stride, at, at + this.#stride)
    this.#scale.set(to, this.#scale.data[from]!)
    this.#error.set(to, this.#error.data[from]!)
  }

  /** Offers `count` of the doc ids, or the first `count` of all. Cost: reading them, 20 ns each at 384 dimensions. */
  offerBounds(
    vector: Float32Array,
    norm: number,
    docs: Int32Array | undefined,
    count: number,
    bounds: TopKBounds,
    only: ((doc: number) => boolean) | undefined
  ): void {
    const stride = this.#stride
    const range = Math.min(32_767, Math.floor((2 ** 31 - 1) / (127 * stride)))
    const query = quantise(vector, norm, range, this.#query, 0)
    const scales = this.#scale.data
    const errors = this.#error.data
    const dots = this.#block
    const slack = query.error + 1e-9 // the arithmetic here rounds off less than 1e-9
    for (let from = 0; from < count; from += block) {
      const length = Math.min(block, count - from)
      for (let i = 0; i < length; i++) dots[i] = docs === undefined ? from + i : docs[from + i]!
      this.#kernel.dots(2 * stride, 2 * stride + 4 * length, this.#rowsAt, stride)
      for (let i = 0; i < length; i++) {
        const doc = docs === undefined ? from + i : docs[from + i]!
        const near = dots[i]! * scales[doc]! * query.scale
        const error = errors[doc]! * (1 + query.error) + slack
        if (near + error >= bounds.bar && (only === undefined || only(doc))) {
          bounds.offer(doc, near - error, near + error)
        }
      }
    }
  }

  #reserve(end: number): boolean {
    if (end <= this.#bytes.length) return true
    const { memory } = this.#kernel
    const size = memory.buffer.byteLength
    try {
      if (end > size) memory.grow(Math.ceil(Math.max(end - size, size / 8) / page))
    } catch {
      return false
    }
    this.#bytes = new Int8Array(memory.buffer)
    this.#query = new Int16Array(memory.buffer, 0, this.#stride)
    this.#block = new Int32Array(memory.buffer, 2 * this.#stride, block)
    return true
  }
}

/** Rows at a time: what is computed of them is still in the cache when it is looked at. */
const block = 1_024
const page = 65_536

/** Bytes of a row: the dimensions, rounded up to a multiple of 16. */
export const strideOf = (dimensions: number): number => Math.ceil(dimensions / 16) * 16

/** Whole numbers up to `range` and their scale; and how far off they are, as a length. What pads a row stays 0. */
const quantise = (
  vector: Float32Array,
  norm: number,
  range: number,
  into: Int8Array | Int16Array,
  at: number
): { readonly scale: number; readonly error: number } => {
  let most = 0
  for (let i = 0; i < vector.length; i++) {
    const size = Math.abs(vector[i]!)
    if (size > most) most = size
  }
  if (most === 0) {
    into.fill(0, at, at + vector.length)
    return { scale: 0, error: 0 }
  }
  const whole = range / most
  const scale = most / range
  let squares = 0
  for (let i = 0; i < vector.length; i++) {
    const exact = vector[i]!
    const rounded = Math.round(exact * whole)
    into[at + i] = rounded
    const off = exact - rounded * scale
    squares += off * off
  }
  return { scale: scale / norm, error: Math.sqrt(squares) / norm }
}

/**
 * Dot products of one query of 16-bit numbers with many rows of 8-bit ones, by the SIMD instructions of WebAssembly.
 * Integers, so that the result is exact: rows times query must stay below 2³¹. Memory, in bytes:
 *
 * ```text
 * 0     the query, 2 · stride      stride: numbers a row, a multiple of 16, zeros behind the last
 * at    row numbers, 4 each        replaced by the dot products, up to `end`
 * rows  the rows, stride each
 * ```
 */
export interface DotKernel {
  readonly memory: {
    readonly buffer: ArrayBuffer
    /** Grows by pages of 64 KiB; old views of the buffer are empty from then on. Throws a RangeError where there is no room. */
    readonly grow: (pages: number) => number
  }
  /** Computes the dot products of at least one row: `at` is below `end`. */
  readonly dots: (at: number, end: number, rows: number, stride: number) => void
}

/** Makes a kernel with a memory of its own, of one page. `undefined`: this machine has no such instructions, or no room. */
export const makeKernel = (): DotKernel | undefined => {
  try {
    return compiled === undefined ? undefined : new compiled.Instance(compiled.module).exports
  } catch {
    return undefined // too many memories: the address space is reserved for each
  }
}

interface Engine {
  readonly validate: (bytes: Uint8Array) => boolean
  readonly Module: new(bytes: Uint8Array) => object
  readonly Instance: new(module: object) => { readonly exports: DotKernel }
}

/** The module as text: each line has the bytes, and what they say. */
export const listing = `
00 61 73 6d 01 00 00 00                          ; module, version 1
01 08 01 60 04 7f 7f 7f 7f 00                    ; type (param i32 i32 i32 i32)
03 02 01 00                                      ; func of that type
05 03 01 00 01                                   ; memory of 1 page
07 11 02                                         ; export
06 6d 65 6d 6f 72 79 02 00                       ;   "memory"
04 64 6f 74 73 00 00                             ;   "dots"
0a a9 01 01 a6 01                                ; code; 0 at, 1 end, 2 rows, 3 stride
02 03 7f 02 7b                                   ; locals 4 row, 5 stop, 6 query, 7 even, 8 odd
03 40                                            ; loop
20 02                                            ; local.get 2
20 00                                            ; local.get 0
28 02 00                                         ; i32.load 0
20 03                                            ; local.get 3
6c                                               ; i32.mul
6a                                               ; i32.add
22 04                                            ; local.tee 4
20 03                                            ; local.get 3
6a                                               ; i32.add
21 05                                            ; local.set 5
41 00                                            ; i32.const 0
21 06                                            ; local.set 6
fd 0c 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 ; v128.const 0
22 07                                            ; local.tee 7
21 08                                            ; local.set 8
03 40                                            ; loop
20 04                                            ; local.get 4
fd 01 03 00                                      ; v128.load8x8_s 0
20 06                                            ; local.get 6
fd 00 04 00                                      ; v128.load 0
fd ba 01                                         ; i32x4.dot_i16x8_s
20 07                                            ; local.get 7
fd ae 01                                         ; i32x4.add
21 07                                            ; local.set 7
20 04                                            ; local.get 4
fd 01 03 08                                      ; v128.load8x8_s 8
20 06                                            ; local.get 6
fd 00 04 10                                      ; v128.load 16
fd ba 01                                         ; i32x4.dot_i16x8_s
20 08                                            ; local.get 8
fd ae 01                                         ; i32x4.add
21 08                                            ; local.set 8
20 06                                            ; local.get 6
41 20                                            ; i32.const 32
6a                                               ; i32.add
21 06                                            ; local.set 6
20 04                                            ; local.get 4
41 10                                            ; i32.const 16
6a                                               ; i32.add
22 04                                            ; local.tee 4
20 05                                            ; local.get 5
49                                               ; i32.lt_u
0d 00                                            ; br_if 0
0b                                               ; end
20 00                                            ; local.get 0
20 07                                            ; local.get 7
20 08                                            ; local.get 8
fd ae 01                                         ; i32x4.add
22 07                                            ; local.tee 7
fd 1b 00                                         ; i32x4.extract_lane 0
20 07                                            ; local.get 7
fd 1b 01                                         ; i32x4.extract_lane 1
6a                                               ; i32.add
20 07                                            ; local.get 7
fd 1b 02                                         ; i32x4.extract_lane 2
6a                                               ; i32.add
20 07                                            ; local.get 7
fd 1b 03                                         ; i32x4.extract_lane 3
6a                                               ; i32.add
36 02 00                                         ; i32.store 0
20 00                                            ; local.get 0
41 04                                            ; i32.const 4
6a                                               ; i32.add
22 00                                            ; local.tee 0
20 01                                            ; local.get 1
49                                               ; i32.lt_u
0d 00                                            ; br_if 0
0b                                               ; end
0b                                               ; end
`

const compiled = ((): (Engine & { readonly module: object }) | undefined => {
  // the types of WebAssembly come with a browser's, which are not ours to ask for: hence `as`
  const engine = Reflect.get(globalThis, "WebAssembly") as Engine | undefined
  const bytes = Uint8Array.from(
    listing.match(/\b[0-9a-f]{2}\b(?=[^;\n]*;)/g) ?? [],
    (byte) => Number.parseInt(byte, 16)
  )
  try {
    if (engine?.validate(bytes) !== true) return undefined
    return {
      validate: engine.validate,
      Module: engine.Module,
      Instance: engine.Instance,
      module: new engine.Module(bytes)
    }
  } catch {
    return undefined // a host may forbid code that is made while it runs
  }
})()
