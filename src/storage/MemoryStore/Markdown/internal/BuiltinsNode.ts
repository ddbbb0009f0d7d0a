/** Node's files and compression: what `#builtins` is under Node, Bun and Deno. The one module that imports node:fs and node:zlib. */
/** Node's file system. */
export * as fs from "node:fs"
export { brotliCompress, brotliDecompress, constants } from "node:zlib"
