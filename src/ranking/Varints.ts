/** Whole numbers from 0 up in as few bytes as they need: seven bits to a byte, the lowest first, the eighth where more follow. */

/** Writes numbers below 2^31 into bytes that grow. */
export class Writer {
  #bytes: Uint8Array
  #used = 0

  /** `size`: how many bytes to begin with. */
  constructor(size: number) {
    this.#bytes = new Uint8Array(Math.max(64, size))
  }

  write(number: number): void {
    if (this.#used + 5 > this.#bytes.length) {
      const grown = new Uint8Array(2 * this.#bytes.length)
      grown.set(this.#bytes)
      this.#bytes = grown
    }
    let rest = number
    while (rest > 127) {
      this.#bytes[this.#used++] = (rest & 127) | 128
      rest >>>= 7
    }
    this.#bytes[this.#used++] = rest
  }

  /** All that was written: a view, good until the next `write`. */
  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#used)
  }
}

/** Reads what a `Writer` wrote. Beyond the end every number is 0. */
export class Reader {
  readonly #bytes: Uint8Array
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  read(): number {
    let byte = this.#bytes[this.#at++] ?? 0
    if (byte < 128) return byte
    let number = byte & 127
    for (let shift = 7; byte > 127; shift += 7) {
      byte = this.#bytes[this.#at++] ?? 0
      number |= (byte & 127) << shift
    }
    return number
  }
}
