/**
 * The target of the import `#builtins` in browsers, in place of `BuiltinsNode`. Files are then accessed only through the platform's
 * `FileSystem`, and the snapshot is not compressed.
 */
type Done = (error: Error | null, result: Uint8Array) => void

/** An empty object. `DirectFiles` uses it only if the platform's `FileSystem` is Node's own, which is never so in browsers. */
export const fs = {}

/** The numbers by which Node identifies the parameters of `brotliCompress`. */
export const constants = { BROTLI_PARAM_QUALITY: 1, BROTLI_PARAM_LGWIN: 2, BROTLI_PARAM_SIZE_HINT: 5 }

/** Passes the bytes on unchanged, whereas Node's function compresses them. */
export const brotliCompress = (bytes: Uint8Array, _options: object, done: Done): void => done(null, bytes)

/** Passes the bytes on unchanged, since `brotliCompress` did not compress them. */
export const brotliDecompress = (bytes: Uint8Array, _options: object, done: Done): void => done(null, bytes)
