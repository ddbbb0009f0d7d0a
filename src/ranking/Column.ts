/** A column of numbers that grows: a typed array, doubled where a place beyond its end is set. */
export class Column<A extends Int32Array | Float64Array> {
  /** Replaced when the column grows: read it anew after `set`. */
  data: A
  readonly #make: (length: number) => A

  constructor(make: (length: number) => A) {
    this.#make = make
    this.data = make(64)
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

export const int32 = (): Column<Int32Array> => new Column((length) => new Int32Array(length))
export const float64 = (): Column<Float64Array> => new Column((length) => new Float64Array(length))
