/** SHA-256, HMAC and secret bytes, made with node:crypto. The import `#hash` is this module in Node, Bun and Deno. */
import { createHmac, hash, randomBytes } from "node:crypto"

/** Returns the SHA-256 of the content as 64 hex digits. A text is hashed as UTF-8. */
export const sha256 = (content: string | Uint8Array): string => hash("sha256", content)

/** Hashes a text, encoded as UTF-8, with SHA-256. Returns 32 bytes. */
export const sha256Bytes = (text: string): Uint8Array => hash("sha256", text, "buffer")

/** Returns the HMAC-SHA-256 (RFC 2104) of the text as hex digits. */
export const sign = (key: string, text: string | Uint8Array): string =>
  createHmac("sha256", key).update(text).digest("hex")

/** Makes a signer for content in parts. `add` takes the next part. `end` returns what `sign` returns for the whole content. */
export const signer = (key: string) => {
  const hmac = createHmac("sha256", key)
  return { add: (bytes: Uint8Array): void => void hmac.update(bytes), end: (): string => hmac.digest("hex") }
}

/** Returns `length` random bytes from the operating system's cryptographic generator. */
export const secretBytes = (length: number): Uint8Array => new Uint8Array(randomBytes(length))
