/**
 * Computes SHA-256, HMAC signatures, secret bytes and canonical JSON. The import `#hash` uses node:crypto in Node, Bun and Deno. Elsewhere,
 * it uses plain JavaScript for hashes and WebCrypto for secret bytes. The field `imports` of package.json defines this import.
 */
import * as Hash from "#hash"

/** Returns the SHA-256 hash of bytes, or of a text in UTF-8, as 64 hex digits. */
export const sha256 = (content: string | Uint8Array): string => Hash.sha256(content)

/** Returns the SHA-256 hash of a text in UTF-8, as 32 bytes. */
export const sha256Bytes = (text: string): Uint8Array => Hash.sha256Bytes(text)

/** Returns the HMAC-SHA-256 (RFC 2104) as hex digits: a signature that only a holder of `key` can make. */
export const sign = (key: string, text: string | Uint8Array): string => Hash.sign(key, text)

/** Computes the signature of content that is passed in several parts. */
export interface Signer {
  readonly add: (bytes: Uint8Array) => void
  /** Returns the signature of all added bytes, as `sign` does for the same bytes. Call `end` only once. */
  readonly end: () => string
}

/** Makes a signer for long content. The caller adds the content in parts, so other fibers can run between the parts. */
export const signer = (key: string): Signer => Hash.signer(key)

/** Returns `length` random bytes of the operating system's cryptographic generator. Only `SecureRandom` may call this function. */
export const secretBytes = (length: number): Uint8Array => Hash.secretBytes(length)

/**
 * Returns JSON text that does not depend on the order of keys, at any depth. Keys that are array indices (`0`, `1`) come first, in numeric
 * order. Other keys are sorted by UTF-16 unit. Keys with the value `undefined` are left out. Numbers are written as `JSON.stringify` does.
 */
export const canonicalJson = (json: unknown): string => JSON.stringify(sorted(json)) ?? "null"

/** Alias of `sha256` for texts, under the name that Deuz uses. */
export const defaultHashFn: (text: string) => string = sha256

const sorted = (json: unknown): unknown => {
  if (Array.isArray(json)) return json.map(sorted)
  if (typeof json !== "object" || json === null) return json
  // `Object.fromEntries` makes `__proto__` an ordinary key, while an assignment would set the prototype
  return Object.fromEntries(
    Object.entries(json).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => [key, sorted(value)])
  )
}
