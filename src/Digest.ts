/**
 * Computes the SHA-256 hash of a text. Node, Bun and Deno use `node:crypto`; other platforms use an implementation in plain JavaScript.
 *
 * ```ts
 * import { Digest } from "effect-memory"
 *
 * Digest.sha256("Drinks tea.").length // => 64
 * ```
 */
export { defaultHashFn, sha256 } from "./domain/Digest.ts"
