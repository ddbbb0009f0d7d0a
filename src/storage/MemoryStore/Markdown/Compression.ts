/** Compression of bytes, on Node's thread pool and not on the event loop. The one module that imports node:zlib. */
import * as Effect from "effect/Effect"
import { brotliCompress, brotliDecompress, constants } from "node:zlib"

/** Brotli's scale goes from 0 to 11. At 2 prose shrinks to three eighths, at 100 MB a second; 5 takes three times as long for a tenth less. */
const quality = 2

/** Compresses bytes. Memory is all that can make it fail, so a failure is a defect. */
export const compress = (bytes: Uint8Array): Effect.Effect<Uint8Array> =>
  Effect.async<Uint8Array>((resume) => {
    const params = {
      [constants.BROTLI_PARAM_QUALITY]: quality,
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length
    }
    const chunkSize = Math.max(1_024, bytes.length >> 1)
    brotliCompress(bytes, { params, chunkSize }, (error, result) =>
      resume(error ? Effect.die(error) : Effect.succeed(result)))
  })

/**
 * Returns what `compress` was given, `length` bytes. Fails where the bytes are nothing that `compress` made. Another length
 * costs time, and is no error.
 */
export const decompress = (bytes: Uint8Array, length: number): Effect.Effect<Uint8Array, Error> =>
  Effect.async<Uint8Array, Error>((resume) => {
    const chunkSize = Math.max(1_024, length + 16) // in one piece
    brotliDecompress(
      bytes,
      { chunkSize },
      (error, result) => resume(error ? Effect.fail(error) : Effect.succeed(result))
    )
  })
