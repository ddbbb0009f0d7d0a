/** The target of the import `#builtins` under Node, Bun and Deno. Apart from the CLI, no other module imports node:fs or node:zlib. */
/** Node's file system. */
export * as fs from "node:fs"
export { brotliCompress, brotliDecompress, constants } from "node:zlib"
