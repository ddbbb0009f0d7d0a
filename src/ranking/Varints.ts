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
export const read = (bytes: Uint8Array): Int32Array => {
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
