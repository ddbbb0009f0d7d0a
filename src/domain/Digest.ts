/**
 * Computes SHA-256, HMAC signatures, secret bytes and canonical JSON. The field `imports` of package.json maps `#hash` to node:crypto in
 * Node, Bun and Deno, and to plain JavaScript elsewhere.
 */
import * as Hash from "#hash"

/** Returns the SHA-256 as 64 hex digits. A text is hashed as UTF-8. */
export const sha256 = (content: string | Uint8Array): string => Hash.sha256(content)

/** Returns the SHA-256 of a text in UTF-8 as 32 bytes. */
export const sha256Bytes = (text: string): Uint8Array => Hash.sha256Bytes(text)

/** Returns the HMAC-SHA-256 (RFC 2104) as hex digits: a signature that only a holder of `key` can make. */
export const sign = (key: string, text: string | Uint8Array): string => Hash.sign(key, text)

/** Computes the signature of content that is passed in several parts. */
export interface Signer {
  readonly add: (bytes: Uint8Array) => void
  /** Returns the signature of all added bytes, which equals the result of `sign` for the same bytes. Call `end` only once. */
  readonly end: () => string
}

/** Makes a signer, with which a caller can sign long content part by part, and let other fibers run between the parts. */
export const signer = (key: string): Signer => Hash.signer(key)

/** Draws `length` bytes from the operating system's cryptographic generator. For `SecureRandom` only. */
export const secretBytes = (length: number): Uint8Array => Hash.secretBytes(length)

/**
 * Returns JSON text in which the keys of objects are sorted by UTF-16 unit, at every depth. Omits keys whose value is `undefined`, and
 * writes numbers as `JSON.stringify` does.
 */
export const canonicalJson = (json: unknown): string => JSON.stringify(sorted(json)) ?? "null"

/** The default hash function, an alias of `sha256`. */
export const defaultHashFn: (text: string) => string = sha256

const sorted = (json: unknown): unknown => {
  if (Array.isArray(json)) return json.map(sorted)
  if (typeof json !== "object" || json === null) return json
  // the assignment `object["__proto__"] = value` would set the prototype; `fromEntries` adds a key
  return Object.fromEntries(
    Object.entries(json).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => [key, sorted(value)])
  )
}
