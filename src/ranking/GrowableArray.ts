/** A column of numbers that grows: a typed array, doubled where a place beyond its end is set. */
export class GrowableArray<A extends Int32Array | Float64Array> {
  /** Replaced when the column grows: read it anew after `set`. */
  data: A
  readonly #make: (length: number) => A

  constructor(make: (length: number) => A, data = make(64)) {
    this.#make = make
    this.data = data
  }

  set(at: number, value: number): void {
    if (at >= this.data.length) {
      const grown = this.#make(Math.max(at + 1, this.data.length * 2))
      grown.set(this.data)
      this.data = grown
    }
    this.data[at] = value
  }
}

export const int32 = (data?: Int32Array): GrowableArray<Int32Array> =>
  new GrowableArray((length) => new Int32Array(length), data)
export const float64 = (): GrowableArray<Float64Array> => new GrowableArray((length) => new Float64Array(length))
