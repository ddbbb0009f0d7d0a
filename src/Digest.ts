/**
 * SHA-256 of text. It uses node:crypto in Node, Bun and Deno, and plain JavaScript elsewhere (`#hash` in `imports` of package.json).
 *
 * ```ts
 * import { Digest } from "effect-memory"
 *
 * Digest.sha256("Drinks tea.").length // => 64
 * ```
 */
export { defaultHashFn, sha256 } from "./domain/Digest.ts"
