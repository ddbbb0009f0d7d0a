/**
 * Stands in for `BuiltinsNode` in browsers, where `#builtins` leads to it: files are reached through the `FileSystem` of the platform, and
 * the snapshot is not compressed.
 */
type Done = (error: Error | null, result: Uint8Array) => void

/** No file system: a service that is not Node's own is never reached directly (`DirectFiles`). */
export const fs = {}

/** The names of the parameters that are passed to `brotliCompress`. */
export const constants = { BROTLI_PARAM_QUALITY: 1, BROTLI_PARAM_LGWIN: 2, BROTLI_PARAM_SIZE_HINT: 5 }

/** Hands the bytes back as they are. */
export const brotliCompress = (bytes: Uint8Array, _options: object, done: Done): void => done(null, bytes)

/** Hands the bytes back as they are. */
export const brotliDecompress = (bytes: Uint8Array, _options: object, done: Done): void => done(null, bytes)
