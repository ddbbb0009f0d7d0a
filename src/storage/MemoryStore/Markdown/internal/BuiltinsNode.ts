/** Node's file system and compression: the target of `#builtins` under Node, Bun and Deno. No other module imports node:fs or node:zlib. */
/** Node's file system. */
export * as fs from "node:fs"
export { brotliCompress, brotliDecompress, constants } from "node:zlib"
