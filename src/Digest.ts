/**
 * Computes the SHA-256 of a text. In Node, Bun and Deno it uses node:crypto; elsewhere it uses plain JavaScript. The entry `#hash` in
 * `imports` of package.json selects between the two.
 *
 * ```ts
 * import { Digest } from "effect-memory"
 *
 * Digest.sha256("Drinks tea.").length // => 64
 * ```
 */
export { defaultHashFn, sha256 } from "./domain/Digest.ts"
