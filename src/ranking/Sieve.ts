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
import { float64 } from "./Column.ts"
import type { Contenders } from "./Contenders.ts"
import * as DotKernel from "./DotKernel.ts"

export class Sieve {
  readonly #kernel: DotKernel.DotKernel
  readonly #stride: number
  readonly #rowsAt: number
  readonly #scale = float64()
  readonly #error = float64()
  #bytes: Int8Array
  #query: Int16Array
  #block: Int32Array

  /** `undefined`: not on this machine, or not with so many dimensions. */
  static make(dimensions: number): Sieve | undefined {
    const kernel = dimensions > 65_536 ? undefined : DotKernel.make()
    return kernel && new Sieve(dimensions, kernel)
  }

  private constructor(dimensions: number, kernel: DotKernel.DotKernel) {
    this.#kernel = kernel
    this.#stride = strideOf(dimensions)
    this.#rowsAt = 2 * this.#stride + 4 * block
    this.#bytes = new Int8Array()
    this.#query = new Int16Array()
    this.#block = new Int32Array()
    this.#reserve(this.#rowsAt)
  }

  /** In bytes. */
  get capacity(): number {
    return this.#bytes.length
  }

  /** `norm`: its length. `false`, and nothing changed: there is no room for more, ever. */
  set(slot: number, vector: Float32Array, norm: number): boolean {
    const at = this.#rowsAt + slot * this.#stride
    if (!this.#reserve(at + this.#stride)) return false
    const { error, scale } = quantise(vector, norm, 127, this.#bytes, at)
    this.#scale.set(slot, scale)
    this.#error.set(slot, error)
    return true
  }

  move(from: number, to: number): void {
    const at = this.#rowsAt + from * this.#stride
    this.#bytes.copyWithin(this.#rowsAt + to * this.#stride, at, at + this.#stride)
    this.#scale.set(to, this.#scale.data[from]!)
    this.#error.set(to, this.#error.data[from]!)
  }

  /** Offers `count` of the slots, or the first `count` of all. Cost: reading them, 20 ns each at 384 dimensions. */
  sift(
    vector: Float32Array,
    norm: number,
    slots: Int32Array | undefined,
    count: number,
    contenders: Contenders,
    only: ((slot: number) => boolean) | undefined
  ): void {
    const stride = this.#stride
    const range = Math.min(32_767, Math.floor((2 ** 31 - 1) / (127 * stride)))
    const query = quantise(vector, norm, range, this.#query, 0)
    const scales = this.#scale.data
    const errors = this.#error.data
    const dots = this.#block
    const slack = query.error + 1e-9 // what the arithmetic here rounds off
    for (let from = 0; from < count; from += block) {
      const length = Math.min(block, count - from)
      for (let i = 0; i < length; i++) dots[i] = slots === undefined ? from + i : slots[from + i]!
      this.#kernel.dots(2 * stride, 2 * stride + 4 * length, this.#rowsAt, stride)
      for (let i = 0; i < length; i++) {
        const slot = slots === undefined ? from + i : slots[from + i]!
        const near = dots[i]! * scales[slot]! * query.scale
        const error = errors[slot]! * (1 + query.error) + slack
        if (near + error >= contenders.bar && (only === undefined || only(slot))) {
          contenders.offer(slot, near - error, near + error)
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
