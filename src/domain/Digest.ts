/** Fingerprints. The one module that may import node:crypto. */
import { createHmac, hash, randomBytes } from "node:crypto"

/** Hex; of a text, its UTF-8. */
export const sha256 = (content: string | Uint8Array): string => hash("sha256", content)

/** Raw bytes of the same. */
export const sha256Bytes = (text: string): Uint8Array => hash("sha256", text, "buffer")

/** HMAC-SHA-256 (RFC 2104), hex: what only the holder of `key` can have written. */
export const sign = (key: string, text: string | Uint8Array): string =>
  createHmac("sha256", key).update(text).digest("hex")

/** Draws `length` bytes from the operating system's cryptographic generator. Only `SecureRandom` calls it. */
export const secretBytes = (length: number): Uint8Array => new Uint8Array(randomBytes(length))

/** Keys sorted at every depth by UTF-16 unit, `undefined` dropped, numbers as JSON writes them. */
export const canonicalJson = (json: unknown): string => JSON.stringify(sorted(json)) ?? "null"

/** Seed 3's name: `sha256`. */
export const defaultHashFn: (text: string) => string = sha256

const sorted = (json: unknown): unknown => {
  if (Array.isArray(json)) return json.map(sorted)
  if (typeof json !== "object" || json === null) return json
  // entries, not assignment: a key "__proto__" stays a key
  return Object.fromEntries(
    Object.entries(json).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => [key, sorted(value)])
  )
}
