/**
 * Replaces `BuiltinsNode` in browsers, as the target of `#builtins` there. Files are then accessed only through the platform's
 * `FileSystem`, and the snapshot is not compressed.
 */
type Done = (error: Error | null, result: Uint8Array) => void

/** An empty object. `DirectFiles` uses it only if the platform's service is Node's own, which is never so in browsers. */
export const fs = {}

/** The parameters of `brotliCompress`, each by the number that Node gives to it. */
export const constants = { BROTLI_PARAM_QUALITY: 1, BROTLI_PARAM_LGWIN: 2, BROTLI_PARAM_SIZE_HINT: 5 }

/** Returns the bytes unchanged; Node's function compresses them. */
export const brotliCompress = (bytes: Uint8Array, _options: object, done: Done): void => done(null, bytes)

/** Returns the bytes unchanged, since `brotliCompress` does not compress them. */
export const brotliDecompress = (bytes: Uint8Array, _options: object, done: Done): void => done(null, bytes)
