/** The target of the import `#builtins` under Node, Bun and Deno. Only this module and the CLI import node:fs or node:zlib. */
/** Node's file system. */
export * as fs from "node:fs"
export { brotliCompress, brotliDecompress, constants } from "node:zlib"
