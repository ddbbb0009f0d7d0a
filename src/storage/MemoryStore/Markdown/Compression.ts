/** Compression of bytes, on Node's thread pool and not on the event loop. The one module that imports node:zlib. */
import * as Effect from "effect/Effect"
import { brotliDecompress, deflateRaw, inflateRaw } from "node:zlib"

/** Deflate's scale goes from 0 to 9. At 4 a snapshot is smaller than half of the notes (`Snapshots.test.ts`) */
const level = 4

/** Compresses bytes. Memory is all that can make it fail, so a failure is a defect. */
export const compress = (bytes: Uint8Array): Effect.Effect<Uint8Array> =>
  Effect.async<Uint8Array>((resume) => {
    const chunkSize = Math.max(1_024, bytes.length >> 1)
    deflateRaw(
      bytes,
      { level, chunkSize },
      (error, result) => resume(error ? Effect.die(error) : Effect.succeed(result))
    )
  })

/** How bytes were compressed: as `compress` does it, or as an earlier release did. */
export type Format = "deflate" | "brotli"

/**
 * Returns what was compressed, `length` bytes. Fails where the bytes are not of the format. Another length costs time, and is
 * no error.
 */
export const decompress = (
  bytes: Uint8Array,
  length: number,
  format: Format = "deflate"
): Effect.Effect<Uint8Array, Error> =>
  Effect.async<Uint8Array, Error>((resume) => {
    const chunkSize = Math.max(1_024, length + 16) // in one piece
    const done = (error: Error | null, result: Uint8Array) =>
      resume(error ? Effect.fail(error) : Effect.succeed(result))
    if (format === "brotli") brotliDecompress(bytes, { chunkSize }, done)
    else inflateRaw(bytes, { chunkSize }, done)
  })
