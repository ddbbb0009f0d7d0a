/**
 * SHA-256, HMAC and secret bytes without node:crypto. The import `#hash` resolves to this module if the export condition `node` is not set,
 * as in browsers. WebCrypto is not used for hashes, because it is asynchronous. The module `HashNode` returns the same hashes.
 */
import { hmac } from "@noble/hashes/hmac.js"
import * as sha2 from "@noble/hashes/sha2.js"
import { bytesToHex } from "@noble/hashes/utils.js"

const bytesOf = (content: string | Uint8Array): Uint8Array =>
  typeof content === "string" ? new TextEncoder().encode(content) : content

/** Returns the SHA-256 of the content as 64 hex digits. A string is hashed as UTF-8. */
export const sha256 = (content: string | Uint8Array): string => bytesToHex(sha2.sha256(bytesOf(content)))

/** Returns the SHA-256 of a text in UTF-8 as 32 bytes. */
export const sha256Bytes = (text: string): Uint8Array => sha2.sha256(bytesOf(text))

/** Returns the HMAC-SHA-256 (RFC 2104) of the text as hex digits. */
export const sign = (key: string, text: string | Uint8Array): string =>
  bytesToHex(hmac(sha2.sha256, bytesOf(key), bytesOf(text)))

/** Makes a signer for content in parts. `add` takes the next part. `end` returns what `sign` returns for the whole content. */
export const signer = (key: string) => {
  const state = hmac.create(sha2.sha256, bytesOf(key))
  return { add: (bytes: Uint8Array): void => void state.update(bytes), end: (): string => bytesToHex(state.digest()) }
}

/** Returns `length` cryptographically random bytes. The platform's generator returns at most 65,536 bytes per call. */
export const secretBytes = (length: number): Uint8Array => {
  const drawn = new Uint8Array(length)
  for (let at = 0; at < length; at += 65_536) globalThis.crypto.getRandomValues(drawn.subarray(at, at + 65_536))
  return drawn
}
