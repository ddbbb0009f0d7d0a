/**
 * Hashes of text: SHA-256, and the short hash that Deuz names its records by. `#hash` is node:crypto under Node, and plain JavaScript elsewhere (package.json,
 * `imports`).
 *
 * ```ts
 * import { Digest } from "effect-memory"
 *
 * Digest.sha256("Drinks tea.").length // => 64
 * ```
 */
export { defaultHashFn, sha256 } from "./domain/Digest.ts"
