/**
 * Vectors quantised to 8 bits per component, which take a quarter of the memory. They give a lower and an upper bound of each cosine. A
 * search therefore computes only a few exact cosines, and still finds all of the nearest vectors.
 *
 * ```text
 * x ≈ s·q                      a vector of length 1, its scale s and its 8-bit integers q; e = |x − s·q|
 * y ≈ t·r                      the query, likewise with 16-bit integers; f = |y − t·r|
 * |x·y − s·t·(q·r)| ≤ e·|y| + |s·q|·f ≤ e + (1 + e)·f
 * ```
 *
 * The last line follows from the Cauchy–Schwarz inequality. At 384 dimensions e is about .007.
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

  /** Makes an empty set of vectors. Returns `undefined` if there is no WebAssembly SIMD or no memory, or above 65,536 dimensions. */
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

  /** Sets the vector of a doc id. `norm` is the vector's length. Returns false, and sets nothing, if the memory cannot grow. */
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

  /**
   * Adds to `bounds` the doc ids that may be among the nearest, each with a lower and an upper bound of its cosine. Examines the first
   * `count` entries of `docs`; without `docs`, the doc ids 0 to `count` − 1. Skips doc ids that `only` rejects. Cost: 20 ns per vector of
   * 384 dimensions.
   */
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
    const slack = query.error + 1e-9 // rounding errors of this computation are below 1e-9
    for (let from = 0; from < count; from += block) {
      const length = Math.min(block, count - from)
      for (let i = 0; i < length; i++) dots[i] = docs === undefined ? from + i : docs[from + i]!
      this.#kernel.dots(2 * stride, 2 * stride + 4 * length, this.#rowsAt, stride)
      for (let i = 0; i < length; i++) {
        const doc = docs === undefined ? from + i : docs[from + i]!
        const near = dots[i]! * scales[doc]! * query.scale
        const error = errors[doc]! * (1 + query.error) + slack
        if (near + error >= bounds.threshold && (only === undefined || only(doc))) {
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

/** Number of rows per call of the kernel. The number is small, so that the results are still in the processor's cache when read. */
const block = 1_024
const page = 65_536

/** Returns the size of a row in bytes: the number of dimensions, rounded up to a multiple of 16. */
export const strideOf = (dimensions: number): number => Math.ceil(dimensions / 16) * 16

/**
 * Writes a vector to `into`, as integers from −`range` to `range`. The returned `scale` times these integers is about the vector divided by
 * its length `norm`. The returned `error` is the length of the difference between these two vectors.
 */
const quantise = (
  vector: Float32Array,
  norm: number,
  range: number,
  into: Int8Array | Int16Array,
  at: number
): { readonly scale: number; readonly error: number } => {
  let largest = 0
  for (let i = 0; i < vector.length; i++) {
    const size = Math.abs(vector[i]!)
    if (size > largest) largest = size
  }
  if (largest === 0) {
    into.fill(0, at, at + vector.length)
    return { scale: 0, error: 0 }
  }
  const whole = range / largest
  const scale = largest / range
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
 * Computes the dot products of a query and many rows with the SIMD instructions of WebAssembly. The query has 16-bit integers, the rows
 * have 8-bit integers. Results below 2³¹ are exact. Layout of the memory, by address in bytes:
 *
 * ```text
 * 0     the query, 2 · stride bytes      stride: integers per row, a multiple of 16, padded with zeros
 * at    row numbers, 4 bytes each        replaced by the dot products, up to `end`
 * rows  the rows, stride bytes each
 * ```
 */
export interface DotKernel {
  readonly memory: {
    readonly buffer: ArrayBuffer
    /** Adds pages of 64 KiB to the memory. Earlier views of the buffer become empty. Throws a RangeError if there is no room. */
    readonly grow: (pages: number) => number
  }
  /** Replaces each row number from address `at` to address `end` by the row's dot product. `at` must be below `end`. */
  readonly dots: (at: number, end: number, rows: number, stride: number) => void
}

/** Makes a kernel with a memory of one page. Returns `undefined` if there is no WebAssembly SIMD, or no room for the memory. */
export const makeKernel = (): DotKernel | undefined => {
  try {
    compiled ??= compile()
    return compiled === "unsupported" ? undefined : new compiled.Instance(compiled.module).exports
  } catch {
    return undefined // no address space is left for the memory of the instance
  }
}

interface Engine {
  readonly validate: (bytes: Uint8Array) => boolean
  readonly Module: new(bytes: Uint8Array) => object
  readonly Instance: new(module: object) => { readonly exports: DotKernel }
}

/** The WebAssembly module as text: each line has bytes in hexadecimal, and what they encode. */
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

interface Compiled extends Engine {
  readonly module: object
}

/** The compiled module. `undefined` before the first call of `makeKernel`. */
let compiled: Compiled | "unsupported" | undefined

const compile = (): Compiled | "unsupported" => {
  // the cast is needed, since the types of WebAssembly are part of the DOM's types, which this library does not load
  const engine = Reflect.get(globalThis, "WebAssembly") as Engine | undefined
  const bytes = Uint8Array.from(
    listing.match(/\b[0-9a-f]{2}\b(?=[^;\n]*;)/g) ?? [],
    (byte) => Number.parseInt(byte, 16)
  )
  try {
    if (engine?.validate(bytes) !== true) return "unsupported"
    return {
      validate: engine.validate,
      Module: engine.Module,
      Instance: engine.Instance,
      module: new engine.Module(bytes)
    }
  } catch {
    return "unsupported" // a host may forbid code that is generated at run time
  }
}
