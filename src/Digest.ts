/**
 * SHA-256 of text. Uses node:crypto under Node, Bun and Deno, and plain JavaScript elsewhere (`#hash` in package.json, `imports`).
 *
 * ```ts
 * import { Digest } from "effect-memory"
 *
 * Digest.sha256("Drinks tea.").length // => 64
 * ```
 */
export { defaultHashFn, sha256 } from "./domain/Digest.ts"
