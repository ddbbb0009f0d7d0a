/**
 * The target of the import `#builtins` in browsers. Node, Bun and Deno use `BuiltinsNode`. In browsers, files are accessed only through the
 * platform's `FileSystem`, and the snapshot is not compressed.
 */
type Done = (error: Error | null, result: Uint8Array) => void

/** Stands in for Node's file system, which browsers do not have. `lstat` always fails; the vault then asks the platform's `FileSystem`. */
export const fs = { lstat: (_path: string, done: (error: Error) => void): void => done(new Error("Node is missing")) }

/** The numbers by which Node identifies the parameters of `brotliCompress`. */
export const constants = { BROTLI_PARAM_QUALITY: 1, BROTLI_PARAM_LGWIN: 2, BROTLI_PARAM_SIZE_HINT: 5 }

/** Passes the bytes to `done` uncompressed, unlike Node's function. */
export const brotliCompress = (bytes: Uint8Array, _options: object, done: Done): void => done(null, bytes)

/** Passes the bytes to `done` unchanged, since `brotliCompress` did not compress them. */
export const brotliDecompress = (bytes: Uint8Array, _options: object, done: Done): void => done(null, bytes)
